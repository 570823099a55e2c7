"""What the HTML edition has around its chapters: neighbours, solutions, shared links, icons, 404."""

import re

import icons
import pytest
from PIL import Image
from test_html import PIXELS, README, build, cell, save

FIGURE = {"image/png": PIXELS, "text/plain": "<Figure>"}
CHAPTER = "chapters/03_attention.html"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of a book of two chapters, both with solutions; pages in `html`."""
    folder = tmp_path_factory.mktemp("a site")
    (folder / "assets").mkdir()
    Image.new("RGB", (300, 100), "grey").save(folder / "assets" / "readme.png")
    (folder / "README.md").write_text(README, encoding="utf-8")
    chapters = folder / "chapters"
    save(chapters / "00_preface.ipynb", "# 0 · Preface\n\n" + "A word. " * 650)
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
    assert links[:2] == ["index.html", "search.html"] and len(links) == 4
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
