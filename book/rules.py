"""The book's rules for a stored notebook, each a function that says what is wrong, without running anything.

Strict nbval runs the notebooks and compares; what it cannot see (a cleared notebook, a cell that never ran, a
path of somebody's machine) is here, and so is the form of a chapter: prose, figures, exercises.
"""

import ast
import json
import re
import sys
from itertools import pairwise
from pathlib import Path

import folds
import minutes
from cells import LABORATORY, headings, hides_input, hides_output, is_code, pictures, python, tags
from course_map import PLACES, course_map, curriculum, map_cell
from exercises import form_of_exercises, form_of_solutions
from mirrors import ANNOTATED, LATER, PLUMBING, TAUGHT, definitions, mirrored, mirrored_file, names, public
from notebooks import ROOT, SETUP, is_chapter, is_solution, is_tour, normal, notebooks, number, read, text

LONGEST = 40  # lines of a code cell
WIDTH = 80  # columns of a code cell: the page of the HTML edition holds them
EXERCISES = 8
BOUNDS = {  # what a body may ask for; chapter 11 holds a whole Transformer
    "words": (2000, 3000),
    "lines": (150, 220),
    "definitions": (8, 20),
    "questions": (3, 3),
    "figures": (5, 5),
    "minutes": (36, 50),
}
OF_THE_TOUR = {"words": 4000, "lines": 200, "questions": 3, "minutes": 60}  # and of a cell of it in the open:
LONGEST_IDEA = 15  # lines
TO_FAILURE, TO_REPAIR = (
    (300, 40),
    1200,
)  # words and open lines before the failure; words from there to its repair
LIBRARIES = {"heed", "torch", "numpy", "matplotlib", "seaborn", "babel", "num2words", "tokenizers", "IPython"}
MACHINE = re.compile(
    r"(?<![\w.])/(?:home|Users|root|tmp|var|mnt|content|work|opt|usr)/\w+|\b[A-Z]:\\+(?:Users|Program)"
    r"|site-packages|ipykernel_\d|<ipython-input|\bat 0x[0-9a-fA-F]{6,}"
)
STYLE = re.compile(r"\b(?:simply|just|obviously)\b|(?<![<])!(?!\[|=)", re.IGNORECASE)
LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)\s]+)[^)]*\)")


def code_cells(notebook):
    """The code cells, each with the number that Jupyter shows beside it."""
    return list(enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), start=1))


def prose(source):
    """The words of a Markdown cell, without code, formulas and links' addresses."""
    source = re.sub(r"```.*?```|\$\$.*?\$\$", " ", source, flags=re.DOTALL)
    source = re.sub(r"`[^`]*`|\$[^$\n]*\$|<!--.*?-->", " ", source, flags=re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", source)


# --- What any stored notebook must keep ---------------------------------------------------------------------


def is_run_in_order(path, notebook):
    """Every code cell has run, once, from top to bottom."""
    counts = [cell.execution_count for _, cell in code_cells(notebook)]
    if counts != list(range(1, len(counts) + 1)):
        yield f"cells were not run in order, once each: the counts are {counts}"


def is_not_cleared(path, notebook):
    """Outputs are stored. (Whether each cell has its own is for nbval, which runs them.)"""
    cells = code_cells(notebook)
    if len(cells) > 1 and not any(cell.outputs for _, cell in cells):
        yield "no cell has any output: the notebook was cleared"


def runs_clean(path, notebook):
    """No errors, nothing on stderr, no tag or comment that hides a cell from the tests."""
    for i, cell in code_cells(notebook):
        for output in cell.outputs:
            if output.output_type == "error":
                yield f"cell {i} stores an error: {output.ename}"
            if output.get("name") == "stderr":
                yield f"cell {i} wrote to stderr: {output.text.strip()[:60]!r}"
        hidden = {tag for tag in tags(cell) if re.match("nbval-|pytest-|raises-exception", tag)}
        hidden -= {"nbval-ignore-output"}
        if hidden or re.search(r"#\s*(NBVAL|PYTEST)_", cell.source):
            yield f"cell {i} hides from the tests; the one tag allowed is nbval-ignore-output"


def varies_beside_an_assertion(path, notebook):
    """A cell whose output may vary asserts what holds on every machine, or the next code cell does."""
    for (i, cell), (_, after) in pairwise([*code_cells(notebook), (0, None)]):
        sources = cell.source + "\n" + (after.source if after else "")
        for tag in {"nbval-ignore-output", "varies"} & {*tags(cell)}:
            if not re.search(r"^\s*assert\b", sources, re.MULTILINE):
                yield f"cell {i} is tagged {tag}, and no assertion stands in it or in the next one"


def outlines_what_varies(path, notebook):
    """A figure that hangs on a training is stored with its outline, by which it is compared."""
    for i, cell in code_cells(notebook):
        if "varies" in tags(cell) and not all(picture.metadata.get("outline") for picture in pictures(cell)):
            yield f"cell {i} is tagged varies, and its figure has no outline: python book/chapters.py run"
        if "varies" in tags(cell) and not pictures(cell):
            yield f"cell {i} is tagged varies and draws no figure; text that varies is a claim with room"


def names_no_machine(path, notebook):
    """No path, temporary name or memory address of somebody's machine."""
    for cell in notebook.cells:
        found = MACHINE.search(cell.source + "\n" + json.dumps(shown(cell), ensure_ascii=False))
        if found:
            yield f"names a machine: {found[0]!r} in the cell that begins {cell.source[:40]!r}"


def shown(cell):
    """All text that a cell's outputs show."""
    words = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        words += [output.get("text", ""), *(data[kind] for kind in data if not kind.startswith("image/"))]
    return words


def draws_png(path, notebook):
    """Figures are PNG: an SVG carries a date and random ids."""
    for i, cell in code_cells(notebook):
        kinds = {kind for output in cell.outputs for kind in output.get("data", {})}
        odd = {kind for kind in kinds if kind.startswith("image/")} - {"image/png"}
        if odd or any("<svg" in str(words) for words in shown(cell)):
            yield f"cell {i} shows {', '.join(sorted(odd)) or 'SVG in HTML'}; figures are PNG"


def has_short_cells(path, notebook):
    """No code cell is over-long; one that shows the library again, folded, is as long as the library."""
    for i, cell in code_cells(notebook):
        n = len(cell.source.splitlines())
        if n > LONGEST and not (hides_input(cell) and mirrored_file(cell.source)):
            yield f"cell {i} has {n} lines, and {LONGEST} are the most"


def fits_the_page(path, notebook):
    """Code is at most eighty columns wide, so that no line of it scrolls sideways; the library's is wider."""
    for i, cell in code_cells(notebook):
        for line in [] if mirrored_file(cell.source) else cell.source.splitlines():
            if len(line) > WIDTH:
                yield f"cell {i} has {len(line)} columns; {WIDTH} are the most: {line.strip()[:40]!r}"


def is_in_stored_form(path, notebook):
    """The file is as `book/chapters.py run` leaves it."""
    if text(normal(notebook)) != path.read_text(encoding="utf-8"):
        yield "is not in the stored form: python book/chapters.py run"


def opens_with_setup(path, notebook):
    """The first cell is the one that installs the course on Colab."""
    first = notebook.cells[0] if notebook.cells else None
    if first is None or first.source != SETUP or tags(first) != ["setup"]:
        yield "does not open with the set-up cell: python book/chapters.py run"


def describes_its_figures(path, notebook):
    """One figure a cell, and every figure has an alternative text of at least five words."""
    for i, cell in code_cells(notebook):
        if len(pictures(cell)) > 1:
            yield f"cell {i} draws {len(pictures(cell))} figures; one cell, one figure"
        if pictures(cell) and len(cell.metadata.get("alt", "").split()) < 5:
            yield f"cell {i} draws a figure and has no alternative text (metadata `alt`)"
        if cell.metadata.get("alt") and not pictures(cell):
            yield f"cell {i} has an alternative text and no figure"
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and re.search(r"!\[\s*\]\(", cell.source):
            yield f"an image has no alternative text, in the cell that begins {cell.source[:40]!r}"


def links_to_files(path, notebook):
    """Links inside the repository lead to files that exist."""
    for cell in notebook.cells:
        for _, target in LINK.findall(cell.source) if cell.cell_type == "markdown" else []:
            if not re.match(r"[a-z]+:|#", target) and not (path.parent / target.split("#")[0]).exists():
                yield f"links to {target}, which does not exist"


def keeps_the_style(path, notebook):
    """Plain words: no 'simply', no 'just', no 'obviously', no exclamation marks."""
    for cell in notebook.cells:
        for match in STYLE.finditer(prose(cell.source)) if cell.cell_type == "markdown" else []:
            yield f"{match[0]!r} in the cell that begins {cell.source[:40]!r}"


def imports_the_course(path, notebook):
    """A notebook stands on the library and what the course installs, never on another notebook or a test."""
    for i, cell in code_cells(notebook):
        for node in ast.walk(python(cell.source)):
            wanted = []
            if isinstance(node, ast.ImportFrom):
                wanted = [node.module or "."]
            elif isinstance(node, ast.Import):
                wanted = [alias.name for alias in node.names]
            for name in wanted:
                if name.split(".")[0] not in LIBRARIES | sys.stdlib_module_names or "._" in name:
                    yield f"cell {i} imports {name}, which is not part of the course"


def trains_in_double(path, notebook):
    """Models that are trained are made in float64, so that every processor starts from the same weights."""
    set_ = False
    for i, cell in code_cells(notebook):
        set_ = set_ or re.search(r"^torch\.set_default_dtype\(torch\.float64\)", cell.source, re.MULTILINE)
        trains = any(
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "train"
            for node in ast.walk(python(cell.source))
        )
        if trains and not set_:
            yield (
                f"cell {i} trains what was made in float32: its first weights differ from processor to "
                "processor, whatever .double() does later; say torch.set_default_dtype(torch.float64) first"
            )


def mirrors_the_library(path, notebook):
    """Every mirrored cell is the library's own text, each definition whole."""
    for i, cell in code_cells(notebook):
        if re.match(r"#.*\blib/", cell.source) and not mirrored_file(cell.source):
            yield f"cell {i}: the first line of a mirrored cell reads `# lib/heed/<module>.py`"
        if mirrored_file(cell.source):
            try:
                if mirrored(cell.source) != cell.source:
                    yield f"cell {i} is not as the library: python book/chapters.py mirror"
            except ValueError as error:
                yield f"cell {i}: {error}"


# --- What a chapter must have besides -----------------------------------------------------------------------


def has_exercises(path, notebook):
    """A chapter has at least eight exercises, each in the fixed form."""
    return form_of_exercises(notebook, number(path), least=EXERCISES if number(path) else 0)


def tags_known_rows(path, notebook):
    """Tags for the course map name rows of the curriculum and stand on the right kind of cell."""
    known = {row["id"] for row in curriculum()}
    for cell in notebook.cells:
        for kind in PLACES:
            for row in tags(cell, kind):
                if row not in known:
                    yield f"the tag {kind}{row} names no row of the curriculum"
                if (cell.cell_type == "code") != (kind in ("runs:", "checks:")) and kind != "tries:":
                    yield f"the tag {kind}{row} stands on a {cell.cell_type} cell"
                if kind == "checks:" and not re.search(r"\bassert\b|assert_close|\bcheck\.", cell.source):
                    yield f"the tag {kind}{row} stands on a cell that asserts nothing"


def covers_its_rows(path, notebook):
    """Each row of the curriculum that belongs to the chapter is explained, run, checked and tried in it."""
    for row in curriculum():
        if row["chapter"] == number(path):
            has = {kind for kind in PLACES for cell in notebook.cells if row["id"] in tags(cell, kind)}
            open_ = [PLACES[kind] for kind in PLACES if kind not in has]
            if open_:
                yield f"row {row['id']} is not yet {', '.join(open_)}"


def defines_nothing_twice(path, notebook):
    """What the library defines, a chapter mirrors or imports; it does not define it again."""
    taught = {name for module in TAUGHT for name in public_names(module)}
    for i, cell in code_cells(notebook):
        if not mirrored_file(cell.source):
            again = [name for node in python(cell.source).body for name in names(node) if name in taught]
            for name in again:
                yield f"cell {i} defines {name}, which is a name of the library: mirror it or choose another"


def draws_the_map(path, notebook):
    """Chapter 00's map is as the tags of all chapters say now."""
    if number(path) == 0:
        try:
            if map_cell(notebook).source != course_map(notebooks(path.parent)):
                yield "the course map is not as the chapters say now: python book/chapters.py map"
        except ValueError as error:
            yield str(error)


# --- The form of a chapter ----------------------------------------------------------------------------------


def keeps_its_bounds(path, notebook):
    """The body is as short as BOUNDS say, and what it folds is at most half of what stands open."""
    body = minutes.count(minutes.parts(notebook)["body"])
    for what, bounds in BOUNDS.items():
        n, most = getattr(body, what), bounds[number(path) == ANNOTATED]
        if n > most:
            yield f"the body has {n:.0f} {what}, and {most} are the most"
    if 2 * body.folded > body.words:
        yield f"{body.folded} words are folded and {body.words} open; they may be half as many"


def fails_and_repairs(path, notebook):
    """A cell tagged `fails` shows the failure early, and one tagged `repaired` its repair soon after."""
    marks = minutes.count(minutes.parts(notebook)["body"]).marks
    if len(marks) < 2:
        yield f"cells are tagged `fails` and `repaired` where failure and repair are seen; found {[*marks]}"
        return
    (words, lines), (later, _) = marks["fails"], marks["repaired"]
    if words > TO_FAILURE[0] or lines > TO_FAILURE[1] or later - words > TO_REPAIR:
        yield f"the failure comes after {words} words, {lines} lines; its repair {later - words} words later"


def keeps_the_order(path, notebook):
    """Three or four numbered sections; What to remember, Exercises, Further, the laboratory, Sources."""
    n, titles = (
        number(path),
        [words for cell in notebook.cells for level, words in headings(cell) if level == 2],
    )
    count = sum(bool(re.match(rf"{n}\.\d ", title)) for title in titles)
    if not 3 <= count <= 4 or [title[:4] for title in titles[:count]] != [
        f"{n}.{i + 1} "[:4] for i in range(count)
    ]:
        yield f"the body has three or four sections, {n}.1 to {n}.4; found {titles[:count]}"
    wanted = [minutes.REMEMBER, minutes.EXERCISES, minutes.FURTHER, LABORATORY, minutes.SOURCES]
    if titles[count:] != [title for title in wanted if title in titles or title in wanted[::4] + wanted[1:2]]:
        yield f"closes with {titles[count:]}, and should close with {wanted}"
    for part, letter in ((minutes.FURTHER, "F"), (LABORATORY, "L")):
        cells = minutes.parts(notebook).get(part, [])
        names = [words.split(" · ")[0] for cell in cells for level, words in headings(cell) if level == 3]
        names = [name for name in names if not name.startswith("Exercise ")]
        if names != [f"{letter}{i + 1}" for i in range(len(names))]:
            yield f"the parts of {part!r} are headed `### {letter}1 · …`, and not {names}"


def shows_its_task_first(path, notebook):
    """A figure stands before the first section: a drawing of the task."""
    for cell in notebook.cells:
        if any(level == 2 for level, _ in headings(cell)):
            yield "no figure stands before the first section"
            return
        if pictures(cell) or (not is_code(cell) and minutes.IMAGE.search(cell.source)):
            return


def ends_its_sections(path, notebook):
    """Each section ends in a bold sentence of gain, which the list repeats, and folds its Conditions once."""
    section, last, gains, folds = None, "", [], 0
    for cell in [*minutes.parts(notebook)["body"], None]:
        title = cell is None or any(level == 2 for level, _ in headings(cell))
        if title and section:
            gain = re.search(r"\*\*([^*]+)\*\*$", last)
            gains += [gain[1]] if gain else []
            if not gain or folds > 1:
                yield f"section {section[:40]!r} ends in {last[-60:]!r}, with {folds} Conditions"
        if title and cell is not None:
            section, folds = cell.source.split("\n", 1)[0], 0
        if cell is not None and not is_code(cell):
            folds += len(re.findall(r"<summary>Conditions</summary>", cell.source))
            last = minutes.FOLD.sub("", cell.source).strip() or last
    listed = "\n".join(cell.source for cell in minutes.parts(notebook).get(minutes.REMEMBER, []))
    listed = [item.strip() for item in re.findall(r"^- (.*)$", listed, re.MULTILINE)]
    if listed != gains:
        yield f"What to remember lists {listed}, and the sections end in {gains}"


def answers_its_questions(path, notebook):
    """A Question has an answer that folds out before the next heading; until then outputs are folded."""
    asked = False
    for cell in notebook.cells:
        if is_code(cell):
            if asked and cell.get("outputs") and not hides_output(cell):
                yield f"the cell that begins {cell.source[:40]!r} shows its output: tag it hide-output"
            continue
        for piece in re.findall(
            r"^#{1,6} .*|> \*\*Question\.\*\*|<summary>Answer", cell.source, re.MULTILINE
        ):
            if asked and not piece.startswith("<"):
                yield f"no answer folds out before {piece[:40]!r}"
            asked = piece.startswith(">")


# --- The form of the tour -----------------------------------------------------------------------------------


def keeps_to_an_hour(path, notebook):
    """The tour is as short as OF_THE_TOUR says; it shows ideas, each in a few lines, and trains folded."""
    tour = minutes.count(notebook.cells)
    for what, most in OF_THE_TOUR.items():
        if getattr(tour, what) > most:
            yield f"the tour has {getattr(tour, what):.0f} {what}, and {most} are the most"
    if 2 * tour.folded > tour.words:
        yield f"{tour.folded} words are folded and {tour.words} open; they may be half as many"
    for i, cell in code_cells(notebook):
        n = minutes.count([cell]).lines
        if n > LONGEST_IDEA:
            yield f"cell {i} has {n} lines in the open, and {LONGEST_IDEA} are the most"


def stops_in_order(path, notebook):
    """Stops are numbered; each has a picture, an equation, open code, its number, a link to a chapter."""
    stops = []
    for cell in notebook.cells:
        for level, words in headings(cell):
            if level == 2:
                stops.append((words, []))
        if stops:
            stops[-1][1].append(cell)
    stops = [(words, cells) for words, cells in stops if words.startswith("Stop ")]
    if not 8 <= len(stops) <= 9 or [words.split(" · ")[0] for words, _ in stops] != [
        f"Stop {i + 1}" for i in range(len(stops))
    ]:
        yield f"the tour has eight or nine stops, `## Stop 1 · …`; found {[words for words, _ in stops]}"
    for words, cells in stops:
        has, sources = minutes.count(cells), [cell.source for cell in cells]
        wanted = {
            "picture": has.figures,
            "equation": has.equations,
            "code in the open": has.lines,
            "row on a scoreboard": any(".add(" in cell.source for cell in cells if is_code(cell)),
            "link to a chapter in its last lines": re.search(r"^→ .*\]\(\d\d_", sources[-1], re.MULTILINE),
        }
        for what in [what for what in wanted if not wanted[what]]:
            yield f"{words[:30]!r} has no {what}"
    told = "\n".join(cell.source for cell in notebook.cells if not is_code(cell))
    gains, _, closing = told.partition(f"## {minutes.REMEMBER}\n")
    gains = re.findall(r"^\*\*([^*]+)\*\*$", gains, re.MULTILINE)
    listed = re.findall(r"^- (.*)$", closing.split("\n## ")[0], re.MULTILINE)
    if listed != gains:
        yield f"What to remember lists {listed}, and the stops end in {gains}"


# --- What solutions must have besides -----------------------------------------------------------------------


def solves_every_exercise(path, notebook):
    """Every exercise of the chapter has its solution, and for code two wrong answers that are told apart."""
    chapter = path.parent.parent / path.name
    if not chapter.is_file():
        return [f"there is no chapter chapters/{path.name}"]
    return form_of_solutions(read(chapter), notebook)


# --- All of them --------------------------------------------------------------------------------------------

ANY = (
    is_run_in_order,
    is_not_cleared,
    runs_clean,
    varies_beside_an_assertion,
    outlines_what_varies,
    names_no_machine,
    draws_png,
    has_short_cells,
    fits_the_page,
    folds.names_its_folds,
    is_in_stored_form,
    opens_with_setup,
    describes_its_figures,
    links_to_files,
    keeps_the_style,
    imports_the_course,
    trains_in_double,
    mirrors_the_library,
)
CHAPTER = (
    folds.speaks_before_code,
    folds.says_what_held,
    has_exercises,
    tags_known_rows,
    covers_its_rows,
    defines_nothing_twice,
    draws_the_map,
)
FORM = (
    keeps_its_bounds,
    fails_and_repairs,
    keeps_the_order,
    shows_its_task_first,
    ends_its_sections,
    answers_its_questions,
    folds.asserts_once_in_the_open,
)
TOUR = (
    folds.speaks_before_code,
    folds.says_what_held,
    defines_nothing_twice,
    keeps_to_an_hour,
    stops_in_order,
    shows_its_task_first,
    answers_its_questions,
    folds.asserts_once_in_the_open,
)
SOLUTIONS = (solves_every_exercise,)


def rules(path):
    """The rules that hold for this notebook."""
    if is_solution(path):
        return ANY + SOLUTIONS
    if is_tour(path):
        return ANY + TOUR
    return ANY + CHAPTER + FORM * (number(path) > 0)


def complaints(path):
    """Everything the rules have to say about this notebook."""
    notebook = read(Path(path))
    return [f"{rule.__name__}: {line}" for rule in rules(path) for line in rule(path, notebook)]


# --- What holds between the chapters ------------------------------------------------------------------------


def public_names(module, root=ROOT):
    """The public names of a taught module."""
    return public((root / "lib" / "heed" / f"{module}.py").read_text(encoding="utf-8"))


def shows_the_library(paths, taught=TAUGHT, later=LATER, plumbing=PLUMBING, root=ROOT):
    """Complaints: each public name of a taught module is shown in a chapter, promised to one, or plumbing."""
    shown, chapters = set(), [path for path in paths if is_chapter(path)]
    for cell in (cell for path in chapters for cell in read(path).cells if is_code(cell)):
        file = mirrored_file(cell.source)
        for name in definitions(cell.source) if file else []:
            shown.add(f"{file.removeprefix('lib/heed/').removesuffix('.py').replace('/', '.')}.{name}")
    names = {f"{module.replace('/', '.')}.{name}" for module in taught for name in public_names(module, root)}
    for name in sorted(names - shown - {*later} - {*plumbing}):
        yield f"{name} is shown in no chapter, and LATER does not promise it to one"
    for name in sorted({*later, *plumbing} - names):
        yield f"{name} is promised or called plumbing, and the library has no such name"
    for name in sorted({*later} & (shown | {*plumbing})):
        yield f"{name} is promised to chapter {later[name]}, and shown already, or plumbing"
