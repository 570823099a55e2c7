"""What "bf16" means, in one process, with DDP and with FSDP alike.

A training step computes in bfloat16 from end to end: activations, products, and the weights, which are
rounded to bfloat16 for the step. The weights themselves, the gradients that the optimizer gets, their sums
over micro-batches and processes, and the optimizer's state stay in float32, where a small step is not lost
(mixed precision with float32 master weights: Micikevicius et al. 2018). In one process and with DDP
`InBFloat16` does this, with FSDP torch's `MixedPrecisionPolicy`. This is not autocast, which keeps what flows
between the products in float32 and rounds it before each of them. Validation alone, which compares numbers,
runs under autocast with the float32 weights.
"""

import time

import torch
from torch import nn
from torch.func import functional_call

from heed.engine.devices import synchronize


class InBFloat16(nn.Module):
    """A module computed in bfloat16 from end to end, with weights that are rounded again for each step."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, batch):
        rounded = {
            name: p.bfloat16() if p.is_floating_point() else p for name, p in self.module.named_parameters()
        }
        return functional_call(self.module, rounded, (batch,))


def choose_precision(device, precision="auto"):
    """Whether to compute in "bf16" or in "fp32"; "auto" measures which is faster, within a second.

    bfloat16 has the range of float32 and 8 of its 24 bits of precision: half the traffic, and on processors
    with units for it several times the products a second. Without such units it is slower than float32.

    Raises ValueError for another word, or where the device has no bfloat16.
    """
    if precision not in ("auto", "bf16", "fp32"):
        raise ValueError(f'precision must be "auto", "bf16" or "fp32"; got {precision!r}.')
    if precision == "fp32":
        return "fp32"
    try:
        bf16 = seconds(device, enabled=True)
    except RuntimeError as error:
        if precision == "auto":
            return "fp32"
        raise ValueError(f'The {device.type} here has no bfloat16. Take "fp32" or "auto".') from error
    return "bf16" if precision == "bf16" or bf16 < 0.9 * seconds(device, enabled=False) else "fp32"


def autocast(device, precision):
    """The context of a validation: products in this precision, all else in float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")


def seconds(device, enabled, n=1024, d=256):
    """The best time of a product of two matrices with its gradient, as large as those of a small model.

    Of eight tries; of three, where each takes long.
    """
    x = torch.ones(n, d, device=device)
    layer = nn.Linear(d, 2 * d, device=device)
    tries = []
    while len(tries) < 3 or (len(tries) < 8 and sum(tries) < 0.1):
        synchronize(device)
        began = time.perf_counter()
        with torch.autocast(device.type, torch.bfloat16, enabled=enabled):
            y = layer(x)
        y.sum().backward()
        synchronize(device)
        tries.append(time.perf_counter() - began)
    return min(tries)
