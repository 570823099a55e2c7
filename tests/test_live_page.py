"""The page that translates, opened from the disk: keys, edge inputs, what is heard, what is loaded."""

import json
import time
from functools import partial
from pathlib import Path

import pytest
from test_export import LINES, untrained

from heed import recipe
from heed.__main__ import main
from heed.decode import beam
from heed.recipe import live

MODEL = Path(__file__).parents[1] / "assets" / "14_a_real_translator" / "model"
ROOT = "document.querySelector('.heed-translator')"
SHORT = LINES[1]


def shown(browser, name):
    """The text of one part of the translator."""
    return browser.ask(f"{ROOT}.querySelector('.heed-{name}').textContent")


def write(browser, text):
    """Put a text into the empty field, as if it were pasted there."""
    browser.ask(f"{ROOT}.querySelector('textarea').value = ''")
    browser.ask(f"{ROOT}.querySelector('textarea').focus()")
    browser.call("Input.insertText", text=text)


def until(browser, condition, seconds=60):
    """Wait for something to become true on the page."""
    patience = time.monotonic() + seconds
    while not browser.ask(condition):
        assert time.monotonic() < patience, browser.ask(f"{ROOT}.innerText")
        time.sleep(0.03)


def noted(browser, words):
    """Wait until the note below the translation holds these words."""
    until(browser, f"{ROOT}.querySelector('.heed-note').textContent.includes({json.dumps(words)})")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A page beside the script of an untrained model, and the model."""
    folder, translator = tmp_path_factory.mktemp("live"), untrained()
    (folder / "model.js").write_text(live.script(translator, "float32"), encoding="utf-8")
    page = folder / "page.html"
    part = live.part("model.js", LINES[:2], ("German", "English"), "Nothing is loaded yet.")
    page.write_text(f'<!DOCTYPE html><html lang="en"><meta charset="utf-8">{part}', encoding="utf-8")
    return page, translator


def scripts(browser):
    """The files that the page has asked for."""
    asked = [event["request"]["url"] for event in browser.happened("Network.requestWillBeSent")]
    return [Path(url).name for url in asked if url.startswith("file:")]


def test_the_model_is_loaded_at_the_first_key_and_once(browser, small):
    page, translator = small
    browser.open(page)
    time.sleep(0.3)
    assert scripts(browser) == ["page.html"] and shown(browser, "note") == "Nothing is loaded yet."
    write(browser, SHORT)
    noted(browser, "seconds.")
    assert shown(browser, "said") == translator.translate([SHORT])[0]
    write(browser, LINES[0])
    browser.press("Enter")  # before the pause has passed
    until(
        browser,
        f"{ROOT}.querySelectorAll('th[scope=col]').length != {len(translator.subwords.encode(SHORT))}",
    )
    noted(browser, "seconds.")
    assert shown(browser, "said") == translator.translate([LINES[0]])[0]
    assert scripts(browser) == ["page.html", "model.js"]
    assert browser.errors() == [] and browser.requests() == []


@pytest.mark.parametrize("text, words", [
    (" \n ", "Write a sentence."),
    ("x" * 2001, "This text has 2,001 characters. The model translates one sentence: give it at most 2,000."),
    ("x " * 190, "This text is cut into 379 sub-words. The model reads at most 256: give it one sentence."),
])  # fmt: skip
def test_what_is_no_sentence_is_answered_in_words(browser, small, text, words):
    browser.open(small[0])
    write(browser, SHORT)
    noted(browser, "seconds.")
    write(browser, text)
    noted(browser, words)
    time.sleep(0.2)  # and nothing comes after it
    assert shown(browser, "note") == shown(browser, "heard") == words and shown(browser, "said") == ""
    assert browser.ask(f"{ROOT}.querySelector('.heed-table').checkVisibility()") is False
    write(browser, SHORT)
    noted(browser, "seconds.")


def test_other_scripts_and_line_breaks(browser, small):
    page, translator = small
    browser.open(page)
    for text in ("Ein 日本 Hund", "Ein\r\nHund\n\n läuft", "Ein 🙂 <b>Hund</b> & mehr"):
        write(browser, "")
        browser.ask(f"{ROOT}.querySelector('.heed-note').textContent = ''")
        write(browser, text)
        noted(browser, "seconds.")
        plain = " ".join(text.split())
        assert shown(browser, "said") == translator.translate([plain])[0]
        unknown = [c for c in dict.fromkeys(plain) if c not in translator.subwords and c != " "]
        told = f"No sub-word covers {' '.join(unknown)}"
        assert (told in shown(browser, "note")) == (told in shown(browser, "heard")) == bool(unknown)
    assert browser.errors() == []


def test_what_is_heard_is_the_whole_translation_once_it_is_there(browser, small):
    browser.open(small[0])
    browser.ask(f"""(() => {{
      globalThis.spoken = [];
      const heard = {ROOT}.querySelector('.heed-heard');
      new MutationObserver(() => spoken.push(heard.textContent)).observe(heard, {{ childList: true }});
    }})()""")
    write(browser, SHORT)
    noted(browser, "seconds.")
    spoken = [words for words in browser.ask("spoken") if words]
    said = small[1].translate([SHORT])[0].strip()
    assert spoken[0] == "The model is being loaded …" and len(spoken) == 2
    assert spoken[1].startswith(said)
    assert browser.ask(f"{ROOT}.querySelector('[aria-live=polite]').className") == "heed-heard"


def test_every_control_has_a_name_and_the_keyboard_reaches_it(browser, small):
    browser.open(small[0])
    write(browser, SHORT)
    noted(browser, "seconds.")
    names = []
    for _ in range(9):
        names.append(
            browser.ask(
                "(e => e.labels?.[0]?.firstChild.textContent.trim() || e.ariaLabel || e.textContent)"
                "(document.activeElement)"
            )
        )
        browser.press("Tab")
    assert names[:8] == ["German", "Translate", "search", *LINES[:2], "layer", "head", "source attention"]


def test_the_picture_shows_each_layer_and_head_and_says_it_in_words(browser, small):
    page, translator = small
    browser.open(page)
    write(browser, SHORT)
    noted(browser, "seconds.")
    explored = translator.explore(SHORT)
    kind = next(kind for kind in explored.kinds if kind.name == "source")
    weights = kind.thousandths / 1000
    titles = f"[...{ROOT}.querySelectorAll('td[title]')].map(cell => Number(cell.title.split(': ').at(-1)))"
    for layer, head in ((1, 0), (0, 0), (0, 2), (1, 3)):
        for name, index in (("layer", layer), ("head", head)):
            at = {"layer": 1, "head": 2}[name]
            select = f"{ROOT}.querySelectorAll('select')[{at}]"
            browser.ask(f"{select}.selectedIndex = {index}; {select}.dispatchEvent(new Event('change'))")
        wanted = (weights[layer].mean(axis=0) if head == 0 else weights[layer, head - 1]).flatten()
        found = browser.ask(titles)  # the explorer has a row for EOS, also where a translation was cut
        assert 0 <= len(wanted) - len(found) <= len(kind.columns) and len(found) > len(kind.columns)
        assert found == pytest.approx(list(wanted[: len(found)]), abs=2e-3)
        aligned = shown(browser, "aligned")
        assert (
            aligned.startswith("Where each token looks most: ") and aligned.count("←") >= len(kind.rows) - 1
        )
        which = f"head {head}" if head else "mean of 3 heads"
        assert f"layer {layer + 1}, {which}: a row" in browser.ask(
            f"{ROOT}.querySelector('caption').textContent"
        )


def test_a_beam_is_chosen(browser, small):
    page, translator = small
    browser.open(page)
    write(browser, LINES[0])
    noted(browser, "seconds.")
    select = f"{ROOT}.querySelector('select')"
    browser.ask(f"{ROOT}.querySelector('.heed-note').textContent = ''")
    browser.ask(f"{select}.value = '4'; {select}.dispatchEvent(new Event('change'))")
    noted(browser, "seconds.")
    assert shown(browser, "said") == translator.translate([LINES[0]], partial(beam, width=4))[0]


@pytest.mark.parametrize("worker", ["undefined", "class { constructor() { throw Error('no'); } }", """class {
  constructor() { setTimeout(() => this.onerror(new Event('error')), 50); }
  postMessage() {}
  terminate() {}
}"""], ids=["none", "refused", "broken"])  # fmt: skip
def test_where_there_can_be_no_worker_the_page_itself_translates(browser, small, worker):
    page, translator = small
    browser.open(page)
    browser.ask(f"globalThis.Worker = {worker}; 1")
    write(browser, SHORT)
    noted(browser, "seconds.")
    assert shown(browser, "said") == translator.translate([SHORT])[0]


def test_a_file_that_is_not_there_is_named(browser, small, tmp_path):
    page = tmp_path / "alone.html"
    page.write_text(small[0].read_text(encoding="utf-8"), encoding="utf-8")
    browser.open(page)
    write(browser, SHORT)
    noted(browser, "The model's file model.js could not be loaded. Nothing can be translated here.")


def test_a_new_sentence_takes_the_place_of_one_that_is_being_written(browser, small):
    page, translator = small
    browser.open(page)
    write(browser, "x " * 120)
    browser.press("Enter")
    until(browser, f"{ROOT}.querySelector('.heed-said').textContent")
    write(browser, SHORT)
    browser.press("Enter")
    noted(browser, "seconds.")
    assert shown(browser, "said") == translator.translate([SHORT])[0]


def test_the_command_writes_a_page_that_needs_nothing_else(browser, tmp_path, capsys):
    page = tmp_path / "live.html"
    assert main(["show", str(MODEL), LINES[0], "--live", "--to", str(page)]) == 0
    assert f"Open {page} in a browser" in capsys.readouterr().out
    browser.open(page)
    browser.ask(f"{ROOT}.querySelector('.heed-example').click()")
    noted(browser, "seconds.")
    assert shown(browser, "said") == recipe.load_translator(MODEL).translate(LINES[:1])[0]
    assert scripts(browser) == ["live.html"] and browser.errors() == browser.requests() == []
    assert browser.ask("document.documentElement.scrollWidth") <= 390


def test_without_a_sentence_the_command_says_what_is_missing(capsys):
    assert main(["show", str(MODEL)]) == 1
    assert "name a sentence, or --live" in capsys.readouterr().err


def test_a_sub_word_that_looks_like_markup_is_text(browser, tmp_path):
    translator = untrained()
    nasty = "</script><!--<script>"
    page = tmp_path / "page.html"
    page.write_text(live.page(translator, nasty, nasty), encoding="utf-8")
    browser.open(page)
    browser.ask(f"{ROOT}.querySelector('.heed-example').click()")
    noted(browser, "seconds.")
    assert browser.ask(f"{ROOT}.querySelector('textarea').value") == nasty
    assert browser.ask("document.title") == nasty and browser.errors() == []
