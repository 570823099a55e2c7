"""What a chapter asks of its reader: words, lines, figures, and how many honest minutes they take.

    minutes = (open words + words of folded answers) / 130 + open lines of code / 12
              + 1 for each figure, each Question and each displayed equation

The body goes from the title to What to remember; Further and the laboratory have
minutes of their own, and exercises those that their headings give.
"""

import ast
import re
from dataclasses import dataclass, field

from cells import EXERCISE, EXERCISE_FORM, LABORATORY, hides_input, is_code, pictures, python, tags

WORDS, LINES = 130, 12  # one minute is so many words, or lines of code
REMEMBER, EXERCISES, FURTHER, SOURCES = "What to remember", "Exercises", "Further", "Sources"
CLOSING = {REMEMBER, "What this does not show", EXERCISES, FURTHER, LABORATORY, SOURCES}
TITLE = re.compile(r"# (?:\d+|Tour) · .*")
HEAD = re.compile(r"\*[^*]* to read[^*]*\*")
FOLD = re.compile(r"<details>\s*<summary>(.*?)</summary>(.*?)</details>", re.DOTALL)
IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
EQUATION = re.compile(r"\$\$.*?\$\$", re.DOTALL)
QUESTION = "> **Question.**"


@dataclass
class Count:
    """What stands in one part of a chapter."""

    words: int = 0  # open ones, without formulas and tables
    folded: int = 0  # in texts that fold out
    answers: int = 0  # of these, in answers to Questions
    lines: int = 0  # of open code, without blank ones
    definitions: int = 0  # functions and classes in open code, without methods
    figures: int = 0
    questions: int = 0
    equations: int = 0
    sections: list = field(default_factory=list)
    imported: set = field(default_factory=set)  # names of the library, in open code
    marks: dict = field(default_factory=dict)  # tag `fails` or `repaired` -> (words, lines) before it

    @property
    def minutes(self):
        """The honest minutes."""
        looked_at = self.figures + self.questions + self.equations
        return (self.words + self.answers) / WORDS + self.lines / LINES + looked_at

    def add(self, cell):
        """Count one cell."""
        (self.add_code if is_code(cell) else self.add_prose)(cell)

    def add_code(self, cell):
        self.figures += len(pictures(cell))
        for tag in ("fails", "repaired"):
            if tag in tags(cell):
                self.marks.setdefault(tag, (self.words, self.lines))
        if hides_input(cell) or "exercise" in tags(cell):
            return
        self.lines += sum(bool(line.strip()) for line in cell.source.split("\n"))
        body = python(cell.source).body
        self.definitions += sum(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in body)
        for node in ast.walk(ast.Module(body, [])):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "heed":
                self.imported |= {alias.name for alias in node.names}

    def add_prose(self, cell):
        source = without_head(cell.source)
        for summary, text in FOLD.findall(source):
            self.folded += n_words(text)
            self.answers += n_words(text) if summary.startswith("Answer") else 0
        source = FOLD.sub("", source)
        self.words += n_words(source)
        self.figures += len(IMAGE.findall(source))
        self.questions += source.count(QUESTION)
        self.equations += len(EQUATION.findall(source))
        self.sections += re.findall(r"^## (\d+\.\d+ .*)", source, re.MULTILINE)


def n_words(text):
    """The words of prose: no formulas, no tables, no code blocks, no addresses."""
    text = re.sub(r"```.*?```", " ", EQUATION.sub(" ", text), flags=re.DOTALL)
    text = re.sub(r"^\s*\|.*$", " ", IMAGE.sub(" ", text), flags=re.MULTILINE)
    text = re.sub(r"\$[^$\n]+\$", "x", re.sub(r"\]\([^)]*\)", "]", text))
    return sum(any(map(str.isalnum, word)) for word in text.split())


def parts(notebook):
    """The cells of each part: "body", then those that stand below the headings in CLOSING."""
    found, part = {"body": []}, "body"
    for cell in notebook.cells:
        heading = re.match(r"## (.*)", cell.source) if not is_code(cell) else None
        if heading and heading[1].strip() in CLOSING:
            part = heading[1].strip()
        found.setdefault(part, []).append(cell)
    return found


def count(cells):
    """What stands in these cells; exercises are left out."""
    total, asked = Count(), False
    for cell in cells:
        first = cell.source.split("\n", 1)[0].rstrip()
        if not is_code(cell) and first.startswith("#"):
            asked = EXERCISE.fullmatch(first)
        if not asked:
            total.add(cell)
    return total


@dataclass
class Minutes:
    """The minutes of one chapter."""

    body: float
    further: float
    laboratory: float
    exercises: int

    def words(self, to=1):
        """In words: `26 minutes to read, 20 for Further, 15 for the laboratory, 2 hours of exercises`.

        to: reading is rounded to multiples of so many minutes
        """
        read = rounded(self.body, to)
        said = [f"{read} minute{'s' * (read > 1)} to read"]
        said += [f"{rounded(self.further, to)} for Further"] if self.further else []
        said += [f"{rounded(self.laboratory, to)} for the laboratory"] if self.laboratory else []
        said += [f"{hours(self.exercises)} of exercises"] if self.exercises else []
        return ", ".join(said)


def counted(notebook):
    """The minutes of a chapter."""
    there = parts(notebook)
    body, further, laboratory = (count(there.get(part, [])).minutes for part in ("body", FURTHER, LABORATORY))
    exercises = 0
    for cell in notebook.cells:
        asked = None if is_code(cell) else EXERCISE.fullmatch(cell.source.split("\n", 1)[0].rstrip())
        form = asked and EXERCISE_FORM.fullmatch(asked[3])
        exercises += int(form[3]) if form else 0
    return Minutes(body, further, laboratory, exercises)


def report(notebook):
    """What the tool prints of a chapter: its minutes, and what its body asks for."""
    body = count(parts(notebook)["body"])
    lines = [
        counted(notebook).words(),
        f"body: {len(body.sections)} sections, {body.words:,} words and {body.folded:,} folded, {body.lines} "
        f"lines, {body.definitions} definitions, {body.questions} Questions, {body.figures} figures, "
        f"{body.equations} equations, {len(body.imported)} names imported",
    ]
    if len(body.marks) == 2:
        (words, code), (later, _) = body.marks["fails"], body.marks["repaired"]
        lines.append(
            f"the failure is seen after {words} words and {code} lines, repaired {later - words} words later"
        )
    return "\n    ".join(lines)


def rounded(minutes, to):
    """Minutes as a multiple of some minutes, and never none."""
    return max(to, to * int(minutes / to + 0.5))


def hours(minutes):
    """Minutes as half hours: 115 -> `2 hours`. Less than three quarters of an hour stays minutes."""
    if minutes < 45:
        return f"{rounded(minutes, 5)} minutes"
    whole, half = divmod(int(minutes / 30 + 0.5), 2)
    return f"{whole}{'½' * half} hour{'s' * ((whole, half) > (1, 0))}"


def without_head(source):
    """A title's cell without its line of minutes; any other cell as it is."""
    title, *rest = source.split("\n")
    if not TITLE.fullmatch(title) or not any(map(HEAD.fullmatch, rest[:2])):
        return source
    body = "\n".join(line for i, line in enumerate(rest) if i > 1 or not HEAD.fullmatch(line)).strip("\n")
    return f"{title}\n\n{body}".strip("\n")


def with_head(source, minutes):
    """A title's cell with its line of minutes; any other cell as it is."""
    title, *rest = without_head(source).split("\n")
    if not TITLE.fullmatch(title):
        return source
    body = "\n".join(rest).strip("\n")
    return f"{title}\n\n*{minutes.words(to=5)}*\n\n{body}".strip("\n")
