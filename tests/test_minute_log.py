"""Chapter 14's log of half a minute belongs to the script beside it; words do not know all words."""

from pathlib import Path

import pytest

from heed.text import UNK

FOLDER = Path(__file__).parents[1] / "assets" / "14_a_real_translator"
SCRIPT = FOLDER / "minute.py"


def test_every_kind_of_token_had_the_same_time(script, log):
    assert log["tokens"].keys() == script.SEEDS.keys()
    time = script.UPDATES * log["tokens"]["sub-words"]["seconds an update"]
    for name, of in log["tokens"].items():
        assert len(of["bleu"]) == len(script.SEEDS[name])
        assert of["updates"] * of["seconds an update"] == pytest.approx(time, rel=0.02)


def test_words_are_unknown_and_pieces_are_not(log):
    unknown = {name: of["German test captions with an unknown word"] for name, of in log["tokens"].items()}
    assert unknown["characters"] == unknown["sub-words"] == 0 < unknown["words"] < unknown["frequent words"]


def test_averages_are_of_the_runs_that_the_script_makes(script, log):
    runs = {f"falling, seed {seed}" for seed in script.SEEDS["sub-words"]}
    assert log["averaging"].keys() == runs | {"two seeds", "constant, seed 0", "constant, seed 1"}
    for name in log["averaging"].keys() - {"two seeds"}:
        assert [*log["averaging"][name]] == [f"update {last}" for _, last in script.SNAPSHOTS]


def test_words_come_back_and_the_unknown_ones_are_one_token(script):
    words = script.Words.learn(["Ein Hund läuft.", "Ein Hund."], 3)
    assert words.decode(words.encode("Ein Hund.", bos=True, eos=True)) == "Ein Hund."
    assert words.encode("Ein Igel.")[1] == words.encode(" Strandhut")[0] == UNK
    assert words.decode(words.encode("Ein Igel.")) == "Ein <unk>."
