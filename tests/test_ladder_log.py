"""Chapter 14's committed log belongs to the script beside it, and is whole; its examination can be marked."""

import itertools
import json
import re
import tomllib
from pathlib import Path

import pytest
import torch

from heed.data import TokenBatches
from heed.text import BOS, EOS

FOLDER = Path(__file__).parents[1] / "assets" / "14_a_real_translator"
SCRIPT = FOLDER / "ladder.py"
RECIPE = Path(__file__).parents[1] / "recipes" / "multi30k-10min.toml"
RUNGS = ["encoder–decoder", "with attention", "Transformer", "+ averaging", "+ beam"]


def test_every_seed_has_every_rung_with_its_interval(log):
    assert {"task", "budget", "versions", "seconds an update", "all", "search"} <= log.keys()
    assert len({run["seed"] for run in log["runs"]}) == len(log["runs"]) == 3
    for run in log["runs"]:
        assert [rung["name"] for rung in run["rungs"]] == RUNGS
        for rung in run["rungs"]:
            low, high = rung["interval"]
            assert low < rung["bleu"] < high < low + 6
            assert sum(n for _, _, n, _ in rung["by_length"]) == 1000
        scores = {rung["name"]: rung["bleu"] for rung in run["rungs"]}
        for rung in run["rungs"][1:]:
            step = scores[rung["name"]] - scores[rung["step"]["above"]]
            assert rung["step"]["bleu"] == pytest.approx(step, abs=0.011)


def test_all_models_had_the_settings_of_the_script(script, log):
    assert log["recurrent"] == {name: sizes for name, (_, sizes) in script.RECURRENT.items()}
    assert log["transformer"] == script.TRANSFORMER
    recipe = tomllib.loads(RECIPE.read_text(encoding="utf-8"))["training"]
    same = {"dropout": script.DROPOUT, "tokens": recipe["tokens"], "smoothing": recipe["smoothing"]}
    assert log["all"] == same | script.TRAINING
    for run in log["runs"]:
        assert [(low, high) for low, high, _, _ in run["rungs"][0]["by_length"]] == [*script.LENGTHS]


def test_every_model_had_the_same_search_and_the_same_time(script, log):
    losses, rates = log["search"]["held-out loss"], log["search"]["rate"]
    assert [*losses] == [*rates] == [*log["seconds an update"]] == [*script.SEARCHED]
    for name, tried in losses.items():
        assert [float(rate) for rate in tried] == [*script.RATES]
        assert rates[name] == float(min(tried, key=tried.get))
    assert log["budget"].startswith("as many updates as fit into 6 minutes")
    for run in log["runs"]:
        for rung in run["rungs"]:
            name = "Transformer" if rung["name"].startswith("+") else rung["name"]
            assert rung["updates"] == pytest.approx(360 / log["seconds an update"][name], abs=1.5)


def test_the_optimizer_of_each_model(script):
    assert {script.optimizer(name, 1.0)["optimizer"] for name in RUNGS[:2]} == {"adamw"}
    assert script.optimizer("Transformer", 1.0) == {"optimizer": "muon", "lr": 2.0, "adamw_lr": 1.0}
    assert script.optimizer("Transformer, AdamW", 1.0) == {"optimizer": "adamw", "lr": 1.0}


def test_dropout_falls_on_embeddings_and_before_the_output(script):
    for kind, _ in script.RECURRENT.values():
        torch.manual_seed(0)
        model = script.with_dropout(kind(13, 13, d_embed=64, d_hidden=64), 0.5)
        source, target_in = torch.randint(4, 13, (2, 5)), torch.randint(4, 13, (2, 4))
        seen = []
        model.decoder.out.register_forward_hook(lambda module, given, out, seen=seen: seen.append(given[0]))
        for training in (True, False):
            seen.clear()
            model.train(training)(source, target_in)
            zeros = torch.cat([x.flatten() for x in seen]).eq(0).double().mean()
            assert (zeros > 0.4) == training


@pytest.mark.parametrize("name", RUNGS[:2])
def test_the_recurrent_loss_by_hand(script, name):
    kind, _ = script.RECURRENT[name]
    torch.manual_seed(0)
    model = kind(13, 13, d_embed=3, d_hidden=5)
    pairs = [([5, 6, 7], [BOS, 8, 9, EOS]), ([5], [BOS, 10, EOS])]
    batch = TokenBatches(pairs, 20).batch([0, 1])
    log_p = model(batch.source, batch.target_in).log_softmax(-1)
    said = [(0, 0, 8), (0, 1, 9), (0, 2, EOS), (1, 0, 10), (1, 1, EOS)]
    true = -sum(0.9 * log_p[i, t, y] + 0.1 * log_p[i, t].mean() for i, t, y in said)
    torch.testing.assert_close(script.recurrent_loss(model, batch, 0.1), true)


def test_long_and_short_sentences_are_all_counted(script):
    lows, highs = zip(*script.LENGTHS, strict=True)
    assert lows[0] == 1 and [high + 1 for high in highs[:-1]] == [*lows[1:]]


def test_the_examination_has_its_groups_and_every_sentence_something_to_find():
    exam = json.loads((FOLDER / "exam.json").read_text(encoding="utf-8"))
    assert [*exam] == ["everyday", "numbers", "names", "negation", "rare words", "long sentences"]
    for source, wanted in itertools.chain(*exam.values()):
        assert source.endswith(".") and wanted and all(map(all, (words.split("|") for words in wanted)))


def test_a_wanted_word_is_looked_for_where_a_word_begins():
    exam = json.loads((FOLDER / "exam.json").read_text(encoding="utf-8"))
    for _, wanted in itertools.chain(*exam.values()):
        assert all(re.fullmatch(r"\w[\w' |-]*", words) for words in wanted), wanted


def test_the_experiments_are_whole_and_hold_the_recipe_of_the_committed_model(log):
    tried = json.loads((FOLDER / "experiments.json").read_text(encoding="utf-8"))
    assert {"task", "hardware", "note", "entries"} == tried.keys()
    keys = {"kind", "name", "changed", "expected", "came_out", "seed", "measured", "used"}
    for entry in tried["entries"]:
        assert keys <= entry.keys() <= keys | {"settings", "hardware"}
        assert (entry["seed"] == 0) == (entry["kind"] != "seed")
    [used] = [entry for entry in tried["entries"] if entry["kind"] == "training" and entry["used"]]
    recipe = tomllib.loads((FOLDER / "model" / "recipe.toml").read_text(encoding="utf-8"))
    assert used["settings"].items() <= {**recipe["model"], **recipe["training"]}.items()
    [longer] = [entry for entry in tried["entries"] if entry["kind"] == "longer"]
    hour = tomllib.loads(RECIPE.with_name("multi30k.toml").read_text(encoding="utf-8"))
    assert longer["settings"].items() <= {**hour["model"], **hour["training"]}.items()
    for entry in (entry for entry in tried["entries"] if entry["kind"] == "seed"):
        assert entry["settings"] == used["settings"]
        assert entry["measured"]["updates"] == used["measured"]["updates"]
    [elsewhere] = [entry for entry in tried["entries"] if entry["kind"] == "elsewhere"]
    assert elsewhere["settings"] == used["settings"] and elsewhere["measured"]["seconds"] < 600
    earlier = json.loads((FOLDER / "ladder-10min.json").read_text(encoding="utf-8"))
    rungs = {rung["name"]: rung for rung in earlier["runs"][0]["rungs"]}
    assert used["measured"]["updates"] == rungs["Transformer"]["updates"]
    assert used["measured"]["bleu"] == pytest.approx(rungs["Transformer"]["bleu"], abs=0.05)
    assert used["measured"]["bleu_beam_4"] == pytest.approx(rungs["+ beam"]["bleu"], abs=0.05)


def test_the_losses_are_of_the_stored_model():
    losses = json.loads((FOLDER / "losses.json").read_text(encoding="utf-8"))
    lines = (FOLDER / "model" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    last = [line for line in map(json.loads, lines) if line.get("weights") == "last"][-1]
    assert losses["held out"] == pytest.approx(last["validation"]["val_loss"], abs=0.02)
    assert 0 < losses["training"] < losses["held out"]


def test_rounding_the_weights_costs_the_stored_model_no_point(log):
    losses = json.loads((FOLDER / "losses.json").read_text(encoding="utf-8"))
    earlier = json.loads((FOLDER / "ladder-10min.json").read_text(encoding="utf-8"))
    rungs = {rung["name"]: rung for rung in earlier["runs"][0]["rungs"]}
    assert losses["bleu"] == pytest.approx(rungs["Transformer"]["bleu"], abs=0.5)
    assert losses["interval"] == pytest.approx(rungs["Transformer"]["interval"], abs=0.5)
