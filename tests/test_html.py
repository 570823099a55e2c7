"""The HTML edition: built strictly, opened from the disk in a headless browser, and looked at.

What makes a page faulty is written once, in `faults`; every kind of fault is then planted and found.
"""

import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import nbformat
import pytest
from nbformat import v4

ROOT = Path(__file__).parents[1]

LOOK = r"""
(async () => {
  if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
  document.querySelectorAll("details").forEach(details => { details.open = true; });
  await Promise.all([...document.images].map(image => image.decode().catch(() => {})));
  const page = document.querySelector("article.bd-article") || document.querySelector("main");
  const all = selector => [...page.querySelectorAll(selector)];
  const scrolls = element => element !== page &&
    (getComputedStyle(element).overflowX !== "visible" || scrolls(element.parentElement));
  const sticksOut = element => {
    const box = element.getBoundingClientRect();
    const out = box.width > 0 && (box.left < -1 || box.right > screen.width + 1);
    return out && !scrolls(element.parentElement);
  };
  return {
    formulas: all("mjx-container").length,
    answers: all("details:not(.hide)").length,
    figures: all("img").map(image => ({
      file: image.src.split("/").pop(), alt: image.alt, pixels: image.naturalWidth,
      shown: image.getBoundingClientRect().width,
    })),
    broken: all("[data-mjx-error]").map(formula => formula.dataset.mjxError),
    wide: all("*:not(mjx-container *):not(svg *)").filter(sticksOut).map(each => each.outerHTML.slice(0, 80)),
  };
})()
"""


def written(notebook):
    """How many formulas, figures and folding answers an author wrote into a notebook."""
    cells = nbformat.read(notebook, as_version=4).cells
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    text = re.sub(r"```.*?```|`[^`\n]*`|\\\$", "", text, flags=re.DOTALL)
    outputs = [output for cell in cells for output in cell.get("outputs", []) if "data" in output]
    return {
        "formulas": len(re.findall(r"\$\$.+?\$\$|\$[^$]+\$", text, flags=re.DOTALL)),
        "figures": len(re.findall(r"!\[", text)) + sum("image/png" in output.data for output in outputs),
        "answers": len(re.findall(r"<details", text)),
    }


def faults(browser, page, expected=None):
    """One sentence for everything that is wrong with a page.

    page: the file
    expected: the counts of `written`, if the page is a notebook's
    """
    browser.open(page)
    seen = browser.ask(LOOK)
    counts = {**seen, "figures": len(seen["figures"])}
    differ = {what: n for what, n in (expected or {}).items() if counts[what] != n}
    return [
        *(f"{n} {what} were written, {counts[what]} are seen" for what, n in differ.items()),
        *(f"broken formula: {error}" for error in seen["broken"]),
        *(f"figure {each['file']} is not there" for each in seen["figures"] if not each["pixels"]),
        *(f"figure {each['file']} is not shown" for each in seen["figures"] if each["shown"] < 50),
        *(f"figure {each['file']} has no alternative text" for each in seen["figures"] if nameless(each)),
        *(f"sticks out of a phone's screen: {element}" for element in seen["wide"]),
        *(f"console: {error}" for error in browser.errors()),
        *(f"asks the network for {url}" for url in browser.requests()),
    ]


def nameless(figure):
    """Whether a figure goes unexplained: no text, or the file's name, which Sphinx writes in its place."""
    return len(figure["alt"].strip()) < 10 or figure["alt"].endswith(figure["file"])


def build(chapters, html):
    """Run the builder as a reader would."""
    command = [sys.executable, "-X", "utf8", ROOT / "book" / "build.py"]
    command += ["--chapters", chapters, "--out", html]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False)


def cell(source, output=None, **metadata):
    """A code cell that has run; output: a string that was printed, or a dictionary of representations."""
    outputs = []
    if isinstance(output, str):
        outputs = [v4.new_output("stream", name="stdout", text=output)]
    elif output:
        outputs = [v4.new_output("display_data", data=output)]
    return v4.new_code_cell(source, outputs=outputs, execution_count=1, metadata=metadata)


def save(path, *cells):
    """Write a notebook; a string is a Markdown cell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = [v4.new_markdown_cell(each) if isinstance(each, str) else each for each in cells]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(v4.new_notebook(cells=cells, metadata=kernel), path)


# a PNG of 64 × 2 grey pixels
PIXELS = (
    "iVBORw0KGgoAAAANSUhEUgAAAEAAAAACCAAAAADNkoVlAAAAEUlEQVR4nGNsYKAMMFGonwEAQgYAhB53x/oAAAAASUVORK5CYII="
)


ALL_SORTS = r"""# Attention over $x$

See the [preface](00_preface.ipynb) and [scores](../lib/heed/scores.py).

$$
\begin{aligned} y &= \sum_i \alpha_i x_i \\ &= \mathbb{E}[x_z] \end{aligned} \tag{3.1}
$$

A long one: $$LONG \tag{3.2}$$

| a | b |
|---|---|
| $q$ | WIDE |

It costs \$5 and `$HOME`.
""".replace("LONG", " + ".join([r"\boldsymbol{x}"] * 40)).replace("WIDE", "a wide cell " * 20)

EXERCISE = r"""### Exercise 3.1 · code · ●●○ · 10 min

<details><summary>Hint 1</summary>

Use $\mathbb{R}$:

```python
x = 1
```

</details>
<details>
<summary>Hint 2</summary>

$$z = 1$$

</details>"""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The folder of a book of two chapters and a solution, with a bit of everything; pages in `html`."""
    folder = tmp_path_factory.mktemp("a small book")
    setup = cell("import heed", tags=["setup"])
    save(folder / "chapters" / "00_preface.ipynb", setup, "# Preface\n\nThe *aardvark* is for the search.")
    save(
        folder / "chapters" / "03_attention.ipynb",
        setup,
        ALL_SORTS,
        cell("# lib/heed/scores.py\ndef score():\n    return " + "1 + " * 80 + "1"),
        cell("draw()", {"image/png": PIXELS, "text/plain": "<Figure>"}, alt="A grey bar, wide and low"),
        cell("table()", {"text/html": "<table><tr>" + "<td>0.123</td>" * 40 + "</tr></table>"}),
        EXERCISE,
        cell("check.score(score)", "○ Not started: fill in the function above\n", tags=["exercise"]),
    )
    save(
        folder / "chapters" / "solutions" / "03_attention.ipynb",
        "# Solutions 3\n\n### Exercise 3.1\n\nFor [chapter 3](../03_attention.ipynb).",
    )
    (folder / "html").mkdir()
    for name in ("searchindex.js", "left_by_the_edition_before.html"):
        (folder / "html" / name).touch()
    run = build(folder / "chapters", folder / "html")
    assert run.returncode == 0, run.stdout + run.stderr
    assert not run.stderr
    return folder


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """The pages of the real book."""
    if not list((ROOT / "chapters").glob("*.ipynb")):
        pytest.skip("no chapter is written yet")
    html = tmp_path_factory.mktemp("book") / "html"
    run = build(ROOT / "chapters", html)
    assert run.returncode == 0, run.stdout + run.stderr
    return html


def faults_of_edition(browser, chapters, html):
    """The faults of all pages of an edition, by page."""
    found = {name: faults(browser, html / name) for name in ("index.html", "search.html", "genindex.html")}
    for notebook in sorted(chapters.glob("**/*.ipynb")):
        name = notebook.relative_to(chapters.parent).with_suffix(".html").as_posix()
        found[name] = faults(browser, html / name, written(notebook))
    return {name: sentences for name, sentences in found.items() if sentences}


def test_every_page_of_the_book_is_sound(browser, book):
    assert faults_of_edition(browser, ROOT / "chapters", book) == {}


def test_every_page_of_a_small_book_is_sound(browser, small):
    assert written(small / "chapters" / "03_attention.ipynb") == {"formulas": 6, "figures": 1, "answers": 2}
    assert faults_of_edition(browser, small / "chapters", small / "html") == {}


ALT = 'alt="A grey bar, wide and low"'
END = "</article>"
SABOTAGE = {
    "unknown command in a formula": (r"\mathbb{E}", r"\nosuch{E}", "broken formula: Undefined control"),
    "a brace too few": (r"\mathbb{E}", r"\mathbb{E", "6 formulas were written, 5 are seen"),
    "formulas nobody renders": ('class="math', 'class="plain', "6 formulas were written, 0 are seen"),
    "no MathJax": ("tex-svg-full.js", "gone.js", "console: Failed to load resource"),
    "a figure that is gone": ('src="../_images/', 'src="gone/', ".png is not there"),
    "a figure that is hidden": ("<img ", '<img style="display: none" ', ".png is not shown"),
    "a figure left out": ("<img ", "<p ", "1 figures were written, 0 are seen"),
    "no alternative text": (ALT, "", ".png has no alternative text"),
    "a file's name for alternative text": (ALT, 'alt="FIGURE"', ".png has no alternative text"),
    "an answer that does not fold": ("<details><summary>", "<div>", "2 answers were written, 1 are seen"),
    "a script that throws": (END, "<script>nosuch()</script>", "console: ReferenceError"),
    "a script that complains": (END, "<script>console.error('oh')</script>", "console: oh"),
    "a script from elsewhere": (END, '<script src="https://a.org/a"></script>', "the network for https"),
    "a font from elsewhere": ("</head>", '<link rel="stylesheet" href="http://a.org">', "network for http:"),
    "something wide": (END, '<p style="width: 900px">wide</p></article>', "sticks out of a phone"),
}


@pytest.mark.parametrize(("old", "new", "sentence"), SABOTAGE.values(), ids=SABOTAGE.keys())
def test_a_planted_fault_is_found(browser, small, old, new, sentence):
    sound = small / "html" / "chapters" / "03_attention.html"
    text = sound.read_text(encoding="utf-8")
    assert old in text
    planted = text.replace(old, new.replace("FIGURE", re.search(r'src="(\.\./_images/[^"]*)"', text)[1]))
    page = sound.with_name("sabotaged.html")
    page.write_text(planted, encoding="utf-8")
    found = faults(browser, page, written(small / "chapters" / "03_attention.ipynb"))
    page.unlink()
    assert any(sentence in each for each in found), found


def test_search_works_from_the_disk(browser, small):
    browser.open(small / "html" / "search.html", query="?q=aardvark")
    links = "[...document.querySelectorAll('#search-results li a')].map(a => a.getAttribute('href'))"
    patience = time.monotonic() + 20
    while not (found := browser.ask(links)) and time.monotonic() < patience:
        time.sleep(0.1)
    assert [link.split("?")[0].split("#")[0] for link in found] == ["chapters/00_preface.html"]
    assert browser.errors() == []


def test_dark_mode_leaves_figures_on_white(browser, small):
    page = small / "html" / "chapters" / "03_attention.html"
    figure = "document.querySelector('article img')"
    paint = f"[document.body, {figure}].map(each => getComputedStyle(each).backgroundColor)"
    browser.open(page, dark=True)
    assert browser.ask("document.documentElement.dataset.theme") == "dark"
    assert browser.ask(paint) == ["rgb(18, 20, 23)", "rgb(255, 255, 255)"]
    browser.open(page)
    assert browser.ask("document.documentElement.dataset.theme") == "light"
    assert browser.ask(paint)[0] == "rgb(255, 255, 255)"


def test_the_reader_chooses_the_theme_and_it_stays(browser, small):
    page = small / "html" / "chapters" / "03_attention.html"
    for mode, theme in {"dark": "dark", "light": "light", "auto": "light"}.items():
        browser.open(page)
        browser.ask(f"document.querySelector('button.theme-change-button[data-mode={mode}]').click()")
        browser.open(page)
        assert browser.ask("document.documentElement.dataset.theme") == theme


def test_every_code_cell_has_a_copy_button_that_works(browser, small):
    browser.open(small / "html" / "chapters" / "03_attention.html", width=1280)
    assert browser.ask("document.querySelectorAll('div.cell_input').length") == 5
    assert browser.ask("document.querySelectorAll('div.cell_input button.copybtn').length") == 5
    browser.ask("document.querySelectorAll('button.copybtn')[2].click()")
    assert browser.ask("document.querySelectorAll('button.copybtn')[2].classList.contains('success')")


def test_what_the_edition_adds_to_a_notebook(small):
    text = (small / "html" / "chapters" / "03_attention.html").read_text(encoding="utf-8")
    package = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    repository = package["project"]["urls"]["Repository"]
    name = repository.removeprefix("https://github.com/")
    page = "chapters/03_attention.ipynb"
    assert f'href="https://colab.research.google.com/github/{name}/blob/main/{page}"' in text
    assert f'href="https://mybinder.org/v2/gh/{name}/main?urlpath=lab/tree/{page}"' in text
    assert f'href="{repository}/issues/new?' in text
    assert f'href="{repository}/blob/main/lib/heed/scores.py">scores</a>' in text
    assert re.search(f'From the library: <a [^>]*href="{repository}/blob/main/lib/heed/scores.py"', text)
    assert 'Exercise 3.1<span class="exercise-kind"> · code · ●●○ · 10 min</span>' in text
    assert text.index("<h1>") < text.index("Set-up on Colab") < text.index('class="cell tag_mirrored')
    assert str(small) not in text


def test_only_chapters_that_exist_are_listed_in_order(small):
    text = (small / "html" / "index.html").read_text(encoding="utf-8")
    listed = re.findall(r'href="(chapters/[^"]*)"', text[text.index("<article") : text.index("</article>")])
    names = ("00_preface", "03_attention", "solutions/03_attention")
    assert listed == [f"chapters/{name}.html" for name in names]


def test_a_warning_stops_the_build_and_spares_the_last_edition(small, tmp_path):
    save(tmp_path / "chapters" / "01_one.ipynb", "# One\n\n[nowhere](02_nowhere.ipynb)")
    shutil.copytree(small / "html", tmp_path / "html")
    run = build(tmp_path / "chapters", tmp_path / "html")
    assert run.returncode != 0
    assert "02_nowhere.ipynb" in run.stderr
    assert run.stderr.splitlines()[1].startswith("chapters/01_one.ipynb, cell 1:")
    assert (tmp_path / "html" / "chapters" / "03_attention.html").exists()


def test_a_new_edition_replaces_the_old_one(small):
    assert (small / "html" / "searchindex.js").stat().st_size > 0
    assert not (small / "html" / "left_by_the_edition_before.html").exists()


def test_the_builder_says_what_it_cannot_do(tmp_path):
    run = build(tmp_path, tmp_path / "html")
    assert run.returncode != 0 and "no chapter in" in run.stderr
    save(tmp_path / "18_too_many.ipynb", "# Eighteen")
    run = build(tmp_path, tmp_path / "html")
    assert run.returncode != 0 and "18_too_many.ipynb: a chapter is called NN_name.ipynb" in run.stderr
    run = build(tmp_path, tmp_path)
    assert run.returncode != 0 and "holds no HTML edition; name another folder" in run.stderr
    assert (tmp_path / "18_too_many.ipynb").exists()
