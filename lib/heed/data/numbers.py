"""Numbers in words, in German and French, and the same numbers in English words.

The number of digits is a dial for the length. German says the ones before the tens, so that the order crosses
("dreiundzwanzig", "twenty-three"); French counts in twenties ("quatre-vingt-dix-sept", "ninety-seven").
"""

import random

from num2words import num2words

from heed.data.corpus import Pair, check_languages, check_request, split_of

NUMBER_LANGUAGES = ("de", "fr")
MOST_DIGITS = 12


def number_in_words(number, language):
    """Write a whole number in words: `number_in_words(23, "de")` is `dreiundzwanzig`.

    The words are num2words'. Where it leaves the German "eins" before a thousand or a million, we write what
    is said: 101,000 is einhunderteintausend, 101 million are einhunderteine Millionen.
    """
    words = num2words(number, lang=language)
    if language == "de":
        words = words.replace("einstausend", "eintausend").replace("eins M", "eine M")
    return words


def number_splits(number):
    """The splits in which a number may occur.

    Numbers below 100 are in all three: they are few, and many of their words follow no rule that could be
    found without having seen them. From 100 on, every number is in one split. So an exact match at one or two
    digits shows memory, and at three or more it shows that the rule was learnt.
    """
    return ("train", "val", "test") if number < 100 else (split_of(str(number)),)


def numbers(n, split="train", seed=0, digits=(1, MOST_DIGITS), languages=NUMBER_LANGUAGES):
    """Draw n numbers in words, with the English words as the target.

    Each length from `digits` is equally likely, then each number of that length.

    n: how many; a number may come more than once
    split: "train", "val" or "test"; what is in which, see `number_splits`
    seed: the same seed gives the same numbers
    digits: the fewest and the most digits, between 1 and 12
    languages: of the source, some of NUMBER_LANGUAGES

    Returns a list of Pair(source, target, language).
    Raises ValueError for n < 0, an unknown split or language, and digits out of range or in the wrong order.
    """
    check_request(n, split)
    check_languages(languages, NUMBER_LANGUAGES)
    low, high = digits
    if not 1 <= low <= high <= MOST_DIGITS:
        raise ValueError(f"{digits=} must be (fewest, most) with 1 <= fewest <= most <= {MOST_DIGITS}")
    rng = random.Random(seed)
    pairs = []
    for _ in range(n):
        length, language = rng.randint(low, high), rng.choice(languages)
        number = _number_of_length(length, rng)
        while split not in number_splits(number):
            number = _number_of_length(length, rng)
        pairs.append(Pair(number_in_words(number, language), number_in_words(number, "en"), language))
    return pairs


def _number_of_length(length, rng):
    return rng.randrange(10 ** (length - 1) if length > 1 else 0, 10**length)
