"""Several processes that search with one model, a batch each at a time, a thread each.

Decoding is many small operations, and between two of them Python decides what comes next: two threads on one
operation gain little, and wait for one another where other programs run, too; two processes on two batches
gain nearly twice.
"""

import os
import pickle
import signal
import sys
import threading
import warnings
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from multiprocessing import active_children, get_context, parent_process

import torch

from heed.data import pad
from heed.speed import packed

held = {}  # in a worker: its model, or what went wrong when it was prepared


class Workers:
    """n processes that search with one model.

    They are started when there are many sentences to search, and end with this process, however it ends.
    Where processes are forked (Linux) they share the model's memory, its packed matrices included; elsewhere
    each has a copy. Close them, or use them in a `with`.

    model: on the CPU, in eval mode; its weights must not change any more
    n: how many; 1 or more
    prepare: what is made of the model before it searches: a function that can be pickled
    few: so few sentences are not worth a process: this one searches them, with one thread

    Raises ValueError for n below 1, or a model on another device.
    """

    def __init__(self, model, n, prepare=packed, few=64):
        device = next(model.parameters()).device
        if n < 1 or device.type != "cpu":
            raise ValueError(f"Workers are one process or more, on a CPU; got {n} on {device.type}.")
        self.model, self.n, self.prepare, self.few = model, n, prepare, few
        self.ready = self.pool = None
        self.processes = []

    def search(self, search, batches):
        """The answers of a search of `heed.decode`, batch by batch, in order, as they come.

        search: a function that can be pickled: one of a module, or functools.partial of it
        batches: lists of lists of source ids

        Raises ChildProcessError if one of the processes ends before its time; the next call starts others.
        """
        batches = list(batches)
        few = sum(map(len, batches)) <= self.few
        if self.n == 1 or few:
            self.ready = self.ready or self.prepare(self.model)
            for rows in batches:
                with one_thread() if few else nullcontext():
                    found = search(self.ready, pad(rows))
                yield found
            return
        # of fewer batches than processes each is cut into pieces, or some would have nothing to do
        n_pieces = [min(self.n, len(rows)) if len(batches) < self.n else 1 for rows in batches]
        jobs = [(search, rows[i::n]) for rows, n in zip(batches, n_pieces, strict=True) for i in range(n)]
        try:
            found = self.start().map(one, jobs)
            for rows, n in zip(batches, n_pieces, strict=True):
                answers = [None] * len(rows)
                for i in range(n):
                    answers[i::n] = next(found)
                yield answers
        except BrokenProcessPool as error:
            processes = self.processes
            self.close()  # when all have ended, each knows how
            raise ChildProcessError(
                f"One of {self.n} workers {ending(processes)}. With fewer (--workers) each has more memory."
            ) from error

    def start(self):
        """The processes, started where they have not been."""
        if self.pool is None:
            if sys.platform.startswith("linux"):
                self.ready = self.ready or self.prepare(self.model)
                context, given = get_context("fork"), (self.ready,)
            else:
                context, given = get_context("spawn"), (pickle.dumps(self.model), self.prepare)
            others = active_children()
            self.pool = ProcessPoolExecutor(self.n, context, begin, given)
            with warnings.catch_warnings():  # a child has one thread, and misses none of its parent's
                warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
                self.pool.submit(os.getpid).result()
            self.processes = [process for process in active_children() if process not in others]
        return self.pool

    def close(self, at_once=False):
        """End the processes, after the batches that they have begun, or at once."""
        if at_once:
            for process in self.processes:
                process.terminate()
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)
            self.pool, self.processes = None, []

    def __enter__(self):
        return self

    def __exit__(self, kind, *error):
        self.close(at_once=kind is not None)


@contextmanager
def one_thread():
    """While it is open, torch computes in one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def ending(processes):
    """How the first of these processes ended that was not stopped because of another one."""
    codes = [process.exitcode for process in processes]
    code = next((code for code in codes if code not in (None, 0, -signal.SIGTERM)), None)
    if code is None:
        return "has ended before its time"
    if code > 0:
        return f"has ended with status {code}"
    memory = ", as the system does for want of memory" if code == -signal.SIGKILL else ""
    return f"was ended by the signal {signal.Signals(-code).name}{memory}"


# --- In a worker --------------------------------------------------------------------------------------------


def begin(model, prepare=None):
    """Become a worker with this model: one thread, no life without the parent, who answers Ctrl-C.

    model: ready, or with `prepare` pickled and still to be prepared
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    try:
        held["model"] = prepare(pickle.loads(model)) if prepare else model
    except Exception as error:  # the first job says it; the pool would only say that it is broken
        held["error"] = error


def end_with_parent():
    """Wait for the end of the parent, and end."""
    parent_process().join()
    os._exit(1)


def one(job):
    """Search one batch."""
    if "error" in held:
        raise held["error"]
    search, rows = job
    return search(held["model"], pad(rows))
