"""How long a chapter takes: minutes to read its lesson, for its laboratory, and for its exercises.

Reading is counted by what stands open: visible words / 200 + visible lines of code / 20 + figures / 3. What
folds out, and a folded input, is not counted. The exercises' minutes are those that their headings give.
"""

import re
from dataclasses import dataclass

from cells import EXERCISE, EXERCISE_FORM, LABORATORY, headings, hides_input, is_code, pictures

WORDS, LINES, FIGURES = 200, 20, 3  # one minute is so many words, lines of code, or figures
TITLE = re.compile(r"# \d+ · .*")
HEAD = re.compile(r"\*[^*]* to read[^*]*\*")


@dataclass
class Minutes:
    """The minutes of one chapter."""

    lesson: float
    laboratory: float
    exercises: int

    def words(self, to=1):
        """In words: `43 minutes to read, 35 for the laboratory, 2 hours of exercises`.

        to: reading is rounded to multiples of so many minutes
        """
        lesson = rounded(self.lesson, to)
        parts = [f"{lesson} minute{'s' * (lesson > 1)} to read"]
        parts += [f"{rounded(self.laboratory, to)} for the laboratory"] if self.laboratory else []
        parts += [f"{hours(self.exercises)} of exercises"] if self.exercises else []
        return ", ".join(parts)


def rounded(minutes, to):
    """Minutes as a multiple of some minutes, and never none."""
    return max(to, to * int(minutes / to + 0.5))


def hours(minutes):
    """Minutes as half hours: 115 -> `2 hours`. Less than three quarters of an hour stays minutes."""
    if minutes < 45:
        return f"{rounded(minutes, 5)} minutes"
    whole, half = divmod(int(minutes / 30 + 0.5), 2)
    return f"{whole}{'½' * half} hour{'s' * ((whole, half) > (1, 0))}"


def counted(notebook):
    """The minutes of a chapter."""
    lesson, laboratory, exercises = [], [], 0
    part, asked = lesson, False
    for cell in notebook.cells:
        first = cell.source.split("\n", 1)[0].rstrip()
        if (2, LABORATORY) in headings(cell):
            part = laboratory
        if not is_code(cell) and first.startswith("#"):
            asked = EXERCISE.fullmatch(first)
            form = asked and EXERCISE_FORM.fullmatch(asked[3])
            exercises += int(form[3]) if form else 0
        if not asked:
            part.append(reading(cell))
    return Minutes(sum(lesson), sum(laboratory), exercises)


def reading(cell):
    """The minutes that one cell takes to read."""
    if is_code(cell):
        lines = [] if hides_input(cell) else [line for line in cell.source.split("\n") if line.strip()]
        return len(lines) / LINES + len(pictures(cell)) / FIGURES
    text = re.sub(r"<details>.*?</details>", " ", without_head(cell.source), flags=re.DOTALL)
    return len(text.split()) / WORDS


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
