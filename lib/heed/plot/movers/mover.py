"""A mover: a figure whose reader moves what it depends on, and the still picture that stands for it.

A cell that shows one has two outputs: the still picture, as any figure, and HTML whose script puts the moving
figure in the picture's place. Where no script runs (an untrusted notebook, a code host, a page on paper),
the second output shows nothing. Plain JavaScript: no library, no network, no ids.
"""

import base64
import io
import json
from html import escape
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from heed.plot.charts import as_array, wrapped
from heed.plot.style import written


class Mover:
    """One moving figure: a notebook shows it, and `save` writes it as a page of its own.

    `figure` is the still picture; to add to it, before it is shown, is allowed.
    """

    def __init__(self, name, given, figure, title):
        """name: of the script beside this module; given: what it is given, JSON; figure: of matplotlib"""
        self.name, self.given, self.figure, self.title = name, given, figure, title

    def __repr__(self):
        return f"Mover({self.name!r}: {self.title!r})"

    def _ipython_display_(self):
        from IPython.display import display

        display(self.figure)
        display({"text/html": self.html(), "text/plain": repr(self)}, raw=True)

    def html(self):
        """What the script is given, and the script. The same call gives the same text."""
        given = json.dumps(self.given, ensure_ascii=False, separators=(",", ":"))
        looks = json.dumps(_beside("kit.css"))
        start = (
            f'for (const root of document.querySelectorAll(".heed-mover[data-figure={self.name}]")) {{\n'
            "  if (!root.live) begin(root, figure);\n  root.live = true;\n}\n"
        )
        return (
            f'<div class="heed-mover" role="group" aria-label="{escape(self.title)}" '
            f'data-figure="{self.name}" data-given="{escape(given)}"></div>\n'
            f"<script>\n{{\nconst LOOKS = {looks};\n{_beside('kit.js')}\n"
            f"{_beside(self.name + '.js')}\n{start}}}\n</script>"
        )

    def save(self, path):
        """Write one HTML file that needs nothing else. Returns its path."""
        path, png = Path(path), io.BytesIO()
        self.figure.savefig(png, format="png", bbox_inches="tight")
        picture = base64.b64encode(png.getvalue()).decode()
        page = (
            '<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<title>{escape(self.title)}</title>\n<body class="heed-page">\n'
            f'<img src="data:image/png;base64,{picture}" alt="{escape(self.title)}" '
            f'style="max-width: 100%">\n{self.html()}\n'
        )
        path.write_text(page, encoding="utf-8", newline="\n")
        return path


def picture(width, height, title):
    """A new figure of so many inches: not pyplot's, which would show it a second time."""
    figure = Figure(figsize=(width, height))
    figure.suptitle(wrapped(figure, written(title), width - 0.2), fontsize=11)
    return figure


def rounded(values, decimals):
    """The values as nested lists of numbers with so many decimals; whole ones without a point."""
    values = np.round(as_array(values), decimals) + 0.0  # no −0
    whole = (values == np.round(values)).all()
    return (values.astype(int) if whole else values).tolist()


def whole(value, name, least, most):
    """The value as a whole number in a range. Raises ValueError."""
    if int(value) != value or not least <= value <= most:
        raise ValueError(f"{name}={value!r} must be a whole number from {least} to {most}")
    return int(value)


def _beside(name):
    """The text of a file beside this module."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
