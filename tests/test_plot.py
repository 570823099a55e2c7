"""Figures: what is drawn is what was given; nothing is cut, nothing overlaps, nothing is an empty box."""

import datetime
import functools
import io
import math
import subprocess
import sys
import warnings
from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from babel import Locale
from babel.dates import format_date

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.font_manager import findfont
from matplotlib.ft2font import FT2Font
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

from heed import plot
from heed.data.dates import DATE_LANGUAGES
from heed.data.names import NAME_LANGUAGES
from heed.plot.charts import EndLabel, apart, significant
from heed.plot.style import CJK, COLOURS, SCORES, WEIGHTS, as_text, ink_on, luminance, written

FRENCH = "mercredi 5 septembre 198"
ISO, CHINESE = "1987-03-05", "1987年3月5日星期四"
UNKNOWN = "\U0010fffd"  # no font has this one
LONG = (
    "A title that states the finding in so many words that one line of the page is by no means enough for it"
)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def weights(n_q, n_k):
    table = np.random.default_rng(5).exponential(size=(n_q, n_k)) ** 3
    return table / table.sum(axis=1, keepdims=True)


def words(n):
    return (["Vereinigte Arabische Emirate", "<eos>", "日曜日", "Ελλάδα", "Великобритания", "x", "␣"] * n)[:n]


STEPS = np.arange(1, 12)
FIGURES = {
    "heatmap 1 x 3": lambda: plot.heatmap(weights(1, 3), ["q"], ["the", "cat", "sat"], LONG, "key"),
    "heatmap 1 x 1": lambda: plot.heatmap([[1.0]], ["一"], ["二"]),
    "heatmap 10 x 12": lambda: plot.heatmap(weights(10, 12), list(ISO), list(CHINESE), LONG, "zh", "ISO"),
    "heatmap long": lambda: plot.heatmap(weights(3, 9), words(3), words(9), "Long labels", "key", "query"),
    "heatmap 2 x 40": lambda: plot.heatmap(weights(2, 40), words(2), words(40), LONG, "key", "query"),
    "heatmap 40 x 2": lambda: plot.heatmap(weights(40, 2), words(40), words(2), LONG, "key", "query"),
    "heatmap 40 x 40": lambda: plot.heatmap(weights(40, 40), words(40), words(40), LONG, "key", "query"),
    "heatmaps": lambda: plot.heatmaps(
        {
            "German": (weights(10, 12), list(ISO), list("5. März 1987")),
            "Chinese": (weights(10, 12), list(ISO), list(CHINESE)),
            "short": (weights(2, 3), words(2), list("abc")),
        },
        {"German": [(0, 8), (9, 0)]},
        "Three maps, one scale",
        "read",
        "written",
    )[0],
    "scoremap": lambda: plot.scoremap(np.random.default_rng(1).normal(size=(5, 7)) * 9, title="Scores"),
    "curves": lambda: plot.curves(
        STEPS,
        {"plain": 1 / STEPS, "with additive attention": 1 - STEPS / 99, "dot": 1 - STEPS / 98},
        LONG,
        "n",
        "exact",
        bands={"plain": (0.5 / STEPS, 1.5 / STEPS)},
    ),
    "curves, many": lambda: plot.curves(STEPS, {f"seed {i}": STEPS * i for i in range(9)}, "Nine", "x", "y"),
    "bars": lambda: plot.bars(words(5), [0.51, 0.873, 0.9, 0, 1], LONG, "type", "F1"),
    "bars, two series": lambda: plot.bars(
        ["A", "B"], {"alone": [-0.5, 0.2], "in context": [1, 0.3]}, "Two", "", "F1"
    ),
    "hbars": lambda: plot.hbars(words(4), [0.51, -0.873, 0.9, 0.1], "Lying", "F1"),
    "N→N": lambda: plot.network(
        "N→N", ["Berlin", "is", "cold"], ["B-PLACE", "O", "O"], "A tag for every token"
    ),
    "N⇄N": lambda: plot.network("N⇄N", ["Berlin", "is", "cold"], ["B-PLACE", "O", "O"]),
    "N→1": lambda: plot.network("N→1", list("Österreich"), ["German"], LONG),
    "1→N": lambda: plot.network("1→N", ["日本語"], [*"ドイツ", "<eos>"], "Written one by one"),
    "N→M": lambda: plot.network("N→M", ["1987", "年", "3", "月"], ["1987", "-", "03"], "One arrow"),
    "N→M, empty": lambda: plot.network("N→M"),
    "1→N, first": lambda: plot.network("1→N", ["de"], [*"Kuba", "<eos>"], first="<bos>"),
    "N→M, first": lambda: plot.network("N→M", list("stop"), [*"pots", "<eos>"], first="<bos>"),
    "attending": lambda: plot.attending(list("5. März 1987"), list("1987-0"), np.arange(12) / 66, "One step"),
    "attending, first": lambda: plot.attending(["drei", "und", "zwanzig"], ["twenty"], [0.1, 0.1, 0.8]),
    "attending, crowded": lambda: plot.attending(list(FRENCH), list("1987-0"), weights(1, 24)[0], LONG),
    "alignment": lambda: plot.alignment(weights(4, 5), words(5), ["a", "b", "c", "d"], "Joined"),
    "alignment, crowded": lambda: plot.alignment(
        weights(3, 11), [f"word{i}" for i in range(11)], ["a", "b", "c"], "Many below"
    ),
}


@functools.cache
def figure_of(name):
    """The figure of this name, made once, and its texts."""
    figure = FIGURES[name]().figure
    return figure, drawn_texts(figure)


def drawn_texts(figure):
    """Every visible text of a figure with its box on the page, once the figure has been drawn."""
    figure.canvas.draw()
    found = [
        text
        for text in figure.findobj(matplotlib.text.Text)
        if text.get_visible() and text.get_text().strip()
    ]
    ticks = {}  # matplotlib keeps tick labels outside the limits: they are never drawn
    for axes in figure.findobj(matplotlib.axes.Axes):
        for axis in (axes.xaxis, axes.yaxis):
            drawn = set(map(id, axis._update_ticks())) if axis.get_visible() and axes.axison else set()
            for tick in [*axis.majorTicks, *axis.minorTicks]:
                ticks |= dict.fromkeys((id(tick.label1), id(tick.label2)), id(tick) in drawn)
        if not axes.axison:
            ticks |= dict.fromkeys((id(axes.xaxis.label), id(axes.yaxis.label)), False)
    return [(text, text.get_window_extent()) for text in found if ticks.get(id(text), True)]


def corners(text, box):
    """The four corners of a text's own, perhaps turned, rectangle."""
    turn, text_size = text.get_rotation(), None
    if turn % 90 == 0:
        return np.array([(box.x0, box.y0), (box.x1, box.y0), (box.x1, box.y1), (box.x0, box.y1)])
    angle = np.deg2rad(turn)
    c, s = abs(np.cos(angle)), abs(np.sin(angle))
    text_size = np.linalg.solve([[c, s], [s, c]], [box.width, box.height]) if abs(c - s) > 1e-6 else None
    if text_size is None:  # 45°: the box alone does not tell; ask for the text unturned
        text.set_rotation(0)
        flat = text.get_window_extent()
        text.set_rotation(turn)
        text_size = flat.width, flat.height
    half = np.array(text_size) / 2
    square = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * half
    rotation = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return square @ rotation + [(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2]


def overlap(one, other):
    """Whether two rectangles share more than a pixel: no line along an edge of either separates them."""
    for shape in (one, other):
        for a, b in pairwise([*shape, shape[0]]):
            normal = np.array([a[1] - b[1], b[0] - a[0]]) / max(1e-9, np.hypot(*(a - b)))
            left, right = one @ normal, other @ normal
            if left.max() < right.min() + 1 or right.max() < left.min() + 1:
                return False
    return True


def png(ax):
    buffer = io.BytesIO()
    ax.figure.savefig(buffer, format="png")
    return buffer.getvalue()


# --- Every figure ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIGURES)
def test_no_text_is_cut_off(name):
    figure, texts = figure_of(name)
    page = figure.bbox
    for text, box in texts:
        inside = box.x0 >= -0.5 and box.y0 >= -0.5 and box.x1 <= page.x1 + 0.5 and box.y1 <= page.y1 + 0.5
        assert inside, f"{text.get_text()!r} is at {box}, the page is {page.width:.0f} x {page.height:.0f}"


@pytest.mark.parametrize("name", FIGURES)
def test_no_text_lies_on_another(name):
    shapes = [(text.get_text(), corners(text, box)) for text, box in figure_of(name)[1]]
    for (one, its), (other, theirs) in combinations(shapes, 2):
        assert not overlap(its, theirs), f"{one!r} lies on {other!r}"


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_the_same_bytes_twice(name):
    one, other = FIGURES[name](), FIGURES[name]()
    assert one.figure.axes[0] is one is not other
    assert png(one) == png(other)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_fits_a_page(name):
    width, height = figure_of(name)[0].get_size_inches()
    assert width <= 7.6 and height <= 9


def test_overlap_sees_what_overlaps():
    square = np.array([(0, 0), (10, 0), (10, 10), (0, 10)])
    assert overlap(square, square + 5) and not overlap(square, square + np.array([12, 0]))
    turned = np.array([(20, 5), (25, 0), (40, 15), (35, 20)])
    assert not overlap(square, turned - np.array([8, -6])) and overlap(square, turned - np.array([16, 0]))


# --- Style ----------------------------------------------------------------------------------------------


def cldr(language):
    """Every text that CLDR writes with months, days, eras and territories in this language."""
    day = datetime.date(2024, 1, 1)
    texts = [
        format_date(day + datetime.timedelta(i), form, locale=language)
        for i in range(366)
        for form in ("short", "medium", "long", "full", "GGGGyMMMMdEEEE", "GGGGGyy", "EEEEEE ccc LLLL")
    ]
    return texts + list(Locale.parse(language).territories.values())


LANGUAGES = sorted({*DATE_LANGUAGES, *NAME_LANGUAGES, "zh_Hant", "ko"})


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_fonts_that_come_along_have_every_character_of_cldr(language):
    fonts = [FT2Font(findfont("DejaVu Sans")), FT2Font(CJK)]
    characters = set("".join(cldr(language)))
    missing = {c for c in characters if not any(font.get_char_index(ord(c)) for font in fonts)}
    assert not missing


def test_chinese_and_japanese_are_drawn_without_a_warning_and_not_as_boxes():
    empty = FT2Font(CJK).load_glyph(0).width
    for text in cldr("zh")[:40] + cldr("ja")[:40]:
        for character in set(text) - {" "}:
            assert FT2Font(findfont("DejaVu Sans")).get_char_index(ord(character)) or FT2Font(
                CJK
            ).get_char_index(ord(character)), character
    assert empty
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, other = (png(plot.network("N→1", [word], ["x"])) for word in ("星期一", "星期二"))
    assert one != other


BAD = {
    "heatmap row": lambda: plot.heatmap([[1]], [UNKNOWN], ["a"]),
    "heatmap column": lambda: plot.heatmap([[1]], ["a"], [UNKNOWN]),
    "title": lambda: plot.heatmap([[1]], title=UNKNOWN),
    "xlabel": lambda: plot.curves([1, 2], {"a": [1, 2]}, xlabel=UNKNOWN),
    "ylabel": lambda: plot.bars(["a"], [1], ylabel=UNKNOWN),
    "curve": lambda: plot.curves([1, 2], {UNKNOWN: [1, 2]}),
    "bar": lambda: plot.bars([UNKNOWN], [1]),
    "series": lambda: plot.hbars(["a"], {UNKNOWN: [1]}),
    "network": lambda: plot.network("N→1", [UNKNOWN], ["a"]),
    "network title": lambda: plot.network("N→1", title=UNKNOWN),
    "attending": lambda: plot.attending(["a"], [UNKNOWN], [1]),
    "alignment": lambda: plot.alignment([[1]], [UNKNOWN], ["a"]),
}


@pytest.mark.parametrize("name", BAD)
def test_a_character_that_no_font_has_is_named(name):
    with pytest.raises(ValueError, match=r"no font at hand has the character .*U\+10FFFD"):
        BAD[name]()


def test_blanks_become_visible_and_other_text_stays():
    assert [written(text) for text in (" ", "\u00a0", "\n", "\t", " a", "")] == ["␣", "␣", "↵", "⇥", " a", ""]


def lightness(colour):
    y = luminance(colour)
    return 116 * np.cbrt(y) - 16 if y > 0.008856 else 903.3 * y


def test_equal_weights_are_equal_steps_of_lightness():
    steps = np.diff([lightness(WEIGHTS(value)[:3]) for value in np.linspace(0, 1, 11)])
    assert np.allclose(steps, steps.mean(), atol=0.6) and steps.mean() < -7
    assert lightness(WEIGHTS(0.0)[:3]) > 99.5


def test_scores_are_white_at_zero_and_darker_on_both_sides():
    left = [lightness(SCORES(value)[:3]) for value in np.linspace(0.5, 0, 6)]
    right = [lightness(SCORES(value)[:3]) for value in np.linspace(0.5, 1, 6)]
    assert left[0] > 96 and (np.diff(left) < -5).all() and (np.diff(right) < -5).all()


def seen_by(colour, deficiency):
    """The colour as a dichromat sees it, in CIELAB (Machado, Oliveira & Fernandes 2009, severity 1)."""
    matrix = {
        "none": np.eye(3),
        "protanopia": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
        "deuteranopia": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
        "tritanopia": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
    }[deficiency]
    rgb = np.array(matplotlib.colors.to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = (np.array(matrix) @ linear).clip(0, 1)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear
    f = np.cbrt(xyz / [0.9505, 1, 1.089])
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("deficiency", ["none", "protanopia", "deuteranopia", "tritanopia"])
def test_the_palette_survives_colour_blindness(deficiency):
    apart_by = [
        np.linalg.norm(seen_by(one, deficiency) - seen_by(other, deficiency))
        for one, other in combinations(COLOURS.values(), 2)
    ]
    assert min(apart_by) > 10  # a difference of 2 is just seen


def test_curves_differ_in_grey_print_too():
    looks = [(str(line._dash_pattern), line.get_marker()) for line in FIGURES["curves, many"]().lines]
    assert len(set(looks)) == 9
    assert [len({look[i] for look in looks}) for i in (0, 1)] == [9, 7]  # each alone tells seven apart


@pytest.mark.parametrize("background", [WEIGHTS(value) for value in np.linspace(0, 1, 9)])
def test_numbers_stand_out_from_their_cell(background):
    a, b = sorted([luminance(background[:3]), luminance(ink_on(background[:3]))])
    assert (b + 0.05) / (a + 0.05) > 4.4


def test_bars_differ_in_grey_print_too():
    ax = plot.bars(["a"], {f"seed {i}": [1.0] for i in range(7)})
    assert len({bar.get_hatch() for bar in ax.patches}) == 7
    assert [matplotlib.colors.to_hex(bar.get_facecolor()) for bar in ax.patches] == [*COLOURS.values()]


def test_the_theme_changes_nothing_that_is_not_its_own():
    code = (
        "import sys, matplotlib; from matplotlib.colors import to_hex; sys.path.insert(0, sys.argv[1])\n"
        "before, blue = dict(matplotlib.rcParams), to_hex('b')\n"
        "import heed.plot\n"
        "print(to_hex('b') == blue, *(key for key in before if before[key] != matplotlib.rcParams[key]))"
    )
    library = str(Path(plot.__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", code, library], capture_output=True, encoding="utf-8")
    same_letters, *changed = done.stdout.split()
    assert same_letters == "True", done.stderr
    groups = set("font figure savefig axes grid text xtick ytick lines legend hatch".split())
    assert {key.split(".")[0] for key in changed} <= groups and "font.family" in changed
    # "patch.edgecolor" above all: white frames around a reader's own boxes would be lost on white paper
    assert not {"image.cmap", "patch.edgecolor", "font.sans-serif", "lines.solid_capstyle"} & set(changed)


def test_coloured_words_are_dark_enough():
    assert all(1.05 / (luminance(as_text(colour)) + 0.05) >= 4.5 for colour in COLOURS.values())


# --- Maps -----------------------------------------------------------------------------------------------


def test_a_map_shows_the_numbers_and_labels_given():
    table = torch.tensor([[0.25, 0.75, 0.0], [0.5, 0.0, 0.5]], requires_grad=True)
    ax = plot.heatmap(table, ["q", "r"], ["a", "b", "c"], "Title", "key", "query")
    (mesh,) = ax.collections
    assert np.array_equal(mesh.get_array(), table.detach().numpy())
    assert np.array_equal(mesh.get_facecolors(), WEIGHTS(table.detach().numpy().ravel()))
    assert mesh.get_clim() == (0, 1)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["q", "r"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "b", "c"]
    assert [text.get_text() for text in ax.texts] == ["0.25", "0.75", "0.00", "0.50", "0.00", "0.50"]
    assert [text.get_position() for text in ax.texts][:4] == [(0, 0), (1, 0), (2, 0), (0, 1)]
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == ("Title", "key", "query")
    assert ax.yaxis_inverted()  # the first row is on top


@pytest.mark.parametrize("draw", [plot.heatmap, plot.scoremap])
def test_cell_i_j_is_about_the_point_j_i(draw):
    ax = draw([[0.0, 1.0, 0.5], [0.5, 0.5, 0.5]])
    (mesh,) = ax.collections
    to_data = mesh.get_transform() - ax.transData
    grid = np.array([to_data.transform(row) for row in mesh.get_coordinates()])  # (3, 4, 2)
    assert np.allclose(grid[:-1, :-1] + 0.5, np.moveaxis(np.mgrid[:2, :3][::-1], 0, -1))
    assert np.allclose(grid[1:, 1:] - 0.5, grid[:-1, :-1] + 0.5)
    assert [text.get_position() for text in ax.texts] == [(j, i) for i in range(2) for j in range(3)]
    assert (ax.get_xlim(), ax.get_ylim()) == ((-0.5, 2.5), (1.5, -0.5))


@pytest.mark.parametrize("draw", [plot.heatmap, plot.scoremap])
def test_each_number_stands_out_from_the_cell_that_it_is_in(draw):
    ax = draw(np.linspace(0.02, 1, 12).reshape(3, 4))
    for text, cell in zip(ax.texts, ax.collections[0].get_facecolors(), strict=True):
        a, b = sorted([luminance(text.get_color()), luminance(cell[:3])])
        assert (b + 0.05) / (a + 0.05) > 4.4, text.get_text()  # seaborn's own choice of ink: 2.3


def test_cells_are_square_and_large_maps_have_no_numbers():
    for ax in (FIGURES["heatmap 10 x 12"](), FIGURES["heatmap 40 x 40"](), FIGURES["heatmap 1 x 3"]()):
        ax.figure.canvas.draw()
        box, (n_rows, n_columns) = ax.get_window_extent(), ax.collections[0].get_array().shape
        assert box.width / n_columns == pytest.approx(box.height / n_rows, rel=0.01)
    assert not FIGURES["heatmap 40 x 40"]().texts


def test_the_colour_bar_belongs_to_the_map():
    ax = plot.heatmap([[0.1, 0.2]], vmax=0.2, meaning="share")
    bar = ax.collections[0].colorbar
    assert bar.mappable is ax.collections[0] and (bar.vmin, bar.vmax) == (0, 0.2)
    assert "share" in (bar.ax.get_xlabel(), bar.ax.get_ylabel())


def test_scores_are_symmetric_about_zero_and_the_masked_ones_are_grey():
    scores = np.array([[-2.5, 1.0], [-np.inf, 0.0]])
    ax = plot.scoremap(scores)
    (mesh,) = ax.collections
    assert mesh.get_clim() == (-2.5, 2.5)
    assert [text.get_text() for text in ax.texts] == ["−2.50", "1.00", "−∞", "0.00"]
    assert np.ma.getmaskarray(mesh.get_array()).tolist() == [[False, False], [True, False]]
    ax.figure.canvas.draw()
    assert [matplotlib.colors.to_hex(cell) for cell in mesh.get_facecolors()][2:] == ["#bbbbbb", "#f8f8f9"]


def test_maps_on_one_page_share_a_scale_and_a_colour_bar():
    maps = {name: (weights(3, 5), list("abc"), list("vwxyz")) for name in ("one", "two", "three")}
    axes = plot.heatmaps(maps, {"two": [(2, 4)]}, "Three")
    figure = axes[0].figure
    drawn = [ax for ax in figure.axes if ax.collections and ax.get_title()]
    bars = [ax for ax in figure.axes if ax.get_xlabel() == "weight"]
    assert [ax.get_title() for ax in axes] == [*maps] and len(drawn) == 3 and len(bars) == 1
    assert {ax.collections[-1].get_clim() for ax in axes} == {(0, 1.0)}
    for ax, (table, _, _) in zip(axes, maps.values(), strict=True):
        assert np.allclose(ax.collections[-1].get_array().reshape(3, 5), table)
    marks = [[patch for patch in ax.patches if not patch.get_fill()] for ax in axes]
    assert [len(patches) for patches in marks] == [0, 1, 0]
    assert marks[1][0].get_xy() == (3.5, 1.5)  # the cell in row 2, column 4


def test_the_parts_of_a_step_are_numbered_in_order():
    ax = plot.attending(list("abcd"), ["x", "y"], np.full(4, 0.25))
    marks = [text for text in ax.texts if set(text.get_text()) & set("①②③④⑤⑥")]
    assert sorted(text.get_text()[0] for text in marks) == list("①②③④⑤⑥")


def test_maps_stand_side_by_side():
    figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3.6))
    plot.heatmap(weights(6, 6), None, ["alpha"] * 6, "Left", "key", "query", ax=left)
    plot.scoremap(weights(6, 6), None, list("abcdef"), "Right", "key", "query", ax=right)
    shapes = [(text.get_text(), corners(text, box)) for text, box in drawn_texts(figure)]
    assert not [(a, b) for (a, x), (b, y) in combinations(shapes, 2) if overlap(x, y)]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: plot.heatmap([[0.5, 1.25]]),
            r"weights go from 0\.5 to 1\.25, but .* 0 to 1: .*vmax.*scoremap",
        ),
        (lambda: plot.heatmap([[0.5, -0.25]]), r"weights go from -0\.25 to 0\.5"),
        (lambda: plot.heatmap([[0.5, 0.3]], vmax=0.4), r"0 to 0\.4"),
        (lambda: plot.heatmap([[0.5, np.nan]]), "nan in row 0, column 1, has no colour"),
        (lambda: plot.scoremap([[0.5], [np.inf]]), "inf in row 1, column 0, has no colour"),
        (lambda: plot.heatmap([0.5, 0.5]), r"table \(n_q, n_k\).*\(2,\)"),
        (lambda: plot.heatmap(np.zeros((0, 3))), r"\(0, 3\)"),
        (
            lambda: plot.heatmap([[0.5, 0.5]], ["q"], ["a", "b", "c"]),
            r"2 columns need 2 labels, but there are 3: \['a'",
        ),
        (lambda: plot.heatmap([[0.5, 0.5]], ["q", "r"]), "1 rows need 1 labels, but there are 2"),
        (
            lambda: plot.curves([1, 2], {"a": [1, 2, 3]}),
            r"'a' needs 2 numbers in a row, but the shape is \(3,\)",
        ),
        (lambda: plot.curves([1, 2], {"a": [1, np.inf]}), "'a' has inf at index 1"),
        (lambda: plot.curves([1, 2], {"a": [[1, 2], [1, np.nan]]}), "'a' has nan at index 1"),
        (lambda: plot.curves([1, 2], {"a": np.zeros((0, 2))}), r"the shape is \(0, 2\)"),
        (
            lambda: plot.curves([1, 2], {"a": [[1, 2], [3, 4]]}, bands={"a": ([1, 2], [1, 2])}),
            r"'a' needs 2 numbers in a row, but the shape is \(2, 2\)",
        ),
        (lambda: plot.curves([1, 2], {}), "nothing to draw"),
        (
            lambda: plot.curves([1, 2], {"a": [1, 2]}, bands={"b": ([1, 2], [1, 2])}),
            r"'b' belongs to none .*\['a'\]",
        ),
        (
            lambda: plot.curves([1, 2], {"a": [1, 2]}, bands={"a": ([1], [1, 2])}),
            "the band of 'a' needs 2 numbers",
        ),
        (
            lambda: plot.bars(["a", "b"], [1, 2], bands=([0, 3], [2, 1])),
            "the band of '' goes from 3 down to 1 at index 1",
        ),
        (lambda: plot.bars(["a", "b"], [1]), "needs 2 numbers"),
        (lambda: plot.hbars(["a", "b"], {"s": [1, np.nan]}), "'s' has nan at index 1"),
        (lambda: plot.network("M→N"), "'M→N' is none of N→N"),
        (lambda: plot.network("N→N", ["a", "b"], ["c"]), "N→N cannot have 2 inputs and 1 outputs"),
        (lambda: plot.network("N→1", ["a", "b"], ["c", "d"]), "N→1 cannot have 2 inputs and 2 outputs"),
        (lambda: plot.network("1→N", ["a", "b"], ["c"]), "1→N cannot have 2 inputs and 1 outputs"),
        (lambda: plot.network("N→1", "Berlin", ["c"]), r"'Berlin' is one string: .*list\('Berlin'\)"),
        (lambda: plot.network("N→1", [], ["c"]), "no token"),
        (
            lambda: plot.network("N→1", ["word"] * 30, ["c"]),
            r"30 columns of tokens need .* inches; the page has",
        ),
        (
            lambda: plot.attending(["a", "b"], ["c"], [1.0]),
            r"2 inputs need 2 weights, but the shape is \(1,\)",
        ),
        (lambda: plot.attending(["a", "b"], ["c"], [1.5, 0]), "these go from 0 to 1.5"),
        (lambda: plot.heatmaps({"a": ([[1.0]], ["x"], ["y"])}, {"b": [(0, 0)]}), "marked in 'b'"),
        (lambda: plot.heatmaps({"a": ([[1.0]], ["x"], ["y"])}, {"a": [(0, 1)]}), "marked in 'a', a map of"),
        (lambda: plot.heatmaps({}), "at least one map"),
        (lambda: plot.attending(["a", "b"], ["c"], [np.nan, 0]), "between 0 and 1"),
        (
            lambda: plot.alignment([[1, 0]], ["a"], ["b"]),
            r"1 target and 1 source tokens .* \(1, 1\), not \(1, 2\)",
        ),
        (lambda: plot.network("N→1", first="<bos>"), "N→1 writes nothing that is read again"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


# --- Curves and bars ------------------------------------------------------------------------------------


def test_curves_are_the_numbers_given():
    x, y = np.array([1, 2, 4]), np.array([3.0, 1.0, 2.0])
    ax = plot.curves(x, {"a": torch.tensor(y)}, "T", "step", "loss", bands={"a": (y - 1, y + 1)})
    assert np.array_equal(ax.lines[0].get_xydata(), np.stack([x, y], axis=1))
    band = ax.collections[0].get_paths()[0].get_extents()
    assert (band.y0, band.y1) == (0, 4)


RUNS = [[1.0, 2.0, 9.0], [4.0, 2.5, 0.0], [2.5, 9.0, 3.0]]  # (n_runs, n)
MEANS, MEDIANS = [2.5, 4.5, 4.0], [2.5, 2.5, 3.0]


@pytest.mark.parametrize(("estimator", "line"), [("mean", MEANS), ("median", MEDIANS)])
def test_runs_are_drawn_as_their_middle_in_a_band_from_the_lowest_to_the_highest(estimator, line):
    ax = plot.curves([3, 1, 2], {"runs": torch.tensor(RUNS), "one": [0, 1, 0]}, estimator=estimator)
    assert ax.lines[0].get_xydata().tolist() == [[3, line[0]], [1, line[1]], [2, line[2]]]
    assert ax.lines[1].get_xydata().tolist() == [[3, 0], [1, 1], [2, 0]]
    edges = {tuple(corner) for corner in ax.collections[0].get_paths()[0].vertices.tolist()}
    assert edges == {(3, 1), (3, 4), (1, 2), (1, 9), (2, 0), (2, 9)}


@pytest.mark.parametrize(("draw", "length"), [(plot.bars, "get_height"), (plot.hbars, "get_width")])
def test_bars_of_runs_have_whiskers_from_the_lowest_to_the_highest(draw, length):
    ax = draw(["a", "b", "c"], np.array(RUNS), estimator="median")
    assert [getattr(bar, length)() for bar in ax.patches] == MEDIANS
    whiskers = [line.get_data()[1 if draw is plot.bars else 0].tolist() for line in ax.lines[:3]]
    assert whiskers == [[1, 4], [2, 9], [0, 9]]
    ends = [text.xy[1 if draw is plot.bars else 0] for text in ax.texts]
    assert ends == [4, 9, 9]  # each number stands beyond its whisker


def test_a_line_outside_its_band_and_the_band_are_drawn_as_they_are():
    ax = plot.curves([1, 2], {"a": [5.0, 0.0]}, bands={"a": ([1.0, 1.0], [2.0, 3.0])})
    assert ax.lines[0].get_ydata().tolist() == [5, 0]
    band = ax.collections[0].get_paths()[0].get_extents()
    assert (band.y0, band.y1) == (1, 3)


def test_points_that_share_an_x_are_not_averaged():
    jump = plot.curves([1, 2, 2, 1], {"jump": [0, 1, 5, 6]})
    assert jump.lines[0].get_xydata().tolist() == [[1, 0], [2, 1], [2, 5], [1, 6]]
    with pytest.raises(ValueError, match=r"x of 'a' has 1 twice, and a band needs it once"):
        plot.curves([1, 1], {"a": [1, 2]}, bands={"a": ([1, 2], [1, 2])})


def test_names_that_look_alike_stay_two_series():
    for draw in (plot.curves, plot.bars):
        ax = draw([1, 2], {" ": [1, 2], "\u00a0": [3, 4]})
        drawn = [list(line.get_ydata()) for line in ax.lines[:2]]
        heights = [bar.get_height() for bar in ax.patches]
        assert drawn == [[1, 2], [3, 4]] or heights == [1, 2, 3, 4]
    assert [bar.get_height() for bar in plot.bars(["x", "x"], [1, 2]).patches] == [1, 2]


def test_curves_may_differ_in_x():
    ax = plot.curves({"a": [1, 2, 3], "b": [1, 5]}, {"a": [1, 2, 3], "b": [4, 5]})
    assert ax.lines[1].get_xdata().tolist() == [1, 5]


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_names_at_the_ends_keep_apart_in_order_and_on_the_page(scale):
    ax = plot.curves(
        STEPS, {name: 1 / STEPS + offset for name, offset in zip("abcd", (0, 0.001, 0.002, 2), strict=True)}
    )
    ax.set_yscale(scale)
    ax.figure.canvas.draw()
    boxes = [child.get_window_extent() for child in ax.get_children() if isinstance(child, EndLabel)]
    assert len(boxes) == 4
    assert all(lower.y1 <= upper.y0 for lower, upper in pairwise(boxes))
    assert all(box.x1 <= ax.figure.bbox.x1 and box.y0 >= 0 for box in boxes)
    end = ax.transData.transform((STEPS[-1], 1 / STEPS[-1] + 2))[1]
    assert (boxes[3].y0 + boxes[3].y1) / 2 == pytest.approx(end, abs=3)  # alone: at its curve's end


def test_apart_moves_no_more_than_needed():
    assert apart([0, 10, 20], 5).tolist() == [0, 10, 20]
    assert apart([4, 4], 2).tolist() == [3, 5]
    assert np.allclose(apart([9, 0, 1, 0.5], 2), [9, -1.5, 2.5, 0.5])


def test_many_curves_get_a_legend_that_names_them_all():
    ax = FIGURES["curves, many"]()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [f"seed {i}" for i in range(9)]
    assert not [child for child in ax.get_children() if isinstance(child, EndLabel)]


@pytest.mark.parametrize(("draw", "length"), [(plot.bars, "get_height"), (plot.hbars, "get_width")])
def test_bars_are_the_numbers_given_and_start_at_zero(draw, length):
    ax = draw(["a", "b"], {"s": [0.5, -0.25], "t": [0.125, 1]}, bands={"s": ([0.25, -0.5], [0.75, 0])})
    assert [getattr(bar, length)() for bar in ax.patches] == [0.5, -0.25, 0.125, 1]
    assert {bar.get_y() if draw is plot.bars else bar.get_x() for bar in ax.patches} <= {0}
    assert [text.get_text() for text in ax.texts] == ["0.50", "−0.25", "0.12", "1.00"]
    along, across = (1, 0) if draw is plot.bars else (0, 1)
    for whisker, bar, ends in zip(ax.lines, ax.patches, [[0.25, 0.75], [-0.5, 0]], strict=False):
        assert list(whisker.get_data()[along]) == ends
        assert whisker.get_data()[across] == pytest.approx([bar.get_center()[across]] * 2)
    assert np.isnan([whisker.get_data()[along] for whisker in ax.lines[2:4]]).all()  # "t" has no band
    low, high = ax.get_ylim() if draw is plot.bars else ax.get_xlim()
    assert low < -0.5 and high > 1


def test_lying_bars_have_the_first_label_on_top():
    ax = plot.hbars(["first", "second"], [1, 2])
    ax.figure.canvas.draw()
    first, second = (label.get_window_extent() for label in ax.get_yticklabels())
    assert first.y0 > second.y1


# --- Networks -------------------------------------------------------------------------------------------


def arrows(ax):
    return [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]


@pytest.mark.parametrize(
    "name",
    [
        *"N→N/N⇄N/N→1/1→N/N→M/1→N, first/N→M, first/attending/attending, first/attending, crowded".split("/"),
        *"alignment/alignment, crowded".split("/"),
    ],
)
def test_each_text_of_a_drawing_stays_inside_its_shape(name):
    ax = FIGURES[name]()
    ax.figure.canvas.draw()
    shapes = [
        patch
        for patch in ax.patches
        if isinstance(patch, Circle | FancyBboxPatch) and patch.get_zorder() == 3
    ]
    boxes = [patch.get_window_extent() for patch in shapes]
    for text in ax.texts:
        extent = text.get_window_extent()
        if not text.get_text():
            continue
        middle = (extent.x0 + extent.x1) / 2, (extent.y0 + extent.y1) / 2
        home = [box for box in boxes if box.contains(*middle)]
        for box in home:
            assert box.x0 <= extent.x0 and extent.x1 <= box.x1 and box.y0 <= extent.y0 and extent.y1 <= box.y1
    for one, other in combinations(boxes, 2):
        assert not one.overlaps(other)


@pytest.mark.parametrize(
    ("shape", "inputs", "outputs", "n_states", "n_arrows"),
    [
        ("N→N", 3, 3, 3, 3 + 2 + 3),
        ("N⇄N", 3, 3, 6, 6 + 2 + 2 + 6),
        ("N→1", 3, 1, 3, 3 + 2 + 1),
        ("1→N", 1, 3, 4, 1 + 3 + 3 + 2),
        ("N→M", 3, 2, 5, 3 + 2 + 1 + 1 + 2 + 1),
    ],
)
def test_a_shape_has_its_states_arrows_and_tokens(shape, inputs, outputs, n_states, n_arrows):
    read, wrote = [f"in{i}" for i in range(inputs)], [f"out{i}" for i in range(outputs)]
    ax = plot.network(shape, read, wrote)
    texts = [text.get_text() for text in ax.texts]
    assert [text for text in texts if text.startswith("in") and text != "input"] == read
    assert [text for text in texts if text.startswith("out") and text != "output"] == wrote
    assert sum(isinstance(patch, Circle) for patch in ax.patches) == n_states
    assert len(arrows(ax)) == n_arrows
    ax.figure.canvas.draw()
    heights = {text.get_text(): text.get_window_extent().y0 for text in ax.texts}
    assert heights["in0"] < heights["out0"]


@pytest.mark.parametrize(("shape", "inputs"), [("1→N", 1), ("N→M", 3)])
def test_a_writer_reads_its_first_token_below_the_state_that_writes_first(shape, inputs):
    inputs = [f"in{i}" for i in range(inputs)]
    without = plot.network(shape, inputs, ["a", "b"])
    ax = plot.network(shape, inputs, ["a", "b"], first="<bos>")
    assert len(arrows(ax)) == len(arrows(without)) + 1
    at = {text.get_text(): text.get_position() for text in ax.texts}
    assert at["<bos>"][0] == at["a"][0] and at["<bos>"][1] == at["in0"][1] < at["a"][1]


def test_one_arrow_carries_everything():
    widths = sorted(arrow.get_linewidth() for arrow in arrows(plot.network("N→M")))
    assert widths[-1] >= 3 * widths[-2]


def test_default_tokens_are_symbols_and_ascii_arrows_are_understood():
    texts = [text.get_text() for text in plot.network("N->1").texts]
    assert "$x_{4}$" in texts and "$y$" in texts


def test_a_dollar_is_a_dollar():
    ax = plot.network("N→1", ["$", "$5 or $6"], ["MONEY"])
    ax.figure.canvas.draw()
    plain = plot.network("N→1", ["€", "€5 or €6"], ["MONEY"])
    wide, same = (figure.texts[1].get_window_extent().width for figure in (ax, plain))
    assert wide == pytest.approx(same, rel=0.05)
    png(plot.heatmap([[0.5, 0.5]], ["$5 or $6"], ["$x$", "$"]))


def test_arrows_of_attention_are_as_wide_as_the_weights():
    shares = np.array([0.05, 0.7, 0.0, 0.25])
    ax = plot.attending(list("abcd"), ["x", "y"], shares)
    found = [arrow for arrow in arrows(ax) if arrow.get_linewidth() not in (1.1, 1.3, 1.6, 3)]
    assert np.allclose([arrow.get_linewidth() for arrow in found], 0.5 + 6 * shares)
    assert [t.get_text() for t in ax.texts if "." in t.get_text()] == ["0.05", "0.70", "0.00", "0.25"]


def test_context_and_previous_token_go_into_the_new_state_and_into_the_output():
    ax = plot.attending(list("abcd"), ["x", "y"], np.full(4, 0.25))
    places = {text.get_text(): text.get_position() for text in ax.texts}
    shapes = [patch for patch in ax.patches if hasattr(patch, "place")]
    shape = {
        name: min(shapes, key=lambda patch: math.dist(patch.place, places[name]))
        for name in ("<bos>", "$s_{0}$", "x", "$s_{1}$", "y", "$s_{2}$", "$c_{2}$")
    }
    into = Counter(id(arrow.patchB) for arrow in arrows(ax))
    counts = {name: into[id(patch)] for name, patch in shape.items()}
    assert counts == {"<bos>": 0, "$s_{0}$": 0, "x": 2, "$s_{1}$": 2, "y": 3, "$s_{2}$": 3, "$c_{2}$": 5}


def test_lines_of_an_alignment_are_as_wide_as_the_weights():
    ax = plot.alignment([[0.25, 0.75], [1, 0]], ["a", "b"], ["x", "y"])
    assert [line.get_linewidth() for line in ax.lines] == [2.0, 5.0, 6.5]  # a weight of 0 has no line
    places = {text.get_text(): text.get_position()[0] for text in ax.texts}
    assert ax.lines[1].get_xdata().tolist() == [places["b"], places["x"]]


def test_four_shapes_fit_one_figure():
    figure, axes = plt.subplots(2, 2, figsize=(7, 5))
    for shape, ax in zip(("N→N", "N→1", "1→N", "N→M"), axes.flat, strict=True):
        assert plot.network(shape, title=shape, ax=ax) is ax
    shapes = [(text.get_text(), corners(text, box)) for text, box in drawn_texts(figure)]
    assert not [(a, b) for (a, x), (b, y) in combinations(shapes, 2) if overlap(x, y)]
    with pytest.raises(
        ValueError, match=r"needs .* inches, and this Axes has only .* make the figure larger"
    ):
        plot.network("N→M", ax=plt.subplots(figsize=(2, 2))[1])


def test_a_weight_that_rounding_has_lifted_above_one_has_a_colour():
    plot.alignment([[1 + 5e-7, 0], [0, 1]], ["a", "b"], ["x", "y"]).figure.canvas.draw()


def test_bfloat16_is_drawn_and_says_the_same():
    table = torch.tensor([[0.25, 0.75], [1.0, 0.0]], requires_grad=True)
    one, other = (plot.heatmap(t, ["a", "b"], ["x", "y"]) for t in (table, table.bfloat16()))
    assert [t.get_text() for t in one.texts] == [t.get_text() for t in other.texts]


def test_numbers_of_very_different_size_have_two_figures_each_and_no_exponent():
    assert significant(np.array([250.5, 1.2])) == ["250", "1.2"]
    assert significant(np.array([0.012, -0.0346])) == ["0.012", "\N{MINUS SIGN}0.035"]
