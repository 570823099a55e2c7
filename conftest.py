"""Every test run: the tools of `book/` can be imported, and notebooks are compared in full."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent / "book"))

pytest_plugins = ["live"]

# The tests' tensors are tiny: a second thread makes them slower, and on a busy machine ten times slower.
# Notebooks run in processes of their own, with as many threads as a reader's.
torch.set_num_threads(1)
