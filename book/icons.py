"""The icons of the theme, without its fonts.

The theme loads all of Font Awesome twice: 1.6 MB of script and two fonts. The pages use some fifteen icons.
Here the outlines of these are taken from that script and written into the style sheet; the script goes.
"""

import re

SCRIPT = "_static/scripts/fontawesome.js"
ALWAYS = {"xmark"}  # the theme's own script makes it
KINDS = ("fa-solid", "fas", "fa-brands", "fab")  # classes that say which drawing of an icon is meant
NO_ICON = {"fa-solid", "fa-brands", "fa-fw", "fa-lg"}
RULES = """
/* The icons that the pages use, from Font Awesome Free, CC BY 4.0; `book/icons.py` has written this. */
:is(.fa-solid, .fas, .fa-brands, .fab) {
  font-family: inherit !important; /* a font is loaded where it is named, even without a letter */
}
:is(.fa-solid, .fas, .fa-brands, .fab)::before {
  background: currentColor;
  content: "" !important;
  display: inline-block;
  height: 1em;
  mask: var(--heed-icon) center / contain no-repeat;
  width: calc(var(--heed-icon-width) * 1em);
  vertical-align: -0.125em;
}
@media (forced-colors: active) {
  :is(.fa-solid, .fas, .fa-brands, .fab)::before {
    background: ButtonText;
    forced-color-adjust: none;
  }
}
"""


def without_script(head):
    """A page's head without the script that holds all icons."""
    return re.sub(
        r"\s*<!--\s*So that users can add custom icons\s*-->",
        "",
        re.sub(r'<script[^>]*src="[^"]*scripts/fontawesome\.js[^"]*"[^>]*></script>', "", head),
    )


def used(pages):
    """The names of the icons in all pages of an edition."""
    found = set(ALWAYS)
    for page in pages.glob("**/*.html"):
        for classes in re.findall(r'class="([^"]*\bfa[sb]?[ -][^"]*)"', page.read_text(encoding="utf-8")):
            found |= {name.removeprefix("fa-") for name in {*classes.split()} - NO_ICON if name[:3] == "fa-"}
    return sorted(found)


def outline(script, name):
    """An icon's width, height and path. Raises ValueError for one that the script does not have.

    The script holds brands, then outlined, then filled icons; the pages use no outlined ones.
    """
    form = rf'[{{,]"?{re.escape(name)}"?:\[(\d+),(\d+),\[[^\]]*\],"[0-9a-f]+","([^"]+)"\]'
    *_, found = re.findall(form, script) or [None]
    if not found:
        raise ValueError(f"{SCRIPT} draws no icon called {name!r}; see book/icons.py.")
    return int(found[0]), int(found[1]), found[2]


def keep_used(pages):
    """Write the icons in use into the style sheet of an edition, and take away the script and its map."""
    script = (pages / SCRIPT).read_text(encoding="utf-8")
    rules = [RULES]
    for name in used(pages):
        width, height, path = outline(script, name)
        picture = (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}'><path d='{path}'/></svg>"
        )
        picture = picture.replace("<", "%3C").replace(">", "%3E")
        rules.append(
            f'.fa-{name} {{\n  --heed-icon: url("data:image/svg+xml,{picture}");\n'
            f"  --heed-icon-width: {width / height:.4g};\n}}\n"
        )
    with (pages / "_static" / "heed.css").open("a", encoding="utf-8", newline="\n") as file:
        file.writelines(rules)
    for file in (pages / "_static").glob("**/*.map"):
        file.unlink()
    (pages / SCRIPT).unlink()
