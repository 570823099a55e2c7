"""The tests that belong to what has changed since the last commit: python book/quick.py

A module's tests have its name, a log's tests the name of the log, a chapter is run, and the rules of the book
are cheap. What else may have broken, `make test` finds.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def changed():
    """The files that differ from the last commit, or are new; after a commit, those that it has changed."""
    git = ["git", "-c", "core.quotepath=off"]
    new = [*git, "ls-files", "--others", "--exclude-standard"]
    files = lines([*git, "diff", "--name-only", "HEAD"]) + lines(new)
    return files or lines([*git, "diff", "--name-only", "HEAD~1"])


def lines(command):
    """What a command prints, line by line."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
    return done.stdout.splitlines()


def tests(path):
    """What could fail because this file has changed: files of tests, and notebooks."""
    match path.parts:
        case ["tests", name] if name.startswith("test_"):
            yield path
        case ["lib", "heed", *folders, _]:
            names = [*folders, path.stem]
            yield from (Path("tests", f"test_{'_'.join(names[: i + 1])}.py") for i in range(len(names)))
            yield from (Path("tests", name) for name in ("test_order.py", "test_shapes.py"))
        case ["chapters", *_] if path.suffix == ".ipynb":
            yield path
            yield Path("tests", "test_exercises.py")
        case ["assets", _, _]:
            yield Path("tests", f"test_{path.stem}_log.py")
        case ["book", *_]:
            yield Path("tests", "test_book_sabotage.py")


def main():
    """Run them."""
    found = {Path("tests", "test_book.py")} | {test for file in changed() for test in tests(Path(file))}
    asked = sorted(str(path) for path in found if (ROOT / path).is_file())
    print(f"Testing {', '.join(asked)}.", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "logical", *asked, *sys.argv[1:]]
    return subprocess.run(command, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
