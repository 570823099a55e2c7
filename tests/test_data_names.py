"""data.names: names in eleven languages and three alphabets, each with one right answer."""

import unicodedata
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heed.data import NAME_LANGUAGES, SPLITS, Named, place_names

ALL = {split: place_names(split) for split in SPLITS}


def test_names_by_hand():
    names = {name for split in SPLITS for name in ALL[split]}
    latin = "en Switzerland, de Schweiz, fr Suisse, es Suiza, it Svizzera, fi Sveitsi, pl Szwajcaria"
    for one in f"{latin}, tr İsviçre, ru Швейцария, uk Швейцарія, el Ελβετία".split(", "):
        language, name = one.split()
        assert Named(name, language) in names


def test_a_territory_is_in_one_split_only():
    switzerland = {"Switzerland", "Schweiz", "Suisse", "Szwajcaria", "Ελβετία", "Швейцария"}
    assert [len(switzerland & {one.name for one in ALL[split]}) for split in SPLITS].count(0) == 2


def test_no_name_has_two_languages_and_none_is_in_two_splits():
    count = Counter(one.name.casefold() for split in SPLITS for one in ALL[split])
    assert set(count.values()) == {1}
    assert "kenya" not in count and "fidschi" in count


def test_fewer_languages_have_more_names_that_are_theirs_alone():
    few = place_names("train", languages=("en", "el"))
    assert {one.language for one in few} == {"en", "el"}
    assert len([one for one in few if one.language == "en"]) > 190
    assert len([one for one in ALL["train"] if one.language == "en"]) < 90


def test_eleven_languages_three_alphabets_and_enough_of_each():
    assert len(NAME_LANGUAGES) >= 8
    for split, least in (("train", 70), ("val", 5), ("test", 5)):
        count = Counter(one.language for one in ALL[split])
        assert set(count) == set(NAME_LANGUAGES) and min(count.values()) >= least
    scripts = {unicodedata.name(one.name[0]).split()[0] for one in ALL["train"]}
    assert scripts == {"LATIN", "CYRILLIC", "GREEK"}


@given(st.integers(), st.sampled_from(SPLITS))
def test_the_seed_decides_the_order_alone(seed, split):
    names = place_names(split, seed)
    assert names == place_names(split, seed) and sorted(names) == sorted(ALL[split])


def test_another_seed_is_another_order():
    assert place_names("train", 0) != place_names("train", 1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"split": "dev"}, "split='dev' is unknown: choose one of train, val, test"),
        ({"languages": ("en", "tlh", "vo")}, "no data for 'tlh', 'vo': choose some of en, de, fr"),
        ({"languages": ()}, "no language was given"),
    ],
)
def test_bad_arguments_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        place_names(**arguments)
