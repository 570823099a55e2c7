"""The commands: train a translator from a recipe, and use it.

    python -m heed train recipes/multi30k-10min.toml
    echo "Ein Hund läuft durch den Schnee." | python -m heed translate runs/multi30k-10min

A command imports what it needs when it runs: so a mistake in the words is answered before torch is loaded,
and the time that loading takes is a part of a recipe's minutes.
"""

import argparse
import codecs
import os
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path

DEVICES = ("cpu", "cuda", "mps")


def train(words):
    """Train a translator as a recipe says. The same command again resumes it."""
    from heed import recipe

    folder = words.to or Path("runs", Path(words.recipe).stem)
    recipe.train(recipe.read(words.recipe, words.set), folder, words.began, words.device)
    recipe.say(f'The model is in {folder}. Try it: echo "A sentence." | python -m heed translate {folder}')


def translate(words):
    """Translate what comes in at the standard input, line by line: one line out for each line in."""
    from heed import recipe

    translator = recipe.load(words.model, words.device, words.precision)
    if sys.stdin.isatty():
        print("Write a sentence and press Enter. Ctrl-D ends (Windows: Ctrl-Z, Enter).", file=sys.stderr)
    with workers(words, translator) as helpers:
        for lines in arriving(sys.stdin.buffer, warn_of):
            sentences = [line.strip() for line in lines]
            for translation in translator.translate(sentences, search(words), helpers):
                print(" ".join(translation.split()))  # a line feed inside would tear the lines apart
            sys.stdout.flush()


def evaluate(words):
    """Translate a test set and score it: BLEU and chrF, each with its 95 % interval and its signature."""
    from heed import recipe
    from heed.evaluate import bleu, chrf

    translator = recipe.load(words.model, words.device, words.precision)
    match words.test:
        case None:
            pairs = recipe.sentences(translator.recipe, "test")
        case ["multi30k"]:
            pairs = recipe.sentences({"data": {"test": "multi30k"}}, "test")
        case [source, reference]:
            pairs = recipe.parallel(source, reference)
        case _:
            raise ValueError("--test takes the word multi30k, or two files: sentences and references.")
    sources, references = zip(*pairs, strict=True)
    began = time.monotonic()
    with workers(words, translator) as helpers:
        written = translator.translate(sources, search(words), helpers)
    print(f"{len(written):,} sentences in {time.monotonic() - began:.1f} seconds")
    for name, score in (("BLEU", bleu(written, references)), ("chrF", chrf(written, references))):
        print(f"{name} {score.value:.1f}, from {score.low:.1f} to {score.high:.1f}   {score.signature}")


def average(words):
    """Make a model whose weights are the means over several snapshots of another one."""
    from heed import recipe

    to = words.to or words.model.with_name(words.model.name + "-average")
    files = recipe.average(words.model, to, words.files)
    print(f"The average of {', '.join(file.name for file in files)} is in {to}.")


def export(words):
    """Write a trained model as a folder that another engine loads, CTranslate2, with its tokenizer."""
    from heed import recipe
    from heed.recipe.export import compare

    to = words.folder or words.model.with_name(f"{words.model.name}-{words.to}-{words.kind}")
    lines = words.check.read_text(encoding="utf-8").splitlines() if words.check else []
    translator = recipe.load(words.model)
    recipe.export(translator, to, words.kind)
    print(f"The exported model is in {to}.")
    if words.check:
        same = compare(translator, to, [line.strip() for line in lines])
        print(f"{same:,} of {len(lines):,} translations are the same.")
        if words.kind == "float32" and same < 0.99 * len(lines):
            raise ValueError("In float32 at least 99 of 100 should be. Do not use it; report it, please.")


def show(words):
    """Translate one sentence and write a page that shows where each layer and head of the model looked."""
    from heed import recipe

    explorer = recipe.load(words.model).explore(words.sentence)
    print(f"{explorer.title}\nOpen {explorer.save(words.to)} in a browser.")


def search(words):
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


def warn_of(number, error):
    """Say on stderr which line is not UTF-8; it is translated all the same."""
    print(
        f"heed: line {number} is not UTF-8: {error.reason} at byte {error.start}; replaced.", file=sys.stderr
    )


def arriving(stream, warn):
    """The lines of a stream of bytes, in lists, as they come: those of a file at once, typed ones one by one.

    Bytes that are not UTF-8 become a replacement character, and warn(line number, error) is called; a byte
    order mark before the first line is left out.
    """
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


def positive(word):
    """A whole number, 1 or more."""
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"{word} is no whole number of 1 or more")
    return int(word)


def parser():
    """What may be written after `python -m heed`."""
    top = argparse.ArgumentParser("python -m heed", description="Train a translator, and use it.")
    commands = top.add_subparsers(required=True, dest="command")
    added = {}
    for function in (train, translate, evaluate, average, export, show):
        about = function.__doc__.replace("%", "%%")
        added[function] = commands.add_parser(function.__name__, help=about, description=about)
        added[function].set_defaults(run=function)

    add = added[train].add_argument
    add("recipe", help="a TOML file, or the name of one of the course's own")
    add("--to", type=Path, metavar="FOLDER", help="where the model goes; else runs/ and the recipe's name")
    add("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change the recipe")
    add("--device", choices=DEVICES, help="else the best that is there")

    for function in (translate, evaluate, average, export, show):
        added[function].add_argument("model", type=Path, help="the folder of a trained model")
    for function in (translate, evaluate):
        about = "search with a beam of this width; else greedily"
        added[function].add_argument("--beam", type=int, metavar="WIDTH", help=about)
        added[function].add_argument("--device", choices=DEVICES, default="cpu", help="else cpu")
        about = "what it computes in: fp32, bf16, or auto, the faster of the two here; else fp32"
        kinds = ("fp32", "bf16", "auto")
        added[function].add_argument("--precision", choices=kinds, default="fp32", help=about)
        about = "processes that translate, each with one thread; else one a core"
        added[function].add_argument("--workers", type=positive, metavar="N", help=about)

    about = "the word multi30k, or two files: sentences and references; else the recipe's test"
    added[evaluate].add_argument("--test", nargs="+", metavar="FILE", help=about)

    add = added[average].add_argument
    add("files", nargs="*", type=Path, help="snapshots or checkpoints; else all of the model's snapshots")
    add("--to", type=Path, metavar="FOLDER", help="where the new model goes; else MODEL-average")

    add = added[export].add_argument
    add("--to", choices=("ctranslate2",), required=True, help="the engine")
    add("--kind", default="float32", help="how matrices are stored: int8, float16, …; else float32")
    add("--folder", type=Path, help="where it goes; else MODEL-ctranslate2-KIND")
    about = "translate this file's lines with both, and say how many translations are the same"
    add("--check", type=Path, metavar="FILE", help=about)

    add = added[show].add_argument
    add("sentence", help="in quotation marks")
    add("--to", type=Path, default=Path("attention.html"), metavar="FILE", help="else attention.html")
    return top


def main(words=None):
    """Run one command. What is wrong is said in a sentence; Ctrl-C and a reader who leaves end it quietly.

    words: what stands after `python -m heed`; the program's own arguments if it is not given

    Returns the status with which the process should end.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", newline="\n")
    began = time.monotonic()
    words = parser().parse_args(words)
    words.began = began
    from heed.speed import keep_memory

    keep_memory()
    try:
        words.run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains as it ends
    except KeyboardInterrupt as stopped:
        print(str(stopped) or "Stopped.", file=sys.stderr)
        return 130
    except (ValueError, OSError) as error:
        print(f"heed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
