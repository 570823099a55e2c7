"""Several processes that search with one model, a batch each at a time, a thread each.

Decoding is many small operations, and between two of them Python decides what comes next: two threads on one
operation gain little, two processes on two batches gain nearly twice.
"""

import signal
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import torch
from torch.multiprocessing import get_context

from heed.data import pad
from heed.speed import packed

held = {}  # in a worker: its model


class Workers:
    """n processes that share a model's memory; the matrices that each has packed are its own.

    They are started when there is more than one batch to search. Close them, or use them in a `with`.

    model: on the CPU, in eval mode; its weights must not change any more
    n: how many; 1 or more
    prepare: what each process makes of the model before it searches: a function that can be pickled

    Raises ValueError for n below 1, or a model on another device.
    """

    def __init__(self, model, n, prepare=packed):
        device = next(model.parameters()).device
        if n < 1 or device.type != "cpu":
            raise ValueError(f"Workers are one process or more, on a CPU; got {n} on {device.type}.")
        self.model, self.n, self.prepare = model, n, prepare
        self.ready = self.pool = None

    def start(self):
        """Start the processes, where they have not been started."""
        if self.pool is None:
            context = get_context("fork" if sys.platform.startswith("linux") else "spawn")
            self.pool = ProcessPoolExecutor(self.n, context, begin, (self.model.share_memory(), self.prepare))

    def search(self, search, batches):
        """The answers of a search of `heed.decode`, batch by batch, in order, as they come.

        search: a function that can be pickled: one of a module, or functools.partial of it
        batches: lists of lists of source ids

        Raises ChildProcessError if the system ends one of the processes.
        """
        batches = list(batches)
        if self.n == 1 or len(batches) < 2:
            self.ready = self.ready or self.prepare(self.model)
            yield from (search(self.ready, pad(rows)) for rows in batches)
            return
        self.start()
        with warnings.catch_warnings():  # a child has one thread, and misses none of its parent's
            warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
            found = self.pool.map(one, [(search, rows) for rows in batches])
        try:
            yield from found
        except BrokenProcessPool as error:
            raise ChildProcessError(
                f"The system has ended one of {self.n} workers, perhaps for want of memory. Try fewer."
            ) from error

    def close(self):
        """End the processes."""
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)
            self.pool = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def begin(model, prepare):
    """In a new worker: one thread, and this model. Ctrl-C is the parent's to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    held["model"] = prepare(model)


def one(job):
    """In a worker: search one batch."""
    search, rows = job
    return search(held["model"], pad(rows))
