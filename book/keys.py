"""The page of the HTML edition that says what may stand in a recipe; its words are the library's."""

from itertools import groupby

from heed.recipe import reference

PAGE = """\
# The keys of a recipe

What `python -m heed train` reads, in TOML; `python -m heed keys` prints it. `--set training.lr=0.01` changes
a value for one training. A key marked † may have another value when a training is resumed.
"""
HEAD = "| key | without it | may be | meaning |\n| --- | --- | --- | --- |"


def page():
    """The page as Markdown: a table for each section."""
    parts = [PAGE]
    for section, keys in groupby(reference(), key=lambda key: key[0]):
        rows = (
            f"| `{name}`{' †' * free} | {f'`{default}`' if default else ''} | {wanted} | {meaning} |"
            for _, name, default, wanted, meaning, free in keys
        )
        parts.append("\n".join([f"## [{section}]\n", HEAD, *rows, ""]))
    return "\n".join(parts)
