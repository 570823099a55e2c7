"""What updates the weights: AdamW for all of them, or Muon for the hidden matrices and AdamW for the rest."""

import torch
from torch import nn

from heed.engine.parallel import shard, whole

OUTPUT_LAYERS = {"generator", "out"}


def hidden_matrices(model):
    """The matrices between the first and the last layer: weights of `nn.Linear`, as a list.

    Not among them: embedding matrices, what is tied to one, and output layers. An output layer is a module
    named as one of OUTPUT_LAYERS, or inside of such a one: `generator` in heed's Transformers, `out` in its
    recurrent models. A model of your own should name its output layer so.
    """
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    return [
        m.weight
        for name, m in model.named_modules()
        if isinstance(m, nn.Linear)
        and OUTPUT_LAYERS.isdisjoint(name.split("."))
        and id(m.weight) not in embeddings
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

    matrices: parameters of two axes; lr: the learning rate r; weight_decay: d, decoupled
    dtype: in which the products are made
    """

    def __init__(self, matrices, lr, weight_decay, dtype=torch.float32):
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay, "momentum": 0.95})
        self.dtype = dtype

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            lr, momentum = group["lr"], group["momentum"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                if p not in self.state:
                    self.state[p]["momentum_buffer"] = torch.zeros_like(p)
                mean = self.state[p]["momentum_buffer"].lerp_(p.grad, 1 - momentum)
                # of a sharded matrix every process computes the whole, for no shard is orthogonal by itself
                towards = shard(orthogonal(whole(p.grad.lerp(mean, momentum)).to(self.dtype)), p)
                p.mul_(1 - lr * group["weight_decay"])
                p.add_(towards, alpha=-0.2 * max(p.shape) ** 0.5 * lr)


def make_optimizers(model, name, lr, adamw_lr=None, weight_decay=0.0, precision="fp32"):
    """One optimizer, or two that share the parameters between them, as a list.

    name: "adamw"; or "muon" for the hidden matrices, with AdamW for the rest, and one schedule for both
    lr: the highest learning rate
    adamw_lr: AdamW's beside Muon; the same as `lr` if it is not given
    weight_decay: decoupled (Loshchilov & Hutter 2019), of matrices; vectors do not decay
    precision: of Muon's own products, "bf16" or "fp32"

    Each of their groups has its highest learning rate as "max_lr". Raises ValueError for another name.
    """
    if name not in ("adamw", "muon"):
        raise ValueError(f'optimizer must be "muon" or "adamw"; got {name!r}.')
    parameters = [p for p in model.parameters() if p.requires_grad]
    hidden = {id(p) for p in hidden_matrices(model)} if name == "muon" else set()
    inside = [p for p in parameters if id(p) in hidden]
    rest = [p for p in parameters if id(p) not in hidden]
    groups = [
        {"params": [p for p in rest if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in rest if p.dim() < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    made = []
    if inside:
        made.append(Muon(inside, lr, weight_decay, torch.bfloat16 if precision == "bf16" else torch.float32))
    if groups:
        adamw_lr = adamw_lr if inside and adamw_lr is not None else lr
        made.append(torch.optim.AdamW(groups, adamw_lr, betas=(0.9, 0.98), eps=1e-9, fused=True))
    for optimizer in made:
        for group in optimizer.param_groups:
            group["max_lr"] = group["lr"]
    return made


def set_lr(optimizers, share):
    """Give every group this share of its highest learning rate."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["max_lr"] * share
