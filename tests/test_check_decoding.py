"""Sentences of chapter 13's checks that no wrong answer in its solutions asks for."""

import math

import pytest
import torch

from heed import check
from heed.attention import attention, causal_mask
from heed.check.decoding import chosen, scored, searched, stops, table, told
from heed.text import BOS, EOS

BEAMS = {
    "divide each by the length penalty": lambda f, m, a, n: searched(f, m, 0.0, n),
    "only the best hypothesis": lambda f, m, a, n: searched(f, m, a, n)[:1],
    "still takes a place in the beam": lambda f, m, a, n: searched(f, m, a, n, stay=True),
    "not in order": lambda f, m, a, n: searched(f, m, a, n)[::-1],
    "still hold BOS or EOS": lambda f, m, a, n: [(s, [BOS, *y, EOS]) for s, y in searched(f, m, a, n)],
    "is a pair, (score, tokens)": lambda f, m, a, n: [y for _, y in searched(f, m, a, n)],
    "Return a list": lambda f, m, a, n: tuple(searched(f, m, a, n)),
    "hypotheses end, and yours returns": lambda f, m, a, n: searched(f, m, a, n)[:-1] or [(0.0, [10])],
    "should be": lambda f, m, a, n: [(s + 0.1, y) for s, y in searched(f, m, a, n)],
}


@pytest.mark.parametrize("sentence", BEAMS)
def test_n_best_names_the_mistake(capsys, sentence):
    check.n_best(lambda *asked: BEAMS[sentence](*asked))
    assert sentence in capsys.readouterr().out


def test_the_made_up_model_is_one():
    for seed in range(3):
        for said in ([BOS], [BOS, 10], [BOS, 11, 12, 13]):
            assert math.isclose(sum(math.exp(p) for _, p in table(seed)(said)), 1.0)
    assert all(searched(table(seed), 3, 1.0, 6) for seed in range(6))


def with_ends(*tokens):
    return {token: {"EOS": 1.0} for token in tokens}


TRAP = {
    "BOS": {"A": 0.5, "B": 0.45, "C": 0.05},
    "A": {"a": 0.4, "b": 0.3, "c": 0.3},
    "B": {"x": 0.5, "y": 0.5},
    "x": dict.fromkeys("pqrst", 0.2),
    "y": dict.fromkeys("pqrst", 0.2),
    **with_ends(*"Cabcpqrst"),
}
TRAPS = {
    "✓": TRAP,
    "at least as good": {"BOS": {"a": 0.6, "b": 0.4}, "a": dict.fromkeys("cde", 1 / 3), **with_ends(*"bcde")},
    "the same: its sentence": {"BOS": {"a": 0.6, "b": 0.4}, **with_ends("a", "b")},
    "not by a factor of two": {**TRAP, "x": {"p": 0.8, "q": 0.2}, "y": {"p": 0.8, "q": 0.2}},
    "sums to 0.9": {"BOS": {"EOS": 0.9}},
    "no row of its own": {"BOS": {"a": 1.0}},
    'no row "BOS"': {"a": {"EOS": 1.0}},
    "a way round among": {"BOS": {"a": 1.0}, "a": {"b": 1.0}, "b": {"a": 0.5, "EOS": 0.5}},
    "a probability above 0": {"BOS": {"a": 1.5, "EOS": -0.5}},
    "Nothing follows": {"BOS": {"EOS": 1.0}, "EOS": {"a": 1.0}},
    "it is a dictionary": {"BOS": ["EOS"]},
    "Return a dictionary": "BOS",
}


@pytest.mark.parametrize("sentence", TRAPS)
def test_trap_names_the_mistake(capsys, sentence):
    check.trap(lambda: TRAPS[sentence])
    assert sentence in capsys.readouterr().out


def test_a_trap_that_hangs_on_which_of_two_equals_stays_is_none(capsys):
    table = {**TRAP, "A": {"a": 0.45, "b": 0.3, "c": 0.25}}  # 0.225, as B x and B y
    assert len({told(table, 2, last)[1] for last in (False, True)}) == 2
    check.trap(lambda: table)
    assert "✗" in capsys.readouterr().out


STOPS = {
    "✓": {},
    "penalty of the present length": {"at": 0},
    "need not be the last": {"at": 1},
    "divide by the length penalty before": {"plain": True},
    "has ended is not enough": {"ended": True},
    "look at the likeliest": {"which": min},
    "wins nothing": {"waits": True},
}


@pytest.mark.parametrize("sentence", STOPS)
def test_may_stop_names_the_mistake(capsys, sentence):
    check.may_stop(lambda *case: stops(*case, **STOPS[sentence]))
    assert sentence in capsys.readouterr().out


@pytest.mark.parametrize(
    ("sentence", "rule"),
    [
        ("one can still win", lambda *case: True),
        ("none can win any more", lambda *case: False),
        ("the beam must go on", lambda *case: not stops(*case)),
        ("Return True or False", lambda *case: 0.5),
        ("an empty sequence", lambda live, n, best, a, end: max(live) / ((5 + end) / 6) ** a <= best),
    ],
)
def test_may_stop_refuses_other_rules(capsys, sentence, rule):
    check.may_stop(rule)
    assert sentence in capsys.readouterr().out


def test_may_stop_is_what_the_library_does():
    """A model that is sure of what follows: the rule that stops at n_max's penalty misses nothing."""
    lp = [((5 + n) / 6) ** 1.0 for n in range(13)]
    s, best = -4.0, -1.9
    assert not stops([s], 5, best, 1.0, 12) and s / lp[12] > best
    assert stops([s], 5, best, 1.0, 5 + 1) and s / lp[6] <= best


CONSENSUS = {
    "✓": {},
    "second": {"swapped": True},
    "least like": {"worst": True},
    "Every draw counts": {"unique": True},
    "one other draw": {"product": True},
}


@pytest.mark.parametrize("sentence", CONSENSUS)
def test_consensus_names_the_mistake(capsys, sentence):
    check.consensus(lambda *given: chosen(*given, **CONSENSUS[sentence]))
    assert sentence in capsys.readouterr().out


@pytest.mark.parametrize(
    ("sentence", "choose"),
    [
        ("✓", lambda texts, similarity: chosen(texts, similarity, myself=True)),  # one constant more
        ("with made-up similarities", lambda texts, similarity: texts[0]),
        ("is not one of", lambda texts, similarity: "a horse"),
        ("is of type int", lambda texts, similarity: 0),
    ],
)
def test_consensus_takes_one_of_the_texts(capsys, sentence, choose):
    check.consensus(choose)
    assert sentence in capsys.readouterr().out


def kept(p, bound):
    p = p.masked_fill(p < bound, 0.0)
    return p / p.sum(-1, keepdim=True)


def top(p):
    return p.max(-1, keepdim=True).values


MIN_P = {
    "does not sum to one": lambda x, s, t: (p := (x / t).softmax(-1)).masked_fill(p < s * top(p), 0.0),
    "temperature comes after": lambda x, s, t: kept(
        kept(x.softmax(-1), s * top(x.softmax(-1))) ** (1 / t), 0.0
    ),
    "not divided by the temperature": lambda x, s, t: kept(x.softmax(-1), s * top(x.softmax(-1))),
    "multiplied by the temperature": lambda x, s, t: kept((x * t).softmax(-1), s * top((x * t).softmax(-1))),
    "likely ones thrown away": lambda x, s, t: (
        (p := (x / t).softmax(-1)).masked_fill(p >= s * top(p), 0.0)
        / p.masked_fill(p >= s * top(p), 0.0).sum(-1, keepdim=True)
    ),
}


@pytest.mark.parametrize("sentence", MIN_P)
def test_min_p_names_the_mistake(capsys, sentence):
    check.min_p(lambda logits, share, temperature=1.0: MIN_P[sentence](logits, share, temperature))
    assert sentence in capsys.readouterr().out


class Layer:
    """Right, until a test puts a mistake in."""

    def __init__(self, *matrices):
        self.matrices, self.x = matrices, torch.zeros(0, 5, dtype=torch.float64)

    def __call__(self, x):
        start, self.x = len(self.x), torch.cat([self.x, x])
        q, k, v = (self.x @ W for W in self.matrices)
        return self.out(q[start:], k, v, start, len(x))

    def out(self, q, k, v, start, n):
        return attention(q, k, v, causal_mask(n, start))[0]


class Unmasked(Layer):
    def out(self, q, k, v, start, n):
        return attention(q, k, v)[0]


class LooksBackOnly(Layer):
    def out(self, q, k, v, start, n):
        return attention(q, k[:start], v[:start])[0] if start else v


class MixesKeys(Layer):
    def out(self, q, k, v, start, n):
        return attention(q, k, k, causal_mask(n, start))[0]


class Columns(Layer):
    def __init__(self, *matrices):
        super().__init__(*(W.T for W in matrices))


class Blind(Layer):
    def out(self, q, k, v, start, n):
        past = torch.zeros(n, start, dtype=torch.bool)
        return attention(q, k, v, torch.cat([past, causal_mask(n)], 1))[0]


everybody = []


class Shared(Layer):
    def __call__(self, x):
        start = sum(map(len, everybody))
        everybody.append(x)
        q, k, v = (torch.cat(everybody) @ W for W in self.matrices)
        return self.out(q[start:], k, v, start, len(x))


CACHES = {
    "each sees those after it": Unmasked,
    "not one another, nor themselves": LooksBackOnly,
    "mixes values, not keys": MixesKeys,
    "as columns": Columns,
    "or the mask hides them": Blind,
    "differs most": Shared,
}


@pytest.mark.parametrize("sentence", CACHES)
def test_cached_attention_names_the_mistake(capsys, sentence):
    check.cached_attention(CACHES[sentence])
    assert sentence in capsys.readouterr().out


def test_the_right_layer_passes(capsys):
    check.cached_attention(Layer)
    assert "✓" in capsys.readouterr().out


BLEU = {
    "factor 100": lambda t, r: scored(t, r) / 100,
    "use `&` of the two counts": lambda t, r: scored(t, r, clip=False),
    "shares of the reference's": lambda t, r: scored(t, r, recall=True),
    "arithmetic mean": lambda t, r: scored(t, r, mean="arithmetic"),
    "penalty is missing": lambda t, r: scored(t, r, brevity="none"),
    "punishes long": lambda t, r: scored(t, r, brevity="long"),
    "at most 1": lambda t, r: scored(t, r, brevity="always"),
    "BLEU should be": lambda t, r: 50.0,
    "Return a number": lambda t, r: "50",
}


@pytest.mark.parametrize("sentence", BLEU)
def test_text_bleu_names_the_mistake(capsys, sentence):
    check.text_bleu(BLEU[sentence])
    assert sentence in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("other_table", (("a b", 0.24), ("b", 0.32)), "✓"),
        ("other_table", (("a", 0.3), ("b", 0.32)), "takes the first"),
        ("other_table", (("b", 0.32), ("b", 0.32)), "whatever follows"),
        ("other_table", (("b c", 0.08), ("b", 0.32)), "at each step"),
        ("other_table", (("a b", 0.3), ("b", 0.32)), "is a factor, too"),
        ("other_table", (("a b", 0.06), ("b", 0.32)), "and not 0.06"),
        ("other_table", (("a b", 0.24), ("a b", 0.24)), "also keeps b"),
        ("other_table", (("a b", 0.24), ("a", 0.3)), "what does b EOS have"),
        ("other_table", (("a b", 0.24), ("b", 0.4)), "and not 0.4"),
        ("other_table", 0.24, "Return two pairs"),
        ("cache_size", (49_152, 4.19, False), "✓"),
        ("cache_size", (30_720, 4.19, False), "source's keys"),
        ("cache_size", (24_576, 4.19, False), "Both are kept"),
        ("cache_size", (16_384, 4.19, False), "there are three"),
        ("cache_size", (5, 4.19, False), "once for 12"),
        ("cache_size", (49_152, 2.1, False), "a 2 is missing"),
        ("cache_size", (49_152, 6.29, False), "Queries"),
        ("cache_size", (49_152, 4.19e9, False), "10⁹"),
        ("cache_size", (49_152, 8.39, False), "no source attention"),
        ("cache_size", (49_152, 4.19, True), "among themselves"),
        ("bleu_by_head", (64.0, 0.4, 1, True), "✓"),
        ("bleu_by_head", (63.2, 0.4, 1, True), "but the numbers of all runs"),
        ("bleu_by_head", (70.7, 0.4, 1, True), "below 1"),
        ("bleu_by_head", (57.1, 0.4, 1, True), "10, 9, 8 and 7"),
        ("bleu_by_head", (64.0, 1, 1, True), "not all five"),
        ("bleu_by_head", (64.0, 1 / 3, 1, True), "five words"),
        ("bleu_by_head", (64.0, 0.4, 0.4, True), "Without the rule"),
        ("bleu_by_head", (64.0, 0.4, 1, False), "a product"),
    ],
)
def test_a_prediction_gets_its_sentence(capsys, name, answer, said):
    getattr(check, name)(lambda: answer)
    assert said in capsys.readouterr().out
