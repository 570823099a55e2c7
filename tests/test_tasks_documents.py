"""data.documents: every sentence has its six words, nobody occurs twice, the answer stands in the text."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.tasks import document_batch, documents, endless
from heed.tasks.documents import COLOURS, PEOPLE, THINGS, TIMES, VERBS, WORDS


@settings(max_examples=40)
@given(st.integers(0, 2**31), st.integers(1, len(PEOPLE)))
def test_the_question_has_one_answer_and_it_stands_in_the_text(seed, n_sentences):
    batch = documents(5, n_sentences, seed)
    for i in range(5):
        text = [sentence.split() for sentence in batch.text(i)]
        assert len(text) == n_sentences and len({words[1] for words in text}) == n_sentences
        for words in text:
            kinds = (TIMES, PEOPLE, VERBS, ("a",), COLOURS, THINGS)
            assert all(word in kind for word, kind in zip(words, kinds, strict=True))
        (mine,) = [words for words in text if words[1] == WORDS[batch.who[i]]]
        assert mine[4] == COLOURS[batch.colour[i]]


def test_every_word_occurs_and_every_sentence_is_asked_about():
    batch = documents(2000, 4, seed=0)
    assert set(batch.words.flatten().tolist()) == set(range(len(WORDS)))
    asked = (batch.words[..., 1] == batch.who[:, None]).double().mean(0)
    assert (asked - 0.25).abs().max() < 0.05


def test_equal_seeds_give_equal_documents():
    assert torch.equal(documents(3, 4, 1).words, documents(3, 4, 1).words)
    one, two = endless(document_batch, 3, 4, seed=0), endless(document_batch, 3, 4, seed=0)
    first = next(one)
    assert torch.equal(first.words, next(two).words) and not torch.equal(first.words, next(one).words)


@pytest.mark.parametrize("n_sentences", [0, len(PEOPLE) + 1])
def test_more_sentences_than_people_are_refused(n_sentences):
    with pytest.raises(ValueError, match="n_sentences"):
        documents(1, n_sentences, 0)
