"""Training: real target tokens a second, ours and others', and the share of what the processor can do."""

import random
import tempfile

import torch
from torch.nn import functional as F

from bench import peers
from bench.contest import Rounds, contest, ratio
from heed.data import Batch, TokenBatches
from heed.engine import choose_precision, fit
from heed.engine.parallel import LossOf
from heed.engine.precision import InBFloat16
from heed.loss import smoothed, translation_loss
from heed.speed import keep_memory, quick
from heed.text import PAD
from heed.transformer import make_model, tie

PRODUCTS = 30  # in a round
# How a peer trains in bf16: under autocast; the same, freed memory kept; in bfloat16 throughout, memory kept
WAYS = AS_IT_COMES, MEMORY_KEPT, AS_HEED = "", ", memory kept", ", bf16 throughout"
HOW = {
    "fp32": "All train in float32.",
    "bf16": "heed computes in bfloat16 throughout, with float32 master weights; the peers under autocast. "
    '"bf16 throughout" are the peers in heed\'s way, and with freed memory kept.',
}


# --- The contestants ----------------------------------------------------------------------------------------


def ours(turns, size, precision, optimiser):
    """`fit` itself, as the recipes call it."""
    torch.manual_seed(0)
    model = quick(tie(make_model(size.vocab, size.vocab, **size.model)))
    rounds = Rounds(TokenBatches(size.pairs, size.tokens), size.steps, turns)
    with tempfile.TemporaryDirectory() as folder:
        fit(model, rounds, translation_loss, folder, updates=10_000, every=10_000, optimizer=optimiser,
            precision=precision, device="cpu")  # fmt: skip


def nn_transformer(turns, size, precision, way):
    """torch's own. way: one of WAYS."""
    torch.manual_seed(0)
    model = peers.TorchTransformer(size.vocab, **size.model)
    peer(turns, size, precision, way, model, type(model).loss)


def marian(turns, size, precision, way):
    """Hugging Face's. way: one of WAYS."""
    torch.manual_seed(0)
    peer(turns, size, precision, way, peers.marian(size.vocab, **size.model), peers.marian_loss)


def peer(turns, size, precision, way, model, loss):
    """The usual loop: AdamW in one kernel, the gradient clipped."""
    if way != AS_IT_COMES:
        keep_memory()
    compute = computed(model.train(), loss, precision, way)
    optimiser = torch.optim.AdamW(model.parameters(), 1e-4, betas=(0.9, 0.98), fused=True)
    for batch in Rounds(TokenBatches(size.pairs, size.tokens), size.steps, turns).forever():
        compute(batch).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()


def computed(model, loss, precision, way):
    """The loss as a function of a batch: in float32, under autocast, or in bfloat16 throughout."""
    plain = LossOf(model, loss)
    if precision == "fp32":
        return plain
    return InBFloat16(plain) if way == AS_HEED else torch.autocast("cpu", torch.bfloat16)(plain)


class PaddedBatches:
    """32 sentences taken at random, each padded, or cut, to one width."""

    def __init__(self, pairs, width, seed=0):
        self.pairs, self.width, self.seed = pairs, width, seed

    def epoch(self, k):
        order = random.Random(self.seed + k).sample(range(len(self.pairs)), len(self.pairs))
        return [order[i : i + 32] for i in range(0, len(order), 32)]

    def batch(self, indices):
        source, target = torch.full((2, len(indices), self.width), PAD)
        for row, i in enumerate(indices):
            for side, ids in zip((source, target), self.pairs[i], strict=True):
                ids = ids[: self.width]
                side[row, : len(ids)] = torch.tensor(ids)
        return Batch(source, target)


def classic(turns, size):
    """The loop of many a tutorial: float32, plain modules, a divergence over all positions, Adam."""
    torch.manual_seed(0)
    model = tie(make_model(size.vocab, size.vocab, **size.model)).train()
    optimiser = torch.optim.Adam(model.parameters(), 1e-4, betas=(0.9, 0.98), eps=1e-9)
    for batch in Rounds(PaddedBatches(size.pairs, size.width), classic_steps(size), turns).forever():
        log_p = model.generator(model(batch.source, batch.target_in)).flatten(0, 1)
        target = batch.target_out.flatten()
        q = smoothed(target, size.vocab, 0.1).masked_fill((target == PAD)[:, None], 0.0)
        loss = F.kl_div(log_p, q, reduction="sum") / batch.n_tokens
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)


def product(turns, size, precision):
    """Products of two square matrices, in the precision of the training."""
    a, b = torch.randn(2, size.side, size.side).to(torch.bfloat16 if precision == "bf16" else torch.float32)
    while True:
        turns.next()
        for _ in range(PRODUCTS):
            torch.mm(a, b)


# --- What is counted ----------------------------------------------------------------------------------------


def classic_steps(size):
    """One step of the classic loop takes as long as some of the others."""
    return max(1, size.steps // 5)


def operations(lengths, vocab, n_layers, d_model, d_ff, **rest):
    """Additions and multiplications of a training step, of matrix products alone, and for real tokens alone.

    A matrix of P parameters takes 2 P for each token forward and 4 P backward. Attention of n_q tokens to n_k
    takes 4 n_q n_k d_model forward, all heads together, and twice that backward; where a token looks at what
    stands before it, half. Padding is not counted, nor are the optimiser, norms and softmax.

    lengths: pairs (source tokens, target tokens to be said), one for each sentence
    """
    d, f = d_model, d_ff
    total = 0
    for s, t in lengths:
        encoder = (4 * d * d + 2 * d * f) * s + 2 * s * s * d
        decoder = (4 * d * d + 2 * d * f) * t + t * t * d  # itself
        decoder += 2 * d * d * (t + s) + 2 * t * s * d  # the source: W_q and W_o here, W_k and W_v there
        total += n_layers * (encoder + decoder) + d * vocab * t
    return 6 * total


def training(size):
    """Measure all. Returns (results, log): name -> Ratio, and tokens a second of everyone, round by round."""
    given = size, precision = size, choose_precision(torch.device("cpu"))
    ways = WAYS if precision == "bf16" else WAYS[:2]  # in float32 all compute alike
    work = {
        "heed, Muon": (ours, *given, "muon"),
        "heed, AdamW": (ours, *given, "adamw"),
        **{f"nn.Transformer{way}": (nn_transformer, *given, way) for way in ways},
        "classic loop": (classic, size),
        "matrix product": (product, *given),
    }
    if peers.has_transformers():
        work |= {f"Marian{way}": (marian, *given, way) for way in ways}
    seconds = contest(work, size.rounds)

    batches, padded = TokenBatches(size.pairs, size.tokens), PaddedBatches(size.pairs, size.width)
    rows = [i for indices in batches.epoch(0)[: size.steps] for i in indices]
    lengths = [(len(source), len(target) - 1) for source, target in (size.pairs[i] for i in rows)]
    tokens = dict.fromkeys(work, sum(t for _, t in lengths))
    plan = padded.epoch(0)[: classic_steps(size)]
    tokens["classic loop"] = sum(padded.batch(indices).n_tokens for indices in plan)
    peak = [PRODUCTS * 2 * size.side**3 / s for s in seconds.pop("matrix product")]
    speed = {name: [tokens[name] / s for s in times] for name, times in seconds.items()}

    def fastest(way):
        """The speed of the faster peer in each round."""
        names = f"nn.Transformer{way}", f"Marian{way}"
        return [max(each) for each in zip(*(speed[name] for name in names if name in speed), strict=True)]

    model = operations(lengths, size.vocab, **size.model)
    results = {}
    for name in ("heed, Muon", "heed, AdamW"):
        mine = speed[name]
        results |= {f"{name} ÷ faster peer{way}": ratio(mine, fastest(way)) for way in ways}
        results |= {
            f"{name} ÷ classic loop": ratio(mine, speed["classic loop"]),
            f"{name}, share of the matrix rate": ratio([model / s for s in seconds[name]], peak),
        }
    log = {name: [round(x) for x in each] for name, each in speed.items()}
    rate = [round(x / 1e9, 1) for x in peak]
    return results, {
        "precision": precision,
        "how": HOW[precision],
        "tokens a second": log,
        "GFLOP a second of the product": rate,
    }
