"""`make` works from the first call on, with a space in the folder's name, and says in one line what is wrong.

It is tried with a pretended Python, which makes an environment in no time and writes down what it was asked
to do. That the real installation works, whoever runs these tests with `make test` has just seen.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
INSTALL = "-m pip install -c requirements.lock -e .[lab,test,book]"
TEST = ["-m ruff check --quiet .", "-m pytest -n logical"]
PROGRAMS = ("python3", "python3.14", "python3.13", "python3.12", "python3.11")

pytestmark = pytest.mark.skipif(
    sys.platform == "win32" or not shutil.which("make"),
    reason="no make here; the README tells how to do without",
)

FAKE = r"""#!/bin/sh
case "$*" in
"-c import sys, ensurepip"*) test ! -e "$0.unfit" ;;
"-c import os"*) test "$(cat .venv/ready)" = "$(pwd -P)" && echo True ;;
"--version") echo "Python 3.12.9" ;;
"-m pip --version") ;;
"-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python && echo "venv ${0##*/}" >>"$FAKES/calls" ;;
*) echo "$*" >>"$FAKES/calls"; if [ -e "$FAKES/pip" ]; then cat "$FAKES/pip"; exit 1; fi ;;
esac
"""


class Folder:
    """A copy of the Makefile in a folder with a space in its name; pretended Pythons stand on the path."""

    def __init__(self, parent):
        self.path, self.fakes = parent / "my courses" / "heed", parent / "fakes"
        self.path.mkdir(parents=True)
        self.fakes.mkdir()
        for name in ("Makefile", "pyproject.toml", "requirements.lock"):
            shutil.copy(ROOT / name, self.path)
        for name in PROGRAMS:
            self.add_python(self.fakes / name)

    def add_python(self, path):
        """Put a pretended Python here."""
        path.write_text(FAKE, encoding="utf-8")
        path.chmod(0o755)

    def make(self, *words, **variables):
        """Call make: (status, what it printed, what the Pythons were asked to do)."""
        ours = ("MAKE", "GNUMAKEFLAGS", "MFLAGS", "OPTIONS", "PYTHON", "python")
        environment = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
        environment["PATH"] = f"{self.fakes}{os.pathsep}{environment['PATH']}"
        environment |= {"FAKES": str(self.fakes), "LC_ALL": "C"} | variables
        said = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "encoding": "utf-8"}
        run = subprocess.run(["make", *words], cwd=self.path, env=environment, check=False, **said)
        calls = self.fakes / "calls"
        asked = calls.read_text(encoding="utf-8").splitlines() if calls.exists() else []
        calls.unlink(missing_ok=True)
        return run.returncode, run.stdout, asked


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def test_make_alone_lists_every_target(folder):
    status, printed, asked = folder.make()
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.search(r"^\.PHONY: (.+)$", text, re.MULTILINE)[1].split()
    assert status == 0 and not asked
    assert re.findall(r"^make (\w+)\t\w", printed, re.MULTILINE) == targets
    for target in targets:
        assert folder.make("-n", target)[0] == 0
    assert {"lab", "test", "soak", "train", "bench", "book", "chapters"} <= set(targets)


def test_the_first_call_sets_up_and_the_second_does_only_what_is_left(folder):
    assert folder.make("test")[2] == ["venv python3", INSTALL, *TEST]
    assert folder.make("test")[2] == TEST
    assert folder.make("book")[2] == ["book/build.py"]
    ten_minutes = ["train recipes/multi30k-10min.toml", "evaluate runs/multi30k-10min"]
    assert folder.make("train")[2] == [f"-m heed {command}" for command in ten_minutes]
    assert folder.make("test", "OPTIONS=-n0 -x")[2] == [TEST[0], f"{TEST[1]} -n0 -x"]
    assert folder.make("soak")[2] == ["-m pytest -n logical -m soak", "book/chapters.py soak"]
    assert folder.make("bench", "OPTIONS=memory")[2] == ["-c import transformers", "-m bench memory"]
    assert folder.make("race", "OPTIONS=--seeds 1")[2] == [
        "-c import accelerate, joeynmt",
        "-m bench.race all --seeds 1",
    ]
    verbs = ("mirror", "run", "map", "cover")
    assert folder.make("chapters")[2] == [f"book/chapters.py {verb}" for verb in verbs]
    (lab,) = folder.make("lab", "OPTIONS=--no-browser")[2]
    assert re.fullmatch(r"-m jupyterlab .*/chapters/00_preface\.ipynb .*--no-browser", lab)


def test_lab_asks_nothing_about_news_and_looks_for_no_updates(folder):
    folder.make("lab")
    (file,) = (folder.path / ".venv" / "share" / "jupyter" / "lab" / "settings" / "overrides.d").iterdir()
    ((plugin, defaults),) = json.loads(file.read_text(encoding="utf-8")).items()
    assert defaults == {"fetchNews": "false", "checkForUpdates": False}
    schemas = Path(sys.prefix) / "share" / "jupyter" / "lab" / "schemas"
    name, setting = plugin.split(":")
    known = json.loads((schemas / name / f"{setting}.json").read_text(encoding="utf-8"))["properties"]
    assert set(defaults) <= set(known)
    assert defaults["fetchNews"] in [choice["const"] for choice in known["fetchNews"]["oneOf"]]


def test_what_is_set_for_other_work_changes_nothing_here(folder, monkeypatch):
    for name in ("OPTIONS", "PYTHON", "python", "MAKEFLAGS"):
        monkeypatch.setenv(name, "-n")
    assert folder.make("test")[2] == ["venv python3", INSTALL, *TEST]
    assert folder.make("test", OPTIONS="-x")[2] == [TEST[0], f"{TEST[1]} -x"]


@pytest.mark.parametrize("name", ["pyproject.toml", "requirements.lock"])
def test_a_change_of_versions_is_installed_into_the_environment_that_is_there(folder, name):
    folder.make("book")
    later = (folder.path / ".venv" / "ready").stat().st_mtime + 10
    os.utime(folder.path / name, (later, later))
    (folder.fakes / "pip").write_text("ERROR: no such version\n", encoding="utf-8")
    assert folder.make("book")[::2] == (2, [INSTALL])
    (folder.fakes / "pip").unlink()
    assert folder.make("book")[::2] == (0, [INSTALL, "book/build.py"])


def test_an_environment_that_is_broken_or_was_moved_is_made_anew(folder):
    folder.make("book")
    folder.path = folder.path.rename(folder.path.with_name("heed, moved"))
    assert folder.make("book")[2] == ["venv python3", INSTALL, "book/build.py"]
    (folder.path / ".venv" / "bin" / "python").unlink()
    assert folder.make("book")[2] == ["venv python3", INSTALL, "book/build.py"]
    (folder.path / ".venv" / "ready").unlink()
    assert folder.make("book")[2] == [INSTALL, "book/build.py"]


def test_clean_leaves_nothing_that_make_has_made(folder):
    made = ("tests/__pycache__", "book/_build/html", "chapters/.ipynb_checkpoints", "lib/a.egg-info")
    kept = ("lib/heed", "runs/my run", "drafts")
    for name in made + kept:
        (folder.path / name).mkdir(parents=True)
    folder.make("book")
    status, printed, asked = folder.make("clean")
    assert status == 0 and not asked, printed
    assert not any((folder.path / name).exists() for name in (".venv", *made))
    assert all((folder.path / name).exists() for name in ("Makefile", "requirements.lock", *kept))


def test_the_first_python_that_fits_is_taken(folder):
    for name in ("python3", "python3.14"):
        (folder.fakes / f"{name}.unfit").touch()
    assert folder.make("book")[2] == ["venv python3.13", INSTALL, "book/build.py"]


@pytest.mark.parametrize("named", [None, "nowhere/my python"])
def test_without_a_python_one_line_says_what_is_needed_and_how_to_choose(folder, named):
    for name in () if named else PROGRAMS:
        (folder.fakes / f"{name}.unfit").touch()
    status, printed, asked = folder.make("lab", **{"PYTHON": named} if named else {})
    said, stopped = printed.splitlines()
    assert status == 2 and not asked and stopped.startswith("make: ***")
    for words in ("Python 3.11 to 3.14", named or "python3 python3.14", "PYTHON=python3.12 make lab"):
        assert words in said
    assert not (folder.path / ".venv").exists()


def test_the_reader_may_name_a_python_whose_path_has_a_space(folder):
    named = folder.path.parent / "python"
    folder.add_python(named)
    assert folder.make("book", PYTHON=str(named))[2] == ["venv python", INSTALL, "book/build.py"]


@pytest.mark.parametrize(
    "told, pip",
    {
        "no network": "WARNING: Retrying after connection broken by 'NewConnectionError'\nERROR: No torch",
        "no network: the": "ERROR: Could not find a version that satisfies torch (from versions: none)",
        "the disk is full": "ERROR: Could not install packages: [Errno 28] No space left on device",
        "ERROR: torch has no": "ERROR: See dependency-resolution\nERROR: torch has no build for this machine",
    }.items(),
)
def test_an_installation_that_fails_says_why_in_one_line_and_is_resumed(folder, told, pip):
    (folder.fakes / "pip").write_text(f"{pip}\n", encoding="utf-8")
    status, printed, asked = folder.make("test")
    said = printed.splitlines()[2]
    assert status == 2 and asked == ["venv python3", INSTALL] and len(printed.splitlines()) == 4
    assert said.startswith(f"Not installed, {told}") and said.endswith(".venv/install.log")
    assert pip in (folder.path / ".venv" / "install.log").read_text(encoding="utf-8")
    (folder.fakes / "pip").unlink()
    assert folder.make("test")[2] == [INSTALL, *TEST]
