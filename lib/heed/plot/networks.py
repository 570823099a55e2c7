"""Drawings of recurrent networks: their shapes, attention on top of them, the inside of a cell.

One unit of the page is one inch. Inputs are boxes at the bottom, states are circles in the middle, outputs
are boxes at the top: each role has its place, form and colour, and stays itself in grey print.
"""

from itertools import pairwise
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

from heed.plot.charts import as_array, inches, wrapped
from heed.plot.style import INK, written

PAGE = 7.0  # inches: what fits beside the margins of a notebook
LOOKS = {  # role: (fill, edge)
    "input": ("#DCEBF7", "#0B5A8C"),
    "state": ("#FCE9C8", "#9A6500"),
    "output": ("#D6EFE6", "#00694C"),
    "context": ("#F3DCE9", "#97457A"),
    "bottleneck": ("#FBDDCB", "#C04A00"),
    "gate": ("#F0F0F0", "#444444"),
}
SHAPES = ("N→N", "N⇄N", "N→1", "1→N", "N→M")
ROW = 0.9  # from one row of a network to the next
# From airy to tight: size of letters (points), radius of a state, gap between columns (inches).
DENSITIES = [
    (10, 0.22, 0.32),
    (10, 0.22, 0.18),
    (9, 0.2, 0.12),
    (8, 0.18, 0.1),
    (7.5, 0.16, 0.07),
    (7, 0.1, 0.05),
    (7, 0.09, 0.02),
]


def network(shape, inputs=None, outputs=None, title="", ax=None, first=None):
    """Draw the shape of a recurrent network, with your own tokens in its boxes.

        N→N   an output for every input
        N⇄N   the same, read once from each end: two states a token, and together they know both sides
        N→1   one output after the last input
        1→N   one input sets the first state; every output is read again (dashed) to write the next
        N→M   an encoder reads, a decoder writes; the one red arrow is all that passes between them

    inputs: the tokens read; x₁, x₂ … if left out
    outputs: the tokens written; y₁, y₂ … if left out
    first: 1→N and N→M: the token that is read before the first output, such as <bos>; not drawn if left out

    Returns the Axes.
    Raises ValueError for an unknown shape, numbers of tokens that do not suit it, or more than a page holds.
    """
    shape = shape.replace("->", "→").replace("<→", "⇄").replace("↔", "⇄")
    if shape not in SHAPES:
        raise ValueError(f"the shape {shape!r} is none of {', '.join(SHAPES)}")
    n_inputs = 1 if shape == "1→N" else 4
    inputs = _tokens(inputs, "x", n_inputs)
    n_outputs = {"N→N": len(inputs), "N⇄N": len(inputs), "N→1": 1, "1→N": 4, "N→M": 3}[shape]
    outputs = _tokens(outputs, "y", n_outputs)
    wanted = {"N→N": len(outputs), "N⇄N": len(outputs), "1→N": 1}.get(shape, len(inputs))
    if len(inputs) != wanted or (shape == "N→1" and len(outputs) != 1):
        raise ValueError(f"{shape} cannot have {len(inputs)} inputs and {len(outputs)} outputs")
    if first is not None and shape not in ("1→N", "N→M"):
        raise ValueError(f"{shape} writes nothing that is read again, so it has no first token")
    first = None if first is None else _tokens([first], "", 1)[0]
    page = Page(ax, title)
    if shape == "N→M":
        _encoder_decoder(page, inputs, outputs, first)
    elif shape == "1→N":
        _writer(page, inputs, outputs, first)
    elif shape == "N⇄N":
        _two_way_reader(page, inputs, outputs)
    else:
        _reader(page, inputs, outputs)
    return page.finish()


def attending(inputs, outputs, weights, title="", ax=None):
    """Draw the step in which a decoder with attention writes the last of its outputs.

    Every encoder state has its share in the context c; an arrow is as wide as its weight is large. The query
    is the decoder's previous state. Context and previous token go into the new state and into the output. Of
    the steps before, the contexts are left out. Circled numbers give the order of what is computed: 1 states
    of the encoder, 2 scores, 3 weights, 4 context, 5 state, 6 output.

    inputs: n tokens read
    outputs: the tokens written so far; the last one is being written in this step
    weights: (n,), from 0 to 1, one weight an input

    Returns the Axes.
    Raises ValueError if there is not one weight an input, or a weight is not between 0 and 1.
    """
    inputs, outputs, weights = _tokens(inputs, "x", 4), _tokens(outputs, "y", 1), as_array(weights)
    if weights.shape != (len(inputs),):
        raise ValueError(f"{len(inputs)} inputs need {len(inputs)} weights, but the shape is {weights.shape}")
    _check_weights(weights)
    page = Page(ax, title)
    t = len(outputs)
    places = page.columns([inputs])
    up = [0, ROW, 2.6 * ROW, 3.6 * ROW, 4.6 * ROW]
    widths = [max(2 * page.radius, page.width(token)) for token in ("<bos>", *outputs)]
    steps = np.cumsum([width + 0.3 for width in widths]) - np.array(widths) / 2
    steps += (places[0] + places[-1]) / 2 - (steps[0] + steps[-1]) / 2
    steps -= max(0, steps[-1] - places[-1])
    reads = [page.box(token, x, up[0], "input") for token, x in zip(inputs, places, strict=True)]
    states = [page.state(f"$h_{{{i + 1}}}$", x, up[1]) for i, x in enumerate(places)]
    page.chain(states, both=True)
    for read, state in zip(reads, states, strict=True):
        page.arrow(read, state)
    context = page.state(f"$c_{{{t}}}$", steps[-1], up[2], "context")
    tight = page.radius < 0.15  # very many inputs: only the weights that matter are written
    for weight, x in zip(weights, places, strict=True):
        share = "" if tight and weight < 0.05 else f"{weight:.2f}".lstrip("0" if tight else "")
        size = max(6.5, 0.8 * page.size)
        over = page.note(share, x, up[1] + page.radius + 0.11, size, LOOKS["context"][1])
        arrow = page.arrow(over, context, "context", width=0.5 + 6 * weight)
        arrow.set_alpha(min(1, 0.3 + 7 * weight))  # many small shares do not add up to a blot
    written_states = [page.state(f"$s_{{{i}}}$", x, up[3]) for i, x in enumerate(steps)]
    writes = [page.box(token, x, up[4], "output") for token, x in zip(outputs, steps[1:], strict=True)]
    begin = page.box("<bos>", steps[0], up[4], "gate")
    page.chain(written_states)
    page.feed(writes, written_states[1:])
    page.arrow(begin, written_states[1], "output", dashed=True, width=1.1)
    for last, write in pairwise([begin, *writes]):
        page.arrow(last, write, "output", dashed=True, width=1.1)
    page.arrow(context, written_states[-1], "context", width=3)
    aside = steps[-1] + widths[-1] / 2 + 0.2
    page.path(context, (aside, up[2]), (aside, up[4]), writes[-1], role="context")
    page.reach(aside, up[2], 0, 0)
    page.arrow(written_states[-2], context, "context", dashed=True, width=1.1)
    middle = (np.array(written_states[-2].place) + context.place) / 2
    page.note("② query", middle[0] - 0.12, middle[1], 8.5, LOOKS["context"][1], side="right")
    for number, (x, y) in {
        "①": (places[-1] + page.radius + 0.16, up[1]),
        "③": (places[0] - page.radius - 0.16, up[1] + page.radius + 0.11),
        "④": (steps[-1] - page.radius - 0.16, up[2] + 0.12),
        "⑤": (steps[-1] - page.radius - 0.04, up[3] - page.radius - 0.04),
        "⑥": (steps[-1] - 0.14, up[4] - 0.34),
    }.items():
        page.note(number, x, y, 12, INK)
    names = ["input", "encoder\nstate", "context", "decoder\nstate", "output"]
    page.names({y: (name.split()[-1], name) for y, name in zip(up, names, strict=True)})
    return page.finish()


def alignment(weights, source, target, title="", ax=None):
    """Draw two rows of tokens, joined by lines as wide and as dark as the weights.

    weights: (n_target, n_source), from 0 to 1: row i is what target token i looks at
    source: n_source tokens, below
    target: n_target tokens, above

    Returns the Axes.
    Raises ValueError if the labels do not fit the table or a weight is not between 0 and 1.
    """
    weights = as_array(weights)
    source, target = _tokens(source, "x", 1), _tokens(target, "y", 1)
    if weights.shape != (len(target), len(source)):
        raise ValueError(
            f"{len(target)} target and {len(source)} source tokens need weights of shape "
            f"{(len(target), len(source))}, not {weights.shape}"
        )
    _check_weights(weights)
    page = Page(ax, title)
    below, above = page.columns([source]), page.columns([target])
    shift = (below[0] + below[-1] - above[0] - above[-1]) / 2
    above, below = above + max(0, shift), below + max(0, -shift)
    bottom = [page.box(token, x, 0, "input") for token, x in zip(source, below, strict=True)]
    top = [page.box(token, x, 1.6, "output") for token, x in zip(target, above, strict=True)]
    for i, j in np.argwhere(weights >= 0.005):
        page.line(bottom[j], top[i], weights[i, j])
    page.names({0: ("input", "source"), 1.6: ("output", "target")})
    return page.finish()


def _reader(page, inputs, outputs):
    one = len(outputs) < len(inputs)
    places = page.columns([inputs, [None] * (len(inputs) - 1) + outputs if one else outputs])
    reads = [page.box(token, x, 0, "input") for token, x in zip(inputs, places, strict=True)]
    states = [page.state(f"$h_{{{i + 1}}}$", x, ROW) for i, x in enumerate(places)]
    last = slice(-len(outputs), None)
    writes = [page.box(token, x, 2 * ROW, "output") for token, x in zip(outputs, places[last], strict=True)]
    page.chain(states)
    for read, state in zip(reads, states, strict=True):
        page.arrow(read, state)
    for state, write in zip(states[last], writes, strict=True):
        page.arrow(state, write)
    page.names({0: ("input", "input"), ROW: ("state", "state"), 2 * ROW: ("output", "output")})


def _two_way_reader(page, inputs, outputs):
    places, rows = page.columns([inputs, outputs]), ("forwards", "backwards")
    aside = 0.8 * page.radius  # so that no arrow runs through a state that it does not belong to
    reads = [page.box(token, x, 0, "input") for token, x in zip(inputs, places, strict=True)]
    writes = [page.box(token, x, 3 * ROW, "output") for token, x in zip(outputs, places, strict=True)]
    for way, y, shift, head in zip(rows, (ROW, 2 * ROW), (-aside, aside), ("right", "left"), strict=True):
        names = [rf"$\over{head}arrow{{h}}_{{{i + 1}}}$" for i in range(len(inputs))]
        states = [page.state(name, x + shift, y) for name, x in zip(names, places, strict=True)]
        page.chain(states if way == "forwards" else states[::-1])
        for read, state, write in zip(reads, states, writes, strict=True):
            page.arrow(read, state)
            page.arrow(state, write)
    sides = {ROW * (i + 1): ("state", f"state,\n{way}") for i, way in enumerate(rows)}
    page.names({0: ("input", "input"), **sides, 3 * ROW: ("output", "output")})


def _writer(page, inputs, outputs, first):
    places = page.columns([[*inputs, first, *[None] * (len(outputs) - 1)], [None, *outputs]])
    read = page.box(inputs[0], places[0], 0, "input")
    states = [page.state(f"$h_{{{i}}}$", x, ROW) for i, x in enumerate(places)]
    writes = [page.box(token, x, 2 * ROW, "output") for token, x in zip(outputs, places[1:], strict=True)]
    page.arrow(read, states[0])
    page.chain(states)
    page.feed(writes, states[1:])
    _begin(page, first, states[1])
    page.names({0: ("input", "input"), ROW: ("state", "state"), 2 * ROW: ("output", "output")})


def _encoder_decoder(page, inputs, outputs, first):
    n = len(inputs)
    below = [*inputs, first, *[None] * (len(outputs) - 1)]
    places = page.columns([below, [None] * n + outputs], leave=(n, 1.0))
    reads = [page.box(token, x, 0, "input") for token, x in zip(inputs, places[:n], strict=True)]
    encoder = [page.state(f"$h_{{{i + 1}}}$", x, ROW) for i, x in enumerate(places[:n])]
    decoder = [page.state(f"$s_{{{i + 1}}}$", x, ROW) for i, x in enumerate(places[n:])]
    writes = [page.box(token, x, 2 * ROW, "output") for token, x in zip(outputs, places[n:], strict=True)]
    page.chain(encoder)
    for read, state in zip(reads, encoder, strict=True):
        page.arrow(read, state)
    page.chain(decoder)
    page.feed(writes, decoder)
    _begin(page, first, decoder[0])
    page.arrow(encoder[-1], decoder[0], "bottleneck", width=5)
    middle = (places[n - 1] + places[n]) / 2
    said = "the last state:\nall it gets of\nthe source"
    page.note(said, middle, ROW + 0.36, colour=LOOKS["bottleneck"][1])
    page.note("encoder", (places[0] + places[n - 1]) / 2, ROW + 0.4, colour=LOOKS["state"][1])
    page.note("decoder", (places[n] + places[-1]) / 2, ROW - 0.4, colour=LOOKS["state"][1])
    page.names({0: ("input", "input"), ROW: ("state", "state"), 2 * ROW: ("output", "output")})


def _begin(page, first, state):
    """The token that the writer reads before it has written any, below its first state."""
    if first is not None:
        begin = page.box(first, state.place[0], 0, "gate")
        page.arrow(begin, state)


def _tokens(tokens, letter, n):
    """The tokens as they are drawn, or letter₁ … letterₙ. A bare string is refused: are its letters meant?"""
    if tokens is None:
        return [f"${letter}_{{{i + 1}}}$" if n > 1 else f"${letter}$" for i in range(n)]
    if isinstance(tokens, str):
        raise ValueError(f"{tokens!r} is one string: give a list of tokens, [{tokens!r}] or list({tokens!r})")
    tokens = [written(token).replace("$", r"\$") for token in tokens]
    if not tokens:
        raise ValueError("there is no token to draw")
    return tokens


def _check_weights(weights):
    if not np.isfinite(weights).all() or weights.min() < 0 or weights.max() > 1 + 1e-6:
        low, high = weights.min(), weights.max()
        raise ValueError(f"weights lie between 0 and 1, but these go from {low:.3g} to {high:.3g}")


class Spot(NamedTuple):
    """A bare point, as an end of an arrow."""

    place: tuple[float, float]


class Page:
    """A drawing measured in inches, which knows how far it reaches and fits its Axes to that at the end."""

    def __init__(self, ax, title):
        self.new = ax is None
        self.figure, self.ax = plt.subplots() if self.new else (ax.figure, ax)
        if not self.new:
            self.figure.draw_without_rendering()
        self.room = PAGE if self.new else self.ax.get_window_extent().width / self.figure.dpi
        self.title = written(title)
        self.corners = []
        self.size, self.radius, _ = DENSITIES[0]

    def width(self, token):
        """How wide the token's box is."""
        return inches(self.figure, [token], self.size, parse_math=True)[0] + 0.018 * self.size

    def columns(self, rows, leave=(0, 0)):
        """The middles of columns that are wide enough for the tokens of every row.

        rows: lists of n tokens; None where a row has nothing
        leave: (column, inches) of more room before one column
        """
        room = self.room - 0.8  # the names at the side take the rest
        closer = [density for density in DENSITIES if density[0] <= self.size]  # than the rows before
        for self.size, self.radius, gap in closer:  # as airy as the page allows
            widths = gap + np.array(
                [
                    max([2 * self.radius, *(self.width(token) for token in column if token is not None)])
                    for column in zip(*rows, strict=True)
                ]
            )
            widths[leave[0]] += leave[1]
            if widths.sum() < room or not (self.new or self.radius > 0.16):  # a given Axes: shrink it all
                break
        else:
            raise ValueError(
                f"{len(widths)} columns of tokens need {widths.sum():.1f} inches; the page has {room:.1f}: "
                "draw fewer or shorter tokens"
            )
        middles = np.cumsum(widths) - widths / 2
        middles[leave[0]] += leave[1] / 2
        return middles

    def reach(self, x, y, width, height):
        self.corners += [(x - width / 2, y - height / 2), (x + width / 2, y + height / 2)]

    def box(self, token, x, y, role, width=None, height=0.34):
        """A rounded box with a token in it."""
        width = self.width(token) if width is None else width
        fill, edge = LOOKS[role]
        patch = FancyBboxPatch(
            (x - width / 2, y - height / 2),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=0.07",
            facecolor=fill,
            edgecolor=edge,
            linewidth=1.2,
            zorder=3,
        )
        return self.put(patch, token, x, y, width, height)

    def state(self, name, x, y, role="state"):
        """A circle with a name in it, if it is large enough for one."""
        fill, edge = LOOKS[role]
        patch = Circle((x, y), self.radius, facecolor=fill, edgecolor=edge, linewidth=1.2, zorder=3)
        return self.put(patch, name if self.radius > 0.15 else "", x, y, 2 * self.radius, 2 * self.radius)

    def put(self, patch, text, x, y, width, height):
        """Draw a shape with words in its middle."""
        self.ax.add_patch(patch)
        patch.place = (x, y)
        middle = y - 0.35 * self.size / 72  # all letters on one line, whether they reach up or down
        if "\n" in text:
            self.ax.text(x, y, text, ha="center", va="center", fontsize=9, linespacing=1.15, zorder=4)
        else:
            self.ax.text(x, middle, text, ha="center", va="baseline", fontsize=self.size, zorder=4)
        self.reach(x, y, width, height)
        return patch

    def note(self, text, x, y, size=9.0, colour=INK, side="center"):
        """Words beside the drawing. Returns the spot above them, where an arrow may start."""
        self.ax.text(x, y, text, color=colour, fontsize=size, ha=side, va="center", zorder=4)
        width, height = inches(self.figure, [text], size, parse_math=True)
        self.reach(x + {"center": 0, "right": -0.5}[side] * width, y, width, height)
        return Spot((x, y + height / 2 + 0.04))

    def names(self, rows):
        """Say at the side what each row is.

        rows: dict from height to (role, name)
        """
        xs = np.array(self.corners)[:, 0]
        for y, (role, name) in rows.items():
            self.note(name, xs.min() - 0.18, y, colour=LOOKS[role][1], side="right")

    def arrow(self, start, end, role=None, width=1.3, dashed=False, up=0.0):
        """An arrow from one shape to another, `up` above the line between their middles. Returns it."""
        (x0, y0), (x1, y1) = start.place, end.place
        patches = [None if isinstance(shape, Spot) else shape for shape in (start, end)]
        arrow = FancyArrowPatch(
            (x0, y0 + up),
            (x1, y1 + up),
            patchA=patches[0],
            patchB=patches[1],
            shrinkA=1 if patches[0] else 0,
            shrinkB=1,
            arrowstyle="-|>,head_length=0.4,head_width=0.19",
            mutation_scale=9 + 2 * width,
            linewidth=width,
            linestyle=(0, (4, 2)) if dashed else "-",
            color=LOOKS[role][1] if role else "#555555",
            zorder=2,
            capstyle="butt",
            joinstyle="miter",
        )
        return self.ax.add_patch(arrow)

    def path(self, *places, role=None):
        """An arrow that turns at given points: shape, points, shape."""
        points = [getattr(place, "place", place) for place in places[:-1]]
        self.wire(points, role)
        self.arrow(Spot(points[-1]), places[-1], role)

    def wire(self, points, role=None):
        """A line through points, without a head."""
        colour = LOOKS[role][1] if role else "#555555"
        self.ax.plot(*np.array(points).T, color=colour, linewidth=1.3, solid_capstyle="projecting", zorder=2)

    def line(self, start, end, weight):
        """A line from the top of one box to the bottom of another, as wide and as dark as the weight."""
        (x0, y0), (x1, y1) = start.place, end.place
        shade = 0.82 * max(0, 1 - weight)  # rounding may lift a weight above 1
        self.ax.plot(
            [x0, x1],
            [y0 + 0.17, y1 - 0.17],
            linewidth=0.5 + 6 * weight,
            solid_capstyle="butt",
            color=(shade, 0.35 + 0.65 * shade, 0.6 + 0.4 * shade),
            zorder=1 + weight,
        )

    def chain(self, states, both=False):
        """Recurrence: an arrow from each state to the next, and with `both` one back."""
        for left, right in pairwise(states):
            gap = abs(right.place[0] - left.place[0]) - 2 * self.radius
            if gap < (0.09 if both else 0.06):  # no room for a head
                self.wire([left.place, right.place], "state")
                continue
            self.arrow(left, right, "state", width=1.6, up=0.06 if both else 0)
            if both:
                self.arrow(right, left, "state", width=1.6, up=-0.06)

    def feed(self, writes, states):
        """Writing: an arrow from each state to its output and, dashed, from each output to the next state."""
        for state, write in zip(states, writes, strict=True):
            self.arrow(state, write)
        for write, state in zip(writes, states[1:], strict=False):
            self.arrow(write, state, "output", dashed=True, width=1.1)

    def finish(self):
        """Fit the Axes to what was drawn; on a given Axes, shrink letters and lines with it."""
        corners = np.array(self.corners)
        low, high = corners.min(axis=0) - 0.1, corners.max(axis=0) + 0.1
        width, height = high - low
        ax, figure = self.ax, self.figure
        ax.axis("off")
        ax.set_aspect("equal")
        ax.set_xlim(low[0], high[0])
        ax.set_ylim(low[1], high[1])
        if self.new:
            title = wrapped(figure, self.title, PAGE)
            title_width, title_height = inches(figure, [title or " "], 11, parse_math=True)
            wide = max(width, title_width + 0.2)
            tall = height + (title_height + 0.22 if title else 0)
            figure.set_layout_engine("none")
            figure.set_size_inches(wide, tall)
            ax.set_position([(1 - width / wide) / 2, 0, width / wide, height / tall])
            ax.set_title(title, pad=6)
            return ax
        ax.set_title(self.title)
        for artist in [*ax.texts, *ax.patches, *ax.lines]:
            artist.set_in_layout(False)  # they end up inside
        figure.draw_without_rendering()
        box = ax.get_window_extent()
        scale = min(1, box.width / figure.dpi / width)
        if scale < 0.5:
            raise ValueError(
                f"the drawing needs {width:.1f} x {height:.1f} inches, and this Axes has only "
                f"{box.width / figure.dpi:.1f} x {box.height / figure.dpi:.1f}: make the figure larger"
            )
        for text in ax.texts:
            text.set_fontsize(text.get_fontsize() * scale)
        for artist in [*ax.patches, *ax.lines]:
            artist.set_linewidth(artist.get_linewidth() * scale)
            if isinstance(artist, FancyArrowPatch):
                artist.set_mutation_scale(artist.get_mutation_scale() * scale)
        return ax
