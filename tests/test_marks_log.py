"""The committed log of chapter 08's models with five seeds: it belongs to its script, and to what is said."""

from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[1] / "assets" / "08_multi_head_attention" / "seeds.py"


@pytest.fixture(autouse=True)
def double():
    """The script's models are made in float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def test_every_part_has_its_seeds(script, log):
    assert log["seeds"] == list(script.SEEDS) and log["hardware"] == script.HARDWARE
    assert len(log["marks"]) == len(log["near"]) == len(script.SEEDS)


def test_one_head_fails_and_two_do(log):
    for entry in log["marks"]:
        assert 0.1 <= entry["one"]["shares"][2] < 0.25
        assert min(entry["two"]["shares"] + entry["two"]["thirteen"]) > 0.995
        (alpha, beta), (at_A, at_B, _) = entry["one"]["looks"][0], entry["one"]["shares"]
        assert (alpha > beta) == (at_A > at_B)  # the read-out that has its inequality says its digit


def test_the_wrong_view_is_mostly_hidden(script, log):
    learned = [entry["wrong"] for entry in log["marks"] if entry["wrong"]["12"][2] > 0.99]
    assert len(learned) == 4
    for wrong in learned:
        assert 0.85 < wrong["11"][2] < 0.95 and 0.87 < wrong["13"][2] < 0.93
        assert min(wrong["24"][2], wrong["whole"][2]) > 0.99 and wrong["torn"][2] < 0.6


def test_the_heads_of_one_mark_stand_in_for_each_other(script, log):
    for entry in log["marks"]:
        four = entry["four"]
        for mark, side in enumerate(script.sides(four["looks"])):
            without = four["without"]["".join(str(i + 1) for i in side)]
            assert without[mark] < 0.45 and without[1 - mark] > 0.99


def test_near_and_far_need_two_heads(log):
    for entry in log["near"]:
        assert max(entry["1"][::2]) < 0.2 and min(entry["4"]) > 0.99
        assert entry["without any near"][0] < 0.25 and entry["without any far"][1] < 0.25
    assert max(shares[2] for shares in log["longer"]) < 0.2


def test_one_head_does_where_keys_and_values_know_everything(script, log):
    assert len(log["knowing"]) == len(script.SEEDS) and min(s[2] for s in log["knowing"]) > 0.95
    assert len(log["patient"]) == 3 and min(s[2] for s in log["patient"]) > 0.95


def test_a_run_of_the_first_seed_begins_as_the_log(script, log, monkeypatch):
    model = script.Reader(script.MultiHeadAttention(script.D, 2))
    batch = script.unseen(7, 13, 2)
    assert model(batch).shape == (7, 2, 10) and len(script.score(model, batch)) == 3
    assert [len(pair) for pair in script.looked(model, batch)] == [2, 2]
    whole, cut = script.score(model, batch), script.score_without(model, [], batch)
    assert whole == cut


def test_the_wrong_view_cuts_the_list_and_not_the_tokens(script):
    layer = script.WrongView(script.D, 2)
    x = torch.randn(3, 12, script.D)
    assert layer.wrong(x)[:, 0].reshape(3, -1).equal(x[:, :6].reshape(3, -1))
