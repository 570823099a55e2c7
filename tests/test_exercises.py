"""Exercises and checks belong together: no check without its exercise, no call of a check that is not there.

The form of exercises and solutions, what stubs print and what wrong answers are told, is among the rules that
tests/test_book.py applies to every notebook. What a reader might try instead of an answer is tried here.
"""

import ast
import importlib
import pkgutil
from collections import Counter
from functools import cache, partial
from inspect import signature

import pytest
import torch
from cells import tags
from exercises import answer, exercises
from notebooks import is_solution, notebooks, read
from test_book import whole
from torch import nn

import heed.check

CHAPTERS = [path for path in notebooks() if not is_solution(path)]
FILES = sorted(file.name for file in pkgutil.iter_modules(heed.check.__path__))


def checks(file):
    """The names of the checks in one chapter's file."""
    module = importlib.import_module(f"heed.check.{file}")
    return [name for name, value in vars(module).items() if getattr(value, "is_exercise", False)]


def called():
    """How often each check is called by the chapters' exercises."""
    stubs = [stub for path in CHAPTERS for e in exercises(read(path)) for stub in e.tagged("exercise")]
    return Counter(answer(stub.source)[1] for stub in stubs)


@pytest.mark.parametrize("file", FILES)
def test_every_check_can_be_reached_by_its_name(file):
    assert checks(file), f"heed/check/{file}.py holds no check"
    for name in checks(file):
        module = importlib.import_module(f"heed.check.{file}")
        assert getattr(heed.check, name) is getattr(module, name), f"two files have a check {name}"


@whole
def test_every_check_belongs_to_exactly_one_exercise():
    known = {name for file in FILES for name in checks(file)}
    assert called() == Counter(known)


# --- Answers that are none ----------------------------------------------------------------------------------

DEFINES = ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef
CODE = [
    pytest.param(path.name, answer(e.tagged("exercise")[0].source)[1], id=e.name)
    for path in CHAPTERS
    for e in exercises(read(path))
    if e.tagged("exercise")
]
NOT_IN_PLACE = {
    "averaging": "the check asks for a new tensor: a residual needs the old one",
    "back_through_time": "the check asks for a new tensor",
    "masked_weights": "the check asks for a new tensor",
    "safe_softmax": "the exercise says so",
    "moved": "the check asks for a new tensor",
}


@cache
def solved(name):
    """The right answers in one notebook of solutions, by their checks. Nothing runs but definitions."""
    found, names = {}, {"__name__": name}
    for cell in read(CHAPTERS[0].parent / "solutions" / name).cells:
        if cell.cell_type != "code" or {"setup", "wrong"} & {*tags(cell)}:
            continue
        body = ast.parse(cell.source).body
        if "solution" not in tags(cell):
            body = [node for node in body if isinstance(node, DEFINES)]
        else:
            function, check = answer(cell.source)
            del body[-1]
        exec(compile(ast.Module(body, []), name, "exec"), names)
        if "solution" in tags(cell):
            found[check] = names[function]
    return found


def tensors(thing):
    """All tensors in it: in lists, dictionaries and modules, or attributes of something."""
    if isinstance(thing, torch.Tensor):
        return [thing]
    if isinstance(thing, nn.Module):
        return [*thing.parameters(), *thing.buffers()]
    if not isinstance(thing, list | tuple):
        thing = (thing if isinstance(thing, dict) else getattr(thing, "__dict__", {})).values()
    return [tensor for part in thing for tensor in tensors(part)]


def empty(given):
    """Set all tensors to zero where they lie."""
    with torch.no_grad():
        for tensor in tensors(given):
            tensor.zero_()


def zeros(thing):
    """The same form, and nothing in it."""
    if isinstance(thing, torch.Tensor):
        return torch.zeros_like(thing)
    if isinstance(thing, list | tuple):
        return type(thing)(map(zeros, thing))
    if isinstance(thing, dict):
        return {key: zeros(value) for key, value in thing.items()}
    return (lambda *given: zeros(thing(*given))) if callable(thing) else type(thing)()


def first(right, given):
    """The first thing that was given."""
    return given[0]


def first_emptied(right, given):
    """The same, after everything was set to zero."""
    empty(given)
    return given[0]


def nothing(right, given):
    """The right form, and nothing in it."""
    return zeros(right(*given))


def nothing_anywhere(right, given):
    """The same, after everything was set to zero."""
    result = zeros(right(*given))
    empty(given)
    return result


def in_place(right, given):
    """The right answer, written into a tensor that was given, where one has its shape and dtype."""
    result = right(*given)
    room = [x for x in tensors([x for x in given if not isinstance(x, nn.Module)]) if fits(x, result)]
    return room[0].copy_(result) if room else result


def fits(tensor, result):
    return torch.is_tensor(result) and (tensor.shape, tensor.dtype) == (result.shape, result.dtype)


def versions(right, way):
    """The answer, made this way; of a class its call, and of a dictionary one entry after the other."""
    if isinstance(right, dict):
        yield from (right | {key: one} for key, part in right.items() for one in versions(part, way))
    elif isinstance(right, type):
        name = "forward" if issubclass(right, nn.Module) else "__call__"
        method = getattr(right, name)
        yield type(right.__name__, (right,), {name: lambda self, *given: way(partial(method, self), given)})
    elif signature(right).parameters or way in (nothing, nothing_anywhere):
        yield lambda *given: way(right, given)


@pytest.mark.parametrize("chapter, check", CODE)
def test_what_is_no_answer_gets_a_sentence_of_the_check(capsys, chapter, check):
    torch.set_default_dtype(torch.float64)
    right = solved(chapter)[check]
    for way in (first, first_emptied, nothing, nothing_anywhere):
        for wrong in versions(right, way):
            getattr(heed.check, check)(wrong)
            said = f"{way.__name__}: {capsys.readouterr().out}"
            assert "✗ Not yet: " in said
            assert "your code raised" not in said and "cannot work with" not in said


@pytest.mark.parametrize("chapter, check", CODE)
def test_a_right_answer_may_be_written_into_what_was_given(capsys, chapter, check):
    torch.set_default_dtype(torch.float64)
    right = solved(chapter)[check]
    getattr(heed.check, check)(right)
    assert capsys.readouterr().out.startswith("✓")
    for same in versions(right, in_place):
        getattr(heed.check, check)(same)
    said = capsys.readouterr().out
    assert ("✗" in said) == (check in NOT_IN_PLACE)
