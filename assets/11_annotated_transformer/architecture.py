"""Draws architecture.png, the Transformer on one page: a layer of each stack with its masks, its
residuals and the arrows of q, k, v.

One unit of the page is one inch. The encoder stands on the left, the decoder on the right, and both are read
from below. Shapes and masks come from a live run.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import FancyBboxPatch, Rectangle

from heed.attention import causal_mask, padding_mask
from heed.data import dates, pad
from heed.plot.charts import as_array
from heed.plot.networks import LOOKS, Page, Spot
from heed.plot.style import INK
from heed.text import Characters, Vocabulary
from heed.transformer import make_model

ENCODER, DECODER = 0.0, 3.84  # the middle of each column
WIDTH, ICON = 2.5, 0.54
GREY = "#666666"
SHAPES = "source", "target", "embedded source", "embedded target", "memory", "vectors", "hidden", "scores"
MASKS = "encoder", "decoder", "source"


def architecture(shapes, masks, n_layers, title):
    """Draw an encoder–decoder: one layer of each stack, what it adds to, what it may look at.

    shapes: what to write where, a dict of strings with the keys of SHAPES
    masks: bool matrices, True where the query (row) may look at the key (column), with the keys of MASKS
    """
    masks = {name: as_array(mask) for name, mask in masks.items()}
    page = Sheet(None, title)
    page.size = 10.5
    top = _encoder(page, shapes, masks, n_layers)
    asked = _decoder(page, shapes, masks, n_layers)
    channel = (ENCODER + DECODER) / 2
    page.wire([top, (ENCODER, top[1] + 0.3), (channel, top[1] + 0.3), (channel, asked - 0.12)], "bottleneck")
    for letter, up in (("k", 0.12), ("v", -0.12)):
        page.arrow(Spot((channel, asked + up)), Spot((DECODER - WIDTH / 2, asked + up)), "bottleneck")
        page.note(letter, channel + 0.2, asked + up + 0.1, 11, LOOKS["bottleneck"][1])
    words = f"memory {shapes['memory']}"
    page.note(words, (ENCODER + channel) / 2 + 0.05, top[1] + 0.42, 10.5, LOOKS["bottleneck"][1])
    _legend(page, ENCODER - 1.35, top[1] + 0.75)
    return page.finish()


def _encoder(page, shapes, masks, n_layers):
    """The left column. Returns the spot above its last norm."""
    y = _entrance(page, ENCODER, "input", "source ids", shapes["source"], shapes["embedded source"])
    low = y
    y = page.attention(ENCODER, y, "self-attention", "padding", masks["encoder"], "input", -1)
    y = page.network(ENCODER, y, shapes["hidden"], "input", -1)
    page.frame(ENCODER, low, y, -1, n_layers, "input")
    return page.norm(ENCODER, y + 0.4, y)


def _decoder(page, shapes, masks, n_layers):
    """The right column. Returns the height at which the memory comes in."""
    y = _entrance(page, DECODER, "output", "target ids", shapes["target"], shapes["embedded target"])
    low = y
    y = page.attention(DECODER, y, "self-attention", "causal, padding", masks["decoder"], "output", 1)
    asked = y + 1.14
    y = page.attention(DECODER, y, "source attention", "padding", masks["source"], "bottleneck", 1, "q")
    y = page.network(DECODER, y, shapes["hidden"], "output", 1)
    page.frame(DECODER, low, y, 1, n_layers, "output")
    spot = page.norm(DECODER, y + 0.4, y)
    box = page.box("generator: linear, log softmax", DECODER, spot[1] + 0.42, "state", WIDTH, 0.36)
    page.arrow(Spot(spot), box)
    page.beside(shapes["vectors"], DECODER, spot[1] + 0.12)
    over = Spot((DECODER, box.place[1] + 0.52))
    page.arrow(box, over)
    page.note(f"log p of the next token {shapes['scores']}", DECODER, over.place[1] + 0.12, 10.5)
    return asked


def _entrance(page, x, role, name, ids, embedded):
    """Ids, embedding, position. Returns the height at which the first layer begins."""
    rows = [f"{name} {ids}", "embedding × √d_model", "+ position"]
    boxes = [page.box(row, x, 0.56 * i, role, WIDTH, 0.34) for i, row in enumerate(rows)]
    for below, above in pairwise(boxes):
        page.arrow(below, above)
    page.beside(embedded, x, 1.4)
    page.wire([(x, 1.29), (x, 1.62)])
    return 1.62


def _legend(page, x, y):
    """What the small squares and the thin lines mean."""
    seen = np.tril(np.ones((6, 6)))
    for line, at in ((["rows: queries, columns: keys", "filled: may be looked at"], y + 1.5),
                     (["residual: x goes past a part", "and meets it again at +"], y + 0.7)):  # fmt: skip
        for text, up in zip(line, (0.1, -0.12), strict=True):
            page.ax.text(x + 0.55, at + up, text, ha="left", va="center", fontsize=10.5, zorder=4)
    page.icon(seen, x, y + 1.5, LOOKS["gate"][1])
    page.thin([(x - 0.1, y + 0.4), (x + 0.22, y + 0.4), (x + 0.22, y + 1.0), (x + 0.02, y + 1.0)])
    page.wire([(x - 0.1, y + 0.32), (x - 0.1, y + 0.88)])
    page.part("+", x - 0.1, y + 1.0)
    page.reach(x + 1.2, y + 1.2, 3.4, 1.6)


class Sheet(Page):
    """A page with the parts of a Transformer's layer."""

    def attention(self, x, y, name, mask, cells, role, side, below="qkv"):
        """Norm, arrows, attention with its mask, sum. Returns the height at which the stream goes on.

        side: where the residual runs, -1 left or 1 right
        below: which of q, k and v come from below
        """
        self.norm(x, y + 0.34, y)
        places = {1: [x], 3: [x - 0.5, x, x + 0.5]}[len(below)]
        self.thin([(places[0], y + 0.6), (places[-1], y + 0.6)], GREY)
        self.wire([(x, y + 0.48), (x, y + 0.6)])
        for letter, place in zip(below, places, strict=True):
            self.arrow(Spot((place, y + 0.6)), Spot((place, y + 0.83)), width=1)
            self.note(letter, place + 0.1, y + 0.7, 11)
        box = self.box("", x, y + 1.14, role, WIDTH, 0.62)
        icon = x + WIDTH / 2 - ICON / 2 - 0.07
        middle = (x - WIDTH / 2 + icon - ICON / 2) / 2
        self.ax.text(middle, y + 1.24, name, ha="center", va="center", fontsize=11, zorder=4)
        self.ax.text(middle, y + 1.02, f"mask: {mask}", ha="center", va="center", fontsize=9.5, zorder=4)
        self.icon(cells, icon, y + 1.14, LOOKS[role][1])
        return self.sum(x, y, box, y + 1.72, side)

    def network(self, x, y, hidden, role, side):
        """Norm, feed-forward network, sum. Returns the height at which the stream goes on."""
        self.norm(x, y + 0.34, y)
        box = self.box(f"feed-forward {hidden}", x, y + 0.86, role, WIDTH, 0.36)
        self.arrow(Spot((x, y + 0.48)), box, width=1)
        return self.sum(x, y, box, y + 1.32, side)

    def norm(self, x, y, below):
        """A small box that the stream enters. Returns the spot above it."""
        box = self.box("norm", x, y, "gate", 0.85, 0.27)
        self.arrow(Spot((x, below)), box)
        return x, y + 0.14

    def sum(self, x, y, box, up, side):
        """Where the sublayer's output meets its input, which the residual leads round."""
        plus = self.part("+", x, up)
        self.arrow(box, plus)
        edge = x + side * (WIDTH / 2 + 0.16)
        self.thin([(x, y + 0.07), (edge, y + 0.07), (edge, up), (x + side * 0.12, up)])
        self.wire([(x, up + 0.11), (x, up + 0.2)])
        return up + 0.2

    def part(self, name, x, y):
        """A sum."""
        return self.box(name, x, y, "gate", 0.22, 0.22)

    def thin(self, points, colour=INK):
        """A residual: a thin line, so that one sees it go past."""
        self.ax.plot(*np.array(points).T, color=colour, linewidth=0.9, zorder=2)

    def icon(self, cells, x, y, colour):
        """A mask in small: a coloured cell is one at which the query may look."""
        half = ICON / 2
        low, high = np.array((x - half, y - half)), np.array((x + half, y + half))
        self.ax.imshow(
            cells,
            cmap=ListedColormap(["white", colour]),
            vmin=0,
            vmax=1,
            zorder=5,
            aspect="auto",
            extent=(low[0], high[0], low[1], high[1]),
            interpolation="nearest",
        )
        self.ax.add_patch(Rectangle(low, ICON, ICON, fill=False, edgecolor=colour, linewidth=0.8, zorder=6))

    def frame(self, x, low, high, side, n_layers, role):
        """What is repeated: N times."""
        _, edge = LOOKS[role]
        wide = WIDTH + 0.66
        patch = FancyBboxPatch(
            (x - wide / 2, low - 0.06),
            wide,
            high - low + 0.03,
            boxstyle="round,pad=0,rounding_size=0.12",
            facecolor="#FAFAFA",
            edgecolor=edge,
            linewidth=1,
            linestyle=(0, (4, 2)),
            zorder=0,
        )
        self.ax.add_patch(patch)
        self.reach(x, (low + high) / 2, wide, high - low)
        self.note(f"{n_layers} ×", x - side * (wide / 2 - 0.28), high - 0.2, 12, edge)

    def beside(self, text, x, y):
        """A shape, beside the arrow that it travels on."""
        self.ax.text(x + 0.08, y, text, fontsize=9.5, color=GREY, va="center", zorder=4)


def live():
    """The shapes and the masks of a run with the chapter's sizes: two dates, of different length."""
    pairs = dates(8000, "train", languages=("de", "fr", "hu", "ja"))
    sources = Characters.build(pair.source for pair in pairs)
    targets = Vocabulary.build(pair.target for pair in pairs)
    texts, answers = ["5. März 1987", "05/03/1987"], ["1987-03-05"] * 2
    model = make_model(len(sources), len(targets), 1, 64, 128, 4, 0.0)
    seen = {}
    for name, part in model.named_modules():
        part.register_forward_hook(lambda _, given, out, name=name: seen.update({name: out.shape}))
    source = pad([sources.encode(text) for text in texts])
    target_in = pad([targets.encode(text, bos=True) for text in answers])
    model.generator(model(source, target_in))
    n, n_source = target_in.shape[1], source.shape[1]
    shapes = {
        "source": source.shape,
        "target": target_in.shape,
        "embedded source": seen["source_embed"],
        "embedded target": seen["target_embed"],
        "memory": seen["encoder"],
        "vectors": seen["decoder"],
        "scores": seen["generator"],
    }
    shapes = {name: str(tuple(shape)) for name, shape in shapes.items()}
    shapes["hidden"] = f"64 → {seen['encoder.layers.0.feed_forward.W_1'][-1]} → 64"
    masks = {
        "encoder": padding_mask(source)[1, 0].expand(n_source, n_source),
        "decoder": (padding_mask(target_in) & causal_mask(n))[1, 0],
        "source": padding_mask(source)[1, 0].expand(n, n_source),
    }
    return shapes, masks


if __name__ == "__main__":
    drawn = architecture(*live(), n_layers=1, title="Source attention is where the two sides meet")
    drawn.figure.savefig(Path(__file__).with_suffix(".png"))
