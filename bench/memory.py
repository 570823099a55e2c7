"""Memory: what a training step takes on top of the model, against the length of the sequence."""

import math
import multiprocessing
import sys
from pathlib import Path

import torch

from heed import attention
from heed.attention import MultiHeadAttention
from heed.layers import EncoderLayer, PositionwiseFeedForward
from heed.transformer import Encoder


def resident(which):
    """Bytes of this process that lie in memory: "VmRSS" now, "VmHWM" at the most so far."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith(which))


def step(connection, n, fused, n_layers, d_model, d_ff, n_heads, **rest):
    """Say how many bytes one step of an encoder of this length takes at most, gradients apart.

    Nothing is dropped out: a processor has no fused attention with dropout.
    """
    attention.fused_is_faster = lambda *given: fused
    layer = EncoderLayer(
        d_model, MultiHeadAttention(d_model, n_heads), PositionwiseFeedForward(d_model, d_ff, 0.0), 0.0
    )
    model = Encoder(layer, n_layers)
    for length in (8, n):  # the first makes room for gradients and loads what is needed
        x, mask = torch.randn(1, length, d_model), torch.ones(1, 1, 1, length, dtype=torch.bool)
        before = resident("VmRSS")
        model(x, mask).square().sum().backward()
    connection.send(resident("VmHWM") - before)


def exponent(lengths, sizes):
    """The power of the length with which memory grows: the slope of a line through the logarithms."""
    x, y = ([math.log(number) for number in numbers] for numbers in (lengths, sizes))
    x_mean, y_mean = sum(x) / len(x), sum(y) / len(y)
    above = sum((a - x_mean) * (b - y_mean) for a, b in zip(x, y, strict=True))
    return above / sum((a - x_mean) ** 2 for a in x)


def memory(size):
    """Measure both computations of attention at all lengths, each in a new process.

    Returns (name -> exponent over the upper half of the lengths, log of mebibytes); both empty where the
    system does not tell what a process has had at the most.
    """
    if not sys.platform.startswith("linux"):
        return {}, {}
    start, used = multiprocessing.get_context("spawn"), {}
    for name, fused in (("fused", True), ("explicit", False)):
        used[name] = []
        for n in size.lengths:
            here, there = start.Pipe()
            process = start.Process(target=step, args=(there, n, fused), kwargs=size.model)
            process.start()
            there.close()
            used[name].append(here.recv())
            process.join()
    upper = (len(size.lengths) - 1) // 2
    results = {name: exponent(size.lengths[upper:], sizes[upper:]) for name, sizes in used.items()}
    return results, {
        "length": list(size.lengths),
        "MiB": {name: [round(b / 2**20, 1) for b in sizes] for name, sizes in used.items()},
    }
