"""Sentences of chapter 02's checks that no wrong answer in its solutions asks for."""

import pytest
import torch

from heed import check
from heed.recurrent import gru_step
from heed.text import PAD


def reader(n_read):
    """An answer to exercise 2.2 that reads, besides the real tokens, n_read of the padding tokens."""

    def read_source(ids, encoder):
        gru, n_real = encoder.rnn, int((ids != PAD).sum())
        h = torch.zeros(1, gru.hidden_size, dtype=torch.float64)
        for i in ids[: n_real + n_read]:
            x = encoder.embed.weight[i][None]
            h = gru_step(x, h, gru.weight_ih_l0, gru.weight_hh_l0, gru.bias_ih_l0, gru.bias_hh_l0)
        return h[0]

    return read_source


@pytest.mark.parametrize(
    ("n_read", "sentence"),
    [(0, "✓"), (1, "1 of 3 padding tokens were read"), (2, "2 of 3 padding"), (3, "Padding was read")],
)
def test_padding_that_is_read_is_counted(capsys, n_read, sentence):
    check.read_source(reader(n_read))
    assert sentence in capsys.readouterr().out
