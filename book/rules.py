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
import nbformat
import questions
from cells import LABORATORY, headings, hides_input, is_code, pictures, python, tags
from course_map import PLACES, course_map, curriculum, map_cell
from exercises import form_of_exercises, form_of_solutions
from mirrors import ANNOTATED, LATER, PLUMBING, TAUGHT, definitions, mirrored, mirrored_file, names, public
from notebooks import ROOT, SETUP, is_solution, normal, notebooks, number, read, text

LONGEST = 40  # lines of a code cell
USUAL = 8  # half of a chapter's open code cells are not longer
WIDTH = 80  # columns of a code cell: the page of the HTML edition holds them
SITTING = 60  # minutes to read a chapter
SECTIONS = 7  # numbered ones: from the failure, 3.0, to 3.6
CLOSING = ("What this does not show", "What to remember", "Sources", "Exercises")
FIGURES = 6
EXERCISES = 8
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
    """Code is at most eighty columns wide, so that no line of it scrolls sideways."""
    for i, cell in code_cells(notebook):
        for line in cell.source.splitlines():
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


def is_mostly_brief(path, notebook):
    """Half of the cells whose code stands open have at most eight lines, mirrored ones and stubs apart."""
    cells = [cell for _, cell in code_cells(notebook) if not mirrored_file(cell.source)]
    cells = [cell for cell in cells if not hides_input(cell) and "exercise" not in tags(cell)]
    lengths = [len(cell.source.splitlines()) for cell in cells]
    brief = sum(n <= USUAL for n in lengths)
    if 2 * brief < len(lengths):
        yield f"{brief} of {len(lengths)} open code cells have at most {USUAL} lines; it must be half of them"


def has_figures(path, notebook):
    """A chapter has at least six figures; the preface has as many as it likes."""
    drawn = sum(len(pictures(cell)) for _, cell in code_cells(notebook))
    if number(path) > 0 and drawn < FIGURES:
        yield f"{drawn} figures, and there must be at least {FIGURES}"


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


def is_read_in_an_hour(path, notebook):
    """A lesson is what one person reads in one sitting."""
    lesson = minutes.counted(notebook).lesson
    if lesson > SITTING:
        yield f"the lesson takes {lesson:.0f} minutes to read, and {SITTING} are the most"


def keeps_the_order(path, notebook):
    """Sections n.0 to n.6 at most, what they do not show, what to remember, sources, exercises, laboratory.

    The preface has no numbered sections; of the rest it has sources and exercises.
    """
    n, titles = number(path), [words for part, words in placed(notebook) if words == part]
    count = sum(bool(re.match(r"\d+\.\d+ ", words)) for words in titles)
    if n and [words.split()[0] for words in titles[:count]] != [f"{n}.{k}" for k in range(count)]:
        yield f"the numbered sections come first, {n}.0, {n}.1, …, and here they are {titles}"
    if n and not 2 <= count <= SECTIONS:
        yield f"{count} numbered sections; from 2 to {SECTIONS} they may be, {n}.0 to {n}.{SECTIONS - 1}"
    wanted = [*(CLOSING if n else CLOSING[2:]), *[LABORATORY] * (LABORATORY in titles)]
    closing = titles[count:] if n else titles[-len(wanted) :]
    if closing != wanted:
        yield f"closes with {closing}, and should close with {wanted}"


def keeps_its_places(path, notebook):
    """Exercises are gathered under their heading, and the laboratory's parts L1, L2, … under theirs."""
    parts = [(part, words) for part, words in placed(notebook) if re.match(r"L\d", words)]
    exercises = [(part, words) for part, words in placed(notebook) if words.startswith("Exercise ")]
    for home, found in (("Exercises", exercises), (LABORATORY, parts)):
        for part, words in found:
            if part != home:
                yield f"{words!r} stands in {part!r} and belongs in {home!r}"
    names = [words.split(" · ")[0] for _, words in parts]
    if names != [f"L{k + 1}" for k in range(len(names))]:
        yield f"the parts of the laboratory are headed `### L1 · …`, `### L2 · …`, and not {names}"


def placed(notebook):
    """Every heading below the title, with the section it stands in: itself, if it opens one."""
    part = None
    for cell in notebook.cells:
        for level, words in headings(cell):
            part = words if level == 2 else part
            if level > 1:
                yield part, words


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
    has_figures,
    has_exercises,
    tags_known_rows,
    covers_its_rows,
    defines_nothing_twice,
    draws_the_map,
)
FORM = (
    is_read_in_an_hour,
    keeps_the_order,
    keeps_its_places,
    is_mostly_brief,
    folds.asserts_once_in_the_open,
    folds.stands_without_its_folds,
    questions.keeps_its_questions,
)
SOLUTIONS = (solves_every_exercise,)


def rules(path):
    """The rules that hold for this notebook."""
    if is_solution(path):
        return ANY + SOLUTIONS
    return ANY + CHAPTER + FORM


def complaints(path):
    """Everything the rules have to say about this notebook."""
    notebook = read(Path(path))
    return [f"{rule.__name__}: {line}" for rule in rules(path) for line in rule(path, notebook)]


# --- What holds between the chapters ------------------------------------------------------------------------


def public_names(module, root=ROOT):
    """The public names of a taught module."""
    return public((root / "lib" / "heed" / f"{module}.py").read_text(encoding="utf-8"))


def shown_where(paths):
    """Where chapters show a definition: `module.name` -> a list of (file's name, folded?, text before)."""
    found = {}
    for path in paths:
        for before, cell in pairwise([nbformat.v4.new_markdown_cell(), *read(path).cells]):
            file = mirrored_file(cell.source) if is_code(cell) else None
            for name in definitions(cell.source) if file else []:
                module = file.removeprefix("lib/heed/").removesuffix(".py").replace("/", ".")
                prose = "" if is_code(before) else before.source
                found.setdefault(f"{module}.{name}", []).append((path.name, hides_input(cell), prose))
    return found


def shows_the_library(paths, taught=TAUGHT, later=LATER, plumbing=PLUMBING, root=ROOT):
    """Complaints: each public name of a taught module is shown first, in the open, in exactly one chapter.

    Or it is promised to a chapter, or is plumbing. Another chapter may show it again, folded, below a link to
    the first; the annotated Transformer also in the open.
    """
    chapters = [path for path in paths if not is_solution(path)]
    found, written = shown_where(chapters), {number(path) for path in chapters}
    everything = [f"{module}.{name}" for module in taught for name in public_names(module, root)]
    for full in everything:
        where = found.get(full, [])
        if full in plumbing:
            for file in [file for file, folded, _ in where if not folded]:
                yield f"{full} is plumbing, and {file} shows it in the open: link to it, or fold the cell"
        elif full in later:
            if later[full] in written or any(int(file[:2]) != ANNOTATED for file, _, _ in where):
                yield f"{full} is promised to chapter {later[full]}, which is written, or is mirrored already"
        elif not where:
            yield f"{full} is mirrored in no chapter, and LATER does not promise it to one"
        else:
            yield from shown_again(full, *where)
    for full in {*later, *plumbing} - {*everything}:
        promise = f"promised to chapter {later[full]}" if full in later else "called plumbing"
        yield f"{full} is {promise}, and the library has no such name"
    for full in {*later} & {*plumbing}:
        yield f"{full} is plumbing and promised to chapter {later[full]}"


def shown_again(full, first, *others):
    """Complaints about the places that show one name: (file's name, folded?, text before), in order."""
    home, folded, _ = first
    if folded and int(home[:2]) != ANNOTATED:  # it builds the same in the open, in fewer lines
        yield f"{full} is shown first in {home}, and folded there"
    for file, folded, before in others:
        if file == home:
            yield f"{full} is mirrored twice in {home}"
        elif not folded and int(file[:2]) != ANNOTATED:
            yield f"{full} is shown again in {file}, in the open: tag the cell hide-input; {home} teaches it"
        elif f"]({home}" not in before:
            yield f"{full} is shown again in {file}, and the text before does not link to {home}"
