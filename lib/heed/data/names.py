"""Which language is this name? The countries and territories of the world, as eleven languages call them."""

import random
from collections import Counter
from typing import NamedTuple

from babel import Locale

from heed.data.corpus import check_languages, check_request, split_of

NAME_LANGUAGES = ("en", "de", "fr", "es", "it", "fi", "pl", "tr", "ru", "uk", "el")
_NOT_NAMES = ("XA", "XB", "ZZ")  # CLDR's two tests of software, and the unknown region


class Named(NamedTuple):
    """The name of a territory, and the language in which it has this name."""

    name: str
    language: str


def place_names(split="train", seed=0, languages=NAME_LANGUAGES):
    """All names of one split, in a random order: Named("Schweiz", "de"), Named("Ελβετία", "el"), …

    Three alphabets: Greek gives itself away, Russian and Ukrainian share most letters, and the eight
    languages in Latin letters differ in endings and accents. A territory is in one split only, in all its
    languages: the test asks for names never seen in any of them. A name that two of the languages spell
    alike, such as Kenya, has no single right answer and is left out.

    split: "train", "val" or "test"
    seed: decides the order, and nothing else
    languages: some of NAME_LANGUAGES

    Returns a list of Named(name, language). Raises ValueError for an unknown split or language.
    """
    check_request(0, split)
    check_languages(languages, NAME_LANGUAGES)
    names = {
        (code, language): name
        for language in languages
        for code, name in Locale(language).territories.items()
        if len(code) == 2 and code not in _NOT_NAMES
    }
    count = Counter(name.casefold() for name in names.values())
    chosen = [
        Named(name, language)
        for (code, language), name in sorted(names.items())
        if split_of(code) == split and count[name.casefold()] == 1
    ]
    random.Random(seed).shuffle(chosen)
    return chosen
