"""Ctrl-C, and the signal by which a machine asks a program to end: not in the middle of an update."""

import signal
import threading
import time


class Interrupted(KeyboardInterrupt):
    """A training was asked to stop, and has saved what it needs to go on. Its text says where."""


class Signals:
    """While it is open, Ctrl-C and SIGTERM only leave word in `caught`; a second Ctrl-C acts at once.

    `torchrun` hands on a Ctrl-C that the processes have had already; so one within a second is the same one.
    """

    caught = 0

    def __enter__(self):
        self.before = {}
        if threading.current_thread() is threading.main_thread():  # no other may set them
            for number in (signal.SIGINT, signal.SIGTERM):
                self.before[number] = signal.signal(number, self.note)
        return self

    def note(self, number, frame):
        """Python calls this when a signal has come."""
        if self.caught and number == signal.SIGINT and time.monotonic() - self.when > 1:
            raise KeyboardInterrupt
        if not self.caught:
            self.caught, self.when = number, time.monotonic()

    def __exit__(self, *error):
        for number, handler in self.before.items():
            signal.signal(number, handler)
