"""What several files of tests start from: a browser; the script of an assets folder, and its log."""

import importlib.util
import json
import shutil

import pytest
import torch
from chromium import PROGRAMS, Browser


@pytest.fixture(scope="module", autouse=True)
def dtype_of_the_file():
    """A chapter's script computes in float64; what it sets ends with the file that runs it …"""
    yield from kept_dtype()


@pytest.fixture(autouse=True)
def dtype_of_the_test():
    """… and what a test sets, with the test."""
    yield from kept_dtype()


def kept_dtype():
    """The default dtype as it was, when the generator goes on."""
    kept = torch.get_default_dtype()
    yield
    torch.set_default_dtype(kept)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """The browser, for as long as one file's tests run."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("no Chromium or Chrome on the PATH: nobody looks at the pages")
    browser = Browser(program, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def script(request):
    """The module in the file that the tests name as SCRIPT."""
    path = request.module.SCRIPT
    spec = importlib.util.spec_from_file_location(f"{path.stem}_script", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def log(request):
    """What the log beside SCRIPT holds: the file of the same name that ends in .json."""
    return json.loads(request.module.SCRIPT.with_suffix(".json").read_text(encoding="utf-8"))
