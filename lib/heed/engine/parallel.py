"""A model in one process, copied to many (DDP) or sharded among them (FSDP)."""

import copy
import inspect
from contextlib import contextmanager, nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from heed.engine.precision import InBFloat16

# Each process keeps its own buffers: an encoding of positions grows with the sentences it has seen. From
# torch 2.13 on the option has another name.
NAMES = inspect.signature(DistributedDataParallel).parameters
OWN_BUFFERS = {"forward_sync_buffers" if "forward_sync_buffers" in NAMES else "broadcast_buffers": False}


def parallelize(model, loss, world, sharded, precision):
    """The model and its loss, ready for this many processes, in this precision: "bf16" or "fp32"."""
    kind = SingleProcess if world.size == 1 else FSDP if sharded else DDP
    return kind(model, loss, world, precision)


class LossOf(nn.Module):
    """A model and its loss as one module: what wraps it sees all that the loss does with the model."""

    def __init__(self, model, loss):
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, batch):
        return self.loss(self.model, batch)


class SingleProcess:
    """A model in one process. `loss(batch)` is its loss, summed over the batch."""

    def __init__(self, model, loss, world, precision):
        module = LossOf(model, loss)
        self.model, self.loss = model, InBFloat16(module) if precision == "bf16" else module

    def gradient_sync(self, last):
        """The context of one micro-batch; the `last` one of a step averages the gradients of all ranks."""
        return nullcontext()

    def whole_model(self):
        """A context that gives the model with all its weights, in eval mode, for a validation."""
        return nullcontext(self.model.eval())

    def state_dict(self):
        """The model's state_dict, whole."""
        return self.model.state_dict()

    def load_state_dict(self, state):
        """Give the model what `state_dict` has returned."""
        self.model.load_state_dict(state)

    def optimizer_state(self, optimizer):
        """The state_dict of an optimizer, whole."""
        return optimizer.state_dict()

    def load_optimizer_state(self, optimizer, state):
        """Give an optimizer what `optimizer_state` has returned."""
        optimizer.load_state_dict(state)


class DDP(SingleProcess):
    """A copy in each process; the copies stay equal, for their gradients are averaged."""

    def __init__(self, model, loss, world, precision):
        super().__init__(model, loss, world, precision)
        self.loss = DistributedDataParallel(self.loss, **OWN_BUFFERS)

    def gradient_sync(self, last):
        return nullcontext() if last else self.loss.no_sync()


class FSDP(SingleProcess):
    """A shard of every parameter in each process; a layer is gathered when its turn comes.

    For models that outgrow one device (Rajbhandari et al. 2020). What is sharded and gathered as one: each
    element of an outermost `nn.ModuleList`, a layer of the stack, and at the root all the rest, together with
    the loss, which may read parameters outside the model's forward.

    A validation calls what it likes of a model, in any order, and not the root's forward alone. It gets a
    copy that is whole, in float32: while it lasts each device holds all parameters, without gradients and
    optimizer state, and they must fit.
    """

    def __init__(self, model, loss, world, precision):
        from torch.distributed import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        for tensor in model.state_dict().values():
            dist.broadcast(tensor, 0)  # as DDP does
        no_weights = {id(p): nn.Parameter(p.detach().to("meta"), p.requires_grad) for p in model.parameters()}
        self.skeleton = copy.deepcopy(model, no_weights)
        mesh = init_device_mesh(world.device.type, (world.size,), mesh_dim_names=("shard",))
        # gradients are summed in float32, as they are where InBFloat16 rounds the weights
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if precision == "bf16" else None
        options = {"mesh": mesh} | ({"mp_policy": policy} if policy else {})
        for layer in layers(model):
            fully_shard(layer, **options)
        self.model, self.loss = model, fully_shard(LossOf(model, loss), **options)

    def gradient_sync(self, last):
        self.loss.set_requires_gradient_sync(last)
        return nullcontext()

    @contextmanager
    def whole_model(self):
        tensors = {id(p): nn.Parameter(whole(q), False) for p, q in self._pairs("parameters")}
        buffers = {id(b): c.clone() for b, c in self._pairs("buffers")}
        yield copy.deepcopy(self.skeleton, tensors | buffers).eval()

    def _pairs(self, kind):
        """The parameters or buffers of the skeleton, each with the model's own."""
        return zip(getattr(self.skeleton, kind)(), getattr(self.model, kind)(), strict=True)

    def state_dict(self):
        return {name: whole(tensor).cpu() for name, tensor in self.model.state_dict().items()}

    def load_state_dict(self, state):
        own = self.model.state_dict()
        self.model.load_state_dict({name: shard(tensor, own[name]) for name, tensor in state.items()})

    def optimizer_state(self, optimizer):
        state = optimizer.state_dict()
        of_each = {
            i: {key: whole(value).cpu() for key, value in mine.items()} for i, mine in state["state"].items()
        }
        return state | {"state": of_each}

    def load_optimizer_state(self, optimizer, state):
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        of_each = {
            i: {key: shard(value, parameters[i]) for key, value in mine.items()}
            for i, mine in state["state"].items()
        }
        optimizer.load_state_dict(state | {"state": of_each})


def layers(module):
    """The elements of the outermost `nn.ModuleList`s: whole layers, and no lists inside of them."""
    for child in module.children():
        yield from child if isinstance(child, nn.ModuleList) else layers(child)


def whole(tensor):
    """All of a tensor, if this process holds only a shard of it."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def shard(tensor, like):
    """This process's shard of a tensor that all have, if `like`, of the same shape, is sharded."""
    from torch.distributed.tensor import distribute_tensor

    if tensor.shape != like.shape or not hasattr(like, "device_mesh"):
        return tensor
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)
