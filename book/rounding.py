"""The rounding test: every training in a notebook starts from weights that are different in their last digit.

Sums are rounded in another order on another processor, in another version of torch, with another number of
threads, and a few hundred updates make a last digit a first one. What a notebook stores must not hang on
it. So `HEED_ROUNDING=1 pytest chapters` multiplies every weight by 1 + 10⁻¹⁵ · noise where a training
begins, with noise from that seed: a digit, a word or a picture that does not survive is found on any
machine. `live.py` runs this file in the kernel before a notebook's first cell; the library knows nothing
of it.
"""

import torch

SIZES = {torch.float64: 1e-15, torch.float32: 1e-7}  # some units in the last place


def disturb(seed, sizes=SIZES):
    """From now on, disturb the weights where a training begins.

    A training begins where an optimizer is given its weights, and, for a loop without one, where a leaf that
    requires a gradient is first changed in place by a sum or a difference. torch's RNG state stays as it is.
    """
    generator = torch.Generator().manual_seed(seed)

    def shake(weight):
        if weight.dtype in sizes:
            noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
            weight.data.mul_((1 + sizes[weight.dtype] * noise).to(weight))
        weight.shaken = True

    def add_param_group(self, param_group):
        with_optimizer(self, param_group)
        for weight in self.param_groups[-1]["params"]:
            shake(weight)

    def before(change):
        def changed(self, *others, **named):
            if self.requires_grad and self.is_leaf and not hasattr(self, "shaken"):
                shake(self)
            return change(self, *others, **named)

        return changed

    with_optimizer = torch.optim.Optimizer.add_param_group
    torch.optim.Optimizer.add_param_group = add_param_group
    for name in ("add_", "sub_", "__iadd__", "__isub__"):
        setattr(torch.Tensor, name, before(getattr(torch.Tensor, name)))
