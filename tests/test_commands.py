"""`python -m heed`: every command from its words to what it prints, and what it says to a mistake."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
import torch

from heed import recipe
from heed.__main__ import arriving, main
from heed.data import numbers
from heed.loss import translation_loss
from heed.schedule import noam

ROOT = Path(__file__).parents[1]
DIGITS = sorted({pair[:2] for pair in numbers(200, digits=(1, 1), languages=("de",))})
TINY = """
[data]
train = ["train.de", "train.en"]
val = ["train.de", "train.en"]
test = ["train.de", "train.en"]
vocabulary = 300

[model]
n_layers = 1
d_model = 26
d_ff = 31
n_heads = 2
dropout = 0.0

[training]
updates = 140
tokens = 47
lr = 0.03
precision = "fp32"
log_every = 7
every = 29
keep = 2
"""


def write_tiny(folder):
    """The ten digits in German and English, and a recipe that learns them."""
    for name, side in (("train.de", 0), ("train.en", 1)):
        text = "".join(f"{pair[side]}\n" for pair in DIGITS)
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    (folder / "tiny.toml").write_text(TINY, encoding="utf-8", newline="\n")
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a recipe and the model that `train` has made of it."""
    folder = write_tiny(tmp_path_factory.mktemp("trained"))
    assert main(["train", str(folder / "tiny.toml"), "--to", str(folder / "model"), "--device", "cpu"]) == 0
    return folder


@pytest.fixture
def said(trained, monkeypatch, capsys):
    """Run a command in that folder: (status, standard output, standard error)."""
    monkeypatch.chdir(trained)

    def run(*words, given=""):
        data = given if isinstance(given, bytes) else given.encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        capsys.readouterr()
        status = main([str(word) for word in words])
        return status, *capsys.readouterr()

    return run


def command(*words, **options):
    """`python -m heed` in a process of its own, in an environment whose language is not UTF-8."""
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "OMP_NUM_THREADS": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    words = [sys.executable, "-m", "heed", *map(str, words)]
    return subprocess.Popen(words, env=environment, **pipes, **options)


def log_of(folder):
    """The lines of a training's log, as dictionaries."""
    return [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]


# --- train --------------------------------------------------------------------------------------------------


def test_a_trained_model_is_a_folder(trained):
    names = {path.name for path in (trained / "model").iterdir()}
    assert {"recipe.toml", "subwords.json", "model.safetensors", "log.jsonl", "checkpoint.pt"} <= names
    made = tomllib.loads((trained / "model" / "recipe.toml").read_text(encoding="utf-8"))
    assert made["training"]["lr"] == 0.03 and made["model"]["d_ff"] == 31
    lines = log_of(trained / "model")
    assert [line["step"] for line in lines if "loss" in line][-1] == 140
    assert {"weights", "validation"} <= lines[-2].keys() and lines[-1]["ended"] == "updates"


def test_training_says_where_the_model_is_and_a_second_time_that_it_is_done(trained, said):
    before = (trained / "model" / "model.safetensors").stat().st_mtime_ns
    status, out, _ = said("train", "tiny.toml", "--to", "model")
    assert status == 0 and "has been trained by this recipe" in out
    assert "python -m heed translate model" in out.splitlines()[-1]
    assert (trained / "model" / "model.safetensors").stat().st_mtime_ns == before


def test_the_model_goes_to_runs_and_the_recipes_name(said, trained):
    status, out, _ = said("train", "tiny.toml", "--set", "training.updates=1", "--set", "data.longest=5")
    assert status == 0 and (trained / "runs" / "tiny" / "model.safetensors").is_file()
    n = sum(len(recipe.load("model").subwords.encode(target)) <= 3 for _, target in DIGITS)
    assert re.search(rf"^{n} pairs of at most 5 tokens, {len(DIGITS) - n} left out", out)


def test_the_minutes_of_a_recipe_begin_with_the_command(said, monkeypatch):
    given = {}

    def fit(*positional, **named):
        given.update(named)

    monkeypatch.setattr("heed.recipe.training.fit", fit)
    began = time.monotonic() - 30
    found = recipe.read("tiny.toml", ["training.minutes=2"])
    recipe.train(found, "minutes", began)
    assert 1.3 < given["minutes"] <= 1.5


def test_another_training_is_not_gone_on_with(said, trained):
    status, _, error = said("train", "tiny.toml", "--to", "model", "--set", "training.lr=0.5")
    assert status == 1 and "[training] lr was 0.03 and is 0.5" in error and "--to" in error
    text = (trained / "train.en").read_text(encoding="utf-8")
    (trained / "train.en").write_text(text.replace("seven", "eleven"), encoding="utf-8")
    status, _, error = said("train", "tiny.toml", "--to", "model")
    (trained / "train.en").write_text(text, encoding="utf-8")
    assert status == 1 and "[made] data was" in error and error.count("\n") == 1


def test_no_pair_that_is_short_enough(said):
    status, _, error = said("train", "tiny.toml", "--to", "none", "--set", "training.tokens=2")
    assert status == 1 and f"None of {len(DIGITS)} pairs has between 1 and 2 tokens" in error


@pytest.mark.soak
def test_a_training_that_was_killed_goes_on_as_if_nothing_had_been(trained):
    names = ("left", "killed")
    changes = ["model.dropout=0.3", "training.every=20", "training.updates=300"]
    words = [word for change in changes for word in ("--set", change)]
    train = ["train", str(trained / "tiny.toml"), *words, "--device", "cpu", "--to"]
    killed = command(*train, trained / "killed")
    log = trained / "killed" / "log.jsonl"
    wait_for(lambda: log.is_file() and "validation" in log.read_text(encoding="utf-8"), killed)
    killed.kill()
    killed.communicate()
    assert "ended" not in log.read_text(encoding="utf-8"), "it was too quick to be killed"
    resumed = command(*train, trained / "killed")
    out, error = resumed.communicate(timeout=300)
    assert resumed.returncode == 0 and b"from step " in out, error
    left = command(*train, trained / "left")
    left.communicate(timeout=300)
    one, other = ((trained / name / "model.safetensors").read_bytes() for name in names)
    assert one == other
    wanted, found = ([line for line in log_of(trained / name) if "loss" in line] for name in names)
    assert [(line["step"], line["loss"]) for line in wanted] == [
        (line["step"], line["loss"]) for line in found
    ]


def wait_for(what, process):
    """Until this is so, or the process has ended by itself, or too long."""
    for _ in range(30_000):
        if what() or process.poll() is not None:
            return
        time.sleep(0.01)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends Ctrl-C to all processes of a console")
def test_ctrl_c_saves_says_where_and_ends_quietly(trained):
    folder = trained / "stopped"
    endless = ["--set", "training.updates=100000", "--set", "training.every=100000"]
    run = command("train", trained / "tiny.toml", *endless, "--to", folder, "--device", "cpu")
    wait_for(lambda: (folder / "log.jsonl").is_file() and '"loss"' in (folder / "log.jsonl").read_text(), run)
    run.send_signal(signal.SIGINT)
    _, error = run.communicate(timeout=300)
    assert run.returncode == 130 and b"Traceback" not in error
    assert b"Stopped after step" in error and b"checkpoint.pt" in error
    assert (folder / "model.safetensors").is_file()
    shutil.rmtree(folder)


def test_the_first_hundred_steps_of_the_papers_recipe_on_a_generated_corpus(tmp_path, monkeypatch):
    pairs = numbers(300, digits=(1, 3), languages=("de",))
    for name, side in (("a.de", 0), ("a.en", 1)):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        (tmp_path / name).write_text(text, encoding="utf-8", newline="\n")
    small = ["model.n_layers=2", "model.d_model=32", "model.d_ff=64", "data.vocabulary=300"]
    small += ["training.tokens=600", "training.log_every=1", "training.precision=fp32"]
    corpora = [f'data.{split}=["a.de", "a.en"]' for split in ("train", "val", "test")]
    calls = []

    def loss(model, batch, smoothing):
        calls.append(smoothing)
        if len(calls) == 100:
            signal.raise_signal(signal.SIGINT)  # Ctrl-C: this update is finished, then all is saved
        return translation_loss(model, batch, smoothing)

    monkeypatch.setattr("heed.recipe.training.translation_loss", loss)
    monkeypatch.chdir(tmp_path)
    changes = [word for change in (*small, *corpora) for word in ("--set", change)]
    assert main(["train", "wmt14-base.toml", *changes, "--to", "base", "--device", "cpu"]) == 130
    lines = [line for line in log_of(tmp_path / "base") if "loss" in line]
    assert [line["step"] for line in lines] == list(range(1, 101)) and set(calls) == {0.1}
    for line in lines:
        assert line["lr"] == pytest.approx(noam(1, 512, 4000) * (line["step"] - 0.5), rel=1e-3)
    assert lines[-1]["tokens"] <= 100 * 600
    first, last = (sum(line["loss"] for line in some) / 25 for some in (lines[:25], lines[-25:]))
    assert last < first


@pytest.mark.skipif(os.name != "posix", reason="gloo's processes find one another by sockets of this system")
def test_torchrun_trains_with_two_processes_by_the_same_command(trained, tmp_path):
    short = ["--set", "training.updates=21", "--set", "training.optimizer=adamw", "--device", "cpu"]
    train = ["train", str(trained / "tiny.toml"), *short, "--to"]
    assert main([*train, str(tmp_path / "one")]) == 0
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*torchrun, "-m", "heed", *train, str(tmp_path / "two")],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "2 processes" in done.stdout and done.stdout.count("python -m heed translate") == 1
    one, two = ([line for line in log_of(tmp_path / name) if "loss" in line] for name in ("one", "two"))
    assert [line["step"] for line in two] == [line["step"] for line in one] == [7, 14, 21]
    assert [line["loss"] for line in two] == pytest.approx([line["loss"] for line in one], rel=1e-4)


# --- translate ----------------------------------------------------------------------------------------------


def test_it_translates_line_by_line(said):
    given = "".join(f"{source}\n" for source, _ in DIGITS)
    status, out, error = said("translate", "model", given=given)
    assert status == 0 and out.splitlines() == [target for _, target in DIGITS] and not error
    status, out, _ = said("translate", "model", "--beam", 3, given=given)
    assert status == 0 and out.splitlines() == [target for _, target in DIGITS]


def test_one_line_in_one_line_out_whatever_comes(said):
    lines = ["drei", "", " \t", "drei\r", "žluť 🐕\x00", "zwei\u2028drei", "x" * 3000, "vier"]
    status, out, _ = said("translate", "model", given="\n".join(lines))
    out = out.removesuffix("\n").split("\n")
    assert status == 0 and len(out) == len(lines)
    assert [out[i] for i in (0, 1, 2, 3, 7)] == ["three", "", "", "three", "four"]
    assert said("translate", "model") == (0, "", "")
    assert said("translate", "model", given=b"\xff\xfe\n")[0] == 0


def test_a_translation_with_a_line_feed_stays_one_line(said, monkeypatch):
    monkeypatch.setattr(recipe.Translator, "translate", lambda self, lines, *rest: ["a\n b\r"] * len(lines))
    assert said("translate", "model", given="x\ny\n")[1] == "a b\na b\n"


def test_any_number_of_workers_says_the_same(said):
    lines = "".join(f"{pair[0]}\n" for pair in DIGITS)
    alone = said("translate", "model", "--workers", 1, given=lines)
    assert alone == said("translate", "model", "--workers", 3, given=lines) and alone[0] == 0
    assert said("evaluate", "model", "--workers", 2)[0] == 0


def test_it_computes_in_the_precision_asked_for(said, trained):
    for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        model = recipe.load(trained / "model", precision=precision).model
        assert {p.dtype for p in model.parameters()} == {dtype}
        assert said("translate", "model", "--precision", precision, given="drei\n")[:2] == (0, "three\n")
    with pytest.raises(ValueError, match='precision must be "auto", "bf16" or "fp32"'):
        recipe.load(trained / "model", precision="half")


def test_workers_are_whole_numbers_on_the_processor(said, capsys):
    for word in ("0", "-1", "two"):
        with pytest.raises(SystemExit):
            said("translate", "model", "--workers", word)
        assert f"{word} is no whole number of 1 or more" in capsys.readouterr().err


class Typed:
    """A stream that gives what is typed, piece by piece."""

    def __init__(self, *pieces):
        self.pieces = list(pieces)

    def read1(self, n):
        return self.pieces.pop(0) if self.pieces else b""


def test_lines_come_as_they_are_typed_whole_and_as_utf8():
    typed = Typed(b"\xef\xbb\xbfeins\nzw", b"ei\ndre", b"i \xc3", b"\xa4\n\nrest\xc3")
    warned = []
    lines = list(arriving(typed, lambda number, error: warned.append((number, error.start))))
    assert lines == [["eins"], ["zwei"], ["drei ä", ""], ["rest�"]] and warned == [(5, 4)]
    assert list(arriving(Typed(), warned.append)) == []
    assert list(arriving(Typed(b"\xef\xbb\xbfeins"), warned.append)) == [["eins"]] and len(warned) == 1


def test_a_line_that_is_not_utf8_is_named_and_translated_all_the_same(said):
    given = "drei\nfünf\n".encode() + "fünf\n".encode("latin-1") + b"acht\n\xff\xfe"
    status, out, error = said("translate", "model", given=given)
    assert status == 0 and len(out.splitlines()) == 5 and out.splitlines()[3] == "eight"
    assert [line.split(":")[1] for line in error.splitlines()] == [
        " line 3 is not UTF-8",
        " line 5 is not UTF-8",
    ]


def test_a_process_of_its_own_answers_in_utf8(trained):
    run = command("translate", trained / "model")
    out, error = run.communicate("fünf\nacht\n".encode(), timeout=300)
    assert (run.returncode, out.splitlines()) == (0, [b"five", b"eight"]) and not error


@pytest.mark.skipif(sys.platform == "win32", reason="no such pipes there")
def test_a_reader_who_leaves_ends_it_quietly(trained):
    with command("translate", trained / "model") as run:
        run.stdout.close()
        run.stdin.write(b"drei\n" * 3)
        run.stdin.close()
        assert run.wait(timeout=300) == 0 and run.stderr.read() == b""


# --- evaluate, average, show --------------------------------------------------------------------------------


def test_scores_come_with_their_interval_and_signature(said):
    status, out, _ = said("evaluate", "model")
    first, bleu, chrf = out.splitlines()
    assert status == 0 and first.startswith(f"{len(DIGITS)} sentences in ")
    assert re.fullmatch(r"BLEU [\d.]+, from [\d.]+ to [\d.]+   nrefs:1.*tok:13a.*", bleu)
    assert chrf.startswith("chrF 100.0, from 100.0 to 100.0   nrefs:1")


def test_it_evaluates_on_two_files(said, trained):
    (trained / "wrong").write_text("".join("<<>>\n" for _ in DIGITS), encoding="utf-8")
    out = said("evaluate", "model", "--test", "train.de", "wrong", "--beam", 2)[1]
    assert "chrF 0.0, from 0.0 to 0.0" in out
    (trained / "short").write_text("a\nb\n", encoding="utf-8")
    status, _, error = said("evaluate", "model", "--test", "train.de", "short")
    assert status == 1 and f"has {len(DIGITS)} lines" in error and "has 2" in error
    assert "--test takes" in said("evaluate", "model", "--test", "train.de")[2]


def test_it_evaluates_on_multi30k(said, monkeypatch):
    monkeypatch.setattr("heed.recipe.corpus.multi30k", lambda split: [(s, t, split) for s, t in DIGITS[:3]])
    assert said("evaluate", "model", "--test", "multi30k")[1].startswith("3 sentences in ")


def test_the_average_of_the_snapshots_is_a_model(said, trained):
    status, out, _ = said("average", "model")
    assert status == 0 and "is in model-average" in out
    assert len(list((trained / "model" / "snapshots").glob("*.pt"))) == 2
    assert said("translate", "model-average", given="drei\n")[0] == 0
    assert "is there already" in said("average", "model")[2]
    assert "checkpoint.pt is in one" in said("average", "model", "model/checkpoint.pt", "--to", "one")[1]


def test_the_page_with_the_attention_needs_nothing_else(said, trained):
    status, out, _ = said("show", "model", "drei")
    page = (trained / "attention.html").read_text(encoding="utf-8")
    assert status == 0 and "drei → three" in out and "attention.html" in out
    assert "drei → three" in page and "<table" in page and not re.search(r"(src|href)\s*=|https?://", page)
    said("show", "model", "drei", "--to", "other.html")
    assert (trained / "other.html").is_file()


# --- Mistakes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words, sentence",
    {
        ("train", "nowhere.toml"): "There is no recipe nowhere.toml",
        ("train", "tiny.toml", "--set", "model.n_head=2"): "nearest known one is n_heads",
        ("translate", "nowhere"): "nowhere is no trained model: it has no recipe.toml",
        ("translate", "model", "--beam", "0"): "width",
        ("evaluate", "model", "--test", "nix", "nox"): "nix cannot be read",
        ("show", "model", " "): "nothing to show",
    }.items(),
)
def test_a_mistake_is_answered_with_a_sentence(said, words, sentence):
    status, _, error = said(*words, given="drei\n")
    assert status == 1 and error.startswith("heed: ") and sentence in error and error.count("\n") == 1


def test_a_device_that_does_not_exist_is_refused_with_those_that_do(said):
    with pytest.raises(SystemExit) as ended:
        said("train", "tiny.toml", "--device", "abacus")
    assert ended.value.code == 2


@pytest.mark.skipif(torch.cuda.is_available(), reason="here it is there")
@pytest.mark.parametrize("words", ["train tiny.toml --to far", "translate model", "evaluate model"])
def test_a_device_that_is_not_there_is_never_replaced_by_another(said, words):
    status, out, error = said(*words.split(), "--device", "cuda", given="drei\n")
    assert status == 1 and not out.count("three") and "cuda" in error


def test_without_a_command_all_are_named(capsys):
    with pytest.raises(SystemExit) as ended:
        main([])
    commands = "{train,translate,evaluate,average,export,show}"
    assert ended.value.code == 2 and commands in capsys.readouterr().err


def test_an_unknown_command_is_answered_before_torch_is_loaded():
    run = command("trian")
    _, error = run.communicate(timeout=300)
    assert run.returncode == 2 and b"train" in error
    code = "import sys, heed.__main__ as m; m.parser(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
