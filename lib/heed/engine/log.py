"""What is written while a training runs: one JSON object a line, and a line on the screen."""

import json
import os
import sys
import time

from heed.checkpoint import CheckpointError, not_written, write_file
from heed.engine.world import rank_and_size
from heed.train import Progress


def say(line, file=None):
    """Print a line, in the first process alone. That nobody reads it any more ends no training.

    file: sys.stdout if it is not given
    """
    if rank_and_size()[0] == 0:
        try:
            print(line, file=file, flush=True)
        except (OSError, ValueError):  # a pipe without a reader, a terminal that was closed, a full disk
            unheard(file or sys.stdout)


def unheard(stream):
    """Send what a stream still gets into nothing, or Python complains about it at the end."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):  # it has no number, or is closed
        pass


class Log:
    """log.jsonl: a line for every few updates, for every validation, and for the end.

    A resumed run continues it from the step of its checkpoint: lines that a killed run has written after that
    are dropped, for they will come again.

    folder: where the file is
    written: whether to write at all: of many processes, rank 0 alone does
    step: of the checkpoint from which the run is resumed; None for a new file
    """

    def __init__(self, folder, written, step=None):
        self.path, self.file = folder / "log.jsonl", None
        if written:
            kept = [] if step is None else [line for line in self.lines() if before(line, step)]
            write_file(self.path, "".join(json.dumps(line) + "\n" for line in kept).encode())
            self.file = self.path.open("a", encoding="utf-8", newline="\n")

    def lines(self):
        """The lines that are there, as dictionaries."""
        return read_log(self.path)

    def append(self, **line):
        """Add a line, and hand it to the system at once."""
        if not self.file:
            return
        try:
            self.file.write(json.dumps(line) + "\n")
            self.file.flush()
        except OSError as error:
            raise CheckpointError(not_written(self.path, error)) from error

    def to_disk(self):
        """Bring all lines to the disk. A checkpoint that comes after is never ahead of its log."""
        if self.file:
            os.fsync(self.file.fileno())

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.file:
            self.file.close()


def read_log(path):
    """The lines of a log.jsonl, as dictionaries; what was cut in the middle, or is none, is left out."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    found = []
    for line in text.splitlines():
        try:
            said = json.loads(line)
        except (json.JSONDecodeError, RecursionError):
            continue
        if isinstance(said, dict) and isinstance(said.get("step", 0), int):
            found.append(said)
    return found


def before(line, step):
    """Whether a line was written before the checkpoint of this step; those of the end come after the last."""
    return line.get("step", 0) <= step and "ended" not in line and line.get("weights") != "average"


class Screen(Progress):
    """The progress of a long run: how far, how good, how fast, how long still.

    In a terminal or a notebook it is a line that is replaced, elsewhere (in a file, in a log of a machine)
    one more line a minute.
    """

    def __init__(self, shown=True):
        super().__init__(1)
        self.shown_here, self.value = shown, None

    def line(self, progress, step, loss, speed, seconds):
        """Show these; the time left is what the time so far lets one expect."""
        left = seconds * (1 - progress) / max(progress, 1e-9)
        held_out = "" if self.value is None else f"  validation {self.value:.3f}"
        said = f"step {step:,}  loss {loss:.3f}{held_out}  {speed:,.0f} tokens/s  {clock(left)} left"
        self.say(said, "█" * int(20 * progress))

    def say(self, text, bar=None):
        """Show this text, behind a bar where it can be replaced."""
        if self.display or self.terminal:
            self.write(text if bar is None else f"{bar:·<20} {text}")
        elif self.shown_here and time.monotonic() - self.shown >= 60:
            self.shown = time.monotonic()
            say(text, sys.stderr)

    def write(self, line):
        try:
            if self.shown_here:
                super().write(line)
        except OSError:  # the terminal was closed
            unheard(sys.stderr)


def clock(seconds):
    """Seconds as minutes and seconds, or from an hour on with hours: 5:00, 1:02:03."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
