"""A picture that hangs on a training: what of it must be the same everywhere, and how rough it may be.

A training ends a little differently on another processor, and so do its curves. A cell whose figure shows
that is tagged `varies`. Beside its picture is stored the figure's *outline*: the words to the letter, the
axes' limits, and for each curve, bar, band, group of points and map its colour and its course. `draw`
takes it from the live figure, inside the kernel; `differs` compares two.
"""

import json

import numpy as np

POINTS = 8  # of a curve's course; each is the mean of an eighth of it
ROOM = 0.15  # of an axis's length: how far a point or a limit may lie from where it was stored


def draw():
    """In a kernel: from now on each figure that is shown carries its outline as metadata."""
    from IPython import get_ipython

    formatter = get_ipython().display_formatter.mimebundle_formatter
    formatter.for_type_by_name(
        "matplotlib.figure", "Figure", lambda figure, **_: ({}, {"outline": outline(figure)})
    )


def outline(figure):
    """The figure's outline, as one line of JSON."""
    return json.dumps([of_axes(axes) for axes in figure.axes], ensure_ascii=False)


def of_axes(axes):
    """One Axes: its words, its limits, and what is drawn in it."""
    ticks = [*axes.get_xticklabels(), *axes.get_yticklabels()]
    legend = axes.get_legend().get_texts() if axes.get_legend() else []
    titles = [axes.get_title(loc) for loc in ("left", "center", "right")]
    texts = [text.get_text() for text in [*ticks, *legend, *axes.texts, *axes.figure.texts]]
    return {
        "words": [*titles, axes.get_xlabel(), axes.get_ylabel(), axes.get_xscale(), axes.get_yscale()]
        + [text for text in texts if not is_number(text)],
        "x": limits(axes.xaxis),
        "y": limits(axes.yaxis),
        "drawn": [
            of_artist(artist, axes)
            for artist in (*axes.lines, *axes.patches, *axes.collections, *axes.images)
        ],
    }


def is_number(text):
    """Is this text a number? It hangs on what is drawn, and what is drawn is compared."""
    try:
        return float(text.replace("\N{MINUS SIGN}", "-").strip("%") or 0) is not None
    except ValueError:
        return text.startswith("$\\mathdefault{")


def limits(axis):
    """Where an axis begins and ends, in the scale in which it is drawn."""
    return [round(float(end), 6) for end in axis.get_transform().transform(axis.get_view_interval())]


def of_artist(artist, axes):
    """A curve, bar, band, group of points, or map: its kind, its colour, its course in parts of the axes."""
    from matplotlib.colors import to_hex

    values = artist.get_array() if hasattr(artist, "get_array") else None
    if values is not None and np.ndim(values) >= 2:
        low, high = artist.get_clim()
        return [
            "map",
            list(np.shape(values)),
            course(((np.ma.filled(values, low) - low) / (high - low)).reshape(len(values), -1)),
        ]
    to_axes = artist.get_transform() - axes.transAxes
    if hasattr(artist, "get_paths"):
        offsets = np.ma.getdata(artist.get_offsets())
        if len(offsets) > 1 or offsets.any():
            points = (artist.get_offset_transform() - axes.transAxes).transform(offsets)
        else:
            points = np.concatenate(
                [to_axes.transform(path.vertices) for path in artist.get_paths()] or [np.zeros((0, 2))]
            )
        colours = artist.get_facecolor()
        colour = to_hex(colours[0]) if len(colours) else ""
    else:
        points = to_axes.transform(artist.get_path().vertices)
        colour = to_hex(artist.get_color() if hasattr(artist, "get_color") else artist.get_facecolor())
    return [type(artist).__name__, colour, course(points)]


def course(rows):
    """Some points of a long row of points: each the mean of its part. What is NaN is not drawn."""
    rows = np.asarray(rows)
    rows = rows[np.isfinite(rows).all(axis=1)] if len(rows) else rows
    parts = np.array_split(rows, min(POINTS, len(rows))) if len(rows) else []
    return [[round(float(number), 3) for number in part.mean(axis=0)] for part in parts]


def differs(stored, live, room=ROOM):
    """What is different between two outlines, in words; None if they are alike.

    stored, live: as `outline` writes them, or None where there is none
    """
    if stored is None or live is None:
        return "no outline is stored: python book/chapters.py run"
    stored, live = json.loads(stored), json.loads(live)
    if len(stored) != len(live):
        return f"the figure has {len(live)} Axes, and {len(stored)} are stored"
    for old, new in zip(stored, live, strict=True):
        for word in {*old["words"]} ^ {*new["words"]}:
            return f"{word!r} is written in one of the figures only"
        for name in "xy":
            span = abs(old[name][1] - old[name][0])
            if far(old[name], new[name]) > room * span:
                return f"the {name}-axis goes from {new[name]}, and {old[name]} are stored"
        if [shape(artist) for artist in old["drawn"]] != [shape(artist) for artist in new["drawn"]]:
            return f"{[*map(shape, new['drawn'])]} are drawn, and {[*map(shape, old['drawn'])]} are stored"
        for number, (was, is_) in enumerate(zip(old["drawn"], new["drawn"], strict=True)):
            if was[2] and far(was[2], is_[2]) > room:
                return f"{was[0]} {number} takes another course: {is_[2]}, and {was[2]} is stored"
    return None


def shape(artist):
    """What must be the same of an artist in any case: kind, colour, number of points."""
    return (*map(str, artist[:2]), len(artist[2]))


def far(a, b):
    """The largest difference between two rows of numbers of the same shape."""
    return float(np.abs(np.subtract(a, b)).max())
