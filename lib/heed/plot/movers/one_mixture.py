"""Four lists on the line of one mixture: where two weights allow a cut."""

from heed.plot.movers.mover import Mover, picture
from heed.plot.style import COLOURS

LISTS = {"7ᴬ7ᴮ": (7, 7), "7ᴬ3ᴮ": (7, 3), "3ᴬ7ᴮ": (3, 7), "3ᴬ3ᴮ": (3, 3)}


def one_mixture(alpha=0.6, beta=0.3, title="One mixture has a cut for A or for B, never for both"):
    """Show four lists at D = α p(digit at A) + β p(digit at B), p₇ = 1, p₃ = 0; the reader moves α and β.

    Read-out A must tell the lists with 7 at A from those with 3 at A by one cut, and B likewise by the digit
    at B. A has its cut where α > β, B where β > α, and where they are equal neither has one.

    alpha, beta: the weights to begin with, multiples of 0.05 from 0.1 to 0.85, together at most 0.95, since
        the other tokens of a list have positive weights too
    title: the finding

    Returns a Mover. Raises ValueError for other weights.
    """
    for name, weight in (("alpha", alpha), ("beta", beta)):
        if not 0.1 <= weight <= 0.85 or abs(20 * weight - round(20 * weight)) > 1e-9:
            raise ValueError(f"{name}={weight!r} must be a multiple of 0.05 from 0.1 to 0.85")
    if alpha + beta > 0.951:
        raise ValueError(f"{alpha=} and {beta=} are more than 0.95: the other tokens have weights, too")

    figure = picture(5.4, 3.4, title)
    axes = figure.subplots(nrows=2, sharex=True)
    for who, (ax, name) in enumerate(zip(axes, "AB", strict=True)):
        found = cut(alpha, beta, who)
        for (label, digits), height in zip(LISTS.items(), (0.5, -0.75, -1.2, 0.5), strict=True):
            x = alpha * (digits[0] == 7) + beta * (digits[1] == 7)
            shape = {"color": COLOURS["blue"], "marker": "o"} if digits[who] == 7 else {}
            ax.plot(x, 0, **({"color": COLOURS["orange"], "marker": "s"} | shape), markersize=9)
            ax.text(x, height, label, ha="center", va="center")
        if found is not None:
            ax.axvline(found, color=COLOURS["green"], linestyle="--")
        words = "no cut" if found is None else f"a cut at {found:.3g}"
        ax.set_title(f"read-out {name}: {words}", loc="left", fontsize=10)
        ax.axhline(0, color="#BBBBBB", zorder=0)
        ax.set(ylim=(-1.5, 0.9), yticks=[], xlim=(-0.06, 1.06))
        ax.spines["left"].set_visible(False)
        ax.grid(visible=False)
    axes[0].plot([], [], "o", color=COLOURS["blue"], markersize=9, label="must say 7")
    axes[0].plot([], [], "s", color=COLOURS["orange"], markersize=9, label="must say 3")
    axes[0].legend(loc="lower right", bbox_to_anchor=(1, 0.95), ncols=2, fontsize=9, borderpad=0)
    axes[1].set_xlabel(rf"D at α = {alpha:g}, β = {beta:g}")
    return Mover("one_mixture", {"alpha": round(alpha, 2), "beta": round(beta, 2)}, figure, title)


def cut(alpha, beta, who):
    """The middle between the lists that must say 7 and those that must say 3, or None if they are mixed.

    who: 0 for read-out A, 1 for read-out B
    """
    place = {digits: alpha * (digits[0] == 7) + beta * (digits[1] == 7) for digits in LISTS.values()}
    low = max(x for digits, x in place.items() if digits[who] == 3)
    high = min(x for digits, x in place.items() if digits[who] == 7)
    return (low + high) / 2 if high - low > 0.001 else None
