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

The reader's function gets copies of its tensors, so that nothing it writes reaches the check; `yours.given`
holds what it was given at the last call, as it has left it. A module it gets as it is: what a check computes
with one, it computes before. What an exercise forbids, or what leaves nothing of it, stands in `without`:

    @exercise
    @without(sinusoids)
    def code_at(yours): ...
"""

import dis
import functools
import importlib
import inspect
import sys
import traceback
from contextlib import nullcontext

import torch
from torch.overrides import TorchFunctionMode

__all__ = ["NotYet", "Refusing", "exercise", "expect", "expect_close", "expect_shape", "without"]

CHAPTERS = (
    *("preface", "recurrent", "seq2seq", "additive", "scores", "kinds", "self_attention", "masks", "heads"),
    *("positions", "residuals", "transformer", "from_nothing", "training", "decoding", "translator"),
    *("memory", "pretraining", "scale"),
)

# For `without`: what all of torch's derivatives go through, and the names of its matrix products.
AUTOGRAD = torch.autograd.grad, torch.autograd.backward, torch.autograd.forward_ad.make_dual
PRODUCTS = {"matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "linear", "inner", "tensordot"}


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
                check(watched(yours, getattr(check, "without", nullcontext)))
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


def watched(yours, without=nullcontext):
    """The reader's function, which now gets copies, and says so if it gives nothing back.

    A class, and what cannot be called, stays what it is.
    """
    if not callable(yours) or inspect.isclass(yours):
        return yours

    @functools.wraps(yours)
    def answer(*arguments, **named):
        answer.given, named = copied(arguments), copied(named)
        with without():
            result = yours(*answer.given, **named)
        if result is ... or (result is None and is_stub(yours)):
            raise NotStarted
        name = getattr(yours, "__name__", "your function")
        expect(result is not None, f"`{name}` gives nothing back. Does it end with `return`?")
        return result

    return answer


def copied(thing):
    """The same, with tensors, lists and dictionaries of its own; a gradient passes through the copies."""
    if isinstance(thing, torch.Tensor):
        return thing.clone()
    if isinstance(thing, dict):
        return {key: copied(value) for key, value in thing.items()}
    return type(thing)(map(copied, thing)) if type(thing) in (list, tuple) else thing


def is_stub(yours):
    """Is there nothing in this function but a docstring and `...`?"""
    if not inspect.isfunction(yours):
        return False
    steps = {step.opname for step in dis.get_instructions(yours)}
    return steps <= {"RESUME", "NOP", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE"}


WRITE_IT = "`{}` is what you are to write."


def without(*functions, **words):
    """What the reader's function must not call, in the words of `Refusing`; it stands below `exercise`."""

    def decorate(check):
        check.without = functools.partial(Refusing, *functions, **words)
        return check

    return decorate


class Refusing(TorchFunctionMode):
    """While this block is open, a call of one of these is an answer that is not right yet.

    functions: of Python. A chapter shows the library's functions, so a copy is refused like the original; of
        one that only a chapter defines, its name is enough
    library: is everything that the library defines refused?
    torchs: words; each function of torch with one of them in its name
    look: called with name, arguments and result of each function of torch; it may `expect` something
    sentence: what the reader is told, with {} for the name

    A profiler sees Python's functions, and this mode torch's. Both are the thread's own, and no function is
    changed, so who else calls one notices nothing. What a check computes itself stands outside of the block.
    """

    def __init__(self, *functions, library=False, torchs=(), look=None, sentence=WRITE_IT):
        super().__init__()
        self.names = {function for function in functions if isinstance(function, str)}
        self.codes = {same(function.__code__) for function in functions if not isinstance(function, str)}
        self.library, self.torchs, self.look = library, torchs, look
        self.sentence, self.verdict = sentence, None

    def __enter__(self):
        self.before = sys.getprofile()
        super().__enter__()
        sys.setprofile(self.profile)

    def __exit__(self, *error):
        sys.setprofile(self.before)
        super().__exit__(*error)
        if self.verdict:
            raise self.verdict  # also where the reader's code has caught it

    def profile(self, frame, event, argument):
        """Called by Python where a function begins or ends."""
        if event == "call" and self.refuses(frame.f_code, frame.f_globals.get("__name__", "")):
            self.refuse(self.sentence.format(frame.f_code.co_qualname.split(".")[0]))

    def refuses(self, code, module):
        """Is this code one of those that must not be called?"""
        named = code.co_qualname in self.names or same(code) in self.codes
        return named or (self.library and is_library(module))

    def __torch_function__(self, function, types, arguments=(), named=None):
        name = getattr(function, "__name__", "")
        name = function.__self__.__name__ if name == "__get__" else name  # of an attribute, such as x.T
        if any(word in name for word in self.torchs):
            self.refuse(self.sentence.format(name))
        result = function(*arguments, **(named or {}))
        if self.look:
            try:
                self.look(name, arguments, result)
            except NotYet as verdict:
                self.refuse(verdict)
        return result

    def refuse(self, sentence):
        """Stop the reader's code."""
        self.verdict = NotYet(sentence)
        raise self.verdict from None


def same(code):
    """What a function and its copies have in common: names. (A call of `torch.…` is compiled differently.)"""
    return code.co_qualname, code.co_varnames, code.co_names


def is_library(module):
    """Does a module of this name belong to the library, and not to its checks?"""
    return module.startswith("heed.") and not module.startswith(__name__)


def blame(error, yours):
    """One sentence about an error: its type and message, and the line of the reader's code that raised it."""
    message = (str(error).strip() or "no message").splitlines()[0].rstrip(".")
    text = f"{type(error).__name__}: {message}"
    function = getattr(yours, "forward", yours)  # of a module
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
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
    if not name.startswith("_") and name not in CHAPTERS and name in exercises():
        return exercises()[name]
    raise AttributeError(f"There is no check of the name {name!r} in heed.check.")


def __dir__():
    """What `check.<TAB>` completes: the checks."""
    return sorted({*__all__, *exercises()})


@functools.cache
def exercises():
    """All checks by their names, chapter by chapter."""
    files = [importlib.import_module(f"{__name__}.{chapter}") for chapter in CHAPTERS]
    functions = [inspect.getmembers(file, inspect.isfunction) for file in files]
    return {name: it for found in functions for name, it in found if hasattr(it, "is_exercise")}
