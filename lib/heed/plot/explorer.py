"""The attention explorer: a model's attention, all layers and heads, to move through by mouse, touch or keys.

What is shown first is an HTML table that needs no script, for a notebook that nobody has trusted yet shows
no more than that. On top of it stands plain JavaScript (explorer.js): no library, no network, no ids.
"""

import json
from html import escape
from pathlib import Path

import numpy as np
from matplotlib.colors import to_hex

from heed.plot.charts import as_array
from heed.plot.style import WEIGHTS, ink_on

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
LOUD = 10  # per cent: weights from here on are written into their cell
STYLE, SCRIPT = (
    Path(__file__).with_name(f"explorer.{kind}").read_text(encoding="utf-8") for kind in ("css", "js")
)


def explorer(maps, rows, columns, title="Attention"):
    """Show what every token attends to, for each kind of attention, each layer, each head and their mean.

    maps: from the name of each kind ("source", "encoder", "decoder") to its weights, an array
        [layer, head, row, column] of numbers from 0 to 1; the kind that stands first is shown first
    rows: the tokens that look, a list, or one list for each kind
    columns: the tokens that are looked at, likewise
    title: what stands above

    Returns an Explorer: a notebook shows it, and `save` writes it as a page that works without a network.
    Raises ValueError if there is no map, or if weights and labels do not fit together.
    """
    if not maps:
        raise ValueError("an explorer needs at least one map of weights, got none")
    kinds = []
    for name, given in maps.items():
        weights = as_array(given)
        labels = [tokens[name] if isinstance(tokens, dict) else tokens for tokens in (rows, columns)]
        _check(name, weights, *labels)
        kinds.append(_Kind(str(name), weights, *([_visible(token) for token in line] for line in labels)))
    return Explorer(kinds, str(title))


class Explorer:
    """Maps of attention as HTML: `_repr_html_` is for notebooks, `save` for a page of its own."""

    def __init__(self, kinds, title):
        self.kinds = kinds
        self.title = title

    def __repr__(self):
        return f"Explorer({self.title!r}: {', '.join(kind.name for kind in self.kinds)})"

    def _repr_html_(self):
        """The first frame, the weights, and the script that brings them to life."""
        data = json.dumps([kind.packed() for kind in self.kinds], ensure_ascii=False, separators=(",", ":"))
        title = escape(self.title)
        return (
            f'<div class="heed-explorer" role="group" aria-label="{title}" data-maps="{escape(data)}">'
            f'<style>{STYLE}</style><p style="font-weight: bold; margin: 0.3em 0">{title}</p>'
            f'<div class="heed-view">{self.kinds[0].table()}</div><script>{SCRIPT}</script></div>'
        )

    def save(self, path):
        """Write one HTML file that needs nothing else. Returns its path."""
        path = Path(path)
        page = (
            '<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<title>{escape(self.title)}</title>\n<body class="heed-page">\n{self._repr_html_()}\n'
        )
        path.write_text(page, encoding="utf-8", newline="\n")
        return path


class _Kind:
    """One kind of attention: its name, its weights in thousandths, its tokens."""

    def __init__(self, name, weights, rows, columns):
        self.name = name
        self.thousandths = np.rint(weights * 1000).astype(int)
        self.rows = rows
        self.columns = columns

    def packed(self):
        """What the script needs. Each weight is two digits to the base of 64, of a number from 0 to 1000."""
        n_layers, n_heads = self.thousandths.shape[:2]
        digits = "".join(DIGITS[k // 64] + DIGITS[k % 64] for k in self.thousandths.flat)
        return {
            "name": self.name,
            "layers": n_layers,
            "heads": n_heads,
            "rows": self.rows,
            "columns": self.columns,
            "weights": digits,
        }

    def table(self):
        """The last layer, the mean of its heads, as a table whose looks are written into it."""
        n_layers, n_heads = self.thousandths.shape[:2]
        mean = self.thousandths[-1].mean(axis=0) / 1000
        plain = "border: none; background: none; font-weight: normal; padding: 1px 3px"
        upright = f"{plain}; writing-mode: vertical-rl; vertical-align: bottom; text-align: right"
        head = "".join(f'<th scope="col" style="{upright}"><bdi>{escape(t)}</bdi></th>' for t in self.columns)
        body = ""
        for row, line in zip(self.rows, mean, strict=True):
            name = f'<th scope="row" style="{plain}; text-align: right"><bdi>{escape(row)}</bdi></th>'
            cells = "".join(_cell(w, row, token) for w, token in zip(line, self.columns, strict=True))
            body += f'<tr style="background: none">{name}{cells}</tr>'
        return (
            f'<p style="margin: 0.3em 0">{escape(self.name)}, layer {n_layers}, mean of {n_heads} heads: '
            "a row is a token that looks, a column one that is looked at, a number per cent. "
            "Trust this notebook, or run the cell, to move through all layers and heads.</p>"
            '<table style="border-collapse: collapse; background: #fff; color: #000; line-height: 1.2">'
            f'<tr style="background: none"><td style="{plain}"></td>{head}</tr>{body}</table>'
        )


def _cell(weight, row, column):
    """One weight: its colour, its number where there is room for attention, and all of it in its title."""
    colour = to_hex(WEIGHTS(weight))
    number = int(100 * weight + 0.5) if 100 * weight >= LOUD else ""
    return (
        f'<td style="background: {colour}; color: {ink_on(colour)}; border: 1px solid #ddd; padding: 1px; '
        f'min-width: 1.6em; text-align: center; font-size: 0.75em" title="{escape(row)} → {escape(column)}: '
        f'{weight:.3f}">{number}</td>'
    )


def _check(name, weights, rows, columns):
    """Refuse weights and labels that do not fit together, with the numbers that differ."""
    if weights.ndim != 4 or 0 in weights.shape:
        raise ValueError(
            f"the weights of {name!r} have shape {weights.shape}; they need four axes, none of them empty: "
            "layers, heads, rows (tokens that look), columns (tokens that are looked at)"
        )
    for what, labels, n in zip(("rows", "columns"), (rows, columns), weights.shape[2:], strict=True):
        if len(labels) != n:
            raise ValueError(f"the weights of {name!r} have {n} {what}, and there are {len(labels)} labels")
    if not (weights.min() >= -1e-6 and weights.max() <= 1 + 1e-6):  # a nan fails as well
        raise ValueError(
            f"the weights of {name!r} run from {weights.min():.3g} to {weights.max():.3g}; "
            "attention weights are numbers from 0 to 1 (are these scores, from before the softmax?)"
        )


def _visible(token):
    """The token as it can be seen: blanks and control characters get a sign of their own."""
    shown = "".join(chr(0x2400 + ord(c)) if ord(c) < 32 else c for c in str(token))
    shown = shown.encode("utf-8", "replace").decode("utf-8")
    return "␣" * max(1, len(shown)) if not shown.strip() else shown
