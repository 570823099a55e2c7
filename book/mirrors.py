"""Mirrored cells: what a chapter shows of the library is the library's own text, to the letter.

A mirrored cell's first line names the file, as in `# lib/heed/attention.py`; the rest is the definitions it
shows. The library is the original: a cell is rewritten from it, never the other way round. To make a new
mirrored cell, write the first line and a stub for each name (`def attention(): ...`, `class Tagger: ...`).
"""

import ast
import re
from itertools import pairwise

from notebooks import ROOT

# A public name of a taught module is shown first in exactly one chapter, in the open, or stands in LATER with
# the chapter that will, or is plumbing.
TAUGHT = (
    *("text", "recurrent", "scores", "attention", "alignment"),
    *("position", "scale", "layers", "transformer", "memory"),
    *("loss", "schedule", "train", "evaluate"),
    *("decode/cache", "decode/search", "decode/sampling", "decode/text"),
)
LATER = {}

PLUMBING = {  # validates, reports, keeps house: a chapter links to it, and never shows it in the open
    "text.check_ids",
    "text.MARKS",
    "text.learn_merges",
    "text.Subwords",
    "recurrent.CheckedEmbedding",
    "attention.check_mask",
    "attention.check_heads",
    "attention.MaskedSoftmax",
    "attention.record",
    "position.check_positions",
    "scale.check_groups",
    "schedule.check_shares",
    "train.next_batch",
    "train.look",
    "train.Progress",
    "decode.cache.GrowingCache",
    "decode.cache.FixedCache",
    "decode.cache.Cache",
    "decode.cache.start_decoding",
    "decode.search.Written",
    "decode.search.upto_end",
    "decode.sampling.check_draw",
    "decode.search.check_beam",
    "decode.search.Hypotheses",
    "decode.search.expand",
    "decode.search.length_penalty",  # one line of `beam_by_hand`, which stands in the open
    "decode.search.longest",
    "decode.search.dropout_off",
    "decode.text.translations",
    "evaluate.Score",
    "evaluate.bleu",
    "evaluate.chrf",
    "evaluate.Comparison",
    "evaluate.with_interval",
    "evaluate.sentence_counts",
    "evaluate.bleu_of",
    "evaluate.paired",  # 13.3 computes the same in the open, in fewer lines
    "evaluate.check_pairs",
    "evaluate.check_texts",
}
ANNOTATED = 11  # shows every class of the Transformer again, in the open, and some before their own chapter

HEADER = re.compile(r"#\s*(lib/\S+)\s*$")


def mirrored_file(source):
    """The file that a mirrored cell shows, as its first line gives it; None for any other cell."""
    first = source.split("\n", 1)[0]
    match = HEADER.match(first)
    return match and match[1]


def definitions(code):
    """What a module defines at its top level: name -> the statement's lines, whole, decorators included."""
    lines, found = code.split("\n"), {}
    for node in ast.parse(code).body:
        first = min([node.lineno, *(mark.lineno for mark in getattr(node, "decorator_list", []))])
        for name in names(node):
            found[name] = "\n".join(lines[first - 1 : node.end_lineno])
    return found


def names(node):
    """The names that a statement defines; an import defines none."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return []
    return [leaf.id for target in targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name)]


def public(code):
    """The public names that a module defines."""
    return [name for name in definitions(code) if not name.startswith("_")]


def mirrored(source, root=ROOT):
    """The text that this mirrored cell should have: the names it defines, as the library defines them.

    Raises ValueError, in words, if the file or a name is not in the library, or if the cell is not Python.
    """
    file = mirrored_file(source)
    path = root / file
    if not path.is_file():
        raise ValueError(f"the mirrored cell names {file}, and there is no such file")
    library = definitions(path.read_text(encoding="utf-8"))
    try:
        wanted = definitions(source)
    except SyntaxError as error:
        raise ValueError(f"the mirrored cell of {file} is not Python, line {error.lineno}") from None
    unknown = [name for name in wanted if name not in library]
    if unknown or not wanted:
        raise ValueError(f"the mirrored cell shows {unknown or 'nothing'}, which {file} does not define")
    blocks = list(dict.fromkeys(library[name] for name in wanted))
    text = blocks[0]
    for before, block in pairwise(blocks):
        one_line = all(len(names(ast.parse(b).body[0])) and "\n" not in b for b in (before, block))
        text += ("\n" if one_line else "\n\n\n") + block
    return f"# {file}\n{text}"


def mirror(notebook, root=ROOT):
    """Rewrite the notebook's mirrored cells from the library, and drop outputs that are no longer theirs."""
    for cell in notebook.cells:
        if cell.cell_type == "code" and mirrored_file(cell.source):
            fresh = mirrored(cell.source, root)
            if fresh != cell.source:
                cell.source, cell.outputs, cell.execution_count = fresh, [], None
    return notebook
