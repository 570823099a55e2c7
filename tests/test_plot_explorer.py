"""The attention explorer: the first frame without a script, what is stored, and what a browser shows."""

import json
import re
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heed import plot
from heed.plot.explorer import DIGITS, SCRIPT, STYLE
from heed.plot.style import luminance

LAYERS, HEADS, ROWS, COLUMNS = 2, 3, 5, 7
NASTY = ['</script><script>alert("1")</script>', "<img src=x onerror=alert(2)>", "'\"&amp;", "שלום", "日本語"]


def weights(*shape, seed=5):
    table = np.random.default_rng(seed).exponential(size=shape) ** 3
    return table / table.sum(axis=-1, keepdims=True)


def small(title="Two kinds"):
    """An explorer of two kinds: the first has sizes that are all different primes."""
    maps = {"source": weights(LAYERS, HEADS, ROWS, COLUMNS), "encoder": weights(1, 2, COLUMNS, COLUMNS)}
    rows = {"source": [*"abcde"], "encoder": [f"k{j}" for j in range(COLUMNS)]}
    return plot.explorer(maps, rows, [f"k{j}" for j in range(COLUMNS)], title), maps


class Cells(HTMLParser):
    """The cells of a table as an untrusted notebook shows them: text, title, style, and no script."""

    def __init__(self, html):
        super().__init__()
        self.cells, self.hidden, self.tags = [], None, []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.hidden = tag if tag in ("script", "style") else self.hidden
        if tag in ("td", "th"):
            self.cells.append({"tag": tag, "text": "", **dict(attributes)})

    def handle_endtag(self, tag):
        self.hidden = None if tag == self.hidden else self.hidden

    def handle_data(self, data):
        if not self.hidden and self.cells:
            self.cells[-1]["text"] += data


def data_of(html):
    return json.loads(unescape(re.search(r'data-maps="([^"]*)"', html)[1]))


def unpacked(kind):
    """The weights of what was packed for the script, read without the script."""
    digits = np.array([DIGITS.index(d) for d in kind["weights"]]).reshape(-1, 2)
    shape = kind["layers"], kind["heads"], len(kind["rows"]), len(kind["columns"])
    return (digits @ [64, 1]).reshape(shape) / 1000


# --- What is written --------------------------------------------------------------------------------------


def test_a_map_by_hand():
    html = plot.explorer({"a": [[[[1, 0], [0.25, 0.75]]]]}, ["x", "y"], ["u", "v"], "By hand")._repr_html_()
    [kind] = data_of(html)
    assert kind == {
        "name": "a", "layers": 1, "heads": 1, "rows": ["x", "y"], "columns": ["u", "v"],
        "weights": "PoAAD6Lu",  # 1000 = 15·64 + 40, 0, 250 = 3·64 + 58, 750 = 11·64 + 46
    }  # fmt: skip
    cells = Cells(html).cells
    assert [cell["text"] for cell in cells] == ["", "u", "v", "x", "100", "", "y", "25", "75"]
    titles = [cell["title"] for cell in cells if "title" in cell]
    assert titles == ["x → u: 1.000", "x → v: 0.000", "y → u: 0.250", "y → v: 0.750"]


@given(st.integers(0, 2**32 - 1))
def test_what_is_stored_is_the_weights_to_three_digits(seed):
    given = weights(LAYERS, HEADS, ROWS, COLUMNS, seed=seed)
    html = plot.explorer({"m": given}, range(ROWS), range(COLUMNS))._repr_html_()
    assert np.abs(unpacked(data_of(html)[0]) - given).max() <= 0.0005 + 1e-9


def test_the_first_frame_is_the_last_layer_and_the_mean_of_its_heads():
    explorer, maps = small()
    titles = [cell["title"] for cell in Cells(explorer._repr_html_()).cells if "title" in cell]
    mean = maps["source"][-1].mean(axis=0)
    told = np.array([float(title.rsplit(": ")[1]) for title in titles]).reshape(ROWS, COLUMNS)
    assert np.abs(told - mean).max() < 0.0011
    assert titles[COLUMNS].startswith("b → k0: ")
    assert "source, layer 2, mean of 3 heads" in explorer._repr_html_()


def test_the_first_frame_needs_neither_script_nor_style_sheet():
    html = small()[0]._repr_html_()
    bare = re.sub(r"<(script|style)>.*?</\1>", "", html, flags=re.DOTALL)
    cells = [cell for cell in Cells(bare).cells if "title" in cell]
    assert len(cells) == ROWS * COLUMNS
    assert all("background: #" in cell["style"] and "color: " in cell["style"] for cell in cells)
    assert len({re.search("background: (#[0-9a-f]+)", cell["style"])[1] for cell in cells}) > 10


def test_tokens_are_escaped():
    page = plot.explorer({"<b>": weights(1, 1, 5, 5)}, NASTY, NASTY, "</script> & <i>")._repr_html_()
    tags = Cells(page).tags
    assert tags.count("script") == 1 and "img" not in tags and "i" not in tags and "b" not in tags
    assert data_of(page)[0]["rows"] == NASTY
    assert [cell["text"] for cell in Cells(page).cells if cell.get("scope") == "col"] == NASTY


def test_blanks_and_control_characters_can_be_seen():
    tokens = [" ", "", "\0", "a\n", "\ud800", "  "]
    html = plot.explorer({"m": np.eye(6)[None, None]}, tokens, tokens)._repr_html_()
    assert data_of(html)[0]["rows"] == ["␣", "␣", "␀", "a␊", "?", "␣␣"]


def test_twice_gives_the_same_and_nothing_has_an_id():
    html = small()[0]._repr_html_()
    assert html == small()[0]._repr_html_()
    assert not re.search(r'\bid="', html)
    assert repr(small()[0]) == "Explorer('Two kinds': source, encoder)"


def test_a_long_sentence_stays_small():
    maps = {kind: weights(3, 4, 20, 20) for kind in ("source", "encoder", "decoder")}
    words = ["Geschwindigkeit"] * 20
    assert len(plot.explorer(maps, words, words)._repr_html_().encode()) < 150_000


def test_nothing_is_fetched():
    assert not re.search(r"https?:|//\w|@import|url\(|fetch|XMLHttp", re.sub("// .*", "", SCRIPT + STYLE))


WRONG = {
    "no map": ({}, "abcde", "abcdefg", "at least one map of weights, got none"),
    "no heads": ({"m": weights(2, 5, 7)}, "abcde", "abcdefg", r"shape \(2, 5, 7\); they need four axes"),
    "nothing": ({"m": np.ones((1, 1, 0, 7))}, "", "abcdefg", "none of them empty"),
    "labels": ({"m": weights(1, 1, 5, 7)}, "abc", "abcdefg", "'m' have 5 rows, and there are 3 labels"),
    "turned": ({"m": weights(1, 1, 5, 5)}, "abcde", "abcdefg", "'m' have 5 columns, and there are 7 labels"),
    "scores": ({"m": 9 * weights(1, 1, 5, 7) - 1}, "abcde", "abcdefg", "from before the softmax"),
    "nan": ({"m": weights(1, 1, 5, 7) * np.nan}, "abcde", "abcdefg", "run from nan to nan"),
}


@pytest.mark.parametrize(("maps", "rows", "columns", "sentence"), WRONG.values(), ids=WRONG.keys())
def test_what_does_not_fit_is_refused(maps, rows, columns, sentence):
    with pytest.raises(ValueError, match=sentence):
        plot.explorer(maps, rows, columns)


def test_numbers_are_legible_on_every_colour_by_day_and_by_night():
    limit = float(re.search(r"w > (0\.\d+)", SCRIPT)[1])
    looks = re.findall(r"--paper: ([\d ]+); --ink: ([\d ]+);.*--strong: ([\d ]+); --on: ([\d ]+);", STYLE)
    assert len(looks) == 3
    for look in looks:
        paper, ink, strong, on = (np.array(colour.split(), dtype=float) / 255 for colour in look)
        for w in np.linspace(0, 1, 1001):
            bright = luminance(w * strong + (1 - w) * paper), luminance(on if w > limit else ink)
            assert (max(bright) + 0.05) / (min(bright) + 0.05) > 4.45, (look, w)


# --- What a browser shows ---------------------------------------------------------------------------------


STATE = """[...document.querySelectorAll(".heed-explorer")].map(root => ({
  chosen: [...root.querySelectorAll("[aria-checked=true]")].map(button => button.textContent),
  words: root.querySelector("[aria-live]").textContent,
  shown: [...root.querySelectorAll("td[title]")].map(cell => Number(cell.title.split(": ").pop())),
  stops: root.querySelectorAll("button[tabindex='0']").length,
}))"""


def press(browser, *keys):
    for key in keys:
        for kind in ("keyDown", "keyUp"):
            code = {"Tab": 9, "Enter": 13}.get(key, 0)
            browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)


def test_the_keyboard_reaches_every_map_and_every_token(browser, tmp_path):
    explorer, maps = small()
    browser.open(explorer.save(tmp_path / "one.html"))
    [first] = browser.ask(STATE)
    assert first["chosen"] == ["source", "2", "mean", "a"] and first["stops"] == 4
    mean = maps["source"][1].mean(axis=0)
    assert np.allclose(np.reshape(first["shown"], mean.shape), mean, atol=0.0011)

    press(browser, "Tab", "Tab", "ArrowLeft", "Tab", "ArrowRight", "ArrowDown", "Tab", "End", "ArrowUp")
    [then] = browser.ask(STATE)
    assert then["chosen"] == ["source", "1", "2", "d"]
    shown = maps["source"][0, 1]
    assert np.allclose(np.reshape(then["shown"], shown.shape), shown, atol=0.0006)
    most = int(shown[3].argmax())
    assert then["words"].startswith(f"d attends to k{most} {100 * shown[3, most]:.0f} %")

    browser.ask("document.querySelector('[role=radio]').focus()")
    press(browser, "ArrowRight")
    [last] = browser.ask(STATE)
    assert last["chosen"] == ["encoder", "1", "2", "k3"]
    assert np.allclose(np.reshape(last["shown"], (7, 7)), maps["encoder"][0, 1], atol=0.0006)
    assert browser.errors() == [] and browser.requests() == []


def test_a_click_stays_and_a_glance_does_not(browser, tmp_path):
    browser.open(small()[0].save(tmp_path / "one.html"))
    browser.ask("document.querySelectorAll('.heed-table tr')[3].click()")
    assert browser.ask(STATE)[0]["chosen"][-1] == "c"
    line = "document.querySelectorAll('.heed-table tr')[5]"
    browser.ask(f"{line}.dispatchEvent(new MouseEvent('mouseenter'))")
    assert browser.ask(STATE)[0]["words"].startswith("e attends to")
    browser.ask(f"{line}.dispatchEvent(new MouseEvent('mouseleave'))")
    assert browser.ask(STATE)[0]["words"].startswith("c attends to")


def test_two_explorers_on_a_page_leave_each_other_alone(browser, tmp_path):
    page = tmp_path / "two.html"
    one, other = small("One")[0], small("Another")[0]
    page.write_text(f"<meta charset=utf-8>{one._repr_html_()}<p>{other._repr_html_()}", encoding="utf-8")
    browser.open(page)
    before = browser.ask(STATE)
    browser.ask("document.querySelectorAll('.heed-explorer')[1].querySelectorAll('button')[2].click()")
    after = browser.ask(STATE)
    assert len(after) == 2 and after[0] == before[0] and after[1]["chosen"][1] == "1"
    assert browser.errors() == []


def test_nasty_tokens_are_text(browser, tmp_path):
    explorer = plot.explorer({"m": weights(1, 1, 5, 5)}, NASTY, NASTY, NASTY[0])
    browser.open(explorer.save(tmp_path / "page.html"))
    buttons = "[...document.querySelectorAll('[aria-label=token] button')].map(button => button.textContent)"
    assert browser.ask(buttons) == NASTY
    assert browser.errors() == [] and browser.ask("document.querySelector('img')") is None


def test_it_fits_a_phone_and_follows_the_night(browser, tmp_path):
    long = [f"Wort{j}" for j in range(23)]
    page = plot.explorer({"m": weights(3, 5, 23, 23)}, long, long, "Long").save(tmp_path / "long.html")
    paint = "getComputedStyle(document.body).backgroundColor"
    ink = "getComputedStyle(document.querySelector('.heed-explorer')).color"
    browser.open(page)
    assert browser.ask("document.documentElement.scrollWidth") <= 390
    assert [browser.ask(paint), browser.ask(ink)] == ["rgb(255, 255, 255)", "rgb(0, 0, 0)"]
    browser.open(page, dark=True)
    assert [browser.ask(paint), browser.ask(ink)] == ["rgb(18, 20, 23)", "rgb(255, 255, 255)"]


def test_a_page_that_has_chosen_its_light_is_followed(browser, tmp_path):
    html = small()[0]._repr_html_()
    ink = "getComputedStyle(document.querySelector('.heed-explorer')).color"
    for chosen, dark, expected in (
        ('<html data-theme="light"><body>', True, "rgb(0, 0, 0)"),
        ('<html data-theme="dark"><body>', False, "rgb(255, 255, 255)"),
        ('<html><body data-jp-theme-light="true">', True, "rgb(0, 0, 0)"),
        ('<html><body data-jp-theme-light="false">', False, "rgb(255, 255, 255)"),
    ):
        page = tmp_path / "chosen.html"
        page.write_text(f"<!DOCTYPE html>{chosen}<meta charset=utf-8>{html}", encoding="utf-8")
        browser.open(page, dark=dark)
        assert browser.ask(ink) == expected, chosen


def test_weights_that_a_model_computes_may_be_shown_as_they_are():
    table = torch.rand(1, 2, 3, 4).softmax(-1).requires_grad_()
    page = plot.explorer({"source": table.bfloat16()}, [*"abc"], [*"wxyz"])._repr_html_()
    assert "<table" in page
