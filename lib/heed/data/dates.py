"""Dates as people write them, in eight languages, and the same dates in ISO 8601.

The formats are those of the Unicode consortium's CLDR, which comes with Babel. Languages differ in order:

    en  Thursday, March 5, 1987        hu  1987. március 5., csütörtök
    de  Donnerstag, 5. März 1987       ru  четверг, 5 марта 1987 г.
    es  jueves, 5 de marzo de 1987     zh  1987年3月5日星期四

so that an exact translation must really reorder.
"""

import random
from datetime import date, timedelta

from babel.dates import format_date

from heed.data.corpus import Pair, check_languages, check_request, split_of

DATE_LANGUAGES = ("en", "de", "fr", "es", "hu", "ru", "zh", "ja")
DATE_FORMATS = ("full", "long", "medium", "short")
FIRST_DAY, LAST_DAY = date(1950, 1, 1), date(2049, 12, 31)


def date_formats(language):
    """The formats of a language, without the one whose meaning the text alone does not tell.

    English, as CLDR has it, puts the month first: 3/5/87 is the fifth of March there, and the third of May in
    Spanish. Without this one format no text stands for two days.
    """
    return tuple(format for format in DATE_FORMATS if (language, format) != ("en", "short"))


def write_date(day, language, format):
    """Write a day in a language's format: `write_date(date(1987, 3, 5), "de", "long")` is `5. März 1987`.

    Blanks that the eye cannot tell apart (Russian has a narrow one that never breaks) become a space.
    """
    return " ".join(format_date(day, format, locale=language).split())


def dates(n, split="train", seed=0, languages=DATE_LANGUAGES):
    """Draw n dates in random languages and formats, with their ISO 8601 form as the target.

    The days lie between 1 January 1950 and 31 December 2049: a hundred years, so that a year of two digits
    has one meaning (87 is 1987, 12 is 2012). A day is in one split only, in all its languages and formats.

    n: how many; a day may come more than once
    split: "train", "val" or "test"
    seed: the same seed gives the same dates
    languages: some of DATE_LANGUAGES

    Returns a list of Pair(source, target, language).
    Raises ValueError for n < 0, an unknown split or an unknown language.
    """
    check_request(n, split)
    check_languages(languages, DATE_LANGUAGES)
    rng = random.Random(seed)
    pairs = []
    while len(pairs) < n:
        day = FIRST_DAY + timedelta(days=rng.randrange((LAST_DAY - FIRST_DAY).days + 1))
        if split_of(day.isoformat()) == split:
            language = rng.choice(languages)
            source = write_date(day, language, rng.choice(date_formats(language)))
            pairs.append(Pair(source, day.isoformat(), language))
    return pairs
