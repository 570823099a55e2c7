"""The log of chapter 03's real sentences belongs to the script beside it, and to what the chapter says."""

import json
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "assets" / "03_additive_attention" / "sentences.py"


@pytest.fixture(scope="module")
def prose():
    """The chapter's text, as one line."""
    chapter = ROOT / "chapters" / "03_additive_attention.ipynb"
    cells = json.loads(chapter.read_text(encoding="utf-8"))["cells"]
    text = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return " ".join(text.split())


def test_the_log_is_of_this_script(script, log):
    training = log["training"]
    assert (training["seed"], training["updates"]) == (script.SEED, script.UPDATES)
    assert (training["pairs a batch"], training["rate"]) == (script.BATCH, script.RATE)
    assert script.SIZES.items() <= log["model"].items() and log["hardware"] == script.HARDWARE
    assert [sentence["source"] for sentence in log["sentences"]] == script.OURS


def test_each_map_has_a_row_for_each_token_and_shares_out_one_unit(log):
    for sentence in log["sentences"]:
        weights = torch.tensor(sentence["weights"])
        assert weights.shape == (len(sentence["wrote"]), len(sentence["read"]))
        assert (weights.sum(dim=1) - 1).abs().max() < 0.01


def test_the_chapter_quotes_the_logs(log, prose):
    low, high = log["interval"]
    assert f"**{log['bleu']:.1f} BLEU** (95 % interval {low:.1f} to {high:.1f};" in prose
    for sentence in log["sentences"][1], log["sentences"][2]:
        assert sentence["source"] in prose and sentence["written"] in prose
    assert f"{log['training']['updates']:,} updates" in prose
    ladder = json.loads((ROOT / "assets/14_a_real_translator/ladder-10min.json").read_text(encoding="utf-8"))
    plain, attention = (rung["bleu"] for rung in ladder["runs"][0]["rungs"][:2])
    assert f"scores {attention:.1f} with other settings, and a plain encoder–decoder {plain:.1f}." in prose
