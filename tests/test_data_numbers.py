"""data.numbers: words checked against a second derivation of our own, the dial, the splits."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.data import NUMBER_LANGUAGES, SPLITS, numbers
from heed.data.numbers import number_in_words, number_splits

# --- by hand -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "german", "french", "english"),
    [
        (0, "null", "zéro", "zero"),
        (1, "eins", "un", "one"),
        (23, "dreiundzwanzig", "vingt-trois", "twenty-three"),
        (71, "einundsiebzig", "soixante et onze", "seventy-one"),
        (80, "achtzig", "quatre-vingts", "eighty"),
        (97, "siebenundneunzig", "quatre-vingt-dix-sept", "ninety-seven"),
        (101, "einhunderteins", "cent un", "one hundred and one"),
        (101_000, "einhunderteintausend", "cent un mille", "one hundred and one thousand"),
        (80_000, "achtzigtausend", "quatre-vingt mille", "eighty thousand"),
        (1_000_001, "eine Million eins", "un million un", "one million and one"),
        (200_000_000, "zweihundert Millionen", "deux cents millions", "two hundred million"),
        (201_000_000, "zweihunderteine Millionen", "deux cent un millions", "two hundred and one million"),
    ],
)
def test_numbers_by_hand(number, german, french, english):
    assert [number_in_words(number, language) for language in ("de", "fr", "en")] == [german, french, english]


# --- a second derivation -----------------------------------------------------------------------------------

ONES = "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split()
TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()


def german_below_1000(number):
    """Without the s of eins."""
    hundreds, rest = divmod(number, 100)
    words = ONES[hundreds] + "hundert" if hundreds else ""
    if 0 < rest < 13:
        words += ONES[rest]
    elif 0 < rest < 20:
        words += {16: "sech", 17: "sieb"}.get(rest, ONES[rest - 10]) + "zehn"
    elif rest:
        words += (ONES[rest % 10] + "und" if rest % 10 else "") + TENS[rest // 10 - 2]
    return words


def german(number):
    billions, millions, thousands, rest = (number // 1000**i % 1000 for i in (3, 2, 1, 0))
    parts = []
    for count, one, many in ((billions, "Milliarde", "Milliarden"), (millions, "Million", "Millionen")):
        if count:
            inflected = german_below_1000(count) + ("e" if count % 100 == 1 else "")
            parts.append(f"{inflected} {one if count == 1 else many}")
    low = german_below_1000(thousands) + "tausend" if thousands else ""
    low += german_below_1000(rest) + ("s" if rest % 100 == 1 else "")
    return " ".join([*parts, low] if low else parts) or "null"


def french_below_1000(number, last):
    """`last`: whether a plural s may stand at the end (it may not before mille)."""
    ones = "- un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize"
    ones = ones.split()
    tens = {2: "vingt", 3: "trente", 4: "quarante", 5: "cinquante", 6: "soixante", 8: "quatre-vingt"}
    hundreds, rest = divmod(number, 100)
    words = []
    if hundreds:
        cents = "cents" if hundreds > 1 and rest == 0 and last else "cent"
        words.append(cents if hundreds == 1 else f"{ones[hundreds]} {cents}")
    ten = rest // 10 if rest // 10 not in (1, 7, 9) else rest // 10 - 1
    over = rest - 10 * ten
    small = ones[over] if over < 17 else f"dix-{ones[over - 10]}"
    if ten:
        if over == 0:
            words.append(tens[ten] + ("s" if ten == 8 and last else ""))
        elif over in (1, 11) and ten < 8:
            words.append(f"{tens[ten]} et {small}")
        else:
            words.append(f"{tens[ten]}-{small}")
    elif over:
        words.append(small)
    return " ".join(words)


def french(number):
    billions, millions, thousands, rest = (number // 1000**i % 1000 for i in (3, 2, 1, 0))
    parts = []
    for count, name in ((billions, "milliard"), (millions, "million")):
        if count:
            parts.append(f"{french_below_1000(count, True)} {name}{'s' if count > 1 else ''}")
    if thousands:
        parts.append("mille" if thousands == 1 else french_below_1000(thousands, False) + " mille")
    if rest:
        parts.append(french_below_1000(rest, True))
    return " ".join(parts) or "zéro"


def english(number):
    small = (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
        "sixteen seventeen eighteen nineteen"
    ).split()
    tens = "twenty thirty forty fifty sixty seventy eighty ninety".split()

    def below_100(number):
        if number < 20:
            return small[number]
        return tens[number // 10 - 2] + (f"-{small[number % 10]}" if number % 10 else "")

    def below_1000(number):
        hundreds, rest = divmod(number, 100)
        parts = [f"{small[hundreds]} hundred"] * (hundreds > 0) + [below_100(rest)] * (rest > 0)
        return " and ".join(parts)

    names = ("", " thousand", " million", " billion")
    parts = [below_1000(number // 1000**i % 1000) + names[i] for i in (3, 2, 1) if number // 1000**i % 1000]
    rest = number % 1000
    words = ", ".join(parts + [below_1000(rest)] * (rest >= 100))
    return words + (" and " if words else "") + below_100(rest) if 0 < rest < 100 else words or "zero"


@settings(max_examples=400)
@given(
    st.one_of(
        st.integers(0, 10**12 - 1),
        st.integers(0, 9999),
        st.builds(lambda a, b, c, d: ((a * 1000 + b) * 1000 + c) * 1000 + d, *[st.sampled_from(
            (0, 1, 2, 11, 21, 71, 80, 81, 99, 100, 101, 180, 200, 280, 301, 999))] * 4),
    )
)  # fmt: skip
def test_two_derivations_agree(number):
    assert number_in_words(number, "de") == german(number)
    assert number_in_words(number, "fr") == french(number)
    assert number_in_words(number, "en") == english(number)


def test_two_derivations_agree_on_all_small_numbers():
    for number in range(1200):
        assert number_in_words(number, "de") == german(number)
        assert number_in_words(number, "fr") == french(number)
        assert number_in_words(number, "en") == english(number)


# --- properties --------------------------------------------------------------------------------------------

WORDS = {english(number): number for number in range(1000)}


@pytest.mark.parametrize("split", SPLITS)
def test_the_dial_gives_the_length_in_every_split(split):
    for n_digits in (1, 2, 3):
        drawn = numbers(101, split, seed=1, digits=(n_digits, n_digits))
        assert {len(str(WORDS[pair.target])) for pair in drawn} == {n_digits}


@pytest.mark.parametrize("split", SPLITS)
def test_all_lengths_are_equally_likely(split):
    count = Counter(len(str(WORDS[pair.target])) for pair in numbers(900, split, seed=2, digits=(1, 3)))
    assert all(250 < count[n_digits] < 350 for n_digits in (1, 2, 3)), count


def test_source_and_target_are_the_same_number():
    for pair in numbers(211, seed=3, digits=(1, 3)):
        assert pair.source == number_in_words(WORDS[pair.target], pair.language)


def test_from_100_on_no_number_is_in_two_splits():
    drawn = {split: {p.target for p in numbers(1500, split, seed=4, digits=(3, 3))} for split in SPLITS}
    assert not drawn["train"] & drawn["test"] and not drawn["train"] & drawn["val"]
    assert not drawn["val"] & drawn["test"]
    assert number_splits(99) == SPLITS and len(number_splits(100)) == 1


def test_the_seed_decides():
    assert numbers(31, seed=5) == numbers(31, seed=5) != numbers(31, seed=6)
    assert {pair.language for pair in numbers(31, seed=5)} == set(NUMBER_LANGUAGES)
    assert {pair.language for pair in numbers(31, seed=5, languages=("fr",))} == {"fr"}
    assert numbers(0) == []


# --- errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"n": -2}, "0 samples or more, but n=-2"),
        ({"n": 3, "split": "dev"}, "split='dev' is unknown: choose one of train, val, test"),
        ({"n": 3, "languages": ("en",)}, "no data for 'en': choose some of de, fr"),
        ({"n": 3, "digits": (0, 3)}, r"digits=\(0, 3\) must be .* 1 <= fewest <= most <= 12"),
        ({"n": 3, "digits": (3, 13)}, r"digits=\(3, 13\) must be"),
        ({"n": 3, "digits": (5, 2)}, r"digits=\(5, 2\) must be"),
    ],
)
def test_bad_arguments_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        numbers(**arguments)
