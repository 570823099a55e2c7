"""The loop for long trainings, in one process or in many. It knows neither the model nor the task.

It is given the loss as a function and the data as batches, and sees to the rest: the optimiser and its
schedule, the device and its precision, checkpoints and exact resume, the log, the average, the processes.
"""

from heed.engine.devices import choose_device, choose_precision
from heed.engine.loop import Result, fit
from heed.engine.optimisers import hidden_matrices, optimisers
from heed.engine.processes import ProcessLost
from heed.engine.signals import Interrupted

__all__ = [
    "Interrupted",
    "ProcessLost",
    "Result",
    "choose_device",
    "choose_precision",
    "fit",
    "hidden_matrices",
    "optimisers",
]
