"""Sentences of chapter 09's checks that no wrong answer in its solutions asks for."""

import math

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
    return paired((pos * rates(d)).sin(), (pos * rates(d)).cos())


CODE = {
    "Cosine and sine are exchanged": lambda pos, d: paired((pos * rates(d)).cos(), (pos * rates(d)).sin()),
    "mind the sign of the exponent": lambda pos, d: paired((pos / rates(d)).sin(), (pos / rates(d)).cos()),
    "These are the angles": lambda pos, d: paired(pos * rates(d), pos * rates(d)),
    "float32, and should be torch.float64": lambda pos, d: code(pos, d).float(),
    "has shape (1, 8)": lambda pos, d: code(pos, d)[None],
}


@pytest.mark.parametrize("sentence", CODE)
def test_code_of_names_the_mistake(capsys, sentence):
    assert sentence in said(capsys, "code_of", CODE[sentence])


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


def turned(codes, delta):
    sin, cos = codes[:, 0::2], codes[:, 1::2]
    return paired(sin * delta.cos() + cos * delta.sin(), cos * delta.cos() - sin * delta.sin())


def overwriting(codes, shift):
    codes[:] = turned(codes, shift * rates(8))
    return codes


MOVED = {
    "come back at the other end": lambda codes, shift: codes.roll(-shift, 0),
    "It turns the wrong way": lambda codes, shift: turned(codes, -shift * rates(8)),
    "The codes of the shift are added": lambda codes, shift: (
        codes + paired((shift * rates(8)).sin(), (shift * rates(8)).cos())
    ),
    "the first positions + shift": lambda codes, shift: sinusoids(90, 8)[shift : shift + 5],
    "The codes that were given are changed": overwriting,
}


@pytest.mark.parametrize("sentence", MOVED)
def test_moved_names_the_mistake(capsys, sentence):
    assert sentence in said(capsys, "moved", MOVED[sentence])


def test_one_matrix_for_both_notices_a_wrong_shape(capsys):
    assert "has shape (12, 3)" not in said(capsys, "one_matrix_for_both", lambda E, R: torch.cat([E, R]))
    assert "W has shape (3, 7)" in said(capsys, "one_matrix_for_both", lambda E, R: E.T)


def groups(distance, n_buckets, far, cut=torch.Tensor.long, log=torch.log):
    near = n_buckets // 2
    grown = log(distance.clamp(min=1) / near) / math.log(far / near) * (n_buckets - near)
    return torch.where(distance < near, distance, near + cut(grown))


def linear(distance, n_buckets, far):
    near = n_buckets // 2
    line = near + ((distance - near) / (far - near) * (n_buckets - near)).floor().long()
    return torch.where(distance < near, distance, line.clamp(max=n_buckets - 1))


BUCKET = {
    "buckets that do not exist": groups,
    "all of one size": linear,
    "start again at 0": lambda distance, n, far: torch.where(
        distance < n // 2, distance, (groups(distance, n, far) - n // 2).clamp(max=n // 2 - 1)
    ),
    "Distances are clipped": lambda distance, n, far: distance.clamp(max=n - 1),
    "rounded to the nearest": lambda distance, n, far: groups(
        distance, n, far, lambda grown: grown.round().long()
    ).clamp(max=n - 1),
    "whole numbers": lambda distance, n, far: distance / 3,
}


@pytest.mark.parametrize("sentence", BUCKET)
def test_bucket_names_the_mistake(capsys, sentence):
    assert sentence in said(capsys, "bucket", BUCKET[sentence])


def test_the_first_buckets_are_those_of_a_loop():
    """8 buckets up to 20: four near ones, and four whose borders grow by the factor (20 / 4) ** (1 / 4)."""
    from heed.check.positions import bucketed

    borders = [4 * 5 ** (i / 4) for i in range(5)]
    for distance, found in enumerate(bucketed(torch.arange(60), 8, 20).tolist()):
        far = [i for i in range(4) if borders[i] <= distance + 1e-9]
        assert found == (distance if distance < 4 else 4 + far[-1])


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
