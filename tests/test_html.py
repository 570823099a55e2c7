"""The HTML edition: built strictly, opened from the disk in a headless browser, and looked at.

What makes a page faulty is written once, in `faults`; every kind of fault is then planted and found.
"""

import base64
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import nbformat
import numpy as np
import opening
import pytest
from nbformat import v4
from notebooks import notebooks

from heed.plot import explorer, one_mixture

ROOT = Path(__file__).parents[1]

LOOK = r"""
(async () => {
  if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
  const folds = [...document.querySelectorAll("details.fold")].map(fold => ({
    line: fold.querySelector("summary").innerText.trim(),
    hides: [...fold.children].slice(1).map(each => each.textContent.trim() || "a figure").join(""),
    shows: [...fold.children].slice(1).some(each => each.checkVisibility()),
  }));
  document.querySelectorAll("details").forEach(details => { details.open = true; });
  await Promise.all([...document.images].map(image => image.decode().catch(() => {})));
  const page = document.querySelector("article.bd-article") || document.querySelector("main");
  const all = selector => [...page.querySelectorAll(selector)];
  const scrolls = element => element !== page &&
    (getComputedStyle(element).overflowX !== "visible" || scrolls(element.parentElement));
  const moving = ".heed-mover :is(svg, .heed-grid)";
  const mover = image => image.closest(".heed-still") && image.closest(".cell_output").querySelector(moving);
  const sticksOut = element => {
    const box = element.getBoundingClientRect();
    const out = box.width > 0 && (box.left < -1 || box.right > screen.width + 1);
    return out && !scrolls(element.parentElement);
  };
  return {
    formulas: all("mjx-container").length,
    answers: all("details:not(.fold)").length, folds,
    figures: all("img").map(image => ({
      file: image.src.split("/").pop(), alt: image.alt, pixels: image.naturalWidth,
      shown: (mover(image) || image).getBoundingClientRect().width,
    })),
    broken: all("[data-mjx-error]").map(formula => formula.dataset.mjxError),
    wide: all("*:not(mjx-container *):not(svg *)").filter(sticksOut).map(each => each.outerHTML.slice(0, 80)),
  };
})()
"""


def written(notebook):
    """How many formulas, figures, folding answers and folded inputs and outputs an author wrote."""
    cells = nbformat.read(notebook, as_version=4).cells
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    text = re.sub(r"```.*?```|`[^`\n]*`|\\\$", "", text, flags=re.DOTALL)
    outputs = [output for cell in cells for output in cell.get("outputs", []) if "data" in output]
    folds = [cell.metadata.get("tags", []) for cell in cells]
    return {
        "formulas": len(re.findall(r"\$\$.+?\$\$|\$[^$]+\$", text, flags=re.DOTALL)),
        "figures": len(re.findall(r"!\[", text)) + sum("image/png" in output.data for output in outputs),
        "answers": len(re.findall(r"<details", text)),
        "folds": sum(each in tags for tags in folds for each in ("setup", "hide-input", "hide-output")),
    }


def faults(browser, page, expected=None):
    """One sentence for everything that is wrong with a page.

    page: the file
    expected: the counts of `written`, if the page is a notebook's
    """
    browser.open(page)
    seen = browser.ask(LOOK)
    counts = {**seen, "figures": len(seen["figures"]), "folds": len(seen["folds"])}
    differ = {what: n for what, n in (expected or {}).items() if counts[what] != n}
    return [
        *(f"{n} {what} were written, {counts[what]} are seen" for what, n in differ.items()),
        *(f"broken formula: {error}" for error in seen["broken"]),
        *(f"a fold stands open: {each['line']}" for each in seen["folds"] if each["shows"]),
        *(f"a fold hides nothing: {each['line']}" for each in seen["folds"] if not each["hides"]),
        *(f"a fold has no name: {each['hides'][:40]}" for each in seen["folds"] if not each["line"]),
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
EIGHTY
```

</details>
<details>
<summary>Hint 2</summary>

$$z = 1$$

</details>""".replace("EIGHTY", "x = " + "1 + " * 18 + "1234")


README = """# A small book

![A grey bar on the cover](assets/readme.png)

*From [chapter 3](chapters/03_attention.ipynb): a bar.*

| a table | of | something else |
|---|---|---|
| 03 | 1 | 2 |

| | chapter | what it leaves you with | how long |
|---|---|---|---|
| 00 | [Before all](chapters/00_preface.ipynb) | how to read | 12 |
| 03 | [Attention](chapters/03_attention.ipynb) | a look back | 45 minutes to read, 2 hours of exercises |
| 04 | Scores *(planned)* | three of them | |
"""

STILL = "Four lists on a line, and a cut"  # the alternative text of a mover's picture

# lines of exactly eighty columns, wherever a chapter may have one
EIGHTY = "x = " + "1 + " * 18 + "1234"
FOLDED = [
    cell(f"# check: loop & matrices agree\n{EIGHTY}", "✓ they agree\n", tags=["hide-input"]),
    cell(f"# not the name of a fold\n{EIGHTY}", "three of ten\n", tags=["hide-output"]),
    cell(
        "# figure: the bar again\ndraw()",
        {"image/png": PIXELS, "text/plain": "<Figure>"},
        alt="The grey bar, once more",
        tags=["hide-input", "hide-output"],
    ),
    cell("1 + 1", "2\n", tags=["hide-input", "hide-output"]),
    cell(
        f"# lib/heed/scores.py\n{EIGHTY}\n\n\ndef one():\n    x\n\n\nclass Two:\n    y", tags=["hide-input"]
    ),
]
LINES = [
    "Set-up",
    "check: loop & matrices agree",
    "Show the output",
    "figure: the bar again",
    "Show the figure",
    "Show the code",
    "Show the output",
    "lib/heed/scores.py · one, Two",
]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The folder of a book of two chapters and a solution, with a bit of everything; pages in `html`."""
    folder = tmp_path_factory.mktemp("a small book")
    setup = cell("import heed", tags=["setup"])
    weights = np.linspace(0, 1, 2 * 2 * 3 * 4).reshape(2, 2, 3, 4)
    maps = explorer({"source": weights}, ["a", "b", "c"], ["k", "l", "m", "n"], "a b c → k l m n")
    moved = {"text/html": one_mixture().html(), "text/plain": "Mover"}
    two_outputs = [cell("move()", {"image/png": PIXELS}, alt=STILL) for _ in range(2)]
    two_outputs[1].metadata["tags"] = ["hide-output"]
    for each in two_outputs:
        each.outputs.append(v4.new_output("display_data", data=moved))
    (folder / "assets").mkdir()
    (folder / "assets" / "readme.png").write_bytes(base64.b64decode(PIXELS))
    (folder / "README.md").write_text(README, encoding="utf-8")
    save(
        folder / "chapters" / "00_preface.ipynb",
        setup,
        "# 0 · Preface\n\nThe *aardvark* is for the search.",
        cell("explore()", {"text/html": maps._repr_html_(), "text/plain": "Explorer"}),
        *two_outputs,
    )
    save(
        folder / "chapters" / "03_attention.ipynb",
        setup,
        ALL_SORTS,
        *FOLDED,
        cell(f"# lib/heed/scores.py\n{EIGHTY}\ndef score():\n    return 1"),
        cell("draw()", {"image/png": PIXELS, "text/plain": "<Figure>"}, alt="A grey bar, wide and low"),
        cell("table()", {"text/html": "<table><tr>" + "<td>0.123</td>" * 40 + "</tr></table>"}),
        EXERCISE,
        cell(
            f"{EIGHTY}\ncheck.score(score)", "○ Not started: fill in the function above\n", tags=["exercise"]
        ),
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
    for notebook in notebooks(chapters):
        name = notebook.relative_to(chapters.parent).with_suffix(".html").as_posix()
        found[name] = faults(browser, html / name, written(notebook))
    return {name: sentences for name, sentences in found.items() if sentences}


def test_every_page_of_the_book_is_sound(browser, book):
    assert faults_of_edition(browser, ROOT / "chapters", book) == {}


def test_every_page_of_a_small_book_is_sound(browser, small):
    assert written(small / "chapters" / "03_attention.ipynb") == {
        "formulas": 6,
        "figures": 2,
        "answers": 2,
        "folds": 8,
    }
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
    "a figure left out": ("<img ", "<p ", "2 figures were written, 0 are seen"),
    "no alternative text": (ALT, "", ".png has no alternative text"),
    "a file's name for alternative text": (ALT, 'alt="FIGURE"', ".png has no alternative text"),
    "an answer that does not fold": ("<details><summary>", "<div>", "2 answers were written, 1 are seen"),
    "a fold that stands open": (
        '<details class="fold',
        '<details open class="fold',
        "a fold stands open: check: loop",
    ),
    "an output left open": ('<details class="fold hide-output"', "<div", "8 folds were written, 5 are seen"),
    "a fold without a name": (">Show the figure<", "> <", "a fold has no name"),
    "a fold that hides nothing": (
        "</summary>",
        "</summary></details>",
        "a fold hides nothing: Show the output",
    ),
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
        for _ in range(5):  # the browser writes down what is chosen when it has time
            browser.open(page)
            found = browser.ask("document.documentElement.dataset.theme")
            if found == theme:
                break
        assert found == theme


def test_every_code_cell_has_a_copy_button_that_works(browser, small):
    browser.open(small / "html" / "chapters" / "03_attention.html", width=1280)
    assert browser.ask("document.querySelectorAll('div.cell_input').length") == 10
    assert browser.ask("document.querySelectorAll('div.cell_input button.copybtn').length") == 10
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
    assert text.index("<h1>") < text.index("Set-up") < text.index('class="cell tag_mirrored')
    assert str(small) not in text


# --- What is folded -----------------------------------------------------------------------------------------


def test_the_line_of_a_fold_says_what_is_behind_it(browser, small):
    browser.open(small / "html" / "chapters" / "03_attention.html")
    assert (
        browser.ask("[...document.querySelectorAll('details.fold > summary')].map(e => e.innerText)") == LINES
    )
    assert [
        line for line in LINES if line in browser.ask("document.querySelector('article').innerText")
    ] == LINES
    assert "three of ten" not in browser.ask("document.querySelector('article').innerText")


@pytest.mark.parametrize("line", ["Show the output", "Show the figure", "lib/heed/scores.py · one, Two"])
def test_the_keyboard_opens_a_fold(browser, small, line):
    browser.open(small / "html" / "chapters" / "03_attention.html")
    find = f"[...document.querySelectorAll('details.fold')].find(e => e.innerText.startsWith('{line}'))"
    browser.ask(f"window.fold = {find}; fold.querySelector('summary').focus()")
    inside = "[...fold.children].slice(1).map(each => [each.checkVisibility(), each.innerText.trim()])"
    assert not any(visible for visible, _ in browser.ask(inside))
    browser.press("Enter")
    assert browser.ask("fold.open") and all(visible for visible, _ in browser.ask(inside))
    words = {
        "Show the output": "three of ten",
        "lib/heed/scores.py · one, Two": "From the library: lib/heed/scores.py",
    }
    assert browser.ask(inside)[0][1] == words.get(line, "")
    images = browser.ask(
        "[...fold.querySelectorAll('img')].map(image => image.getBoundingClientRect().width)"
    )
    assert bool(images) == (line == "Show the figure") and all(width >= 50 for width in images)


def test_a_fold_can_be_read_by_night(browser, small):
    page = small / "html" / "chapters" / "03_attention.html"
    for dark in (False, True):
        browser.open(page, dark=dark)
        paint = (
            "[document.body, ...document.querySelectorAll('details.fold > summary')].map(getComputedStyle)"
        )
        ground, *lines = browser.ask(f"{paint}.map((s, i) => i ? s.color : s.backgroundColor)")
        assert min(contrast(ground, line) for line in lines) >= 4.5


def contrast(a, b):
    """The contrast of two colours `rgb(r, g, b)`, as accessibility guidelines define it: from 1 to 21."""
    brightness = []
    for colour in (a, b):
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        brightness.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05)
    return max(brightness) / min(brightness)


# --- How wide a page is -------------------------------------------------------------------------------------

SCROLLING = """
(() => {
  document.querySelectorAll("details").forEach(details => { details.open = true; });
  const cells = [...document.querySelectorAll("article pre")];
  return cells.filter(each => each.scrollWidth > each.clientWidth).map(each => each.textContent.slice(0, 40));
})()
"""
WIDER = "html { --pst-sidebar-secondary: 15rem; } .bd-sidebar-primary { flex-basis: 20%; }"
WIDER += " .bd-article div.highlight pre { font-size: 0.84rem; }"


@pytest.mark.parametrize("width", [1280, 1440])
def test_eighty_columns_of_code_do_not_scroll(browser, small, width):
    assert len(EIGHTY) == 80
    page = small / "html" / "chapters" / "03_attention.html"
    browser.open(page, width=width)
    assert (
        browser.ask("[...document.querySelectorAll('pre')].filter(e => /1234/.test(e.textContent)).length")
        == 6
    )
    assert browser.ask(SCROLLING) == []
    browser.ask("document.querySelector('pre').append('x'.repeat(100))")
    assert len(browser.ask(SCROLLING)) == 1


def test_wider_side_bars_would_make_eighty_columns_scroll(browser, small):
    browser.open(small / "html" / "chapters" / "03_attention.html", width=1280)
    browser.ask("document.body.append(document.createElement('style'))")
    browser.ask(f"document.body.lastChild.textContent = '{WIDER}'")
    assert browser.ask(SCROLLING)


@pytest.mark.parametrize("width", [1280, 1440, 1920])
def test_a_line_of_text_has_about_eighty_letters(browser, small, width):
    browser.open(small / "html" / "chapters" / "03_attention.html", width=width)
    letters = """(() => {
      const text = document.createElement("p");
      text.textContent = "attention is what a network looks at while it writes a word, and ".repeat(20);
      document.querySelector("article section").append(text);
      const lines = text.getBoundingClientRect().height / parseFloat(getComputedStyle(text).lineHeight);
      return text.textContent.length / Math.round(lines);
    })()"""
    assert 65 <= browser.ask(letters) <= 90


# --- The opening page ---------------------------------------------------------------------------------------

LISTED = """
[...document.querySelectorAll("article table tbody tr")].map(line => [...line.children]).filter(
  fields => fields.length == 4
).map(([number, title, leaves, time]) => {
  const link = title.querySelector("a"), page = link && link.getAttribute("href");
  return [number.innerText, title.innerText, page, leaves.innerText, time.innerText];
})
"""
LOOKS = "document.querySelector('.heed-seen + p').innerText"


def explorer_faults(browser, page, dark=False):
    """What is wrong with the explorer of a page: it must answer to a pointer and to a click, by itself."""
    browser.open(page, width=1280, dark=dark)
    if not browser.ask("!!document.querySelector('.heed-explorer button')"):
        return ["the explorer has no buttons"]
    said = [browser.ask(LOOKS)]
    browser.ask("document.querySelector('.heed-explorer').scrollIntoView()")
    box = "document.querySelector('.heed-explorer tr:nth-child(3) th').getBoundingClientRect()"
    at = browser.ask(f"(() => {{const box = {box}; return {{x: box.x + 5, y: box.y + 5}}}})()")
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", **at)
    said.append(browser.ask(LOOKS))
    browser.ask("document.querySelectorAll('.heed-choice')[2].querySelectorAll('button')[1].click()")
    said.append(browser.ask(LOOKS))
    paint = "[document.body, document.querySelector('.heed-explorer')].map(getComputedStyle)"
    ground, ink = browser.ask(f"{paint}.map((s, i) => i ? s.color : s.backgroundColor)")
    return [
        *["the explorer does not answer"] * (len(set(said)) < 3),
        *["the explorer cannot be read"] * (contrast(ground, ink) < 4.5),
        *(f"console: {error}" for error in browser.errors()),
        *(f"asks the network for {url}" for url in browser.requests()),
    ]


@pytest.mark.parametrize("dark", [False, True], ids=["day", "night"])
def test_the_explorer_answers_on_the_opening_page(browser, small, dark):
    assert explorer_faults(browser, small / "html" / "index.html", dark) == []


@pytest.mark.parametrize(
    "old, new, sentence",
    {
        "its script is gone": ("<script>// The", '<script type="text/plain">// The', "has no buttons"),
        "nobody listens": ("onmouseenter", "onnothing", "does not answer"),
        "always dark ink": (r"color: rgb(var(--ink))", "color: #223", "cannot be read"),
        "only a table": ('class="heed-explorer"', 'class="heed-table"', "has no buttons"),
    }.values(),
)
def test_an_explorer_that_does_not_work_is_found(browser, small, old, new, sentence):
    text = (small / "html" / "index.html").read_text(encoding="utf-8")
    assert old in text
    page = small / "html" / "sabotaged.html"
    page.write_text(text.replace(old, new), encoding="utf-8")
    found = explorer_faults(browser, page, dark=True)
    page.unlink()
    assert any(sentence in each for each in found), found


# --- Movers -------------------------------------------------------------------------------------------------

MOVERS = """[...document.querySelectorAll(".heed-mover")].map(mover => ({
  picture: mover.closest(".cell_output").querySelector("img").getBoundingClientRect().height,
  mover: mover.getBoundingClientRect().height,
  says: mover.querySelector(".heed-words")?.textContent,
}))"""


def test_a_mover_takes_the_place_of_its_picture_also_behind_a_fold(browser, small):
    page = small / "html" / "chapters" / "00_preface.html"
    browser.open(page)
    browser.ask("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    browser.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    seen = browser.ask(MOVERS)
    assert len(seen) == 2 and all(each["picture"] == 0 and each["mover"] > 200 for each in seen)
    slider = "document.querySelectorAll('.heed-mover')[1].querySelector('input')"
    browser.ask(f"{slider}.value = 0.1; {slider}.oninput()")
    first, second = browser.ask(MOVERS)
    assert "a cut for A, none for B" in first["says"] and "a cut for B, none for A" in second["says"]
    widths = "[...document.querySelectorAll('.heed-mover svg')].map(svg => svg.getBoundingClientRect().width)"
    assert all(300 < width <= 390 for width in browser.ask(widths))
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert all(each["picture"] > 0 and each["mover"] == 0 for each in browser.ask(MOVERS))
    browser.call("Emulation.setEmulatedMedia", media="")


def test_the_picture_stays_where_no_script_runs(browser, small):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(small / "html" / "chapters" / "00_preface.html")
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    first, _ = browser.ask(MOVERS)
    assert first["picture"] > 0 and first["mover"] == 0


def test_a_mover_that_does_not_start_is_found(browser, small):
    page = small / "html" / "chapters" / "00_preface.html"
    text, planted = page.read_text(encoding="utf-8"), page.with_name("sabotaged.html")
    assert "mover.paint(" in text
    planted.write_text(text.replace("mover.paint(", "nosuch("), encoding="utf-8")
    found = faults(browser, planted)
    planted.unlink()
    assert any("console: ReferenceError" in each for each in found), found


LONG = "45 minutes to read, 2 hours of exercises"


def test_the_opening_page_lists_written_and_planned_chapters(browser, small):
    browser.open(small / "html" / "index.html", width=1280)
    assert browser.ask(LISTED) == [
        ["0", "Before all", "chapters/00_preface.html", "how to read", "12 minutes"],
        ["3", "Attention", "chapters/03_attention.html", "a look back", LONG],
        ["4", "Scores (planned)", None, "three of them", ""],
    ]
    start = "[...document.querySelectorAll('#where-to-start li')].map(e => e.innerText)"
    assert browser.ask(start) == [f"You know recurrent networks: Attention, a look back ({LONG})"]
    assert faults(browser, small / "html" / "index.html", {"figures": 1}) == []
    assert browser.ask("document.querySelector('article img').alt") == "A grey bar on the cover"
    assert "chapter 3: a bar." in browser.ask("document.querySelector('article').innerText")


def test_the_opening_page_of_the_book_leads_to_every_chapter(browser, book):
    browser.open(book / "index.html", width=1280)
    listed, rows = browser.ask(LISTED), opening.table(ROOT / "chapters")
    assert [int(number) for number, *_ in listed] == list(rows) == list(range(18))
    pages = [f"chapters/{path.stem}.html" for path in opening.written(ROOT / "chapters")]
    assert [page for _, _, page, _, _ in listed if page] == pages
    assert all((book / page).exists() for page in pages)
    assert all("(planned)" in title for _, title, page, _, _ in listed if not page)
    assert all(leaves for _, _, _, leaves, _ in listed)
    times = [row["time"] for row in rows.values() if row["source"]]
    assert [time for _, _, page, _, time in listed if page] == times
    assert browser.ask("document.querySelectorAll('#where-to-start li').length") == len(opening.STARTS)
    assert faults(browser, book / "index.html", {"figures": 1}) == []
    assert explorer_faults(browser, book / "index.html") == []
    first = browser.ask("document.querySelector('#where-to-start li a').getAttribute('href')")
    aside = browser.ask("document.querySelector('.bd-links li a').getAttribute('href')")
    assert {link.split("#")[0] for link in (first, aside)} == {"chapters/00_tour.html"}


def test_the_opening_page_of_the_book_weighs_less_than_a_megabyte(browser, book):
    files = browser.loaded(book / "index.html")
    assert sum(files.values()) < 1e6, files
    assert (book / "_static" / "heed-model.js").stat().st_size > 1e6  # what the first key loads


def test_a_book_without_a_readme_opens_with_what_it_has(tmp_path):
    save(tmp_path / "chapters" / "02_two.ipynb", "# 2 · Two of *them*\n\n# 3 · not this")
    assert opening.table(tmp_path / "chapters") == {
        2: {"source": "chapters/02_two.ipynb", "title": "Two of *them*", "leaves": "", "time": ""}
    }
    page = opening.page(tmp_path / "chapters")
    assert "Where to start" not in page and "Look inside" not in page and "<!--" not in page


def test_the_column_of_times_may_be_missing_or_hold_minutes(tmp_path):
    save(tmp_path / "chapters" / "03_attention.ipynb", "# Attention")
    for head, field, said in (("| minutes |", "| 45 |", "45 minutes"), ("|", "|", "")):
        rows = ["| | chapter | what it leaves you with " + head, "|---|", "| 03 | [A](a.ipynb) | b " + field]
        (tmp_path / "README.md").write_text("\n".join(rows), encoding="utf-8")
        assert opening.table(tmp_path / "chapters") == {
            3: {"source": "chapters/03_attention.ipynb", "title": "A", "leaves": "b", "time": said}
        }


def test_a_row_with_a_field_too_few_is_refused(tmp_path):
    save(tmp_path / "chapters" / "03_attention.ipynb", "# Attention")
    (tmp_path / "README.md").write_text(README.replace(" a look back |", ""), encoding="utf-8")
    with pytest.raises(ValueError):
        opening.table(tmp_path / "chapters")


def test_only_chapters_that_exist_are_in_the_contents_in_order(small):
    text = (small / "html" / "index.html").read_text(encoding="utf-8")
    beside = text[text.index("bd-sidebar-primary") : text.index("<article")]
    names = ("chapters/00_preface", "chapters/03_attention", "solutions", "keys")
    found = re.findall(r'class="reference internal" href="([^"]*)"', beside)
    assert found == [f"{name}.html" for name in names]


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
