"""What each command of `python -m heed` does; `heed.__main__` reads the words and answers mistakes.

A command is a function of the words that were written, as argparse gives them. The first line of its
docstring is what `--help` says. It imports what it needs when it runs.
"""

import codecs
import json
import os
import shlex
import stat
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path

UNREADABLE = 3  # so many lines that are not UTF-8 are named, the others counted


def train(words):
    """Train a translator as a recipe says. The same command again resumes it."""
    from heed import recipe
    from heed.engine.log import say

    found = recipe.read(words.recipe, words.set)
    use_threads(words.threads)
    if words.check:
        for line in recipe.rehearse(found, words.device):
            say(line)
        return
    folder = words.to or Path("runs", named_by(words.recipe))
    recipe.train(found, folder, words.began, words.device)
    again = f"python -m heed translate {shlex.quote(str(folder))}"
    say(f'The model is in {folder}. Try it: echo "A sentence." | {again}')


def named_by(recipe):
    """The name of the folder for what a recipe trains. ValueError for a recipe that has no name."""
    if recipe == "-" or (Path(recipe).exists() and not stat.S_ISREG(os.stat(recipe).st_mode)):
        raise ValueError("A recipe from a pipe has no name that its folder could have: name one with --to.")
    return Path(recipe).stem


def use_threads(wanted):
    """Compute with so many threads; if no number is given, with those that are fastest now."""
    import torch

    from heed.engine import choose_threads
    from heed.engine.log import say

    there = torch.get_num_threads()
    torch.set_num_threads(wanted or choose_threads())
    if not wanted and torch.get_num_threads() < there:
        say(
            f"heed: {torch.get_num_threads()} of {there} threads are faster just now; other programs may use "
            "this machine. --threads N computes with N.",
            sys.stderr,
        )


def translate(words):
    """Translate files, or the standard input, line by line: one line out for each line in."""
    shown = not words.quiet and (bool(words.files) or not sys.stdin.isatty())
    if not words.files and sys.stdin.isatty() and not words.quiet:
        print("Write a sentence and press Enter. Ctrl-D ends (Windows: Ctrl-Z, Enter).", file=sys.stderr)
    unreadable = Unreadable()
    with at_work(words) as model, Count(shown) as count:
        for lines in arriving(words.files, unreadable):
            for translation in model([line.strip() for line in lines], count.batch):
                put(one_line(translation))
            count.add(len(lines))
            put(None)
    unreadable.summary()


def evaluate(words):
    """Translate a test set and score it: BLEU and chrF, each with its 95 % interval and its signature."""
    from heed.evaluate import bleu, chrf

    pairs = test_set(words)
    sources, references = zip(*pairs, strict=True)
    began = time.monotonic()
    with at_work(words) as model, Count(True) as count:
        written = model(sources, count.batch)
    seconds = time.monotonic() - began
    if words.save:
        text = "".join(f"{one_line(line)}\n" for line in written)
        words.save.write_text(text, encoding="utf-8", newline="\n")
    scores = {"BLEU": bleu(written, references), "chrF": chrf(written, references)}
    if words.json:
        said = {"sentences": len(written), "seconds": round(seconds, 2)}
        print(json.dumps(said | {name: score._asdict() for name, score in scores.items()}))
        return
    print(f"{len(written):,} {'sentence' if len(written) == 1 else 'sentences'} in {seconds:.1f} seconds")
    for name, score in scores.items():
        interval = f"from {score.low:.1f} to {score.high:.1f}"
        if len(written) == 1:
            interval = "of one sentence, which has no interval"
        print(f"{name} {score.value:.1f}, {interval}   {score.signature}")


def test_set(words):
    """The pairs that --test names, or else the recipe of the model."""
    from heed import recipe

    match words.test:
        case None if is_exported(words.model):
            raise ValueError(
                f"{words.model} is an exported model, without a recipe: name a test with --test."
            )
        case None:
            return recipe.sentences(recipe.read(words.model / "recipe.toml"), "test")
        case ["multi30k"]:
            return recipe.sentences({"data": {"test": "multi30k"}}, "test")
        case [source, reference]:
            return recipe.parallel(source, reference)
    raise ValueError("--test takes the word multi30k, or two files: sentences and references.")


def average(words):
    """Make a model whose weights are the means over several snapshots of another one."""
    from heed import recipe

    to = words.to or words.model.with_name(words.model.name + "-average")
    files = recipe.average_snapshots(words.model, to, words.files)
    print(f"The average of {', '.join(file.name for file in files)} is in {to}.")


def export(words):
    """Write a trained model as a folder that another engine loads, CTranslate2, with its tokenizer."""
    from heed import recipe
    from heed.recipe.export import compare

    to = words.folder or words.model.with_name(f"{words.model.name}-{words.to}-{words.kind}")
    lines = (
        [line.strip() for some in arriving([words.check], Unreadable()) for line in some]
        if words.check
        else []
    )
    translator = recipe.load_translator(words.model, weights=words.weights)
    recipe.export(translator, to, words.kind)
    print(f"The exported model is in {to}.")
    if words.check:
        differences = compare(translator, to, lines)
        print(f"{len(lines) - len(differences):,} of {len(lines):,} translations are the same.")
        for line, ours, theirs, log_odds in differences[:5]:
            print(f"Line {line + 1}: {ours}\n  exported: {theirs}")
            print(f"  Where they part, our token has {log_odds:.4f} more log P.")
        far = [d for d in differences if not abs(d.log_odds) < 0.05]
        if words.kind == "float32" and far:
            raise ValueError(
                f"In float32 both should write the same, but for tokens that are equally probable. In "
                f"{len(far):,} lines they do not, such as line {far[0].line + 1}. Do not use it; report it."
            )


def show(words):
    """Write a page: where each layer and head looked at one sentence, or, with --live, a translator."""
    from heed import recipe

    if words.to.exists() and not words.to.read_bytes()[:15].lower().startswith(b"<!doctype html>"):
        raise ValueError(
            f"{words.to} is there, and is no page that could be replaced. Name another with --to."
        )
    if words.live:
        from heed.recipe import live

        translator = recipe.load_translator(words.model, weights=words.weights)
        page = live.page(translator, f"The translator of {words.model.resolve().name}", words.sentence)
        words.to.write_text(page, encoding="utf-8", newline="\n")
        print(f"Open {words.to} in a browser: it translates, without a network.")
        return
    if not words.sentence:
        raise ValueError("There is nothing to show: name a sentence, or --live for a page that translates.")
    explorer = recipe.load_translator(words.model, weights=words.weights).explore(words.sentence)
    print(f"{explorer.title}\nOpen {explorer.save(words.to)} in a browser.")


def plot(words):
    """Draw the curves of trainings, from their log.jsonl: loss and validation, several runs in one figure."""
    from heed.engine.log import read_log

    logs = {}
    for run in words.runs:
        lines = read_log(run / "log.jsonl" if run.is_dir() else run)
        if not any("loss" in line for line in lines):
            raise ValueError(f"{run} has no log.jsonl with a training in it.")
        logs[run.name if run.name not in logs else str(run)] = lines
    if words.tensorboard:
        from heed.engine.tensorboard import write_events

        write_events(logs, words.tensorboard)
        print(f"The events are in {words.tensorboard}. See them: tensorboard --logdir {words.tensorboard}")
        return
    from heed.plot.runs import runs

    figure = runs(logs).figure
    figure.savefig(words.to)
    print(f"The curves of {', '.join(logs)} are in {words.to}.")


def keys(words):
    """Say what may stand in a recipe: every key, its default and what it means."""
    from heed import recipe

    before = None
    for section, key, default, wanted, meaning, free in recipe.reference():
        if section != before:
            print(f"\n[{section}]" if before else f"[{section}]")
            before = section
        print(f"{key} = {default}" if default else f"{key}: not given")
        print(f"    {meaning}{'; may change in a resumed training' if free else ''}\n    {wanted}")


# --- A model at work ----------------------------------------------------------------------------------------


def is_exported(folder):
    """Whether this is a folder that `export` has written."""
    return (folder / "model.bin").is_file()


class at_work:
    """The model of a folder, trained or exported, as a function of lines: `with at_work(words) as model`.

    model(lines, watch) gives as many translations; watch is called with the number of those made so far.
    """

    def __init__(self, words):
        if is_exported(words.model):
            self.helpers, self.model = nullcontext(), exported(words)
            return
        from heed import recipe

        translator = recipe.load_translator(words.model, words.device, words.precision, words.weights)
        self.helpers, search = workers(words, translator), wanted_search(words)
        self.model = lambda lines, watch: translator.translate(lines, search, self.inside, watch)

    def __enter__(self):
        self.inside = self.helpers.__enter__()
        return self.model

    def __exit__(self, *error):
        return self.helpers.__exit__(*error)


def exported(words):
    """An exported model as a function."""
    from heed.recipe.export import Exported

    for name, usual in (("device", "cpu"), ("precision", "fp32"), ("weights", None)):
        if getattr(words, name) != usual:
            raise ValueError(f"--{name} is for a trained model; {words.model} is an exported one.")
    engine = Exported(words.model, words.workers or os.cpu_count() or 1)
    return lambda lines, watch: engine.translate(lines, words.beam or 1)


def wanted_search(words):
    """The search asked for: greedy, or a beam of the width given."""
    from heed.decode import beam, greedy

    return greedy if words.beam is None else partial(beam, width=words.beam)


def workers(words, translator):
    """The processes that translate: as many as asked for, else one a core; for one on a GPU, this one."""
    from torch import get_num_threads

    from heed.workers import Workers

    if words.device != "cpu":
        if words.workers not in (None, 1):
            raise ValueError(f"--workers {words.workers} is for --device cpu; a GPU is shared by none.")
        return nullcontext()
    return Workers(translator.model, words.workers or get_num_threads())


# --- Lines in, lines out ------------------------------------------------------------------------------------


def one_line(translation):
    """A line feed inside would tear the lines apart."""
    return " ".join(translation.split())


def put(line):
    """Write a line to the standard output; None hands on what was written. OSError says what did not work."""
    try:
        if line is None:
            sys.stdout.flush()
        else:
            print(line)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(f"The translations could not be written: {error.strerror}.") from error


class Unreadable:
    """Says on stderr which lines are not UTF-8; they are translated all the same."""

    def __init__(self):
        self.n = 0

    def __call__(self, number, error):
        self.n += 1
        if self.n <= UNREADABLE:
            print(
                f"heed: line {number} is not UTF-8: {error.reason} at byte {error.start}; replaced.",
                file=sys.stderr,
            )

    def summary(self):
        """Say how many there were besides those that were named."""
        if self.n > UNREADABLE:
            print(f"heed: {self.n - UNREADABLE:,} more lines are not UTF-8.", file=sys.stderr)


class Count:
    """How many sentences are translated, and how fast: a line that is replaced, or one a minute."""

    def __init__(self, shown):
        from heed.engine.log import Screen

        self.n, self.screen = 0, Screen(shown)

    def __enter__(self):
        self.screen.__enter__()
        return self

    def __exit__(self, *error):
        self.screen.__exit__(*error)

    def add(self, n):
        """So many lines more are done."""
        self.n += n

    def batch(self, n):
        """So many are done since the last `add`."""
        done, seconds = self.n + n, time.monotonic() - self.screen.began
        self.screen.say(f"{done:,} sentences  {done / max(seconds, 1e-9):,.0f} a second")


def arriving(files, warn):
    """The lines of files, or of the standard input, in lists, as they come: typed ones one by one.

    Bytes that are not UTF-8 become a replacement character, and warn(line number, error) is called; a byte
    order mark before the first line of a file is left out.
    """
    for name in files or ["-"]:
        if str(name) == "-":
            yield from lines_of(sys.stdin.buffer, warn)
            continue
        try:
            file = Path(name).open("rb")
        except OSError as error:
            raise ValueError(f"{name} cannot be read: {error.strerror}.") from None
        with file:
            yield from lines_of(file, warn)


def lines_of(stream, warn):
    """The lines of one stream of bytes."""
    rest, n = b"", 0

    def text(line):
        nonlocal n
        n += 1
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError as error:
            warn(n, error)
            return line.decode("utf-8", "replace")

    while data := stream.read1(1 << 20):
        *lines, rest = (rest + data).split(b"\n")
        if lines and n == 0:
            lines[0] = lines[0].removeprefix(codecs.BOM_UTF8)
        if lines:
            yield [text(line) for line in lines]
    if n == 0:
        rest = rest.removeprefix(codecs.BOM_UTF8)
    if rest:
        yield [text(rest)]
