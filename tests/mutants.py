"""Planted bugs: each is put into a copy of the library, and a test that is named beside it must fail.

mutants.toml is the table. All mutants of one test file run in one process, for most of a run is importing
torch: between two of them, the library and the tests are forgotten and imported anew. The library as it is
runs first and last, and must pass both times; so no mutant is killed by what another has left behind.

    python tests/mutants.py       print the table, with what became of each mutant
"""

import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from functools import cache
from pathlib import Path

from patterns import replaced

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "lib" / "heed"
OUTCOMES = {0: "survived", 1: "killed"}  # pytest's exit codes; with any other the test could not even run


def table():
    """The planted bugs: dictionaries with at, why, old, test, and new where `old` is not left out."""
    return tomllib.loads((ROOT / "tests" / "mutants.toml").read_text(encoding="utf-8"))["mutant"]


def planted(mutant, library=LIBRARY):
    """The file of a bug, and its text with the bug in it. ValueError if its place is not clear."""
    file, symbol = located(mutant["at"])
    text = (library / file).read_text(encoding="utf-8")
    return file, replaced(text, symbol, mutant["old"], mutant.get("new", "pass"))


def located(at):
    """engine.world.World.size -> engine/world.py and World.size."""
    names = at.split(".")
    for i in range(len(names), 0, -1):
        file = "/".join(names[:i]) + ".py"
        if (LIBRARY / file).is_file():
            return file, ".".join(names[i:])
    raise ValueError(f"There is no file for {at}.")


@cache
def outcomes(test_file):
    """Run all mutants whose test stands in this file: place in the table -> what became of the mutant.

    "before" and "after" are the library as it is, with all of these tests.
    """
    mutants = [(i, mutant) for i, mutant in enumerate(table()) if mutant["test"].startswith(f"{test_file}::")]
    tests = list(dict.fromkeys(mutant["test"] for _, mutant in mutants))
    jobs = {
        "before": (tests, None, None),
        **{i: ([mutant["test"]], *planted(mutant)) for i, mutant in mutants},
        "after": (tests, None, None),
    }
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(LIBRARY, Path(folder, "lib", "heed"), ignore=shutil.ignore_patterns("__pycache__"))
        done = subprocess.run(
            [sys.executable, "-B", __file__, folder],
            input=json.dumps([*jobs.values()]),
            capture_output=True,
            encoding="utf-8",
            timeout=60 + 20 * len(jobs),
        )
    if done.returncode:
        raise RuntimeError(f"The mutants of {test_file} could not be run:\n{done.stderr[-2000:]}")
    codes = json.loads(done.stdout.splitlines()[-1])
    what = [OUTCOMES.get(code, f"could not run (pytest's exit code {code})") for code in codes]
    return dict(zip(jobs, what, strict=True))


def work(folder):
    """In the process that runs one file's mutants: read the jobs, answer with pytest's exit codes."""
    import pytest

    library = Path(folder, "lib", "heed")
    sys.path[:0] = [str(library.parent), str(ROOT / "tests")]
    codes = []
    for tests, file, text in json.load(sys.stdin):
        path = file and library / file
        whole = path and path.read_text(encoding="utf-8")
        if path:
            path.write_text(text, encoding="utf-8")
        try:
            codes.append(int(pytest.main([*(str(ROOT / test) for test in tests), *OPTIONS])))
        finally:
            if path:
                path.write_text(whole, encoding="utf-8")
        seen = sys.modules.get("heed")
        if seen and not Path(seen.__file__).is_relative_to(library):
            sys.exit(f"{seen.__file__} was tested, and not the copy")
        for name in [name for name in sys.modules if name.split(".")[0] in OURS]:
            del sys.modules[name]
    print(f"\n{json.dumps(codes)}")


TESTS = (path.stem for path in ROOT.glob("tests/test_*.py"))
OURS = {"heed", "shapes", "tiny", "variants", "conftest", *TESTS}
OPTIONS = [
    *("-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts="),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning", f"--rootdir={ROOT}", f"-c{ROOT / 'pyproject.toml'}"),
]

if __name__ == "__main__":
    if sys.argv[1:]:
        work(sys.argv[1])
    else:
        for place, mutant in enumerate(table()):
            file = mutant["test"].split("::")[0]
            result = outcomes(file)[place]
            if not outcomes(file)["before"] == outcomes(file)["after"] == "survived":
                sys.exit(f"{file} fails on the library as it is: no mutant of it counts.")
            print(f"{result:9} {mutant['at']}: {mutant['why']}  ({mutant['test'].split('::')[1]})")
