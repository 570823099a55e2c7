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


class World:
    """The processes of this training, seen from one of them: its `rank`, of `size`, on its `device`."""

    def __init__(self, device=None, timeout=timedelta(minutes=10)):
        self.size = int(os.environ.get("WORLD_SIZE", 1))
        self.rank = int(os.environ.get("RANK", 0)) if self.size > 1 else 0
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

        A micro-batch for which no row is left still takes part, or the others would wait: it computes the
        first row, and counts it for nothing.
        """
        mine, n_tokens = [], 0
        for i in range(self.rank * n, (self.rank + 1) * n):
            rows = batches.part(indices, i, self.size * n)
            batch = batches.batch(rows or indices[:1])
            mine.append((batch, bool(rows)))
            n_tokens += batch.n_tokens * bool(rows)
        return mine, n_tokens

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
