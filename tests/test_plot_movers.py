"""Figures that a reader moves: what is written, the still picture, and what a browser shows."""

import json
import math
import re
from html import unescape
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heed import plot
from heed.plot.movers import mover
from heed.plot.movers.beam_tree import Node, _grown, search
from heed.plot.movers.completing import course
from heed.plot.movers.dials import hands
from heed.plot.movers.mask_painter import layers, masked
from heed.plot.movers.one_mixture import cut
from heed.plot.movers.saturation import power, softmax
from heed.plot.style import luminance

MINUS = "\N{MINUS SIGN}"
NASTY, TOKEN = '</script><img src=x onerror="alert(1)">', "</b>&"
CODE = {
    path.name: path.read_text(encoding="utf-8") for path in mover.Path(mover.__file__).parent.glob("*.*s*")
}
TABLE = {
    "BOS": {"is": 0.5, "sleeps": 0.4, "asleep": 0.1},
    "is": {"asleep": 0.6, "EOS": 0.3, "sleeps": 0.1},
    "sleeps": {"EOS": 0.9, "asleep": 0.1},
    "asleep": {"EOS": 1.0},
}


def draws(n=6, d=512):
    """A query and n keys with entries ±1."""
    coin = np.random.default_rng(3)
    return coin.choice([-1, 1], d), coin.choice([-1, 1], (n, d))


def tree(word="BOS"):
    """All sentences of the table: token -> (log P, what follows)."""
    return {y: (math.log(p), tree(y)) for y, p in TABLE.get(word, {}).items()}


SCORES = np.random.default_rng(4).normal(size=(5, 5)).round(2)
SCORES[3, 0] = -9  # a weight of 0.00 that is not hidden
TOKENS = ["^", "o", "n", "e", "␣"]
PICTURES = np.array(
    [
        [1 if i in (4, 5) or j in (4, 5) else -1 for i in range(10) for j in range(10)],
        [
            1 if 16 < (i - 4.5) ** 2 + (j - 4.5) ** 2 < 40 or i + j < 3 else -1
            for i in range(10)
            for j in range(10)
        ],
        [1 if i % 4 < 2 else -1 for i in range(10) for j in range(10)],
    ]
)
ORDER = [37 * i % 100 for i in range(100)]
SIX = {
    "saturation": lambda: plot.saturation(*draws()),
    "one_mixture": plot.one_mixture,
    "dials": plot.dials,
    "mask_painter": lambda: plot.mask_painter(TOKENS, SCORES),
    "beam_tree": lambda: plot.beam_tree(tree()),
    "completing": lambda: plot.completing(PICTURES, ["cross", "ring", "bars"], 1, ORDER),
}


def told(number, decimals=2):
    """A number as the movers write it."""
    text = f"{number:.{decimals}f}"
    return (text.removeprefix("-") if float(text) == 0 else text).replace("-", MINUS)


# --- What is written --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SIX)
def test_twice_gives_the_same_and_nothing_has_an_id(name):
    html = SIX[name]().html()
    assert html == SIX[name]().html() and len(html.encode()) < 20_000
    assert not re.search(r'\bid="|<svg|NaN', html)
    assert repr(SIX[name]()).startswith(f"Mover('{name}': '")


@pytest.mark.parametrize("name", SIX)
def test_without_its_script_the_second_output_is_empty(name):
    bare = re.sub(r"<script>.*</script>", "", SIX[name]().html(), flags=re.DOTALL)
    assert re.sub(r"<[^<>]*>", "", bare).strip() == "" and "<style" not in bare
    assert SIX[name]().html().count("</script>") == 1


def test_nothing_is_fetched():
    code = re.sub("// .*", "", "".join(CODE.values())).replace('"http://www.w3.org/2000/svg"', "")
    assert len(CODE) >= 7
    assert not re.search(r"https?:|//\w|@import|url\(|fetch|XMLHttp", code)


def test_the_scripts_stay_small():
    assert sum(text.count("\n") for name, text in CODE.items() if name.endswith(".js")) < 600


def test_words_are_escaped():
    moved = plot.mask_painter([TOKEN, "b"], np.zeros((2, 2)), title=NASTY)
    assert moved.html().count("</script>") == 1 and "<img" not in moved.html()
    assert json.loads(unescape(re.search(r'data-given="([^"]*)"', moved.html())[1]))["tokens"][0] == TOKEN


def test_a_cell_shows_the_picture_and_then_the_mover(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda what, **more: shown.append((what, more)))
    moved = plot.one_mixture()
    moved._ipython_display_()
    (figure, _), (data, more) = shown
    assert figure is moved.figure and more == {"raw": True}
    assert data == {"text/html": moved.html(), "text/plain": repr(moved)}


WRONG = {
    "one key": (plot.saturation, (np.ones(4), np.ones((1, 4))), r"they have \(4,\) and \(1, 4\)"),
    "turned": (plot.saturation, (np.ones(4), np.ones((4, 3))), r"they have \(4,\) and \(4, 3\)"),
    "nan": (plot.saturation, (np.ones(4), np.full((3, 4), np.nan)), "must be finite"),
    "no weight": (plot.one_mixture, (0.0, 0.5), r"alpha=0\.0 must be a multiple of 0\.05 from 0\.1 to 0\.85"),
    "between": (plot.one_mixture, (0.5, 0.33), r"beta=0\.33 must be a multiple"),
    "too much": (plot.one_mixture, (0.6, 0.4), r"alpha=0\.6 and beta=0\.4 are more than 0\.95"),
    "odd": (plot.dials, (7,), "d=7 is odd"),
    "wide": (plot.dials, (512,), "d=512 must be a whole number from 2 to 16"),
    "far": (plot.dials, (8, 61), "position=61 must be a whole number from 0 to 60"),
    "half": (plot.dials, (8, 5, 1.5), r"shift=1\.5 must be a whole number"),
    "one token": (plot.mask_painter, (["a"], [[0]]), "2 to 10 tokens, and there are 1"),
    "few scores": (plot.mask_painter, (["a", "b"], np.zeros((2, 3))), r"2 × 2 finite scores; .* \(2, 3\)"),
    "numbers": (
        plot.mask_painter,
        (["a", "b"], np.zeros((2, 2)), np.ones((2, 2))),
        "bool, 2 × 2, .* float64",
    ),
    "no tree": (plot.beam_tree, ({},), "1 to 16 sentences, and this one has 0"),
    "a large tree": (plot.beam_tree, ({f"t{i}": (-3.0, {}) for i in range(17)},), "has 17"),
    "a probability": (
        plot.beam_tree,
        ({"a": (0.5, {})},),
        "log P of 'a' is 0.5; it must be finite and at most 0",
    ),
    "too likely": (plot.beam_tree, ({"a": (-0.1, {}), "b": (-0.1, {})},), r"\['a', 'b'\] sum to 1\.81"),
    "not a picture": (
        plot.completing,
        (np.zeros((1, 16)), ["a"], 0, range(16)),
        "1 and −1 need as many names",
    ),
    "few names": (plot.completing, (np.ones((2, 16)), ["a"], 0, range(16)), r"1 names, shape \(2, 16\)"),
    "not square": (
        plot.completing,
        (np.ones((1, 20)), ["a"], 0, range(20)),
        "pictures of 20 pixels, 20 of them",
    ),
    "not each": (plot.completing, (np.ones((1, 16)), ["a"], 0, [0] * 16), "and each pixel once"),
    "no such picture": (
        plot.completing,
        (np.ones((1, 16)), ["a"], 1, range(16)),
        "start=1 must be a whole number",
    ),
    "a wide beam": (plot.beam_tree, (tree(), 5), "width=5 must be a whole number from 1 to 4"),
}


@pytest.mark.parametrize(("function", "words", "sentence"), WRONG.values(), ids=WRONG.keys())
def test_what_does_not_fit_is_refused(function, words, sentence):
    with pytest.raises(ValueError, match=sentence):
        function(*words)


def test_tensors_may_carry_gradients():
    q, k = torch.randn(8), torch.randn(3, 8, requires_grad=True)
    assert len(plot.saturation(q, k).given["scores"]) == 4
    assert plot.mask_painter(["a", "b"], (k @ k.T)[:2, :2], torch.ones(2, 2).tril().bool()).given["mask"] == [
        [1, 0], [1, 1],
    ]  # fmt: skip


# --- The still picture ------------------------------------------------------------------------------------


def test_the_picture_of_saturation():
    moved, (q, k) = plot.saturation(*draws()), draws()
    s = (k @ q).astype(float)
    for ax, scores in zip(moved.figure.axes, (s, s / 512**0.5), strict=True):
        w = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        assert np.allclose([bar.get_height() for bar in ax.patches], w)
        slope = np.abs(np.diag(w) - np.outer(w, w)).max()
        assert power(slope) in ax.get_title() or slope < 1e-9
    assert moved.title == moved.figure.get_suptitle()


@pytest.mark.parametrize(
    ("number", "words"),
    [(0.25, "0.25"), (0.0031, "0.0031"), (2.14e-7, "2.1·10⁻⁷"), (9.6e-12, "9.6·10⁻¹²"), (0, "0")],
)
def test_small_numbers_in_writing(number, words):
    assert power(number) == words


def test_the_derivative_keeps_its_digits_where_one_weight_is_nearly_one():
    scores = np.array([60.0, 0.0, -5.0])
    assert math.isclose(softmax(scores)[1], math.exp(-60), rel_tol=1e-2)


def test_the_picture_of_one_mixture():
    moved = plot.one_mixture(0.6, 0.3)
    for who, ax in enumerate(moved.figure.axes):
        places = {
            (round(float(line.get_xdata()[0]), 3), line.get_marker())
            for line in ax.lines
            if len(line.get_xdata()) == 1
        }
        sevens = {0: {0.9, 0.6}, 1: {0.9, 0.3}}[who]
        assert places == {(x, "o" if x in sevens else "s") for x in (0, 0.3, 0.6, 0.9)}
    assert [ax.get_title(loc="left") for ax in moved.figure.axes] == [
        "read-out A: a cut at 0.45",
        "read-out B: no cut",
    ]
    assert (cut(0.6, 0.3, 0), cut(0.6, 0.3, 1)) == (pytest.approx(0.45), None)
    assert (cut(0.2, 0.5, 0), cut(0.2, 0.5, 1)) == (None, pytest.approx(0.35))
    assert cut(0.3, 0.3, 0) is None and cut(0.3, 0.3, 1) is None


def test_the_picture_of_completing():
    moved = plot.completing(PICTURES, ["cross", "ring", "bars"], 1, ORDER)
    *frames, curve = moved.figure.axes
    assert [ax.get_title() for ax in frames] == [
        "0 updated",
        "25 updated",
        "50 updated",
        "75 updated",
        "100 updated",
    ]
    first, last = (ax.images[0].get_array().reshape(-1) for ax in (frames[0], frames[-1]))
    assert (first[:50] == PICTURES[1][:50]).all() and (first[50:] == 0).all()
    assert (last == PICTURES[1]).all()
    energies = curve.lines[0].get_ydata()
    assert len(energies) == 101 and (np.diff(energies) <= 0).all() and energies[0] > energies[-1]


def test_the_course_of_a_state_on_paper():
    states, energies = course(np.array([[1, 1, -1, -1]]), np.array([1, 0, 0, 1]), [1, 2, 3, 0])
    assert [state.tolist() for state in states] == [
        [1, 0, 0, 1], [1, 0, 0, 1], [1, 0, 0, 1], [1, 0, 0, -1], [1, 0, 0, -1],
    ]  # fmt: skip
    assert energies == [1, 1, 1, -1, -1]


def test_the_picture_of_dials():
    moved = plot.dials(8, 23, 4)
    *clocks, curve = moved.figure.axes
    for i, ax in enumerate(clocks):
        for line, pos in zip(ax.lines[1:], (27, 23), strict=True):
            angle = pos / 10_000 ** (2 * i / 8)
            assert np.allclose(line.get_xydata()[1], [0.92 * math.sin(angle), 0.92 * math.cos(angle)])
    assert math.isclose(curve.lines[1].get_ydata()[0], (hands(2, 8) * hands(6, 8)).sum())


def test_the_picture_of_a_mask():
    mask = np.tri(5, dtype=bool)
    mask[0, 0], mask[1, 3] = False, True
    moved = plot.mask_painter(TOKENS, SCORES, mask)
    ax = moved.figure.axes[0]
    drawn = ax.collections[-1].get_array().reshape(5, 5)
    for i in range(5):
        e = np.exp(SCORES[i]) * mask[i]
        assert np.allclose(drawn[i], e / e.sum() if i else 0)
    hidden = {(round(p.get_y() + 0.5), round(p.get_x() + 0.5)) for p in ax.patches if p.get_fill()}
    leaks = {(round(p.get_y() + 0.47), round(p.get_x() + 0.47)) for p in ax.patches if not p.get_fill()}
    assert hidden == {(i, j) for i, j in product(range(5), repeat=2) if not mask[i, j]}
    assert leaks == {(1, 3)}
    table = moved.figure.axes[1]
    ways = {(round(t.get_position()[1]), round(t.get_position()[0])): t.get_text() for t in table.texts}
    assert ways[1, 3] == "1" and ways[1, 2] == "2" and ways[2, 3] == "2" and ways[0, 0] == "·"
    passed = {(round(p.get_y() + 0.47), round(p.get_x() + 0.47)) for p in table.patches}
    assert passed == {(1, 2), (1, 3), (2, 3)}


def test_two_layers_are_the_square_of_one_that_keeps_its_input():
    rng = np.random.default_rng(0)
    for n in (2, 5, 7):
        mask = rng.random((n, n)) < 0.3
        weights = torch.rand(n, n) * torch.tensor(mask) + torch.eye(n)
        assert ((weights @ weights > 0).numpy() == (layers(mask) > 0)).all()
        assert ((layers(mask) == 1) == mask).all()
        assert (layers(mask).diagonal() != 2).all()  # its own token an output knows without a detour


def test_the_picture_of_a_beam():
    moved = plot.beam_tree(tree(), 2)
    title = moved.figure.axes[0].get_title()
    assert (
        title
        == f"a beam of 2: sleeps EOS, log P = {MINUS}1.02\ngreedy search: is asleep EOS, log P = {MINUS}1.20"
    )
    assert moved.title == "A beam of 2 finds a likelier sentence than greedy search"
    assert plot.beam_tree(tree(), 1).title == "Greedy search is a beam of 1"


def by_hand(table, width, said=()):
    """A beam search as chapter 13 writes it: the answer and its log P."""
    live, ended = [(0.0, (), table)], []
    while live:
        longer = [(p + q, (*said, y), rest) for p, said, follow in live for y, (q, rest) in follow.items()]
        longer = sorted(longer, key=lambda h: h[0], reverse=True)[:width]
        ended += [(p, said) for p, said, rest in longer if not rest]
        live = [h for h in longer if h[2]]
    return max(ended, key=lambda h: h[0])


def random_tree(random, depth=3):
    """A tree of at most 16 sentences."""
    n = int(random.integers(1, 4)) if depth else 0
    p = random.dirichlet(np.ones(n)) if n else []
    return {
        f"{'abc'[i]}{depth}": (
            math.log(p[i]),
            random_tree(random, depth - 1 - int(random.integers(0, 2) * (depth > 1))),
        )
        for i in range(n)
    }


@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_the_search_is_that_of_the_chapter(seed, width):
    table, root = random_tree(np.random.default_rng(seed)), Node("BOS")
    list(_grown(root, table))
    _, answer = search(root, width)
    log_p, said = by_hand(table, width)
    assert tuple(node.token for node in answer.path()) == said and math.isclose(answer.log_p, log_p)


# --- What a browser shows ---------------------------------------------------------------------------------

WORDS = "document.querySelector('.heed-words').textContent"
KEYS = {
    "Tab": 9,
    "Enter": 13,
    " ": 32,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}


def press(browser, *keys):
    for key in keys:
        text = {"text": "\r" if key == "Enter" else " "} if key in ("Enter", " ") else {}
        for kind, more in (("keyDown", text), ("keyUp", {})):
            browser.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=KEYS[key],
                **more,
            )


def slide(browser, *values):
    """Put the sliders where they are wanted, one after the other."""
    browser.ask(
        f"{json.dumps(values)}.forEach((value, i) => {{ const input = "
        "document.querySelectorAll('.heed-mover input[type=range]')[i]; input.value = value; "
        "input.dispatchEvent(new Event('input')); })"
    )


def texts(browser, selector):
    return browser.ask(f"[...document.querySelectorAll('{selector}')].map(e => e.textContent)")


def middle(browser, script):
    """The middle of an element on the screen."""
    return browser.ask(
        f"(() => {{ const e = {script}; e.scrollIntoView({{block: 'center'}}); "
        "const b = e.getBoundingClientRect(); return {x: b.x + b.width / 2, y: b.y + b.height / 2}; })()"
    )


def mouse(browser, kind, at):
    held = {"button": "left", "buttons": 1 - (kind == "mouseReleased"), "clickCount": 1}
    browser.call("Input.dispatchMouseEvent", type=kind, **at, **held)


def shown(browser, script):
    return browser.ask(
        f"(() => {{ const e = {script}; return e ? e.getBoundingClientRect().height : 0; }})()"
    )


@pytest.mark.parametrize("name", SIX)
def test_the_picture_gives_way_where_scripts_run_and_comes_back_on_paper(browser, tmp_path, name):
    page = SIX[name]().save(tmp_path / "page.html")
    image, body = (
        "document.querySelector('img')",
        "document.querySelector('.heed-mover > :is(svg, .heed-grid)')",
    )
    browser.open(page)
    assert shown(browser, image) == 0 and shown(browser, body) > 100
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert shown(browser, image) > 100 and shown(browser, body) == 0
    browser.call("Emulation.setEmulatedMedia", media="")
    assert browser.errors() == [] and browser.requests() == []
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(page)
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert shown(browser, image) > 100 and shown(browser, "document.querySelector('.heed-mover')") == 0


OUT = """[...document.querySelectorAll(".heed-mover :is(text, circle, rect, line, button, span, input)")]
  .map(each => [each.textContent || each.tagName, each.getBoundingClientRect()])
  .filter(([, box]) => box.left < 0 || box.right > innerWidth).map(([words]) => words)"""
CLASH = """(() => {
  const texts = [...document.querySelectorAll("svg text")];
  const boxes = texts.map(each => [each.textContent, each.getBoundingClientRect()]);
  return boxes.flatMap(([a, p], i) => boxes.slice(i + 1).filter(([b, q]) => p.left + 1 < q.right &&
    q.left + 1 < p.right && p.top + 4 < q.bottom && q.top + 4 < p.bottom).map(([b]) => `${a} on ${b}`));
})()"""
WIDE = {
    "sixteen": lambda: plot.dials(16),
    "itself": lambda: plot.saturation(draws()[0], np.stack([draws()[0], *draws()[1][:5]])),
}
WIDE["words"] = lambda: plot.mask_painter(["Geschwindigkeit", "ist", "keine", "Hexerei"], SCORES[:4, :4])


@pytest.mark.parametrize("name", SIX | WIDE)
@pytest.mark.parametrize("width", [320, 360, 390, 1280])
def test_it_fits_every_window_and_nothing_is_cut(browser, tmp_path, name, width):
    browser.open((SIX | WIDE)[name]().save(tmp_path / "page.html"), width=width)
    assert browser.ask("document.documentElement.scrollWidth") <= width
    ends = browser.ask(
        "[...document.querySelectorAll('input[type=range]')].map(e => [e.min, e.value, e.max].map(Number))"
    )
    for values in product(*ends):
        slide(browser, *values)
        assert (browser.ask(OUT), browser.ask(CLASH)) == ([], []), values
    assert browser.errors() == []


@pytest.mark.parametrize("name", SIX)
def test_it_follows_the_night_and_the_choice_of_the_page(browser, tmp_path, name):
    page, html = tmp_path / "page.html", SIX[name]().html()
    ink = "getComputedStyle(document.querySelector('.heed-mover')).color"
    for start, dark, expected in (
        ("<html><body>", False, "rgb(0, 0, 0)"),
        ("<html><body>", True, "rgb(255, 255, 255)"),
        ('<html data-theme="light"><body>', True, "rgb(0, 0, 0)"),
        ('<html data-theme="dark"><body>', False, "rgb(255, 255, 255)"),
        ('<html><body data-jp-theme-light="true">', True, "rgb(0, 0, 0)"),
        ('<html><body data-jp-theme-light="false">', False, "rgb(255, 255, 255)"),
    ):
        page.write_text(f"<!DOCTYPE html>{start}<meta charset=utf-8>{html}", encoding="utf-8")
        browser.open(page, dark=dark)
        assert browser.ask(ink) == expected, start


def test_letters_stand_out_by_day_and_by_night():
    limit = float(re.search(r"w\[j\] > (0\.\d+)", CODE["mask_painter.js"])[1])
    looks = re.findall(r"--paper: .*?color-scheme", CODE["kit.css"], re.DOTALL)
    assert len(looks) == 3
    for look in looks:
        colours = {name: value for name, value in re.findall(r"--(\w+): (#\w+)", look)}
        paper = colours["paper"]
        for name in ("ink", "soft", "blue", "orange", "green"):
            assert contrast(colours[name], paper) > 4.5, (name, look)
        assert contrast(colours["ink"], colours["hidden"]) > 4.5
        strong = np.array(re.search(r"--strong: ([\d ]+)", look)[1].split(), dtype=float) / 255
        white = np.array([int(paper[1:].ljust(6, paper[1])[i : i + 2], 16) for i in (0, 2, 4)]) / 255
        for w in np.linspace(0, 1, 201):
            ink = colours["on"] if w > limit else colours["ink"]
            assert contrast(ink, w * strong + (1 - w) * white) > 4.4, w


def contrast(a, b):
    bright = [luminance(colour) + 0.05 for colour in (a, b)]
    return max(bright) / min(bright)


def test_two_movers_on_a_page_leave_each_other_and_other_pictures_alone(browser, tmp_path):
    page, pixel = tmp_path / "two.html", "<img alt=other width=90 height=90>"
    one, other = plot.dials(8, 5, 3).html(), plot.dials(8, 7, 9).html()
    cell = '<div class="cell_output">{}</div>'.format
    page.write_text(f"<meta charset=utf-8>{cell(pixel)}{cell(one)}{cell(pixel + '<div>' + other + '</div>')}")
    browser.open(page)
    assert browser.ask("[...document.images].map(e => e.className)") == ["", "heed-still"]
    before = texts(browser, ".heed-words")
    slide(browser, 30)
    after = texts(browser, ".heed-words")
    assert before[0] != after[0] and before[1] == after[1] and "From position 7" in after[1]
    assert browser.errors() == []


def test_keys_stay_within_the_mover(browser, tmp_path):
    browser.open(plot.dials().save(tmp_path / "page.html"))
    browser.ask("window.heard = []; document.addEventListener('keydown', event => heard.push(event.key)); 0")
    press(browser, "Tab", "ArrowRight")
    assert browser.ask("heard") == ["Tab"] and texts(browser, ".heed-slider b") == ["6", "3"]
    assert browser.ask("document.activeElement.closest('label').textContent") == "position6"


def test_saturation_moves_as_numpy_says(browser, tmp_path):
    (q, k), widths = draws(), [2**i for i in range(10)]
    browser.open(plot.saturation(q, k).save(tmp_path / "page.html"), width=800)
    press(browser, "Tab", "Home")
    for scaled in (False, True):
        for d in widths:
            s = (k[:, :d] @ q[:d]) / (d**0.5 if scaled else 1)
            w, slope = softmax(s)
            assert texts(browser, ".heed-weight") == [told(each) for each in w]
            assert texts(browser, ".heed-slope") == [power(slope)]
            words = browser.ask(WORDS)
            assert f"At d = {d}," in words and f"standard deviation of {s.std(ddof=1):.1f}" in words
            assert f"weight is {w.max():.2f}" in words and (("saturated" in words) == (slope < 0.05))
            press(browser, "ArrowRight")
        press(browser, "Tab", " ")
        assert browser.ask("document.querySelector('[type=checkbox]').checked") != scaled
        browser.ask("document.querySelector('[type=range]').focus()")
        press(browser, "Home")
    assert browser.errors() == []


def test_one_mixture_moves_as_python_says(browser, tmp_path):
    browser.open(plot.one_mixture().save(tmp_path / "page.html"))
    weights = [i / 20 for i in range(2, 18)]
    for alpha, beta in product(weights[::3], weights[::2]):
        slide(browser, alpha, beta)
        alpha = min(alpha, round(0.95 - beta, 2))  # what one takes, the other loses
        assert texts(browser, ".heed-slider b") == [f"{alpha:.2f}", f"{beta:.2f}"]
        for who, name in enumerate("AB"):
            found = cut(alpha, beta, who)
            said = "no cut" if found is None else f"a cut at {f'{found:.3f}'.removesuffix('0')}"
            assert texts(browser, f".heed-{name}") == [f"Read-out {name}: {said}"]
        verdict = {0: "neither read-out", 1: "a cut for A, none for B", -1: "a cut for B, none for A"}
        assert verdict[(alpha > beta) - (alpha < beta)] in browser.ask(WORDS)


@pytest.mark.parametrize("finger", [False, True], ids=["mouse", "finger"])
def test_a_point_of_the_mixture_can_be_dragged(browser, tmp_path, finger):
    browser.open(plot.one_mixture(0.6, 0.3).save(tmp_path / "page.html"))
    browser.call("Emulation.setTouchEmulationEnabled", enabled=finger)
    at = middle(browser, "document.querySelectorAll('.heed-grip')[1].firstChild.nextSibling")  # 3ᴬ7ᴮ, β
    unit = browser.ask("document.querySelector('svg').getBoundingClientRect().width") - 68
    path = [{"x": at["x"] + unit * part, "y": at["y"]} for part in (0, 0.1, 0.25)]
    if finger:
        browser.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=path[:1])
        for place in path[1:]:
            browser.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=[place])
        browser.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    else:
        for kind, place in zip(("mousePressed", "mouseMoved", "mouseMoved"), path, strict=True):
            mouse(browser, kind, place)
        mouse(browser, "mouseReleased", path[-1])
        mouse(browser, "mouseMoved", path[0])  # no longer held
    browser.call("Emulation.setTouchEmulationEnabled", enabled=False)
    assert texts(browser, ".heed-slider b") == ["0.40", "0.55"]
    assert "a cut for B, none for A" in browser.ask(WORDS)


HARMS = {
    "lower half torn": lambda x, i: x if i < 50 else 0,
    "upper half torn": lambda x, i: 0 if i < 50 else x,
    "left half torn": lambda x, i: 0 if i % 10 < 5 else x,
    "a fifth turned": lambda x, i: x if i % 5 else -x,
    "dark for light": lambda x, i: -x,
}


def test_a_picture_is_completed_as_numpy_says(browser, tmp_path):
    names = ["cross", "ring", "bars"]
    browser.open(plot.completing(PICTURES, names, 1, ORDER).save(tmp_path / "page.html"))
    rows = "document.querySelectorAll('.heed-presets')"
    assert texts(browser, ".heed-presets button") == [*names, *HARMS]
    rest = []
    for (p, name), (h, harm) in product(enumerate(names), enumerate(HARMS.values())):
        for row, button in ((0, p), (1, h)):
            browser.ask(f"{rows}[{row}].querySelectorAll('button')[{button}].click()")
        x = np.array([harm(pixel, i) for i, pixel in enumerate(PICTURES[p])])
        states, energies = course(PICTURES, x, ORDER * 2)
        for asked in (0, 1, 60, 200):
            slide(browser, asked)
            words = browser.ask(WORDS)
            assert words.startswith(f"{asked} pixels updated: E = {told(energies[asked], 0)}")
            unknown = int((states[asked] == 0).sum())
            assert (f", and {unknown} pixels are not known." in words) == (unknown > 0)
            dark = browser.ask(
                "[...document.querySelectorAll('.heed-pixel')].map(e => e.getAttribute('fill'))"
            )
            shades = {1: "rgb(var(--strong))", -1: "var(--paper)", 0: "var(--hidden)"}
            assert dark == [shades[int(pixel)] for pixel in states[asked]]
        rest.append((name, h, words.split(". ", 1)[-1]))
    assert ("ring", 0, "At rest: the ring.") in rest and (
        "ring",
        4,
        "At rest: the negative of the ring.",
    ) in rest
    assert browser.ask("document.querySelectorAll('[aria-pressed=true]').length") == 2
    assert browser.errors() == []


@pytest.mark.parametrize("d", [2, 8, 16])
def test_dials_move_as_numpy_says(browser, tmp_path, d):
    browser.open(plot.dials(d).save(tmp_path / "page.html"))
    said = {}
    for pos, k in product((0, 17, 60), (0, 1, 24, 60)):
        slide(browser, pos, k)
        here, there = hands(pos, d), hands(pos + k, d)
        whole = (here * there).sum()
        assert texts(browser, ".heed-term") == [f"cos {told(term)}" for term in (here * there).sum(axis=1)]
        assert f"cosines, is {told(whole)}; it" in browser.ask(WORDS)
        said.setdefault(k, set()).add(told(whole))
    assert all(len(values) == 1 for values in said.values())
    ends = "['x1', 'y1', 'x2', 'y2'].map(end => Number(line.getAttribute(end)))"
    lines = browser.ask(f"[...document.querySelectorAll('svg line[stroke-linecap]')].map(line => {ends})")
    lines = np.array(lines).reshape(d // 2, 2, 4)  # there, here
    arrows = (lines[..., 2:] - lines[..., :2]) * [1, -1]
    arrows /= np.linalg.norm(arrows, axis=-1, keepdims=True)
    assert np.allclose(arrows, np.stack([there, here], axis=1), atol=1e-6)


def state_of_mask(browser):
    """The mask as it is painted, the numbers in its cells, and the cells that are outlined."""
    cells = browser.ask(
        "[...document.querySelectorAll('.heed-grid button')].map(cell => "
        "[cell.ariaPressed, cell.textContent, cell.classList.contains('heed-leak')])"
    )
    pressed, numbers, leaks = (np.array(part).reshape(5, 5) for part in zip(*cells, strict=True))
    return pressed == "true", numbers, leaks


def short(weight):
    """A weight as a cell shows it: .25, and 0 or 1 without decimals."""
    return f"{weight:.2f}".removesuffix(".00") if f"{weight:.2f}" in ("0.00", "1.00") else f"{weight:.2f}"[1:]


def agrees(browser, mask):
    """The grid shows this mask, its softmax, its leaks, and what each query sees."""
    painted, numbers, leaks = state_of_mask(browser)
    assert (painted == mask).all()
    w, pads = masked(SCORES, mask), np.array([token == "␣" for token in TOKENS])
    for i, j in product(range(5), repeat=2):
        expected = short(w[i, j]) if mask[i, j] else ""
        assert numbers[i, j] == expected
        assert leaks[i, j] == (mask[i, j] and not pads[i] and (j > i or pads[j]))
    sees = [" ".join(TOKENS[j] for j in range(5) if mask[i, j]) or "none" for i in range(5)]
    assert texts(browser, ".heed-note") == sees
    words = browser.ask(WORDS)
    assert words.startswith("Leaks: " if leaks.any() else "No leak")
    ways = layers(mask)
    assert texts(browser, ".heed-pair") == [["", "1", "2", "·"][way] for way in ways.flat]
    found = [not pads[i] and i != j and bool(ways[i, j]) and (j > i or pads[j]) for i, j in np.ndindex(5, 5)]
    shown_ = "[...document.querySelectorAll('.heed-pair')].map(e => e.classList.contains('heed-leak'))"
    assert browser.ask(shown_) == [bool(leak) for leak in found]
    passed = [k for k, leak in enumerate(found) if leak and ways.flat[k] == 2]
    assert ("Two layers pass on: " in words) == bool(passed)
    if passed:
        i, j = divmod(passed[0], 5)
        what = "padding" if pads[j] else "the future"
        assert f"output {i + 1} knows {what}, token {j + 1} ({TOKENS[j]})" in words
    nowhere = [str(i + 1) for i in range(5) if not mask[i].any()]
    assert (f"May look nowhere: query {', '.join(nowhere)};" in words) == bool(nowhere)


def test_a_mask_is_painted_by_keys_buttons_and_pointer(browser, tmp_path):
    browser.open(plot.mask_painter(TOKENS, SCORES).save(tmp_path / "page.html"))
    mask = np.tri(5, dtype=bool)
    mask[:, 4] = False
    agrees(browser, mask)
    press(browser, *["Tab"] * 6, " ")  # behind the five buttons, the first cell
    mask[0, 0] = False
    agrees(browser, mask)
    press(
        browser,
        "ArrowDown",
        "ArrowRight",
        "ArrowRight",
        "ArrowRight",
        "Enter",
        "ArrowRight",
        "ArrowRight",
        "ArrowUp",
    )
    mask[1, 3] = True
    agrees(browser, mask)
    assert "query 2 sees the future, key 4 (e)" in browser.ask(WORDS)
    assert browser.ask("document.activeElement.ariaLabel").startswith("query 1 ^, key 1 ^: hidden")
    assert browser.ask("document.querySelectorAll('.heed-grid button[tabindex=\"0\"]').length") == 1

    cell = "document.querySelectorAll('.heed-grid button')[{}]".format
    first, last = middle(browser, cell(2)), middle(browser, cell(4))
    between = {"x": (first["x"] + last["x"]) / 2, "y": first["y"]}
    for kind, place in (
        ("mousePressed", first),
        ("mouseMoved", between),
        ("mouseMoved", last),
        ("mouseReleased", last),
    ):
        mouse(browser, kind, place)
    mask[0, 2:] = True
    agrees(browser, mask)
    assert "query 1 sees padding, key 5 (␣)" in browser.ask(WORDS)
    mouse(browser, "mousePressed", first)
    mouse(browser, "mouseReleased", first)
    mask[0, 2] = False
    agrees(browser, mask)

    causal, pads = np.tri(5, dtype=bool), np.array([False] * 4 + [True])
    rules = {"all": causal | True, "causal": causal, "padding": ~pads | np.zeros((5, 1), dtype=bool)}
    rules |= {"both": causal & ~pads, "none": causal & False}
    assert texts(browser, ".heed-presets button") == [*rules]
    for i, mask in enumerate(rules.values()):
        browser.ask(f"document.querySelectorAll('.heed-presets button')[{i}].click()")
        agrees(browser, mask)
    assert browser.errors() == []


def test_a_finger_paints(browser, tmp_path):
    browser.open(plot.mask_painter(TOKENS, SCORES).save(tmp_path / "page.html"))
    browser.call("Emulation.setTouchEmulationEnabled", enabled=True)
    cell = "document.querySelectorAll('.heed-grid button')[{}]".format
    path = [middle(browser, cell(k)) for k in (3, 8, 13)]  # down the fourth column
    browser.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=path[:1])
    for place in path[1:]:
        browser.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=[place])
    browser.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    browser.call("Emulation.setTouchEmulationEnabled", enabled=False)
    mask = np.tri(5, dtype=bool)
    mask[:, 4], mask[:3, 3] = False, True
    agrees(browser, mask)


def test_tokens_are_text(browser, tmp_path):
    browser.open(plot.mask_painter([TOKEN, "b"], np.zeros((2, 2)), title=NASTY).save(tmp_path / "page.html"))
    assert texts(browser, ".heed-token bdi")[0] == TOKEN and texts(browser, ".heed-title") == [NASTY]
    assert browser.ask("document.images.length") == 1 and browser.errors() == []


@pytest.mark.parametrize("seed", [None, 1, 2, 3, 5])
def test_a_beam_moves_as_python_says(browser, tmp_path, seed):
    table = tree() if seed is None else random_tree(np.random.default_rng(seed))
    browser.open(plot.beam_tree(table).save(tmp_path / "page.html"))
    root, greedy = Node("BOS"), by_hand(table, 1)
    nodes = list(_grown(root, table))
    depth = max(len(node.path()) for node in nodes)
    for width in (1, 2, 3, 4):
        slide(browser, width, depth)
        states, answer = search(root, width)
        log_p, said = by_hand(table, width)
        words = browser.ask(WORDS)
        assert f"is “{' '.join(said)}” (log P {told(log_p)})" in words
        if said != greedy[1]:
            assert f"Greedy search answers “{' '.join(greedy[1])}” (log P {told(greedy[0])})." in words
        how = ["answer" if node in answer.path() else states.get(node, "unseen") for node in nodes]
        drawn = browser.ask("[...document.querySelectorAll('.heed-node')].map(g => g.classList[1].slice(5))")
        assert drawn[1:] == how  # the root comes first
    slide(browser, 2, 0)
    assert "nothing is said" in browser.ask(WORDS)
    assert browser.errors() == []


def test_a_beam_step_by_step(browser, tmp_path):
    browser.open(plot.beam_tree(tree(), 2).save(tmp_path / "page.html"))
    slide(browser, 2, 1)
    assert (
        browser.ask(WORDS)
        == f"Step 1, width 2: of 3 hypotheses “is” (log P {MINUS}0.69), “sleeps” (log P {MINUS}0.92) stay."
    )
    press(browser, "Tab", "Tab", "ArrowRight")
    assert browser.ask(WORDS).startswith(
        "Step 2, width 2: of 5 hypotheses “sleeps EOS” (log P −1.02), “is asleep”"
    )
    press(browser, "ArrowRight")
    assert browser.ask(WORDS).startswith(
        "The answer of a beam of 2 is “sleeps EOS” (log P −1.02), probability 0.36."
    )
    slide(browser, 1, 3)
    assert (
        browser.ask(WORDS)
        == "The answer of greedy search (width 1) is “is asleep EOS” (log P −1.20), probability 0.30."
    )
