"""Exercises and checks belong together: no check without its exercise, no call of a check that is not there.

The form of exercises and solutions, what stubs print and what wrong answers are told, is among the rules that
tests/test_book.py applies to every notebook.
"""

import importlib
import pkgutil
from collections import Counter

import pytest
from exercises import answer, exercises
from notebooks import is_solution, notebooks, read
from test_book import whole

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
