"""A translator exported for CTranslate2 says what ours says; what the engine cannot run is refused."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from heed import recipe
from heed.__main__ import main
from heed.decode import greedy
from heed.layers import PositionwiseFeedForward, RMSNorm, SublayerConnection
from heed.position import LearnedPosition
from heed.recipe.export import (
    KINDS,
    Difference,
    Exported,
    check_exportable,
    compare,
    export,
    log_odds,
    specification,
    spelled,
    tokenizer,
)
from heed.text import BOS, BYTES, EOS, PAD, Subwords
from heed.transformer import make_language_model, make_model

pytest.importorskip("ctranslate2")

LINES = [
    "Ein Hund läuft durch den Schnee.",
    "Zwei Kinder spielen Fußball.",
    "Eine Frau in Rot steht am Ufer.",
    "  ",
    "Дом 🙂 ist kein deutsches Wort.",
]
MODEL = Path(__file__).parents[1] / "assets" / "14_a_real_translator" / "model"
V, N_LAYERS, D_MODEL, D_FF, H = 300, 2, 24, 17, 3


def untrained(norm="pre", seed=0, scale=3.0):
    """A translator with random weights, large enough that its sentences differ, and biases that are not 0."""
    torch.manual_seed(seed)
    subwords = Subwords.learn(LINES * 9, V)
    model = make_model(len(subwords), len(subwords), N_LAYERS, D_MODEL, D_FF, H, 0.0, norm).eval()
    for p in model.parameters():
        p.data += 0.1 * torch.randn_like(p)
    model.generator.proj.weight.data *= scale
    return recipe.Translator(model, subwords, {})


@pytest.fixture(scope="module", params=["pre", "post"])
def both(request, tmp_path_factory):
    """A translator, and the folder into which it was exported."""
    translator = untrained(request.param)
    return translator, export(translator, tmp_path_factory.mktemp("export") / "model")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The course's model, exported."""
    return export(recipe.load_translator(MODEL), tmp_path_factory.mktemp("course") / "model")


def log_p(translator, source, said):
    """Ours: log P of each token said, EOS at the end."""
    model, ids = translator.model, translator.subwords.encode(source)
    target = torch.tensor([[BOS, *said, EOS]])
    logits = model.generator.proj(model(torch.tensor([ids]), target[:, :-1]))
    logits[..., [PAD, BOS]] = float("-inf")
    return logits.log_softmax(-1).gather(-1, target[:, 1:, None])[0, :, 0]


def test_the_engine_gives_each_token_the_probability_that_ours_gives(both):
    translator, folder = both
    engine, tokens = Exported(folder).engine, translator.subwords.tokens
    for source in (LINES[0], LINES[4], "x" * 60):
        said = [7, 260, 261, 270, 265]
        cut = [tokens[i] for i in translator.subwords.encode(source)]
        (scored,) = engine.score_batch([cut], [[tokens[i] for i in said]])
        with torch.no_grad():
            ours = log_p(translator, source, said)
        assert torch.allclose(torch.tensor(scored.log_probs), ours, atol=2e-4)


def test_the_engine_writes_what_greedy_writes(both):
    translator, folder = both
    said = []
    for line in LINES[:3]:
        ids = translator.subwords.encode(line)
        (ours,) = greedy(translator.model, torch.tensor([ids]), n_max=12)
        tokens = [translator.subwords.tokens[i] for i in ids]
        (found,) = Exported(folder).engine.translate_batch([tokens], beam_size=1, max_decoding_length=12)
        assert found.hypotheses[0] == [translator.subwords.tokens[i] for i in ours]
        said.append(tuple(ours))
    assert len(set(said)) > 1 and max(map(len, said)) > 3


@pytest.mark.parametrize("width", [1, 3])
def test_the_courses_model_says_the_same_line_by_line_and_in_order(exported, width):
    lines, engine = [LINES[3], *3 * LINES[:4]], Exported(exported, workers=2)
    found = engine.translate(lines, width, n_tokens=20)
    assert found[0] == found[4] == "" and len(set(found)) == 4
    assert found == engine.translate(lines[:5], width) + engine.translate(lines[5:], width)
    if width == 1:  # the engine's beam scores its hypotheses in another way
        assert found == recipe.load_translator(MODEL).translate(lines)


@pytest.mark.parametrize("text", [*LINES, "Ärger", "<eos> is text", "tab\tand  blanks "])
def test_the_tokenizer_cuts_and_joins_as_the_vocabulary_does(text):
    subwords = untrained().subwords
    theirs, ids = tokenizer(subwords), subwords.encode(text)
    assert theirs.encode(text).ids == ids
    assert theirs.decode(ids, skip_special_tokens=False) == subwords.decode(ids) == text


def test_the_files_of_the_folder(both):
    _, folder = both
    assert {"model.bin", "config.json", "shared_vocabulary.json", "tokenizer.json"} == {
        file.name for file in folder.iterdir()
    }
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert (config["bos_token"], config["eos_token"], config["unk_token"]) == ("<bos>", "<eos>", "<unk>")
    assert config["decoder_start_token"] == "<bos>" and config["layer_norm_epsilon"] == 1e-5
    assert not config["add_source_bos"] and not config["add_source_eos"]


def test_padding_and_the_start_are_never_written():
    translator = untrained()
    translator.model.generator.proj.bias.data[[PAD, BOS]] = 1e4
    spec = specification(translator.model)
    assert (spec.decoder.projection.bias[[PAD, BOS]] < -5e4).all()
    assert (translator.model.generator.proj.bias[[PAD, BOS]] == 1e4).all()  # ours is left as it was


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_stored_matrix_can_be_loaded(tmp_path, kind):
    folder = export(untrained(), tmp_path / kind, kind)
    assert len(Exported(folder).translate(LINES[:2])) == 2


def test_eight_bits_take_a_third_of_the_room(tmp_path):
    folders = [export(untrained(), tmp_path / kind, kind) for kind in ("float32", "int8")]
    wide, narrow = ((folder / "model.bin").stat().st_size for folder in folders)
    positions = 2 * 4 * 2048 * D_MODEL  # not stored in eight bits
    assert narrow - positions < (wide - positions) / 2.5


class Different(type(make_model(9, 9, 1, 8, 8, 2).encoder.layers[0].self_attention)):
    """Attention of another kind."""


def mixed():
    model = make_model(9, 9, 1, 8, 8, 2)
    model.decoder.layers[0].sublayer = make_model(9, 9, 1, 8, 8, 2, norm="post").decoder.layers[0].sublayer
    return model


class Gelu(PositionwiseFeedForward):
    """The feed-forward network with another non-linearity: its weights have the same names."""

    def forward(self, x):
        return self.W_2(nn.functional.gelu(self.W_1(x)))


def Rms():
    """A connection with another norm."""
    connection = SublayerConnection(8, 0.0)
    connection.norm = RMSNorm(8)
    return connection


def with_part(name, part):
    model = make_model(9, 9, 1, 8, 8, 2)
    setattr(model.encoder.layers[0], name, part)
    return model


def learned():
    model = make_model(9, 9, 1, 8, 8, 2)
    model.source_embed[1] = LearnedPosition(8, 0.0)
    return model


@pytest.mark.parametrize(
    "model, words",
    [
        (lambda: make_language_model(9, 1, 8, 8, 2), "The model is a LanguageModel, and CTranslate2 would"),
        (lambda: make_model(9, 9, 1, 8, 8, 2, self_attention=Different), r"self_attention is a Different"),
        (learned, "source_embed.1 is a LearnedPosition"),
        (lambda: with_part("feed_forward", Gelu(8, 8, 0.0)), r"layers\.0\.feed_forward is a Gelu"),
        (lambda: with_part("sublayer", nn.ModuleList([Rms(), Rms()])), r"sublayer\.0\.norm is a RMSNorm"),
        (mixed, "of class EncoderDecoder, with PostNormConnection, SublayerConnection"),
        (lambda: make_model(9, 9, 1, 8, 8, 2).encoder, "of class Encoder, with SublayerConnection"),
    ],
)
def test_what_the_engine_cannot_run_is_refused(model, words):
    with pytest.raises(ValueError, match=words):
        check_exportable(model())


def test_mistakes_are_answered_in_words(tmp_path):
    with pytest.raises(ValueError, match=r"stored as float32, int8, .*; got 'int4'"):
        export(untrained(), tmp_path / "new", "int4")
    with pytest.raises(ValueError, match="is there already"):
        export(untrained(), tmp_path)
    with pytest.raises(ValueError, match=r"no exported model: it has no tokenizer\.json"):
        Exported(tmp_path)
    with pytest.raises(ValueError, match="no line has a word"):
        compare(None, tmp_path, ["", "  "])


def test_a_text_too_long_is_refused_and_not_cut(exported):
    engine, word = Exported(exported), " Hund"
    assert len(engine.tokenizer.encode(1019 * word)) == 1019
    with pytest.raises(ValueError, match=r"1,020 tokens.* 2,048 positions, enough for 1,019 tokens"):
        engine.translate([LINES[0], 1020 * word])


def test_the_engine_is_told_to_cut_nothing(exported):
    """By itself it reads 1,024 tokens, and says nothing of the rest."""
    translator, given, text = Exported(exported), {}, 1010 * " Hund" + " Katze"
    real = translator.engine.translate_batch

    class Watched:
        def translate_batch(self, *sources, **settings):
            given.update(settings)
            return real(*sources, **settings)

    translator.engine = Watched()
    translator.translate([text])
    assert given["max_input_length"] == 0 and given["max_decoding_length"] == 2 * 1011 + 10


def test_without_the_engine_the_command_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "ctranslate2", None)
    with pytest.raises(ValueError, match="pip install ctranslate2"):
        export(untrained(), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_the_command_exports_the_courses_model_and_compares(tmp_path, capsys):
    (tmp_path / "lines.de").write_text("\n".join(LINES[:4]), encoding="utf-8")
    words = ["export", MODEL, "--to", "ctranslate2", "--folder", tmp_path / "out"]
    words += ["--check", tmp_path / "lines.de"]
    assert main([str(word) for word in words]) == 0
    assert "4 of 4 translations are the same." in capsys.readouterr().out
    assert main([str(word) for word in words]) == 1  # the folder is there
    assert "is there already" in capsys.readouterr().err


@pytest.mark.parametrize(
    "kind, log_odds, fails", [("float32", 0.05, True), ("float32", 0.0499, False), ("int8", 3.0, False)]
)
def test_an_export_that_says_something_else_is_an_error(kind, log_odds, fails, monkeypatch, tmp_path, capsys):
    (tmp_path / "lines.de").write_text("\n".join(9 * LINES[:1]), encoding="utf-8")
    other = [Difference(line, "ours", "theirs", log_odds) for line in range(2, 8)]
    monkeypatch.setattr(__import__("sys").modules["heed.recipe.export"], "compare", lambda *given: other)
    words = ["export", MODEL, "--to", "ctranslate2", "--kind", kind, "--folder", tmp_path / "out"]
    status = main([str(word) for word in [*words, "--check", tmp_path / "lines.de"]])
    said = capsys.readouterr()
    assert "3 of 9 translations are the same." in said.out and said.out.count("Line ") == 5
    assert "Line 3: ours\n  exported: theirs" in said.out and f"{log_odds:.4f} more log P" in said.out
    assert status == int(fails) and ("In 6 lines they do not, such as line 3" in said.err) == fails


def test_where_two_translations_part_and_by_how_much(exported, monkeypatch):
    translator = recipe.load_translator(MODEL)
    assert compare(translator, exported, LINES) == []
    real = Exported.search

    def otherwise(self, sentences, *rest):
        found = real(self, sentences, *rest)
        found[0] = [*found[0][:2], "x", *found[0][2:]]
        return found

    monkeypatch.setattr(Exported, "search", otherwise)
    ((line, ours, theirs, odds),) = compare(translator, exported, LINES)
    assert line == 0 and ours == translator.translate(LINES[:1])[0] != theirs and "x" in theirs
    (ids,) = greedy(translator.model, torch.tensor([translator.subwords.encode(LINES[0])]))
    wrong = [*ids[:2], translator.subwords.ids["x"]]
    with torch.no_grad():
        gap = log_p(translator, LINES[0], ids)[2] - log_p(translator, LINES[0], wrong)[2]
    assert odds == pytest.approx(float(gap), abs=1e-3) and odds > 1
    assert log_odds(translator, LINES[0], [translator.subwords.tokens[i] for i in ids]) == 0.0


def test_a_translation_that_never_ends_is_cut_where_ours_is(tmp_path):
    """`heed.decode.longest` has a limit for each sentence, the engine one for all."""
    translator = untrained()
    translator.model.generator.proj.bias.data[EOS] = -1e4
    engine = Exported(export(translator, tmp_path / "endless"))
    lines = [LINES[1], LINES[0], "a"]
    assert engine.translate(lines) == translator.translate(lines)
    assert [len(tokens) for tokens in engine.search(lines)] == [
        2 * len(translator.subwords.encode(line)) + 10 for line in lines
    ]


@pytest.mark.parametrize("text", ["\ud800 Hund", "žluť", "\x00", "🐕\udfff"])
def test_what_is_no_text_is_treated_as_ours_treats_it(exported, text):
    lines = [text, LINES[0]]
    assert Exported(exported).translate(lines) == recipe.load_translator(MODEL).translate(lines)


def test_bytes_that_form_no_character_are_spelled_as_ours_are():
    subwords = Subwords("ab")
    for tokens in (
        ["a", BYTES[0xC3], BYTES[0xA4], "b"],
        [BYTES[0xF0], BYTES[0x9F], "a"],
        [BYTES[0xFF]] * 3,
        [],
    ):
        assert spelled(tokens) == subwords.decode([subwords.ids[token] for token in tokens])


def test_an_export_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(self, path):
        (Path(path) / "model.bin").write_bytes(b"half")
        raise RuntimeError("failed to write: No space left on device")

    monkeypatch.setattr("ctranslate2.specs.TransformerSpec.save", full)
    with pytest.raises(ValueError, match=r"new could not be written: .*No space left on device"):
        export(untrained(), tmp_path / "new")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    assert (export(untrained(), tmp_path / "new") / "model.bin").is_file()
