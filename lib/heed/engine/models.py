"""One model in one process, copied into many, or shared out among them: three classes, the same methods."""

import inspect
from contextlib import contextmanager, nullcontext

from torch import nn
from torch.func import functional_call
from torch.nn.parallel import DistributedDataParallel

from heed.engine.devices import autocast

# Each process keeps its own buffers: a table of positions grows with the sentences it has seen. From torch
# 2.13 on the option has another name.
NAMES = inspect.signature(DistributedDataParallel).parameters
OWN_BUFFERS = {"forward_sync_buffers" if "forward_sync_buffers" in NAMES else "broadcast_buffers": False}


class LossOf(nn.Module):
    """A model and its loss as one module: what wraps it sees all that the loss does with the model."""

    def __init__(self, model, loss):
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, batch):
        return self.loss(self.model, batch)


class InHalf(nn.Module):
    """The same, computed in bfloat16 from end to end, with weights that are rounded anew for each step.

    Autocast keeps what flows between the products in float32 and rounds it before each of them; here it stays
    in bfloat16. The weights themselves stay in float32, where a small step is not lost, and so do their
    gradients (mixed precision with master weights: Micikevicius et al. 2018).
    """

    def __init__(self, plain):
        super().__init__()
        self.plain = plain

    def forward(self, batch):
        rounded = {
            name: p.bfloat16() if p.is_floating_point() else p for name, p in self.plain.named_parameters()
        }
        return functional_call(self.plain, rounded, (batch,))


class UnderAutocast(nn.Module):
    """The same, with its products in bfloat16 and all else in float32."""

    def __init__(self, plain, device):
        super().__init__()
        self.plain, self.device = plain, device

    def forward(self, batch):
        with autocast(self.device, "bf16"):
            return self.plain(batch)


class Alone:
    """A model in one process. `compute(batch)` is its loss, summed over the batch."""

    def __init__(self, model, loss, team):
        self.model, self.loss, self.device = model, loss, team.device

    def compute_in(self, precision):
        """Make `compute`, in this precision: "bf16" or "fp32"."""
        plain = LossOf(self.model, self.loss)
        self.compute = InHalf(plain) if precision == "bf16" else plain

    def gradients_shared(self, now):
        """The context of one part's computation; `now` where its gradients are shared with the others."""
        return nullcontext()

    def weights(self):
        """The state of the model, whole."""
        return self.model.state_dict()

    def set_weights(self, state):
        """Give the model a state that `weights` has returned."""
        self.model.load_state_dict(state)

    def memory(self, optimiser):
        """The state of an optimiser, whole."""
        return optimiser.state_dict()

    def set_memory(self, optimiser, state):
        """Give an optimiser the state that `memory` has returned."""
        optimiser.load_state_dict(state)


class Copied(Alone):
    """A copy in each process; they stay alike, for they add up their gradients (DistributedDataParallel)."""

    def compute_in(self, precision):
        super().compute_in(precision)
        self.compute = DistributedDataParallel(self.compute, **OWN_BUFFERS)

    def gradients_shared(self, now):
        return nullcontext() if now else self.compute.no_sync()


class Sharded(Alone):
    """A part of every tensor in each process: a layer is brought together when its turn comes (FSDP).

    For models that outgrow one device (Rajbhandari et al. 2020). A layer is an element of a `nn.ModuleList`.
    """

    def __init__(self, model, loss, team):
        from torch.distributed import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(team.device.type, (team.count,))
        for stack in [m for m in model.modules() if isinstance(m, nn.ModuleList)]:
            for layer in stack:
                fully_shard(layer, mesh=mesh)
        super().__init__(fully_shard(model, mesh=mesh), loss, team)

    def compute_in(self, precision):
        plain = LossOf(self.model, self.loss)
        self.compute = UnderAutocast(plain, self.device) if precision == "bf16" else plain

    @contextmanager
    def gradients_shared(self, now):
        self.model.set_requires_gradient_sync(now)
        yield

    def weights(self):
        return {name: whole(tensor).cpu() for name, tensor in self.model.state_dict().items()}

    def set_weights(self, state):
        own = self.model.state_dict()
        self.model.load_state_dict({name: part(tensor, own[name]) for name, tensor in state.items()})

    def memory(self, optimiser):
        state = optimiser.state_dict()
        of_each = {
            i: {key: whole(value).cpu() for key, value in mine.items()} for i, mine in state["state"].items()
        }
        return state | {"state": of_each}

    def set_memory(self, optimiser, state):
        parameters = [p for group in optimiser.param_groups for p in group["params"]]
        of_each = {
            i: {key: part(value, parameters[i]) for key, value in mine.items()}
            for i, mine in state["state"].items()
        }
        optimiser.load_state_dict(state | {"state": of_each})


def whole(tensor):
    """All of a tensor, if this process holds only a part of it."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def part(tensor, like):
    """This process's part of a tensor, shared out as another of its size is; a whole one if that is whole."""
    from torch.distributed.tensor import distribute_tensor

    if tensor.shape != like.shape or not hasattr(like, "device_mesh"):
        return tensor
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements)
