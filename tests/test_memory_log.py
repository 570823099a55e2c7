"""The committed log of chapter 17's lengths belongs to its script, and carries what is said of it."""

import importlib.util
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest
import torch

CHAPTER = Path(__file__).parents[1] / "chapters" / "17_attention_at_scale.ipynb"
SCRIPT = Path(__file__).parents[1] / "assets" / "17_attention_at_scale" / "lengths.py"


def mebibytes(rows):
    return [row["MiB"] for row in rows.values()]


def test_every_way_has_its_lengths(script, log):
    assert log["hardware"] == script.HARDWARE and log["d_k"] == script.D_K
    assert list(log["forward"]) == list(script.WAYS) and list(log["kernel"]) == list(script.KERNEL)
    assert list(log["training"]) == [*script.WAYS, "tiles on the tape"]
    for part, lengths in (("forward", script.LENGTHS), ("training", script.TRAINING)):
        assert all([int(n) for n in rows] == list(lengths) for rows in log[part].values())
    assert [int(n) for n in log["sizes"]] == list(script.SIZES)
    assert all([int(n) for n in rows] == list(script.PREFIXES) for rows in log["decode"].values())


def test_all_ways_compute_the_same(script):
    q, k, v = torch.randn(3, 1024, 64).double()
    whole = script.written_out(q, k, v)
    for way in (*script.WAYS.values(), script.taped):
        assert torch.allclose(way(q, k, v), whole, atol=1e-12)
    assert torch.allclose(script.padded_values(q, k, v), whole[:, :10], atol=1e-12)
    assert torch.allclose(script.narrow_values(q, k, v), whole[:, :10], atol=1e-12)


def test_the_table_grows_with_the_square_and_tiles_do_not(log):
    table = mebibytes(log["forward"]["written out"])
    assert all(3.8 < more / less < 4.2 for less, more in pairwise(table[1:]))
    assert max(mebibytes(log["forward"]["tiles"])) < 16 and max(mebibytes(log["forward"]["fused"])) < 8


def test_backwards_the_tape_costs_a_table_and_tiles_made_again_do_not(log):
    most = {name: rows["8192"]["MiB"] for name, rows in log["training"].items()}
    assert most["tiles on the tape"] > most["written out"] > 20 * most["tiles"]


def test_what_makes_the_kernel_give_up(log):
    table = 4096**2 * 4 / 2**20
    stored = {name for name, row in log["kernel"].items() if row["MiB"] > table}
    assert stored == {"values 10 wide", "dropout", "no axes for batch and heads"}
    assert all(row["MiB"] > 2 * table or row["MiB"] < 5 for row in log["kernel"].values())


def test_the_cache_is_as_many_bytes_as_it_has_heads_of_keys(script, log):
    for name, n_heads in (("16 heads of keys", 16), ("4 heads of keys", 4), ("1 head of keys", 1)):
        for n, row in log["decode"][name].items():
            assert abs(row["MiB"] - 2 * n_heads * 64 * int(n) * 4 / 2**20) < 0.01
    assert len({row["MiB"] for row in log["decode"]["a sum"].values()}) == 1


@pytest.fixture
def cells(tmp_path):
    """The chapter's cells that compute in a process of its own, as a module."""
    sources = [cell.source for cell in nbformat.read(CHAPTER, 4).cells if cell.cell_type == "code"]
    wanted = ("def lists", "CHILD = ", "def apart")
    path = tmp_path / "cells.py"
    path.write_text("\n\n".join(s for s in sources if any(w in s for w in wanted)), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("cells", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("here, elsewhere", [("import resource", "raise ImportError"), ("/proc", "/nowhere")])
def test_where_no_limit_can_be_set_the_chapter_says_so_and_goes_on(cells, capsys, here, elsewhere):
    assert here in cells.CHILD
    cells.CHILD = cells.CHILD.replace(here, elsewhere)
    taken, right = cells.apart(cells.attend, 700, limit=1)
    assert "This system sets no limit" in capsys.readouterr().out and right > 0.95
    assert taken == "not told here" or here != "/proc"
