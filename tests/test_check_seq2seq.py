"""Sentences of chapter 02's checks that no wrong answer in its solutions asks for."""

from collections import Counter

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


def interchanged(ids, encoder):
    """An answer to exercise 2.2 that keeps the state at real tokens and renews it at padding."""
    gru = encoder.rnn
    h = torch.zeros(len(ids), gru.hidden_size, dtype=torch.float64)
    for y in ids.unbind(dim=1):
        new = gru_step(
            encoder.embed.weight[y], h, gru.weight_ih_l0, gru.weight_hh_l0, gru.bias_ih_l0, gru.bias_hh_l0
        )
        h = torch.where((y == PAD)[:, None], new, h)
    return h


def test_a_choice_the_wrong_way_round_is_named(capsys):
    check.read_sources(interchanged)
    assert "interchanged" in capsys.readouterr().out


def test_a_beginning_of_n_max_tokens_is_returned_as_it_is(capsys):
    def finish(model, source, begin, n_max):
        (state, memory), ids, unread = model.start(source), list(begin), [BOS, *begin]
        while True:  # it writes first, and asks afterwards
            for y in unread:
                scores, state = model.step(torch.tensor([y]), state, memory)
            ids.append(scores.argmax().item())
            unread = ids[-1:]
            if ids[-1] == EOS or len(ids) >= n_max:
                return ids

    check.finish(finish)
    assert "There are 4 ids, and n_max is 3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("share", "sentence"),
    [
        (lambda right, real: (right | ~real).all(dim=1), "✓"),
        (lambda right, real: (right | ~real).all(dim=0), "`all(dim=1)`"),
        (lambda right, real: (right | ~real)[:, -1], "the share"),
    ],
)
def test_only_whole_rows_are_whole_targets(capsys, share, sentence):
    def whole_targets(logits, target_out):
        return share(logits.argmax(dim=-1) == target_out, target_out != PAD).double().mean().item()

    check.whole_targets(whole_targets)
    said = capsys.readouterr().out
    assert sentence in said and "EOS is left out" not in said


def by_state(states, targets):
    """The targets of each state."""
    groups = {}
    for state, target in zip(states, targets, strict=True):
        groups.setdefault(state, []).append(target)
    return [*groups.values()]


def commonest(targets):
    return Counter(targets).most_common(1)[0][1]


def best(states, targets):
    return sum(map(commonest, by_state(states, targets))) / len(states)


def emptied(states, targets):
    """A cheat: what was given is emptied in place."""
    states[:] = targets[:] = [0] * len(states)
    return best(states, targets)


@pytest.mark.parametrize(
    ("ceiling", "sentence"),
    [
        (best, "✓"),
        (lambda s, t: torch.tensor(best(s, t)), "✓"),
        (lambda s, t: len(set(s)) / len(s), "number of states divided"),
        (lambda s, t: sum(len(g) for g in by_state(s, t) if len(set(g)) == 1) / len(s), "is not lost"),
        (lambda s, t: sum(commonest(g) / len(g) for g in by_state(s, t)) / len(set(s)), "counts equally"),
        (lambda s, t: commonest(t) / len(t), "one answer to all"),
        (lambda s, t: best(t, s), "interchanged"),
        (lambda s, t: best(s, t) * len(s), "how many"),
        (lambda s, t: 1.0, "no two sources"),
        (lambda s, t: s, "one number"),
        (emptied, "no two sources"),
    ],
)
def test_a_ceiling_counts_the_commonest_target_of_each_state(capsys, ceiling, sentence):
    check.ceiling(ceiling)
    assert sentence in capsys.readouterr().out
