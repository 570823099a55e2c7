"""Where to compute, and with how many bits."""

import time

import torch


def choose_device(name=None):
    """The device with this name; without one, the first that is there: cuda, mps, cpu.

    Raises ValueError if the device is not there.
    """
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name is None:
        name = next(name for name in there if there[name])
    if not there.get(str(name).split(":")[0]):
        raise ValueError(f"There is no {name} here; there is {', '.join(n for n in there if there[n])}.")
    return torch.device(name)


def choose_precision(device, precision="auto"):
    """Whether to multiply in "bf16" or in "fp32"; "auto" measures which is faster, within a second.

    bfloat16 has the range of float32 and 8 of its 24 bits of precision: half the traffic, and on processors
    with units for it several times the products a second. Without such units it is slower than float32.

    Raises ValueError for another word, or where the device has no bfloat16.
    """
    if precision not in ("auto", "bf16", "fp32"):
        raise ValueError(f'The precision is "auto", "bf16" or "fp32", and not {precision!r}.')
    if precision == "fp32":
        return "fp32"
    try:
        half = seconds(device, enabled=True)
    except RuntimeError as error:
        if precision == "auto":
            return "fp32"
        raise ValueError(f'The {device.type} here has no bfloat16. Take "fp32" or "auto".') from error
    return "bf16" if precision == "bf16" or half < 0.9 * seconds(device, enabled=False) else "fp32"


def autocast(device, precision):
    """The context in which products are made in this precision."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")


def seconds(device, enabled, n=1024, d=256):
    """The best time of a product of two matrices with its gradient, as long as those of a small model.

    Of eight tries; of three, where each takes long.
    """
    x = torch.ones(n, d, device=device)
    layer = torch.nn.Linear(d, 2 * d, device=device)
    tries = []
    while len(tries) < 3 or (len(tries) < 8 and sum(tries) < 0.1):
        finish(device)
        began = time.perf_counter()
        with torch.autocast(device.type, torch.bfloat16, enabled=enabled):
            y = layer(x)
        y.sum().backward()
        finish(device)
        tries.append(time.perf_counter() - began)
    return min(tries)


def finish(device):
    """Wait until the device has done what it was given; a processor always has."""
    if device.type != "cpu":
        getattr(torch, device.type).synchronize()
