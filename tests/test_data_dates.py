"""data.dates: the formats of eight languages, one meaning for every text, no day in two splits."""

import os
import random
import subprocess
import sys
from collections import Counter
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heed.data import DATE_LANGUAGES, SPLITS, dates, split_of
from heed.data.dates import DATE_FORMATS, FIRST_DAY, LAST_DAY, date_formats, write_date

# --- by hand -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "format", "text"),
    [
        ("en", "full", "Thursday, March 5, 1987"),
        ("de", "full", "Donnerstag, 5. März 1987"),
        ("de", "short", "05.03.87"),
        ("fr", "short", "05/03/1987"),
        ("es", "long", "5 de marzo de 1987"),
        ("es", "short", "5/3/87"),
        ("hu", "full", "1987. március 5., csütörtök"),
        ("ru", "full", "четверг, 5 марта 1987 г."),
        ("zh", "full", "1987年3月5日星期四"),
        ("ja", "medium", "1987/03/05"),
    ],
)
def test_dates_by_hand(language, format, text):
    assert write_date(date(1987, 3, 5), language, format) == text


def test_the_month_first_is_left_out():
    assert date_formats("en") == ("full", "long", "medium")
    assert all(date_formats(language) == DATE_FORMATS for language in DATE_LANGUAGES if language != "en")
    march, may = date(1987, 3, 5), date(1987, 5, 3)
    assert write_date(march, "en", "short") == write_date(may, "es", "short") == "3/5/87"


# --- properties --------------------------------------------------------------------------------------------


def test_no_short_text_has_two_meanings():
    """All dates in digits alone, of all days: the only ones that could be read in two ways."""
    meaning = {}
    for i in range((LAST_DAY - FIRST_DAY).days + 1):
        day = FIRST_DAY + timedelta(days=i)
        for language, format in (("de", "short"), ("de", "medium"), ("fr", "short"), ("es", "short")):
            assert meaning.setdefault(write_date(day, language, format), day) == day


def all_texts(day):
    return {
        write_date(day, language, format) for language in DATE_LANGUAGES for format in date_formats(language)
    }


@given(st.data())
def test_no_text_has_two_meanings(data):
    """The text of one day is not the text of the same numbers in another order, or a hundred years apart."""
    day = data.draw(st.dates(FIRST_DAY, LAST_DAY))
    texts = all_texts(day)
    other = data.draw(st.dates(FIRST_DAY, LAST_DAY).filter(lambda other: other != day))
    swapped = date(day.year, day.day, day.month) if day.day <= 12 else other
    for near in {other, swapped, day + timedelta(days=1)} - {day}:
        assert not texts & all_texts(near)


def test_every_target_is_the_day_of_its_source():
    for pair in dates(307, seed=1):
        day = date.fromisoformat(pair.target)
        formats = date_formats(pair.language)
        assert pair.source in {write_date(day, pair.language, format) for format in formats}
        assert FIRST_DAY <= day <= LAST_DAY


def test_no_day_is_in_two_splits():
    days = {split: {pair.target for pair in dates(701, split, seed=2)} for split in SPLITS}
    assert len(set.union(*days.values())) == sum(map(len, days.values()))
    assert all(split_of(day) == split for split in SPLITS for day in days[split])


def test_eight_tenths_are_for_training():
    n_days = (LAST_DAY - FIRST_DAY).days + 1
    count = Counter(split_of((FIRST_DAY + timedelta(days=i)).isoformat()) for i in range(n_days))
    assert n_days == 36525
    for split, share in zip(SPLITS, (0.8, 0.1, 0.1), strict=True):
        assert abs(count[split] / n_days - share) < 0.01


def test_all_languages_come_with_all_formats():
    seen = Counter(pair.language for pair in dates(1009, seed=3))
    assert set(seen) == set(DATE_LANGUAGES) and min(seen.values()) > 80
    sources = {pair.source for pair in dates(1009, seed=3, languages=("ru",))}
    assert any("," in source for source in sources) and any(len(source) == 10 for source in sources)


def test_only_plain_spaces():
    assert all(c == " " or not c.isspace() for pair in dates(503) for c in pair.source)


def test_the_seed_decides_and_the_global_state_is_left_alone():
    random.seed(3)
    before = random.getstate()
    assert dates(31, seed=5) == dates(31, seed=5) != dates(31, seed=6)
    assert dates(31, seed=5)[:7] == dates(7, seed=5)
    assert random.getstate() == before


def test_another_python_draws_the_same_dates():
    """Python's own hashes of strings differ from run to run; the split must not depend on them."""
    code = "from heed.data import dates; print([p.target for p in dates(7, 'test')])"
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    assert ran.stdout.decode().strip() == str([pair.target for pair in dates(7, "test")])


def test_no_dates_are_an_empty_list():
    assert dates(0) == []


# --- errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"n": -1}, "0 samples or more, but n=-1"),
        ({"n": 3, "split": "dev"}, "split='dev' is unknown: choose one of train, val, test"),
        ({"n": 3, "languages": ("de", "tlh")}, "no data for 'tlh': choose some of en, de, fr"),
        ({"n": 3, "languages": ()}, "no language was given: choose some of en"),
    ],
)
def test_bad_arguments_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        dates(**arguments)
