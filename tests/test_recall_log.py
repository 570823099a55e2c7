"""The committed log behind chapter 06: it belongs to its script, and carries what the chapter says."""

from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[1] / "assets" / "06_self_attention"
SCRIPT = FOLDER / "recall.py"
OURS = "self-attention"


def test_every_model_has_its_parts_and_seeds(script, log):
    assert log["seeds"] == list(script.SEEDS) and log["hardware"] == script.HARDWARE
    assert log["rates"] == list(script.RATES)
    for part, jobs in script.JOBS.items():
        done = [(e["model"], e["task"], e["pairs"], e["updates"]) for e in log[part]]
        assert done == [(model, task, n, updates) for model, task, n, _, updates in jobs]
        for entry, (*_, rates, _) in zip(log[part], jobs, strict=True):
            assert [float(rate) for rate in entry["all rates"]] == list(rates)
            assert len(entry["test"]) == len(entry["validation"]) == len(script.SEEDS)
            assert entry["validation"] == entry["all rates"][str(entry["rate"])]
            assert sum(entry["validation"]) == max(map(sum, entry["all rates"].values()))


def test_what_the_laboratory_says_of_the_other_parts(log):
    latest = {entry["model"]: entry["test"] for entry in log["last"]}
    assert max(latest.pop(OURS)) < 0.2 and min(map(min, latest.values())) > 0.99
    heard = {(entry["task"], entry["model"]): entry["test"] for entry in log["first"]}
    assert min(heard["first", "GRU"]) > 0.85 and max(heard["pairs", "GRU"]) < 0.35
    assert max(heard["first", OURS]) < 0.35 and min(heard["pairs", OURS]) > 0.99
    far = {entry["model"]: entry["test"] for entry in log["patience"]}
    assert 0.5 < min(far["dilated"]) <= max(far["dilated"]) < min(far["GRU"]) <= max(far["GRU"]) < 0.75
    why = {entry["model"]: entry["test"] for entry in log["why"]}
    assert max(why["one query"]) < 0.35 and min(why["own matrices"]) > 0.95
    kept = {entry["model"]: entry["test"] for entry in log["kept"]}
    assert max(kept["kept, one query"]) < 0.33 and min(kept["kept, own query"]) > 0.99
    assert min(why["multiplying"]) > 0.75 and max(why["dilated"]) < 0.5


def test_what_is_said_of_names_that_nobody_asked_for(log):
    plain, longer, *others = (entry["test"] for entry in log["unasked"])
    assert 0.1 < min(*plain, *longer) < max(*plain, *longer) < 0.25
    tied, hidden, anew, all_three = others
    assert 0.45 < min(tied) and sum(tied) < sum(hidden) and max(hidden) < 0.75
    assert min(*anew, *all_three) > 0.99


def test_the_parameters_are_those_of_the_models(script, log):
    assert list(log["parameters"]) == list(script.LAYERS)
    for name, n in log["parameters"].items():
        assert n == sum(p.numel() for p in script.make(name).parameters())
    assert min(log["parameters"], key=log["parameters"].get) == OURS


def test_self_attention_recalls_and_no_other_does_from_four_pairs_on(log):
    for entry in log["pairs"]:
        if entry["model"] == OURS:
            assert min(entry["test"]) > 0.99
        elif entry["pairs"] >= 4:
            said = torch.randint(10, (20000, entry["pairs"]), generator=torch.Generator().manual_seed(0))
            counts = torch.nn.functional.one_hot(said, 10).sum(1).amax(1).double()
            assert max(entry["test"]) < counts.mean() / entry["pairs"] + 0.08


@pytest.mark.parametrize("task", ["first", "last", "pairs"])
def test_a_task_has_the_question_and_the_answer_where_it_says(script, task):
    from heed.tasks import BLANK, recall

    batch = recall(50, 4, torch.Generator().manual_seed(0))
    tokens, answers, _ = script.turned(batch, task)
    blanks = (tokens[..., 1] == BLANK).nonzero()[:, 1]
    assert (blanks == (0 if task == "first" else 4)).all()
    assert torch.equal(answers, batch.tokens[:, 3, 1] if task == "last" else batch.answers)


def test_the_last_token_of_each_stack_sees_what_the_script_says(script):
    from heed.attention import dependence

    torch.manual_seed(0)
    views = {
        OURS: 40,
        "GRU": 40,
        "convolutions": 7,
        "dilated": 40,
        "one query": 40,
        "multiplying": 15,
        "tied, hidden": 40,
    }
    for name, seen in views.items():
        layer = (script.LAYERS | script.ABLATIONS)[name]()
        view = dependence(lambda x, layer=layer: layer(x[None])[0, -1:], torch.randn(40, script.D))
        assert (view[0] > 0).sum() == seen, name


def test_a_run_learns_and_a_broken_one_counts_as_nothing(script, monkeypatch):
    validation, test, near, _ = script.learn(OURS, "pairs", 2, rate=8e-3, seed=0, updates=60)
    assert min(validation, test) > 0.5 and list(near) == ["1", "2"]
    monkeypatch.setattr(script, "train", lambda *given: (_ for _ in ()).throw(ValueError("nan")))
    assert script.learn(OURS, "pairs", 2, rate=1.0, seed=0, updates=1) == (0.0, 0.0, {}, 0.0)
