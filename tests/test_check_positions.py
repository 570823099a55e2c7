"""Sentences of chapter 09's checks that no wrong answer in its solutions asks for."""

import pytest
import torch

from heed import check
from heed.position import rotated, sinusoids


def said(capsys, name, wrong):
    getattr(check, name)(wrong)
    return capsys.readouterr().out


def rates(d):
    return 10_000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)


def paired(a, b):
    return torch.stack([a, b], dim=-1).flatten(-2)


def code(pos, d):
    angle = torch.as_tensor(pos, dtype=torch.float64)[..., None] * rates(d)
    return paired(angle.sin(), angle.cos())


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("d", "✓"), ("cd", "(c) cannot"), ("bd", "(b) cannot"), ("ad", "(a) cannot"), ("", "(d) notices"),
        ("dx", "called a to d"),
    ],
)  # fmt: skip
def test_who_notices_names_the_mistake(capsys, answer, sentence):
    assert sentence in said(capsys, "who_notices", lambda: answer)


def looped(pos, d):
    rows = [code(one, d) for one in pos.flatten()]
    return torch.stack(rows).view(*pos.shape, d)


def angles(pos, d):
    return pos[..., None] * rates(d)


CODE = {
    "Cosine and sine are exchanged": lambda pos, d: paired(angles(pos, d).cos(), angles(pos, d).sin()),
    "mind the sign of the exponent": lambda pos, d: paired(
        (pos[..., None] / rates(d)).sin(), (pos[..., None] / rates(d)).cos()
    ),
    "These are the angles": lambda pos, d: paired(angles(pos, d), angles(pos, d)),
    "2.5 lies between two of them": lambda pos, d: code(pos.double().floor(), d),
    "the code of its absolute value": lambda pos, d: code(pos.abs(), d),
    "a table of positions should stay a table": lambda pos, d: (
        code(pos, d).reshape(-1, d)[: max(1, pos.numel())] if pos.dim() > 1 else code(pos, d)
    ),
    "made in a loop": looped,
    "float32, and should be torch.float64": lambda pos, d: code(pos, d).float(),
    "has shape (1, 5, 8)": lambda pos, d: code(pos, d)[None],
    "`sinusoids` is what you are to write": lambda pos, d: sinusoids(5, d),
}


@pytest.mark.parametrize("sentence", CODE)
def test_code_at_names_the_mistake(capsys, sentence):
    assert sentence in said(capsys, "code_at", CODE[sentence])


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda code: 0.5, "Return one whole number"),
        (lambda code: sinusoids(5000, len(code)) @ code, "Return one whole number"),
        (lambda code: (sinusoids(4999, len(code)) @ code).argmax(), "that of position 4999"),
    ],
)
def test_read_position_names_the_mistake(capsys, wrong, sentence):
    assert sentence in said(capsys, "read_position", wrong)


def test_read_position_takes_a_tensor_of_one_number(capsys):
    assert "✓" in said(capsys, "read_position", lambda code: (sinusoids(5000, len(code)) @ code).argmax())


NOISY = {
    "and your code raises an error": lambda code: (
        (sinusoids(5000, len(code)) == code).all(-1).nonzero()[0].item()
    ),
    "and you return nothing": lambda code: next(
        (i for i, row in enumerate(sinusoids(5000, len(code))) if torch.equal(row, code)), None
    ),
    "and you find none": lambda code: (sinusoids(5000, len(code)) == code).all(-1).nonzero().flatten(),
    "and you return 0": lambda code: (sinusoids(5000, len(code)) == code).all(-1).int().argmax(),
}


@pytest.mark.parametrize("sentence", NOISY)
def test_read_position_says_that_equality_finds_no_noisy_code(capsys, sentence):
    line = said(capsys, "read_position", NOISY[sentence])
    assert sentence in line and "take the nearest one" in line


def between(here, there):
    back = torch.stack(
        [
            there[0::2] * here[1::2] - there[1::2] * here[0::2],
            there[1::2] * here[1::2] + there[0::2] * here[0::2],
        ],
        dim=-1,
    ).flatten()
    return (sinusoids(1001, len(here), start=-500) @ back).argmax().item() - 500


def by_table(here, there):
    table = sinusoids(5000, len(here))
    return (table @ there).argmax().item() - (table @ here).argmax().item()


APART = {
    "the first by the second": lambda here, there: -between(here, there),
    "the fast dial alone": lambda here, there: round(between(here, there) % (2 * torch.pi)),
    "has not got these two": by_table,
    "Return one whole number": lambda here, there: there - here,
    "and you return 1.": lambda here, there: 1,
}


@pytest.mark.parametrize("sentence", APART)
def test_apart_names_the_mistake(capsys, sentence):
    assert sentence in said(capsys, "apart", APART[sentence])


def test_apart_takes_a_tensor_of_one_number(capsys):
    assert "✓" in said(capsys, "apart", lambda here, there: torch.tensor(between(here, there)))


def layer(turn=lambda q, k, v: (turn_by(q), turn_by(k), v), hide=None, scale=None, axis=-1, early=False):
    """A causal layer with RoPE, or with one mistake in it."""

    def yours(x, W_q, W_k, W_v):
        n = x.shape[1]
        x = turn_by(x) if early else x
        q, k, v = turn(x @ W_q.T, x @ W_k.T, x @ W_v.T)
        scores = q @ k.mT / (scale(x, W_k) if scale else len(W_k) ** 0.5)
        if hide:
            return hide(scores) @ v
        past = torch.ones(n, n, dtype=torch.bool).tril()
        return scores.masked_fill(~past, -torch.inf).softmax(axis) @ v

    return yours


def turn_by(x, sign=1):
    at = code(torch.arange(x.shape[-2]), x.shape[-1])
    sin, cos, a, b = sign * at[:, 0::2], at[:, 1::2], x[..., 0::2], x[..., 1::2]
    return paired(a * cos + b * sin, b * cos - a * sin)


def by_halves(x):
    at = code(torch.arange(x.shape[-2]), x.shape[-1])
    sin, cos, (a, b) = at[:, 0::2], at[:, 1::2], x.chunk(2, dim=-1)
    return torch.cat([a * cos + b * sin, b * cos - a * sin], dim=-1)


def fused(x, W_q, W_k, W_v):
    q, k = turn_by(x @ W_q.T), turn_by(x @ W_k.T)
    return torch.nn.functional.scaled_dot_product_attention(q, k, x @ W_v.T, is_causal=True)


def in_place(x, W_q, W_k, W_v):
    result = layer()(x, W_q, W_k, W_v)
    x.zero_()
    return result


ROPE = {
    "The mask is multiplied after the softmax": layer(
        hide=lambda s: s.softmax(-1) * torch.ones_like(s).tril()
    ),
    "e⁰ is 1: they need −∞": layer(hide=lambda s: s.tril().softmax(-1)),
    "Every token sees the future": layer(hide=lambda s: s.softmax(-1)),
    "is the first token left without any key": layer(
        hide=lambda s: s.masked_fill(torch.ones_like(s).triu().bool(), -torch.inf).softmax(-1)
    ),
    "The mask is upside down": layer(
        hide=lambda s: s.masked_fill(torch.ones_like(s).tril(-1).bool(), -torch.inf).softmax(-1)
    ),
    "Nothing is rotated": layer(lambda q, k, v: (q, k, v)),
    "Only the queries are rotated": layer(lambda q, k, v: (turn_by(q), k, v)),
    "Only the keys are rotated": layer(lambda q, k, v: (q, turn_by(k), v)),
    "It turns the other way, cosine first": layer(lambda q, k, v: (turn_by(q, -1), turn_by(k, -1), v)),
    "turn in opposite directions": layer(lambda q, k, v: (turn_by(q), turn_by(k, -1), v)),
    "are not divided by √d_k": layer(scale=lambda x, W_k: 1.0),
    "are divided by √d_model": layer(scale=lambda x, W_k: x.shape[-1] ** 0.5),
    "The softmax runs over the queries": layer(axis=-2),
    "The pairs are entries c and c + d_k/2": layer(lambda q, k, v: (by_halves(q), by_halves(k), v)),
    "The tokens are rotated, and so the values": layer(lambda q, k, v: (q, k, v), early=True),
    "The values are rotated, too": layer(lambda q, k, v: (turn_by(q), turn_by(k), turn_by(v))),
    "`scaled_dot_product_attention` is not yours": fused,
    "`rotated` is not yours": lambda x, W_q, W_k, W_v: rotated(x @ W_q.T),
    "What was given is changed": in_place,
    "has shape (2, 4)": lambda x, W_q, W_k, W_v: layer()(x, W_q, W_k, W_v)[:, -1],
}


@pytest.mark.parametrize("sentence", ROPE)
def test_causal_rope_names_the_mistake(capsys, sentence):
    assert sentence in said(capsys, "causal_rope", ROPE[sentence])


def test_causal_rope_takes_the_layer(capsys):
    assert "✓" in said(capsys, "causal_rope", layer())


def asking(shift, length=300.0, dials=None):
    """All hands at 12, or some of them; the query turned by a shift, and longer."""

    def yours(d_k):
        k = torch.tensor([0.0, 1.0], dtype=torch.float64).repeat(d_k // 2)
        k[2 * (dials or d_k) :] = 0
        delta = shift * rates(d_k)
        return length * paired(delta.sin(), delta.cos()) * (k.view(-1, 2).sum(-1).repeat_interleave(2)), k

    return yours


THREE = {
    "nothing says how long q may be": asking(-3, length=1.0),
    "three *ahead*": asking(3),
    "a longer q will not help much": asking(-3, dials=1),
    "to the token 4 back": asking(-4),
    "All scores are equal": lambda d_k: (torch.zeros(d_k), torch.ones(d_k)),
    "Return two tensors, q and k": lambda d_k: torch.ones(d_k, d_k),
    "q has shape (32, 1)": lambda d_k: (torch.ones(d_k, 1), torch.ones(d_k)),
    "nan: q or k are too long": lambda d_k: (torch.full((d_k,), torch.inf), torch.ones(d_k)),
}


@pytest.mark.parametrize("sentence", THREE)
def test_look_three_back_names_the_mistake(capsys, sentence):
    assert sentence in said(capsys, "look_three_back", THREE[sentence])


def test_look_three_back_takes_the_right_pair(capsys):
    assert "✓" in said(capsys, "look_three_back", asking(-3))


def four(x, p, W_q, W_k, scale=None):
    queries, keys = (x @ W_q.T, p @ W_q.T), (x @ W_k.T, p @ W_k.T)
    return [q @ k.T / (scale or len(W_k) ** 0.5) for q in queries for k in keys]


def zeroing(x, p, W_q, W_k):
    tables = four(x, p, W_q, W_k)
    p.zero_()
    return tables


FOUR = {
    "has the asking ones in columns": lambda *given: [table.T for table in four(*given)],
    "The two mixed tables are exchanged": lambda *given: [four(*given)[i] for i in (0, 2, 1, 3)],
    "is not divided by √d_k": lambda *given: four(*given, scale=1.0),
    "is divided by √d_model": lambda *given: four(*given, scale=6**0.5),
    "the scores are wanted": lambda *given: [table.softmax(-1) for table in four(*given)],
    "Return four tables": lambda *given: sum(four(*given)),
    "What was given is changed": zeroing,
}


@pytest.mark.parametrize("sentence", FOUR)
def test_four_scores_names_the_mistake(capsys, sentence):
    assert sentence in said(capsys, "four_scores", FOUR[sentence])


def test_four_scores_add_up_to_the_score_of_the_sums(capsys):
    assert "✓" in said(capsys, "four_scores", four)


def halves(x, start, sign=1, exchanged=False):
    code = sinusoids(*x.shape[-2:], start=start)
    sin, cos = sign * code[:, 0::2], code[:, 1::2]
    sin, cos = (cos, sin) if exchanged else (sin, cos)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def cut_code(x, start=0):
    sin, cos = sinusoids(*x.shape[-2:], start=start).chunk(2, dim=-1)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def joined(x, start=0):
    code = sinusoids(*x.shape[-2:], start=start)
    sin, cos, a, b = code[:, 0::2], code[:, 1::2], x[..., 0::2], x[..., 1::2]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


HALVES = {
    "cut into halves as well": cut_code,
    "only the result is joined by halves": joined,
    "This is the layout of `rotated`": rotated,
    "It turns the wrong way": lambda x, start=0: halves(x, start, sign=-1),
    "Sine and cosine are exchanged": lambda x, start=0: halves(x, start, exchanged=True),
}


@pytest.mark.parametrize("sentence", HALVES)
def test_rotated_halves_names_the_mistake(capsys, sentence):
    assert sentence in said(capsys, "rotated_halves", HALVES[sentence])
