"""Chapter 14's translator on the pages of the HTML edition: the opening page and the chapter translate.

Its weights are made from the committed ones when the book is built, and lie beside the pages as a script that
a page loads at the first key. A book without that model has pages without a translator.
"""

import json
from pathlib import Path

FOLDER = Path("assets", "14_a_real_translator")
CHAPTER = "chapters/14_a_real_translator"
BEFORE = ("## What ", "## Exercises")  # the translator stands before the first that the chapter has
SCRIPT = "_static/heed-model.js"
EXAMPLES = (
    "Ein Hund läuft durch den Schnee.",
    "Zwei Kinder in roten Jacken spielen am Strand.",
    "Eine alte Frau verkauft Blumen auf dem Markt.",
)
BEFORE_THE_FIRST_KEY = "With the first key this page loads the model, {size} MB. What you write stays here."


def there(root):
    """Whether the book in this folder has the model."""
    return (root / FOLDER / "model" / "model.safetensors").is_file()


def write_model(root, pages):
    """Make the script with the weights, for the pages in a folder."""
    if there(root):
        from heed import recipe
        from heed.recipe import live

        translator = recipe.load_translator(root / FOLDER / "model")
        (pages / SCRIPT).write_text(live.script(translator), encoding="utf-8", newline="\n")


def part(docname):
    """The translator as HTML, for the page of this name."""
    from heed.recipe import live

    address = "../" * docname.count("/") + SCRIPT
    said = BEFORE_THE_FIRST_KEY.format(size=f"{logged(Path(__file__).parents[1])['bytes'] / 1e6:.1f}")
    html = live.part(address, EXAMPLES, ("German", "English"), said)
    return f'````````{{raw}} html\n<div class="heed-live">{html}</div>\n````````'


def logged(root):
    """What browser.py has measured."""
    return json.loads((root / FOLDER / "browser.json").read_text(encoding="utf-8"))


def section(root):
    """The opening page's section in Markdown; nothing where there is no model."""
    if not there(root):
        return ""
    log = logged(root)
    here, before = log["kinds"]["int8"]["greedy"], log["python"]["greedy"]
    return f"""## Write a sentence in German

This is the translator of [chapter 14]({CHAPTER}.ipynb), and it runs in your browser. It has learned for
ten minutes, on two processor cores, from 29,000 captions of photographs: people, dogs, streets, sports. Of
anything else it knows little.

{part("index")}

The table shows at which sub-words of the source each token looks while it is written. The weights are
rounded to eight bits here. Of {log["sentences"]:,} test captions, {here["same"]:,} are translated as without
the rounding; BLEU is {here["bleu"]:.1f}, and {before["bleu"]:.1f} without."""


def add_to_chapter(cells, docname, root):
    """Put the translator into the cells of chapter 14, where the section ends that shows where it looks."""
    if docname != CHAPTER or not there(root):
        return
    heads = ["".join(cell["source"]) for cell in cells]
    at = next((i for i, head in enumerate(heads) if head.startswith(BEFORE)), None)
    if at is None:
        raise ValueError(
            f"{CHAPTER} has none of the sections {BEFORE}, before which the translator could stand."
        )
    text = (
        "**On this page the model is at work.** Write a caption in German, and see where each head looks "
        f"while it writes.\n\n{part(docname)}"
    )
    cells.insert(at, {"cell_type": "markdown", "id": "translator", "metadata": {}, "source": text})
