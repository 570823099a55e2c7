"""Many processes, one training. Each computes its part of every batch; together they take the step of one.

`torchrun` starts the processes and tells each which it is; without it there is one. Numbers that must be the
same everywhere (tokens, the clock, a signal) are agreed on by all before a step begins.
"""

import atexit
import os
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from heed.engine.devices import choose_device


class ProcessLost(ValueError):
    """Another process of this training has ended before its time."""


class Team:
    """The processes of this training, seen from one of them: its `rank`, of `count`, on its `device`."""

    def __init__(self, device=None, patience=timedelta(minutes=10)):
        self.count = int(os.environ.get("WORLD_SIZE", 1))
        self.rank = int(os.environ.get("RANK", 0)) if self.count > 1 else 0
        self.device = choose_device(device)
        if self.count > 1 and self.device.type == "cuda":
            self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
            torch.cuda.set_device(self.device)
        if self.count > 1 and not dist.is_initialized():
            backend = "cpu:gloo,cuda:nccl" if self.device.type == "cuda" else "gloo"
            dist.init_process_group(backend, timeout=patience)
            atexit.register(dist.destroy_process_group)  # not sooner: they can meet at this address only once

    @property
    def first(self):
        """Whether this process is the one that writes and speaks."""
        return self.rank == 0

    def shares(self, batches, indices, parts):
        """What this process computes of a step, in parts: pairs (batch, whether it counts), and their tokens.

        A part for which no row is left still takes part, or the others would wait: it computes the first row,
        and counts it for nothing.
        """
        shares, tokens, n = [], 0, self.count * parts
        for i in range(self.rank * parts, (self.rank + 1) * parts):
            rows = batches.part(indices, i, n)
            batch = batches.batch(rows or indices[:1])
            shares.append((batch, bool(rows)))
            tokens += batch.n_tokens * bool(rows)
        return shares, tokens

    def agree(self, tokens, seconds, signal):
        """What holds for all: the tokens of all together, the latest clock, any signal."""
        if self.count == 1:
            return tokens, seconds, signal
        total, latest = torch.tensor([tokens]), torch.tensor([seconds, float(signal)], dtype=torch.float64)
        dist.all_reduce(total)
        dist.all_reduce(latest, dist.ReduceOp.MAX)
        return int(total), float(latest[0]), int(latest[1])

    def sum(self, numbers):
        """The sum over all processes."""
        numbers = numbers.cpu().clone()
        if self.count > 1:
            dist.all_reduce(numbers)
        return numbers

    def of_all(self, thing):
        """What each process has, as a list."""
        things = [thing] * self.count
        if self.count > 1:
            dist.all_gather_object(things, thing)
        return things

    def of_first(self, thing):
        """What the first process has."""
        box = [thing]
        if self.count > 1:
            dist.broadcast_object_list(box)
        return box[0]

    @contextmanager
    def together(self, folder):
        """While it is open, the loss of another process is said in words."""
        try:
            yield
        except RuntimeError as error:
            if self.count > 1 and lost(error):
                atexit.unregister(dist.destroy_process_group)  # it would wait for the lost one
                raise ProcessLost(
                    f"Process {self.rank} of {self.count}: another process has ended, so all end. "
                    f"{folder / 'checkpoint.pt'} is whole: the same command goes on from there."
                ) from error
            raise


def lost(error):
    """Whether this error says that another process is not there any more."""
    text = str(error).lower()
    return isinstance(error, dist.DistError) or any(
        word in text for word in ("gloo", "nccl", "peer", "socket")
    )
