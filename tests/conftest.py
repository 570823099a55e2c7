"""What several files of tests start from: a browser; the script of an assets folder, and its log."""

import importlib.util
import json
import shutil

import pytest
import torch
from chromium import PROGRAMS, Browser


@pytest.fixture(scope="module", autouse=True)
def settings_of_the_file():
    """A chapter's script computes in float64, with one thread; that ends with the file that runs it …"""
    yield from kept_settings()


@pytest.fixture(autouse=True)
def settings_of_the_test():
    """… and what a test sets, with the test."""
    yield from kept_settings()


def kept_settings():
    """The default dtype and the number of threads as they were, when the generator goes on."""
    kind, threads = torch.get_default_dtype(), torch.get_num_threads()
    yield
    torch.set_default_dtype(kind)
    torch.set_num_threads(threads)


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
