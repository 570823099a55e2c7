"""Maps of weights and scores, curves and bars: numbers in, one Axes out; drawn with seaborn.

No picture here may lie: NaN is refused, so is a colour scale that would cut a number off; bars start at zero.
"""

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.text import Annotation
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Affine2D

from heed.plot.style import COLOURS, HATCHES, INK, MARKERS, SCORES, WEIGHTS, as_text, ink_on, written

# How seaborn sums up the rows of one point where bands are given: the value, the lowest, the highest.
GIVEN = {"estimator": lambda rows: rows.iloc[0], "errorbar": lambda rows: (rows.iloc[1], rows.iloc[2])}


def heatmap(
    weights, rows=None, columns=None, title="", xlabel="", ylabel="", ax=None, vmax=1.0, meaning="weight"
):
    """Draw attention weights as a map: row i, column j is dark where query i looks at key j.

    White is 0 and dark blue is vmax; equal steps look equal, in grey print too. Where the cells are large
    enough, each shows its number as well.

    weights: (n_q, n_k), numbers from 0 to vmax
    rows: n_q labels, one a query (an output), drawn letter for letter; 1, 2, 3 … if left out
    columns: n_k labels, one a key (an input); 1, 2, 3 … if left out
    vmax: what the darkest colour stands for
    meaning: what the numbers are, to stand beside the colour bar

    Returns the Axes.
    Raises ValueError for another number of labels, NaN, a weight below 0 or above vmax.
    """
    weights = _table(weights)
    if weights.min() < 0 or weights.max() > vmax + 1e-6:
        raise ValueError(
            f"weights go from {weights.min():.3g} to {weights.max():.3g}, but colours from 0 to {vmax:.3g}: "
            "give the highest weight as vmax, or draw scores of any sign with scoremap"
        )
    cells = [[f"{weight:.2f}" for weight in row] for row in weights]
    return _map(weights, cells, rows, columns, title, xlabel, ylabel, ax, WEIGHTS, 0, vmax, meaning)


def heatmaps(maps, marked=None, title="", xlabel="", ylabel="", n_columns=2, vmax=1.0, meaning="weight"):
    """Draw several maps of weights on one page, on one scale and with one colour bar.

    maps: name -> (weights, rows, columns), each as `heatmap` takes them; the name stands above its map
    marked: name -> cells (row, column) to be outlined
    n_columns: maps beside one another
    vmax, meaning: as in `heatmap`

    Returns the Axes, as a list.
    Raises ValueError as `heatmap` does, without a map, and for a marked cell that is not in its map.
    """
    if not maps:
        raise ValueError("heatmaps needs at least one map, got none")
    marked = marked or {}
    for name in marked.keys() - maps.keys():
        raise ValueError(f"cells are marked in {name!r}, and there are maps of {', '.join(map(repr, maps))}")
    n_rows = -(-len(maps) // n_columns)
    shapes = [_table(weights).shape for weights, _, _ in maps.values()]
    for name, (n, m) in zip(maps, shapes, strict=True):
        for i, j in marked.get(name, []):
            if not (0 <= i < n and 0 <= j < m):
                raise ValueError(f"cell {i, j} is to be marked in {name!r}, a map of {n} x {m}")
    tall = [max(n for n, _ in shapes[i * n_columns : (i + 1) * n_columns]) for i in range(n_rows)]
    wide = [max(n for _, n in shapes[j::n_columns]) for j in range(min(n_columns, len(maps)))]
    side = min(0.5, (7.6 - 0.55 * len(wide)) / sum(wide))  # of a cell, in inches, on a page of 7.6
    figure, axes = plt.subplots(
        n_rows, len(wide), squeeze=False, width_ratios=wide, height_ratios=tall,
        figsize=(side * sum(wide) + 0.55 * len(wide), side * sum(tall) + 0.75 * n_rows + 1),
    )  # fmt: skip
    for k, (ax, (name, (weights, rows, columns))) in enumerate(zip(axes.flat, maps.items(), strict=False)):
        row, column = divmod(k, len(wide))
        words = "" if row else xlabel, "" if column else ylabel
        heatmap(weights, rows, columns, name, *words, ax, vmax, meaning)
        ax.collections[-1].colorbar.remove()
        for i, j in marked.get(name, []):
            corner = j - 0.5, i - 0.5
            edge = {"fill": False, "edgecolor": COLOURS["orange"], "linewidth": 1.8}
            ax.add_patch(plt.Rectangle(corner, 1, 1, zorder=3, **edge))
    for ax in axes.flat[len(maps) :]:
        ax.set_axis_off()
    bar = figure.colorbar(
        axes[0, 0].collections[-1], ax=axes, label=written(meaning), orientation="horizontal",
        fraction=0.03, shrink=0.4, aspect=30,
    )  # fmt: skip
    bar.outline.set_linewidth(0.6)
    figure.suptitle(title)
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - 0.15 / figure.get_size_inches()[1]))
    return [*axes.flat[: len(maps)]]


def scoremap(scores, rows=None, columns=None, title="", xlabel="", ylabel="", ax=None, meaning="score"):
    """Draw scores of any sign as a map: white is zero, blue is positive, brown is negative.

    The scale is symmetric about zero and reaches to the largest score. A score of −∞ (masked) is a grey cell.

    scores: (n_q, n_k), any numbers
    rows: n_q labels; 1, 2, 3 … if left out
    columns: n_k labels; 1, 2, 3 … if left out
    meaning: what the numbers are, to stand beside the colour bar

    Returns the Axes.
    Raises ValueError for another number of labels, NaN or +∞.
    """
    scores = _table(scores, masked=True)
    finite = np.abs(scores[np.isfinite(scores)])
    top = finite.max() if finite.size and finite.max() > 0 else 1.0
    digits = 2 if top < 10 else 1 if top < 100 else 0
    cells = [[signed(f"{score:.{digits}f}").replace("inf", "∞") for score in row] for row in scores]
    return _map(scores, cells, rows, columns, title, xlabel, ylabel, ax, SCORES, -top, top, meaning)


def curves(x, series, title="", xlabel="", ylabel="", bands=None, ax=None, estimator="mean"):
    """Draw curves over x; each has its colour, line and marker, and its name stands at its right end.

    The names keep apart from each other whatever scale is set afterwards (`ax.set_yscale("log")`). Above six
    curves, a legend beside the plot takes their place.

    x: (n,) or, if the curves differ in it, a dict from name to (n,)
    series: dict from name to (n,), or to (n_runs, n): then the band goes from the lowest run to the highest
    bands: dict from name to two (n,): the lowest and the highest value, if the series are not runs
    estimator: the line drawn for several runs, "mean" or "median"

    Returns the Axes.
    Raises ValueError if lengths differ, a number is not finite, or a band belongs to no curve.
    """
    names = [written(name) for name in series]
    across, rows, which, statistic = _long(x, series, bands or {}, estimator)
    ax = plt.subplots()[1] if ax is None else ax
    sns.lineplot(
        x=across,
        y=rows,
        hue=which,
        palette=sns.color_palette(n_colors=len(names)),
        style=which,
        markers=(MARKERS * len(names))[: len(names)],
        err_kws={"linewidth": 0},
        legend=False,
        ax=ax,
        sort=False,
        **{"estimator": None, **statistic},
    )
    lines = ax.lines[-len(names) :]
    for number, (line, name) in enumerate(zip(lines, names, strict=True)):
        every = max(1, len(line.get_xdata()) // 8)
        line.set(label=name, markevery=(number * every // len(names), every))
    if len(names) > 6:
        ax.legend(handles=lines, loc="center left", bbox_to_anchor=(1.01, 0.5))
    else:
        group = []
        for line in lines:
            group.append(EndLabel(line, group))
            ax.add_artist(group[-1]).set_clip_on(False)
    if all(np.all(np.equal(np.mod(line.get_xdata(), 1), 0)) for line in ax.lines):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return _named(ax, title, xlabel, ylabel)


def bars(labels, series, title="", xlabel="", ylabel="", bands=None, ax=None, estimator="mean"):
    """Draw bars that stand, each with its value above it; several series stand side by side.

    labels: n names along the axis
    series: (n,), or a dict from name to (n,) or (n_runs, n), as `curves` takes it
    bands: dict from name to two (n,), lowest and highest; two (n,) alone if the series is not a dict
    estimator: the bar drawn for several runs, "mean" or "median"

    Returns the Axes.
    Raises ValueError if lengths differ or a number is not finite.
    """
    ax = _bars(labels, series, bands, ax, estimator, upright=True)
    return _named(ax, title, xlabel, ylabel)


def hbars(labels, series, title="", xlabel="", ylabel="", bands=None, ax=None, estimator="mean"):
    """Draw bars that lie, first label on top: the form for long labels. Takes what `bars` takes."""
    ax = _bars(labels, series, bands, ax, estimator, upright=False)
    return _named(ax, title, xlabel, ylabel)


class EndLabel(Annotation):
    """The name of a curve at its right end; each time the figure is drawn, the names are moved apart."""

    def __init__(self, line, group):
        super().__init__(
            line.get_label(),
            line.get_xydata()[-1],
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            color=as_text(line.get_color()),
            annotation_clip=False,
        )
        self.group = group

    def update_positions(self, renderer):
        heights = [self.axes.transData.transform(label.xy)[1] for label in self.group]
        lines = max(label.get_text().count("\n") + 1 for label in self.group)
        gap = renderer.points_to_pixels(self.get_fontsize() * 1.35 * lines)
        mine = self.group.index(self)
        shift = apart(heights, gap)[mine] - heights[mine]
        self.xyann = (9, shift / renderer.points_to_pixels(1))
        super().update_positions(renderer)


def apart(places, gap):
    """Move numbers as little as needed so that each is at least `gap` from the next; their order stays.

    places: (n,)

    Returns the new places (n,).
    """
    order = np.argsort(places, kind="stable")
    groups = []  # [sum, count]: neighbours that touch move as one block, about the middle of what they want
    for rank, index in enumerate(order):
        groups.append([places[index] - rank * gap, 1])
        while len(groups) > 1 and groups[-2][0] / groups[-2][1] > groups[-1][0] / groups[-1][1]:
            total, count = groups.pop()
            groups[-1][0] += total
            groups[-1][1] += count
    starts = np.concatenate([[total / count] * count for total, count in groups])
    moved = np.empty(len(order))
    moved[order] = starts + gap * np.arange(len(order))
    return moved


def signed(number):
    """A number, already written, with the typographic minus sign."""
    return number.replace("-", "\N{MINUS SIGN}")


def significant(values):
    """The values in writing, with the same number of decimals, enough for three figures of the largest.

    Where that would leave nothing of the smallest, and where all are below 0.1, each has two figures.
    """
    sizes = np.abs(values)
    if np.all(values == np.round(values)):
        form = ".0f"
    elif sizes.max() < 0.1 or sizes[sizes > 0].min() < sizes.max() / 100:
        form = "g"
    else:
        form = f".{max(0, 2 - int(np.floor(np.log10(sizes.max()))))}f"
    shown = [float(f"{value:.2g}") if form == "g" else value for value in values]
    return [signed(f"{value:{form}}") for value in shown]


def as_array(values):
    """The values as a numpy array of floats; a tensor may carry gradients."""
    return np.asarray(values.detach().cpu().double() if hasattr(values, "detach") else values, dtype=float)


def _table(values, masked=False):
    """The values as a table of floats, or a ValueError that says why not."""
    values = as_array(values)
    if values.ndim != 2 or values.size == 0:
        raise ValueError(f"a map needs a table (n_q, n_k) of one cell or more, not shape {values.shape}")
    bad = np.argwhere(~(np.isfinite(values) | (masked & (values == -np.inf))))
    if len(bad):
        row, column = bad[0]
        raise ValueError(f"{values[row, column]} in row {row}, column {column}, has no colour")
    return values


def _row(values, name, n=None):
    """The values as n floats, or a ValueError that says why not."""
    values = as_array(values)
    if values.ndim != 1 or values.size == 0 or n not in (None, len(values)):
        wanted = "one number or more" if n is None else f"{n} numbers"
        raise ValueError(f"{name} needs {wanted} in a row, but the shape is {values.shape}")
    if not np.isfinite(values).all():
        where = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"{name} has {values[where]} at index {where}, which cannot be drawn")
    return values


def _band(edges, name, n):
    """The lowest and the highest n values, or a ValueError that says why not."""
    low, high = (_row(edge, f"the band of {name!r}", n) for edge in edges)
    if (low > high).any():
        i = int(np.argmax(low > high))
        raise ValueError(f"the band of {name!r} goes from {low[i]:.3g} down to {high[i]:.3g} at index {i}")
    return low, high


def _long(x, series, bands, estimator):
    """The series in long form: for every number its x, itself, and which series; and seaborn's statistic.

    The rows that share series and x are the runs or, if bands are given, the value and the ends of its band.
    """
    if not series:
        raise ValueError("there is nothing to draw: the dict of series is empty")
    for name in bands:
        if name not in series:
            raise ValueError(f"the band {name!r} belongs to none of the series {list(series)}")
    several = bool(bands) or any(as_array(values).ndim == 2 for values in series.values())
    parts = []
    for number, (name, values) in enumerate(series.items()):
        across = _row(x[name] if isinstance(x, dict) else x, f"x of {name!r}")
        found, times = np.unique(across, return_counts=True)
        if several and times.max() > 1:
            raise ValueError(f"x of {name!r} has {found[times.argmax()]:g} twice, and a band needs it once")
        values = as_array(values)
        runs = values if values.ndim == 2 and len(values) and not bands else [values]
        rows = [_row(run, repr(name), len(across)) for run in runs]
        rows += _band(bands[name], name, len(across)) if name in bands else ()
        parts.append((np.tile(across, len(rows)), np.ravel(rows), np.full(np.size(rows), number)))
    across, rows, which = map(np.concatenate, zip(*parts, strict=True))
    statistic = GIVEN if bands else {"estimator": estimator, "errorbar": ("pi", 100)}
    return across, rows, which, statistic if several else {}


def _labels(labels, n, what):
    """n labels as they are drawn; 1, 2, 3 … if there are none."""
    labels = [str(label) for label in (range(1, n + 1) if labels is None else labels)]
    if len(labels) != n:
        raise ValueError(f"{n} {what} need {n} labels, but there are {len(labels)}: {labels[:6]}")
    return [written(label) for label in labels]


def _named(ax, title, xlabel, ylabel, width=None):
    """Write title and axis labels; the title on as many lines as it needs beside the neighbours."""
    ax.set_xlabel(written(xlabel))
    ax.set_ylabel(written(ylabel))
    if width is None:
        ax.figure.draw_without_rendering()
        box = ax.get_position()
        middle = (box.x0 + box.x1) / 2
        alone = len(ax.figure.axes) == 1
        width = ax.figure.get_figwidth() * (2 * min(middle, 1 - middle) - 0.02 if alone else 1.1 * box.width)
    ax.set_title(wrapped(ax.figure, written(title), width))
    return ax


def inches(figure, texts, size, parse_math=False):
    """The width of the widest text and the height of the highest, in inches."""
    drawn = [figure.text(0, 0, text, fontsize=size, parse_math=parse_math) for text in texts]
    boxes = [text.get_window_extent() for text in drawn]
    for text in drawn:
        text.remove()
    return max(box.width for box in boxes) / figure.dpi, max(box.height for box in boxes) / figure.dpi


def wrapped(figure, title, width, size=11):
    """The title on as few lines as are no wider than `width` inches, all of about the same length."""
    words = title.split(" ")
    space = inches(figure, ["a a"], size)[0] - inches(figure, ["aa"], size)[0]
    sizes = [inches(figure, [word], size, parse_math=True)[0] if word else 0 for word in words]

    def lines(limit):
        broken, used = [[]], 0.0
        for word, long in zip(words, sizes, strict=True):
            if broken[-1] and used + space + long > limit:
                broken, used = [*broken, []], 0.0
            used += long + (space if broken[-1] else 0)
            broken[-1].append(word)
        return broken

    n_lines = len(lines(width))
    limit = next(limit for limit in np.linspace(0.3, 1, 36) * width if len(lines(limit)) <= n_lines)
    return "\n".join(" ".join(line) for line in lines(limit))


def _map(values, cells, rows, columns, title, xlabel, ylabel, ax, colours, low, high, meaning):
    n_rows, n_columns = values.shape
    rows, columns = _labels(rows, n_rows, "rows"), _labels(columns, n_columns, "columns")
    new = ax is None
    figure, ax = plt.subplots() if new else (ax.figure, ax)
    widest, _ = inches(figure, rows, 9)
    longest, line = inches(figure, columns, 9)
    if new:  # cells as large as a page of 6.9 x 7.5 inches allows
        side = min((5.6 - widest) / n_columns, (6.4 - longest) / n_rows)
        side = min(0.5, max(0.125, side))
    else:
        figure.draw_without_rendering()
        box = ax.get_window_extent()
        side = min(box.width / n_columns, box.height / n_rows) / figure.dpi
    size = min(9, max(5, 72 * side * 0.72))
    longest, line = longest * size / 9, line * size / 9
    turn = 0 if longest < 0.8 * side else 45 if 0.7 * side > 1.05 * line else 90
    wide, tall = side * n_columns, side * n_rows
    if tall >= 1.2:
        place, direction = [1 + 0.12 / wide, 0, 0.13 / wide, 1], "vertical"
    else:
        place, direction = [0, -0.25 / tall, max(1, 1.5 / wide), 0.13 / tall], "horizontal"
    sns.heatmap(
        values,
        mask=np.isinf(values),
        cmap=colours,
        vmin=low,
        vmax=high,
        square=True,
        linewidths=0.4,
        linecolor="#CCCCCC",
        xticklabels=False,
        yticklabels=False,
        cbar_ax=ax.inset_axes(place),
        cbar_kws={"orientation": direction, "label": written(meaning)},
        ax=ax,
        transform=Affine2D().translate(-0.5, -0.5) + ax.transData,  # so that cell (i, j) is about (j, i)
    )
    mesh = ax.collections[-1]
    ax.grid(False)
    ax.spines[:].set(visible=True, linewidth=0.6)
    ax.set(xlim=(-0.5, n_columns - 0.5), ylim=(n_rows - 0.5, -0.5))
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.tick_params(which="major", length=0, pad=4)
    ax.set_yticks(range(n_rows), rows, fontsize=size, parse_math=False)
    anchor = {0: ("center", "bottom"), 45: ("left", "bottom"), 90: ("left", "center")}[turn]
    ax.set_xticks(
        range(n_columns),
        columns,
        fontsize=size,
        parse_math=False,
        rotation=turn,
        rotation_mode="anchor",
        ha=anchor[0],
        va=anchor[1],
    )
    if side >= 0.36:
        for (i, j), value in np.ndenumerate(values):
            ink = ink_on(colours(mesh.norm(value))) if np.isfinite(value) else INK
            ink = ink if cells[i][j].strip("0.\N{MINUS SIGN}") else "#999999"  # a zero steps back
            ax.text(j, i, cells[i][j], ha="center", va="center", fontsize=min(8, 72 * side * 0.24), color=ink)
    mesh.colorbar.outline.set_linewidth(0.6)  # an end that is white would have none
    mesh.colorbar.ax.tick_params(labelsize=8, length=3)
    if not new:
        return _named(ax, title, xlabel, ylabel)
    figure.set_layout_engine("none")
    figure.set_size_inches(wide, tall)
    ax.set_position([0, 0, 1, 1])
    _named(ax, title, xlabel, ylabel, width=max(4, wide + 1.5))
    return _trimmed(ax, wide, tall)


def _trimmed(ax, wide, high, margin=0.08):
    """Make the figure as large as the Axes of this size in inches and all that stands around it."""
    figure = ax.figure
    figure.draw_without_rendering()
    box = ax.get_tightbbox()
    left, bottom, right, top = box.x0, box.y0, box.x1, box.y1
    left, bottom = margin - left / figure.dpi, margin - bottom / figure.dpi
    width, height = left + right / figure.dpi + margin, bottom + top / figure.dpi + margin
    figure.set_size_inches(width, height)
    ax.set_position([left / width, bottom / height, wide / width, high / height])
    return ax


def _bars(labels, series, bands, ax, estimator, upright):
    if not isinstance(series, dict):
        series, bands = {"": series}, {} if bands is None else {"": bands}
    labels = list(labels)
    labels = _labels(labels, len(labels), "bars")
    names = [written(name) for name in series]
    places, rows, which, statistic = _long(range(len(labels)), series, bands or {}, estimator)
    size = (6.4, 4.0) if upright else (6.4, 1.1 + 0.38 * len(labels) * len(series) ** 0.7)
    new, ax = ax is None, plt.subplots(figsize=size)[1] if ax is None else ax
    along = {"x": places, "y": rows} if upright else {"x": rows, "y": places}
    sns.barplot(
        **along,
        orient="x" if upright else "y",
        hue=which,
        palette=sns.color_palette(n_colors=len(names)),
        saturation=1,
        gap=0.08,
        edgecolor="white",
        err_kws={"color": INK, "linewidth": 1.4},
        legend=False,
        ax=ax,
        **{"errorbar": None, **statistic},
    )
    groups = ax.containers[-len(names) :]
    bars = [(number, place, bar) for number, group in enumerate(groups) for place, bar in enumerate(group)]
    values = np.array([bar.get_height() if upright else bar.get_width() for *_, bar in bars])
    for (number, place, bar), value, text in zip(bars, values, significant(values), strict=True):
        bar.set_hatch(HATCHES[number % len(HATCHES)])
        reach = rows[(which == number) & (places == place)]  # its band's ends among them
        end, away = (reach.max(), 1) if value >= 0 else (reach.min(), -1)
        middle = bar.get_center()[0 if upright else 1]
        ax.annotate(
            text,
            (middle, end) if upright else (end, middle),
            xytext=(0, 3 * away) if upright else (4 * away, 0),
            textcoords="offset points",
            ha="center" if upright else ("left" if away > 0 else "right"),
            va="center" if not upright else ("bottom" if away > 0 else "top"),
            fontsize=9,
        )
    if len(series) > 1 and new:
        ax.figure.legend(groups, names, loc="outside lower center", ncols=len(series))
    elif len(series) > 1:
        ax.legend(groups, names, loc="center left", bbox_to_anchor=(1.01, 0.5))
    if upright:
        ax.figure.draw_without_rendering()
        room = ax.get_window_extent().width / ax.figure.dpi / len(labels)
        labels = [wrapped(ax.figure, label, 0.95 * room, size=10) for label in labels]
        turned = inches(ax.figure, labels, 10)[0] > 0.95 * room
        ax.set_xticks(
            range(len(labels)),
            labels,
            parse_math=False,
            rotation=40 if turned else 0,
            ha="right" if turned else "center",
            rotation_mode="anchor",
        )
        ax.margins(y=0.12)
        ax.axhline(0, color=INK, linewidth=0.8)
    else:
        ax.set_yticks(range(len(labels)), labels, parse_math=False)
        ax.margins(x=0.16 if values.min() >= 0 else 0.25)
        ax.axvline(0, color=INK, linewidth=0.8)
    return ax
