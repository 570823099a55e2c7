"""A trained translator for a browser: its weights as a script, and the page that translates with them.

The forward pass is plain JavaScript (translator.js beside this file), the page around it is live.js and
live.css. A page that was opened from the disk may not fetch a file, but it may load a script: so the weights
are one.
"""

import base64
import json
from html import escape
from pathlib import Path

import numpy as np

from heed import bpe
from heed.recipe.export import check_exportable, to_numpy

KINDS = ("int8", "bfloat16", "float32")
LEAST = 4  # rows of a matrix: translator.js computes four at a time
LANGUAGES = {"German": "de", "English": "en"}


def script(translator, kind="int8"):
    """A translator as the text of a script, which sets `heedModel`.

    translator: as `heed.recipe.load_translator` returns it
    kind: how the matrices are stored: int8, with a scale a row; bfloat16; or float32

    Returns a string. Raises ValueError for another kind, and for a model that translator.js cannot compute.
    """
    if kind not in KINDS:
        raise ValueError(f"Matrices are stored as {', '.join(KINDS)}; got {kind!r}.")
    model, recipe = translator.model, translator.recipe
    check_exportable(model, "translator.js")
    tensors, data = laid_out(model, kind)
    attention = model.encoder.layers[0].self_attention
    given = {
        "kind": kind,
        "d_model": len(attention.W_q.bias),
        "n_heads": attention.n_heads,
        "norm": "pre" if hasattr(model.encoder.norm, "a") else "post",
        "eps": model.encoder.layers[0].sublayer[0].norm.eps,
        "longest": recipe.get("data", {}).get("longest", 256),
        "subwords": {
            "words": bpe.WORDS,
            "characters": translator.subwords.characters,
            "merges": translator.subwords.merges,
        },
        "tensors": tensors,
        "base64": base64.b64encode(data).decode(),
    }
    return f"globalThis.heedModel = {json.dumps(given, ensure_ascii=False, separators=(',', ':'))};\n"


def laid_out(model, kind):
    """The weights of a model, one after another.

    Returns a list of [name, place of the first byte, rows, columns], rows 0 for a vector, and the bytes. A
    matrix that several modules share is stored once, and named by each. Vectors are always float32.
    Raises ValueError for a matrix of less than four rows.
    """
    tensors, parts, places, at = [], [], {}, 0
    for name, tensor in model.state_dict(keep_vars=True).items():
        key = tensor.data_ptr()
        if key not in places:
            values = to_numpy(tensor)
            if values.shape[0] < LEAST:
                raise ValueError(f"{name} has {values.shape[0]} rows; translator.js needs {LEAST} or more.")
            part = stored(values, kind if values.ndim == 2 else "float32")
            part += bytes(-len(part) % 4)  # a float begins at a multiple of four bytes
            parts.append(part)
            places[key], at = at, at + len(part)
        rows, columns = ([0, *tensor.shape] if tensor.dim() == 1 else tensor.shape)[:2]
        tensors.append([name, places[key], rows, columns])
    return tensors, b"".join(parts)


def stored(values, kind):
    """An array of float32 as bytes of this kind, the least significant byte first."""
    if kind == "int8":
        scale, whole = rounded(values)
        return scale.astype("<f4").tobytes() + whole.tobytes()
    if kind == "bfloat16":  # round the lower half of the bits to the nearest, to an even one in the middle
        bits = values.view(np.uint32).astype(np.uint64)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").tobytes()
    return values.astype("<f4").tobytes()


def rounded(values):
    """A matrix as whole numbers from −127 to 127, and a scale for each row: values ≈ scale · whole.

    values: (n, d)

    Returns the scales, one a row, in float32, and the whole numbers, in int8.
    """
    scale = np.abs(values).max(axis=1, keepdims=True) / np.float32(127)
    scale[scale == 0] = 1  # a row of zeros
    return scale, np.rint(values / scale).astype(np.int8)


def part(address="", examples=(), languages=("source", "translation"), before=""):
    """The part of a page that translates: a field for a sentence, the translation, where the model looks.

    address: of the file that `script` is written into, as the page names it; "" if the page holds the script
    examples: sentences to choose from
    languages: what the two fields are called; the language itself, where it has a name, is marked as such
    before: what is said, as text, before the first key

    Returns HTML that needs nothing else but that file.
    """
    read, written = languages
    marks = [f' lang="{LANGUAGES[name]}"' if name in LANGUAGES else "" for name in languages]
    buttons = "".join(
        f'<button type="button" class="heed-example"{marks[0]}>{escape(text)}</button>' for text in examples
    )
    colours = _beside("../plot/explorer.css").replace(".heed-explorer", ".heed-translator")
    looks = colours + _beside("live.css")
    engine = json.dumps(_beside("translator.js"), ensure_ascii=False)
    return f"""<div class="heed-translator" role="group" aria-label="translator" \
data-weights="{escape(address)}">
<style>{looks}</style>
<noscript><p>Here stands a translator that needs JavaScript.</p></noscript>
<form hidden>
<label>{escape(read)}<textarea rows="2" autocomplete="off" spellcheck="false"{marks[0]}></textarea></label>
<div class="heed-controls"><button type="submit">Translate</button><label>search <select>\
<option value="1">greedy</option><option value="4">beam of four</option></select></label></div>
<div class="heed-controls" role="group" aria-label="examples">{buttons}</div>
<div>{escape(written)}</div>
<p class="heed-said"{marks[1]} dir="auto"></p>
<p class="heed-note">{escape(before)}</p>
<p class="heed-heard" aria-live="polite" aria-atomic="true"></p>
</form>
<script>
{{
const TRANSLATOR = {engine};
{_beside("live.js")}}}
</script>
</div>"""


def page(translator, title="A translator", sentence=""):
    """One HTML file that translates with a model of one's own, and needs nothing else: the model is inside.

    translator: as `heed.recipe.load_translator` returns it
    sentence: an example to begin with, or ""

    Returns a string. Raises ValueError as `script` does.
    """
    inside = script(translator).replace("<", "\\u003c")  # a sub-word may look like the end of a script
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<body class="heed-page">\n<h1>{escape(title)}</h1>\n'
        f"<script>{inside}</script>\n{part(examples=[sentence] if sentence else [])}\n"
    )


def _beside(name):
    """The text of a file beside this module."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
