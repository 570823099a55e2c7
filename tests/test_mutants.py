"""Every planted bug of mutants.toml is found by the test that stands beside it, and every module has some.

`make soak` plants them all; `make test` plants those of one small file, to see that planting works.
"""

import pytest
from mutants import LIBRARY, ROOT, outcomes, planted, table

import heed

MUTANTS = list(enumerate(table()))
LEAST = 3  # planted bugs a module
WITHOUT = {"plot", "check"}  # pictures are compared as pictures; a check's mutants are the wrong answers
SMALL = "tests/test_schedule.py"
ENTRIES = [
    pytest.param(entry, marks=[] if entry[1]["test"].startswith(f"{SMALL}::") else pytest.mark.soak)
    for entry in MUTANTS
]


def named(value):
    return f"{value[1]['file']}: {value[1]['why']}".replace("::", ":")


@pytest.mark.parametrize("entry", ENTRIES, ids=named)
def test_a_planted_bug_is_found(entry):
    place, mutant = entry
    file = mutant["test"].split("::")[0]
    results = outcomes(file)
    whole = results["before"], results["after"]
    assert whole == ("survived", "survived"), f"{file} fails on the library as it is"
    assert results[place] == "killed", f"{mutant['old']!r} -> {mutant['new']!r}"


@pytest.mark.parametrize("module", [module for module in heed.MODULES if module not in WITHOUT])
def test_every_module_has_planted_bugs(module):
    mine = [mutant for mutant in table() if mutant["file"].split("/")[0].removesuffix(".py") == module]
    assert len(mine) >= LEAST


def test_no_bug_is_planted_twice():
    texts = [planted(mutant) for mutant in table()]
    assert len(set(texts)) == len(texts)
    assert not set(texts) & {path.read_text(encoding="utf-8") for path in LIBRARY.rglob("*.py")}


def test_a_place_that_is_not_there_or_twice_is_refused():
    for old in ("no such line anywhere", "import"):
        with pytest.raises(ValueError, match="must contain"):
            planted({"file": "attention.py", "old": old, "new": ""})


def test_every_named_test_stands_in_its_file():
    for mutant in table():
        file, function = mutant["test"].split("::")[:2]
        assert f"def {function.split('[')[0]}(" in (ROOT / file).read_text(encoding="utf-8"), mutant["test"]
