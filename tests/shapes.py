"""Shape claims, executed: what a comment or a docstring says of a tensor is compared with the live tensor.

Three forms are claims, and a shape in any other place is refused, for nobody would check it:

    q: (..., n_q, d_k)                   in a docstring, of an argument (or `mask: …; broadcasts to (…)`)
    Returns the mixture (..., n_q, d_v)  in a docstring, of what comes back; of a tuple, one after the other.
                                         Where no sentence says Returns, any other shape is of what comes back
    x = self.embed(ids)  # (b, n, d_in)  on a line that assigns, returns or opens a loop

While one call of a function lasts, each letter stands for one number; `b` and what else a test declares stand
for theirs in all functions below it, and a letter that is also a whole number in the function is that number.
A claim holds only if it has run where all its letters are different numbers, and if something besides the
claim itself says what its letters are: otherwise two letters could be swapped, and nobody would notice.
"""

import ast
import inspect
import io
import re
import sys
import tokenize
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np

LETTER = r"\b(?:[bhnm]|vocab|[nd]_[a-z]\w*)\b"
SIZE = rf"(?:\d+|{LETTER})(?: ?[*+-] ?(?:\d+|{LETTER}))*"
SHAPE = re.compile(rf"(?<!\w)\((?=[^()]*[a-z])((?:\.\.\.|{SIZE})(?:, {SIZE})*),?\)")


@dataclass(frozen=True)
class Claim:
    """One shape, where it stands, and what it is of."""

    file: str
    line: int
    text: str  # "..., n_q, d_k"
    kind: str  # argument, target, return
    of: str = ""  # the argument's name or the target's text
    place: int = 0  # among the shapes of one return or one assignment
    broadcasts: bool = False

    def __str__(self):
        return f"{Path(self.file).name}, line {self.line}: {self.of or 'what comes back'} ({self.text})"

    @property
    def sizes(self):
        """The sizes, the leading dots left out."""
        return [size for size in self.text.split(", ") if size != "..."]

    @property
    def letters(self):
        return set(re.findall(LETTER, self.text))


@dataclass
class Function:
    """The claims of one function, and the statements that carry those of its lines."""

    arguments: list = field(default_factory=list)
    returns: list = field(default_factory=list)
    lines: dict = field(default_factory=dict)  # (first line, last line) -> claims

    @property
    def claims(self):
        return [*self.arguments, *self.returns, *(claim for group in self.lines.values() for claim in group)]


# --- Reading the claims -------------------------------------------------------------------------------------


def read(path):
    """A file's claims: (file, first line of a function) -> Function. Refuses a shape that is no claim."""
    code = Path(path).read_text(encoding="utf-8")
    tree, found = ast.parse(code), {}
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for node in functions:
        found[str(path), first_line(node)] = Function()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names = [a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)]
            described(path, node, names, [found[str(path), first_line(node)]])
        elif isinstance(node, ast.ClassDef):
            describe_class(path, node, found)
        elif isinstance(node, ast.Module) and SHAPE.search(ast.get_docstring(node) or ""):
            raise ValueError(f"{Path(path).name}: the module's docstring states a shape of nothing")
    for line, text in comments(code):
        commented(path, line, text, functions, found)
    return {key: function for key, function in found.items() if function.claims}


def first_line(node):
    """The line at which Python says that a function begins: that of its first decorator."""
    return min([node.lineno, *(mark.lineno for mark in node.decorator_list)])


def describe_class(path, node, found):
    """A class's docstring speaks of `forward`, or of the attributes where there is no such method."""
    methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
    if "forward" in methods:
        names = [a.arg for a in ast.walk(methods["forward"].args) if isinstance(a, ast.arg)]
        methods = {"forward": methods["forward"]}
    else:
        names = [item.target.id for item in node.body if isinstance(item, ast.AnnAssign)]
        methods = {name: item for name, item in methods.items() if name != "__post_init__"}
    described(path, node, names, [found[str(path), first_line(item)] for item in methods.values()])


def described(path, node, names, functions):
    """Give the claims of this docstring to these functions."""
    text = ast.get_docstring(node, clean=False) or ""
    for match in SHAPE.finditer(text):
        line = node.body[0].lineno + text[: match.start()].count("\n")
        before = SHAPE.sub("", text[: match.start()])
        forms = re.search(r"(\w+) $", before), re.search(r"(\w+): [^.()\n]*$", before)
        named = next((form for form in forms if form and form[1] in names), None)
        returned = re.search(r"\bReturns\b((?!\. |\n\s*\n).)*$", before, re.DOTALL)
        silent = "Returns" not in text and isinstance(node, ast.FunctionDef) and "->" not in text
        if named and not (returned and returned.start() > named.start()):
            loose = "broadcasts to" in named[0]
            claim = Claim(str(path), line, match[1], "argument", named[1], broadcasts=loose)
            for function in functions:
                function.arguments.append(claim)
        elif returned or silent:
            place = len(functions[0].returns)
            for function in functions:
                function.returns.append(Claim(str(path), line, match[1], "return", place=place))
        else:
            raise ValueError(
                f"{Path(path).name}, line {line}: the shape {match[0]} is of nothing that can be checked; "
                f"write `name: {match[0]}` for an argument, or `Returns … {match[0]}`"
            )


def comments(code):
    """All comments of a file that begin with a shape, and refusal of those that hide one further on."""
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT and SHAPE.search(token.string):
            yield token.start[0], token.string


def commented(path, line, text, functions, found):
    """Give the claims of one comment to the function around it."""
    where = f"{Path(path).name}, line {line}"
    around = [node for node in functions if node.lineno <= line <= node.end_lineno]
    inner = max(around, key=lambda node: node.lineno, default=None)
    shapes = [match[1] for match in SHAPE.finditer(text)]
    if inner is None or not re.match(rf"# ?{SHAPE.pattern}(, {SHAPE.pattern})*( each)?$", text):
        raise ValueError(f"{where}: `{text}` holds a shape and is no claim; a claim is the shape alone")
    statements = [
        node
        for node in ast.walk(inner)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return | ast.For)
        and line in (node.lineno, node.iter.end_lineno if isinstance(node, ast.For) else node.end_lineno)
    ]
    if not statements:
        raise ValueError(f"{where}: `{text}` stands on a line that neither assigns nor returns")
    node = max(statements, key=lambda node: node.lineno)
    last = node.iter.end_lineno if isinstance(node, ast.For) else node.end_lineno
    if isinstance(node, ast.Return):
        made = [Claim(str(path), line, shape, "return", place=i) for i, shape in enumerate(shapes)]
    else:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        leaves = [ast.unparse(leaf) for leaf in getattr(target, "elts", [target])]
        leaves = [leaf for leaf in leaves if leaf != "_"]
        shapes = shapes * len(leaves) if text.endswith(" each") else shapes
        made = [
            Claim(str(path), line, shape, "target", leaf) for leaf, shape in zip(leaves, shapes, strict=False)
        ]
    found[str(path), first_line(inner)].lines[node.lineno, last] = made


# --- Running them -------------------------------------------------------------------------------------------


class Tracer:
    """Watches the functions that make claims, while it is open; afterwards it knows which claims are wrong.

        with Tracer(functions, b=2) as seen:
            model(source, target_in)
        seen.wrong, seen.held, seen.weak

    wrong: sentences; held: claims that ran where nothing could hide; weak: claim -> why a run did not count
    """

    def __init__(self, functions, **sizes):
        self.functions, self.sizes = functions, {letter: n for letter, n in sizes.items() if n is not None}
        self.wrong, self.held, self.weak = [], set(), {}

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self.enter)
        return self

    def __exit__(self, *error):
        sys.settrace(self.before)

    def enter(self, frame, event, argument):
        """Python calls this at the start of every function."""
        code = frame.f_code
        function = self.functions.get((code.co_filename, code.co_firstlineno))
        if function is None or code.co_name == "<lambda>":
            return None
        return Run(self, function, frame).step


class Run:
    """One call of one function: the tensors that its claims were about."""

    def __init__(self, tracer, function, frame):
        self.tracer, self.function = tracer, function
        self.seen, self.pending, self.returning = [], None, None
        for claim in function.arguments:
            value = frame.f_locals.get(claim.of)
            if claim.of not in frame.f_locals and "self" in frame.f_locals:
                value = getattr(frame.f_locals["self"], claim.of, None)
            self.note(claim, value)

    def step(self, frame, event, argument):
        """Python calls this before every line, and when the function returns."""
        if event == "exception":
            self.pending = self.returning = None
            return self.step
        if self.pending and not (event == "line" and self.pending[0] <= frame.f_lineno <= self.pending[1]):
            for claim in self.function.lines[self.pending]:
                if claim.kind == "target":
                    self.note(claim, value_of(claim.of, frame))
            self.pending = None
        if event == "line":
            for span, claims in self.function.lines.items():
                if span[0] <= frame.f_lineno <= span[1]:
                    self.pending = span
                    self.returning = claims if claims and claims[0].kind == "return" else self.returning
        elif event == "return" and not inspect.isgeneratorfunction(frame.f_code):
            self.finish(frame, argument)
        return self.step

    def note(self, claim, value):
        """Remember the shape that a claim is about; nothing to remember where there is no tensor."""
        if value is not None and not isinstance(value, str):
            self.seen.append((claim, tuple(getattr(value, "shape", None) or np.shape(value))))

    def finish(self, frame, result):
        """Look at what comes back, and then hold all claims of this call against one another."""
        if frame.f_code.co_flags & inspect.CO_GENERATOR:
            return
        parts = result if isinstance(result, tuple) else (result,)
        for claim in [*self.function.returns, *(self.returning or [])]:
            if result is not None:
                self.note(claim, parts[claim.place])
        whole = {name: value for name, value in frame.f_locals.items() if type(value) is int}
        self.judge({**whole, **self.tracer.sizes})

    def judge(self, known):
        """Solve for the letters; report what does not fit, and which claims this call has shown."""
        letters = {letter for claim, _ in self.seen for letter in claim.letters}
        known = {letter: n for letter, n in known.items() if letter in letters}
        numbers, sources = dict(known), {letter: {None} for letter in known}
        facts = [fact for claim, shape in self.seen for fact in self.facts(claim, shape)]
        waiting = list(facts)
        while waiting:
            ready = [fact for fact in waiting if len(unknown(fact[1], numbers)) <= 1]
            if not ready:
                break
            for fact in ready:
                waiting.remove(fact)
                self.settle(*fact, numbers)
        for claim, size, _ in facts:
            for letter in re.findall(LETTER, size):
                sources.setdefault(letter, set()).add(claim)
        for claim, size, _ in waiting:
            self.tracer.wrong.append(f"{claim}: nothing says what the letters of {size} are")
        self.weigh(numbers, sources)

    def facts(self, claim, shape):
        """The equations in a claim: (claim, size, number). A wrong number of axes is reported at once."""
        sizes, dots = claim.sizes, claim.text.startswith("...")
        if claim.broadcasts:
            pairs = zip(reversed(sizes), reversed(shape), strict=False)
            return [(claim, size, n) for size, n in pairs if n != 1]
        if len(shape) < len(sizes) or (len(shape) > len(sizes) and not dots):
            self.tracer.wrong.append(f"{claim}: the tensor is {shape}")
            return []
        lead = shape[: len(shape) - len(sizes)]
        equations = [(claim, size, n) for size, n in zip(sizes, shape[len(lead) :], strict=True)]
        return equations + ([(claim, "...", lead)] if dots else [])

    def settle(self, claim, size, n, numbers):
        """Let one equation give a letter its number, or hold it against the number that it has."""
        if size == "...":
            if numbers.setdefault("...", n) != n:
                self.tracer.wrong.append(f"{claim}: ... is {n}, and elsewhere {numbers['...']}")
            return
        for letter in unknown(size, numbers):
            fits = [k for k in range(n + 1) if evaluate(size, {**numbers, letter: k}) == n]
            numbers[letter] = fits[0] if fits else -1
        if evaluate(size, numbers) != n:
            names = ", ".join(f"{x}={numbers[x]}" for x in sorted(numbers) if x != "...")
            self.tracer.wrong.append(f"{claim}: {size} is {n} in the tensor, where {names}")

    def weigh(self, numbers, sources):
        """Decide for every claim of this call whether a swap of two letters would have been noticed."""
        for claim, _ in self.seen:
            mine = sorted(claim.letters)
            pairs = combinations([x for x in mine if x in numbers], 2)
            alike = [f"{x} = {y} = {numbers[x]}" for x, y in pairs if numbers[x] == numbers[y]]
            free = [x for x in mine if sources.get(x, set()) <= {claim}]
            if alike:
                self.tracer.weak[claim] = f"it ran only where {alike[0]}"
            elif len(free) > 1:
                self.tracer.weak[claim] = f"nothing else says what {free[0]} and {free[1]} are"
            else:
                self.tracer.held.add(claim)


def unknown(size, numbers):
    """The letters of a size that have no number yet."""
    return [] if size == "..." else [x for x in dict.fromkeys(re.findall(LETTER, size)) if x not in numbers]


def evaluate(size, numbers):
    """The number that a size such as 2*d_hidden stands for."""
    return eval(size, {"__builtins__": {}}, numbers)


def value_of(target, frame):
    """What an assignment has just put into its target; None where a loop has ended and there is nothing."""
    try:
        return eval(target, frame.f_globals, frame.f_locals)
    except (NameError, AttributeError, IndexError, KeyError):
        return None
