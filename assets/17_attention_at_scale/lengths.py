"""Memory and time against length, each number from a process of its own: chapter 17's figure, and more.

    python lengths.py

writes lengths.json beside this file, in some minutes on one core. Memory is what a process has had at the
most beyond what it had before the call, so it wants Linux, which tells it. Times are the best of three.

    forward    softmax(QKᵀ/√d_k)V for n queries and n keys, 64 wide, float32: written out, tile by tile, fused
    training   forward and backward: also tiles of which autograd remembers every step
    sizes      tiles of other sizes, n = 8,192
    kernel     the fused kernel and what makes it give up, n = 4,096: another width of the values, dropout,
               no axes for batch and heads
    decode     milliseconds of one new token against the number of tokens in the cache: a layer 1,024 wide of
               16 heads, of which all, 4, or 1 have keys of their own, and one that keeps a sum
"""

import json
import multiprocessing
import platform
import time
import warnings
from pathlib import Path

import torch
from torch.nn import functional as F

import heed
from heed.attention import MultiHeadAttention, attention
from heed.decode import GrowingCache
from heed.scale import (
    GroupedQueryAttention,
    LinearAttention,
    linear_recurrent,
    online_softmax,
    tiled_attention,
)

D_K = 64
LENGTHS = (1024, 2048, 4096, 8192, 16384)
TRAINING = LENGTHS[:-1]
SIZES = (64, 128, 256, 512, 1024, 2048, 4096)
PREFIXES = (256, 1024, 4096, 16384)
D_MODEL, N_HEADS = 1024, 16
HARDWARE = "1 core of an x86-64 server processor without AVX-512, shared with other work; float32"
LOG = Path(__file__).with_name("lengths.json")


def written_out(q, k, v):
    return attention(q, k, v)[0]


def fused(q, k, v):
    """The kernel wants axes for batch and heads."""
    return F.scaled_dot_product_attention(q[None, None], k[None, None], v[None, None])[0, 0]


def taped(q, k, v, size=512):
    """Tiles, of which autograd remembers every step."""
    out = []
    for rows in q.split(size):
        m = torch.full_like(rows[:, :1], torch.finfo(q.dtype).min)
        state = m, torch.zeros_like(m), torch.zeros_like(rows[:, :1] * v[:1])
        for K, V in zip(k.split(size), v.split(size), strict=True):
            state = online_softmax(*state, rows @ K.mT / K.shape[-1] ** 0.5, V)
        out.append(state[2] / state[1])
    return torch.cat(out)


def narrow_values(q, k, v):
    return fused(q, k, v[:, :10])


def padded_values(q, k, v):
    """The cure: as wide as the keys, and cut afterwards."""
    return fused(q, k, F.pad(v[:, :10], (0, q.shape[-1] - 10)))[:, :10]


def with_dropout(q, k, v):
    return F.scaled_dot_product_attention(q[None, None], k[None, None], v[None, None], dropout_p=0.1)


def without_axes(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


WAYS = {"written out": written_out, "tiles": tiled_attention, "fused": fused}
KERNEL = {
    "as it wants": fused,
    "values 10 wide": narrow_values,
    "values padded to 64": padded_values,
    "dropout": with_dropout,
    "no axes for batch and heads": without_axes,
}


def resident(which):
    """Bytes of this process that lie in memory: "VmRSS" now, "VmHWM" at the most so far."""
    with open("/proc/self/status", encoding="utf-8") as status:
        return 1024 * next(int(line.split()[1]) for line in status if line.startswith(which))


def measure(connection, function, n, backward=False, **options):
    """In a process of its own: the MiB that one call takes at most, and the seconds of the best of three."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    times, used = [], 0
    for length in (64, n, n, n):
        q, k, v = (torch.randn(length, D_K, requires_grad=backward) for _ in range(3))
        if length == n and not times:
            before = resident("VmRSS")
        began = time.perf_counter()
        z = function(q, k, v, **options)
        if backward:
            z.sum().backward()
        if length == n:
            times.append(time.perf_counter() - began)
            used = resident("VmHWM") - before if len(times) == 1 else used
        del z
    connection.send({"MiB": round(used / 2**20, 1), "s": round(min(times), 3)})


def apart(*given, **options):
    """What `measure` says in a process of its own."""
    start = multiprocessing.get_context("spawn")
    here, there = start.Pipe()
    process = start.Process(target=measure, args=(there, *given), kwargs=options)
    process.start()
    there.close()
    found = here.recv()
    process.join()
    print(given, options, found, flush=True)
    return found


@torch.no_grad()
def decoded(make, n):
    """Milliseconds of one new token after n others, the best of many, and mebibytes of the cache."""
    torch.manual_seed(0)
    layer, cache, x = make(), GrowingCache(), torch.randn(1, n, D_MODEL)
    cache.keys_values(layer, x, x)
    token, times = x[:, :1], []
    for _ in range(20):
        began = time.perf_counter()
        layer(token, token, token, None, cache)
        times.append(time.perf_counter() - began)
    held = sum(room[:, :, :n].numel() for room in cache.room) * 4 / 2**20
    return {"ms": round(1000 * min(times), 3), "MiB": round(held, 2)}


@torch.no_grad()
def summed(n):
    """The same for a layer of linear attention that keeps its state."""
    torch.manual_seed(0)
    layer, x = LinearAttention(D_MODEL, N_HEADS), torch.randn(1, min(n, 256), D_MODEL)
    _, state = linear_recurrent(layer.queries(x, 0), *layer.keys_values(x, x, 0))
    token, times = x[:, :1], []
    for _ in range(20):
        began = time.perf_counter()
        z, state = linear_recurrent(layer.queries(token, 0), *layer.keys_values(token, token, 0), state)
        layer.W_o(z.transpose(1, 2).flatten(2))
        times.append(time.perf_counter() - began)
    return {
        "ms": round(1000 * min(times), 3),
        "MiB": round(sum(part.numel() for part in state) * 4 / 2**20, 2),
    }


def main():
    """Measure everything, and write the log."""
    torch.set_num_threads(1)
    log = {
        "what": "MiB at the most beyond those before the call, and seconds, the best of three",
        "versions": {
            "heed": heed.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "hardware": HARDWARE,
        "seed": 0,
        "d_k": D_K,
    }
    log["forward"] = {name: {str(n): apart(way, n) for n in LENGTHS} for name, way in WAYS.items()}
    ways = WAYS | {"tiles on the tape": taped}
    log["training"] = {
        name: {str(n): apart(way, n, backward=True) for n in TRAINING} for name, way in ways.items()
    }
    log["sizes"] = {str(size): apart(tiled_attention, 8192, size=size) for size in SIZES}
    log["kernel"] = {name: apart(way, 4096) for name, way in KERNEL.items()}
    layers = {
        "16 heads of keys": lambda: MultiHeadAttention(D_MODEL, N_HEADS),
        "4 heads of keys": lambda: GroupedQueryAttention(D_MODEL, N_HEADS, n_kv_heads=4),
        "1 head of keys": lambda: GroupedQueryAttention(D_MODEL, N_HEADS),
    }
    log["decode"] = {name: {str(n): decoded(make, n) for n in PREFIXES} for name, make in layers.items()} | {
        "a sum": {str(n): summed(n) for n in PREFIXES}
    }
    for name, found in log["decode"].items():
        print(name, found)
    LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
