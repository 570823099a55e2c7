"""A wrong Python or a wrong torch: one line, with the command that mends it."""

import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import heed


def test_an_old_python_is_named_with_the_command():
    with pytest.raises(ImportError, match=r"Python 3\.11 or newer, and this is 3\.10\.2.*make lab") as error:
        heed.check_versions(python=(3, 10, 2))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("found", ["2.8.1+cpu", "1.13.1", "2.0.0a0+git"])
def test_an_old_torch_is_named_with_the_command(monkeypatch, found):
    monkeypatch.setattr(heed, "version", lambda name: found)
    with pytest.raises(ImportError, match=r"torch 2\.9 or newer, and this is .*pip install"):
        heed.check_versions()


def test_a_missing_torch_is_named_too(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(heed, "version", missing)
    with pytest.raises(ImportError, match=r"none.*pip install"):
        heed.check_versions()


@pytest.mark.parametrize("found", ["2.9.0", "2.13.0+cpu", "3.0.0.dev20270101"])
def test_a_torch_that_is_new_enough_passes(monkeypatch, found):
    monkeypatch.setattr(heed, "version", lambda name: found)
    heed.check_versions()


def test_the_limits_are_those_of_the_package():
    project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    assert project["requires-python"] == ">=" + ".".join(map(str, heed.OLDEST_PYTHON))
    torch = next(line for line in project["dependencies"] if line.startswith("torch"))
    assert torch.startswith("torch>=" + ".".join(map(str, heed.OLDEST_TORCH)) + ",")
