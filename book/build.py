"""Build the HTML edition: python book/build.py

It reads `chapters/` and `assets/`, changes nothing there, and writes `book/_build/html`, which opens from the
disk without a network. Any warning is an error, and an edition that fails leaves the one before it in place.
"""

import argparse
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import around
import icons
import keys
import opening
import slides
import teaching
import translating

BOOK = Path(__file__).parent
NEEDS = ("Sphinx", "myst-nb", "sphinx-book-theme", "sphinx-copybutton", "sphinx-mathjax-offline")


def gather(chapters, folder):
    """Write the pages that are no chapters into a folder; copy chapters, assets and README there.

    Raises ValueError if there is no chapter.
    """
    if not list(chapters.glob("*.ipynb")):
        raise ValueError(f"no chapter in {chapters}: expected notebooks called NN_name.ipynb.")
    (folder / "index.md").write_text(opening.page(chapters), encoding="utf-8")
    teaches = teaching.page(chapters.parent)
    pages = {"keys": keys.page(), "solutions": opening.solutions(chapters), "teaching": teaches}
    for name, text in pages.items():
        if text:
            (folder / f"{name}.md").write_text(text, encoding="utf-8")
    if opening.readme(chapters.parent):
        (folder / "README.md").write_text(opening.readme(chapters.parent), encoding="utf-8")
    shutil.copytree(chapters, folder / "chapters", ignore=shutil.ignore_patterns(".*"))
    if (chapters.parent / "assets").is_dir():
        shutil.copytree(chapters.parent / "assets", folder / "assets")


def build(chapters, html):
    """Build the pages in a temporary folder; if Sphinx has no complaint, put them in place of the last ones.

    chapters: folder of notebooks
    html: folder for the pages

    Raises ValueError with every warning of Sphinx, or if `html` holds something else than an edition.
    """
    if html.exists() and any(html.iterdir()) and not (html / "searchindex.js").exists():
        raise ValueError(f"{html} is not empty and holds no HTML edition; name another folder.")
    with tempfile.TemporaryDirectory() as name:
        source, pages, doctrees = (Path(name).resolve() / part for part in ("source", "html", "doctrees"))
        source.mkdir()
        gather(chapters, source)
        sphinx = [sys.executable, "-X", "utf8", "-m", "sphinx", "-b", "html", "-c", BOOK, "-d", doctrees]
        sphinx += ["-q", "-n", "-W", "--keep-going", "--no-color", source, pages]
        run = subprocess.run(sphinx, stderr=subprocess.PIPE, encoding="utf-8", check=False)
        if run.returncode:
            raise ValueError(f"mend what Sphinx names here:\n{readable(run.stderr, source)}")
        translating.write_model(source, pages)
        around.write_picture(source, pages)
        around.write_not_found(source, pages)
        icons.keep_used(pages)
        slides.write(source, pages)
        html.mkdir(parents=True, exist_ok=True)  # may be a link, or a volume: it stays, its contents go
        for old in html.iterdir():
            shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
        shutil.copytree(pages, html, dirs_exist_ok=True)


def readable(warnings, source):
    """Sphinx's warnings with places as an author counts them: `chapters/00_preface.ipynb, cell 14`."""
    return re.sub(r"\.ipynb:(\d+)\d{4}:", r".ipynb, cell \1:", warnings.replace(f"{source}{os.sep}", ""))


def main():
    """Read the command line, build, and say in one line what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chapters", type=Path, default=BOOK.parent / "chapters", help="folder of notebooks")
    parser.add_argument("--out", type=Path, default=BOOK / "_build" / "html", help="folder for the pages")
    wanted = parser.parse_args()
    began = time.monotonic()
    try:
        for package in NEEDS:
            importlib.metadata.version(package)
        build(wanted.chapters, wanted.out)
    except importlib.metadata.PackageNotFoundError as missing:
        sys.exit(f"No HTML edition: {missing.name} is not installed; pip install -e '.[book]' brings it.")
    except ValueError as error:
        sys.exit(f"No HTML edition: {error}")
    pages = len(list(wanted.out.glob("chapters/**/*.html")))
    print(f"{pages} pages in {time.monotonic() - began:.0f} s; open {wanted.out / 'index.html'}")


if __name__ == "__main__":
    main()
