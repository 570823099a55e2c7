"""Does the encoder–decoder of section 2.3 solve the dates if it is trained longer? Written to dates.json.

    python assets/02_sequence_to_sequence/dates.py

The data, the network and the batches of chapter 02 (for seed 0, the same ones), 1,200 updates instead of
300, so that the learning rate falls four times as slowly; three seeds. The log says how long it took. A run
that stands in the log already is not made again: delete the log to begin again.

- `seed`, `n_parameters`: which run
- `step`: the updates after which it was looked at
- `loss`, `tokens`: with a teacher, on the 500 test dates: the loss (2.4) and the share of right tokens
- `dates`: alone, on the same: exact match
- `seconds`: of training; `log["settings"]`: the rest
"""

import json
import platform
import sys
import time
from pathlib import Path

import torch

from heed.data import batches, dates, pad_batch
from heed.evaluate import exact_match
from heed.recurrent import Seq2Seq, free_run
from heed.text import Characters, Vocabulary
from heed.train import sequence_loss, train

LOG = Path(__file__).with_suffix(".json")
SETTINGS = {
    "n_train": 8000,
    "n_test": 500,
    "d_embed": 64,
    "d_hidden": 128,
    "batch": 64,
    "n_steps": 1200,
    "rate": 4e-3,
    "dtype": "float64",
}
HARDWARE = "one thread on a core of an Intel Xeon (CPU); other work ran beside it: seconds are upper bounds"


def measure(seed):
    """Train one network, and look at it every 100 updates."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)  # before the model is made: then its first weights are, too
    pairs, tests = dates(SETTINGS["n_train"], "train"), dates(SETTINGS["n_test"], "test")
    source, target = Characters.build(p.source for p in pairs), Vocabulary.build(p.target for p in pairs)

    def encoded(pairs):
        return [(source.encode(p.source), target.encode(p.target, bos=True, eos=True)) for p in pairs]

    test = pad_batch(encoded(tests))
    torch.manual_seed(seed)
    model = Seq2Seq(len(source), len(target), SETTINGS["d_embed"], SETTINGS["d_hidden"])
    run = {"seed": seed, "n_parameters": sum(p.numel() for p in model.parameters())}
    run |= {"step": [], "loss": [], "tokens": [], "dates": []}

    def watch(step):
        guesses = model(test.source, test.target_in).argmax(dim=-1)
        answers = ["".join(target.decode(row)) for row in free_run(model, test.source, n_max=12)]
        run["step"].append(step)
        run["loss"].append(round(sequence_loss(model, test).item(), 4))
        run["tokens"].append(round((guesses == test.target_out)[test.target_mask].double().mean().item(), 4))
        run["dates"].append(round(exact_match(answers, [pair.target for pair in tests]), 4))

    stream, began = batches(encoded(pairs), SETTINGS["batch"], seed), time.perf_counter()
    n_steps, rate = SETTINGS["n_steps"], SETTINGS["rate"]
    train(model, stream, sequence_loss, n_steps, rate, seed=seed, watch=watch, every=100)
    return run | {"seconds": round(time.perf_counter() - began, 1)}


def fresh():
    """A log without runs."""
    return {
        "about": "made by dates.py, whose first lines say how to read it",
        "settings": SETTINGS,
        "versions": {"python": platform.python_version(), "torch": torch.__version__.split("+")[0]},
        "hardware": HARDWARE,
        "runs": [],
    }


def main(seeds=(0, 1, 2)):
    """Make the runs that the log does not have yet."""
    for seed in seeds:
        log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else fresh()
        if seed in [run["seed"] for run in log["runs"]]:
            continue
        run = measure(seed)
        log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else fresh()
        log["runs"] = sorted([*log["runs"], run], key=lambda run: run["seed"])
        LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")
        print(seed, run["seconds"], run["dates"], flush=True)


if __name__ == "__main__":
    main([int(seed) for seed in sys.argv[1:]] or (0, 1, 2))
