"""What the HTML edition has around its chapters: neighbours, solutions, shared links, icons, 404."""

import re
from pathlib import Path

import icons
import minutes
import pytest
import slides
import teaching
from nbformat import v4
from PIL import Image
from test_html import PIXELS, README, ROOT, build, cell, save

from heed.plot import one_mixture

FIGURE = {"image/png": PIXELS, "text/plain": "<Figure>"}
CHAPTER = "chapters/03_attention.html"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of a book of a tour and two chapters, both with solutions; pages in `html`."""
    folder = tmp_path_factory.mktemp("a site")
    (folder / "assets").mkdir()
    Image.new("RGB", (300, 100), "grey").save(folder / "assets" / "readme.png")
    (folder / "README.md").write_text(README, encoding="utf-8")
    chapters = folder / "chapters"
    moved = cell("move()", FIGURE, alt="Four lists, and a cut")
    moved.outputs.append(v4.new_output("display_data", data={"text/html": one_mixture().html()}))
    save(chapters / "00_preface.ipynb", "# 0 · Preface\n\n" + "A word. " * 585, moved)
    save(chapters / "00_tour.ipynb", "# A tour", cell("draw()", FIGURE, alt="One task, one hour"))
    save(
        chapters / "03_attention.ipynb",
        cell("import heed", tags=["setup"]),
        "# 3 · Attention\n\nIt looks back.\n\n## 3.1 A first section\n\n$$x = 1 \\tag{3.1}$$\n\nSo be it.",
        cell("draw()", FIGURE, alt="A grey bar, wide and low"),
        "## 3.2 A second one\n\n$$y = 2$$",
        cell("# figure: the bar again\ndraw()", FIGURE, alt="Once more", tags=["hide-input", "hide-output"]),
        "## Exercises\n\n### Exercise 3.1 · code · ●●○ · 10 min\n\nDo it.",
        cell("check.score(score)", "○ Not started\n", tags=["exercise"]),
        "### Exercise 3.2 · predict · ●○○ · 5 min\n\nGuess.",
    )
    for name in ("00_preface", "03_attention"):
        save(chapters / "solutions" / f"{name}.ipynb", f"# Solutions {int(name[:2])} · So")
    run = build(chapters, folder / "html")
    assert run.returncode == 0, run.stdout + run.stderr
    return folder / "html"


def text_of(page):
    """A page, spaces made one."""
    return " ".join(page.read_text(encoding="utf-8").split())


# --- Around a page ------------------------------------------------------------------------------------------


def test_the_neighbours_of_a_page_are_named_with_their_minutes(site):
    form = r'rel="(\w+)">.*?next-title">(.*?)</p>(?: <p class="prev-next-minutes">(.*?)</p>)?'
    assert re.findall(form, text_of(site / CHAPTER)) == [
        ("prev", "0 · Preface", "10 minutes to read"),
        ("next", "Solutions", ""),
    ]
    assert re.findall(form, text_of(site / "chapters" / "00_preface.html"))[-1] == (
        "next", "3 · Attention", "5 minutes to read",
    )  # fmt: skip


def test_solutions_are_one_entry_that_leads_to_a_list(site):
    for page in (site / "index.html", site / CHAPTER, site / "chapters" / "solutions" / "00_preface.html"):
        text = text_of(page)
        beside = text[text.index("bd-sidebar-primary") : text.index("<article")]
        assert len(re.findall(r'<li class="toctree[^>]*><a [^>]*>Solutions', beside)) == 1, page
    listed = text_of(site / "solutions.html")
    listed = listed[listed.index("<article") : listed.index("</article")]
    assert re.findall(r'href="(chapters[^"]*)"', listed) == [
        "chapters/solutions/00_preface.html", "chapters/solutions/03_attention.html",
    ]  # fmt: skip


def test_a_chapter_leads_to_its_solutions_and_they_lead_back(site):
    form = r'class="heed-beside"><a href="(.*?)">(.*?)</a>'
    there = re.findall(form, text_of(site / CHAPTER))
    assert there == [("solutions/03_attention.html", "Solutions of this chapter")]
    back = re.findall(form, text_of(site / "chapters" / there[0][0]))
    assert back == [("../03_attention.html", "Back to the chapter")]
    assert not re.findall(form, text_of(site / "index.html"))


def shared(page):
    """What a page says of itself to who shares a link to it."""
    return dict(re.findall(r'<meta property="og:(.*?)" content="(.*?)"/>', text_of(page)))


def test_a_shared_link_has_a_title_a_sentence_and_a_picture_that_is_there(site):
    for name, title in {
        "index": "Heed",
        "chapters/03_attention": "3 · Attention",
        "keys": "The keys",
    }.items():
        said = shared(site / f"{name}.html")
        home = said["url"].removesuffix(f"{name}.html")
        assert re.fullmatch(r"https://[\w.-]+/[\w-]+/", home)
        assert said["title"].startswith(title) and said["description"].endswith("notebooks that run.")
        assert said["image:alt"] == "A grey bar on the cover"
        with Image.open(site / said["image"].removeprefix(home)) as picture:
            assert [str(side) for side in picture.size] == [said["image:width"], said["image:height"]]
            assert picture.getpixel((600, 315)) == (128, 128, 128) and picture.getpixel((5, 5)) == (255,) * 3
    assert shared(site / CHAPTER)["description"].startswith("A look back. ")


# --- An address that is wrong -------------------------------------------------------------------------------


def test_a_wrong_address_has_a_page_that_needs_no_other_file(browser, site):
    page = site / "404.html"
    text = text_of(page)
    assert "src=" not in text and "<link" not in text
    links = re.findall(r'href="(.*?)"', text)
    assert links[:2] == ["index.html", "search.html"] and len(links) == 5
    assert all((site / link).exists() for link in links)
    for dark in (False, True):
        browser.open(page, width=360, dark=dark)
        assert browser.errors() == browser.requests() == []
        assert browser.ask("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize(
    "address, home",
    {
        "https://a.github.io/heed/nothing.html": "/heed/",
        "https://a.github.io/heed/some/where/nothing.html": "/heed/",
        "https://a.org/heed/chapters/nothing.html": "/heed/",
        "https://a.org/heed/chapters/solutions/nothing.html": "/heed/",
        "https://a.org/nothing.html": "/",
    }.items(),
)
def test_from_any_address_it_leads_into_the_book(browser, site, address, home):
    text = (site / "404.html").read_text(encoding="utf-8")
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)[1]
    browser.open(site / "404.html")
    there = f"const location = new URL({address!r}); {script}"
    found = f"(() => {{ {there} return document.querySelector('base').getAttribute('href'); }})()"
    assert browser.ask(found) == home


# --- What a page weighs -------------------------------------------------------------------------------------


def icons_without_ink(browser):
    """The icons of the open page that show nothing: no outline, or no size."""
    return browser.ask("""[...document.querySelectorAll("[class*='fa-']")].filter(icon => {
      const style = getComputedStyle(icon, "::before");
      return !/^url\\("data:image.svg/.test(style.maskImage) || parseFloat(style.width) < 4;
    }).filter(icon => icon.checkVisibility()).map(icon => icon.className)""")


def test_a_page_loads_no_font_no_index_of_the_search_and_no_script_of_icons(browser, site):
    for name in ("index.html", CHAPTER):
        files = browser.loaded(site / name)
        assert not [name for name in files if name.endswith((".woff2", ".map"))]
        assert not {"fontawesome.js", "searchindex.js"} & {*files}
        assert icons_without_ink(browser) == []
    assert "searchindex.js" in browser.loaded(site / "search.html")


def test_an_icon_that_is_not_drawn_is_found(browser, site):
    page = site / "sabotaged.html"
    text = (site / "index.html").read_text(encoding="utf-8")
    page.write_text(text.replace("fa-github", "fa-nosuch"), encoding="utf-8")
    browser.open(page, width=1280)
    found = icons_without_ink(browser)
    page.unlink()
    assert found and all("fa-nosuch" in each for each in found)


def test_an_icon_that_the_theme_does_not_have_is_refused(site, tmp_path):
    script = 'x={"sun":[1,2,[],"f1","old"],rocket:[3,4,[9,"r"],"f2","M1 2z"]},y={sun:[5,6,[],"f1","new"]}'
    assert icons.outline(script, "rocket") == (3, 4, "M1 2z") and icons.outline(script, "sun") == (
        5,
        6,
        "new",
    )
    with pytest.raises(ValueError, match="no icon called 'un'"):
        icons.outline(script, "un")


# --- Links to figures and equations -------------------------------------------------------------------------

LINKS = """[...document.querySelectorAll(".heed-named")].map(named => {
  const link = named.querySelector(":scope > .heed-link");
  return [named.id, link.getAttribute("href"), link.ariaLabel];
})"""


def test_each_figure_and_equation_has_an_address_and_a_link(browser, site):
    browser.open(site / CHAPTER, width=1280)
    assert browser.ask(LINKS) == [
        [name.replace(" ", "-").replace(".", "-"), "#" + name.replace(" ", "-").replace(".", "-"),
         f"Link to {name}"]
        for name in ("equation 3.1", "figure 3.1", "equation 3.untagged-1", "figure 3.2")
    ]  # fmt: skip
    assert browser.ask("document.querySelector('#equation-3-1 mjx-container[display=true]') !== null")
    assert browser.ask("document.querySelector('#figure-3-1 > img').alt") == "A grey bar, wide and low"
    browser.ask("document.querySelector('#figure-3-1 > .heed-link').focus()")
    browser.press("Tab")
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="Tab", windowsVirtualKeyCode=9, modifiers=8)
    at = "document.activeElement"
    assert browser.ask(f"{at}.hash + getComputedStyle({at}).opacity") == "#figure-3-11"


def test_an_address_opens_the_fold_before_a_figure(browser, site):
    browser.open(site / "index.html", width=1280)
    browser.open(site / CHAPTER, width=1280, query="#figure-3-2")
    assert browser.ask("document.querySelector('#figure-3-2').closest('details').open")


def test_a_figure_that_is_moved_keeps_its_address(browser, site):
    browser.open(site / "index.html", width=1280)
    browser.open(site / "chapters" / "00_preface.html", width=1280, query="#figure-0-1")
    seen = """(() => {
      const named = document.querySelector("#figure-0-1"), link = named.querySelector(".heed-link");
      const mover = document.querySelector(".heed-mover");
      const boxes = [named.firstElementChild, mover, named].map(each => each.getBoundingClientRect());
      const [picture, moved, place] = boxes;
      return [picture.height, moved.height, link.checkVisibility(), moved.top - place.top];
    })()"""
    picture, mover, link, below = browser.ask(seen)
    assert picture == 0 and mover > 100 and link and 0 <= below < 60


def test_no_address_is_given_twice_and_slides_are_no_chapters(site):
    for page in site.glob("**/*.html"):
        found = re.findall(r' id="([^"]+)"', page.read_text(encoding="utf-8"))
        named = [name for name in found if name.startswith(("figure-", "equation-"))]
        assert len(named) == len({*named}), page
        assert not named or page.parent.name == "chapters" or page.name == "slides.html"


# --- On paper -----------------------------------------------------------------------------------------------

PAPER = """
(() => {
  const all = selector => [...document.querySelectorAll(selector)];
  const shown = selector => all(selector).filter(each => each.checkVisibility()).length;
  const style = selector => getComputedStyle(document.querySelector(selector));
  return {
    hands: shown(".heed-link, .heed-passed, .copybtn, .headerlink, article button, .prev-next-area"),
    bars: shown(".bd-sidebar-primary, .bd-sidebar-secondary"),
    figures: shown("article img"), folds: shown("article details > summary"), title: shown("h1"),
    together: style(".heed-named").breakInside, ground: style("body").backgroundColor,
  };
})()
"""


@pytest.mark.parametrize("dark", [False, True], ids=["day", "night"])
def test_a_printed_chapter_is_white_whole_and_without_what_is_for_a_hand(browser, site, dark):
    browser.open(site / CHAPTER, width=1280, dark=dark)
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.call("Emulation.setEmulatedMedia", media="print", features=scheme)
    browser.ask("dispatchEvent(new Event('beforeprint'))")
    seen = browser.ask(PAPER)
    browser.ask("dispatchEvent(new Event('afterprint'))")
    browser.call("Emulation.setEmulatedMedia", media="", features=scheme)
    wanted = {"hands": 0, "bars": 0, "figures": 1, "folds": 3, "title": 1, "together": "avoid"}
    assert seen == {**wanted, "ground": "rgb(255, 255, 255)"}
    assert browser.ask("document.documentElement.dataset.theme") == ("dark" if dark else "light")


# --- Progress -----------------------------------------------------------------------------------------------

SAID = "document.querySelector('.heed-progress')?.innerText ?? 'nothing'"
MARKS = """[...document.querySelectorAll("[data-heed-done]")].map(link =>
  [link.textContent, link.dataset.heedDone, link.dataset.heedSays, !!link.closest("article")])"""


def test_a_browser_remembers_what_was_opened_and_passed_and_forgets_it(browser, site):
    browser.open(site / "index.html")
    browser.ask("localStorage.removeItem('heed-progress')")
    browser.open(site / "index.html")
    assert browser.ask(SAID).strip("\u200b") == "" and browser.ask(MARKS) == []
    browser.open(site / CHAPTER)
    boxes = "[...document.querySelectorAll('.heed-passed input')]"
    assert browser.ask(f"{boxes}.map(box => [box.ariaLabel, box.checked])") == [
        ["Exercise 3.1 passed", False], ["Exercise 3.2 passed", False],
    ]  # fmt: skip
    browser.ask(f"{boxes}[1].focus()")
    browser.press(" ")
    assert browser.ask(MARKS) == [["3 · Attention", "✓ 1/2", "opened, 1 of 2 exercises passed", False]]
    browser.open(site / CHAPTER)
    assert browser.ask(f"{boxes}.map(box => box.checked)") == [False, True]
    browser.open(site / "index.html")
    words = "You have opened 1 of 2 chapters and passed 1 exercise. Only this browser knows."
    assert browser.ask(SAID).startswith(words)
    assert [mark[1:] for mark in browser.ask(MARKS)] == [
        ["✓ 1/2", "opened, 1 of 2 exercises passed", within] for within in (False, True)
    ]
    browser.ask("document.querySelector('.heed-progress button').click()")
    assert browser.ask(SAID) == "Forgotten." and browser.ask(MARKS) == []
    assert browser.ask("localStorage.getItem('heed-progress')") is None
    assert browser.errors() == browser.requests() == []


@pytest.mark.parametrize("kept", ["nonsense", "null", '{"opened": {}}', "[]"])
def test_what_is_kept_may_be_broken(browser, site, kept):
    browser.open(site / "index.html")
    browser.ask(f"localStorage.setItem('heed-progress', {kept!r})")
    browser.open(site / CHAPTER)
    assert browser.errors() == []
    browser.ask("localStorage.removeItem('heed-progress')")


def test_solutions_have_nothing_to_tick(browser, site):
    browser.open(site / "chapters" / "solutions" / "03_attention.html")
    assert browser.ask("document.querySelectorAll('.heed-passed').length") == 0


# --- Slides, and the page for those who teach ---------------------------------------------------------------


def test_slides_have_every_figure_with_its_section_its_words_and_its_place(browser, site):
    text = (site / "slides.html").read_text(encoding="utf-8")
    form = r'<section id="(.*?)">\s*<h2>(.*?)</h2>.*?<img src="(.*?)".*?<figcaption>(.*?)</.*?href="(.*?)"'
    found = re.findall(form, text, re.DOTALL)
    assert [(name, title, words, place) for name, title, _, words, place in found] == [
        ("figure-tour-1", "A tour", "One task, one hour", "chapters/00_tour.html#figure-tour-1"),
        (
            "figure-0-1",
            "0 · Preface",
            "Four lists, and a cut",
            "chapters/00_preface.html#figure-0-1",
        ),
        ("figure-3-1", "3.1 A first section", "A grey bar, wide and low", f"{CHAPTER}#figure-3-1"),
        ("figure-3-2", "3.2 A second one", "Once more", f"{CHAPTER}#figure-3-2"),
    ]
    assert all((site / picture).exists() for _, _, picture, _, _ in found)
    assert "src=" not in re.sub(r"<img .*?>", "", text) and "<script" not in text and "<!-- " not in text
    for dark in (False, True):
        browser.open(site / "slides.html", width=360, dark=dark)
        assert browser.errors() == browser.requests() == []
        assert browser.ask("document.documentElement.scrollWidth") <= 360


def test_a_title_is_plain_text_on_a_slide():
    title = '4.3 Why divide by <span class="math">\\(\\sqrt{d}\\)</span> &amp; not \\(\\|W_h\\| &gt; 1\\)'
    assert slides.plain(title) == "4.3 Why divide by √d & not ‖W_h‖ > 1"


def test_the_page_for_those_who_teach_names_what_is_there():
    text = teaching.PAGE.read_text(encoding="utf-8")
    assert [number for number, *_ in teaching.weeks(text)] == list(range(1, 13))
    assert all(chapters and "check." in homework for _, _, chapters, _, homework in teaching.weeks(text))
    assert [*teaching.complaints(text, ROOT)] == []
    named = {chapter for _, _, chapters, _, _ in teaching.weeks(text) for chapter in chapters}
    numbered = {path.name[:2] for path in (ROOT / "chapters").glob("*.ipynb")}
    assert {Path(chapter).name[:2] for chapter in named} == numbered


@pytest.mark.parametrize(
    "old, new, complaint",
    [
        ("exercises 3.1 (", "exercises 3.99 (", "week 3: no chapter of it has an exercise 3.99"),
        ("`check.trap`", "`check.trip`", "week 10: exercise 13.3 has check trap, not trip"),
        (" (`check.drawer`)", "", "week 1: exercise 1.4 has check drawer, not None"),
        ("section 9.3", "section 9.9", "week 7: no chapter of it has a section 9.9"),
        ("`figure: coin tosses", "`figure: dice", "week 4: no cell of it begins with 'figure: dice"),
    ],
)
def test_what_is_gone_is_named(old, new, complaint):
    text = teaching.PAGE.read_text(encoding="utf-8")
    assert text.count(old) == 1
    found = [*teaching.complaints(text.replace(old, new), ROOT)]
    assert len(found) == 1 and found[0].startswith(complaint)


def test_the_minutes_of_a_week_are_counted():
    text = teaching.PAGE.read_text(encoding="utf-8")
    rows = teaching.table(text, ROOT).splitlines()[2:]
    assert len(rows) == 12
    first = [
        teaching.holds(ROOT / "chapters" / name)
        for name in ("00_preface.ipynb", "01_recurrent_networks.ipynb")
    ]
    exercises = first[0][0] | first[1][0]
    assert exercises["1.2"] == ("remember", 15, "code") and exercises["1.3"] == (None, 25, "investigate")
    asked = sum(exercises[name][1] for name in ("0.2", "1.1", "1.2", "1.4"))
    assert rows[0].endswith(f"| {minutes.hours(asked)} |")
