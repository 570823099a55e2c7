"""Chapter 14's log of how the recipe was chosen fits its script; the page of recipes quotes it."""

import math
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "assets" / "14_a_real_translator"
RECIPE = ROOT / "recipes" / "multi30k-10min.toml"
SCRIPT = FOLDER / "choose.py"


def test_all_changes_were_tried_with_as_many_updates_as_fit(script, log):
    found = log["search"]["found"]
    assert [*found] == [*script.CHANGES]
    for name, (seconds, settings) in script.CHANGES.items():
        assert found[name]["settings"] == settings and found[name]["seconds an update"] == seconds
        assert found[name]["updates"] == int(60 * script.MINUTES / 3 / seconds)
        assert 1 < found[name]["held-out loss"] < 4


def test_the_best_two_of_the_search_ran_by_the_clock_and_the_better_one_with_every_seed(script, log):
    found, clock = log["search"]["found"], log["clock"]
    best = sorted(found, key=lambda name: found[name]["held-out loss"])
    assert sorted(script.FINALISTS) == sorted(clock["runs"]) == sorted(best[:2])
    assert clock["chosen"] == min(clock["runs"], key=lambda name: clock["runs"][name][0]["held-out loss"])
    for name, of in clock["runs"].items():
        assert [run["seed"] for run in of] == [*(script.SEEDS if name == clock["chosen"] else [0])]
        for run in of:
            for how in ("greedy", "beam of 4"):
                low, high = run[how]["interval"]
                assert low < run[how]["bleu"] < high < low + 6
            assert math.exp(run["held-out loss"]) < 10


def test_nothing_near_the_chosen_one_is_better(script, log):
    found = log["neighbours"]["found"]
    assert {name: (run["updates"], run["settings"]) for name, run in found.items()} == script.NEIGHBOURS
    whole = {name: run["held-out loss of a caption"] for name, run in found.items()}
    assert min(whole, key=whole.get) == "as chosen" and script.CHOSEN == log["clock"]["chosen"]
    for name, run in found.items():
        tokens = whole[name] / run["held-out loss"]  # in a caption; the smaller the vocabulary, the more
        assert 15 < tokens < 18, name
    sizes = [whole[name] / found[name]["held-out loss"] for name in [*found][:4]]
    assert sizes[1] > sizes[2] > sizes[0] > sizes[3]


def test_the_recipe_is_the_chosen_one(script, log):
    recipe = tomllib.loads(RECIPE.read_text(encoding="utf-8"))
    for key, value in script.CHANGES[log["clock"]["chosen"]][1].items():
        section, name = key.split(".")
        assert recipe[section][name] == value, key
    assert recipe["training"]["minutes"] == script.MINUTES


def test_the_recipes_page_quotes_the_mean_of_the_seeds(log):
    runs = log["clock"]["runs"][log["clock"]["chosen"]]
    text = (ROOT / "recipes/README.md").read_text(encoding="utf-8")
    for how in ("greedy", "beam of 4"):
        scores = [run[how]["bleu"] for run in runs]
        assert f"{sum(scores) / len(scores):.1f} ({min(scores):.1f} to {max(scores):.1f})" in text, how
