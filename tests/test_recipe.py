"""Recipes: what they may say, what is made of them, and that a wrong one is refused in a sentence."""

import inspect
import json
import math
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from heed import checkpoint, recipe
from heed.attention import record
from heed.decode import greedy
from heed.engine import fit, hidden_matrices, make_optimizers
from heed.engine.folder import locked
from heed.engine.log import Log
from heed.engine.loop import Result
from heed.recipe import training
from heed.recipe.keys import SECTIONS, is_too_large
from heed.recipe.size import available_bytes, check_size, n_parameters, needed_bytes
from heed.recipe.training import claim, ended, has_work, validation
from heed.recipe.translator import identity
from heed.schedule import noam
from heed.text import BOS, EOS, Subwords
from heed.transformer import make_model

OURS = Path(__file__).parents[1] / "recipes"
SMALL = {
    "model.n_layers": 2,
    "model.d_model": 22,
    "model.d_ff": 13,
    "model.n_heads": 11,
    "data.vocabulary": 281,
}
PAIRS = [("ein Hund", "a dog"), ("", "nothing"), ("zwei Hunde", "two dogs"), ("drei", "three")]


@pytest.fixture
def folder(tmp_path):
    """A folder with four parallel lines and a recipe that names them."""
    for name, side in (("train.de", 0), ("train.en", 1)):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in PAIRS), encoding="utf-8")
    text = '[data]\ntrain = ["train.de", "train.en"]\n\n[training]\nupdates = 7\n'
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    return tmp_path


def read(folder, **changes):
    """The recipe of that folder, small, with further changes: data__longest=5."""
    changes = SMALL | {key.replace("__", "."): value for key, value in changes.items()}
    return recipe.read(folder / "mine.toml", [f"{key}={json.dumps(value)}" for key, value in changes.items()])


# --- Reading ------------------------------------------------------------------------------------------------


def test_a_recipe_by_hand(folder):
    found = recipe.read(folder / "mine.toml", ["model.d_model = 24", "training.optimizer=adamw"])
    assert found["data"]["train"] == [(folder / name).as_posix() for name in ("train.de", "train.en")]
    assert found["data"]["val"] is None and found["data"]["vocabulary"] == 6000
    sizes = {"n_layers": 6, "d_model": 24, "d_ff": 2048, "n_heads": 8}
    assert found["model"] == sizes | {"dropout": 0.1, "norm": "pre"}
    assert found["training"]["updates"] == 7 and found["training"]["minutes"] is None
    assert found["training"]["optimizer"] == "adamw" and found["training"]["smoothing"] == 0.1


def test_what_is_written_reads_the_same(folder):
    first = read(folder, training__minutes=0.5, training__sharded=True, data__val="multi30k")
    (folder / "again.toml").write_text(recipe.to_toml(first), encoding="utf-8")
    assert recipe.read(folder / "again.toml") == first
    assert not recipe.differences(first, recipe.read(folder / "again.toml"))


@pytest.mark.parametrize(
    ("key", "most"), [("n_layers", 10_000), ("d_model", 2**20), ("d_ff", 2**24), ("n_heads", 2**20)]
)
def test_a_size_has_its_limit(key, most):
    fits = SECTIONS["model"][key].fits
    assert fits(most) and not fits(most + 1) and f"at most {most:,}" in SECTIONS["model"][key].wanted


def test_what_a_number_may_be_to_the_last_value():
    least = {"vocabulary": 261, "longest": 3, "seed": 0, "keep": 0}
    edges = {"a number above 0": (5e-324, 0), "a number from 0 to below 1": (0, 1)}
    for keys in SECTIONS.values():
        for name, key in keys.items():
            if key.wanted.startswith("a whole number"):
                n = least.get(name, 1)
                assert key.fits(n) and not key.fits(n - 1) and f"number, {n} or more" in key.wanted, name
            elif key.wanted in edges:
                fits, fits_not = edges[key.wanted]
                assert key.fits(fits) and not key.fits(fits_not), name
                assert not key.fits(-0.1) and key.fits(math.nextafter(1, 0)), name
    assert [value for value in (2**62 - 1, 2**62, -(2**62), 9e29, 1e30, -1e30) if is_too_large(value)] == [
        2**62, -(2**62), 1e30, -1e30,
    ]  # fmt: skip


def test_what_a_recipe_leaves_out_and_what_may_change_later():
    keys = {f"{section}.{name}": key for section, keys in SECTIONS.items() for name, key in keys.items()}
    chosen = {
        "data.vocabulary": 6000,
        "data.longest": 256,
        "training.tokens": 2500,
        "training.smoothing": 0.1,
    }
    assert {name: keys[name].default for name in chosen} == chosen
    free = "updates minutes patience micro_batches sharded checkpoint_minutes log_every".split()
    assert {name for name, key in keys.items() if key.free} == {
        "data.test", *(f"training.{name}" for name in free)
    }  # fmt: skip


def test_the_keys_are_the_parameters_of_what_they_are_for():
    model, training = dict(inspect.signature(make_model).parameters), dict(inspect.signature(fit).parameters)
    assert {*SECTIONS["model"], "source_vocab", "target_vocab", "self_attention"} == set(model)
    ours = {"tokens", "smoothing", "validate"}
    given_by_us = {"model", "batches", "loss", "folder", "device", "validate", "better", "fingerprint"}
    assert set(SECTIONS["training"]) - ours == set(training) - given_by_us
    for section, parameters in (("model", model), ("training", training)):
        for key, rule in SECTIONS[section].items():
            if key not in ours:
                assert rule.default == parameters[key].default, key


WRONG = {  # a change -> what the sentence must say
    "training.updats=3": ["no key in [training] named updats", "nearest known one is updates"],
    "modle.d_model=3": ["no section named modle", "nearest known one is model"],
    "model.lr=0.1": ["no key in [model] named lr", "It belongs to [training]"],
    "training.rate=0.1": ["no key in [training] named rate", "It is called lr now"],
    "training.optimiser=adamw": ["no key in [training] named optimiser", "It is called optimizer now"],
    "data.valid=multi30k": ["no key in [data] named valid", "It is called val now"],
    "model.norm=between": ['norm = "between"', '"pre" or "post"'],
    "data=3": ["section.key=value", "'data=3'"],
    "model.d_model": ["section.key=value", "'model.d_model'"],
    "model.d_model=23": ["d_model=23 is not divisible by n_heads=11"],
    "model.d_model=33": ["d_model must be even; it is 33"],
    "model.dropout=1": ["[model] dropout = 1 ", "from 0 to below 1"],
    "model.dropout=-0.1": ["dropout = -0.1", "from 0 to below 1"],
    "model.dropout=nan": ["dropout = NaN", "from 0 to below 1"],
    "model.n_layers=2.0": ["n_layers = 2.0", "a whole number, 1 or more"],
    "model.n_layers=true": ["n_layers = true", "a whole number, 1 or more"],
    "model.n_layers=0": ["n_layers = 0", "a whole number, 1 or more"],
    "training.lr=0": ["lr = 0", "a number above 0"],
    "training.lr=inf": ["lr = Infinity", "a number above 0"],
    "training.minutes=-3": ["minutes = -3", "a number above 0"],
    "training.optimizer=sgd": ['optimizer = "sgd"', '"muon" or "adamw"'],
    "training.sharded=1": ["sharded = 1", "true or false"],
    "training.patience=3": ["patience needs [data] val,"],
    "data.vocabulary=260": ["vocabulary = 260", "261 or more"],
    "data.train=[1, 2]": ["train = [1, 2]", "two files of parallel lines"],
    'data.train=["a", "b", "c"]': ["two files of parallel lines"],
    "data.train=wmt": ['train = "wmt"', '"multi30k" or two files'],
    "data.longest=1979-05-27": ["longest = ", "a whole number, 3 or more"],
}


@pytest.mark.parametrize("change", WRONG)
def test_what_cannot_be_is_refused_in_a_sentence(folder, change):
    changes = [f"{key}={json.dumps(value)}" for key, value in SMALL.items()]
    with pytest.raises(ValueError) as refused:
        recipe.read(folder / "mine.toml", [*changes, change])
    for words in ["mine.toml: ", *WRONG[change]]:
        assert words in str(refused.value)


def test_shares_that_do_not_fit_together_are_refused_before_a_folder_is_claimed(folder):
    with pytest.raises(ValueError, match=r"mine\.toml: Shares of a run.*warmup=0\.7, cooldown=0\.6"):
        read(folder, training__warmup=0.7, training__cooldown=0.6)


@pytest.mark.parametrize(
    "text, words",
    {
        "[data]\ntrain = 'multi30k'": "[training] needs updates or minutes",
        "[training]\nupdates = 3": "[data] train is missing",
        "training = 3": "training is a section, [training]",
        "[data\n": "mine.toml is not a TOML file",
    }.items(),
)
def test_a_file_that_is_no_recipe_is_refused_in_a_sentence(folder, text, words):
    (folder / "mine.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(words)):
        recipe.read(folder / "mine.toml")


def test_files_in_a_recipe_lie_beside_it_and_those_in_a_change_where_one_is(folder, monkeypatch):
    (folder / "here").mkdir()
    monkeypatch.chdir(folder / "here")
    found = recipe.read("../mine.toml", ['data.val=["a.de", "a.en"]'])
    assert found["data"]["train"][0] == (folder / "train.de").as_posix()
    assert found["data"]["val"][0] == (folder / "here" / "a.de").as_posix()


# --- The course's own ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(OURS.glob("*.toml")), ids=lambda path: path.stem)
def test_the_courses_own_recipes_are_found_from_everywhere(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert recipe.read(path.name) == recipe.read(path)


def test_a_recipe_that_is_nowhere_is_refused_with_those_that_are_there():
    with pytest.raises(ValueError, match=r"no recipe nowhere\.toml.*multi30k-10min\.toml, multi30k\.toml"):
        recipe.read("nowhere.toml")


def test_the_papers_recipe_has_the_papers_numbers():
    found = recipe.read("wmt14-base.toml")
    defaults = inspect.signature(make_model).parameters
    assert found["model"] == {key: defaults[key].default for key in found["model"]} | {"norm": "post"}
    training = found["training"]
    assert (training["updates"], training["tokens"], training["keep"]) == (100_000, 25_000, 5)
    assert training["lr"] == pytest.approx(noam(4000, 512, 4000), rel=1e-4)
    assert training["warmup"] * training["updates"] == 4000


# --- Sentences ----------------------------------------------------------------------------------------------


def test_only_a_line_feed_ends_a_line(tmp_path):
    (tmp_path / "a").write_bytes("\ufeff eins\u2028 zwei \r\n\r\ndrei\r\n".encode())
    (tmp_path / "b").write_bytes(b"one\ntwo\x0cthree\n\n")
    pairs = recipe.parallel(tmp_path / "a", tmp_path / "b")
    assert pairs == [("eins\u2028 zwei", "one"), ("", "two\x0cthree"), ("drei", "")]


def test_files_that_are_not_parallel_are_refused(tmp_path):
    (tmp_path / "three").write_text("a\nb\nc\n", encoding="utf-8")
    (tmp_path / "five").write_text("a\nb\nc\nd\ne", encoding="utf-8")
    (tmp_path / "empty").write_text("\n", encoding="utf-8")
    (tmp_path / "latin").write_bytes(b"Stra\xdfe\n")
    sentences = {
        "five": "three has 3 lines and .*five has 5",
        "empty": "empty is empty",
        "nix": "nix cannot be read",
    }
    for name, sentence in {**sentences, "latin": "latin is not UTF-8: .* at byte 4"}.items():
        with pytest.raises(ValueError, match=sentence):
            recipe.parallel(tmp_path / "three", tmp_path / name)


def test_each_split_is_its_own(monkeypatch):
    monkeypatch.setattr("heed.recipe.corpus.multi30k", lambda split: [(split, split.upper(), "de")])
    found = recipe.read("multi30k-10min.toml")
    asked = [recipe.sentences(found, split) for split in ("train", "val", "test")]
    assert asked == [[("train", "TRAIN")], [("val", "VAL")], [("test", "TEST")]]


def test_a_recipe_without_a_test_says_so(folder):
    with pytest.raises(ValueError, match=r"\[data\] test is missing"):
        recipe.sentences(read(folder), "test")


def test_pairs_are_encoded_and_empty_or_long_ones_left_out():
    subwords = Subwords("ab")
    a, b = subwords.encode("ab")
    pairs = [("ab", "b"), ("", "b"), ("a", ""), ("aaaaa", "b"), ("a", "bbb")]
    found = recipe.encoded(pairs, subwords, 5)
    assert [(list(s), list(t)) for s, t in found] == [
        ([a, b], [BOS, b, EOS]),
        ([a] * 5, [BOS, b, EOS]),
        ([a], [BOS, b, b, b, EOS]),
    ]
    assert len(recipe.encoded(pairs, subwords, 4)) == 1


def test_the_vocabulary_comes_from_both_sides_of_the_training_pairs_alone(folder):
    subwords = recipe.learn_subwords(read(folder), PAIRS)
    assert set("einHundathg") <= set(subwords.characters) and len(subwords) <= 281
    assert subwords.decode(subwords.encode("žluť 🐕")) == "žluť 🐕"


def test_a_fingerprint_tells_where_one_string_ends():
    lists = (["ab", "c"], ["a", "bc"], ["abc"], ["abc", ""], ["c", "ab"], [], ["\udc80"])
    assert len({recipe.fingerprint(strings) for strings in lists}) == len(lists)
    assert recipe.fingerprint(["ab"]) == recipe.fingerprint(iter(["ab"]))


# --- The model and its folder -------------------------------------------------------------------------------


def test_the_model_is_that_of_the_recipe_and_the_seed_decides_its_weights(folder):
    chance = torch.get_rng_state()
    first, again = (recipe.build(read(folder), 281) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), chance)  # and nothing else is decided by it
    other = recipe.build(read(folder, training__seed=5), 281)
    assert len(first.encoder.layers) == 2 and first.generator.proj.weight.shape == (281, 22)
    assert (
        first.generator.proj.weight
        is first.target_embed[0].embedding.weight
        is first.source_embed[0].embedding.weight
    )
    assert torch.equal(first.generator.proj.weight, again.generator.proj.weight)
    assert not torch.equal(first.generator.proj.weight, other.generator.proj.weight)


def made(folder, **changes):
    """A recipe as a training completes it, and its vocabulary."""
    found = read(folder, **changes)
    corpus = recipe.Corpus.read(found)
    subwords = recipe.learn_subwords(found, corpus.train)
    return {**found, "made": {"data": corpus.fingerprint, "vocabulary": subwords.fingerprint}}, subwords


def claimed(folder, train=PAIRS, **changes):
    """Claim the folder "run" for a recipe with these sentences; whether there is anything to train."""
    return claim(folder / "run", read(folder, **changes), recipe.Corpus(train, None))


def work(folder):
    """As if something had been learnt there."""
    (folder / "run" / "best.pt").write_bytes(b"weights")


def test_a_folder_belongs_to_one_training(folder):
    assert claimed(folder) and claimed(folder)
    assert recipe.read(folder / "run" / "recipe.toml") == made(folder)[0]
    work(folder)
    checkpoint.save(folder / "run" / "checkpoint.pt", {"state": {"step": 3}})
    for changes, words in (
        ({"training__lr": 0.5}, r"\[training\] lr was 0\.002 and is 0\.5"),
        ({"data__longest": 17}, r"\[data\] longest was 256 and is 17"),
        ({"data__vocabulary": 282}, r"\[data\] vocabulary was 281 and is 282\."),
        ({"train": PAIRS[::-1]}, "the sentences to train and validate with are others"),
    ):
        with pytest.raises(ValueError, match=f"run holds another training: {words}"):
            claimed(folder, **changes)
    with pytest.raises(ValueError, match="something else"):
        claim(folder, read(folder), recipe.Corpus(PAIRS, None))


def test_one_update_is_work(folder):
    claimed(folder)
    for step in 0, 1:
        checkpoint.save(folder / "run" / "checkpoint.pt", {"state": {"step": step}})
        assert has_work(folder / "run") == bool(step)


def test_what_has_changed_stays_in_a_log_that_is_ahead_of_its_checkpoint(tmp_path):
    lines = [{"step": 50}, {"step": 57}]
    (tmp_path / "log.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    training.reopen(tmp_path / "log.jsonl", ["[training] updates was 7 and is 9"])
    with Log(tmp_path, True, step=50) as log:
        assert log.lines() == [{"step": 50}, {"changed": ["[training] updates was 7 and is 9"]}]


def test_what_a_resumed_training_may_change_is_written_down(folder, capsys):
    claimed(folder)
    work(folder)
    checkpoint.save(folder / "run" / "checkpoint.pt", {"state": {"step": 3}})
    (folder / "run" / "log.jsonl").write_text('{"step": 7, "ended": "updates"}\n', encoding="utf-8")
    (folder / "run" / "model.safetensors").touch()
    assert not claimed(folder)
    changes = {"updates": 9, "minutes": 2.5, "patience": None, "micro_batches": 3, "sharded": True}
    changes |= {"log_every": 3, "checkpoint_minutes": 2}
    assert claimed(folder, **{f"training__{key}": value for key, value in changes.items() if value})
    assert (
        "[training] updates was 7 and is 9; [training] minutes was null and is 2.5" in capsys.readouterr().out
    )
    found = recipe.read(folder / "run" / "recipe.toml")
    assert found["training"]["updates"] == 9 and identity(found) == identity(made(folder)[0])
    free = {key for key, rule in SECTIONS["training"].items() if rule.free}
    assert free == set(changes)


def test_sub_words_in_a_folder_are_used_only_for_the_sentences_that_made_them(folder):
    claimed(folder)
    first = (folder / "run" / "subwords.json").read_bytes()
    claimed(folder, train=PAIRS + [("ganz andere Wörter", "words")] * 9)
    assert (folder / "run" / "subwords.json").read_bytes() != first
    Subwords("abc").save(folder / "run" / "subwords.json")  # of something else
    claimed(folder)
    assert (folder / "run" / "subwords.json").read_bytes() == first


def test_sub_words_that_are_gone_are_learnt_again(folder):
    small, run = read(folder), folder / "run"
    corpus = training.Corpus.read(small)
    assert claim(run, small, corpus)
    before = (run / "subwords.json").read_bytes()
    (run / "subwords.json").unlink()
    assert claim(run, small, corpus) and (run / "subwords.json").read_bytes() == before


def test_a_folder_in_which_another_command_trains_is_not_claimed(folder):
    claimed(folder)
    with locked(folder / "run"), pytest.raises(ValueError, match="Another run is writing"):
        claimed(folder, training__lr=0.5)
    claimed(folder, training__lr=0.5)


# --- Sizes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_parameters_are_counted_as_the_model_has_them(folder, norm):
    for sizes in ({}, {"model__n_layers": 3, "model__d_model": 44, "model__d_ff": 17}):
        found = read(folder, model__norm=norm, **sizes)
        model = recipe.build(found, 281)
        hidden, rest = n_parameters(found["model"], 281)
        assert hidden == sum(p.numel() for p in hidden_matrices(model))
        assert hidden + rest == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_what_a_training_keeps_is_what_its_tensors_hold(folder, optimizer):
    found = read(folder, training__optimizer=optimizer)
    model = recipe.build(found, 281)
    optimizers = make_optimizers(model, optimizer, 0.1)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    for each in optimizers:
        each.step()
    tensors = [*model.parameters(), *(p.grad for p in model.parameters())]
    tensors += [t for o in optimizers for state in o.state.values() for t in state.values() if t.dim()]
    assert needed_bytes(found, 281) == sum(4 * tensor.numel() for tensor in tensors)


def test_a_model_that_no_memory_here_can_hold_is_refused_before_it_is_built(folder, monkeypatch):
    world = SimpleNamespace(device=torch.device("cpu"), size=4)
    found = read(folder, model__d_model=65536 * 11, model__d_ff=65536, model__n_heads=11)
    with pytest.raises(
        ValueError, match=r"too large for this machine: at most [\d,]+ parameters.* GB, and there"
    ):
        check_size(found, world)
    needed = needed_bytes(read(folder), 281)
    for there, sharded, fits in ((needed, False, True), (needed - 1, False, False), (needed - 1, True, True)):
        monkeypatch.setattr("heed.recipe.size.available_bytes", lambda device, there=there: there)
        try:
            said = check_size(read(folder, training__sharded=sharded), world)
        except ValueError:
            said = None
        assert (said is not None) == fits


def test_a_limit_of_the_process_is_what_there_is(monkeypatch):
    resource = pytest.importorskip("resource")
    cpu = torch.device("cpu")
    whole = available_bytes(cpu)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (12345, -1))
    assert available_bytes(cpu) == 12345 < whole


def test_a_key_of_a_later_version_makes_no_other_training_as_long_as_it_has_its_default(folder, monkeypatch):
    claimed(folder)
    work(folder)
    checkpoint.save(folder / "run" / "checkpoint.pt", {"state": {"step": 3}})
    before = identity(made(folder)[0])
    for section in ("training", "data"):
        monkeypatch.setitem(SECTIONS[section], "of_later", SECTIONS["model"]["n_heads"]._replace(default=8))
    later, _ = made(folder)
    assert later["training"]["of_later"] == 8 and identity(later) == before
    claimed(folder)
    changed, _ = made(folder, training__of_later=9)
    assert identity(changed) != before
    with pytest.raises(ValueError, match=r"\[training\] of_later was 8 and is 9"):
        claimed(folder, training__of_later=9)


def test_a_claim_that_was_killed_is_made_again_and_no_stray_snapshot_is_averaged(folder):
    first, subwords = made(folder)
    claimed(folder)
    (folder / "run" / "recipe.toml").rename(folder / "run" / "recipe.toml.7-ab.part")
    claimed(folder)
    assert recipe.read(folder / "run" / "recipe.toml") == first
    checkpoint.save_weights(folder / "run" / "model.safetensors", recipe.build(first, len(subwords)))
    (folder / "run" / "snapshots").mkdir()
    (folder / "run" / "snapshots" / "good.pt").write_bytes(b"no checkpoint")
    with pytest.raises(ValueError, match="nothing to average"):
        recipe.average_snapshots(folder / "run", folder / "mean")


def test_the_norm_stands_where_the_recipe_says(folder):
    pre, post = (recipe.build(read(folder, model__norm=norm), 281) for norm in ("pre", "post"))
    kinds = [type(model.encoder.layers[0].sublayer[0]).__name__ for model in (pre, post)]
    assert kinds == ["SublayerConnection", "PostNormConnection"]


def test_where_the_files_lie_makes_no_other_training_and_what_they_hold_does(folder):
    first, _ = made(folder)
    moved = {**first, "data": {**first["data"], "train": ["/elsewhere/train.de", "/elsewhere/train.en"]}}
    assert not recipe.differences(first, moved) and identity(first) == identity(moved)
    for other in (made(folder, training__seed=1)[0], {**first, "made": {**first["made"], "data": "abd"}}):
        assert identity(other) != identity(first)


@pytest.mark.parametrize(
    "log, has",
    {
        "": False,
        '{"step": 3}\n': False,
        '{"step": 3}\n{"ended": "updates"}\n': True,
        '{"step": 3}\n{"ended': False,
        '{"step": 3}\n[1]\n': False,
    }.items(),
)
def test_a_training_has_ended_when_its_log_says_so(tmp_path, log, has):
    assert ended(tmp_path) is False
    (tmp_path / "log.jsonl").write_text(log, encoding="utf-8")
    assert ended(tmp_path) is False  # there is no model
    (tmp_path / "model.safetensors").touch()
    assert ended(tmp_path) is has


def test_the_validation_loss_is_the_mean_over_real_tokens_without_smoothing(folder):
    found, subwords = made(folder, model__dropout=0.0)
    model = recipe.build(found, len(subwords)).eval()
    validate, better = validation("loss", PAIRS, subwords, tokens=11)
    total = n = 0
    with torch.no_grad():
        for source, target in recipe.encoded(PAIRS, subwords):
            scores = model(torch.tensor([list(source)]), torch.tensor([list(target[:-1])]))
            log_p = model.generator(scores)[0].gather(1, torch.tensor(list(target[1:]))[:, None])
            total, n = total - log_p.sum().item(), n + len(log_p)
        assert validate(model)["val_loss"] == pytest.approx(total / n, rel=1e-5)
    assert better is min and validation("loss", None, subwords, 11) == (None, min)


def test_the_validation_goes_where_the_model_is(folder, monkeypatch):
    """Here on the device "meta", which is everywhere and holds shapes alone."""
    asked = []

    def loss(model, batch, smoothing):
        asked.append(batch.source.device.type)
        return 3.0

    monkeypatch.setattr("heed.recipe.training.translation_loss", loss)
    subwords = recipe.learn_subwords(read(folder), PAIRS)
    validate, _ = validation("loss", PAIRS, subwords, 23)
    validate(recipe.build(read(folder), len(subwords)).to("meta"))
    assert set(asked) == {"meta"}


def test_a_validation_without_a_pair_of_words_is_refused(folder):
    (folder / "blank").write_text("\n\n\nx\n", encoding="utf-8")
    (folder / "gap").write_text("a\nb\nc\n\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no pair has words on both sides"):
        recipe.Corpus.read(read(folder, data__val=[str(folder / "blank"), str(folder / "gap")]))


def test_the_validation_by_bleu_wants_it_high(folder, monkeypatch):
    found, subwords = made(folder)
    draws = []
    plain = training.bleu
    monkeypatch.setattr(training, "bleu", lambda a, b, n: (draws.append(n), plain(a, b, n))[1])
    validate, better = validation("bleu", [("drei", "three")] * 3, subwords, tokens=11)
    assert better is max and 0 <= validate(recipe.build(found, len(subwords)))["bleu"] < 50
    assert draws == [1]  # its interval would be a thousand draws, and is not looked at


@pytest.fixture
def trained(folder):
    """A folder as a training leaves it, of a model that has learnt nothing."""
    found, subwords = made(folder)
    claimed(folder)
    checkpoint.save_weights(folder / "run" / "model.safetensors", recipe.build(found, len(subwords)))
    return folder / "run"


def test_a_trained_model_comes_back_as_it_was_without_its_data(trained):
    for name in ("train.de", "train.en"):
        (trained.parent / name).unlink()
    model, subwords, found = recipe.load_translator(trained)
    torch.testing.assert_close(
        model.state_dict(), recipe.build(found, len(subwords)).state_dict(), rtol=0, atol=0
    )
    assert not model.training
    assert recipe.load_translator(trained).translate(["", "drei"])[0] == ""


@pytest.mark.parametrize("name", ["recipe.toml", "subwords.json", "model.safetensors"])
def test_a_folder_that_lacks_a_file_is_no_trained_model(trained, name):
    (trained / name).unlink()
    with pytest.raises(ValueError, match=f"run is no trained model: it has no {name}"):
        recipe.load_translator(trained)


def test_another_vocabulary_or_other_weights_are_never_loaded(trained):
    whole = (trained / "recipe.toml").read_text(encoding="utf-8")
    (trained / "recipe.toml").write_text(whole.replace("d_ff = 13", "d_ff = 17"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"13.*17"):
        recipe.load_translator(trained)
    (trained / "recipe.toml").write_text(whole, encoding="utf-8")
    other = recipe.build({**recipe.read(trained / "recipe.toml")}, 281)
    checkpoint.save_weights(trained / "model.safetensors", other, fingerprint="of another training")
    with pytest.raises(ValueError, match="belongs to another recipe or vocabulary, though its shapes fit"):
        recipe.load_translator(trained)
    Subwords("abc").save(trained / "subwords.json")
    with pytest.raises(ValueError, match=r"subwords\.json is not the vocabulary"):
        recipe.load_translator(trained)


def test_an_average_is_the_mean_of_the_states_and_a_model_of_its_own(trained, tmp_path):
    translator = recipe.load_translator(trained)
    with pytest.raises(ValueError, match="nothing to average"):
        recipe.average_snapshots(trained, tmp_path / "mean")
    state = translator.model.state_dict()
    (trained / "snapshots").mkdir()
    for k in (1, 5):
        scaled = {name: k * tensor for name, tensor in state.items()}
        checkpoint.save(trained / "snapshots" / f"{k:09}.pt", {"model": scaled}, identity(translator.recipe))
    files = recipe.average_snapshots(trained, tmp_path / "mean")
    assert [file.name for file in files] == ["000000001.pt", "000000005.pt"]
    mean = recipe.load_translator(tmp_path / "mean")
    assert mean.recipe == translator.recipe
    for name, tensor in mean.model.state_dict().items():
        torch.testing.assert_close(tensor, 3 * state[name])
    recipe.average_snapshots(trained, tmp_path / "one", [trained / "snapshots" / "000000005.pt"])
    torch.testing.assert_close(
        recipe.load_translator(tmp_path / "one").model.generator.proj.bias, 5 * state["generator.proj.bias"]
    )
    with pytest.raises(ValueError, match="mean is there already"):
        recipe.average_snapshots(trained, tmp_path / "mean")
    other = {**translator.recipe, "training": {**translator.recipe["training"], "seed": 5}}
    checkpoint.save(trained / "snapshots" / "000000007.pt", {"model": state}, identity(other))
    with pytest.raises(ValueError, match=r"000000007\.pt belongs to another recipe"):
        recipe.average_snapshots(trained, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_the_explorer_shows_the_weights_of_the_run_that_wrote(trained):
    model, subwords, _ = translator = recipe.load_translator(trained)
    explorer = translator.explore(" drei Hunde ")
    ids = torch.tensor([subwords.encode("drei Hunde")])
    (written,) = greedy(model, ids)
    with torch.no_grad(), record(model) as maps:
        model(ids, torch.tensor([[BOS, *written]]))
    kinds = {kind.name: kind for kind in explorer.kinds}
    assert list(kinds) == ["source", "encoder", "decoder"]
    for name, kind in kinds.items():
        layer = {"source": "decoder.layers.1.source_attention", "encoder": "encoder.layers.1.self_attention"}
        (weights,) = maps[layer.get(name, "decoder.layers.1.self_attention") + ".weights"]
        assert kind.thousandths.shape[:2] == (2, 11)
        assert abs(kind.thousandths[1] / 1000 - weights[0].numpy()).max() <= 0.0006
    assert kinds["encoder"].rows == kinds["encoder"].columns == kinds["source"].columns
    assert "".join(kinds["encoder"].rows) == "drei▁Hunde"
    assert kinds["source"].rows == kinds["decoder"].rows and kinds["decoder"].rows[-1] == "<eos>"
    assert kinds["decoder"].columns == ["<bos>", *kinds["decoder"].rows[:-1]]
    assert explorer.title.startswith("drei Hunde → ")
    with pytest.raises(ValueError, match="nothing to show"):
        translator.explore(" ")


def test_the_files_of_a_folder_are_plain_text_but_for_the_weights(trained):
    found = tomllib.loads((trained / "recipe.toml").read_text(encoding="utf-8"))
    assert found["model"]["d_ff"] == 13 and len(found["made"]["vocabulary"]) == 64
    assert math.isclose(found["training"]["lr"], 2e-3)


@pytest.mark.parametrize(
    "steps, epochs, losses, value, said",
    [
        (30, 1, [5.0, 3.0], None, ["(1 epoch, 9 tokens)", "weights."]),
        (30, 2, [5.0, 3.0], 2.5, ["(2 epochs, 9 tokens)", "weights. Their value in the validation: 2.5."]),
        (30, 1, [3.0, 4.9], None, ["(1 epoch", "weights."]),  # above where it began, below guessing
        (30, 1, [6.0, 5.5], None, ["(1 epoch", "weights."]),  # above guessing, below where it began
        (30, 1, [5.2, 5.5], None, ["(1 epoch", "weights.", "heed: the training loss has ended at 5.5"]),
        (30, 1, [5.5], None, ["(1 epoch", "weights."]),  # it began there
        (0, 0, [], None, ["(0 epochs", "weights.", "heed: not one update was made"]),
    ],
)
def test_what_has_become_of_a_training_is_said(tmp_path, steps, epochs, losses, value, said):
    lines = [json.dumps({"step": i, "loss": loss}) for i, loss in enumerate(losses)]
    (tmp_path / "log.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = Result(steps, epochs, 9, 65.0, value, "last", "updates")
    found = [*training.summary(result, tmp_path, vocab=round(math.exp(5)))]
    assert len(found) == len(said) and all(part in line for part, line in zip(said, found, strict=True))
