"""English sentences in which places, languages, sums of money and months are marked, word by word.

The names come from CLDR (through Babel), the sentences from templates of our own. Two things make the task
more than looking words up: names that training never saw, and names that mean two things, such as Turkey,
May or won.
"""

import random
import re
from datetime import date
from typing import NamedTuple

from babel import Locale
from babel.numbers import get_currency_name, get_territory_currencies

from heed.data.corpus import check_request, cut
from heed.data.templates import (
    AMBIGUOUS,
    AMBIGUOUS_PERSONS,
    AMOUNTS,
    COUNTS,
    DAYS,
    OTHER_MEANINGS,
    PERSONS,
    TEMPLATES,
    THINGS,
)

TAGS = ("O", *(f"{prefix}-{kind}" for kind in ("PLACE", "LANGUAGE", "MONEY", "MONTH") for prefix in "BI"))
SHARE_AMBIGUOUS = 0.4

# Codes in CLDR that are no place to be in: groups of states, parts of other places, islands with few people
# or none, tests of software; the two Congos, which CLDR writes with a dash; Turkey, which stands among the
# ambiguous names.
_NO_PLACE = set("AC AQ BV CC CD CG CP CQ CX DG EA EU EZ GS HM IC IO QO TA TF TR UM UN XA XB ZZ".split())
_A_DAY = date(2025, 1, 1)  # the money that was used on one day; without it the corpus would change with time
_WITH_ARTICLE = set("Bahamas Comoros Gambia Maldives Netherlands Philippines Seychelles".split())


class Tagged(NamedTuple):
    """A sentence as a list of words, and a tag for each: B-… at the start of a name, I-… inside, else O."""

    words: list[str]
    tags: list[str]


def entity_names():
    """All unambiguous names, {"PLACE": […], "LANGUAGE": […], "MONEY": […], "MONTH": […]}, each in order."""
    english = Locale("en")
    territories = {code: name for code, name in english.territories.items() if len(code) == 2}
    currencies = {code for place in territories for code in get_territory_currencies(place, _A_DAY, _A_DAY)}
    names = {
        "PLACE": [_plain(name) for code, name in territories.items() if code not in _NO_PLACE],
        "LANGUAGE": [name for code, name in english.languages.items() if len(code) == 2],
        "MONEY": [_plain(get_currency_name(code, count=2, locale="en")) for code in currencies],
        "MONTH": list(english.months["format"]["wide"].values()),
    }
    taken = set(AMBIGUOUS) | (set(names["PLACE"]) & set(names["LANGUAGE"]))
    return {kind: sorted(set(names[kind]) - taken) for kind in names}


def _plain(name):
    """Myanmar (Burma) -> Myanmar; Hong Kong SAR China -> Hong Kong; Turks & Caicos -> Turks and Caicos."""
    return name.split(" (")[0].split(" SAR")[0].replace("&", "and")


def tagged_sentences(n, split="train", seed=0):
    """Draw n sentences with BIO tags of the kinds PLACE, LANGUAGE, MONEY and MONTH.

    Every unambiguous name is in one split only: those in the test set were never in training, though single
    words of theirs may have been ("New" in "New Zealand"). The names in AMBIGUOUS are in all splits,
    because their question is another one: in two of five sentences one of them stands, half of the time in
    each of its meanings.

    n: how many
    split: "train", "val" or "test"
    seed: the same seed gives the same sentences

    Returns a list of Tagged(words, tags). Raises ValueError for n < 0 or an unknown split.
    """
    check_request(n, split)
    rng = random.Random(f"{split} {seed}")
    fillers = {kind: cut(names, split) for kind, names in entity_names().items()}
    fillers |= {"PERSON": PERSONS, "DAY": DAYS, "N": COUNTS, "THINGS": THINGS}
    return [_sentence(fillers, rng) for _ in range(n)]


def _sentence(fillers, rng):
    """Choose a template, and fill it."""
    if rng.random() >= SHARE_AMBIGUOUS:
        return _fill(rng.choice(TEMPLATES), fillers, rng)
    name = rng.choice(tuple(AMBIGUOUS))
    if rng.random() < 0.5:
        return _fill(rng.choice(_with_slot(AMBIGUOUS[name])), fillers, rng, AMBIGUOUS[name], name)
    others = [(template.replace("{}", name), None) for template in OTHER_MEANINGS.get(name, ())]
    if name in AMBIGUOUS_PERSONS:
        others.append((rng.choice(_with_slot("PERSON")), "PERSON"))
    template, kind = rng.choice(others)
    return _fill(template, fillers, rng, kind, name)


def _kind(slot):
    """What fills a slot: {CURRENCY} and {MONEY} both take the name of a currency, and both are money."""
    return "MONEY" if slot == "CURRENCY" else slot


def _with_slot(kind):
    """The templates in which a name of this kind can stand."""
    return [template for template in TEMPLATES if kind in map(_kind, re.findall(r"{(\w+)}", template))]


def _fill(template, fillers, rng, kind=None, name=None):
    """Fill all slots with random names, none of them twice, but the first slot of `kind` with `name`."""
    words, tags, used = [], [], {name}
    for token in template.split():
        slot = token[1:-1] if token[0] == "{" else None
        if slot is None:
            filled = [token]
        elif _kind(slot) == kind:
            filled, kind = [name], None
        else:
            chosen = rng.choice([filler for filler in fillers[_kind(slot)] if filler not in used])
            filled = chosen.split()
            used.add(chosen)
        if slot == "MONEY":
            filled = rng.choice(AMOUNTS).split() + filled
        if slot == "PLACE" and _takes_article(filled):
            words, tags = [*words, "the"], [*tags, "O"]
        words += filled
        tags += _bio(_kind(slot), len(filled))
    words[0] = words[0][0].upper() + words[0][1:]
    return Tagged(words, tags)


def _takes_article(name):
    """Whether English says "the" before the name of a place: the Netherlands, the Cook Islands."""
    ends = ("Islands", "Republic", "Territories", "Netherlands")
    return name[0] in ("United", "Isle") or name[0] in _WITH_ARTICLE or name[-1] in ends


def _bio(kind, n):
    return [f"B-{kind}", *[f"I-{kind}"] * (n - 1)] if f"B-{kind}" in TAGS else ["O"] * n
