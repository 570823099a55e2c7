"""The committed log of chapter 13's engine belongs to its script, and carries what the chapter says."""

import hashlib
from pathlib import Path
from statistics import median

import pytest
import torch

from heed.decode import start_decoding
from heed.text import EOS
from heed.transformer import make_model

SCRIPT = Path(__file__).parents[1] / "assets" / "13_decoding" / "engine.py"


@pytest.fixture(scope="module")
def runs(log):
    return {run["name"]: run for run in log["runs"]}


def test_the_log_is_of_the_committed_model_and_whole(script, log, runs):
    model = (script.COMMITTED / "model.safetensors").read_bytes()
    assert log["model"] == hashlib.sha256(model).hexdigest()
    assert log["captions"] == 1000 and log["width"] == script.WIDTH and log["threads"] == 1
    assert list(runs) == list(script.NAMES)
    assert all(len(run["speed"]) == script.ROUNDS for run in runs.values())


def test_what_the_chapter_says_of_the_engine(log, runs):
    speed = {name: median(run["speed"]) for name, run in runs.items()}
    assert runs["without cache, greedy"]["equal"] >= 0.999
    assert 3.4 < speed["ours, greedy"] / speed["without cache, greedy"] < 4.2
    assert 1.3 < speed["engine, float32, greedy"] / speed["ours, greedy"] < 1.5
    assert speed["engine, int8, greedy"] > 2 * speed["ours, greedy"]
    assert 2.6 < speed["engine, int8, beam"] / speed["ours, beam"] < 3.2
    assert 0.65 < speed["engine, int8, beam"] / speed["ours, greedy"] < 0.85
    assert runs["engine, float32, greedy"]["equal"] >= 0.995
    for how in ("greedy", "beam"):
        assert runs[f"ours, {how}"]["equal"] == 1
        for other in ("ours", "engine, float32"):
            assert abs(runs[f"engine, int8, {how}"]["bleu"] - runs[f"{other}, {how}"]["bleu"]) < 0.3
    assert 1.2 < runs["ours, beam"]["bleu"] - runs["ours, greedy"]["bleu"] < 1.8
    assert log["megabytes"]["float32"] > 3 * log["megabytes"]["int8"]


def test_the_writer_without_a_cache_writes_the_same(script):
    torch.manual_seed(0)
    model = make_model(17, 17, 2, 22, 13, 11).double().eval()
    source = torch.randint(4, 17, (5, 7))
    with torch.no_grad():
        cached, plain = start_decoding(model, source), script.Rereading(model, source)
        ids, rows = cached.first, torch.tensor([3, 0, 4])
        for n in range(6):
            here, there = cached.step(ids), plain.step(ids)
            assert torch.allclose(here[:, EOS:], there[:, EOS:])
            ids = here.argmax(-1, keepdim=True)
            if n == 2:
                cached.select(rows)
                plain.select(rows)
                ids = ids[rows]
