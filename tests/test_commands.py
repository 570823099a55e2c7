"""`python -m heed`: every command from its words to what it prints, and what it says to a mistake."""

import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from heed import __version__, recipe
from heed.__main__ import complain, interruptible, main, sentence
from heed.checkpoint import load, save
from heed.commands import Count, Unreadable, arriving, lines_of, workers
from heed.data import numbers
from heed.engine import Result
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

    def run(*words, given="", typed=False):
        data = given if isinstance(given, bytes) else given.encode()
        stdin = io.TextIOWrapper(io.BytesIO(data))
        stdin.isatty = lambda: typed
        monkeypatch.setattr("sys.stdin", stdin)
        capsys.readouterr()
        status = main([str(word) for word in words])
        return status, *capsys.readouterr()

    return run


def command(*words, **options):
    """`python -m heed` in a process of its own, in an environment whose language is not UTF-8."""
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONUNBUFFERED", None)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    words = [sys.executable, "-m", "heed", *map(str, words)]
    return subprocess.Popen(words, env=environment, **pipes | options)


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
    n = sum(len(recipe.load_translator("model").subwords.encode(target)) <= 3 for _, target in DIGITS)
    assert re.search(rf"^{n} pairs of at most 5 tokens, {len(DIGITS) - n} left out", out, re.MULTILINE)
    assert re.match(
        r"The model: at most [\d,]+ parameters; with gradients and the optimizer's state [\d.]+ MB", out
    )


def test_the_minutes_of_a_recipe_begin_with_the_command(said, monkeypatch):
    given = {}

    def fit(*positional, **named):
        given.update(named)
        return Result(7, 1, 70, 3.0, 2.5, "best", "minutes")

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
    assert status == 1 and "the sentences to train and validate with are others" in error
    assert error.count("\n") == 1


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
        model = recipe.load_translator(trained / "model", precision=precision).model
        assert {p.dtype for p in model.parameters()} == {dtype}
        assert said("translate", "model", "--precision", precision, given="drei\n")[:2] == (0, "three\n")
    with pytest.raises(ValueError, match='precision must be "auto", "bf16" or "fp32"'):
        recipe.load_translator(trained / "model", precision="half")


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
    lines = list(lines_of(typed, lambda number, error: warned.append((number, error.start))))
    assert lines == [["eins"], ["zwei"], ["drei ä", ""], ["rest�"]] and warned == [(5, 4)]
    assert list(lines_of(Typed(), warned.append)) == []
    assert list(lines_of(Typed(b"\xef\xbb\xbfeins"), warned.append)) == [["eins"]] and len(warned) == 1


def test_files_are_translated_one_after_the_other_and_a_dash_is_the_standard_input(said, trained):
    (trained / "file one").write_bytes(b"\xef\xbb\xbfdrei\nvier")
    (trained / "two").write_bytes(b"acht\n")
    assert said("translate", "model", "file one", "-", "two", given="neun\n")[1].split() == [
        *("three", "four", "nine", "eight"),
    ]
    status, out, error = said("translate", "model", "file one", "nowhere")
    assert (
        status == 1 and out.split() == ["three", "four"] and "nowhere cannot be read: No such file" in error
    )
    assert [*arriving([trained / "file one"], Unreadable())] == [["drei"], ["vier"]]


def test_progress_is_shown_in_a_terminal_unless_it_is_not_wanted(said, monkeypatch, trained):
    lines = "".join(f"{pair[0]}\n" for pair in DIGITS)
    (trained / "digits").write_text(lines, encoding="utf-8")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    shown = said("translate", "model", "digits")[2]
    assert f"{len(DIGITS)} sentences" in shown and shown.endswith("\r\x1b[K")  # and it vanishes
    assert f"{2 * len(DIGITS)} sentences" in said("translate", "model", "digits", "digits")[2]
    assert f"{len(DIGITS)} sentences" in said("translate", "model", given=lines)[2]
    assert f"{len(DIGITS)} sentences" in said("evaluate", "model", "--test", "digits", "digits")[2]
    assert "sentences" not in said("translate", "model", given=lines, typed=True)[2]
    assert said("translate", "model", "digits", "--quiet")[2] == ""


def test_how_fast_it_translates_is_said(monkeypatch):
    written, now = [], [10.0]
    monkeypatch.setattr("heed.engine.log.Screen.say", lambda screen, text: written.append(text))
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with Count(True) as count:
        now[0] = 10.5
        count.batch(7)
        count.add(20)
        now[0] = 12.0
        count.batch(5)
    assert written == ["7 sentences  14 a second", "25 sentences  12 a second"]


def test_who_types_is_told_how_to_end_and_a_file_needs_no_word(said, trained):
    (trained / "line").write_text("drei\n", encoding="utf-8")
    assert said("translate", "model", given="drei\n", typed=True)[2].startswith("Write a sentence")
    assert "Write" not in said("translate", "model", given="drei\n")[2]
    assert "Write" not in said("translate", "model", "line", typed=True)[2]
    assert "Write" not in said("translate", "model", "--quiet", given="drei\n", typed=True)[2]


def test_a_line_that_is_not_utf8_is_named_and_translated_all_the_same(said):
    given = "drei\nfünf\n".encode() + "fünf\n".encode("latin-1") + b"acht\n\xff\xfe"
    status, out, error = said("translate", "model", given=given)
    assert status == 0 and len(out.splitlines()) == 5 and out.splitlines()[3] == "eight"
    assert [line.split(":")[1] for line in error.splitlines()] == [
        " line 3 is not UTF-8",
        " line 5 is not UTF-8",
    ]
    *named, last = said("translate", "model", given=b"\xff\n" * 50)[2].splitlines()
    assert len(named) == 3 and last == "heed: 47 more lines are not UTF-8."
    assert len(said("translate", "model", given=b"\xff\n" * 3)[2].splitlines()) == 3


def test_a_complaint_comes_after_what_was_written_and_despite_a_reader_who_left(monkeypatch, capsys):
    order = []
    monkeypatch.setattr("sys.stdout.flush", lambda: order.append("written"))
    monkeypatch.setattr("sys.stderr.write", order.append)
    assert complain("no") == 1 and order[:2] == ["written", "heed: no"]
    monkeypatch.undo()
    with open(os.open(os.devnull, os.O_RDONLY)) as gone:
        monkeypatch.setattr("sys.stdout", gone)
        assert complain("no") == 1


def test_a_process_of_its_own_answers_in_utf8(trained):
    run = command("translate", trained / "model")
    out, error = run.communicate("fünf\nacht\n".encode(), timeout=300)
    assert (run.returncode, out.splitlines()) == (0, [b"five", b"eight"]) and not error


def test_a_program_that_waits_for_an_answer_gets_it(trained):
    with command("translate", trained / "model") as run:
        guard = threading.Timer(120, run.kill)
        guard.start()
        for given, answer in (b"drei\n", b"three"), (b"acht\n", b"eight"):
            run.stdin.write(given)
            run.stdin.flush()
            assert run.stdout.readline().strip() == answer
        guard.cancel()


@pytest.mark.skipif(os.name != "posix", reason="names are bytes there")
@pytest.mark.parametrize("name", ["größe".encode(), "größe".encode("latin-1")])
def test_a_name_comes_out_as_it_is_whatever_the_language(name):
    run = command("translate", os.fsdecode(name))
    _, error = run.communicate(timeout=300)
    assert run.returncode == 1 and name in error and b"Traceback" not in error


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


def test_scores_as_json_and_translations_in_a_file(said, trained):
    status, out, _ = said("evaluate", "model", "--json", "--save", "written")
    found = json.loads(out)
    assert status == 0 and found["sentences"] == len(DIGITS) and found["chrF"]["value"] == 100.0
    assert 0 < found["seconds"] == round(found["seconds"], 2)
    assert {"value", "signature", "low", "high"} == found["BLEU"].keys()
    assert (trained / "written").read_text(encoding="utf-8").splitlines() == [pair[1] for pair in DIGITS]


def test_one_sentence_has_no_interval(said, trained):
    for name in ("one.de", "one.en"):
        (trained / name).write_text("drei\n", encoding="utf-8")
    out = said("evaluate", "model", "--test", "one.de", "one.en")[1]
    assert out.startswith("1 sentence in ") and out.count("of one sentence, which has no interval") == 2


def test_an_exported_model_translates_and_is_evaluated_too(said, monkeypatch):
    pytest.importorskip("ctranslate2")
    assert said("export", "model", "--to", "ctranslate2", "--folder", "engine")[0] == 0
    lines = "".join(f"{source}\n" for source, _ in DIGITS)
    for beam in ([], ["--beam", 3]):
        status, out, _ = said("translate", "engine", *beam, given=lines)
        assert status == 0 and out.splitlines() == [target for _, target in DIGITS]
    assert "chrF 100.0" in said("evaluate", "engine", "--test", "train.de", "train.en")[1]
    assert "name a test with --test" in said("evaluate", "engine")[2]
    asked = []

    class Engine:
        def __init__(self, folder, workers):
            self.workers = workers

        def translate(self, lines, width):
            asked.append((self.workers, width))
            return lines

    monkeypatch.setattr(sys.modules["heed.recipe.export"], "Exported", Engine)
    for cores, *more in ([5], [None], [5, "--workers", 3, "--beam", 4]):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        assert said("translate", "engine", *more, given="drei\n")[0] == 0
    assert asked == [(5, 1), (1, 1), (3, 4)]
    for words in (["--precision", "bf16"], ["--weights", "best"], ["--device", "cuda"]):
        assert f"{words[0]} is for a trained model" in said("translate", "engine", *words, given="drei\n")[2]


def test_the_weights_of_a_training_that_was_killed_can_be_used(said, trained):
    shutil.copytree(trained / "model", trained / "killed")
    (trained / "killed" / "model.safetensors").unlink()
    status, _, error = said("translate", "killed", given="drei\n")
    assert status == 1 and "has not come to an end" in error and "--weights last or best or average" in error
    snapshot = sorted((trained / "killed" / "snapshots").iterdir())[-1]
    for which in ("last", "best", "average", snapshot, "model/model.safetensors"):
        assert said("translate", "killed", "--weights", which, given="drei\n")[:2] == (0, "three\n")
    assert said("average", "killed")[0] == 0
    assert said("translate", "killed-average", given="drei\n")[:2] == (0, "three\n")
    assert "no checkpoint at" in said("translate", "killed", "--weights", "nix.pt", given="drei\n")[2]


def test_an_average_that_fails_leaves_nothing_behind(said, trained, monkeypatch):
    def full(*given, **named):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("heed.checkpoint.save_weights", full)
        status, _, error = said("average", "model", "--to", "mean")
    assert status == 1 and error == "heed: mean could not be written: No space left on device.\n"
    assert not [path for path in trained.iterdir() if "mean" in path.name]
    assert said("average", "model", "--to", "mean")[0] == 0


def test_a_page_never_takes_the_place_of_something_else(said, trained):
    before = (trained / "model" / "model.safetensors").read_bytes()
    status, _, error = said("show", "model", "drei", "--to", "model/model.safetensors")
    assert status == 1 and "is no page that could be replaced" in error
    assert (trained / "model" / "model.safetensors").read_bytes() == before


def test_curves_of_several_runs_in_one_figure(said, trained):
    shutil.copytree(trained / "model", trained / "again")
    status, out, _ = said("plot", "model", "again", "model/log.jsonl", "--to", "curves.png")
    assert status == 0 and "The curves of model, again, log.jsonl are in curves.png" in out
    assert (trained / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert "tiny.toml has no log.jsonl" in said("plot", "tiny.toml")[2]
    (trained / "log.jsonl").write_text('{"parameters": 7}\n', encoding="utf-8")
    assert "with a training in it" in said("plot", "log.jsonl")[2]


def test_the_keys_of_a_recipe_are_all_explained(said):
    status, out, _ = said("keys")
    assert status == 0 and out.startswith("[data]\ntrain") and "\n\n[model]\nn_layers" in out
    n_free = sum(key.free for keys in recipe.SECTIONS.values() for key in keys.values())
    assert out.count("; may change in a resumed training\n") == n_free
    for section, rules in recipe.SECTIONS.items():
        assert f"[{section}]" in out
        for name, rule in rules.items():
            value = ": not given" if rule.default is None else f" = {json.dumps(rule.default)}"
            assert len(rule.meaning.split()) >= 3 and rule.meaning in out and f"\n{name}{value}\n" in out
    assert "at most inf" not in out


# --- Resuming -----------------------------------------------------------------------------------------------


def test_more_updates_go_on_and_what_has_changed_is_said_and_kept(said, trained):
    copy = shutil.copytree(trained / "model", trained / "longer")
    step = ["train", "tiny.toml", "--to", "longer"]
    status, out, _ = said(*step, "--set", "training.updates=150", "--set", "training.micro_batches=2")
    assert (
        status == 0
        and "[training] updates was 140 and is 150; [training] micro_batches was 1 and is 2" in out
    )
    assert "from step 140 on" in out and [line["step"] for line in log_of(copy) if "loss" in line][-1] == 150
    assert recipe.read(copy / "recipe.toml")["training"]["updates"] == 150
    status, out, _ = said(*step, "--set", "training.updates=150", "--set", "training.micro_batches=2")
    assert "to the end" in out
    assert said("translate", "longer", given="drei\n")[:2] == (0, "three\n")


def test_sub_words_are_learnt_once(said, trained, monkeypatch):
    copy = shutil.copytree(trained / "model", trained / "once")
    learnt = []
    plain = recipe.learn_subwords
    monkeypatch.setattr(
        "heed.recipe.training.learn_subwords", lambda *given: (learnt.append(1), plain(*given))[1]
    )
    more = ["train", "tiny.toml", "--to", "once", "--set"]
    assert said(*more, "training.updates=141")[0] == 0 and not learnt
    before = (copy / "subwords.json").read_bytes()
    (copy / "subwords.json").unlink()
    assert said(*more, "training.updates=142")[0] == 0 and len(learnt) == 1
    assert (copy / "subwords.json").read_bytes() == before
    assert said("translate", "once", given="drei\n")[:2] == (0, "three\n")


def test_a_first_attempt_without_an_update_gives_way_to_the_next_recipe(said, trained, monkeypatch):
    def no_memory(*given, **named):
        raise RuntimeError(
            "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes"
        )

    with monkeypatch.context() as patch:
        patch.setattr("heed.recipe.training.build", no_memory)
        status, _, error = said("train", "tiny.toml", "--to", "first", "--set", "model.d_ff=999")
        assert status == 1 and "not enough memory: 99 bytes more" in error
    short = ["--set", "training.updates=3"]
    assert said("train", "tiny.toml", "--to", "first", *short)[0] == 0
    state = load(trained / "first" / "checkpoint.pt")
    state["state"]["step"] = 0  # the first step has failed
    for path in (trained / "first").glob("*.*"):
        if path.name not in (".heed", "recipe.toml", "subwords.json", "checkpoint.pt", "log.jsonl"):
            path.unlink()
    shutil.rmtree(trained / "first" / "snapshots")
    save(trained / "first" / "checkpoint.pt", state)
    status, _, error = said("train", "tiny.toml", "--to", "first", *short, "--set", "model.d_ff=30")
    assert status == 0, error
    assert not (trained / "first" / "earlier-1").exists()
    error = said("train", "tiny.toml", "--to", "first", *short, "--set", "model.d_ff=31")[2]
    assert "d_ff was 30 and is 31" in error


def test_what_an_earlier_training_has_left_is_a_model_still(said, trained):
    copy = shutil.copytree(trained / "model", trained / "again1")
    (copy / "checkpoint.pt").unlink()
    log = (copy / "log.jsonl").read_text(encoding="utf-8").splitlines()
    (copy / "log.jsonl").write_text("\n".join(log[:-1]), encoding="utf-8")  # as if it had been stopped
    status, out, _ = said("train", "tiny.toml", "--to", "again1", "--set", "training.updates=3")
    assert status == 0 and "is in again1/earlier-1 now" in out.replace(os.sep, "/")
    assert said("translate", copy / "earlier-1", given="drei\n")[:2] == (0, "three\n")


@pytest.mark.parametrize(
    "change, words",
    {
        "training.minutes=1e-300": "not one update was made",
        "training.lr=1000": "nothing was learnt",
    }.items(),
)
def test_a_training_that_has_taught_nothing_says_so(said, change, words):
    name = change.partition("=")[0].replace(".", "-")
    status, out, error = said(
        "train", "tiny.toml", "--to", name, "--set", change, "--set", "training.updates=20"
    )
    assert status == 0 and words in error and "updates in 0:0" in out


def test_the_end_of_a_training_is_summed_up(said):
    out = said("train", "tiny.toml", "--to", "summed", "--set", "training.updates=30")[1]
    assert re.search(
        r"^30 updates in 0:\d\d \(\d+ epochs, [\d,]+ tokens\): all updates are made\.$", out, re.M
    )
    assert re.search(r"^In use are the \w+ weights\. Their value in the validation: \d\.\d+\.$", out, re.M)


def test_a_recipe_is_checked_without_a_training(said, trained, monkeypatch):
    monkeypatch.setattr("heed.recipe.training.rehearse.__defaults__", (None, 0.5))
    before = sorted(trained.rglob("*"))
    status, out, _ = said("train", "tiny.toml", "--check", "--set", "training.minutes=2")
    assert status == 0 and sorted(trained.rglob("*")) == before
    assert re.search(r"at most [\d,]+ parameters", out) and re.search(
        r"\d+ updates in \d+ s, [\d,]+ tokens/s", out
    )
    assert "140 updates would take about 0:" in out and re.search(
        r"2 minutes would be about [\d,]+ updates", out
    )


class Writer:
    """In the place of torch's `SummaryWriter`: what was written where."""

    written = None

    def __init__(self, folder):
        self.folder = folder

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def add_scalar(self, name, value, step):
        self.written.append((self.folder.name, name, value, step))


def test_a_training_goes_to_tensorboard(said, trained, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=Writer))
    monkeypatch.setattr(Writer, "written", [])
    status, out, _ = said("plot", "model", "--tensorboard", tmp_path)
    assert status == 0 and f"tensorboard --logdir {tmp_path}" in out
    lines = [json.loads(line) for line in (trained / "model" / "log.jsonl").read_text("utf-8").splitlines()]
    losses = [("model", "loss", line["loss"], line["step"]) for line in lines if "loss" in line]
    assert [found for found in Writer.written if found[1] == "loss"] == losses
    assert {name for _, name, _, _ in Writer.written} >= {"norm", "lr", "tokens_per_second", "val_loss"}
    held_out = [line for line in lines if line.get("weights") == "last"]
    assert sum(found[1] == "val_loss" for found in Writer.written) == len(held_out) > 1


def test_without_tensorboard_it_is_said_how_to_get_it(said, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    status, _, error = said("plot", "model", "--tensorboard", tmp_path)
    assert status == 1 and "pip install tensorboard" in error


def test_workers_are_for_processors_and_a_gpu_is_alone():
    for given in (None, 1):
        with workers(SimpleNamespace(device="cuda", workers=given), None) as alone:
            assert alone is None
    with pytest.raises(ValueError, match="--workers 2 is for --device cpu"):
        workers(SimpleNamespace(device="cuda", workers=2), None)


@pytest.mark.parametrize(("words", "fastest", "used"), [([], 2, 2), ([], 3, 3), (["--threads", "1"], 2, 1)])
def test_threads_are_the_fastest_and_it_is_said_if_some_rest(words, fastest, used, said, monkeypatch):
    """Three are there; whoever says how many has them, and hears nothing."""
    seen = []
    torch.set_num_threads(3)
    monkeypatch.setattr("heed.engine.choose_threads", lambda: fastest)
    monkeypatch.setattr("heed.recipe.rehearse", lambda *given: seen.append(torch.get_num_threads()) or [])
    status, _, error = said("train", "tiny.toml", "--check", *words)
    assert status == 0 and seen == [used]
    assert ("threads are faster just now" in error) == (used == 2)


def test_a_check_foretells_updates_and_minutes(said, trained, monkeypatch):
    result = Result(10, 1, 200, 5.0, None, "last", "minutes")
    asked = {}
    monkeypatch.setattr("heed.recipe.training.fit", lambda *given, **more: asked.update(more) or result)
    more = ["--set", "training.patience=3", "--set", "training.cooldown=0.1"]
    _, out, _ = said("train", "tiny.toml", "--check", "--set", "training.minutes=2", *more)
    assert asked["minutes"] == 10 / 60 and not asked["keep"] and asked["every"] == 2**62
    assert not any(asked[name] for name in ("updates", "cooldown", "patience", "validate"))
    assert "10 updates in 5 s, 40 tokens/s" in out and "140 updates would take about 1:10," in out
    assert "2 minutes would be about 240 updates" in out
    result = Result(1, 1, 200, 5.0, None, "last", "minutes")
    for peak, words in (3e9, "; memory, with all that was loaded: 3.0 GB."), (None, "."):
        monkeypatch.setattr("heed.recipe.training.peak_bytes", lambda device, peak=peak: peak)
        out = said("train", "tiny.toml", "--check")[1]
        assert f"1 updates in 5 s, 40 tokens/s{words}\n140 updates would take about 11:40," in out


def test_a_recipe_comes_from_a_pipe_too(said, trained, monkeypatch):
    text = (trained / "tiny.toml").read_text(encoding="utf-8").replace("updates = 140", "updates = 2")
    status, _, error = said("train", "-", given=text)
    assert status == 1 and "name one with --to" in error
    assert said("train", "-", "--to", "piped", given=text)[0] == 0
    if hasattr(os, "mkfifo"):
        os.mkfifo(trained / "fifo")
        writer = threading.Thread(target=lambda: (trained / "fifo").write_text(text, encoding="utf-8"))
        writer.start()
        assert said("train", "fifo", "--to", "piped2")[0] == 0
        writer.join()


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
        (
            "train",
            "tiny.toml",
            "--to",
            "tiny.toml",
        ): "tiny.toml cannot be the folder of a training: File exists",
        (
            "train",
            "tiny.toml",
            "--set",
            "training.seed=99999999999999999999",
        ): "[training] seed is a number that",
        ("train", "tiny.toml", "--set", f"training.every={2**62}"): "every is a number that is too large",
        ("train", "tiny.toml", "--set", f"training.lr=1{'0' * 400}"): "0… (401 characters)",
        ("train", "tiny.toml", "--set", "training.lr=1e30"): "lr is a number that is too large: 1e+30",
        ("train", "tiny.toml", "--set", "training.lr=1e308"): "lr is a number that is too large: 1e+308",
        ("train", "tiny.toml", "--set", f"training.lr={'[' * 5000}"): "it must be a number above 0",
        ("train", "tiny.toml", "--set", "model.n_layers=100000000"): "1 or more, at most 10,000",
        ("train", "tiny.toml", "--set", "model.d_ff=1000000000000"): "at most 16,777,216",
        (
            "train",
            "tiny.toml",
            "--to",
            "new",
            "--set",
            "model.d_model=65536",
            "--set",
            "model.n_layers=100",
        ): "too large for this machine: at most 5,",
        ("train", "deep.toml"): "nested too deeply",
        ("train", "blank.toml", "--to", "blank"): "no pair has words on both sides",
        ("translate", "model", "."): ". cannot be read: Is a directory",
        ("translate", "tiny.toml"): "tiny.toml is no trained model",
    }.items(),
    ids=str,
)
def test_a_mistake_is_answered_with_a_sentence(said, trained, words, sentence):
    (trained / "deep.toml").write_text("data = " + 5000 * "[", encoding="utf-8")
    (trained / "blank.de").write_text("a\n\n", encoding="utf-8")
    (trained / "blank.en").write_text("\nb\n", encoding="utf-8")
    (trained / "blank.toml").write_text(TINY.replace("train.", "blank."), encoding="utf-8")
    status, _, error = said(*words, given="drei\n")
    assert status == 1 and error.startswith("heed: ") and sentence in error and error.count("\n") == 1


def test_what_the_system_says_becomes_a_sentence():
    said = {
        FileExistsError(17, "File exists", "runs"): "runs: File exists.",
        OSError(5, "Input/output error"): "Input/output error.",
        ValueError("as it is"): "as it is",
        RuntimeError("no mistake of a reader"): None,
    }
    for error, words in said.items():
        assert sentence(error) == words
    for error in (
        MemoryError(),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4000 bytes."),
    ):
        assert sentence(error).startswith("there was not enough memory")
    assert "2.00 GiB more" in sentence(RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."))
    assert "memory: 4,000 bytes more were asked for." in sentence(MemoryError("no room for 4000 bytes"))
    assert sentence(MemoryError()).startswith("there was not enough memory. Try")


def test_an_error_that_nobody_has_foreseen_shows_where_it_is(said, monkeypatch):
    def unforeseen(*given, **named):
        raise RuntimeError("shapes do not fit")

    monkeypatch.setattr(recipe.Translator, "translate", unforeseen)
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        said("translate", "model", given="drei\n")


def test_under_torchrun_one_process_alone_says_what_is_mistyped(said, monkeypatch, capsys):
    for rank, n in (("0", 1), ("1", 0)):
        monkeypatch.setenv("RANK", rank)
        with pytest.raises(SystemExit) as end:
            said("train", "tiny.toml", "--updates", "3")
        assert end.value.code == 2 and capsys.readouterr().err.count("unrecognized arguments") == n


def test_a_rank_without_a_world_is_one_process_and_writes(said, trained, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert said("train", "tiny.toml", "--to", "ranked", "--set", "training.updates=2")[0] == 0
    assert said("translate", "ranked", given="drei\n")[0] == 0
    for size, rank in (("two", "0"), ("2", "2"), ("2", "missing")):
        monkeypatch.setenv("WORLD_SIZE", size)
        monkeypatch.setenv("RANK", rank)
        status, _, error = said("train", "tiny.toml", "--to", "ranked")
        assert status == 1 and f"WORLD_SIZE is '{size}' and RANK is '{rank}'" in error


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
    commands = "{train,translate,evaluate,average,export,show,plot,keys}"
    assert ended.value.code == 2 and commands in capsys.readouterr().err


def test_an_unknown_command_is_answered_before_torch_is_loaded():
    run = command("trian")
    _, error = run.communicate(timeout=300)
    assert run.returncode == 2 and b"train" in error
    code = "import sys, heed.__main__ as m; m.parser(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_export_without_its_engine_asks_for_one(said, capsys):
    with pytest.raises(SystemExit) as end:
        said("export", "model")
    assert end.value.code == 2 and "required: --to" in capsys.readouterr().err


def test_help_says_what_the_model_may_be(capsys):
    for name in ("translate", "evaluate", "average", "export", "show"):
        with pytest.raises(SystemExit):
            main([name, "--help"])
        said = " ".join(capsys.readouterr().out.split())
        assert ("trained model, or of an exported one" in said) == (name in ("translate", "evaluate"))


def test_it_says_its_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0 and capsys.readouterr().out == f"heed {__version__}\n"


def test_ctrl_c_is_what_it_was_after_the_words_are_read():
    before = signal.getsignal(signal.SIGINT)
    with interruptible():
        assert signal.getsignal(signal.SIGINT) not in (before, signal.SIG_DFL)
    assert signal.getsignal(signal.SIGINT) == before


def test_a_command_runs_in_a_thread_too(capsys):
    thread = threading.Thread(target=main, args=(["keys"],))
    thread.start()
    thread.join()
    assert capsys.readouterr().out.startswith("[data]")


@pytest.mark.skipif(os.name != "posix", reason="a signal ends another process there")
def test_who_stops_it_in_the_first_second_is_told():
    code = "import os, signal; from heed.__main__ import interruptible\n"
    code += "with interruptible(): os.kill(os.getpid(), signal.SIGINT)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (run.returncode, run.stderr) == (130, b"Stopped.\n")


@pytest.mark.skipif(os.name != "posix", reason="a stream is closed by the shell")
@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_a_closed_stream_does_not_matter_to_who_does_not_use_it(closed):
    command = f"{shlex.quote(sys.executable)} -m heed keys {closed}"
    run = subprocess.run(["sh", "-c", command], capture_output=True, encoding="utf-8", check=False)
    assert run.returncode == 0 and "[data]" in run.stdout and not run.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device here")
def test_an_output_that_is_full_is_said():
    with open("/dev/full", "w") as full:
        with command("keys", stdout=full) as run:
            assert (run.wait(), run.stderr.read()) == (1, b"heed: No space left on device.\n")
        with command("translate", "nowhere", stderr=full) as run:
            assert run.wait() == 1


def test_a_command_keeps_its_memory_for_what_comes_next(said, monkeypatch):
    kept = []
    monkeypatch.setattr("heed.speed.keep_memory", lambda: kept.append(1))
    assert said("keys")[0] == 0 and kept == [1]


@pytest.mark.skipif(os.name != "posix", reason="a stream is closed by the shell")
def test_a_closed_input_is_an_empty_one(trained):
    command = f"{shlex.quote(sys.executable)} -m heed translate {shlex.quote(str(trained / 'model'))} <&-"
    run = subprocess.run(["sh", "-c", command], capture_output=True, encoding="utf-8", check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.mark.skipif(os.name != "posix", reason="a stream is closed by the shell")
def test_who_writes_to_a_closed_output_is_told():
    command = f"{shlex.quote(sys.executable)} -m heed keys >&-"
    run = subprocess.run(["sh", "-c", command], capture_output=True, encoding="utf-8", check=False)
    assert run.returncode == 1 and run.stderr.startswith("heed: the standard output is closed")
