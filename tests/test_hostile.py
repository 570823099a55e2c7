"""What a hostile user, a full disk and a bad day do to `python -m heed`: no traceback, nothing lost, no hang.

Each attempt is a few lines of shell in hostile.sh, run in a folder of its own with a trained model D, its
recipe r.toml and its sentences a.de and a.en. `make soak` makes them all, `make test` a few.

    python tests/test_hostile.py [WORD …]              make them, or those with a word in their names; a list
    HEED_LIBRARY=folder/lib python tests/test_hostile.py                          with another library
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIBRARY = os.environ.get("HEED_LIBRARY", str(ROOT / "lib"))
SECONDS = 240  # an attempt that takes more hangs
FILE = Path(__file__).with_name("hostile.sh")
NUMBERS = (
    *("null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht"),
    *("neun", "zehn", "elf", "zwölf", "dreizehn", "vierzehn", "fünfzehn"),
)
WORDS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight"),
    *("nine", "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen"),
)
RECIPE = """
[data]
train = ["a.de", "a.en"]
val = ["a.de", "a.en"]
test = ["a.de", "a.en"]
vocabulary = 300

[model]
n_layers = 1
d_model = 32
d_ff = 48
n_heads = 4
dropout = 0.0

[training]
updates = 60
tokens = 100
lr = 0.03
precision = "fp32"
log_every = 5
every = 20
keep = 2
"""
QUICK = ["34 a page over a model", "36 a file in the place of a folder", "keys that are no keys"]


def sections():
    """The file's parts: the tools, then a name and a script for each attempt."""
    return re.split(r"^#### (.*)\n", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)


def tools():
    """What stands before every script."""
    return sections()[0]


ATTEMPTS = dict(zip(sections()[1::2], sections()[2::2], strict=True))


def prepared(folder):
    """Sentences, recipe and a trained model, in this folder."""
    for name, words in (("a.de", NUMBERS), ("a.en", WORDS)):
        (folder / name).write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    (folder / "r.toml").write_text(RECIPE, encoding="utf-8")
    wrong = attempted("try 0 heed train r.toml --to D; works", folder)
    if wrong:
        raise RuntimeError(f"The model of all attempts cannot be trained: {wrong}")
    return folder


def heeding():
    """A hangup is not ignored, as it would be where the tests run under `nohup`."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def attempted(script, folder):
    """Run a script in a folder, with all it starts ended in the end. Returns None, or what went wrong."""
    environment = {**os.environ, "PYTHON": sys.executable, "LIBRARY": LIBRARY, "COLUMNS": "200"}
    shell = subprocess.Popen(
        ["bash", "-c", f"{tools()}\n{script}"], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
        start_new_session=True, preexec_fn=heeding,
    )  # fmt: skip
    try:
        said, _ = shell.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        said = "it hangs"
    finally:
        try:
            os.killpg(shell.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return (
        None if shell.wait() == 0 and "FAILED" not in said else f"status {shell.returncode}: {said[-1500:]}"
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with all that an attempt needs."""
    return prepared(tmp_path_factory.mktemp("hostile"))


@pytest.mark.skipif(
    shutil.which("bash") is None or os.name != "posix", reason="the attempts are written for bash"
)
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.soak) for name in ATTEMPTS]
)
def test_nothing_is_lost_and_nothing_hangs(made, tmp_path, name):
    shutil.copytree(made, tmp_path / "here")
    assert attempted(ATTEMPTS[name], tmp_path / "here") is None


def main(names):
    """Make the attempts, or those whose names hold one of the words; print what became of each."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "made").mkdir()
        made, here = prepared(Path(folder, "made")), Path(folder, "here")
        for name, script in ATTEMPTS.items():
            if not names or any(word in name for word in names):
                shutil.copytree(made, here)
                wrong = attempted(script, here)
                print(f"✗ {name}: {wrong}" if wrong else f"✓ {name}", flush=True)
                shutil.rmtree(here, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
