"""Replace code by what it says, not by how it is written: layout and the names of locals do not matter.

A pattern is Python: an expression, or one or more statements. A name that the module or the language knows,
and that of a keyword-only argument, means itself. Any other stands for a local, whatever its name.
"""

import ast
import builtins
import copy
from symtable import symtable


def replaced(text, symbol, old, new):
    """The text of a module with `new` in the place of `old`.

    symbol: the function or class in which `old` stands once: "World.micro_batches"; "" for the whole module
    old, new: "chosen.log()", "chosen"

    Raises ValueError if there is no such symbol, if `old` does not stand there exactly once, and if `new` has
    a local that is not in `old`: its name could change.
    """
    tree, old, new = ast.parse(text), parsed(old), parsed(new)
    part = within(tree, symbol)
    known = {*symtable(text, "", "exec").get_identifiers(), *dir(builtins), *keywords(part)}
    pattern, names = numbered(old, known)
    found = [piece for piece in pieces(part, old) if numbered(piece, known)[0] == pattern]
    if len(found) != 1:
        where = symbol or "The module"
        raise ValueError(f"{where} must contain {ast.unparse(old)!r} once, and does {len(found)} times.")
    here = dict(zip(names, numbered(found[0], known)[1], strict=True))
    if strange := {*numbered(new, known)[1]} - here.keys() - made(new):
        local = min(strange)
        raise ValueError(f"{ast.unparse(new)!r} names the local {local}, and {ast.unparse(old)!r} does not.")
    first, last = found[0].body[0], found[0].body[-1]
    put = renamed(new, lambda name: here.get(name, name)).replace("\n", "\n" + " " * first.col_offset)
    put = f"({put})" if isinstance(new.body[0], ast.expr) else put
    lines = text.encode().splitlines(keepends=True)
    before = b"".join(lines[: first.lineno - 1]) + lines[first.lineno - 1][: first.col_offset]
    after = lines[last.end_lineno - 1][last.end_col_offset :] + b"".join(lines[last.end_lineno :])
    return (before + put.encode() + after).decode()


def parsed(code):
    """Code as a tree of statements, or of the one expression that it is."""
    tree = ast.parse(code)
    if len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr):
        tree.body = [tree.body[0].value]
    return tree


def within(tree, symbol):
    """The function or class in a module."""
    for name in filter(None, symbol.split(".")):
        tree = next((node for node in tree.body if getattr(node, "name", None) == name), None)
        if tree is None:
            raise ValueError(f"There is no {symbol}.")
    return tree


def pieces(tree, like):
    """What stands in a tree and is of the same kinds: expressions, or as many statements in a row."""
    kinds = [type(node) for node in like.body]
    for node in ast.walk(tree):
        for _, value in ast.iter_fields(node):
            row = value if isinstance(value, list) else [value]
            for i in range(len(row)):
                if [type(node) for node in row[i : i + len(kinds)]] == kinds:
                    yield ast.Module(row[i : i + len(kinds)], [])


def numbered(tree, known):
    """The code with a number for each local, and the locals in the order of their numbers."""
    tree, names = copy.deepcopy(tree), {}
    code = renamed(tree, lambda name: name if name in known else names.setdefault(name, f"_{len(names)}"))
    return code, [*names]


def renamed(tree, name):
    """The code with name(…) for each variable and argument. The tree is changed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = name(node.id)
        elif isinstance(node, ast.arg):
            node.arg = name(node.arg)
        elif isinstance(node, ast.Nonlocal):
            node.names = [*map(name, node.names)]
    return ast.unparse(tree)


def made(tree):
    """The names to which the code gives a value."""
    nodes = [*ast.walk(tree)]
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {node.arg for node in nodes if isinstance(node, ast.arg)}


def keywords(tree):
    """The names of keyword-only arguments."""
    return {arg.arg for node in ast.walk(tree) for arg in getattr(node, "kwonlyargs", ())}
