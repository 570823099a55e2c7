"""The exercises' checks: `check.<name>(yours)` prints whether an answer is right, and if not, why not.

This module is what all checks share; the checks stand beside it, one file a chapter. A check never raises, so
a notebook runs from top to bottom however many of its exercises are still open. It prints one line:

    ✓ name: what was shown
    ✗ Not yet: a sentence that names the mistake
    ○ Not started: fill in the function above

A check is a function of the reader's answer. The first line of its docstring is what it shows:

    @exercise
    def weights(yours):
        \"\"\"each row of weights sums to one over the keys\"\"\"
        expect_close(yours(SCORES), SCORES.softmax(-1), "the weights", typical={
            "The weights sum to one over the queries; softmax belongs on the last axis.": SCORES.softmax(-2),
        })
"""

import dis
import functools
import importlib
import inspect
import pkgutil
import traceback

import torch

__all__ = ["NotYet", "exercise", "expect", "expect_close", "expect_shape"]


class NotYet(Exception):
    """An answer that is not right yet; its text is the sentence that the reader gets."""


class NotStarted(Exception):
    """An answer that is still the stub."""


def exercise(check):
    """Turn a function of the reader's answer into a check: it prints one line, returns None and never raises.

    Random numbers inside a check are the same at every call, and leave the reader's own as they were.
    """
    shows = inspect.getdoc(check).splitlines()[0]

    @functools.wraps(check)
    def checked(yours):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            try:
                if yours is None or yours is ...:
                    raise NotStarted
                check(watched(yours))
                line = f"✓ {check.__name__}: {shows}"
            except (NotStarted, NotImplementedError) as error:  # torch raises the second with a text
                line = "○ Not started: fill in the function above"
                if str(error):
                    line = f"✗ Not yet: {blame(error, yours)}"
            except NotYet as verdict:
                line = f"✗ Not yet: {verdict}"
            except Exception as error:
                line = f"✗ Not yet: {blame(error, yours)}"
        print(line)

    checked.is_exercise = True
    return checked


def watched(yours):
    """The reader's function, which now says so if it gives nothing back. Anything else stays what it is."""
    if not inspect.isfunction(yours):
        return yours

    @functools.wraps(yours)
    def answer(*arguments, **named):
        result = yours(*arguments, **named)
        if result is ... or (result is None and is_stub(yours)):
            raise NotStarted
        expect(result is not None, f"`{yours.__name__}` gives nothing back. Does it end with `return`?")
        return result

    return answer


def is_stub(function):
    """Is there nothing in this function but a docstring and `...`?"""
    steps = {step.opname for step in dis.get_instructions(function)}
    return steps <= {"RESUME", "NOP", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE"}


def blame(error, yours):
    """One sentence about an error: its type and message, and the line of the reader's code that raised it."""
    message = (str(error).strip() or "no message").splitlines()[0].rstrip(".")
    text = f"{type(error).__name__}: {message}"
    code = getattr(inspect.unwrap(yours), "__code__", None) if callable(yours) else None
    frames = traceback.extract_tb(error.__traceback__)
    entered = [i for i, frame in enumerate(frames) if (frame.filename, frame.name) == (__file__, "answer")]
    if inspect.isfunction(yours):
        frames = frames[entered[-1] + 1 :] if entered else []
    own = [frame for frame in frames if code and frame.filename == code.co_filename]
    if own:
        return f"your code raised {text} (line {own[-1].lineno} of the cell: `{own[-1].line}`)."
    if isinstance(error, TypeError) and code and f"{code.co_name}()" in message:
        return f"your function was not called as it can be: {message}."
    return f"the check cannot work with your answer, {text}."


def expect(condition, sentence):
    """Let the answer pass if the condition holds; otherwise the sentence tells what is wrong with it."""
    if not condition:
        raise NotYet(sentence)


def expect_shape(tensor, shape, what="the result"):
    """The answer is a tensor of this shape."""
    given = type(tensor).__name__
    expect(isinstance(tensor, torch.Tensor), f"{what} should be a tensor, and is of type {given}.")
    if tuple(tensor.shape) == tuple(shape):
        return
    swapped = sorted(tensor.shape) == sorted(shape) and len(shape) > 1
    hint = " The axes are in another order." if swapped else ""
    raise NotYet(f"{what} has shape {tuple(tensor.shape)}, and should have {tuple(shape)}.{hint}")


def expect_close(tensor, true, what="the result", typical=None):
    """The answer equals the true tensor: in shape, in dtype, and in value up to rounding.

    typical: mistakes that many make, as sentence -> the tensor that comes of it; where the answer equals
        that tensor, the reader gets that sentence
    """
    if isinstance(tensor, int | float) and true.dim() == 0:
        tensor = torch.tensor(tensor, dtype=true.dtype)
    for sentence, wrong in (typical or {}).items():
        expect(not (isinstance(tensor, torch.Tensor) and close(tensor, wrong)), sentence)
    expect_shape(tensor, true.shape, what)
    expect(tensor.dtype == true.dtype, f"{what} is {tensor.dtype}, and should be {true.dtype}.")
    expect(not (tensor.isnan() & ~true.isnan()).any(), f"{what} contains nan, which is not a number.")
    if close(tensor, true):
        return
    far = (tensor.double() - true.double()).nan_to_num(0.0).abs()
    position = tuple(int(i) for i in torch.unravel_index(far.argmax(), far.shape))
    where = f"{what} differs most at {list(position)}" if position else f"{what} differs"
    raise NotYet(f"{where}: {tensor[position].item():.4g} instead of {true[position].item():.4g}.")


def close(tensor, other):
    """Are these equal in shape, and in value up to rounding?"""
    return tensor.shape == other.shape and torch.allclose(
        tensor.double(), other.double(), rtol=1e-4, atol=1e-6, equal_nan=True
    )


def __getattr__(name):
    """Find a check by its name, in whichever chapter's file it stands."""
    for chapter in pkgutil.iter_modules(__path__):
        found = vars(importlib.import_module(f"{__name__}.{chapter.name}")).get(name)
        if getattr(found, "is_exercise", False):
            return found
    raise AttributeError(f"There is no check of the name {name!r} in heed.check.")
