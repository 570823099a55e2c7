"""The committed logs of chapter 16 belong to their scripts, and carry what the chapter says of them."""

import hashlib
import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from heed.text import Subwords

FOLDER = Path(__file__).parents[1] / "assets" / "16_bert_and_gpt"
TEXT = "9af338d0551f7165d7af365fb98aa34863f24b79dddb378e9a76026fcac52315"  # SHA-256 of what was read


def imported(name, monkeypatch):
    """A script of the folder; it may import the others."""
    monkeypatch.syspath_prepend(str(FOLDER))
    for other in ("prose", "reader", "labels"):
        monkeypatch.delitem(sys.modules, other, raising=False)
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def labels():
    return json.loads((FOLDER / "labels.json").read_text(encoding="utf-8"))


@pytest.fixture
def bits():
    return json.loads((FOLDER / "reader.json").read_text(encoding="utf-8"))


def f1(log, name, n=20):
    """A pair for each seed: names from the text, names from nowhere."""
    return [e["f1"] for e in log["runs"] if (e["name"], e["labelled"]) == (name, n)]


def test_labels_has_every_run_of_its_script(labels, monkeypatch):
    script = imported("labels", monkeypatch)
    assert (labels["read"], labels["updates"]) == (script.N_READ, script.UPDATES)
    assert all(labels[name] == value for name, value in script.SIZES.items())
    for n in script.LABELLED:
        for name in ("no reading", "read", "read, frozen"):
            assert len(f1(labels, name, n)) == 3
    for name in ("next words", "shuffled", "no reading, five times as long"):
        assert len(f1(labels, name)) == 3
    assert len(f1(labels, "read, six times as long")) == 2
    for name in ("next words", "next words, masks read"):
        assert len(f1(labels, f"{name}, six times as long")) == 2
    assert len(f1(labels, "next words, masks read")) == 3


def test_what_the_chapter_says_of_few_labels(labels):
    for without, with_it in zip(f1(labels, "no reading"), f1(labels, "read"), strict=True):
        assert with_it[0] > 1.7 * without[0] and with_it[1] > without[1]
    assert max(max(pair) for pair in f1(labels, "no reading, five times as long")) < 0.25
    assert min(map(min, f1(labels, "read, six times as long"))) > 0.5
    assert f1(labels, "next words, six times as long")[0][1] < 0.3
    for n in (10, 20, 50, 200, 1000):
        for column in (0, 1):
            read, unread = ([pair[column] for pair in f1(labels, name, n)] for name in ("read", "no reading"))
            assert sum(read) > sum(unread)


def test_the_text_that_was_read_is_pinned(bits, monkeypatch):
    assert hashlib.sha256((FOLDER / "prose.txt").read_bytes()).hexdigest() == TEXT
    prose, reader = imported("prose", monkeypatch), imported("reader", monkeypatch)
    lines = [prose.split(part) for part in ("train", "val", "test")]
    assert sum(map(len, lines)) == len((FOLDER / "prose.txt").read_text(encoding="utf-8").splitlines())
    assert bits["characters"] == {part: reader.characters(part) for part in ("train", "val", "test")}


def test_prose_is_text_without_markup(monkeypatch):
    prose = imported("prose", monkeypatch)
    source = (
        "# A title\n\nA **bold** sentence with $d_k$ and a [link](to.html) and `code`, long enough to stay. "
        "Another with $a + b$ goes.\n\n| a | table |\n\n```\ncode\n```\n\n$$x$$\n\n## Sources\n\n- Nobody."
    )
    cells = [{"source": source}]
    found = [text for text in prose.paragraphs(cells) if text]
    assert found == ["A bold sentence with d_k and a link and code, long enough to stay."]


def test_counts_are_witten_and_bells_by_hand(monkeypatch):
    counts = imported("reader", monkeypatch).Counts(["ab"], 2, alphabet=3)
    # seen once each: a, b, end. p1 = (1 + 3/3) / (3 + 3); after a: b, once
    assert counts.p("a", "b") == pytest.approx((1 + 1 * (1 / 3)) / (1 + 1))
    assert counts.p("b", "a") == pytest.approx((0 + 1 / 3) / 2)


def test_the_search_gives_both_the_same_and_goes_on_at_an_edge(monkeypatch, tmp_path):
    """Pretended trainings: gpt is best with its usual rate, gru with the highest that is tried."""
    reader, made = imported("reader", monkeypatch), []

    def trained(kind, updates, subwords, dropout, factor, device):
        made.append((kind, factor, dropout))
        value = abs(factor - 1) + dropout if kind == "gpt" else 9 - factor
        curve = [[1, 9.5], [2, value], [3, 9.0]]
        return None, {"kind": kind, "dropout": dropout, "validation": curve, "test": value + 1}

    monkeypatch.setattr(reader, "trained", trained)
    monkeypatch.setattr(reader.Subwords, "learn", lambda *given: None)
    file = tmp_path / "made" / "search.jsonl"
    for share in ("0/3", "1/3", "2/3"):
        reader.main("search", "--share", share, "--to", str(file))
    both = [(factor, dropout) for factor in (0.5, 1, 2, 4) for dropout in (0.2, 0.4)]
    for kind in reader.KINDS:
        assert sorted((f, d) for k, f, d in made if k == kind) == both
    assert len(made) == 16
    reader.main("search", "--edge", "--to", str(file))
    assert made[16:] == [("gru", 8, 0.2), ("gru", 8, 0.4)]
    found = reader.searched(reader.rows_of(file))
    assert len(found["rows"]) == 18 and found["best"]["gru"]["factor"] == 8
    assert (found["best"]["gpt"]["factor"], found["best"]["gpt"]["dropout"]) == (1, 0.2)
    assert found["best"]["gpt"]["best"] == 0.2


def test_the_stored_model_is_the_one_of_the_log(bits, monkeypatch):
    reader = imported("reader", monkeypatch)
    (run,) = [run for run in bits["runs"] if run["kind"] == "gpt" and run["updates"] == reader.STORED]
    file = FOLDER / "model" / "model.safetensors"
    assert file.stat().st_size < 5_000_000
    weights = load_file(file)
    assert sum(w.numel() for w in weights.values()) == run["parameters"]
    subwords = Subwords.load(FOLDER / "model" / "subwords.json")
    model = reader.make("gpt", len(subwords), 0.0)
    model.load_state_dict({name: w.float() for name, w in weights.items()})
    torch.set_num_threads(1)
    assert reader.bits(model, subwords, "test") == pytest.approx(run["test"], abs=0.01)


def test_what_the_chapter_says_of_bits(bits):
    counts = bits["counts"]
    assert min(counts, key=counts.get) == "5" and counts["5"] < 2
    gpt = {run["updates"]: run["test"] for run in bits["runs"] if run["kind"] == "gpt"}
    gru = {run["updates"]: run["test"] for run in bits["runs"] if run["kind"] == "gru"}
    assert gru[300] < min(gpt.values()) - 0.1 < counts["5"] - 0.1
    assert gru[1200] > gru[300] and gpt[2400] > gpt[600]  # four times as long is worse
