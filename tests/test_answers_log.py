"""The committed log of chapter 15's stories: it belongs to its script, and carries what the chapter says."""

from pathlib import Path

import pytest
import torch

from heed.memory import MemoryNetwork
from heed.tasks import STORY_WORDS, stories

FOLDER = Path(__file__).parents[1] / "assets" / "15_external_memory"
SCRIPT = FOLDER / "answers.py"


def test_every_part_has_its_entries_and_seeds(script, log):
    assert log["seeds"] == list(script.SEEDS) and log["hardware"] == script.HARDWARE
    assert (log["rate"], log["batch"], log["things"], log["d"]) == (
        script.RATE,
        script.BATCH,
        script.THINGS,
        script.D,
    )
    assert {part.__name__ for part in script.PARTS} < log.keys()
    assert [entry["looks"] for entry in log["looks"]] == [1, 2, 3]
    assert [entry["linear"] for entry in log["linear"]] == list(script.STARTS)
    assert [entry["tear"] for entry in log["torn"]] == list(script.TEARS)
    assert [(e["d_hidden"], e.get("updates")) for e in log["state"]] == list(script.GRUS)
    entries = [*log["looks"], *log["controls"], log["plain"], log["scaled"], log["sentences"]]
    for entry in [*entries, *log["state"], *log["linear"]]:
        for n in script.LONGER:
            assert [len(found) for found in entry[f"{n} things"]] == [3] * len(script.SEEDS)


def test_as_many_looks_as_facts(log):
    for entry in log["looks"]:
        for found in entry["4 things"]:
            for needed, share in enumerate(found, start=1):
                assert share > 0.99 if needed <= entry["looks"] else 0.2 < share < 0.3
    for entry in log["controls"]:
        assert all(max(found[1:]) < 0.3 and found[0] > 0.99 for found in entry["4 things"])
    assert len({entry["parameters"] for entry in log["looks"]}) == 1


def test_what_long_stories_need(log):
    three, plain = log["looks"][2], log["plain"]
    assert min(map(min, three["10 things"])) > 0.99
    assert all(0.94 < found[2] < 0.99 for found in three["20 things"])
    assert all(0.5 < found[2] < 0.65 for found in plain["10 things"])
    assert all(max(found) < 0.4 for found in log["scaled"]["4 things"])
    assert min(map(min, log["sentences"]["4 things"])) > 0.99


def test_a_state_guesses(log):
    for entry in log["state"]:
        assert all(max(found) < 0.45 for found in entry["4 things"])


def test_half_a_question_can_be_completed(log):
    half = next(entry for entry in log["torn"] if entry["tear"] == 0.5)
    whole = log["torn"][0]
    for seed in range(3):
        for needed in range(3):
            assert half["completed"][seed][needed] > whole["torn"][seed][needed] - 0.03
        assert half["longer"][seed][2] < 0.7 and half["torn"][seed][2] < 0.2


def test_a_linear_start_finds_the_third_look(log):
    starts = {entry["linear"]: entry["4 things"] for entry in log["linear"]}
    assert min(map(min, starts[300])) > 0.99
    assert min(found[2] for found in starts[0]) < 0.3


def test_the_latest_fact_needs_an_age(log):
    without, with_age = log["moving"]
    assert max(without["4 things, 8 moves"]) < 0.5 and min(with_age["4 things, 8 moves"]) > 0.99


def test_the_network_of_the_script_is_the_librarys(script):
    torch.manual_seed(0)
    ours = script.Pairs(3)
    theirs = MemoryNetwork(len(STORY_WORDS), script.D, 3)
    theirs.load_state_dict(ours.state_dict(), strict=False)
    theirs.l_m.data, theirs.l_c.data = (part.expand(2, script.D) for part in (ours.l_m, ours.l_c))
    drawn = stories(5, 3, torch.Generator().manual_seed(0))
    assert torch.allclose(ours(drawn.facts, drawn.questions), theirs(drawn.facts, drawn.questions))


@pytest.mark.parametrize("linear", [0, 5])
def test_a_run_learns(script, linear):
    torch.manual_seed(0)
    model = script.Pairs(1)
    script.learn(model, seed=0, updates=150, linear=linear)
    assert script.shares(model, 4)[0] > 0.5 and model.linear is False


def test_a_torn_question_is_asked(script):
    torch.manual_seed(0)
    model = script.Pairs(1)
    whole = script.with_torn_questions(model, 0.0, lambda t: t)
    assert whole == script.shares(model, 20)
    assert script.with_torn_questions(model, 1.0, lambda t: t) != whole
