"""The loss of the stored model on captions that it learned from and on others, measured alike; and its BLEU.

    HEED_DATA=... python assets/14_a_real_translator/losses.py

Dropout off, no label smoothing: the mean cross-entropy of a target token. BLEU is that of greedy decoding on
the test captions, with its interval. It writes losses.json, which the chapter reads.
"""

import json
from pathlib import Path

import torch

from heed import recipe
from heed.data import TokenBatches
from heed.evaluate import bleu
from heed.loss import translation_loss

HERE = Path(__file__).parent
N = 1_000  # captions of each kind, taken at equal distances from the whole


def plain_loss(model, pairs):
    """The mean cross-entropy of a target token, in nats."""
    batches = TokenBatches(pairs, 3200)
    with torch.no_grad():
        losses = [
            translation_loss(model, batches.batch(rows), smoothing=0.0).item() for rows in batches.epoch(0)
        ]
    return sum(losses) / sum(len(target) - 1 for _, target in pairs)


def main():
    translator = recipe.load_translator(HERE / "model")
    model, subwords, settings = translator
    log = {"measure": "cross-entropy of a target token, dropout off, no label smoothing", "captions": N}
    for name, split in (("training", "train"), ("held out", "val")):
        pairs = recipe.sentences(settings, split)
        pairs = [pairs[i * len(pairs) // N] for i in range(N)]
        log[name] = round(plain_loss(model.eval(), recipe.encoded(pairs, subwords)), 3)
    sources, references = zip(*recipe.sentences(settings, "test"), strict=True)
    score = bleu(translator.translate(sources), references)
    log["bleu"], log["interval"] = round(score.value, 2), [round(score.low, 2), round(score.high, 2)]
    log["signature"] = score.signature
    (HERE / "losses.json").write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
