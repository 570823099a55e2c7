"""Every test run: the tools of `book/` can be imported, and notebooks are compared in full."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "book"))

pytest_plugins = ["live"]
