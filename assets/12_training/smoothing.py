"""How sure is a model, and how often is it right, with and without label smoothing? The runs of chapter 12.

    python smoothing.py

writes smoothing.json beside this file; on one core it takes some four minutes. A small Transformer (1 + 1
layers, d_model 32, 4 heads, d_ff 64, no dropout) reads five digits and says them in reverse. It is trained
for 200 updates on a few examples, which it sees again and again, and is asked for 1,000 new sequences, with
the true digits so far before it. For each digit we note the probability of the most probable token (its
confidence) and whether that token is right. EOS is not counted.

- `confidence`, `accuracy`: their means, for each seed
- `gap`: the expected calibration error: the tokens are put into ten bins by confidence, and the distance
  between mean confidence and accuracy is averaged over the bins, weighted by the tokens (Guo et al. 2017)
- `nll`: the mean of -log p of the true digit, without smoothing
"""

import json
import platform
import time
from pathlib import Path

import torch

import heed
from heed.data import Batch
from heed.loss import translation_loss
from heed.text import BOS, EOS, UNK
from heed.transformer import make_model

SEEDS = (0, 1, 2)
EXAMPLES = (60, 100, 300)
SMOOTHINGS = (0.0, 0.05, 0.1, 0.2)
UPDATES, BATCH, LENGTH, PEAK, WARMUP, HELD_OUT = 200, 16, 5, 1e-2, 40, 1000
VOCAB = UNK + 1 + 10
SIZES = {"n_layers": 1, "d_model": 32, "d_ff": 64, "n_heads": 4, "dropout": 0.0}
HARDWARE = "1 core of an x86-64 server processor, shared with other work; float64"
LOG = Path(__file__).with_name("smoothing.json")


def drawn(b, generator):
    """b sequences of digits, and the same reversed."""
    source = torch.randint(UNK + 1, VOCAB, (b, LENGTH), generator=generator)
    ends = torch.full((b, 1), BOS), torch.full((b, 1), EOS)
    return Batch(source, torch.cat([ends[0], source.flip(1), ends[1]], dim=1))


def trained(examples, smoothing, seed):
    """A model that has learned from so many examples."""
    torch.manual_seed(seed)
    model, generator = make_model(VOCAB, VOCAB, **SIZES), torch.Generator().manual_seed(seed)
    adam = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    known = drawn(examples, generator)
    for step in range(1, UPDATES + 1):
        for group in adam.param_groups:
            group["lr"] = PEAK * min(step / WARMUP, (UPDATES + 1 - step) / (UPDATES + 1 - WARMUP))
        rows = torch.randint(examples, (BATCH,), generator=generator)
        batch = Batch(known.source[rows], known.target[rows])
        loss = translation_loss(model, batch, smoothing) / batch.n_tokens
        adam.zero_grad()
        loss.backward()
        adam.step()
    return model.eval()


@torch.no_grad()
def asked(model, seed):
    """For every digit of new sequences: confidence, whether it is right, and -log p of the true one."""
    batch = drawn(HELD_OUT, torch.Generator().manual_seed(1000 + seed))
    log_p = model.generator(model(batch.source, batch.target_in))[:, :-1].flatten(0, 1)
    y = batch.target_out[:, :-1].flatten()
    best = log_p.max(dim=-1)
    return best.values.exp(), (best.indices == y).double(), -log_p.gather(1, y[:, None])[:, 0]


def gap(confidence, right, n_bins=10):
    """The expected calibration error."""
    bins = (confidence * n_bins).long().clamp(max=n_bins - 1)
    parts = [bins == k for k in bins.unique()]
    return sum(abs((confidence[part] - right[part]).sum()) for part in parts).item() / len(bins)


def main():
    """Make all runs, and put each line into the log as soon as it is there."""
    log = {"what": "see the first lines of smoothing.py", "seeds": SEEDS, "examples": EXAMPLES}
    log["versions"] = {
        "heed": heed.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    log |= {"hardware": HARDWARE, "smoothings": SMOOTHINGS, "updates": UPDATES, "sizes": SIZES, "runs": []}
    for examples in EXAMPLES:
        for smoothing in SMOOTHINGS:
            began, found = time.process_time(), []
            for seed in SEEDS:
                confidence, right, nll = asked(trained(examples, smoothing, seed), seed)
                found.append([confidence.mean(), right.mean(), gap(confidence, right), nll.mean()])
            line = {"examples": examples, "smoothing": smoothing}
            keys = "confidence", "accuracy", "gap", "nll"
            for key, column in zip(keys, zip(*found, strict=True), strict=True):
                line[key] = [round(float(number), 4) for number in column]
            log["runs"].append(line | {"seconds": round(time.process_time() - began, 1)})
            print(log["runs"][-1], flush=True)
            LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    main()
