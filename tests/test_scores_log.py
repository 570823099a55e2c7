"""The logs behind chapter 04 belong to their scripts, are whole, and hold the numbers that it quotes."""

import json
import re
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[1] / "assets" / "04_score_functions"
SCRIPT = FOLDER / "dates.py"
CHAPTER = FOLDER.parents[1] / "chapters" / "04_score_functions.ipynb"


@pytest.fixture(scope="module")
def prose():
    cells = json.loads(CHAPTER.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def ends(log, score, width, rate=4e-3, start=1.0, place=-1):
    """Dates right in 100 at the end of the runs with these settings, the lowest and the highest."""
    asked = score, width, rate, start
    runs = [r for r in log["runs"] if (r["score"], r["width"], r["rate"], r["start"]) == asked]
    right = [round(100 * run["exact"][place]) for run in runs]
    assert len(right) == 3
    return sorted(right)


def test_every_run_of_the_script_is_in_the_log(script, log):
    settings = [(r["score"], r["width"], r["rate"], r["start"], r["seed"]) for r in log["runs"]]
    wanted = [(*run, seed) for run in dict.fromkeys(script.RUNS) for seed in script.SEEDS]
    assert sorted(settings) == sorted(wanted)
    assert log["updates"] == list(range(0, script.UPDATES + 1, script.EVERY))
    for run in log["runs"]:
        for name in ("exact", "spread", "entropy", "largest", "jacobian"):
            assert len(run[name]) == len(log["updates"])


def test_the_parameters_are_those_of_the_scores(script, log):
    for run in log["runs"]:
        score = script.SCORES[run["score"]](run["width"])
        assert run["parameters"] == sum(p.numel() for p in score.parameters())


def test_saturation_is_measured_over_real_tokens(script):
    torch.manual_seed(0)
    model = script.make("scaled", 8)
    measured = script.saturation(model)
    assert 0 < measured["spread"] < 1 and 2 < measured["entropy"] < 4 and 0 < measured["jacobian"] < 0.5


def test_the_chapter_quotes_the_log_of_the_dates(log, prose):
    half, quarter = ends(log, "plain", 512, 2e-3), ends(log, "plain", 512, 1e-3)
    with_half = f"{half[0]} to {half[-1]} dates with half the rate for the whole model"
    assert f"{with_half}, {quarter[0]} to {quarter[-1]} with a quarter" in prose
    divided, scaled = ends(log, "divided", 512), ends(log, "scaled", 512)
    assert "three seeds, {}, {} and {} of 100".format(*divided) in prose
    assert f"where the scaled score gets {scaled[0]} to {scaled[-1]}" in prose
    kept = [r for r in log["runs"] if r["score"] == "bilinear" and r["rate"] == 2e-3]
    assert f"up to {max(round(100 * (r['kept']['96'] - r['kept']['16'])) for r in kept)} dates" in prose
    a, b, c = ends(log, "plain", 512, start=512**-0.25)
    assert f"gets {a}, {b} and {c} of 100 dates right" in prose


def test_the_log_of_the_controls_is_its_script_s(prose):
    log = json.loads((FOLDER / "controls.json").read_text(encoding="utf-8"))
    names = "score", "width", "rate", "updates", "seed"
    source = (FOLDER / "controls.py").read_text(encoding="utf-8")
    runs = {}
    for run in log["runs"]:
        score, width, rate, updates, _ = key = tuple(run[name] for name in names)
        runs[key] = round(100 * run["exact"])
        said = "RATE / 4" if rate == 1e-3 else "RATE"
        assert f'("{score}", {width}, {said}, {updates})' in source
    assert len(runs) == len(log["runs"]) == 3 * source.count("RATE, ") + 3 * source.count("RATE / 4, ")


def test_the_four_scores_have_nearly_the_same_number_of_parameters(log):
    parameters = {r["score"]: r["parameters"] for r in log["runs"] if r["width"] == 64}
    assert parameters == {"additive": 18_496, "plain": 18_432, "scaled": 18_432, "bilinear": 18_432}


def test_the_log_of_the_look_up_is_its_script_s():
    log = json.loads((FOLDER / "lookup.json").read_text(encoding="utf-8"))
    assert len(log["runs"]) == 14 * len(log["seeds"])
    plain = [r["right"] for r in log["runs"] if (r["score"], r["width"], r["start"]) == ("plain", 512, 1.0)]
    assert max(plain) < 0.605
    assert re.search(r"RUNS = \[", (FOLDER / "lookup.py").read_text(encoding="utf-8"))
