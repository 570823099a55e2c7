"""The committed log behind F4 and F5 of chapter 08: it belongs to its script, and carries what is said."""

from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[1] / "assets" / "08_multi_head_attention"
SCRIPT = FOLDER / "heads.py"


def test_every_part_has_its_jobs_and_seeds(script, log):
    assert log["seeds"] == list(script.SEEDS) and log["hardware"] == script.HARDWARE
    for part, jobs in script.JOBS.items():
        done = [(e["task"], e["n"], e["heads"], e["d_model"]) for e in log[part]]
        assert done == [job[:4] for job in jobs]
        for entry, job in zip(log[part], jobs, strict=True):
            rates = job[4] if len(job) > 4 else script.RATES
            assert entry.get("widths") == (list(job[6]) if len(job) > 6 else None)
            assert entry["updates"] == (job[5] if len(job) > 5 else script.UPDATES)
            assert [float(rate) for rate in entry["all rates"]] == list(rates)
            assert len(entry["test"]) == len(entry["validation"]) == len(script.SEEDS)
            assert sum(entry["validation"]) == max(map(sum, entry["all rates"].values()))


def test_marks_need_as_many_heads_as_marks(log):
    for entry in log["marks"]:
        if entry["heads"] >= entry["n"]:
            assert min(entry["test"]) > 0.99
        else:
            assert max(entry["test"]) < 0.8
    for shares in log["wide"][0]["all rates"].values():
        assert max(shares) < 0.5


def test_recall_wants_few_heads(log):
    shares = {entry["heads"]: entry["test"] for entry in log["recall"]}
    for few in (1, 2, 4, 8):
        assert min(shares[few]) > 0.99
    assert max(shares[32]) < 0.7 and 0.95 < min(shares[16]) <= max(shares[16]) < 0.99
    neither, keys, values = (entry["test"] for entry in log["apart"])
    assert max(neither) < 0.65 < min(values) <= max(values) < 0.95 < min(keys)
    longer = {entry["heads"]: entry["test"] for entry in log["longer"]}
    assert min(longer[16]) > 0.99 and max(longer[32]) < 0.9


def test_full_width_buys_recall_and_no_marks(script, log):
    recall, marks, control = log["full"]
    assert recall["widths"] == marks["widths"] == [script.D, script.D] and "widths" not in control
    narrow = next(e for e in log["marks"] if (e["n"], e["heads"]) == (4, 2))
    assert min(recall["test"]) > 0.99 and min(control["test"]) > 0.99
    assert max(marks["test"]) < 0.8 and abs(sum(marks["test"]) - sum(narrow["test"])) < 0.1
    sizes = [4 * (d * d + d) for d in (script.D, script.WIDER)]
    full = 3 * 32 * (script.D**2 + script.D) + 32 * script.D**2 + script.D
    assert sizes[0] < sizes[1] < full == size(script.Apart(script.D, 32, script.D, script.D))


def size(module):
    return sum(p.numel() for p in module.parameters())


def test_all_heads_have_the_same_parameters(script):
    sizes = {
        task: {size(script.make(task, 2, h, script.D)) for h in script.HEADS} for task in ("marks", "recall")
    }
    assert all(len(found) == 1 for found in sizes.values())
    layers = [script.make("marks", 2, 1, d).attention for d in (script.D, script.WIDE)]
    narrow, wide = map(size, layers)
    assert 15 < wide / narrow < 16


@pytest.mark.parametrize("task", ["marks", "recall"])
def test_a_run_learns(script, task):
    validation, test, _ = script.learn(task, 2, 2, 32, rate=1e-2, seed=0, updates=150)
    assert min(validation, test) > 0.5


def test_only_the_marks_reach_the_keys_and_only_the_digits_the_values(script):
    model, batch = script.make("marks", 2, 1, 32), script.held_out("marks", 2, 0)
    other = batch._replace(digits=(batch.digits + 1) % 10)
    seen = []
    model.attention.register_forward_hook(lambda module, given, out: seen.append(given))
    with torch.no_grad():
        model(batch)
        model(other)
    (q, k, v), (other_q, other_k, other_v) = seen
    assert q.equal(other_q) and k.equal(other_k) and not v.equal(other_v)
