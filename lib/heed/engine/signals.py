"""Ctrl-C, and the signals of a machine or a closed terminal: a program ends, but not inside an update."""

import signal
import threading
import time

ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interrupted(KeyboardInterrupt):
    """A training was asked to stop, and has saved what it needs to go on. Its text says where.

    signal: by which it was asked
    """

    def __init__(self, text, signal=signal.SIGINT):
        super().__init__(text)
        self.signal = signal


class Signals:
    """While it is open, Ctrl-C, SIGTERM and SIGHUP only leave word in `caught`; a second Ctrl-C acts at once.

    `torchrun` hands on a Ctrl-C that the processes have had already; so one within a second is the same one.
    A SIGHUP that is ignored, as `nohup` has it, stays ignored.
    """

    caught = 0

    def __enter__(self):
        self.before = {}
        if threading.current_thread() is threading.main_thread():  # no other may set them
            for number in ENDING:
                before = signal.getsignal(number)
                if before is not signal.SIG_IGN or number == signal.SIGINT:
                    signal.signal(number, self.note)
                    self.before[number] = before or signal.SIG_DFL  # None: set by another language
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
