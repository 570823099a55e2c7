"""Where to compute."""

from dataclasses import replace

import torch


def choose_device(name=None):
    """The device with this name; without one, the first that is available: cuda, mps, cpu.

    Raises ValueError if the device is not available.
    """
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name is None:
        name = next(name for name in available if available[name])
    if not available.get(str(name).split(":")[0]):
        found = ", ".join(name for name in available if available[name])
        raise ValueError(f"There is no device {name} here; available: {found}.")
    return torch.device(name)


def batch_to(batch, device):
    """The same batch, a dataclass, with its tensors on this device."""
    moved = {name: x.to(device) for name, x in vars(batch).items() if isinstance(x, torch.Tensor)}
    return replace(batch, **moved)


def synchronize(device):
    """Wait until the device has done what it was given; a CPU always has."""
    if device.type != "cpu":
        getattr(torch, device.type).synchronize()
