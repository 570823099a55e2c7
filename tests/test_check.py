"""The machinery of the exercises' checks: what they print, and that they never raise."""

import functools

import pytest
import torch

import heed.check
from heed.check import NotYet, exercise, expect, expect_close, expect_shape

X = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])


@exercise
def doubling(yours):
    """twice the input comes out"""
    expect_close(yours(X), 2 * X, "the result", typical={"You squared the input.": X**2})


def line(capsys, check, yours):
    assert check(yours) is None
    return capsys.readouterr().out.strip()


def right(x):
    return 2 * x


def dots(x):
    """A docstring may stay."""
    ...


def unwritten(x):
    raise NotImplementedError


def half_a_stub(x):
    y = ...
    return y


@pytest.mark.parametrize("stub", [dots, unwritten, half_a_stub, ..., None])
def test_a_stub_is_not_started(capsys, stub):
    assert line(capsys, doubling, stub) == "○ Not started: fill in the function above"


def test_what_torch_does_not_know_is_no_stub(capsys):
    said = line(capsys, doubling, lambda x: torch.softmax(x > 1, dim=-1))
    assert said.startswith("✗ Not yet: ") and "NotImplementedError" in said


def test_a_right_answer_says_what_was_shown(capsys):
    assert line(capsys, doubling, right) == "✓ doubling: twice the input comes out"


def forgets(x):
    x = 2 * x


def divides(x):
    y = 1 // 0
    return y


WRONG = {
    "You squared the input.": lambda x: x * x,
    "`forgets` gives nothing back. Does it end with `return`?": forgets,
    "the result should be a tensor, and is of type list.": lambda x: [2],
    "the result has shape (3, 2), and should have (2, 3). The axes are in another order.": lambda x: 2 * x.T,
    "the result has shape (2,), and should have (2, 3).": lambda x: x[:, 0],
    "the result is torch.float64, and should be torch.float32.": lambda x: 2 * x.double(),
    "the result contains nan, which is not a number.": lambda x: x / 0 - x / 0,
    "the result differs most at [1, 2]: 7 instead of 14.": lambda x: x,
    "your function was not called as it can be: <lambda>() takes 0 positional arguments but 1 was given.": (
        lambda: 0
    ),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_each_mistake_gets_its_sentence(capsys, sentence):
    said = line(capsys, doubling, WRONG[sentence]).replace("test_each_mistake_gets_its_sentence.", "")
    assert said == f"✗ Not yet: {sentence}"


def test_an_error_in_the_readers_code_is_one_sentence_with_its_line(capsys):
    said = line(capsys, doubling, divides)
    assert said.startswith("✗ Not yet: your code raised ZeroDivisionError: ")
    assert f"(line {divides.__code__.co_firstlineno + 1} of the cell: `y = 1 // 0`)." in said


def test_an_error_in_the_forward_of_a_class_is_told_with_its_line_too(capsys):
    class Dividing:
        def forward(self, x):
            return 1 // 0

    @exercise
    def calling(yours):
        """it can be called"""
        yours().forward(X)

    said = line(capsys, calling, Dividing)
    assert said.startswith("✗ Not yet: your code raised ZeroDivisionError: ") and "`return 1 // 0`" in said


def test_an_answer_that_the_check_cannot_use_is_not_blamed_on_a_line(capsys):
    @exercise
    def length(yours):
        """it has a length"""
        expect(len(yours(X)) == 2, "Two rows went in.")

    said = line(capsys, length, lambda x: 5)
    assert said.startswith("✗ Not yet: the check cannot work with your answer, TypeError: object")


def test_random_numbers_are_the_same_each_time_and_leave_the_readers_alone(capsys):
    seen = []

    @exercise
    def draws(yours):
        """nothing"""
        seen.append(torch.rand(3))

    torch.manual_seed(7)
    expected = torch.rand(5)
    torch.manual_seed(7)
    draws(right), draws(right)
    assert torch.equal(*seen)
    assert torch.equal(torch.rand(5), expected)


WRITES = lambda x: x.zero_(), torch.Tensor.zero_, functools.partial(torch.Tensor.zero_)


@pytest.mark.parametrize("writes", WRITES)
def test_what_is_written_does_not_reach_the_check(capsys, writes):
    assert line(capsys, doubling, writes) == "✗ Not yet: the result differs most at [1, 2]: 0 instead of 14."
    assert X.sum() == 22


def test_the_check_can_look_at_what_was_made_of_its_things(capsys):
    model, gradient = torch.nn.Linear(2, 2), torch.ones(2, requires_grad=True)

    @exercise
    def keeps(yours):
        """nothing is changed"""
        things = [{"x": (X, 1)}], model, gradient
        result = yours(*things)
        [inside, *_], same, _ = yours.given
        expect(len(things[0]) == 1 and same is model, "What the check holds was changed.")
        expect(torch.autograd.grad(result, gradient)[0].equal(torch.ones(2)), "The gradient does not pass.")
        expect(inside["x"][0].equal(X), "The tensor was changed.")

    def zeroes(inside, model, gradient):
        inside[0]["x"][0].zero_()
        inside.append(model)
        return gradient.sum()

    assert line(capsys, keeps, zeroes) == "✗ Not yet: The tensor was changed."
    assert line(capsys, keeps, lambda inside, model, gradient: gradient.sum()).startswith("✓")


def test_a_number_is_compared_with_a_tensor_of_no_axes():
    expect_close(0.5, torch.tensor(0.5))
    with pytest.raises(NotYet, match=r"the result differs: 0\.25 instead of 0\.5"):
        expect_close(0.25, torch.tensor(0.5))


def test_shapes_and_conditions_pass_in_silence(capsys):
    expect_shape(X, (2, 3))
    expect(True, "never said")
    assert capsys.readouterr().out == ""


def test_a_check_that_does_not_exist_is_named():
    with pytest.raises(AttributeError, match="no check of the name 'nothing_like_it'"):
        heed.check.nothing_like_it  # noqa: B018
