"""Curves of long trainings, from their logs."""

import matplotlib.pyplot as plt
import seaborn as sns


def runs(logs):
    """Draw the loss of several trainings, and what their validations said, against the updates.

    logs: the name of each training -> the lines of its log.jsonl, as dictionaries

    Returns the Axes of the loss; that of the validations stands beside it, if there are any.
    Raises ValueError if no line of a training has a loss.
    """
    for name, lines in logs.items():
        if not any("loss" in line for line in lines):
            raise ValueError(f"{name} has no line with a loss.")
    judged = {name: [line for line in lines if line.get("weights") == "last"] for name, lines in logs.items()}
    kinds = dict.fromkeys(key for lines in judged.values() for line in lines for key in line["validation"])
    _, axes = plt.subplots(1, 1 + len(kinds), squeeze=False, figsize=(5.2 * (1 + len(kinds)), 3.8))
    for name, lines in logs.items():
        steps = [line["step"] for line in lines if "loss" in line]
        sns.lineplot(x=steps, y=[line["loss"] for line in lines if "loss" in line], label=name, ax=axes[0, 0])
        for kind, ax in zip(kinds, axes[0, 1:], strict=True):
            values = [
                (line["step"], line["validation"][kind])
                for line in judged[name]
                if kind in line["validation"]
            ]
            sns.lineplot(x=[x for x, _ in values], y=[y for _, y in values], marker="o", label=name, ax=ax)
    for what, ax in zip(("training loss", *kinds), axes[0], strict=True):
        ax.set(xlabel="update", ylabel=what.replace("_", " "))
    return axes[0, 0]
