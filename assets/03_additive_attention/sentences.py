"""Real sentences: the model and the training loop of chapter 03, on captions in German and English.

    HEED_DATA=... python assets/03_additive_attention/sentences.py

Trains `AttentionSeq2Seq` on Multi30k with `heed.train.train`, lets it write the
1,000 sentences of the test set greedily, and writes sentences.json beside this
file: the score with its interval and signature, and for some sentences of our
own what was written and where the model looked. Half an hour on two cores.
"""

import json
import platform
import time
from pathlib import Path

import torch

import heed
from heed.alignment import AttentionSeq2Seq
from heed.attention import record
from heed.data import batches, multi30k, pad
from heed.evaluate import bleu, chrf
from heed.recurrent import free_run
from heed.text import Subwords
from heed.train import sequence_loss, train

SEED, UPDATES, BATCH, RATE, VOCAB = 0, 2200, 64, 2e-3, 6000
SIZES = {"d_embed": 256, "d_hidden": 256}
HARDWARE = "one thread of an AMD EPYC with AVX2, shared with other work; float32"
OURS = [
    "Ein Hund läuft durch den Schnee.",
    "Heute spielen zwei Kinder im Park.",
    "Ein Mann, der einen roten Hut trägt, schläft auf einer Bank.",
    "Die Frau hat ihrem Hund einen Ball geworfen.",
]
LOG = Path(__file__).with_name("sentences.json")


def written(model, subwords, texts):
    """What the model writes for these sentences, greedily, a hundred at a time."""
    answers = []
    for i in range(0, len(texts), 100):
        ids = pad([subwords.encode(text) for text in texts[i : i + 100]])
        answers += [subwords.decode(row) for row in free_run(model, ids, n_max=80)]
    return answers


def looked(model, subwords, text):
    """One sentence: its pieces, the pieces that are written, and the weights between them."""
    source = subwords.encode(text)
    with record(model) as maps:
        out = free_run(model, torch.tensor([source]), n_max=80)[0]
    weights = torch.cat(maps["decoder.attention"], dim=1)[0]  # (n_target, n_source)
    return {
        "source": text,
        "written": subwords.decode(out),
        "read": subwords.labels(source),
        "wrote": subwords.labels(out.tolist()),
        "weights": [[round(w, 3) for w in row] for row in weights.tolist()],
    }


def main():
    """Train, measure, and store the log."""
    pairs, test = multi30k("train"), multi30k("test")
    subwords = Subwords.learn((text for pair in pairs for text in pair[:2]), VOCAB)
    encoded = [(subwords.encode(p.source), subwords.encode(p.target, bos=True, eos=True)) for p in pairs]
    torch.manual_seed(SEED)
    model = AttentionSeq2Seq(len(subwords), len(subwords), **SIZES)
    began = time.monotonic()
    losses = train(model, batches(encoded, BATCH, SEED, pool=20), sequence_loss, UPDATES, RATE, seed=SEED)
    seconds = round(time.monotonic() - began)
    answers = written(model, subwords, [pair.source for pair in test])
    references = [pair.target for pair in test]
    score, characters = bleu(answers, references), chrf(answers, references)
    log = {
        "task": "Multi30k, German to English, test_2016_flickr, 1,000 sentences, greedily",
        "model": {"class": "AttentionSeq2Seq", **SIZES, "vocabulary": len(subwords),
                  "parameters": sum(p.numel() for p in model.parameters())},
        "training": {"seed": SEED, "updates": UPDATES, "pairs a batch": BATCH, "rate": RATE,
                     "seconds": seconds, "last loss per token": round(losses[-1], 3)},
        "versions": {
            "heed": heed.__version__, "torch": torch.__version__, "python": platform.python_version(),
        },
        "hardware": HARDWARE,
        "bleu": round(score.value, 2), "interval": [round(score.low, 2), round(score.high, 2)],
        "chrf": round(characters.value, 2), "signature": score.signature,
        "sentences": [looked(model, subwords, text) for text in OURS],
    }  # fmt: skip
    LOG.write_text(json.dumps(log, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
