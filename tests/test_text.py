"""text: vocabularies, special tokens, round trips, and ids that a vocabulary does not have."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heed.text import BOS, BYTES, EOS, PAD, SPECIAL, UNK, Characters, Vocabulary, check_ids

SENTENCES = [["the", "cat", "sees", "the", "dog"], ["a", "cat"]]


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


# --- properties --------------------------------------------------------------------------------------------


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
