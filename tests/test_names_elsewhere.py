"""Chapter 00's tables of names: what each row sends a reader to is in that chapter, and in the library."""

import ast
import inspect
import re
from functools import cache
from pathlib import Path

import nbformat
import pytest
import torch
from torch import nn

import heed

LIBRARY = Path(heed.__file__).parent
CHAPTERS = LIBRARY.parents[1] / "chapters"
HEAD = re.compile(r"^\| (?:elsewhere|torch|also called) \| here \| chapter \|.*$", re.MULTILINE)
CJK = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")


def markdown(path):
    """The Markdown cells of a notebook."""
    cells = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4).cells
    return [cell.source for cell in cells if cell.cell_type == "markdown"]


def rows():
    """Each row of each table: a dictionary from the head's words to the cells'."""
    found = []
    for source in markdown(CHAPTERS / "00_preface.ipynb"):
        for head in HEAD.findall(source):
            names = split(head)
            lines = source[source.index(head) :].split("\n\n")[0].split("\n")[2:]
            found += [dict(zip(names, split(line), strict=True)) for line in lines]
    return found


def split(line):
    """The cells of a line of a table."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


@cache
def text(name):
    """What a chapter says, without tables of names, and without the map, which has words of all chapters."""
    cells = nbformat.reads((CHAPTERS / name).read_text(encoding="utf-8"), as_version=4).cells
    kept = (c for c in cells if not HEAD.search(c.source) and "course-map" not in c.metadata.get("tags", []))
    return "\n".join(cell.source for cell in kept)


@cache
def defined():
    """Every name that the library defines: modules, classes, functions, arguments, attributes, constants."""
    names = set()
    for path in LIBRARY.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                    names.add(name)
                case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                    names.add(name)
    return names


@cache
def torchs():
    """Names of torch: arguments of what the tables speak of, and attributes of its layers."""
    layers = nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, nn.TransformerEncoder, nn.Transformer
    kinds = *layers, nn.MultiheadAttention, nn.Embedding, nn.CrossEntropyLoss
    names = set()
    for kind in kinds:
        for function in kind.__init__, kind.forward:
            names |= {*inspect.signature(function).parameters}
    made = nn.MultiheadAttention(4, 2), nn.TransformerDecoderLayer(4, 2, 4), nn.GRU(2, 3)
    for module in made:
        names |= {*vars(module), *dict(module.named_children()), *dict(module.named_parameters())}
    return names | {*re.findall(r"\w+", torch.nn.functional.scaled_dot_product_attention.__doc__)}


def is_in(item, words):
    """Does this text hold the item: a `name`, a $formula$, or a term?"""
    if item.startswith("`"):
        return bool(re.search(rf"(?<!\w){re.escape(item.strip('`'))}(?!\w)", words))
    if item.startswith("$"):
        wanted = r"\s*".join(map(re.escape, item.strip("$").split()))
        formulas = "\n".join(re.findall(r"\$+([^$]+)\$+", words))
        return bool(re.search(rf"(?<![\\\w]){wanted}(?![\w^])", formulas))
    return item.lower() in words.lower()


def faults(row):
    """What is wrong with a row, in sentences."""
    found = []
    link = re.fullmatch(r"\[(\d\d)\]\((\1_\w+\.ipynb)\)", row["chapter"])
    if not link or not (CHAPTERS / link[2]).is_file():
        return [f"{row['chapter']} is no link to a chapter"]
    for item in row["here"].split("; "):
        if not is_in(item, text(link[2])):
            found.append(f"{item} is not in chapter {link[1]}")
        if item.startswith("`"):
            missing = {*re.findall(r"\w+", item)} - {"self"} - defined()
            found += [f"the library does not define {name}" for name in sorted(missing)]
    for name in re.findall(r"`(\w+)`", row.get("torch", "")):
        if name not in torchs():
            found.append(f"torch has no {name}")
    for language in {"中文", "日本語"} & {*row}:
        if row[language] != "–" and not CJK.search(row[language]):
            found.append(f"{row['here']} has no term in {language}")
    return found


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["here"])
def test_a_row_leads_to_its_chapter(row):
    assert not faults(row)


def test_the_tables_are_there_and_say_nothing_twice():
    firsts = [next(iter(row.values())) + row["here"] for row in rows()]
    assert len(firsts) > 100 and len(firsts) == len({*firsts})


def link(chapter):
    (path,) = (path for path in CHAPTERS.glob(f"{chapter}_*.ipynb") if path.stem != "00_tour")
    return f"[{chapter}]({path.name})"


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({}, None),
        ({"chapter": link("17")}, "`source_attention` is not in chapter 17"),
        ({"chapter": "[11](11_other.ipynb)"}, "is no link to a chapter"),
        ({"chapter": link("11").replace("[11]", "[12]")}, "is no link to a chapter"),
        ({"here": "`src_attn`"}, "the library does not define src_attn"),
        ({"here": "`source_attentions`"}, "`source_attentions` is not in chapter 11"),
        ({"here": "`source_attention`; $W_1 s$"}, "$W_1 s$ is not in chapter 11"),
        ({"here": "source attentiveness"}, "source attentiveness is not in chapter 11"),
        ({"torch": "`multihead_attention`"}, "torch has no multihead_attention"),
        ({"中文": "attention"}, "`source_attention` has no term in 中文"),
    ],
)
def test_a_planted_fault_is_found(changes, sentence):
    right = {"torch": "`multihead_attn`", "here": "`source_attention`", "chapter": link("11")}
    found = faults(right | changes)
    assert any(sentence in fault for fault in found) if sentence else not found
