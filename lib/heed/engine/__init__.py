"""The engine for long trainings, in one process or in many. It knows neither the model nor the task.

Read `loop.py` first: `fit` is the whole training in one visible loop, and can be understood without the other
files. Each of those owns one concern:

    world        the processes of the training, and what they agree on
    parallel     one process, DistributedDataParallel (DDP) or fully sharded (FSDP)
    optimizers   AdamW, and Muon for the hidden matrices
    precision    what "bf16" means
    devices      where to compute
    run          what is kept: state, checkpoints, snapshots, validation, and the weights to be used
    arguments    what `fit` refuses, in a new run and in a resumed one
    folder       the folder of a run: its owner's mark and its lock
    log          log.jsonl, and the progress line
    signals      Ctrl-C, SIGTERM, and a terminal that is closed
"""

from heed.engine.devices import batch_to, choose_device, choose_threads
from heed.engine.folder import mark, owned, set_aside, snapshots
from heed.engine.loop import Result, fit
from heed.engine.optimizers import hidden_matrices, make_optimizers
from heed.engine.precision import choose_precision
from heed.engine.signals import Interrupted
from heed.engine.world import ProcessLost

__all__ = [
    "Interrupted",
    "ProcessLost",
    "Result",
    "batch_to",
    "choose_device",
    "choose_precision",
    "choose_threads",
    "fit",
    "hidden_matrices",
    "make_optimizers",
    "mark",
    "owned",
    "set_aside",
    "snapshots",
]
