"""Where to compute."""

import time
from dataclasses import replace

import torch


def choose_device(name=None):
    """The device with this name, as cuda or cuda:1; without one, the first available: cuda, mps, cpu.

    Raises ValueError if the device is not available.
    """
    n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    mps = torch.backends.mps.is_available()
    names = [*["cuda"] * bool(n_gpus), *(f"cuda:{i}" for i in range(n_gpus)), *["mps"] * mps, "cpu"]
    name = names[0] if name is None else str(name)
    if name.removesuffix(":0") not in names and name not in names:
        raise ValueError(f"There is no device {name} here; available: {', '.join(names)}.")
    return torch.device(name)


def choose_threads():
    """How many of torch's threads to compute with: all, half of them, and so on to one, as is fastest now.

    Threads wait for one another after every operation. Where another program holds a core, all wait for the
    one that has none, and fewer are faster. Measured within a second or two.
    """
    all_of_them = n = torch.get_num_threads()
    taken = {}
    while n and all_of_them > 1:
        torch.set_num_threads(n)
        taken[n] = seconds_a_product()
        n //= 2
    torch.set_num_threads(all_of_them)
    return min(taken, key=taken.get, default=1)


def seconds_a_product(n=1024, d=256, measured=0.3):
    """The mean time of a product as large as a small model's; over so long, others have their turns, too."""
    x, weight = torch.ones(n, d), torch.ones(d, d)
    x @ weight  # the threads start
    began, products = time.perf_counter(), 0
    while time.perf_counter() - began < measured:
        torch.relu(x @ weight)
        products += 1
    return (time.perf_counter() - began) / products


def batch_to(batch, device):
    """The same batch, a dataclass, with its tensors on this device.

    To a GPU they are copied from memory that stays in its place, so that nobody waits for the copy.
    """
    tensors = {name: x for name, x in vars(batch).items() if isinstance(x, torch.Tensor)}
    if device.type == "cuda":
        tensors = {name: x if x.is_cuda else x.pin_memory() for name, x in tensors.items()}
    moved = {name: x.to(device, non_blocking=device.type == "cuda") for name, x in tensors.items()}
    return replace(batch, **moved)


def synchronize(device):
    """Wait until the device has done what it was given; a CPU always has."""
    if device.type != "cpu":
        getattr(torch, device.type).synchronize()
