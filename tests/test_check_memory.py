"""Sentences of chapter 15's checks that no wrong answer in its solutions asks for."""

import pytest
import torch

from heed import check


def by_hand(faint=0.1):
    """The solution of the chapter, with its numbers to be spoilt."""
    A, H = torch.zeros(83, 89), torch.zeros(89, 89)
    A[:80, :80] = 6 * torch.eye(80)
    H[:80, :80] = faint * torch.eye(80)
    for kind in range(3):
        first = 80 + 3 * kind
        A[80 + kind, first] = 1
        H[first + 1, first] = H[first + 2, first + 1] = 1
        H[20 * (kind + 1) : 20 * (kind + 2), first + 2] = 20
    return A, H


STORY = {
    "✓ story_by_hand": by_hand,
    "Return two tensors": lambda: by_hand()[0],
    "so it has two axes; here it has 1": lambda: (torch.zeros(83), torch.zeros(83, 83)),
    "A has shape (80, 89)": lambda: (by_hand()[0][:80], by_hand()[1]),
    "H has shape (88, 88)": lambda: (by_hand()[0], by_hand()[1][:88, :88]),
    "finite numbers only": lambda: (by_hand()[0] / 0, by_hand()[1]),
    "only the port is left": lambda: by_hand(faint=0.0),
    "as loud in u": lambda: by_hand(faint=1.0),
    "another part of the question is louder": lambda: (torch.zeros(83, 3), torch.zeros(3, 3)),
    "one, two, three facts, 1.00, 0.00, 1.00 are": lambda: by_hand(faint=-1.0),
}


@pytest.mark.parametrize("sentence", STORY)
def test_story_by_hand_names_the_mistake(capsys, sentence):
    check.story_by_hand(STORY[sentence])
    assert sentence in capsys.readouterr().out


def test_story_by_hand_refuses_training(capsys):
    def trained():
        torch.zeros(2, requires_grad=True).sum().backward()
        return by_hand()

    check.story_by_hand(trained)
    assert "`backward` trains" in capsys.readouterr().out


def rounds(x, W, order=None, n=20, stay=True, sign=1):
    for _ in range(n):
        for i in range(len(x)) if order is None else order:
            field = sign * (W[i] @ x)
            x[i] = x[i] if stay and field == 0 else field.sign()
    return x


REST = {
    "✓ at_rest": rounds,
    "the state that you were given": lambda x, W: x,
    "All entries changed at once: each": lambda x, W: torch.where(x @ W == 0, x, (x @ W).sign()),
    "after one round": lambda x, W: rounds(x, W, n=1),
    "stays what it is; here it becomes 0": lambda x, W: rounds(x, W, stay=False),
    "from the last to the first": lambda x, W: rounds(x, W, order=range(len(x) - 1, -1, -1)),
    "signs are turned": lambda x, W: rounds(x, W, sign=-1),
    "the state has shape (1, 30)": lambda x, W: rounds(x, W)[None],
    "differs most": lambda x, W: x.zero_(),
}


@pytest.mark.parametrize("sentence", REST)
def test_at_rest_names_the_mistake(capsys, sentence):
    check.at_rest(REST[sentence])
    assert sentence in capsys.readouterr().out


BACK, STAY, ON = torch.eye(3)


def program(n, jump=True, at_jump=ON, turn=STAY, first=ON, back=BACK, write=None, walk=ON):
    g = torch.zeros(3 * n)
    g[n] = float(jump)
    s = [first] + [walk] * (n - 1) + [at_jump] + [ON] * (n - 1) + [turn] + [back] * (n - 1)
    write = (torch.arange(3 * n) < n).double() if write is None else torch.full((3 * n,), write)
    return g, torch.stack(s), write


VOYAGE = {
    "✓ voyage_by_hand": program,
    "Return three tensors": lambda n: program(n)[:2],
    "For 1 ports, s has shape (3,)": lambda n: (program(n)[0], program(n)[0], program(n)[2]),
    "g is 0 or 1": lambda n: (program(n)[0] / 2, *program(n)[1:]),
    "single 1": lambda n: (program(n)[0], program(n)[1] / 2, program(n)[2]),
    "must be 1 once": lambda n: program(n, jump=False),
    "first is the mark": lambda n: program(n, at_jump=STAY),
    "the last port is missing": lambda n: program(n, turn=BACK),
    "first goes on, to an empty row": lambda n: program(n, turn=ON),
    "written over the mark": lambda n: program(n, first=STAY),
    "nothing is heard any more": lambda n: program(n, write=1.0),
    "must be written down": lambda n: program(n, write=0.0),
    "into one row": lambda n: program(n, walk=STAY),
    "said backwards first": lambda n: (
        torch.zeros(3 * n).index_fill(0, torch.tensor(2 * n), 1.0),
        torch.stack([ON] * n + [STAY] + [BACK] * (n - 1) + [ON] * n),
        program(n)[2],
    ),
    "The first n things said are": lambda n: (
        program(n)[0],
        torch.stack([ON] * (n + 1) + [STAY] * (n - 1) + [STAY] + [BACK] * (n - 1)),
        program(n)[2],
    ),
    "On the way back [": lambda n: program(n, back=STAY),
}


@pytest.mark.parametrize("sentence", VOYAGE)
def test_voyage_by_hand_names_the_mistake(capsys, sentence):
    check.voyage_by_hand(VOYAGE[sentence])
    assert sentence in capsys.readouterr().out


def same_thing(facts):
    return facts[:, :, None, 0] == facts[:, None, :, 0]


LATEST = {
    "✓ latest_facts": lambda facts: ~same_thing(facts).triu(1).any(-1),
    "True and False are interchanged": lambda facts: same_thing(facts).triu(1).any(-1),
    "keeps the first fact": lambda facts: ~same_thing(facts).tril(-1).any(-1),
    "and not only the next": lambda facts: torch.cat(
        [facts[:, 1:, 0] != facts[:, :-1, 0], torch.ones(len(facts), 1, dtype=torch.bool)], dim=1
    ),
    "compares persons": lambda facts: ~(facts[:, :, None, 1] == facts[:, None, :, 1]).triu(1).any(-1),
    "compares whole facts": lambda facts: ~(facts[:, :, None] == facts[:, None]).all(-1).triu(1).any(-1),
    "has lost both": lambda facts: same_thing(facts).sum(-1) == 1,
    "not be i": lambda facts: ~same_thing(facts).triu().any(-1),
    "Every fact may be looked at": lambda facts: torch.ones(facts.shape[:2], dtype=torch.bool),
    "the mask is torch.int64": lambda facts: (~same_thing(facts).triu(1).any(-1)).long(),
    "the mask has shape": lambda facts: facts,
}


@pytest.mark.parametrize("sentence", LATEST)
def test_latest_facts_names_the_mistake(capsys, sentence):
    check.latest_facts(LATEST[sentence])
    assert sentence in capsys.readouterr().out
