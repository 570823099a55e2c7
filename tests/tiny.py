"""A training so small that it can be killed twenty times in a test: a model, its batches, its loss.

`run` trains it; processes that tests start and kill call it by name.
"""

import json
import multiprocessing
import os
import random
import socket
import sys
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from heed.data.tokens import TokenBatches
from heed.decode import greedy
from heed.engine import fit
from heed.evaluate import bleu
from heed.loss import translation_loss
from heed.speed import quick
from heed.text import BOS, EOS, PAD
from heed.transformer import make_model, tie

VOCAB, D_MODEL = 13, 5


class Tiny(nn.Module):
    """All that fit must cope with: tied tables, a hidden matrix, vectors, buffers, dropout, two layers."""

    def __init__(self, dropout=0.3, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.table = nn.Embedding(VOCAB, D_MODEL)
        self.layers = nn.ModuleList(nn.Linear(D_MODEL, D_MODEL) for _ in range(2))
        self.dropout = nn.Dropout(dropout)
        self.generator = nn.Linear(D_MODEL, VOCAB)
        self.generator.weight = self.table.weight
        self.register_buffer("calls", torch.tensor(0))
        self.register_buffer("scale", torch.ones(D_MODEL))

    def forward(self, ids):
        """ids of tokens to scores of what comes next."""
        x = self.table(ids)
        if self.training:
            self.calls += 1
            self.scale.lerp_(1 + x.detach().abs().mean((0, 1)).to(self.scale), 0.1)
        for layer in self.layers:
            x = x + self.dropout(torch.tanh(layer(x / self.scale.to(x))))
        return self.generator(x)


class Plain(Tiny):
    """The same without dropout and without a buffer that depends on how a batch is shared out."""

    def __init__(self, seed=0):
        super().__init__(dropout=0.0, seed=seed)
        self.double()

    def forward(self, ids):
        x = self.table(ids)
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.generator(x)


def transformer(dropout=0.0):
    """A Transformer as recipes build it: quick modules, one embedding matrix for all."""
    torch.manual_seed(0)
    return quick(tie(make_model(VOCAB, VOCAB, n_layers=1, d_model=14, d_ff=22, n_heads=2, dropout=dropout)))


def loss(model, batch):
    """The sum of the cross-entropy over real target tokens."""
    scores = model(batch.target_in)
    return F.cross_entropy(
        scores.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD, reduction="sum"
    )


def pairs(n=61, seed=0):
    """Pairs of random sentences; each word of the second is the one before it plus one, mostly."""
    rng = random.Random(seed)
    made = []
    for _ in range(n):
        words = [rng.randrange(4, VOCAB)]
        for _ in range(rng.randrange(7)):
            words.append(4 + (words[-1] - 3) % (VOCAB - 4) if rng.random() < 0.8 else rng.randrange(4, VOCAB))
        made.append((words[::-1], [BOS, *words, EOS]))
    return made


def batches(n_tokens=47, n=61):
    return TokenBatches(pairs(n), n_tokens)


def mean_loss(model, made=None):
    """A validation: the mean loss a token on sentences that are not in training."""
    made = made or TokenBatches(pairs(17, seed=1), 1000)
    (indices,) = made.epoch(0)
    batch = made.batch(indices)
    return {"loss": float(loss(model, batch)) / batch.n_tokens, "sentences": len(indices)}


def mean_translation_loss(model):
    """A validation of the Transformer: as `mean_loss`."""
    (indices,) = HELD_OUT.epoch(0)
    batch = HELD_OUT.batch(indices)
    return {"loss": float(translation_loss(model, batch, 0.0)) / batch.n_tokens}


def bleu_of_greedy(model):
    """A validation of the Transformer by what it writes."""
    batch = HELD_OUT.batch(range(17))
    written = [" ".join(map(str, ids)) for ids in greedy(model, batch.source)]
    references = [" ".join(map(str, target[1:-1])) for _, target in HELD_OUT.pairs]
    return bleu(written, references).value


HELD_OUT = TokenBatches(pairs(17, seed=1), 1000)
MODELS = {"Tiny": Tiny, "Plain": Plain, "Transformer": transformer}


def run(folder, kind="Tiny", n_tokens=47, n=61, ready=None, **options):
    """Train the tiny model in this folder. Returns it, and the result.

    ready: an event of another process, set when the first loss is asked for
    """
    torch.set_num_threads(1)
    model = MODELS[kind]()
    options = {"updates": 23, "lr": 0.02, "every": 5, "log_every": 1, "precision": "fp32", **options}

    def first_saying_so(model, batch):
        if ready:
            ready.set()
        return translation_loss(model, batch) if kind == "Transformer" else loss(model, batch)

    return model, fit(model, batches(n_tokens, n), first_saying_so, folder, device="cpu", **options)


def log(folder):
    """The lines of a run's log."""
    return [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]


def losses(folder):
    """The loss of each step, by the log."""
    return [line["loss"] for line in log(folder) if "loss" in line]


# --- Processes that start fast ------------------------------------------------------------------------------

# A server process imports once what takes seconds, and then forks; where there is no fork, each process
# imports for itself. The library is not among it: a planted bug is in another copy.
SWIFT = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
processes = multiprocessing.get_context(SWIFT)
if SWIFT == "forkserver":
    processes.set_forkserver_preload(
        ["torch._dynamo", "torch.distributed.fsdp", "babel", "num2words", "tokenizers"]
    )


def start(target, *arguments, **options):
    """Start a process that calls this function. The caller ends it."""
    process = processes.Process(target=target, args=arguments, kwargs=options, daemon=True)
    process.start()
    return process


def as_rank(rank, count, port, target, arguments, options):
    """In a process of a team: be this rank, and call the function."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": str(rank)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    target(*arguments, **options)


def begin(count, target, *arguments, timeout=400, **options):
    """Start this function in so many processes that know one another. Returns them, and how to wait for them.

    The second is a context: at its end the processes have ended, all without an error, or it fails.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    members = [start(as_rank, rank, count, port, target, arguments, options) for rank in range(count)]
    return members, ended(members, timeout)


@contextmanager
def ended(members, timeout):
    """Wait for these processes; none is left, whatever happens."""
    try:
        yield
        for member in members:
            member.join(timeout)
        assert [member.exitcode for member in members] == [0] * len(members)
    finally:
        for member in members:
            member.kill()
            member.join()


def team(count, target, *arguments, **options):
    """Call this function in so many processes that know one another, and wait for their end."""
    _, end = begin(count, target, *arguments, **options)
    with end:
        pass


if __name__ == "__main__":  # under torchrun
    folder = Path(sys.argv[1])
    (folder.parent / f"{folder.name} pid {os.environ['RANK']}").write_text(str(os.getpid()), encoding="utf-8")
    run(folder, **json.loads(sys.argv[2]))
