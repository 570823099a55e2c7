"""data.sentences: grammatical fillings, well-formed tags, unseen names, words that do not decide alone."""

import random
import re
from collections import Counter, defaultdict
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heed.data import AMBIGUOUS, SPLITS, TAGS, tagged_sentences
from heed.data.corpus import cut
from heed.data.sentences import _fill, entity_names
from heed.data.templates import AMBIGUOUS_PERSONS, OTHER_MEANINGS, TEMPLATES

TRAIN = tagged_sentences(4001, "train")
TEST = tagged_sentences(1009, "test")
KINDS = ("PLACE", "LANGUAGE", "MONEY", "MONTH")


def spans(sentence):
    """(kind, words) of every name in a sentence."""
    found = []
    for word, tag in zip(*sentence, strict=True):
        if tag[0] == "B":
            found.append((tag[2:], [word]))
        elif tag[0] == "I":
            found[-1][1].append(word)
    return [(kind, " ".join(words)) for kind, words in found]


# --- by hand -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "words", "tags"),
    [
        ("{PLACE} signed it .", "New Zealand signed it .", "B-PLACE I-PLACE O O O"),
        ("We saw {PLACE} .", "We saw New Zealand .", "O O B-PLACE I-PLACE O"),
        ("It costs {MONEY} .", "It costs two million yen .", "O O B-MONEY I-MONEY I-MONEY O"),
        ("Paid in {CURRENCY} .", "Paid in yen .", "O O B-MONEY O"),
        ("In {MONTH} {PERSON} {N} {THINGS} {DAY} .", "In July Mei two boots Friday .", "O B-MONTH O O O O O"),
    ],
)
def test_templates_are_filled_and_tagged(monkeypatch, template, words, tags):
    monkeypatch.setattr("heed.data.sentences.AMOUNTS", ("two million",))
    fillers = {"PLACE": ["New Zealand"], "MONEY": ["yen"], "MONTH": ["July"], "PERSON": ["Mei"]}
    fillers |= {"N": ["two"], "THINGS": ["boots"], "DAY": ["Friday"]}
    sentence = _fill(template, fillers, random.Random(0))
    assert " ".join(sentence.words) == words and " ".join(sentence.tags) == tags


def test_the_article_is_said_and_not_tagged():
    def say(place, template):
        return " ".join(_fill(template, {"PLACE": [place]}, random.Random(0)).words)

    assert say("Netherlands", "{PLACE} sent ships .") == "The Netherlands sent ships ."
    assert say("Cook Islands", "from {PLACE}") == "From the Cook Islands"
    assert say("Chad", "from {PLACE}") == "From Chad"
    sentence = _fill("{PLACE} sent ships .", {"PLACE": ["Netherlands"]}, random.Random(0))
    assert sentence.tags == ["O", "B-PLACE", "O", "O", "O"]


def test_an_ambiguous_name_stands_in_the_first_slot_of_its_kind_alone():
    fillers = {"PERSON": ["Mei"], "PLACE": ["Peru"], "MONEY": ["yen"]}
    sentence = _fill("{PERSON} flew to {PLACE} and {PLACE}", fillers, random.Random(0), "PLACE", "Chad")
    assert sentence.words == ["Mei", "flew", "to", "Chad", "and", "Peru"]
    fillers["MONEY"] = ["won", "yen"]
    sentence = _fill("{CURRENCY} or {MONEY}", fillers, random.Random(0), "MONEY", "won")
    assert sentence.words[0] == "Won" and sentence.words[-1] == "yen"


def test_names_are_those_of_cldr_made_fit_for_a_sentence():
    names = entity_names()
    assert {"Papua New Guinea", "Myanmar", "Hong Kong", "Antigua and Barbuda"} <= set(names["PLACE"])
    assert {"Swahili", "Scottish Gaelic"} <= set(names["LANGUAGE"])
    assert {"Japanese yen", "South Korean won"} <= set(names["MONEY"])
    assert len(names["MONTH"]) == 7
    for kind, least in (("PLACE", 200), ("LANGUAGE", 150), ("MONEY", 120)):
        assert len(names[kind]) > least
    everything = [name for kind in names for name in names[kind]]
    assert len(everything) == len(set(everything)) and not set(everything) & set(AMBIGUOUS)
    assert not any(set(name) & set("()&") for name in everything)


# --- properties --------------------------------------------------------------------------------------------


@given(st.integers(), st.sampled_from(SPLITS))
def test_tags_are_well_formed(seed, split):
    for words, tags in tagged_sentences(7, split, seed):
        assert len(words) == len(tags) and set(tags) <= set(TAGS)
        assert words[0][0] == words[0][0].upper() and words[-1] in (".", "?")
        assert not any("{" in word or " " in word or not word for word in words)
        for before, tag in pairwise(["O", *tags]):
            assert tag[0] != "I" or before[2:] == tag[2:]


@given(st.integers(), st.sampled_from(SPLITS))
def test_no_sentence_says_a_name_twice(seed, split):
    for sentence in tagged_sentences(7, split, seed):
        names = [name for kind, name in spans(sentence) if kind != "MONEY"]
        assert len(names) == len(set(names))


def test_test_names_are_never_in_training():
    known = {kind: set(names) | {name for name in AMBIGUOUS if AMBIGUOUS[name] == kind}
             for kind, names in entity_names().items()}  # fmt: skip
    seen = {split: defaultdict(set) for split in SPLITS}
    for split in SPLITS:
        for sentence in tagged_sentences(3001, split, seed=1):
            for kind, name in spans(sentence):
                while kind == "MONEY" and name not in known[kind]:
                    name = name.partition(" ")[2]  # the amount
                assert name in known[kind]
                if name not in AMBIGUOUS:
                    seen[split][kind].add(name)
    for kind in KINDS:
        assert seen["test"][kind] == set(cut(entity_names()[kind], "test"))
        assert not seen["train"][kind] & seen["test"][kind] and not seen["train"][kind] & seen["val"][kind]
        assert not seen["val"][kind] & seen["test"][kind]
    assert any(" " in name for name in seen["test"]["PLACE"])


def test_ambiguous_names_have_both_meanings_in_every_split():
    for split in SPLITS:
        tags = defaultdict(Counter)
        for sentence in tagged_sentences(5003, split, seed=2):
            for word, tag in zip(*sentence, strict=True):
                tags[word][tag[2:]] += 1
        for name, kind in AMBIGUOUS.items():
            assert tags[name][kind] > 9 and tags[name][""] > 9, (split, name, tags[name])


def test_most_ambiguous_names_have_both_meanings_as_the_first_word():
    first = defaultdict(set)
    for words, tags in tagged_sentences(9001, seed=3):
        first[words[0]].add(tags[0])
    both = {name for name in AMBIGUOUS if len(first[name]) == 2}
    assert both == {name for name, kind in AMBIGUOUS.items() if kind != "MONEY"}


def test_the_word_alone_does_not_decide():
    """The best tagger without context (the commonest tag of each word) fails on these names."""
    seen = defaultdict(Counter)
    for sentence in TRAIN:
        for word, tag in zip(*sentence, strict=True):
            seen[word][tag] += 1
    right = Counter()
    for sentence in TEST:
        for word, tag in zip(*sentence, strict=True):
            guess = seen[word].most_common(1)[0][0] if word in seen else "O"
            group = "ambiguous" if word in AMBIGUOUS else "O" if tag == "O" else "other names"
            right[group, guess == tag] += 1
    accuracy = {group: right[group, True] / (right[group, True] + right[group, False]) for group, _ in right}
    assert accuracy["ambiguous"] < 0.65
    assert accuracy["other names"] < 0.65
    assert accuracy["O"] > 0.95


def test_the_context_decides():
    """No two templates, and no template and another meaning, are alike around slots of different kinds."""
    frames = defaultdict(set)
    others = [template for templates in OTHER_MEANINGS.values() for template in templates]
    for template in {*TEMPLATES, *others}:
        for slot in re.finditer(r"{(\w*)}", template):
            around = template[: slot.start()] + "_" + template[slot.end() :]
            frames[re.sub(r"{\w*}", "{}", around)].add(slot[1])
    assert [frame for frame, slots in frames.items() if len(slots) > 1] == []


def test_templates_are_many_and_well_written():
    assert len(TEMPLATES) == len(set(TEMPLATES)) >= 60
    assert set(OTHER_MEANINGS) | set(AMBIGUOUS_PERSONS) == set(AMBIGUOUS)
    for template in (*TEMPLATES, *(t for ts in OTHER_MEANINGS.values() for t in ts)):
        assert re.fullmatch(r"([\w’'-]+|[.,?]|{\w*})( ([\w’'-]+|[.,?]|{\w*}))* [.?]", template), template
        assert not re.search(r"\b[Aa]n? {(PLACE|LANGUAGE|MONEY|CURRENCY|MONTH|PERSON)}", template), template


def test_the_seed_decides_and_the_global_state_is_left_alone():
    random.seed(3)
    before = random.getstate()
    assert tagged_sentences(31, seed=5) == tagged_sentences(31, seed=5) != tagged_sentences(31, seed=6)
    assert random.getstate() == before
    assert tagged_sentences(0) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"n": -1}, "0 samples or more, but n=-1"),
        ({"n": 3, "split": "dev"}, "split='dev' is unknown: choose one of train, val, test"),
    ],
)
def test_bad_arguments_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        tagged_sentences(**arguments)
