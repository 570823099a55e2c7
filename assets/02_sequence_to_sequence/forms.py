"""Does the network of dates.py read a form of date that no training pair has? Written to forms.json.

    python assets/02_sequence_to_sequence/forms.py

The network, the data and the 1,200 updates of dates.py, three seeds. The 500 test days are then written in
forms of FORMS, names of days and months in English. `%d.%m.%Y` occurs in training, the others do not. The log
says how long it took. A run that stands in the log already is not made again: delete the log to begin again.

- `seed`: which run
- `test_set`: exact match on the test set as it is
- `forms`: exact match on the same days in each form
- `wrong`: of each form the first three that are wrong: [what was read, what was written]
- `seconds`: of training; `log["settings"]`: those of dates.py
"""

import importlib.util
import json
import platform
import sys
import time
from datetime import date
from pathlib import Path

import torch

from heed.data import batches, dates, pad_batch
from heed.evaluate import exact_match
from heed.recurrent import Seq2Seq, free_run
from heed.text import Characters, Vocabulary
from heed.train import sequence_loss, train

LOG = Path(__file__).with_suffix(".json")
FORMS = ("%d.%m.%Y", "%d %B %Y", "%B %d %Y", "%Y.%m.%d", "%A %d %b %Y", "%Y-%m-%d", "%d-%m-%Y")
HARDWARE = "one thread on a core of an AMD EPYC (CPU); other work ran beside it: seconds are upper bounds"


def settings():
    """Those of dates.py."""
    spec = importlib.util.spec_from_file_location("dates_script", Path(__file__).with_name("dates.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.SETTINGS


def measure(seed, settings):
    """Train one network, and let it read every form."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)  # before the model is made: then its first weights are, too
    pairs, tests = dates(settings["n_train"], "train"), dates(settings["n_test"], "test")
    source, target = Characters.build(p.source for p in pairs), Vocabulary.build(p.target for p in pairs)
    encoded = [(source.encode(p.source), target.encode(p.target, bos=True, eos=True)) for p in pairs]
    torch.manual_seed(seed)
    model = Seq2Seq(len(source), len(target), settings["d_embed"], settings["d_hidden"])
    stream, began = batches(encoded, settings["batch"], seed), time.perf_counter()
    train(model, stream, sequence_loss, settings["n_steps"], settings["rate"], seed=seed)
    seconds = time.perf_counter() - began
    wanted = [pair.target for pair in tests]

    def read(texts):
        ids = pad_batch([(source.encode(text), [1, 2]) for text in texts]).source
        answers = ["".join(target.decode(row)) for row in free_run(model, ids, n_max=12)]
        wrong = [[t, a] for t, a, w in zip(texts, answers, wanted, strict=True) if a != w]
        return round(exact_match(answers, wanted), 4), wrong[:3]

    run = {"seed": seed, "test_set": read([pair.source for pair in tests])[0], "forms": {}, "wrong": {}}
    for form in FORMS:
        texts = [date.fromisoformat(iso).strftime(form) for iso in wanted]
        run["forms"][form], run["wrong"][form] = read(texts)
    return run | {"seconds": round(seconds, 1)}


def fresh():
    """A log without runs."""
    return {
        "about": "made by forms.py, whose first lines say how to read it",
        "settings": settings(),
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
        run = measure(seed, log["settings"])
        log["runs"] = sorted([*log["runs"], run], key=lambda run: run["seed"])
        LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")
        print(seed, run["seconds"], run["test_set"], run["forms"], flush=True)


if __name__ == "__main__":
    main([int(seed) for seed in sys.argv[1:]] or (0, 1, 2))
