"""One look for all figures: fonts with every character, colours for the colour-blind and for grey print."""

from functools import cache, lru_cache
from pathlib import Path

import matplotlib
import numpy as np
import seaborn as sns
from matplotlib import font_manager
from matplotlib.colors import ListedColormap, to_hex, to_rgb
from matplotlib.ft2font import FT2Font
from seaborn.utils import relative_luminance as luminance  # from 0 (black) to 1 (white), by WCAG 2

# Of seaborn's ten colours for the colour-blind, the six that stay apart and stand out from white paper.
BLUE, ORANGE, GREEN, RED, PURPLE, _, _, _, _, SKY = sns.color_palette("colorblind").as_hex()
COLOURS = {"blue": BLUE, "orange": ORANGE, "green": GREEN, "red": RED, "sky": SKY, "purple": PURPLE}
COLOURS["black"] = "#000000"
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
HATCHES = ["", "///", "...", "\\\\\\", "xx", "++", "oo"]
INK = "#262626"  # seaborn's colour of text
# What seaborn's theme would change besides, also in figures that are not ours: it stays as it is.
KEPT = ["image.cmap", "patch.edgecolor", "patch.force_edgecolor", "lines.solid_capstyle", "font.sans-serif"]

CJK = Path(__file__).parent / "fonts" / "HeedCJK.otf"
# Fonts with more characters that a reader's own machine may have, for the reader's own sentences.
MORE = ["Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Noto Sans JP", "PingFang SC"]
MORE += ["Hiragino Sans", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "Noto Sans", "Arial Unicode MS"]


def style():
    """Set the fonts, the palette and the resolution for every figure that follows.

    Latin, Greek, Cyrillic: DejaVu Sans, which comes with matplotlib. Chinese, Japanese, Korean: a part of
    Noto Sans CJK that comes with heed. After these two, whatever larger font the machine has.
    """
    known = set(font_manager.get_font_names())
    if "Heed CJK" not in known:
        font_manager.fontManager.addfont(CJK)
    rc = {
        "font.family": ["DejaVu Sans", "Heed CJK", *(name for name in MORE if name in known)],
        "figure.dpi": 110,
        "savefig.dpi": 110,
        "figure.figsize": (6.4, 4.0),
        "figure.constrained_layout.use": True,
        "figure.constrained_layout.h_pad": 0.07,
        "figure.constrained_layout.w_pad": 0.07,
        "axes.titlepad": 10,
        "axes.edgecolor": INK,
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "grid.color": "#DDDDDD",
        "lines.linewidth": 1.8,
        "lines.markersize": 6.5,
        "legend.frameon": False,
        "hatch.linewidth": 0.6,
    } | {key: matplotlib.rcParams[key] for key in KEPT}
    sns.set_theme(style="whitegrid", palette=list(COLOURS.values()), font_scale=0.9, rc=rc)
    _fonts.cache_clear()
    written.cache_clear()


@cache
def _fonts():
    """The fonts of the style, opened."""
    return [FT2Font(font_manager.findfont(name)) for name in matplotlib.rcParams["font.family"]]


@lru_cache(maxsize=4096)
def written(text):
    """The text as it is drawn: a token of nothing but blanks becomes a visible ␣, ↵ or ⇥.

    Raises ValueError, naming the character, if no font at hand has it: an empty box would say nothing.
    """
    text = str(text)
    if text.isspace():
        text = "".join({"\n": "↵", "\t": "⇥"}.get(character, "␣") for character in text)
    for character in text:
        if character != "\n" and not any(font.get_char_index(ord(character)) for font in _fonts()):
            raise ValueError(
                f"no font at hand has the character {character!r} (U+{ord(character):04X}) of {text!r}: "
                "install Noto Sans CJK, or a font of that script named in heed.plot.style.MORE"
            )
    return text


def ink_on(background):
    """White or black, whichever is read more easily on this background: the contrast is at least 4.5 : 1."""
    bright = luminance(background)
    return "white" if 1.05 / (bright + 0.05) > (bright + 0.05) / 0.05 else "black"


def as_text(colour):
    """The colour, darkened until letters in it are read easily on white (contrast 4.5 : 1, WCAG 2)."""
    rgb = np.array(to_rgb(colour))
    while 1.05 / (luminance(rgb) + 0.05) < 4.5:
        rgb = rgb * 0.95
    return to_hex(rgb)


def ramp(*stops, n=256):
    """A colour map on straight lines between colours in CIELAB, so that equal steps of the number look equal.

    stops: two or more points (L, a, b), L from 0 (black) to 100 (white)
    """
    stops = np.array(stops, dtype=float)  # (n_stops, 3)
    places = np.linspace(0, 1, len(stops))
    L, a, b = (np.interp(np.linspace(0, 1, n), places, axis) for axis in stops.T)  # (n,) each
    y = (L + 16) / 116
    f = np.stack([y + a / 500, y, y - b / 200], axis=1)  # (n, 3)
    xyz = np.where(f > 6 / 29, f**3, 3 * (6 / 29) ** 2 * (f - 4 / 29)) * [0.9505, 1, 1.089]  # white is D65
    srgb = np.array([[3.2406, -1.5372, -0.4986], [-0.9689, 1.8758, 0.0415], [0.0557, -0.2040, 1.0570]])
    linear = (xyz @ srgb.T).clip(0, 1)
    rgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)  # (n, 3)
    return ListedColormap(rgb).with_extremes(bad="#BBBBBB")


WEIGHTS = ramp((100, 0, 0), (62, -5, -34), (24, 14, -46))  # white to dark blue, for weights from 0 to 1
SCORES = ramp((30, 26, 38), (64, 24, 38), (98, 0, 0), (61, -5, -34), (24, 14, -46))  # brown, white at 0, blue
