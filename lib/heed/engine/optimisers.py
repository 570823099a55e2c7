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


def optimisers(model, name, rate, rest_rate=None, decay=0.0):
    """One optimiser, or two that share the parameters between them, as a list.

    Muon (Jordan et al. 2024) moves a matrix by an orthogonal one: its momentum M = U S Vᵀ with all the
    singular values S set to about one, so that no direction is left behind. The step is scaled to the size
    that AdamW's would have, 0.2 √max(rows, columns) (Liu et al. 2025), and both follow one schedule.

    name: "adamw" or "muon"
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
        made.append(torch.optim.Muon(inside, rate, decay, adjust_lr_fn="match_rms_adamw"))
    if groups:
        rest_rate = rest_rate if inside and rest_rate is not None else rate
        made.append(torch.optim.AdamW(groups, rest_rate, betas=(0.9, 0.98), eps=1e-9, fused=True))
    for optimiser in made:
        for group in optimiser.param_groups:
            group["highest"] = group["lr"]
    return made


def set_rates(optimisers, share):
    """Give every group this share of its highest rate."""
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = group["highest"] * share
