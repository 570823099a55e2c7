"""The committed log of chapter 17's pairs belongs to the script beside it, and carries what is said of it."""

from itertools import pairwise
from pathlib import Path

import torch

from heed.scale import LinearAttention
from heed.tasks import lookups

SCRIPT = Path(__file__).parents[1] / "assets" / "17_attention_at_scale" / "pairs.py"


def test_every_layer_has_its_seeds_and_numbers_of_pairs(script, log):
    assert log["seeds"] == list(script.SEEDS) and log["hardware"] == script.HARDWARE
    assert log["pairs in a list"] == list(script.PAIRS) and log["rate"] == script.RATE
    assert log["updates"] == [script.SHORT, script.UPDATES] and list(log[script.TWICE]) == list(script.LAYERS)
    assert list(log["chapter"]) == list(script.CHAPTER)
    assert list(log["pairs"]) == list(script.LAYERS)
    for name, entry in log["pairs"].items():
        assert entry["parameters"] == sum(p.numel() for p in script.LAYERS[name]().parameters())
    for rows in [*log["chapter"].values(), *(entry["test"] for entry in log["pairs"].values())]:
        assert [len(row) for row in rows] == [len(script.PAIRS)] * len(script.SEEDS)


def test_the_script_s_sums_are_the_chapter_s(script):
    torch.manual_seed(0)
    layer, theirs = script.Wide(32), LinearAttention(script.D, 2)
    assert {n: p.shape for n, p in layer.named_parameters()} == {
        n: p.shape for n, p in theirs.named_parameters()
    }
    batch = lookups(2, 9, torch.Generator().manual_seed(0))
    assert script.Asker(layer)(batch).shape == (2, 8, 2, 10)


def test_what_is_kept_is_about_as_much_for_the_three_that_keep_little(log, script):
    shared, window, summed = 2 * 128 * 8, 2 * 16 * 8 * 8, 2 * (32 * 32 + 32)
    assert shared == window == 2048 and summed == 2112


def test_shared_keys_lose_nothing_and_one_head_nearly_all(log):
    for name in ("8 heads of keys", "2 heads of keys", "1 head of keys"):
        assert min(map(min, log["pairs"][name]["test"])) > 0.98
    assert max(map(max, log["pairs"]["1 head"]["test"])) < 0.5
    assert max(map(max, log["chapter"]["1 head"])) < 0.21


def test_wider_sums_hold_more_whatever_the_seed(log):
    sums = [log["pairs"][f"linear, {d} wide"]["test"] for d in (8, 32, 128)]
    for narrow, wide in pairwise(torch.tensor(sums)):  # (seeds, pairs)
        assert (narrow.amax(0) < wide.amin(0))[2:].all()


def test_a_window_forgets_at_every_seed(log):
    for few, *_, many in log["pairs"]["window of 16"]["test"]:
        assert many < 0.2 < 0.5 < few
