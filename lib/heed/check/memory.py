"""Checks of chapter 15, external memory."""

import torch

from heed.check import AUTOGRAD, exercise, expect, expect_close, expect_shape, without
from heed.memory import HopfieldNetwork, agree, hopfield_weights, shift_weights
from heed.tasks import STORY_WORDS, stories

LOOKS = 3


def asked(A, H, needed):
    """The shares of right answers after three looks, and of first looks at the fact about the thing."""
    drawn = stories(300, 20, torch.Generator().manual_seed(3), needed)
    u = A[drawn.questions].sum(dim=1, keepdim=True)
    k, v = A[drawn.facts].unbind(dim=2)
    looked = []
    for _ in range(LOOKS):
        p = (u @ k.mT).softmax(dim=-1)
        looked.append(p[:, 0].argmax(dim=-1))
        u = u @ H.T + p @ v
    right = (u @ A.T)[:, 0].argmax(dim=-1) == drawn.answers
    first = drawn.facts[torch.arange(300), looked[0], 0] == drawn.questions[:, 1]
    return right.double().mean().item(), first.double().mean().item()


@exercise
@without(*AUTOGRAD, sentence="`{}` trains: the numbers are to be chosen by hand.")
def story_by_hand(yours):
    """three looks answer questions of one, two and three facts, and nothing was trained"""
    answer = yours()
    pair = isinstance(answer, tuple | list) and len(answer) == 2
    expect(pair and all(map(torch.is_tensor, answer)), "Return two tensors, A and H.")
    A, H = (part.detach().double() for part in answer)
    expect(A.dim() == 2, f"A has one row a word, so it has two axes; here it has {A.dim()}.")
    expect_shape(A, (len(STORY_WORDS), A.shape[1]), "A")
    expect_shape(H, (A.shape[1], A.shape[1]), "H")
    expect(bool(A.isfinite().all() and H.isfinite().all()), "A and H must hold finite numbers only.")
    shares, first = zip(*(asked(A, H, needed) for needed in (1, 2, 3)), strict=True)
    expect(
        min(first) > 0.99,
        "The first look does not find the fact about the thing: another part of the question is louder. What "
        "chooses the answer in the end must not speak before.",
    )
    one, two, three = (share > 0.99 for share in shares)
    expect(
        not three or one,
        "Questions of three facts are right, and those of one are not: after the last look only the port is "
        "left. What is found must stay, faintly, and the question must be able to choose it in the end.",
    )
    expect(
        three or not (one or two),
        "The last look goes wrong: what was asked before is as loud in u as what was found last, and is "
        "found again. H must make it fainter.",
    )
    said = ", ".join(f"{share:.2f}" for share in shares)
    expect(one and two and three, f"Of questions that need one, two, three facts, {said} are right.")


@exercise
@without(HopfieldNetwork.forward, agree)
def at_rest(yours):
    """entries change one after the other, until a whole round changes none"""
    for seed in range(12):
        generator = torch.Generator().manual_seed(seed)
        X = (torch.randint(2, (4, 30), generator=generator) * 2 - 1).double()
        W = hopfield_weights(X)
        x = torch.randint(-1, 2, (30,), generator=generator).double()
        one = swept(x, W)
        true = settled(x, W)
        typical = {
            "This is the state that you were given.": x,
            "All entries changed at once: each should see those that were changed before it.":
                torch.where(x @ W == 0, x, (x @ W).sign()),
            "This is the state after one round: go on until a whole round changes nothing.": one,
            "Where the field is 0 an entry stays what it is; here it becomes 0.": settled(x, W, stay=False),
            "The entries go from the last to the first; take them in the order 0, 1, 2, ….":
                settled(x.flip(0), W.flip(0, 1)).flip(0),
            "All entries changed at once, round after round.": settled(x, W, at_once=True),
            "The signs are turned: an entry takes the sign of its field.": settled(x, -W),
        }  # fmt: skip
        typical = {sentence: wrong for sentence, wrong in typical.items() if not wrong.equal(true)}
        expect_close(yours(x, W), true, "the state", typical)


def swept(x, W, stay=True):
    """One round: each entry takes the sign of its field, in order."""
    x = x.clone()
    for i in range(len(x)):
        field = W[i] @ x
        x[i] = x[i] if stay and field == 0 else field.sign()
    return x


def settled(x, W, stay=True, at_once=False):
    """Rounds until nothing changes; at most 20, for not all rules come to rest."""
    for _ in range(20):
        after = torch.where(x @ W == 0, x, (x @ W).sign()) if at_once else swept(x, W, stay)
        if after.equal(x):
            break
        x = after
    return x


@exercise
def voyage_by_hand(yours):
    """the voyage is told once, and said forwards, then backwards"""
    for n in (1, 2, 5, 8):
        answer = yours(n)
        ok = isinstance(answer, tuple | list) and len(answer) == 3 and all(map(torch.is_tensor, answer))
        expect(ok, "Return three tensors: g, s and write.")
        g, s, write = (part.double() for part in answer)
        for part, shape, name in ((g, (3 * n,), "g"), (s, (3 * n, 3), "s"), (write, (3 * n,), "write")):
            expect_shape(part, shape, f"For {n} ports, {name}")
        expect(bool(((g == 0) | (g == 1)).all()), "g is 0 or 1: where the head was, or the mark.")
        one_hot = ((s == 0) | (s == 1)).all() and (s.sum(dim=-1) == 1).all()
        expect(bool(one_hot), "Each row of s holds a single 1: back, stay or on.")
        follow(n, g, s, write)


def follow(n, g, s, write):
    """Carry a program out, and say what goes wrong first."""
    mark, blank = n + 1, 0  # ports are 1 to n
    rows = torch.zeros(n + 4, dtype=torch.long)
    rows[0] = mark
    w, said, visited = torch.eye(n + 4)[:1].double(), [], []
    for t in range(3 * n):
        w = torch.eye(n + 4)[:1].double() if g[t] else w
        w = shift_weights(w, s[t : t + 1])
        i = int(w.argmax())
        visited.append(i)
        if write[t]:
            heard = t + 1 if t < n else blank
            expect(
                t >= n or rows[i] != mark,
                "The first port is written over the mark, and the head would not find it again: step on "
                "before anything is written.",
            )
            expect(
                t < n,
                f"At step {t} (from 0) nothing is heard any more, and nothing is written over a port: write "
                "is 1 while ports are heard.",
            )
            rows[i] = heard
        if t >= n:
            said.append(int(rows[i]))
    expect(
        bool(write[:n].all()), "A port that is heard must be written down: write is 1 for the first n steps."
    )
    expect(
        len(set(visited[:n])) == n,
        "Two ports are written into one row: the head must move while ports are heard.",
    )
    forwards, backwards = [*range(1, n + 1)], [*range(n, 0, -1)]
    expect(
        bool(g[n:].any()),
        "Nothing leads the head back to where the voyage begins: g must be 1 once, at the first step after "
        "the voyage.",
    )
    expect(
        said[0] != mark,
        "What is said first is the mark: after the jump the shift still comes. Let it go one row on.",
    )
    expect(
        said != backwards + forwards or n == 1,
        "The voyage is said backwards first; say it forwards, and then backwards.",
    )
    expect(
        said[:n] == forwards,
        f"The first n things said are {said[:n]}, and should be {forwards} (0 is an empty row).",
    )
    expect(
        said[n:] != [*backwards[1:], mark],
        "On the way back the last port is missing: the head stands on it already, and must stay for a step.",
    )
    expect(
        said[n] != blank,
        "On the way back the head first goes on, to an empty row: the last port is where it stands.",
    )
    expect(said[n:] == backwards, f"On the way back {said[n:]} is said, and should be {backwards}.")


@exercise
def latest_facts(yours):
    """only the latest fact of each thing may be looked at"""
    for b, n, n_things in ((3, 7, 3), (2, 5, 5), (4, 11, 2)):
        generator = torch.Generator().manual_seed(n)
        facts = torch.stack(
            [torch.randint(n_things, (b, n), generator=generator),
             20 + torch.randint(3, (b, n), generator=generator)], dim=-1,
        )  # fmt: skip
        first = facts[..., 0]
        same = first[:, :, None] == first[:, None]  # (b, i, j)
        later = torch.ones(n, n, dtype=torch.bool).triu(1)  # j after i
        seconds = facts[..., 1]
        true = ~(same & later).any(dim=-1)
        next_one = torch.cat([first[:, 1:] != first[:, :-1], torch.ones(b, 1, dtype=torch.bool)], dim=1)
        whole = (facts[:, :, None] == facts[:, None]).all(dim=-1)
        typical = {
            "True and False are interchanged: the mask is True at facts that may be looked at.": ~true,
            "This keeps the first fact of each thing; the latest counts.": ~(same & later.T).any(dim=-1),
            "A fact that comes at any later place replaces one, and not only the next.": next_one,
            "This compares persons; a fact is replaced by a later one about the same *thing*.":
                ~((seconds[:, :, None] == seconds[:, None]) & later).any(dim=-1),
            "This compares whole facts: a thing that has gone to another person is still the same thing.":
                ~(whole & later).any(dim=-1),
            "A thing of which there are two facts has lost both: its latest one stays.":
                same.sum(dim=-1) == 1,
            "A fact is no replacement of itself: j must come after i, and not be i.":
                torch.zeros(b, n, dtype=torch.bool),
            "Every fact may be looked at here.": torch.ones(b, n, dtype=torch.bool),
        }  # fmt: skip
        typical = {sentence: wrong for sentence, wrong in typical.items() if not wrong.equal(true)}
        expect_close(yours(facts), true, "the mask", typical)
