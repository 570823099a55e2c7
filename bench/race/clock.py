"""The clock of a race: it alone says when a training ends, and what of the learning rate is due."""

import json
import time

import torch

from heed.schedule import trapezoid

PARTS = 10  # of a run; after each the weights are kept
WARMUP = 0.1  # share of the run in which the learning rate rises; then it falls to zero


class Clock:
    """It runs while a contestant trains, and keeps the weights ten times on the way.

    A contestant calls `start`, then `step` after each update (`fit`, which counts them itself: `look`), until
    `over` says that it is over, then `end`. The weights go to a file each; writing them takes a few
    hundredths of a second, for all alike. They are measured when all is over.

    folder: gets log.jsonl and the weights; None for neither
    minutes, updates: one of them: how long the run is
    parts: how often the weights are kept
    """

    def __init__(self, folder, minutes=None, updates=None, parts=PARTS):
        self.folder, self.minutes, self.n_updates, self.parts = folder, minutes, updates, parts
        self.updates = self.tokens = self.kept = 0
        self.seconds, self.began = 0.0, None

    def start(self):
        """Now."""
        self.began = time.monotonic()

    @property
    def progress(self):
        """How much of the run lies behind, from 0 to 1, at the middle of the next update."""
        if self.n_updates is not None:
            return min(1.0, (self.updates + 0.5) / self.n_updates)
        return min(1.0, (time.monotonic() - self.began) / (60 * self.minutes))

    @property
    def share(self):
        """The share of the highest learning rate that is due now, as `fit` has it."""
        return trapezoid(self.progress, WARMUP)

    @property
    def over(self):
        """Whether the run is over."""
        if self.n_updates is not None:
            return self.updates >= self.n_updates
        return self.progress >= 1

    def step(self, model, n_tokens):
        """An update of the weights has been made, from so many target tokens."""
        self.look(model, self.updates + 1, self.tokens + n_tokens)

    def look(self, model, updates, tokens):
        """So many updates have been made so far. The weights are kept if their time has come."""
        self.updates, self.tokens, self.seconds = updates, tokens, time.monotonic() - self.began
        done = updates / self.n_updates if self.n_updates else self.seconds / (60 * self.minutes)
        part = int(self.parts * done)
        if self.kept < part < self.parts:  # where an update takes longer than a part, one is left out
            self.kept = part
            self.keep(model, part)

    def end(self, model):
        """The run is over."""
        self.seconds = time.monotonic() - self.began
        self.kept = self.parts
        self.keep(model, self.parts)

    def keep(self, model, part):
        """Keep the weights of this part of the run, and say so in the log."""
        if self.folder is None:
            return
        name = f"{part:02}.pt"
        torch.save(model.state_dict(), self.folder / name)
        self.say(
            part=part, minute=round(self.seconds / 60, 3), updates=self.updates, tokens=self.tokens, file=name
        )

    def say(self, **what):
        """A line of the log."""
        if self.folder is not None:
            with (self.folder / "log.jsonl").open("a", encoding="utf-8", newline="\n") as file:
                file.write(json.dumps(what, ensure_ascii=False) + "\n")
