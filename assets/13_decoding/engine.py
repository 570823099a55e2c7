"""What a cache and an engine made for decoding add: speed, equal sentences and BLEU of one translator.

    HEED_DATA=... python assets/13_decoding/engine.py [RUN]

RUN is a folder that `python -m heed train` has made; without it, the committed model of chapter 14. The
script writes engine.json beside this file. It takes about five minutes, and wants a machine on which nothing
else is running. Everything runs in this process with one thread.

The 1,000 test captions of Multi30k are translated by

    without cache      our greedy search, whose decoder reads all its tokens again at each step
    ours               greedy, and a beam of 4 with a penalty of 1, float32
    engine, float32    CTranslate2, with the same weights: greedy, and a beam of 4 with its own length
                       penalty, which divides by |Y|
    engine, int8       the same with matrices of 8-bit integers

ROUNDS times in turn. "speed" is sentences per second, round by round, sub-words included; "equal" is the
share of translations that equal those of our search (greedy: greedy's; beam: the beam's). The captions may
not be passed on, and are not in the log.
"""

import hashlib
import json
import os
import platform
import sys
import tempfile
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path
from unittest import mock

import torch

import heed
from heed import decode, recipe
from heed.attention import causal_mask
from heed.data import multi30k
from heed.decode import Translating, beam, greedy, next_logits
from heed.evaluate import bleu
from heed.recipe.export import Exported, export

HERE = Path(__file__).parent
COMMITTED = HERE.parent / "14_a_real_translator" / "model"
LOG = HERE / "engine.json"
WIDTH, ROUNDS = 4, 3
KINDS = ("float32", "int8")
NAMES = (
    "without cache, greedy", "ours, greedy", "ours, beam",
    *(f"engine, {kind}, {how}" for kind in KINDS for how in ("greedy", "beam")),
)  # fmt: skip


class Rereading(Translating):
    """A writer without a cache: all tokens go through the decoder again at each step."""

    def __init__(self, model, source):
        super().__init__(model, source)
        self.read = source[:, :0]

    def step(self, ids):
        self.read = torch.cat([self.read, ids], dim=1)
        mask = causal_mask(self.read.shape[1])
        x = self.model.decode(self.memory, self.source_mask, self.read, mask)
        return next_logits(self.model, x)

    def select(self, rows):
        self.read, self.memory = self.read[rows], self.memory[rows]
        self.source_mask = self.source_mask[rows]


def ways(translator, folders):
    """How each name translates: from a list of sentences to a list of sentences."""

    def without_cache(sentences):
        with mock.patch.object(decode, "start_decoding", Rereading):
            return translator.translate(sentences, greedy)

    found = {
        "without cache, greedy": without_cache,
        "ours, greedy": partial(translator.translate, search=greedy),
        "ours, beam": partial(translator.translate, search=partial(beam, width=WIDTH)),
    }
    for kind, folder in folders.items():
        exported = Exported(folder)
        found[f"engine, {kind}, greedy"] = partial(exported.translate, width=1)
        found[f"engine, {kind}, beam"] = partial(exported.translate, width=WIDTH)
    return found


def measure(translator, folders, sources, references):
    """After each round, the entries of the log, one a name."""
    found = ways(translator, folders)
    said, speeds = {}, {name: [] for name in NAMES}
    for name in NAMES:
        said[name] = found[name](sources[:50])  # warm
    for _ in range(ROUNDS):
        for name in NAMES:
            began = time.perf_counter()
            said[name] = found[name](sources)
            speeds[name].append(round(len(sources) / (time.perf_counter() - began), 1))
            print(name, speeds[name][-1], flush=True)
        yield [entry(name, said, speeds, references) for name in NAMES]


def entry(name, said, speeds, references):
    """What the log holds of one name."""
    ours = said["ours, beam" if name.endswith("beam") else "ours, greedy"]
    equal = sum(a == b for a, b in zip(said[name], ours, strict=True)) / len(ours)
    score = bleu(said[name], references, 1).value
    return {"name": name, "speed": [*speeds[name]], "equal": round(equal, 4), "bleu": round(score, 2)}


def processor():
    """The processor's name, as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
    return ", ".join(sorted(names)) or platform.machine()


def main(run=COMMITTED):
    """Export, measure, and write the log, again after each round."""
    run = Path(run)
    translator = recipe.load_translator(run)
    pairs = multi30k("test")
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    log = {
        "what": "sentences per second, share of sentences equal to ours, BLEU: see engine.py",
        "model": hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest(),
        "parameters": sum(p.numel() for p in translator.model.parameters()),
        "captions": len(pairs),
        "width": WIDTH,
        "threads": 1,
        "versions": {
            "heed": heed.__version__,
            "torch": torch.__version__,
            "ctranslate2": version("ctranslate2"),
            "python": platform.python_version(),
        },
        "hardware": f"1 thread of {processor()} ({os.cpu_count()} cores visible)",
    }
    with tempfile.TemporaryDirectory() as parent:
        folders = {kind: export(translator, Path(parent) / kind, kind) for kind in KINDS}
        sizes = {kind: (folder / "model.bin").stat().st_size for kind, folder in folders.items()}
        log["megabytes"] = {kind: round(size / 1e6, 1) for kind, size in sizes.items()}
        for log["runs"] in measure(translator, folders, sources, references):
            LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
