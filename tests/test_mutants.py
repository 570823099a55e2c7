"""Every planted bug of mutants.toml is found by the test that stands beside it, and every module has some.

`make soak` plants them all; `make test` plants those of one small file, to see that planting works.
"""

import ast

import pytest
from mutants import LIBRARY, ROOT, located, outcomes, planted, table
from patterns import keywords, made, renamed, replaced, within

import heed

MUTANTS = list(enumerate(table()))
LEAST = 2  # planted bugs a module
WITHOUT = {"plot", "check"}  # pictures are compared as pictures; a check's mutants are the wrong answers
SMALL = "tests/test_schedule.py"
ENTRIES = [
    pytest.param(entry, marks=[] if entry[1]["test"].startswith(f"{SMALL}::") else pytest.mark.soak)
    for entry in MUTANTS
]


def named(value):
    return f"{value[1]['at']}: {value[1]['why']}".replace("::", ":")


@pytest.mark.parametrize("entry", ENTRIES, ids=named)
def test_a_planted_bug_is_found(entry):
    place, mutant = entry
    file = mutant["test"].split("::")[0]
    results = outcomes(file)
    whole = results["before"], results["after"]
    assert whole == ("survived", "survived"), f"{file} fails on the library as it is"
    assert results[place] == "killed", f"{mutant['old']!r} -> {mutant.get('new')!r}"


@pytest.mark.parametrize("module", [module for module in heed.MODULES if module not in WITHOUT])
def test_every_module_has_planted_bugs(module):
    mine = [mutant for mutant in table() if mutant["at"].split(".")[0] == module]
    assert len(mine) >= LEAST


def test_no_bug_is_planted_twice():
    trees = [ast.dump(ast.parse(planted(mutant)[1])) for mutant in table()]
    whole = {ast.dump(ast.parse(path.read_text(encoding="utf-8"))) for path in LIBRARY.rglob("*.py")}
    assert len(set(trees)) == len(trees) and not whole & set(trees)


def test_a_place_that_is_not_there_or_not_clear_is_refused():
    for at, old, says in [
        ("tension.softmax", "x", "no file for tension.softmax"),
        ("attention.softmax", "x", "no softmax"),
        ("attention.masked_softmax", "scores.softmax(dim=2)", "once, and does 0 times"),
        ("attention.masked_softmax", "scores.softmax(dim=-1)", "once, and does 2 times"),
    ]:
        with pytest.raises(ValueError, match=says):
            planted({"at": at, "old": old})
    with pytest.raises(ValueError, match="names the local mask"):
        planted({"at": "attention.masked_softmax", "old": "return scores.softmax(dim=-1)", "new": "mask"})


MODULE = """
import math
def scaled(x, *, d_k):
    y = ["√", math.sqrt(d_k)  # a letter of three bytes
         * x]
    if y:
        print(y)
        return y + x
"""


@pytest.mark.parametrize(
    "old, new, was, now",
    [
        ("math.sqrt(d_k) * a", "a", "math.sqrt(d_k)  # a letter of three bytes\n         * x", "(x)"),
        ("a + b", "b", "y + x", "(x)"),
        (
            "print(a); return a + b",
            "a = b; return a",
            "print(y)\n        return y + x",
            "y = x\n        return y",
        ),
        ("if a: print(a); return a + b", "pass", "if y:\n        print(y)\n        return y + x", "pass"),
        ("math.sqrt(d_k)", "min(d_k for d in range(2))", "math.sqrt(d_k)", "(min((d_k for d in range(2))))"),
    ],
)
def test_neither_layout_nor_the_names_of_locals_matter(old, new, was, now):
    assert replaced(MODULE, "scaled", old, new) == MODULE.replace(was, now)


@pytest.mark.parametrize("old", ["a + a", "a - b", "maths.sqrt(d_k)", "math.sqrt(a)", "print(y); return y"])
def test_other_code_is_not_found(old):
    with pytest.raises(ValueError, match="0 times"):
        replaced(MODULE, "scaled", old, "0")


@pytest.mark.parametrize("mutant", table(), ids=lambda mutant: mutant["at"])
def test_no_bug_depends_on_the_name_of_a_local(mutant):
    file, symbol = located(mutant["at"])
    bug = symbol, mutant["old"], mutant.get("new", "pass")
    tree = ast.parse((LIBRARY / file).read_text(encoding="utf-8"))
    text, part = ast.unparse(tree), within(tree, symbol)
    local = made(part) - keywords(part) if symbol else set()
    renamed(part, lambda name: f"other_{name}" if name in local else name)
    assert replaced(ast.unparse(tree), *bug).replace("other_", "") == replaced(text, *bug)


def test_every_named_test_stands_in_its_file():
    for mutant in table():
        file, function = mutant["test"].split("::")[:2]
        assert f"def {function.split('[')[0]}(" in (ROOT / file).read_text(encoding="utf-8"), mutant["test"]
