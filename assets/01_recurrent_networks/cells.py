"""Draws rnn.png, gru.png and lstm.png: the inside of a recurrent cell, with the letters of
`rnn_step`, `gru_step` and `lstm_step`.

The old state comes in at the left and leaves renewed at the right; the input comes from below. Grey boxes
have weights (and biases), red ones work element by element. Lines that cross without a dot do not touch.
"""

from pathlib import Path

from matplotlib.patches import FancyBboxPatch

from heed.plot.networks import LOOKS, Page, Spot

TOP, GATES = 2.75, 0.95  # the line of the state, the middle of the gates
FROM_X, FROM_H = 0.2, 0.42  # the lines on which the input and the old state reach the gates


def cell(draw, title):
    """One of the cells below, as its Axes."""
    page = Page(None, title)
    draw(page)
    return page.finish()


def _rnn(page):
    """h' = tanh(W_x x + b_x + W_h h + b_h)"""
    _frame(page, 0.5, 2.7, 0.5, 1.4)
    tanh = page.box("$W_x x + W_h h + b$\ntanh", 1.6, GATES, "gate", width=1.5, height=0.46)
    old, new = page.state("$h$", 0, GATES), page.state("$h'$", 3.2, GATES)
    page.arrow(page.box("$x$", 1.6, 0, "input"), tanh, "input")
    page.arrow(old, tanh, "state")
    page.arrow(tanh, new, "state")


def _gru(page):
    """h' = z ⊙ h + (1 − z) ⊙ g, with g = tanh(W_xg x + r ⊙ W_hg h)"""
    _frame(page, 0.5, 6.0, -0.05, TOP + 0.35)
    old, new = page.state("$h$", 0, TOP), page.state("$h'$", 6.5, TOP)
    x = page.box("$x$", 1.05, -0.5, "input")
    r, z = _gate(page, "$r$", "reset", 1.7, GATES), _gate(page, "$z$", "update", 3.0, GATES)
    g = _gate(page, "$g$", "candidate", 4.4, GATES, "tanh")
    _supply(page, x, FROM_X, [r, z, g], "input", -0.12)
    _supply(page, _dot(page, 0.75, TOP, "state"), FROM_H, [r, z], "state", 0.12)
    times_r, times_z = _operation(page, "×", 1.7, 1.65), _operation(page, "×", 3.0, TOP)
    one_minus, times_g = _operation(page, "1−", 4.4, 2.2), _operation(page, "×", 5.5, 2.2)
    plus = _operation(page, "+", 5.5, TOP)
    page.arrow(old, times_z, "state")
    page.arrow(times_z, plus, "state")
    page.arrow(plus, new, "state")
    weights = page.box("$W_{hg} h$", 1.7, 2.2, "gate", height=0.28)
    page.arrow(_dot(page, 1.7, TOP, "state"), weights, "state")
    page.arrow(weights, times_r, "state")
    page.arrow(r, times_r)
    page.arrow(z, times_z)
    page.arrow(_dot(page, 3.0, 2.2), one_minus)
    page.arrow(one_minus, times_g)
    page.path(times_r, (4.4, 1.65), g, role="state")
    page.path(g, (5.5, GATES), times_g)
    page.arrow(times_g, plus)


def _lstm(page):
    """c' = f ⊙ c + i ⊙ g and h' = o ⊙ tanh(c')"""
    _frame(page, 0.5, 6.1, -0.05, TOP + 0.35)
    memory, renewed = page.state("$c$", 0, TOP, "context"), page.state("$c'$", 6.6, TOP, "context")
    old, new = page.state("$h$", 0, FROM_H), page.state("$h'$", 6.6, 1.6)
    x = page.box("$x$", 0.85, -0.5, "input")
    f, i = _gate(page, "$f$", "forget", 1.3, GATES), _gate(page, "$i$", "input", 2.4, GATES)
    g, o = _gate(page, "$g$", "candidate", 3.5, GATES, "tanh"), _gate(page, "$o$", "output", 4.6, GATES)
    _supply(page, x, FROM_X, [f, i, g, o], "input", -0.12)
    _supply(page, old, FROM_H, [f, i, g, o], "state", 0.12)
    times_f, plus = _operation(page, "×", 1.3, TOP), _operation(page, "+", 2.95, TOP)
    times_i = _operation(page, "×", 2.95, 1.85)
    tanh, times_o = _operation(page, "tanh", 5.5, 2.15), _operation(page, "×", 5.5, 1.6)
    page.arrow(memory, times_f, "context")
    page.arrow(times_f, plus, "context")
    page.arrow(plus, renewed, "context")
    page.arrow(f, times_f)
    page.path(i, (2.4, 1.85), times_i)
    page.path(g, (3.5, 1.85), times_i)
    page.arrow(times_i, plus)
    page.arrow(_dot(page, 5.5, TOP, "context"), tanh, "context")
    page.arrow(tanh, times_o)
    page.path(o, (4.6, 1.6), times_o)
    page.arrow(times_o, new, "state")


def _frame(page, left, right, bottom, top):
    """The wall of the cell."""
    page.ax.add_patch(
        FancyBboxPatch(
            (left, bottom),
            right - left,
            top - bottom,
            boxstyle="round,pad=0,rounding_size=0.15",
            facecolor="#FAFAFA",
            edgecolor="#AAAAAA",
            linewidth=1.2,
            zorder=0,
        )
    )
    page.reach((left + right) / 2, (bottom + top) / 2, right - left, top - bottom)


def _gate(page, letter, name, x, y, kind="σ"):
    """A layer with weights: its name, its letter, and what squashes it."""
    return page.box(f"{name} {letter}\n{kind}", x, y, "gate", width=0.98, height=0.46)


def _operation(page, sign, x, y):
    """Something done element by element, without weights."""
    return page.box(sign, x, y, "bottleneck", width=max(0.28, page.width(sign)), height=0.28)


def _dot(page, x, y, role="gate"):
    """A place where a line divides."""
    page.ax.plot([x], [y], "o", color=LOOKS[role][1], markersize=4, zorder=3)
    return Spot((x, y))


def _supply(page, source, height, gates, role, aside):
    """Lead a line from its source to every gate; `aside` is where it enters, left or right of the middle."""
    x, y = source.place
    last = gates[-1].place[0] + aside
    page.wire([(x, y), (x, height), (last, height)], role)
    for gate in gates:
        enters = gate.place[0] + aside
        page.arrow(Spot((enters, height)), Spot((enters, GATES - 0.22)), role)


if __name__ == "__main__":
    for name, draw, title in (
        ("rnn", _rnn, "RNN: everything passes through tanh"),
        ("gru", _gru, "GRU: the state passes along the top, if z lets it"),
        ("lstm", _lstm, "LSTM: a memory that is multiplied by f and added to"),
    ):
        cell(draw, title).figure.savefig(Path(__file__).with_name(f"{name}.png"))
