"""The translator in the browser: the weights as they are stored, the JavaScript beside Python, the page."""

import base64
import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from javascript import CODE, ask
from test_export import untrained

from heed import recipe
from heed.attention import record
from heed.decode import beam, greedy, upto_end
from heed.evaluate import bleu
from heed.recipe import live
from heed.text import BOS, EOS, PAD
from heed.transformer import make_language_model, make_model

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "assets" / "14_a_real_translator"
LINES = [
    "Ein Hund läuft durch den Schnee.",
    "Zwei Kinder spielen Fußball.",
    "Eine Frau in Rot steht am Ufer.",
    "Ein Mann in einem blauen Hemd steht auf einer Leiter und putzt ein Fenster.",
]
STRANGE = [
    "", " ", "  \t\n ", "Дом", "日本語の文", "🙂🐕", "e\u0301\u0308", "\ud800 Hund", "<eos>", "<0x41>",
    "\x00\x1c\x85\ufeff\u2028 a", "a\u00a0b\u3000c", "3½ ² ⅷ", "AAAAAAAA" * 9, "'s – „x“ ... !!",
    "שלום עולם", "ß" * 40, "ǅ ª ‿ _ ^ ` $",
]  # fmt: skip


@pytest.fixture(scope="module")
def course():
    """The course's model."""
    return recipe.load_translator(FOLDER / "model")


@pytest.fixture(scope="module")
def captions():
    """Multi30k's test captions, and what they mean."""
    try:
        pairs = recipe.sentences({"data": {"test": "multi30k"}}, "test")
    except (OSError, ValueError) as error:
        pytest.skip(f"the captions are not here: {error}")
    return [list(side) for side in zip(*pairs, strict=True)]


def read(script):
    """What a script hands to the page."""
    return json.loads(re.fullmatch(r"globalThis\.heedModel = (.*);\n", script)[1])


def tensors(given):
    """The tensors of a script by name, as float32: written from the format's description alone."""
    data, found = base64.b64decode(given["base64"]), {}
    for name, at, rows, columns in given["tensors"]:
        n = max(rows, 1) * columns
        kind = given["kind"] if rows else "float32"
        if kind == "int8":
            scale = np.frombuffer(data, "<f4", rows, at)[:, None]
            values = scale * np.frombuffer(data, "i1", n, at + 4 * rows).reshape(rows, columns)
        elif kind == "bfloat16":
            values = (np.frombuffer(data, "<u2", n, at).astype("<u4") << 16).view("<f4")
        else:
            values = np.frombuffer(data, "<f4", n, at)
        found[name] = torch.tensor(values.reshape((rows, columns) if rows else columns).copy())
    return found


# --- The weights --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind, room", [("float32", 0.0), ("bfloat16", 2**-8), ("int8", 1 / 254)])
def test_the_weights_can_be_read_back(kind, room):
    model = untrained().model
    found = tensors(read(live.script(untrained(), kind)))
    assert found.keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        if tensor.dim() == 1 or kind == "float32":
            assert torch.equal(found[name], tensor), name
        elif kind == "bfloat16":
            assert torch.equal(found[name], tensor.bfloat16().float()), name
        else:
            most = tensor.abs().amax(dim=1, keepdim=True)  # a step of 1/127 of it is rounded by half at most
            assert ((found[name] - tensor).abs() <= room * most * 1.001).all(), name
            assert (found[name] - tensor).abs().max() > 0


def test_the_stored_model_is_rounded_in_eight_bits_and_kept_whole_in_sixteen(course):
    exact = tensors(read(live.script(course, "bfloat16")))
    for name, tensor in course.model.state_dict().items():
        assert torch.equal(exact[name], tensor), name
    script = live.script(course)
    assert len(script) < 7.7e6
    rounded = recipe.load_translator(FOLDER / "model")
    rounded.model.load_state_dict(tensors(read(script)))
    assert rounded.translate(LINES) == course.translate(LINES)


def test_a_matrix_that_modules_share_is_stored_once(course):
    places = {name: at for name, at, _, _ in read(live.script(course))["tensors"]}
    shared = ["source_embed.0.embedding.weight", "target_embed.0.embedding.weight", "generator.proj.weight"]
    assert len({places[name] for name in shared}) == 1
    assert len(set(places.values())) == len(places) - 2


def test_a_row_of_zeros_stays_zero():
    values = np.array([[0, 0], [0, -3.0], [2.54, 0.02]], dtype=np.float32)
    scale, whole = live.rounded(values)
    assert whole.tolist() == [[0, 0], [0, -127], [127, 1]] and whole.dtype == np.int8
    assert np.allclose(scale * whole, values) and scale.shape == (3, 1)


def test_what_the_script_cannot_compute_is_refused():
    with pytest.raises(ValueError, match=r"stored as int8, bfloat16, float32; got 'int4'"):
        live.script(untrained(), "int4")
    narrow = untrained()._replace(model=make_model(9, 9, 1, 8, 3, 2))
    with pytest.raises(ValueError, match=r"W_1\.weight has 3 rows; translator\.js needs 4"):
        live.script(narrow)
    other = untrained()._replace(model=make_language_model(9, 1, 8, 8, 2))
    with pytest.raises(ValueError, match=r"is a LanguageModel, and translator\.js would"):
        live.script(other)


# --- JavaScript beside Python -------------------------------------------------------------------------------


def by_python(translator, text, width):
    """The ids that Python writes."""
    search = greedy if width == 1 else partial(beam, width=width)
    (ids,) = search(translator.model, torch.tensor([translator.subwords.encode(text)]))
    return ids


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("seed", [0, 1])
def test_an_untrained_model_writes_what_python_writes(request, tmp_path, norm, seed):
    translator = untrained(norm, seed)
    translator.model.generator.proj.bias.data[[PAD, BOS]] = 50.0  # never written all the same
    texts = LINES + [text for text in STRANGE if text.strip() and "\ud800" not in text][:6]
    sources = [translator.subwords.encode(text) for text in texts]
    wanted = f"{json.dumps(sources)}.map(ids => [1, 2, 4].map(width => searched(ids, width).ids))"
    found = ask(request, tmp_path, live.script(translator, "float32"), wanted)
    for text, row in zip(texts, found, strict=True):
        for width, ids in zip((1, 2, 4), row, strict=True):
            assert upto_end(ids) == by_python(translator, text, width), (text, width)
    assert len({tuple(row[0]) for row in found}) > 3


def test_a_translation_that_never_ends_is_cut_where_pythons_is(request, tmp_path):
    translator = untrained()
    translator.model.generator.proj.bias.data[EOS] = -1e4
    script = live.script(translator, "float32")
    found = ask(request, tmp_path, script, f"[1, 3].map(width => searched({[5, 6, 7]}, width).ids)")
    assert [len(ids) for ids in found] == [16, 16]
    for width, ids in zip((1, 3), found, strict=True):
        search = greedy if width == 1 else partial(beam, width=width)
        assert [ids] == search(translator.model, torch.tensor([[5, 6, 7]]))


def test_hypotheses_end_where_pythons_do(request, tmp_path):
    translator = untrained()
    translator.model.generator.proj.bias.data[EOS] += 4.0  # an end is likely, at once or some tokens later
    sources = [[7, 260, 261], [9, 280], [265, 270, 11, 262], [5], [30, 31, 290]]
    wanted = f"{json.dumps(sources)}.map(ids => [2, 3, 4].map(width => searched(ids, width).ids))"
    found = ask(request, tmp_path, live.script(translator, "float32"), wanted)
    for source, row in zip(sources, found, strict=True):
        for width, ids in zip((2, 3, 4), row, strict=True):
            assert ids[-1] == EOS
            assert [upto_end(ids)] == beam(translator.model, torch.tensor([source]), width=width)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_logits_and_attention_are_pythons(request, tmp_path, norm):
    """Every number, not only the largest: a wrong scale of one head may leave the words as they are."""
    translator = untrained(norm)
    model, source, said = translator.model, [7, 260, 261, 270, 265], [9, 280, 11]
    script = f"""(() => {{
      const memory = translator.encode({source}), steps = [];
      let hypothesis = {{ ids: [], cache: [] }};
      for (const id of {[*said, 0]}) {{
        const [{{ logits, cache, looked }}] = translator.read([hypothesis], memory);
        const finite = [...logits].map(x => Number.isFinite(x) ? x : null);
        steps.push([finite, looked.map(weights => [...weights])]);
        hypothesis = {{ ids: [...hypothesis.ids, id], cache }};
      }}
      return steps;
    }})()"""
    steps = ask(request, tmp_path, live.script(translator, "float32"), script)
    with torch.no_grad(), record(model) as maps:
        x = model(torch.tensor([source]), torch.tensor([[BOS, *said]]))
        logits = model.generator.proj(x)[0]
    looked = [weights[-1][0] for name, weights in maps.items() if "source_attention" in name]
    for n, (row, weights) in enumerate(steps):
        assert row[PAD] is None and row[BOS] is None
        assert torch.allclose(torch.tensor(row[2:]), logits[n, 2:], atol=1e-4)
        for layer, found in enumerate(weights):
            wanted = looked[layer][:, n].flatten()
            assert torch.allclose(torch.tensor(found), wanted, atol=1e-5)


def test_texts_are_cut_and_joined_as_the_vocabulary_does(request, tmp_path, course):
    texts = [*LINES, *STRANGE]
    ids = [course.subwords.encode(text) for text in texts]
    torn = [
        [4 + 0xC3, 4 + 0xA4, 300],
        [4 + 0xF0, 4 + 0x9F, 300],
        [4 + 0xFF] * 3,
        [4 + 0xEF, 4 + 0xBB, 4 + 0xBF, 300],
    ]
    script = live.script(untrained()._replace(subwords=course.subwords), "int8")
    wanted = (
        f"[{json.dumps(texts)}.map(text => subwords.encode(text)), "
        f"{ids + torn}.map(ids => subwords.decode(ids)), "
        f"{ids}.map(ids => subwords.labels(ids)), subwords.tokens]"
    )
    cut, joined, labels, tokens = ask(request, tmp_path, script, wanted)
    assert cut == ids and tokens == course.subwords.tokens
    assert joined == [course.subwords.decode(row) for row in ids + torn]
    assert labels == [course.subwords.labels(row) for row in ids]


def test_the_courses_model_says_the_same(request, tmp_path, course):
    script = live.script(course, "bfloat16")  # in which its weights are stored, and nothing is rounded
    wanted = f"{json.dumps(LINES)}.map(text => [said(text, 1), said(text, 4)])"
    found = ask(request, tmp_path, script, wanted)
    ours = zip(course.translate(LINES), course.translate(LINES, partial(beam, width=4)), strict=True)
    assert found == [list(pair) for pair in ours]


def test_the_pages_quote_what_was_measured(course):
    log = json.loads((FOLDER / "browser.json").read_text(encoding="utf-8"))
    assert log["sentences"] == log["kinds"]["float32"]["greedy"]["same"] == 1000
    assert log["bytes"] == len(live.script(course).encode())
    assert abs(log["kinds"]["int8"]["greedy"]["bleu"] - log["python"]["greedy"]["bleu"]) < 0.3


def test_the_forward_pass_can_be_read():
    assert len(CODE.splitlines()) <= 300 and max(map(len, CODE.splitlines())) <= 120


@pytest.mark.soak
def test_all_captions(request, tmp_path, course, captions):
    """Without rounding all are Python's; in eight bits as many as the log says, and as good."""
    sources, references = captions
    log = json.loads((FOLDER / "browser.json").read_text(encoding="utf-8"))
    ours = course.translate(sources)
    for kind, name in (("bfloat16", "float32"), ("int8", "int8")):
        wanted = f"{json.dumps(sources)}.map(text => said(text, 1))"
        found = ask(request, tmp_path, live.script(course, kind), wanted)
        same = sum(a == b for a, b in zip(ours, found, strict=True))
        measured = log["kinds"][name]["greedy"]
        assert abs(same - measured["same"]) <= 3  # equally probable tokens
        assert bleu(found, references).value == pytest.approx(measured["bleu"], abs=0.1)


# --- Planted bugs -------------------------------------------------------------------------------------------

BUGS = {
    "scores not divided": ("score / Math.sqrt(d_k)", "score"),
    "scores divided by √d_model": ("score / Math.sqrt(d_k)", "score / Math.sqrt(d_model)"),
    "embeddings not multiplied": ("* Math.sqrt(d_model) + code", "+ code"),
    "every token at position 0": ("() => n);", "() => 0);"),
    "one position late": ("() => n);", "() => n + 1);"),
    "a cache that forgets": ("stack([before_k, k[i]])", "stack([k[i]])"),
    "a cache of other values": ("stack([before_v, v[i]])", "stack([v[i], before_v])"),
    "padding and the start are written": ("row[PAD] = row[BOS] = -Infinity", "row[PAD] += 0"),
    "all heads are the first": ("first = h * d_k", "first = 0"),
    "no norm at the end": ("return norm ? layerNorm(norm, x, this.eps) : x", "return x"),
    "the variance of a sample": ("- mean) ** 2 / d_model", "- mean) ** 2 / (d_model - 1)"),
    "a linear feed-forward network": (".map(each => Math.max(0, each))", ""),
    "the memory before its norm": ("const memory = this.last(this.weights.encoder, x)", "const memory = x"),
    "sine and cosine exchanged": ("c % 2 ? Math.cos(angle)", "c % 2 === 0 ? Math.cos(angle)"),
}  # fmt: skip


@pytest.mark.parametrize("old, new", BUGS.values(), ids=BUGS.keys())
def test_a_planted_bug_is_found(request, tmp_path, old, new, monkeypatch):
    assert CODE.count(old) == 1
    monkeypatch.setattr("test_live.ask", partial(ask, code=CODE.replace(old, new)))
    with pytest.raises(AssertionError):
        test_logits_and_attention_are_pythons(request, tmp_path, "pre")


SEARCH_BUGS = {
    "no length penalty": ("((5 + n) / 6) ** alpha", "1"),
    "the first that ends": ("hope <= best", "answer"),
    "the probabilities of a step alone": ("log_p: log_p + log_p_id", "log_p: log_p_id"),
    "a step that is not normalised": ("logit - most - Math.log(sum)", "logit"),
}


@pytest.mark.parametrize("old, new", SEARCH_BUGS.values(), ids=SEARCH_BUGS.keys())
def test_a_planted_bug_of_the_search_is_found(request, tmp_path, old, new, monkeypatch):
    assert CODE.count(old) == 1
    monkeypatch.setattr("test_live.ask", partial(ask, code=CODE.replace(old, new)))
    with pytest.raises(AssertionError):
        test_hypotheses_end_where_pythons_do(request, tmp_path)


SCALES = {
    "one scale for all rows": ("scale[Math.floor(i / n_columns)]", "scale[0]"),
    "the scale of a column": ("scale[Math.floor(i / n_columns)]", "scale[i % n_columns % n_rows]"),
    "no scale": ("whole[i] * scale[Math.floor(i / n_columns)]", "whole[i] / 127"),
}


@pytest.mark.parametrize("old, new", [("", ""), *SCALES.values()], ids=["sound", *SCALES])
def test_eight_bits_are_read_with_the_scale_of_their_row(request, tmp_path, old, new):
    translator = untrained()
    script = live.script(translator)
    wanted = "[...translator.weights.generator.proj.weight]"
    found = torch.tensor(ask(request, tmp_path, script, wanted, CODE.replace(old, new) if old else CODE))
    close = torch.allclose(found, tensors(read(script))["generator.proj.weight"].flatten(), atol=1e-6)
    assert close == (not old)
