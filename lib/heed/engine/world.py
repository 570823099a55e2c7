"""Many processes, one training. Each computes its part of every batch; together they take the step of one.

`torchrun` starts the processes and tells each its rank; without it there is one. Numbers that must be the
same everywhere (tokens, the clock, a signal) are all-reduced before a step begins.
"""

import atexit
import os
import re
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from heed.engine.devices import choose_device


class ProcessLost(ValueError):
    """Another process of this training has ended before its time."""


def rank_and_size():
    """Which process this is, and of how many, as `torchrun` says; a RANK without a WORLD_SIZE says nothing.

    Raises ValueError for what is no such number.
    """
    size, rank = os.environ.get("WORLD_SIZE", "1"), "0"
    if size.isdecimal() and int(size) > 1:
        rank = os.environ.get("RANK", "missing")
    if not (size.isdecimal() and rank.isdecimal() and int(rank) < max(int(size), 1)):
        raise ValueError(
            f"WORLD_SIZE is {size!r} and RANK is {rank!r}: these are no number of processes and one of them. "
            "`torchrun` sets both; for one process unset WORLD_SIZE."
        )
    return int(rank), max(int(size), 1)


class World:
    """The processes of this training, seen from one of them: its `rank`, of `size`, on its `device`."""

    def __init__(self, device=None, timeout=timedelta(minutes=10)):
        self.rank, self.size = rank_and_size()
        self.device = choose_device(device)
        if self.size > 1 and self.device.type == "cuda":
            self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
            torch.cuda.set_device(self.device)
        if self.size > 1 and not dist.is_initialized():
            backend = "cpu:gloo,cuda:nccl" if self.device.type == "cuda" else "gloo"
            dist.init_process_group(backend, timeout=timeout)
            atexit.register(dist.destroy_process_group)  # not sooner: they can meet at this address only once

    def micro_batches(self, batches, indices, n):
        """What this rank computes of a step: n pairs (micro-batch, whether it counts), and their tokens.

        A micro-batch without rows is left out. But all ranks compute equally many, or some would wait: one
        that has fewer computes the first row, and counts it for nothing.
        """
        parts = [batches.part(indices, i, self.size * n) for i in range(self.size * n)]
        filled = [[rows for rows in parts[r * n : (r + 1) * n] if rows] for r in range(self.size)]
        mine = [(batches.batch(rows), True) for rows in filled[self.rank]]
        n_tokens = sum(batch.n_tokens for batch, _ in mine)
        idle = max(map(len, filled)) - len(mine)
        return mine + [(batches.batch(indices[:1]), False) for _ in range(idle)], n_tokens

    def first_alone(self, function):
        """What a function returns that rank 0 alone calls. The others wait for it, as long as it takes.

        What it raises, a ValueError or an OSError, all raise.
        """
        if self.size == 1:
            return function()
        patient = dist.new_group(backend="gloo", timeout=timedelta(days=1))
        box = [None, None]
        if self.rank == 0:
            try:
                box[0] = function()
            except (ValueError, OSError) as error:
                box[1] = error
        dist.broadcast_object_list(box, group=patient)
        dist.destroy_process_group(patient)
        if box[1]:
            raise box[1]
        return box[0]

    def any(self, signal):
        """The signal that any rank has caught; 0 for none."""
        return self.agree(0, 0.0, signal)[2]

    def agree(self, n_tokens, seconds, signal):
        """What holds for all ranks: the sum of the tokens, the latest clock, any signal."""
        if self.size == 1:
            return n_tokens, seconds, signal
        total, latest = torch.tensor([n_tokens]), torch.tensor([seconds, float(signal)], dtype=torch.float64)
        dist.all_reduce(total)
        dist.all_reduce(latest, dist.ReduceOp.MAX)
        return int(total), float(latest[0]), int(latest[1])

    def all_reduce(self, numbers):
        """The sum of a tensor over all ranks, on the CPU."""
        numbers = numbers.cpu().clone()
        if self.size > 1:
            dist.all_reduce(numbers)
        return numbers

    def all_gather(self, thing):
        """What each rank has, as a list."""
        things = [thing] * self.size
        if self.size > 1:
            dist.all_gather_object(things, thing)
        return things

    def broadcast(self, thing):
        """What rank 0 has."""
        box = [thing]
        if self.size > 1:
            dist.broadcast_object_list(box)
        return box[0]

    @contextmanager
    def explaining_losses(self, folder):
        """While it is open, an error that another process has left behind becomes a ProcessLost."""
        try:
            yield
        except RuntimeError as error:
            if self.size > 1 and is_distributed(error):
                atexit.unregister(dist.destroy_process_group)  # it would wait for the lost one
                cause = next(iter(str(error).strip().splitlines()), type(error).__name__)
                raise ProcessLost(
                    f"Rank {self.rank} of {self.size}: another process has ended, so all end ({cause}). "
                    f"If it failed, its own message says why. {folder / 'checkpoint.pt'} is whole: the same "
                    "command resumes the run."
                ) from error
            raise


def is_distributed(error):
    """Whether an error comes from torch.distributed: by its class, or by gloo's file in its text."""
    return isinstance(error, dist.DistError) or bool(re.search(r"[/\\]gloo[/\\]", str(error)))
