"""One model in one process, copied into many, or shared out among them: three classes, the same methods."""

from contextlib import contextmanager, nullcontext

from torch import nn
from torch.nn.parallel import DistributedDataParallel


class LossOf(nn.Module):
    """A model and its loss as one module: what wraps it sees all that the loss does with the model."""

    def __init__(self, model, loss):
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, batch):
        return self.loss(self.model, batch)


class Alone:
    """A model in one process. `compute(batch)` is its loss, summed over the batch."""

    def __init__(self, model, loss, team):
        self.model = model
        self.compute = LossOf(model, loss)

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

    def __init__(self, model, loss, team):
        super().__init__(model, loss, team)
        self.compute = DistributedDataParallel(self.compute, broadcast_buffers=False)

    def gradients_shared(self, now):
        return nullcontext() if now else self.compute.no_sync()


class Sharded(Alone):
    """A part of every tensor in each process: a layer is brought together when its turn comes (FSDP).

    For models that outgrow one device (Rajbhandari et al. 2020). A layer is an element of a `nn.ModuleList`.
    """

    def __init__(self, model, loss, team):
        from torch.distributed import init_device_mesh
        from torch.distributed.checkpoint import state_dict
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(team.device.type, (team.count,))
        for stack in [m for m in model.modules() if isinstance(m, nn.ModuleList)]:
            for layer in stack:
                fully_shard(layer, mesh=mesh)
        super().__init__(fully_shard(model, mesh=mesh), loss, team)
        self.whole = state_dict
        self.on_cpu = state_dict.StateDictOptions(full_state_dict=True, cpu_offload=True)

    @contextmanager
    def gradients_shared(self, now):
        self.model.set_requires_gradient_sync(now)
        yield

    def weights(self):
        return self.whole.get_model_state_dict(self.model, options=self.on_cpu)

    def set_weights(self, state):
        self.whole.set_model_state_dict(self.model, state, options=self.on_cpu)

    def memory(self, optimiser):
        return self.whole.get_optimizer_state_dict(self.model, optimiser, options=self.on_cpu)

    def set_memory(self, optimiser, state):
        self.whole.set_optimizer_state_dict(self.model, optimiser, state, options=self.on_cpu)
