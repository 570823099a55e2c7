"""How large a training will be, before anything is built: parameters and memory, by formulas.

The formulas are those of the model that `build` makes, and tests hold them against it.
"""

import os
import sys
from pathlib import Path

import torch


def in_words(n_bytes):
    """Bytes as people read them."""
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:,.1f} MB"


def n_parameters(model, vocab):
    """How many parameters a recipe's model has: in hidden matrices, and besides.

    model: a recipe's section
    vocab: number of tokens; both languages and the generator share one matrix
    """
    d, d_ff, n = model["d_model"], model["d_ff"], model["n_layers"]
    hidden = n * (4 * d * d + 2 * d * d_ff) + n * (8 * d * d + 2 * d * d_ff)
    biases = n * (4 * d + d + d_ff) + n * (8 * d + d + d_ff)
    norms = n * 2 * 2 * d + n * 3 * 2 * d + (2 * 2 * d if model["norm"] == "pre" else 0)
    return hidden, biases + norms + vocab * d + vocab


def needed_bytes(recipe, vocab):
    """What a training keeps at the least: weights, gradients (four bytes each), the optimizer's state.

    What flows through the layers comes on top; it grows with [training] tokens.
    """
    hidden, rest = n_parameters(recipe["model"], vocab)
    muon = recipe["training"]["optimizer"] == "muon"
    return 8 * (hidden + rest) + (4 if muon else 8) * hidden + 8 * rest


def available_bytes(device):
    """The memory that this process can have at the most: of its device, machine, container, or limit."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[1]
    limits = []
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", ()):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    container = Path("/sys/fs/cgroup/memory.max")
    if container.is_file() and (said := container.read_text(encoding="utf-8").strip()).isdecimal():
        limits.append(int(said))
    try:
        import resource

        limits += [limit for limit in resource.getrlimit(resource.RLIMIT_AS) if limit > 0]
    except ImportError:  # Windows
        pass
    return min(limits, default=None)


def check_size(recipe, world):
    """Refuse a model that cannot be trained in this memory. Returns a sentence about its size.

    Raises ValueError with both numbers.
    """
    vocab = recipe["data"]["vocabulary"]
    n, needed = sum(n_parameters(recipe["model"], vocab)), needed_bytes(recipe, vocab)
    if recipe["training"]["sharded"]:
        needed //= world.size
    size = f"at most {n:,} parameters; with gradients and the optimizer's state {in_words(needed)}"
    there = available_bytes(world.device)
    if there is not None and needed > there:
        raise ValueError(
            f"The model is too large for this machine: {size}, and there are {in_words(there)}. "
            "Make [model] d_model, d_ff or n_layers, or [data] vocabulary, smaller."
        )
    return size


def peak_bytes(device):
    """The most memory that this process has had so far; None where the system does not tell."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
