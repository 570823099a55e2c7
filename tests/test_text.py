"""text: vocabularies, special tokens, sub-words, round trips, and ids that a vocabulary does not have."""

import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise, product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heed.bpe import WORDS
from heed.data import multi30k
from heed.text import BOS, BYTES, EOS, PAD, SPECIAL, UNK, Characters, Subwords, Vocabulary, check_ids

SENTENCES = [["the", "cat", "sees", "the", "dog"], ["a", "cat"]]
LINES = [
    " ".join(words)
    for words in product(
        ("Ein Hund", "Zwei Hunde", "Eine Katze"), ("läuft", "schläft", "wartet"), ("im Schnee.", "hier!")
    )
]
LEARNED = Subwords.learn(LINES, 317)


# --- by hand -----------------------------------------------------------------------------------------------


def test_the_frequent_come_first_and_equals_by_alphabet():
    vocabulary = Vocabulary.build(SENTENCES)
    assert vocabulary.tokens == ["<pad>", "<bos>", "<eos>", "<unk>", "cat", "the", "a", "dog", "sees"]
    assert [vocabulary.tokens[i] for i in (PAD, BOS, EOS, UNK)] == list(SPECIAL)
    assert len(vocabulary) == 9
    assert "dog" in vocabulary and "bird" not in vocabulary


def test_min_count_leaves_the_rare_out():
    assert Vocabulary.build(SENTENCES, min_count=2).tokens[4:] == ["cat", "the"]


def test_encode_and_decode_by_hand():
    vocabulary = Vocabulary.build(SENTENCES)
    assert vocabulary.encode(["the", "bird", "sees"]) == [5, UNK, 8]
    assert vocabulary.encode(["the"], bos=True) == [BOS, 5]
    assert vocabulary.encode(["the"], eos=True) == [5, EOS]
    assert vocabulary.encode(["the"], bos=True, eos=True) == [BOS, 5, EOS]
    assert vocabulary.encode([], bos=True, eos=True) == [BOS, EOS]
    assert vocabulary.decode([BOS, 5, UNK, PAD, 8, EOS, 4, 4]) == ["the", "<unk>", "sees"]
    assert vocabulary.decode(torch.tensor([BOS, 5, EOS, PAD])) == ["the"]
    assert vocabulary.decode([]) == []


def test_a_vocabulary_can_be_made_again_from_its_tokens():
    for vocabulary in (Vocabulary.build(SENTENCES), Characters.build(["the cat"])):
        assert type(vocabulary)(vocabulary.tokens).tokens == vocabulary.tokens


def test_the_order_of_the_sentences_does_not_matter():
    assert Vocabulary.build(SENTENCES).tokens == Vocabulary.build(SENTENCES[::-1]).tokens


def test_an_unseen_character_is_written_as_its_bytes():
    characters = Characters.build(["ab"])
    assert len(BYTES) == 256 and len(characters) == 4 + 256 + 2
    tokens = [characters.tokens[i] for i in characters.encode("aé")]
    assert tokens == ["a", "<0xC3>", "<0xA9>"]
    assert characters.decode(characters.encode("aé")) == "aé"


def test_half_a_character_is_shown_and_breaks_nothing_else():
    characters = Characters.build(["ab"])
    a, half, _, b = characters.encode("aéb")
    assert characters.decode([a, half, b, UNK]) == "a�b<unk>"
    assert characters.decode([characters.ids["<0xFF>"]]) == "�"


def test_text_that_looks_like_a_special_token_is_text():
    characters = Characters.build(["<eos>"])
    ids = characters.encode("<eos><0x41>")
    assert EOS not in ids and characters.decode(ids) == "<eos><0x41>"


def test_a_lone_surrogate_is_no_character_and_becomes_a_question_mark():
    for seen in ("a", "a\ud800"):
        assert Characters(seen).decode(Characters(seen).encode("a\ud800a")) == "a?a"


def test_subwords_by_hand():
    """Three pairs stand three times each; of equals the one with the smaller ids is first. ab stands once."""
    subwords = Subwords.learn(["aa bb", "aa bb", "aa bb", "ab"], 99999)
    assert subwords.characters == " ab"
    assert subwords.merges == [(" ", "b"), ("a", "a"), (" b", "b")]
    assert subwords.tokens == [*SPECIAL, *BYTES, " ", "a", "b", " b", "aa", " bb"]
    blank, a, b, blank_b, aa, blank_bb = range(260, 266)
    assert subwords.encode("aa bb") == [aa, blank_bb]
    assert subwords.encode("aaa  b", bos=True, eos=True) == [BOS, aa, a, blank, blank_b, EOS]
    assert subwords.encode("abé") == [a, b, 4 + 0xC3, 4 + 0xA9]
    assert subwords.decode([BOS, aa, blank_bb, PAD, EOS, a]) == "aa bb"


def test_pieces_are_for_people():
    subwords = Subwords("ab ", [("a", "b"), (" ", "ab")])
    assert subwords.pieces("ab ab  b") == ["ab", "▁ab", "▁", "▁", "b"]
    assert subwords.pieces("aé") == ["a", "<0xC3>", "<0xA9>"]
    assert Subwords("\t\n").pieces("\t\n") == ["⇥", "↵"]
    assert subwords.labels([BOS, *subwords.encode("ab ab"), EOS]) == ["<bos>", "ab", "▁ab", "<eos>"]


def test_empty_text_is_no_token():
    assert LEARNED.encode("") == LEARNED.pieces("") == [] and LEARNED.decode([]) == ""
    assert LEARNED.encode("", bos=True, eos=True) == [BOS, EOS]


def test_subwords_without_merges_are_characters():
    assert Subwords("ab").tokens == Characters("ab").tokens
    assert Subwords("ab").encode("abcé") == Characters("ab").encode("abcé")


def test_a_vocabulary_is_as_large_as_asked_for_or_as_the_text_allows():
    assert len(LEARNED) == len(LEARNED.tokens) == 317
    small = Subwords.learn(LINES, 99999)
    assert 317 < len(small) < 99999
    words = Counter(word for line in LINES for word in re.findall(r" ?\w+| ?[^\w\s]+", line))
    assert all(len(small.encode(word)) == 1 for word, n in words.items() if n > 1)


def test_a_character_below_one_in_a_million_is_spelled_in_bytes_and_parts_its_neighbours():
    lines = ["abc " * 997] * 251  # 1,000,988 characters
    once = Subwords.learn([*lines, "déd dèd"], 999)
    assert once.characters == " abcd" and "dd" not in once
    assert once.decode(once.encode("bébé")) == "bébé"
    assert "é" in Subwords.learn([*lines, "dédéd"], 268)


def test_text_that_looks_like_a_special_token_never_is_one():
    looks = [*SPECIAL, *BYTES]
    subwords = Subwords.learn(looks * 7, 9999)
    for text in looks:
        ids = subwords.encode(text)
        assert subwords.decode(ids) == text and min(ids) >= 260


def test_lone_surrogates_become_question_marks_in_subwords_too():
    assert LEARNED.decode(LEARNED.encode("a\ud800a")) == "a?a"
    assert "?" in Subwords.learn(["a\ud800a"], 999)


# --- two derivations agree ---------------------------------------------------------------------------------

ASCII_WORDS = r" ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+"


def join(parts, pair):
    """Put each neighbouring `pair` among the parts together, from left to right."""
    joined = []
    for part in parts:
        if joined and (joined[-1], part) == pair and not isinstance(joined[-1], Joined):
            joined[-1] = Joined(joined[-1] + part)
        else:
            joined.append(part)
    return [str(part) for part in joined]


class Joined(str):
    """A part made in this pass, which is joined no further in it."""


def learn_by_hand(lines, n):
    """Byte-pair encoding as the paper has it: count all pairs, join the most frequent one, count again."""
    words = Counter(word for line in lines for word in re.findall(ASCII_WORDS, line))
    split = {word: list(word) for word in words}
    order = {character: i for i, character in enumerate(sorted({c for word in words for c in word}))}
    merges = []
    while len(order) < n:
        counts = Counter()
        for word, parts in split.items():
            for pair in pairwise(parts):
                counts[pair] += words[word]
        counts = {pair: count for pair, count in counts.items() if count > 1}
        if not counts:
            break
        best = min(counts, key=lambda pair: (-counts[pair], order[pair[0]], order[pair[1]]))
        merges.append(best)
        order.setdefault("".join(best), len(order))
        split = {word: join(parts, best) for word, parts in split.items()}
    return merges


def encode_by_hand(text, merges):
    """All merges in their order, in each word."""
    tokens = []
    for word in re.findall(ASCII_WORDS, text):
        parts = list(word)
        for pair in merges:
            parts = join(parts, pair)
        tokens += parts
    return tokens


def test_the_library_learns_and_encodes_what_the_paper_says():
    rng = random.Random(5)
    lines = ["".join(rng.choices("abcde .", weights=(7, 5, 3, 2, 1, 5, 1), k=23)) for _ in range(53)]
    lines = [re.sub(r"(.)\1+", r"\1", line) for line in lines]
    subwords = Subwords.learn(lines, 260 + 7 + 41)
    assert subwords.merges == learn_by_hand(lines, 7 + 41)
    for line in lines:
        tokens = [subwords.tokens[i] for i in subwords.encode(line)]
        assert tokens == encode_by_hand(line, subwords.merges)


@given(st.text("abc .7", max_size=41))
def test_encoding_makes_the_merges_in_their_order(text):
    subwords = Subwords.learn(["abc ab cab cabbac", "ab ab bca . abc 77.", "cab .. abba"], 281)
    assert [subwords.tokens[i] for i in subwords.encode(text)] == encode_by_hand(text, subwords.merges)


LEARN = """
import sys
from heed.text import Subwords
print(Subwords.learn(sys.stdin.read().splitlines(), 400).fingerprint)
"""


@pytest.mark.parametrize(("threads", "seed"), [("1", "0"), ("3", "7")])
def test_learned_twice_is_the_same_whatever_the_threads_and_the_hash_seed(threads, seed):
    rng = random.Random(0)
    lines = ["".join(rng.choices("abcdefgh  ", k=31)) for _ in range(997)]
    changed = {"RAYON_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "true", "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, "-c", LEARN],
        input="\n".join(lines),
        env={**os.environ, **changed},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stdout.strip() == Subwords.learn(lines, 400).fingerprint
    assert Subwords.learn(lines[::-1], 400).fingerprint == Subwords.learn(lines, 400).fingerprint


# --- properties --------------------------------------------------------------------------------------------


@given(st.text())
def test_every_text_survives_the_round_trip_through_subwords(text):
    ids = LEARNED.encode(text, bos=True, eos=True)
    assert UNK not in ids and ids.count(EOS) == 1
    assert LEARNED.decode([*ids, PAD]) == text
    assert len(LEARNED.pieces(text)) == len(ids) - 2


@given(st.text(" \t\n\r\0\u00a0\u2028▁aé😀<>", max_size=13))
def test_blanks_of_all_kinds_survive(text):
    assert LEARNED.decode(LEARNED.encode(text)) == text


@given(st.lists(st.text(max_size=13), min_size=1), st.text(max_size=7))
def test_what_any_text_has_taught_loses_nothing(lines, text):
    if not any(lines):
        return
    subwords = Subwords.learn(lines, 2999)
    for line in (*lines, text):
        assert subwords.decode(subwords.encode(line)) == line
    assert len(set(subwords.tokens)) == len(subwords)


def test_no_token_reaches_across_words():
    assert not [token for token in LEARNED.tokens[260:] if re.search(r"\S\s|\w[^\w\s]|[^\w\s]\w", token)]


def test_more_merges_shorter_sentences():
    small, middle = (Subwords.learn(LINES, size) for size in (293, 307))
    lengths = [sum(len(subwords.encode(line)) for line in LINES) for subwords in (small, middle, LEARNED)]
    assert lengths[0] > lengths[1] > lengths[2]


# --- files -------------------------------------------------------------------------------------------------


def test_saved_and_loaded_is_the_same(tmp_path):
    LEARNED.save(tmp_path / "subwords.json")
    loaded = Subwords.load(tmp_path / "subwords.json")
    assert loaded.tokens == LEARNED.tokens and loaded.merges == LEARNED.merges
    assert loaded.fingerprint == LEARNED.fingerprint and re.fullmatch("[0-9a-f]{64}", loaded.fingerprint)
    assert loaded.encode("Zwei Katzen, 東京!") == LEARNED.encode("Zwei Katzen, 東京!")
    assert b"\r" not in (tmp_path / "subwords.json").read_bytes()


def test_the_fingerprint_is_of_everything_that_decides_an_encoding(monkeypatch):
    merges = [("a", "b"), ("b", "a")]
    found = [Subwords("ab", merges).fingerprint, Subwords("ab", merges[::-1]).fingerprint]
    found += [Subwords("abc", merges).fingerprint, Subwords("ab", merges[:1]).fingerprint]
    monkeypatch.setattr("heed.bpe.WORDS", WORDS + "|x")
    found += [Subwords("ab", merges).fingerprint]
    assert len(set(found)) == 5


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:-20],
        lambda text: "",
        lambda text: "[]",
        lambda text: '{"tokens": []}',
        lambda text: json.dumps({**json.loads(text), "words": r"\S+"}),
        lambda text: json.dumps({**json.loads(text), "merges": [["a", "b", "c"]]}),
        lambda text: json.dumps({**json.loads(text), "merges": 7}),
        lambda text: text.encode().replace(b"\xc3", b"\xff", 1),
    ],
)
def test_a_file_that_is_cut_or_of_another_kind_is_refused(tmp_path, spoil):
    path = tmp_path / "subwords.json"
    LEARNED.save(path)
    spoiled = spoil(path.read_text(encoding="utf-8"))
    path.write_bytes(spoiled if isinstance(spoiled, bytes) else spoiled.encode())
    with pytest.raises(ValueError, match=r"subwords\.json is no vocabulary .* Learn it again\."):
        Subwords.load(path)


@pytest.mark.skipif("HEED_DATA" not in os.environ, reason="HEED_DATA does not name a folder with Multi30k")
def test_multi30k_at_6000():
    train = multi30k("train")
    subwords = Subwords.learn([text for pair in train for text in pair[:2]], 6000)
    assert len(subwords) == 6000
    for side in (0, 1):
        texts = [pair[side] for pair in (*multi30k("val"), *multi30k("test"))]
        ids = [subwords.encode(text) for text in texts]
        assert [subwords.decode(i) for i in ids] == texts
        assert sum(map(len, ids)) < 16 * len(ids)


# --- properties of the others -----------------------------------------------------------------------------


@given(st.text(), st.text(max_size=11))
def test_every_text_survives_the_round_trip(text, seen):
    characters = Characters.build([seen])
    ids = characters.encode(text, bos=True, eos=True)
    assert UNK not in ids
    assert characters.decode(ids) == text
    assert characters.decode([*ids, PAD, PAD]) == text


@given(st.lists(st.integers(0, 261)))
def test_characters_decode_any_ids(ids):
    assert isinstance(Characters("ab").decode(ids), str)


@given(st.lists(st.lists(st.text(max_size=3))))
def test_known_tokens_survive_the_round_trip(sequences):
    sequences = [[token for token in sequence if token not in SPECIAL] for sequence in sequences]
    vocabulary = Vocabulary.build(sequences)
    assert all(vocabulary.decode(vocabulary.encode(s, bos=True, eos=True)) == s for s in sequences)


@given(st.lists(st.lists(st.integers(0, 6), max_size=5), max_size=5))
def test_right_ids_pass(ids):
    check_ids(ids, 7)


@given(
    st.lists(st.integers(0, 6), min_size=1),
    st.data(),
    st.one_of(st.integers(-(2**62), -1), st.integers(7, 2**62)),
)
def test_the_first_wrong_id_is_named_with_its_position(ids, data, wrong):
    place = data.draw(st.integers(0, len(ids) - 1))
    ids[place] = wrong
    for given_ids in (ids, tuple(ids), torch.tensor(ids)):
        with pytest.raises(ValueError, match=f"token id {wrong} at position {place} is outside"):
            check_ids(given_ids, 7)


# --- errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        ([4, 11], "token id 11 at position 1 is outside a vocabulary of 11 tokens"),
        ([[4], [5, -1]], "token id -1 at position 1, 1 is outside"),
        ([[4], torch.tensor([5, 99])], "token id 99 at position 1, 1 is outside"),
        (torch.tensor([[4, 5, 6], [7, 8, 13]]), "token id 13 at position 1, 2 .* between 0 and 10"),
        (12, "token id 12 at position 0 is outside"),
        ([0.5], "token ids are whole numbers, but these are torch.float32"),
        (torch.zeros(2, 3, dtype=torch.bool), "token ids are whole numbers, but these are torch.bool"),
    ],
)
def test_ids_outside_the_vocabulary_are_refused(ids, sentence):
    with pytest.raises(ValueError, match=sentence):
        check_ids(ids, 11)


def test_decode_refuses_a_wrong_id_even_after_the_end():
    with pytest.raises(ValueError, match="token id 9 at position 2 is outside a vocabulary of 9 tokens"):
        Vocabulary.build(SENTENCES).decode([5, EOS, 9])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Subwords.learn(["abc"], 262), "size=262 leaves no room: .* 3 characters are 263 tokens"),
        (lambda: Subwords.learn([], 999), "no text to learn from: 0 lines"),
        (lambda: Subwords.learn(["", ""], 999), "no text to learn from: 2 lines, all of them empty"),
        (lambda: Subwords("ab", [("ab", "a")]), "merge 0, 'ab' \\+ 'a': a part of it is no token yet"),
        (lambda: Subwords("<eos>", [("<e", "os>")]), "merge 0, .* no token yet"),
        (
            lambda: Subwords("<eos>", [("<", "e"), ("<e", "o"), ("<eo", "s"), ("<eos", ">")]),
            "merge 3, '<eos' \\+ '>': .* or the whole is a special one",
        ),
        (lambda: LEARNED.decode([BOS, 317]), "token id 317 at position 1 is outside a vocabulary of 317"),
        (lambda: LEARNED.labels([-1]), "token id -1 at position 0 is outside a vocabulary of 317"),
    ],
)
def test_subwords_refuse_in_words(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_ids_in_a_small_type_are_compared_with_the_whole_vocabulary(dtype):
    check_ids(torch.tensor([0, 100], dtype=dtype), 37_000)
    with pytest.raises(ValueError, match="token id 100 at position 1 is outside a vocabulary of 100"):
        check_ids(torch.tensor([0, 100], dtype=dtype), 100)
