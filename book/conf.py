"""Sphinx's configuration of the HTML edition; `build.py` calls it.

The chapters are read as their authors stored them. What the edition adds, it adds while reading: the
alternative text of figures, a line to open above whatever is folded, a name above each mirrored cell,
links into the repository.
"""

import html
import importlib.metadata
import json
import re
import sys
import tomllib
from itertools import count
from pathlib import Path

from docutils import nodes
from ipython_pygments_lexers import IPythonLexer
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform

sys.path.insert(0, str(Path(__file__).parent))
import around
import icons
import opening
import translating

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REPOSITORY, BRANCH = PROJECT["urls"]["Repository"], "main"
SITE = re.sub(r"https://github\.com/([^/]+)/(.+)", r"https://\1.github.io/\2/", REPOSITORY)


def mathjax():
    """The one file that draws formulas without a network: MathJax 3, from the package that carries it."""
    files = importlib.metadata.files("sphinx-mathjax-offline")
    return str(next(file for file in files if file.name == "tex-svg-full.js").locate())


project = "Heed"
author = "The Heed authors"
copyright = "The Heed authors. Code: MIT. Text and figures: CC BY 4.0"
language = "en"
release = PROJECT["version"]

extensions = ["myst_nb", "sphinx_copybutton"]
root_doc = "index"
include_patterns = ["*.md", "chapters/*.ipynb", "chapters/solutions/*.ipynb"]
exclude_patterns = ["README.md"]
nb_execution_mode = "off"
nb_merge_streams = True
nb_ipywidgets_js = {}
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # an exercise is a third-level heading wherever it stands
copybutton_selector = "div.cell_input div.highlight pre"

mathjax_path = "tex-svg-full.js"
mathjax3_config = {
    "options": {"enableMenu": False},
    "tex": {"packages": {"[-]": ["noundefined"]}},  # an unknown command is an error, not red letters
    "svg": {"scale": 0.95},
}

html_theme = "sphinx_book_theme"
html_title = "Heed"
html_baseurl = SITE  # a shared link needs the whole address of its picture
templates_path = ["_templates"]
html_static_path = ["_static", mathjax()]
html_css_files = ["heed.css"]
html_js_files = ["heed.js"]
html_context = {"default_mode": "auto"}  # without it the theme logs an error on a first visit
html_theme_options = {
    "repository_url": REPOSITORY,
    "repository_branch": BRANCH,
    "path_to_docs": "",
    "use_repository_button": True,
    "use_issues_button": True,
    "launch_buttons": {
        "binderhub_url": "https://mybinder.org",
        "colab_url": "https://colab.research.google.com",
        "notebook_interface": "jupyterlab",
    },
    "footer_content_items": ["copyright.html"],
    "navbar_persistent": [],
    "max_navbar_depth": 1,  # one entry for all solutions
    "pygments_light_style": "github-light",
    "pygments_dark_style": "github-dark",
    "search_bar_text": "Search the book",
}


def prepare(app, docname, source):
    """Mark the cells of a notebook for the page, between the file and the parser. The file stays as it is."""
    if app.env.doc2path(docname).suffix != ".ipynb":
        return
    notebook = json.loads(source[0])
    cells = notebook["cells"]
    translating.add_to_chapter(cells, docname, Path(app.srcdir))
    if "setup" in cells[0]["metadata"].get("tags", []):
        cells.insert(1, cells.pop(0))  # a page begins with its title
    for cell in cells:
        text, metadata = "".join(cell["source"]), cell["metadata"]
        tags = metadata.setdefault("tags", [])
        if cell["cell_type"] == "markdown":
            cell["source"] = link_to_repository(text, docname)
        if "alt" in metadata:
            metadata["mystnb"] = {"image": {"alt": metadata["alt"]}}
        if cell["cell_type"] == "code":
            tags += ["hide-input"] * ("setup" in tags) + ["mirrored"] * text.startswith("# lib/heed/")
            metadata["folds"] = {"hide-input": name_of_input(text, tags), "hide-output": name_of_output(cell)}
    source[0] = json.dumps(notebook)


def link_to_repository(text, docname):
    """Lead a link that leaves the book (`../lib/heed/attention.py`) to the repository."""

    def redirect(match):
        steps = list(Path(docname).parent.parts)
        for step in match["path"].split("/"):
            steps = steps[:-1] if step == ".." else [*steps, step]
        inside = steps[0] in ("chapters", "assets")
        return match[0] if inside else f"]({REPOSITORY}/blob/{BRANCH}/{'/'.join(steps)})"

    return re.sub(r"\]\((?P<path>\.\./[^)\s]+)\)", redirect, text)


def name_of_input(text, tags):
    """What the line of a folded input says: the name in the author's first comment.

    text: the cell
    tags: its tags

    A mirrored cell's comment is the name of a file; what the cell defines is added to it.
    """
    if "setup" in tags:
        return "Set-up"
    first = text.partition("\n")[0]
    comment = first.lstrip("# ").rstrip() if first.startswith("#") else ""
    if "mirrored" in tags:
        defined = re.findall(r"^(?:class|def) (\w+)", text, re.MULTILINE)
        return " · ".join([comment, ", ".join(defined)] if defined else [comment])
    return comment or "Show the code"


def name_of_output(cell):
    """What the line of a folded output says: what there is to be seen, and nothing of what it shows."""
    figures = sum("image/png" in output.get("data", {}) for output in cell["outputs"])
    if figures:
        return "Show the figure" if figures == 1 else "Show the figures"
    return "Show the output"


class FoldCells(SphinxTransform):
    """Put a folded input, a folded output, or each of the two, behind a line to open.

    myst-nb folds as well, and has one wording for all; it finds nothing left to fold.
    """

    default_priority = 510  # the name of a mirrored cell is folded with it

    def apply(self):
        for cell in list(self.document.findall(nodes.container)):
            if cell.get("nb_element") != "cell_code" or not cell.attributes.pop("hide_mode", None):
                continue
            shown = {"hide-input": [], "hide-output": []}
            for child in cell.children:
                printed = "cell_output" in child["classes"]
                shown["hide-output" if printed else "hide-input"].append(child)
            metadata = cell["cell_metadata"]
            cell.children = []
            for tag, children in shown.items():
                folded = children and tag in metadata["tags"]
                cell += fold(metadata["folds"][tag], children, f"fold {tag}") if folded else children


def fold(name, children, classes):
    """A line to open, with what it hides below it."""
    begin = f'<details class="{classes}"><summary>{html.escape(name)}</summary>'
    return [nodes.raw("", begin, format="html"), *children, nodes.raw("", "</details>", format="html")]


class NameMirroredCells(SphinxTransform):
    """Write above a mirrored cell which file of the library it shows, as a link to that file."""

    default_priority = 500

    def apply(self):
        for cell in list(self.document.findall(nodes.container)):
            if "tag_mirrored" in cell["classes"]:
                path = cell.astext().splitlines()[0].removeprefix("# ").strip()
                link = nodes.reference("", path, refuri=f"{REPOSITORY}/blob/{BRANCH}/{path}")
                cell.insert(0, nodes.paragraph("", "From the library: ", link, classes=["mirrored-name"]))


class SetApartExerciseKind(SphinxTransform):
    """In `Exercise 3.4 · code · ●●○ · 10 min`, set what follows the number in smaller letters."""

    default_priority = 500

    def apply(self):
        for section in self.document.findall(nodes.section):
            title = section[0]
            if match := re.match(r"(Exercise \d+\.\d+)( · .*)", title.astext()):
                title.children = []
                title += [nodes.Text(match[1]), nodes.inline("", match[2], classes=["exercise-kind"])]


class NameFiguresAndEquations(SphinxPostTransform):
    r"""Give each figure and each displayed equation of a chapter an address, and a link that shows it.

    An equation has the name in its `\tag`: `equation-8-3`. A figure has the number of its place on the page,
    `figure-8-3`, and so has an equation without a tag, `equation-4-untagged-1`.
    """

    default_priority = 890  # after the pictures are chosen, before formulas are rewritten
    formats = ("html",)

    def run(self):
        number = around.CHAPTER.fullmatch(self.env.docname)
        if not number:
            return
        number = "tour" if number[1] == Path(opening.TOUR).stem else int(number[1][:2])
        figures, untagged = count(1), count(1)
        for node in [*self.document.findall(lambda node: isinstance(node, nodes.image | nodes.math_block))]:
            if isinstance(node, nodes.image):
                kind, name = "figure", f"{number}.{next(figures)}"
            else:
                tag = re.search(r"\\tag\{(.+?)\}", node.astext())
                kind, name = "equation", tag[1] if tag else f"{number}.untagged-{next(untagged)}"
            address = re.sub(r"[^0-9A-Za-z]+", "-", f"{kind}-{name}")
            inline = isinstance(node.parent, nodes.TextElement)
            element = "span" if inline or kind == "figure" else "div"
            link = (
                f'<a class="heed-link" href="#{address}" aria-label="Link to {kind} {html.escape(name)}" '
                f'title="Link to this {kind}"></a>'
            )
            begin = nodes.raw("", f'<{element} class="heed-named" id="{address}">', format="html")
            end = nodes.raw("", f"{link}</{element}>", format="html")
            at = node.parent.index(node)
            node.parent[at : at + 1] = [begin, node, end]


class FormulasAsWritten(SphinxPostTransform):
    r"""Hand display formulas to MathJax as written: Sphinx wraps `\\` in `split`, which forbids `\tag`."""

    default_priority = 900
    formats = ("html",)

    def run(self):
        for formula in self.document.findall(nodes.math_block):
            formula["no-wrap"] = True
            formula.children = [nodes.Text(rf"\[{formula.astext()}\]")]


def name_filters(app):
    """Give the templates what they filter a page's head with."""
    app.builder.templates.environment.filters["without_icon_script"] = icons.without_script


def setup(app):
    """Register what is above."""
    app.add_lexer("python", IPythonLexer)  # a cell may hold magics and commands of the shell
    app.connect("source-read", prepare)
    app.connect("html-page-context", around.add)
    app.connect("builder-inited", name_filters)
    app.add_transform(NameMirroredCells)
    app.add_transform(FoldCells)
    app.add_transform(SetApartExerciseKind)
    app.add_post_transform(NameFiguresAndEquations)
    app.add_post_transform(FormulasAsWritten)
