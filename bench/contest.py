"""Fair ratios on a machine with other work to do: the contestants take turns, A B C A B C …

Each has a process of its own, so that what one sets for the process (the allocator) is not set for another.
While one computes, the others wait. A ratio is taken within a round, where the load is the same for both; the
median over the rounds counts, and the lowest and the highest are told.
"""

import multiprocessing
import os
import statistics
import sys
import time
from typing import NamedTuple


class Ratio(NamedTuple):
    """The median of a ratio over all rounds, the lowest and the highest of them."""

    value: float
    low: float
    high: float


class Turns:
    """One contestant's view: work is done in rounds, and a round begins when the others have stopped.

    connection: to the process that holds the contest
    """

    def __init__(self, connection):
        self.connection, self.began = connection, None

    def next(self):
        """Say that the round is over, and wait for the next one. Raises EOFError if there is none."""
        if self.began is not None:
            self.connection.send(time.perf_counter() - self.began)
        self.connection.recv()
        self.began = time.perf_counter()


class Rounds:
    """Batches that are the same in every epoch, and an epoch is a round.

    The same ones, so that all shapes have been seen when the clock runs: the matrix library prepares for each
    new one, which in a long training is soon over.

    batches: a `TokenBatches`, or what else has epoch, part and batch
    steps: how many of them
    """

    def __init__(self, batches, steps, turns):
        self.batches, self.turns, self.plan = batches, turns, batches.epoch(0)[:steps]
        self.batch, self.part = batches.batch, getattr(batches, "part", None)

    def epoch(self, k):
        """The batches of a round, when its time has come."""
        self.turns.next()
        return self.plan

    def forever(self):
        """All batches, round after round."""
        while True:
            yield from map(self.batch, self.epoch(0))


def quietly(contestant, connection, *given):
    """Let a contestant work until the contest is over; what it prints is not part of the table."""
    with open(os.devnull, "w", encoding="utf-8") as sys.stdout:
        try:
            contestant(Turns(connection), *given)
        except EOFError:
            pass


def contest(contestants, rounds):
    """Let all contestants work in turns. What they do first is not counted: it warms them up.

    contestants: name -> (function, *what it is given); the function calls `next` of its Turns before each
        round, for as long as that lets it
    rounds: how many are counted

    Returns name -> the seconds of each round. Raises ValueError if one of them fails.
    """
    start, lines = multiprocessing.get_context("spawn"), {}
    for name, work in contestants.items():
        lines[name], theirs = start.Pipe()
        start.Process(target=quietly, args=(work[0], theirs, *work[1:])).start()  # it may have workers itself
        theirs.close()
    seconds = {name: [] for name in contestants}
    try:
        for _ in range(rounds + 1):
            for name, line in lines.items():
                try:
                    line.send("go")
                    seconds[name].append(line.recv())
                except (EOFError, OSError):
                    raise ValueError(f"{name} has failed; what it said stands above.") from None
    finally:
        for line in lines.values():
            line.close()  # which ends them
    return {name: times[1:] for name, times in seconds.items()}


def ratio(a, b):
    """How many times as much a is as b, round by round, as a Ratio."""
    each = [x / y for x, y in zip(a, b, strict=True)]
    return Ratio(statistics.median(each), min(each), max(each))
