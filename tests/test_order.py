"""The library is read from top to bottom: a module imports only what stands before it in `heed.MODULES`."""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import heed

LIBRARY = Path(heed.__file__).parent
FILES = sorted(path for path in LIBRARY.rglob("*.py") if path.parent != LIBRARY or path.name[0] != "_")

# What a module does not know, beyond the order; most say so in their first lines.
MODELS = {"heed.recurrent", "heed.scores", "heed.attention", "heed.alignment", "heed.memory"}
KNOWS_NOTHING_OF = {
    "bpe": {"torch", "heed.text"},
    "text": {"torch.nn"},
    "data": {"torch.nn"},
    "plot": {"torch", "heed.text", "heed.data"},
    "recurrent": {"heed.data", "heed.plot"},
    "scores": {"heed.data", "heed.plot", "heed.recurrent"},
    "attention": {"heed.data", "heed.plot", "heed.recurrent"},
    "alignment": {"heed.data", "heed.plot"},
    "memory": {"heed.data", "heed.tasks", "heed.plot", "heed.layers", "heed.transformer"},
    "scale": {"heed.data", "heed.plot", "heed.recurrent"},
    "train": {"heed.data", "heed.plot", *MODELS},
    "checkpoint": {"heed.data", "heed.plot", *MODELS},
    "engine": {"heed.data", "heed.plot", *MODELS},
    "evaluate": {"heed.data", "heed.plot", "heed.train", *MODELS},
}


def name(path, root=LIBRARY):
    """The module's name: lib/heed/data/batch.py is heed.data.batch."""
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path, known):
    """The names that a file imports, wherever in the file; `from heed import text` gives heed.text."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(f"{path.name}, line {node.lineno}: a relative import; give the full name")
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.add(full if full in known or node.module in ("heed", "torch") else node.module)
    return found


def complaints(files, modules, root=LIBRARY):
    """What is against the order, one line each."""
    known = {name(path, root) for path in files}
    graph = {name(path, root): imports(path, known) for path in files}
    for module, wanted in graph.items():
        part = module.split(".")[1]
        before = modules[: modules.index(part) + 1]
        for other in sorted(other for other in wanted if other.split(".")[0] == "heed"):
            if other.split(".")[1:2] and other.split(".")[1] not in before:
                yield f"{module} imports {other}, which does not stand before it"
        for hidden in KNOWS_NOTHING_OF.get(part, ()):
            if any(other == hidden or other.startswith(f"{hidden}.") for other in wanted):
                yield f"{module} imports {hidden}, of which it should know nothing"
    try:
        list(TopologicalSorter({module: wanted & known for module, wanted in graph.items()}).static_order())
    except CycleError as error:
        yield f"these import one another in a circle: {error.args[1]}"


def test_a_module_imports_only_what_stands_before_it():
    lines = list(complaints(FILES, heed.MODULES))
    assert not lines, "\n".join(lines)


def test_the_reading_order_names_every_module_and_no_other():
    parts = {name(path).split(".")[1] for path in FILES}
    assert parts == set(heed.MODULES)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_files_are_named_for_ideas(path):
    assert path.stem not in {"utils", "util", "helpers", "helper", "common", "misc", "tools", "core", "base"}
    assert not re.search(r"^(ch|chapter)?_?\d|_\d+$", path.stem)


LINES = {
    "from heed.second import thing": "heed.first imports heed.second, which does not stand before it",
    "from heed import second": "heed.first imports heed.second, which does not stand before it",
    "def f():\n    import heed.second": "heed.first imports heed.second, which does not stand before it",
    "from .second import thing": "relative import",
    "from heed.first.part import x": "circle",
}


@pytest.mark.parametrize("line", LINES)
def test_an_import_against_the_order_is_seen(tmp_path, line):
    files = {"first/__init__.py": line, "first/part.py": "import heed.first", "second.py": "import torch"}
    for file, text in files.items():
        path = tmp_path / "heed" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    found = sorted((tmp_path / "heed").rglob("*.py"))
    try:
        said = "\n".join(complaints(found, ("first", "second"), tmp_path / "heed"))
    except ValueError as error:
        said = str(error)
    assert LINES[line] in said


@pytest.mark.parametrize("module, line", [("plot", "import torch"), ("train", "from heed import alignment")])
def test_a_module_that_knows_too_much_is_seen(tmp_path, module, line):
    path = tmp_path / "heed" / f"{module}.py"
    path.parent.mkdir()
    path.write_text(line, encoding="utf-8")
    said = "\n".join(complaints([path], heed.MODULES, tmp_path / "heed"))
    assert "of which it should know nothing" in said
