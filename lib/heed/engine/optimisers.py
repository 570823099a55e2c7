"""What moves the weights: AdamW for all of them, or Muon for the matrices inside and AdamW for the rest."""

import torch
from torch import nn


def hidden_matrices(model):
    """The matrices between the first and the last layer: weights of `nn.Linear`, as a list.

    Not among them: tables of embeddings, and what is tied to one; what belongs to a module named `generator`.
    """
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    return [
        m.weight
        for name, m in model.named_modules()
        if isinstance(m, nn.Linear) and "generator" not in name.split(".") and id(m.weight) not in tables
    ]


def orthogonal(matrix, steps=5):
    """U Vᵀ of a matrix U S Vᵀ, nearly, by products alone: all singular values come to about 0.7 to 1.2.

    Each step maps every singular value s, of a matrix that is first made so small that none is above one, to
    3.4445 s − 4.7750 s³ + 2.0315 s⁵ (Newton–Schulz; the numbers are those of Jordan et al. 2024).

    matrix: a tensor of two axes, of any floating type, in which the result is computed and returned
    """
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(steps):
        square = x @ x.T
        x = torch.addmm(x, torch.addmm(square, square, square, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
    return x.T if matrix.shape[0] > matrix.shape[1] else x


class Muon(torch.optim.Optimizer):
    """Moves a matrix by an orthogonal one (Jordan et al. 2024): `torch.optim.Muon`, in either precision.

    m ← 0.95 m + 0.05 g,   W ← (1 − r d) W − 0.2 √max(rows, columns) r · orthogonal(0.05 g + 0.95 m)

    The momentum m = U S Vᵀ of the gradient g gets all its singular values set to about one, so that no
    direction is left behind. The step is scaled to the size that AdamW's would have (Liu et al. 2025).
    torch's own always multiplies in bfloat16, on which a processor without units for it spends a hundred
    times as long.

    matrices: parameters of two axes; lr: the rate r; weight_decay: d, decoupled
    """

    def __init__(self, matrices, lr, weight_decay):
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay, "momentum": 0.95})
        self.dtype = torch.float32

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            rate, momentum = group["lr"], group["momentum"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                if p not in self.state:
                    self.state[p]["momentum_buffer"] = torch.zeros_like(p)
                mean = self.state[p]["momentum_buffer"].lerp_(p.grad, 1 - momentum)
                towards = orthogonal(p.grad.lerp(mean, momentum).to(self.dtype))
                p.mul_(1 - rate * group["weight_decay"])
                p.add_(towards, alpha=-0.2 * max(p.shape) ** 0.5 * rate)


def optimisers(model, name, rate, rest_rate=None, decay=0.0):
    """One optimiser, or two that share the parameters between them, as a list.

    name: "adamw"; or "muon" for the matrices inside, with AdamW for the rest, and one schedule for both
    rate: the highest learning rate
    rest_rate: AdamW's beside Muon; the same as `rate` if it is not given
    decay: decoupled weight decay (Loshchilov & Hutter 2019), of matrices; vectors do not decay

    Each of their groups has its highest rate as "highest". Raises ValueError for another name.
    """
    if name not in ("adamw", "muon"):
        raise ValueError(f'The optimiser is "muon" or "adamw", and not {name!r}.')
    parameters = [p for p in model.parameters() if p.requires_grad]
    hidden = {id(p) for p in hidden_matrices(model)} if name == "muon" else set()
    inside = [p for p in parameters if id(p) in hidden]
    rest = [p for p in parameters if id(p) not in hidden]
    groups = [
        {"params": [p for p in rest if p.dim() > 1], "weight_decay": decay},
        {"params": [p for p in rest if p.dim() < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    made = []
    if inside:
        made.append(Muon(inside, rate, decay))
    if groups:
        rest_rate = rest_rate if inside and rest_rate is not None else rate
        made.append(torch.optim.AdamW(groups, rest_rate, betas=(0.9, 0.98), eps=1e-9, fused=True))
    for optimiser in made:
        for group in optimiser.param_groups:
            group["highest"] = group["lr"]
    return made


def compute_in(optimisers, precision):
    """Make the optimisers' own products in this precision: "bf16" or "fp32". Only Muon has any."""
    for optimiser in optimisers:
        if isinstance(optimiser, Muon):
            optimiser.dtype = torch.bfloat16 if precision == "bf16" else torch.float32


def set_rates(optimisers, share):
    """Give every group this share of its highest rate."""
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = group["highest"] * share
