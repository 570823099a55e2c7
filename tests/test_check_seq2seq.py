"""Sentences of chapter 02's checks that no wrong answer in its solutions asks for."""

import pytest
import torch

from heed import check
from heed.recurrent import gru_step
from heed.text import BOS, EOS, PAD


def reader(first):
    """An answer to exercise 2.2 whose states begin at this number."""

    def read_sources(ids, encoder):
        gru = encoder.rnn
        h = torch.full((len(ids), gru.hidden_size), first, dtype=torch.float64)
        for y in ids.unbind(dim=1):
            new = gru_step(
                encoder.embed.weight[y], h, gru.weight_ih_l0, gru.weight_hh_l0, gru.bias_ih_l0, gru.bias_hh_l0
            )
            h = torch.where((y != PAD)[:, None], new, h)
        return h

    return read_sources


@pytest.mark.parametrize(("first", "sentence"), [(0.0, "✓"), (1.0, "begins at ones")])
def test_the_first_state_is_zero(capsys, first, sentence):
    check.read_sources(reader(first))
    assert sentence in capsys.readouterr().out


def finisher(read):
    """An answer to exercise 2.6 that reads read(begin) before it writes."""

    def finish(model, source, begin, n_max):
        (state, memory), ids, unread = model.start(source), list(begin), read(begin)
        while len(ids) < n_max and EOS not in ids:
            for y in unread:
                scores, state = model.step(torch.tensor([y]), state, memory)
            ids.append(scores.argmax().item())
            unread = ids[-1:]
        return ids

    return finish


@pytest.mark.parametrize(
    ("read", "sentence"),
    [
        (lambda begin: [BOS, *begin], "✓"),
        (lambda begin: [BOS], "the network has not read it"),
        (lambda begin: begin or [BOS], "BOS is missing"),
        (lambda begin: [BOS, *begin, *begin[-1:]], "read twice"),
        (lambda begin: [BOS, *begin[:-1]], "is never read"),
        (lambda begin: [BOS, *begin[-1:]], "the state needs all of them"),
    ],
)
def test_what_was_read_of_the_beginning_is_named(capsys, read, sentence):
    check.finish(finisher(read))
    assert sentence in capsys.readouterr().out
