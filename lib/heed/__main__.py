"""The commands: train a translator from a recipe, and use it.

    python -m heed train recipes/multi30k-10min.toml
    echo "Ein Hund läuft durch den Schnee." | python -m heed translate runs/multi30k-10min

Here the words of a command are read, and what goes wrong is said in a sentence; what each command does stands
in `heed.commands`. A mistake in the words is answered before torch is loaded, and the time that loading takes
is a part of a recipe's minutes.
"""

import argparse
import os
import re
import signal
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from heed import __version__, commands

DEVICES = re.compile(r"cpu|cuda(:\d+)?|mps")


def positive(word):
    """A whole number, 1 or more."""
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"{word} is no whole number of 1 or more")
    return int(word)


def device(word):
    """cpu, cuda, cuda:1, mps."""
    if not DEVICES.fullmatch(word):
        raise argparse.ArgumentTypeError(f"{word} is none of cpu, cuda, cuda:0, cuda:1, …, mps")
    return word


class Parser(argparse.ArgumentParser):
    """Under torchrun the first process alone says what is wrong with the words."""

    def error(self, message):
        if os.environ.get("RANK", "0") != "0":
            sys.exit(2)
        super().error(message)


def parser():
    """What may be written after `python -m heed`."""
    top = Parser("heed", description="Train a translator, and use it.")
    top.add_argument("--version", action="version", version=f"heed {__version__}")
    subparsers = top.add_subparsers(required=True, dest="command")
    added = {}
    for name in ("train", "translate", "evaluate", "average", "export", "show", "plot", "keys"):
        function = getattr(commands, name)
        about = function.__doc__.splitlines()[0].replace("%", "%%")
        added[name] = subparsers.add_parser(name, help=about, description=about)
        added[name].set_defaults(run=function)

    add = added["train"].add_argument
    add("recipe", help="a TOML file, the name of one of the course's own, or - for the standard input")
    add("--to", type=Path, metavar="FOLDER", help="where the model goes; else runs/ and the recipe's name")
    add("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change the recipe")
    add("--device", type=device, metavar="DEVICE", help="cpu, cuda, cuda:1 or mps; else the best there is")
    add("--threads", type=positive, metavar="N", help="threads that compute; else as many as are fastest now")
    add("--check", action="store_true", help="train nothing: say how large it is, and how long it would take")

    for name in ("translate", "evaluate", "average", "export", "show"):
        about = "the folder of a trained model"
        about += ", or of an exported one" if name in ("translate", "evaluate") else ""
        added[name].add_argument("model", type=Path, help=about)
    for name in ("translate", "evaluate", "export", "show"):
        about = "best, last, average, or a snapshot's file; else those that the training chose"
        added[name].add_argument("--weights", metavar="WHICH", help=about)
    for name in ("translate", "evaluate"):
        add = added[name].add_argument
        add("--beam", type=int, metavar="WIDTH", help="search with a beam of this width; else greedily")
        add("--device", type=device, default="cpu", metavar="DEVICE", help="cpu, cuda, cuda:1, mps; else cpu")
        about = "what it computes in: fp32, bf16, or auto, the faster of the two here; else fp32"
        add("--precision", choices=("fp32", "bf16", "auto"), default="fp32", help=about)
        about = "processes that translate, each with one thread; else one a core"
        add("--workers", type=positive, metavar="N", help=about)

    add = added["translate"].add_argument
    add("files", nargs="*", metavar="FILE", help="what is to be translated; else the standard input")
    add("--quiet", action="store_true", help="show no progress")

    add = added["evaluate"].add_argument
    about = "the word multi30k, or two files: sentences and references; else the recipe's test"
    add("--test", nargs="+", metavar="FILE", help=about)
    add("--json", action="store_true", help="print one JSON object")
    add("--save", type=Path, metavar="FILE", help="write the translations, one a line")

    add = added["average"].add_argument
    add("files", nargs="*", type=Path, help="snapshots or checkpoints; else all of the model's snapshots")
    add("--to", type=Path, metavar="FOLDER", help="where the new model goes; else MODEL-average")

    add = added["export"].add_argument
    add("--to", choices=("ctranslate2",), required=True, help="the engine")
    add("--kind", default="float32", help="how matrices are stored: int8, float16, …; else float32")
    add("--folder", type=Path, help="where it goes; else MODEL-ctranslate2-KIND")
    about = "translate this file's lines with both, and say where the translations differ"
    add("--check", type=Path, metavar="FILE", help=about)

    add = added["show"].add_argument
    add("sentence", nargs="?", default="", help="in quotation marks; with --live an example, or none")
    add("--live", action="store_true", help="write a page that translates what is written into it")
    add("--to", type=Path, default=Path("attention.html"), metavar="FILE", help="else attention.html")

    add = added["plot"].add_argument
    add("runs", nargs="+", type=Path, metavar="RUN", help="folders of trainings")
    add("--to", type=Path, default=Path("curves.png"), metavar="FILE", help="else curves.png")
    about = "write events for TensorBoard in their place, into this folder"
    add("--tensorboard", type=Path, metavar="FOLDER", help=about)
    return top


def main(words=None):
    """Run one command. What is wrong is said in a sentence; Ctrl-C and a reader who leaves end it quietly.

    words: what stands after `python -m heed`; the program's own arguments if it is not given

    Returns the status with which the process should end.
    """
    began = time.monotonic()
    with interruptible():
        closed = open_streams()
        words = parser().parse_args(words)
        words.began = began
        if 1 in closed and words.command != "train":
            return complain("the standard output is closed: there is nowhere to write to.")
        try:
            from heed.speed import keep_memory
        except (ImportError, OSError, MemoryError) as error:
            return complain(f"torch could not be loaded: {error}")
    keep_memory()
    try:
        words.run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        leave(sys.stdout)
    except KeyboardInterrupt as stopped:
        complain(str(stopped) or "Stopped.", "")
        return 128 + getattr(stopped, "signal", signal.SIGINT)
    except (ValueError, OSError, MemoryError, RuntimeError) as error:
        said = sentence(error)
        if said is None:
            raise
        return complain(said)
    return 0


def sentence(error):
    """What an error says to a reader; None for one that nobody has foreseen, which is a mistake of ours."""
    text = str(error)
    memory = re.search(r"allocate|not enough memory|out of memory", text, re.IGNORECASE)
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and memory):
        asked = re.search(r"(\d+) bytes|allocate ([\d.]+ .iB)", text)
        size = asked and (asked[2] or f"{int(asked[1]):,} bytes")
        return (
            f"there was not enough memory{f': {size} more were asked for' if size else ''}. Try fewer "
            "--workers, a narrower --beam; for a training fewer [training] tokens, more micro_batches, a "
            "smaller [model]."
        )
    if isinstance(error, RuntimeError):
        return None
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    return text


def complain(text, who="heed: "):
    """Say on stderr what is wrong. Returns the status of a command that failed."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        leave(sys.stdout)
    try:
        print(f"{who}{text}", file=sys.stderr)
    except (OSError, ValueError):
        leave(sys.stderr)
    return 1


def leave(stream):
    """Nobody reads this stream any more: without this, Python complains when it closes it."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        pass


def open_streams():
    """All three streams in UTF-8; names of files that are not go through as they are.

    Returns which were closed. In the place of a closed one comes the empty device: a file opened later would
    get its number.
    """
    closed = []
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            closed.append(number)
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one
            setattr(sys, name, open(number, "r" if number == 0 else "w", encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
    return closed


@contextmanager
def interruptible():
    """While it is open, Ctrl-C ends the process at once: during an import there is nothing to save."""

    def end(number, frame):
        os.write(2, b"Stopped.\n")
        os._exit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main())
