"""The committed log of chapter 15's voyages: it belongs to its script, and carries what the chapter says."""

from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[1] / "assets" / "15_external_memory"
SCRIPT = FOLDER / "copying.py"


def entries(log):
    return [log["machine"], *log["without"], log["two"], *log["lstm"], log["ring"]]


def test_every_part_has_its_entries_and_seeds(script, log):
    assert log["seeds"] == list(script.SEEDS) and log["hardware"] == script.HARDWARE
    assert (log["rate"], log["batch"], log["longest"]) == (script.RATE, script.BATCH, script.LONGEST)
    assert (log["rows"], log["rows tested"]) == (script.ROWS, script.ROWS_TESTED)
    assert {*script.parts()} < log.keys()
    assert [(e["without"], e["updates"]) for e in log["without"]] == [
        *((off, script.UPDATES) for off in script.OFF),
        *((off, 3 * script.UPDATES) for off in script.OFF_LONGER),
    ]
    assert [(e["d"], e["updates"]) for e in log["lstm"]] == list(script.LSTMS)
    for entry in entries(log):
        for shares in [*entry["voyages"].values(), *entry["ports"].values()]:
            assert len(shares) == len(script.SEEDS)


def test_the_machine_says_long_voyages_and_an_lstm_none(log):
    said = log["machine"]["voyages"]
    assert min(said["8"] + said["20"]) > 0.97 and min(said["80"]) > 0.85
    for entry in log["lstm"]:
        assert max(entry["voyages"]["20"]) < 0.05
        if entry["updates"] <= 2400:
            assert max(entry["voyages"]["8"]) < 0.2


@pytest.mark.parametrize("off", ["content", "place", "shift"])
def test_without_its_ways_of_finding_it_says_none(log, off):
    for entry in log["without"]:
        if entry["without"] == off:
            assert max(entry["voyages"]["8"]) < 0.5


def test_a_machine_with_nothing_switched_off_is_the_librarys(script):
    torch.manual_seed(0)
    ours = script.without(None)
    torch.manual_seed(0)
    theirs = script.machine()
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 5, 22)
    assert torch.allclose(ours(x, 3), theirs(x, 3))
    for off in script.OFF[:5]:
        other = script.without(off)
        other.load_state_dict(ours.state_dict())
        assert not torch.allclose(other(x, 3), theirs(x, 3))
    assert (torch.sigmoid(script.without("erasing").e(torch.randn(2, script.D))) == 0).all()


def test_two_heads_read_and_write_apart(script):
    torch.manual_seed(0)
    model = script.TwoHeads()
    x = torch.randn(2, 5, 22)
    state = model.start(x)
    for now in x.unbind(dim=1):
        _, state = model.step(now, *state)
    _, (writes, reads), _ = state
    assert not torch.allclose(writes, reads)


def test_in_a_ring_it_comes_home_without_content(script, log):
    assert script.Ring("content").start(torch.randn(2, 5, 22), n_rows=20)[0].shape[1] == 5
    off = next(e for e in log["without"] if e["without"] == "content")
    assert min(log["ring"]["voyages"]["8"]) > 0.5 > 0.05 > max(off["voyages"]["8"])


def test_a_run_is_logged(script):
    entry = script.runs(script.machine, updates=2, lengths=(8,))
    assert entry["voyages"].keys() == entry["ports"].keys() == {8}
    assert entry["parameters"] == sum(p.numel() for p in script.machine().parameters())


def test_what_came_next_is_not_found_by_training(script, log):
    assert [entry["questions"] for entry in log["next"]] == [1, 4]
    for entry in log["next"]:
        assert max(entry["answers"]["6"]) < 0.6
    told, after = script.which_is_next(5, 4, 2, torch.Generator().manual_seed(0))
    for row, ports in zip(told.tolist(), after.tolist(), strict=True):
        assert ports == [row[1 + row[1:5].index(asked) + 1] for asked in row[-2:]]
    assert script.next_ports(2, updates=2, lengths=(3,))["answers"].keys() == {3}
