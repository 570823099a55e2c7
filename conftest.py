"""Every test run: the tools of `book/` can be imported, notebooks are compared in full, nothing is timed."""

import sys
from pathlib import Path

import torch
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent / "book"))

pytest_plugins = ["live"]

# The tests' tensors are tiny: a second thread makes them slower, and on a busy machine ten times slower.
# Notebooks run in processes of their own, with as many threads as a reader's.
torch.set_num_threads(1)

# No test is timed: a busy machine is no fault.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
