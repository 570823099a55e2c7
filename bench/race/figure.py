"""The race's table and figure, from its log alone: a band where there are several seeds."""

import statistics

import matplotlib.pyplot as plt
import numpy as np

from bench.race.contestants import CONTESTANTS, OURS
from heed.plot import style

OTHERS = tuple(name for name in CONTESTANTS if name not in OURS)


def by_name(log):
    """The runs of each contestant that has any."""
    runs = {
        name: [run for run in log["runs"] if run["name"] == name and run["points"]] for name in CONTESTANTS
    }
    return {name: mine for name, mine in runs.items() if mine}


def last(run, key):
    """The value at the end of a run."""
    return run["points"][-1][key]


def reached(run, loss):
    """The minute from which on a run's held-out loss is at most this one; None if it never is.

    Between two measurements a straight line is assumed.
    """
    before = None
    for point in run["points"]:
        if point["loss"] <= loss:
            if before is None:
                return point["minute"]
            share = (before["loss"] - loss) / (before["loss"] - point["loss"])
            return before["minute"] + share * (point["minute"] - before["minute"])
        before = point
    return None


def verdict(log):
    """For each seed that all have run: the best other's name and last loss, and when each of ours had it."""
    runs = by_name(log)
    seeds = sorted(set.intersection(*({run["seed"] for run in mine} for mine in runs.values())))
    found = []
    for seed in seeds:
        at = {name: next(run for run in mine if run["seed"] == seed) for name, mine in runs.items()}
        others = [name for name in at if name in OTHERS]
        if not others:
            continue
        rival = min(others, key=lambda name: last(at[name], "loss"))
        loss = last(at[rival], "loss")
        minutes = {name: reached(at[name], loss) for name in at if name in OURS}
        found.append({"seed": seed, "best other": rival, "loss": loss, "minutes until then": minutes})
    return found


def said(values, digits=2):
    """One number, or the mean and the range of several."""
    text = f"{statistics.mean(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def table(log):
    """The lines of a Markdown table, and a sentence for each seed."""
    yield "| | rate | updates | held-out loss | BLEU, held-out | BLEU, test |"
    yield "|---|---|---|---|---|---|"
    for name, runs in by_name(log).items():
        test = [last(run, "test") for run in runs if "test" in run["points"][-1]]
        cells = [
            CONTESTANTS[name].label,
            f"{runs[0]['rate']:g}",
            said([last(run, "updates") for run in runs], 0),
            said([last(run, "loss") for run in runs]),
            said([last(run, "bleu") for run in runs], 1),
            said(test, 1) if test else "",
        ]
        yield f"| {' | '.join(cells)} |"
    for each in verdict(log):
        minutes = "; ".join(
            f"{CONTESTANTS[name].label}: {'never' if minute is None else f'{minute:.1f} min'}"
            for name, minute in each["minutes until then"].items()
        )
        rival = f"the best other, {CONTESTANTS[each['best other']].label}, ends at {each['loss']:.3f}"
        yield f"Seed {each['seed']}: {rival}; until then {minutes}."


def common(runs, key):
    """The values after those parts of the run that all runs have, a row for each run."""
    parts = set.intersection(*({point["part"] for point in run["points"]} for run in runs))
    return np.array([[point[key] for point in run["points"] if point["part"] in parts] for run in runs])


def draw(log, file):
    """Held-out loss and BLEU against minutes; the band is from the lowest to the highest of the seeds."""
    style()
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2))
    colours = plt.rcParams["axes.prop_cycle"].by_key()["color"]
    for i, (name, runs) in enumerate(by_name(log).items()):
        ours = name in OURS
        look = {"color": colours[i % len(colours)], "lw": 2.4 if ours else 1.6, "ls": "-" if ours else "--"}
        for ax, key in zip(axes, ("loss", "bleu"), strict=True):
            minutes, values = common(runs, "minute").mean(axis=0), common(runs, key)
            ax.plot(minutes, values.mean(axis=0), label=CONTESTANTS[name].label, **look)
            if len(runs) > 1:
                band = values.min(axis=0), values.max(axis=0)
                ax.fill_between(minutes, *band, color=look["color"], alpha=0.2, lw=0)
    for ax, what in zip(axes, ("held-out loss per sub-word", "BLEU, held-out captions, greedy"), strict=True):
        ax.set(xlabel="minutes of training", ylabel=what, xlim=(0, None))
    axes[1].set_ylim(0, None)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9)
    figure.set_layout_engine("constrained")
    figure.savefig(file, dpi=150)
    plt.close(figure)
