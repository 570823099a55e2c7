"""What is written while a training runs: one JSON object a line, and a line on the screen."""

import json
import os

from heed.checkpoint import CheckpointError, write_file
from heed.train import Progress


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
        """The lines that are there, as dictionaries; one that was cut in the middle is none."""
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        found = []
        for line in text.splitlines():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                continue
        return found

    def append(self, **line):
        """Add a line, and hand it to the system at once."""
        if not self.file:
            return
        try:
            self.file.write(json.dumps(line) + "\n")
            self.file.flush()
        except OSError as error:
            raise CheckpointError(
                f"{self.path} could not be written: {error.strerror}. Make room."
            ) from error

    def to_disk(self):
        """Bring all lines to the disk. A checkpoint that comes after is never ahead of its log."""
        if self.file:
            os.fsync(self.file.fileno())

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.file:
            self.file.close()


def before(line, step):
    """Whether a line was written before the checkpoint of this step; those of the end come after the last."""
    return line.get("step", 0) <= step and "ended" not in line and line.get("weights") != "average"


class Screen(Progress):
    """The progress line of a long run: how far, how good, how fast, how long still."""

    def __init__(self, shown=True):
        super().__init__(1)
        self.shown_here = shown

    def line(self, progress, step, loss, speed, seconds):
        """Show these; the time left is what the time so far lets one expect."""
        if self.shown_here:
            left = seconds * (1 - progress) / max(progress, 1e-9)
            bar = "█" * int(20 * progress)
            self.write(
                f"{bar:·<20} step {step:,}  loss {loss:.3f}  {speed:,.0f} tokens/s  "
                f"{int(left) // 60}:{int(left) % 60:02} left"
            )
