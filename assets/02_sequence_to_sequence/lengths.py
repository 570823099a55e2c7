"""How does a model's exact match depend on the length of its source? Three seeds, written to lengths.json.

    python assets/02_sequence_to_sequence/lengths.py

The task: German numbers in words, of one to six digits, into English words; characters in, words out.
Every run has the same data, the same updates and, for the same seed, the same batches: `plain` is `Seq2Seq`
(chapter 02), `attention` is `AttentionSeq2Seq` (chapter 03). The widest plain model has two seeds. Only
numbers that no training set contains are counted, so those of three digits or more. The log says how long it
took. A run that stands in the log already is not made again: delete the log to begin again.

How to read the log (chapters 02 and 03 do):

    log = json.loads(Path("…/lengths.json").read_text(encoding="utf-8"))
    chosen = [run for run in log["runs"] if (run["model"], run["d_hidden"]) == ("attention", 128)]
    [run["by_length"] for run in chosen]      # three dictionaries, one a seed

- `model`, `d_hidden`, `most_digits` (6), `seed`, `n_parameters`: which run
- `by_digits`: exact match by number of digits, {"3": 0.81, …}
- `by_length`: exact match by characters of the source, {"10": …} for 10 to 19 of them; the last, "50", is for
  all longer ones as well
- `by_place`: share of right words, the true words before them given, for the six words of a number that
  carry its digits (only numbers with six of them), first to last
- `loss`: the mean over the last twenty updates; `test_loss`, `token_accuracy`: on the counted numbers, with
  teacher forcing
- `seconds`: of training; `n_by_length`: how many numbers each share stands on; `log["settings"]`: the rest
"""

import json
import platform
import re
import time
from multiprocessing import get_context
from pathlib import Path

import torch

from heed.alignment import AttentionSeq2Seq
from heed.data import batches, numbers, pad_batch
from heed.recurrent import Seq2Seq, free_run
from heed.text import Characters, Vocabulary
from heed.train import sequence_loss, train

LOG = Path(__file__).with_suffix(".json")
SETTINGS = {
    "n_train": 8000,
    "fewest_digits": 1,
    "languages": ["de"],
    "n_test_per_digits": 250,
    "d_embed": 64,
    "batch": 32,
    "n_steps": 600,
    "rate": 8e-3,
    "dtype": "float64",
}
# (model, d_hidden, most digits, seed)
RUNS = [("plain", 128, 6, seed) for seed in range(3)] + [("attention", 128, 6, seed) for seed in range(3)]
RUNS += [("plain", width, 6, seed) for width in (32, 64) for seed in range(3)]
RUNS += [("plain", 256, 6, seed) for seed in range(2)]
GLUE = {"hundred", "thousand", "and", "-", ",", "<eos>"}


def words(text):
    """The words and signs of a text: "twenty-three" is twenty, -, three."""
    return re.findall(r"\w+|[^\w\s]", text)


def task(most):
    """The pairs to learn from, the pairs to count as {digits: pairs}, and the two vocabularies."""
    languages, digits = SETTINGS["languages"], (SETTINGS["fewest_digits"], most)
    pairs = numbers(SETTINGS["n_train"], "train", digits=digits, languages=languages)
    n = SETTINGS["n_test_per_digits"]
    tests = {k: numbers(n, "test", digits=(k, k), languages=languages) for k in range(3, most + 1)}
    source = Characters.build(pair.source for pair in pairs)
    target = Vocabulary.build(words(pair.target) for pair in pairs)
    return pairs, tests, source, target


def encoded(pairs, source, target):
    """Pairs of texts as pairs of id lists."""
    return [(source.encode(p.source), target.encode(words(p.target), bos=True, eos=True)) for p in pairs]


def bucket(pair, most):
    """10 for a source of 10 to 19 characters, and so on; the last one (50, with six digits) is open."""
    return min(10 * most - 10, len(pair.source) // 10 * 10)


def share(flags):
    """How much of a list is true, to four digits."""
    return round(sum(flags) / len(flags), 4)


def measure(run):
    """Train one model and count."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)  # before the model is made: then its first weights are, too
    kind, d_hidden, most, seed = run
    pairs, tests, source, target = task(most)
    torch.manual_seed(seed)
    Model = {"plain": Seq2Seq, "attention": AttentionSeq2Seq}[kind]
    model = Model(len(source), len(target), SETTINGS["d_embed"], d_hidden)
    stream = batches(encoded(pairs, source, target), SETTINGS["batch"], seed)
    began = time.perf_counter()
    losses = train(model, stream, sequence_loss, SETTINGS["n_steps"], SETTINGS["rate"], seed=seed)
    seconds = time.perf_counter() - began

    counted = [(k, pair) for k in tests for pair in tests[k]]
    batch = pad_batch(encoded([pair for _, pair in counted], source, target))
    written = [target.decode(row) for row in free_run(model, batch.source, batch.target.shape[1])]
    lengths = [bucket(pair, most) for _, pair in counted]
    right = [answer == words(pair.target) for answer, (_, pair) in zip(written, counted, strict=True)]
    with torch.no_grad():
        test_loss = sequence_loss(model, batch).item()
        hits = model(batch.source, batch.target_in).argmax(-1) == batch.target_out
    return {
        "model": kind,
        "d_hidden": d_hidden,
        "most_digits": most,
        "seed": seed,
        "n_parameters": sum(p.numel() for p in model.parameters()),
        "seconds": round(seconds, 1),
        "loss": round(sum(losses[-20:]) / len(losses[-20:]), 4),
        "test_loss": round(test_loss, 4),
        "token_accuracy": round((hits & batch.target_mask).sum().item() / batch.n_tokens, 4),
        "exact_match": share(right),
        "by_digits": grouped(right, [k for k, _ in counted]),
        "by_length": grouped(right, lengths),
        "n_by_length": {n: lengths.count(n) for n in sorted(set(lengths))},
        "by_place": by_place(hits, batch, target),
    }


def grouped(right, keys):
    """The share of right ones in each group."""
    return {
        key: share([r for r, k in zip(right, keys, strict=True) if k == key]) for key in sorted(set(keys))
    }


def by_place(hits, batch, target):
    """Share of right words at the first, second … sixth word that carries a digit, where there are six."""
    rows = []
    for row, ids, n in zip(hits.tolist(), batch.target_out.tolist(), batch.target_mask.sum(1), strict=True):
        carrying = [hit for hit, i in zip(row[:n], ids, strict=False) if target.tokens[i] not in GLUE]
        if len(carrying) == 6:
            rows.append(carrying)
    return [share(column) for column in zip(*rows, strict=True)]


def hardware(seconds):
    """What this was computed on, in words."""
    return (
        f"two processes of one thread each, on 2 cores of an Intel Xeon (CPU), {seconds} s of training; "
        "other work ran beside it, so the seconds are upper bounds"
    )


def fresh():
    """A log without runs."""
    return {
        "about": "made by lengths.py, whose first lines say how to read it",
        "settings": SETTINGS,
        "versions": {"python": platform.python_version(), "torch": torch.__version__.split("+")[0]},
        "hardware": "",
        "runs": [],
    }


def name_of(run):
    """A run's place in RUNS."""
    return run["model"], run["d_hidden"], run["most_digits"], run["seed"]


def save(log):
    """Write the log, its runs in the order of RUNS."""
    log["runs"].sort(key=lambda run: RUNS.index(name_of(run)))
    log["hardware"] = hardware(round(sum(run["seconds"] for run in log["runs"])))
    LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


def main(n_runs=None):
    """Make the runs that the log does not have yet, at most n_runs of them."""
    log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else fresh()
    missing = [run for run in RUNS if run not in map(name_of, log["runs"])]
    with get_context("spawn").Pool(2) as pool:
        for run in pool.imap_unordered(measure, missing[:n_runs]):
            log["runs"].append(run)
            save(log)
            print(*name_of(run), run["seconds"], run["loss"], run["by_length"], flush=True)


if __name__ == "__main__":
    main()
