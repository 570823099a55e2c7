"""The fixed form of an exercise, read from a notebook.

A Markdown cell opens with `### Exercise 3.4 · code · ●●○ · 10 min`: chapter and number, kind, difficulty,
minutes. Hints fold out one after another, `<details><summary>Hint 1</summary> … </details>`. The kinds are
*predict* (then run), *code* (a stub to fill; the next cell, tagged `exercise`, holds it and ends with the
check) and *investigate*; the other two may have a stub and a check, too. In the solutions the same number
opens each answer; where there is a check, one cell tagged `solution` and at least two tagged `wrong`, typical
mistakes that the check must name.
"""

import ast
import re
from dataclasses import dataclass, field

from cells import EXERCISE, EXERCISE_FORM, printed, tags
from mirrors import names

HINT = re.compile(r"<details>\s*<summary>Hint (\d+)</summary>(.*?)</details>", re.DOTALL)


@dataclass
class Exercise:
    """One exercise, or its solution: the number, what the heading says, the cells up to the next heading."""

    chapter: int
    number: int
    heading: str
    cells: list = field(default_factory=list)

    @property
    def kind(self):
        """predict, code or investigate; None where the heading does not say."""
        form = EXERCISE_FORM.fullmatch(self.heading)
        return form and form[1]

    @property
    def name(self):
        return f"Exercise {self.chapter}.{self.number}"

    def tagged(self, tag):
        """The exercise's code cells with this tag."""
        return [cell for cell in self.cells if cell.cell_type == "code" and tag in tags(cell)]


def exercises(notebook):
    """All exercises of a notebook, in order. One ends where the next heading begins."""
    found, current = [], None
    for cell in notebook.cells:
        first = cell.source.split("\n", 1)[0]
        if cell.cell_type == "markdown" and first.startswith("#"):
            match = EXERCISE.fullmatch(first.rstrip())
            current = match and Exercise(int(match[1]), int(match[2]), match[3])
            found += [current] if current else []
        if current:
            current.cells.append(cell)
    return found


def answer(source):
    """What an exercise's code cell defines and calls: (name of the function, name of the check).

    Raises ValueError, in words, if the cell does not end with `check.<name>(<what it defines>)`.
    """
    body = ast.parse(source).body
    defined = [name for node in body for name in names(node)]
    match body[-1] if body else None:
        case ast.Expr(
            ast.Call(func=ast.Attribute(ast.Name("check"), check), args=[ast.Name(function)], keywords=[])
        ) if function in defined:
            return function, check
    raise ValueError("must end with check.<name>(<function>), for a function that it defines")


def form_of_exercises(notebook, chapter, least=8):
    """Complaints about a chapter's exercises: headings, hints, stubs."""
    found, complaints = exercises(notebook), []
    if len(found) < least:
        complaints.append(f"{len(found)} exercises, and there must be at least {least}")
    if [(e.chapter, e.number) for e in found] != [(chapter, i + 1) for i in range(len(found))]:
        complaints.append(f"exercises must be numbered {chapter}.1 to {chapter}.{len(found)} in this order")
    for exercise in found:
        complaints += [f"{exercise.name}: {line}" for line in form_of_one(exercise)]
    stubs = [cell for cell in notebook.cells if "exercise" in tags(cell)]
    if len(stubs) != sum(len(e.tagged("exercise")) for e in found):
        complaints.append("a cell tagged exercise stands outside an exercise")
    return complaints


def form_of_one(exercise):
    """Complaints about one exercise of a chapter."""
    text = exercise.cells[0].source
    hints = HINT.findall(text)
    if exercise.kind is None:
        yield "the heading must read like `### Exercise 3.4 · code · ●●○ · 10 min`"
    if not hints or [int(n) for n, _ in hints] != list(range(1, len(hints) + 1)):
        yield "needs hints that fold out, numbered from 1: <details><summary>Hint 1</summary> … </details>"
    if any(len(hint.split()) < 3 for _, hint in hints):
        yield "has an empty hint"
    if len(HINT.sub("", text).split("\n", 1)[-1].split()) < 8:
        yield "does not say what to do"
    stubs = exercise.tagged("exercise")
    if exercise.kind != "code" and not stubs:
        return
    if len(stubs) != 1 or exercise.cells[1] is not stubs[0]:
        yield "needs one code cell tagged exercise, right after its text"
        return
    try:
        answer(stubs[0].source)
    except (ValueError, SyntaxError) as error:
        yield f"the stub: {error}"
    if not printed(stubs[0]).startswith("○ Not started"):
        yield f"the stub must print ○ Not started…, and prints {printed(stubs[0])!r}"


def form_of_solutions(chapter, solutions):
    """Complaints about a notebook of solutions, held against its chapter."""
    asked, given = exercises(chapter), {(e.chapter, e.number): e for e in exercises(solutions)}
    complaints = [
        f"{extra.name} has a solution and is not asked"
        for key, extra in given.items()
        if key not in {(e.chapter, e.number) for e in asked}
    ]
    for exercise in asked:
        solution = given.get((exercise.chapter, exercise.number))
        lines = form_of_solution(exercise, solution) if solution else ["has no solution"]
        complaints += [f"{exercise.name}: {line}" for line in lines]
    return complaints


def form_of_solution(exercise, solution):
    """Complaints about one solution: the right answer passes, wrong ones fail with sentences of their own."""
    words = sum(len(cell.source.split()) for cell in solution.cells if cell.cell_type == "markdown")
    if words < 20:
        yield "the solution explains nothing"
    if not exercise.tagged("exercise"):
        return
    right, wrong = solution.tagged("solution"), solution.tagged("wrong")
    if len(right) != 1:
        yield f"needs one cell tagged solution, and has {len(right)}"
    if len({cell.source for cell in wrong}) < 2:
        yield "needs at least two different cells tagged wrong"
    for cell in [*right, *wrong]:
        try:
            if answer(cell.source) != answer(exercise.tagged("exercise")[0].source):
                yield f"a cell defines and checks {answer(cell.source)}, which is not what the stub asks"
        except (ValueError, SyntaxError) as error:
            yield f"a cell of the solution: {error}"
    for cell in right:
        if not printed(cell).startswith("✓ "):
            yield f"the solution does not pass: {printed(cell)!r}"
    sentences = {printed(cell).strip() for cell in wrong}
    for sentence in sorted(sentences):
        if not sentence.startswith("✗ Not yet: ") or len(sentence.split()) < 8:
            yield f"a wrong answer must fail with a sentence, and prints {sentence!r}"
        if "your code raised" in sentence or "cannot work with your answer" in sentence:
            yield f"a wrong answer must fail with a sentence of the check's own, and prints {sentence!r}"
    if len(wrong) >= 2 and len(sentences) < 2:
        yield "all wrong answers get the same sentence"
