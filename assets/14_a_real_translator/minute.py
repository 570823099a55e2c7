"""Which tokens? And what does averaging change? The page's small translator of chapter 14, trained again.

    HEED_DATA=... OMP_NUM_THREADS=1 python assets/14_a_real_translator/minute.py

The model has one layer on each side, 128 wide, both embeddings and the generator tied; batches of 1,000
tokens on a side, smoothing 0.1, Adam (0.9, 0.98), a rate that rises to 0.005 in a fifth of the updates and
falls to zero in a straight line. BLEU is that of greedy translations of the 1,000 test captions.

tokens: each kind of token has the time of 300 updates with 2,000 sub-words. The time of an update is measured
by turns, in the processor's own seconds, and counted in updates, so that other work on the machine changes
little.
    words              every word of the training captions; unknown ones become <unk>
    frequent words     the 2,000 most frequent of them
    characters         those of the training captions
    sub-words          2,000, byte-pair encoding
With --longer, words are trained for 300 updates as well, which takes them several times as long.

averaging: 300 updates with 2,000 sub-words. The last weights alone, and the mean of the last five snapshots,
20 updates apart: at update 160 and at update 300, with the rate as above ("falling") and with one that stays
at 0.005 after the warm-up ("constant"). Then the mean of two runs that differ in nothing but their seed. The
number is the loss of a target token on the first 400 held-out captions, without smoothing.

It writes minute.json, which the chapter reads.
"""

import argparse
import json
import platform
import re
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

import torch
from torch.nn import functional as F

from heed.checkpoint import average
from heed.data import TokenBatches, multi30k
from heed.decode import translations
from heed.evaluate import bleu
from heed.text import BOS, EOS, UNK, Characters, Subwords, Vocabulary
from heed.transformer import make_model, tie

LOG = Path(__file__).with_name("minute.json")
SIZE, UPDATES, PEAK, TOKENS = 2_000, 300, 5e-3, 1_000
SEEDS = {"sub-words": (0, 1, 2), "words": (0, 1), "frequent words": (0,), "characters": (0,)}
SNAPSHOTS = ((80, 160), (220, 300))  # first and last of five, 20 updates apart
# Python's own classes of characters: letters, digits and signs, with the space before them.
WORD = re.compile(r" ?[^\W\d_]+| ?\d+| ?[^\w\s]+|\s+|_")


class Words(Vocabulary):
    """Each word is a token, with the space before it; all that are unknown are one and the same."""

    @classmethod
    def learn(cls, lines, size=None):
        counts = Counter(word for line in lines for word in WORD.findall(line))
        return cls([word for word, _ in counts.most_common(size)])

    def encode(self, text, bos=False, eos=False):
        ids = [self.ids.get(word, UNK) for word in WORD.findall(text)]
        return [BOS] * bos + ids + [EOS] * eos

    def decode(self, ids):
        return "".join(f" {token}" if token == "<unk>" else token for token in super().decode(ids)).strip()


def vocabularies(lines):
    """The kinds of tokens, by name."""
    return {
        "words": Words.learn(lines),
        "frequent words": Words.learn(lines, SIZE),
        "characters": Characters(sorted({character for line in lines for character in line})),
        "sub-words": Subwords.learn(lines, SIZE),
    }


def encoded(pairs, vocabulary):
    return [
        (vocabulary.encode(pair.source), vocabulary.encode(pair.target, bos=True, eos=True)) for pair in pairs
    ]


def loss(model, batch, smoothing):
    real = batch.target_mask
    scores = model.generator.proj(model(batch.source, batch.target_in)[real])
    return F.cross_entropy(scores, batch.target_out[real], label_smoothing=smoothing)


def fresh(vocabulary, seed):
    torch.manual_seed(seed)
    n = len(vocabulary)
    return tie(make_model(n, n, n_layers=1, d_model=128, d_ff=512, n_heads=4, dropout=0.0))


def stream(pairs, seed):
    batches, epoch = TokenBatches(pairs, TOKENS, seed), 0
    while True:
        for rows in batches.epoch(epoch):
            yield batches.batch(rows)
        epoch += 1


def steps(model, pairs, seed, n, constant=False):
    """Train, and yield the number of each update that has been made."""
    adam = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    batches, warmup = stream(pairs, seed), n // 5
    model.train()
    for step in range(1, n + 1):
        down = 1.0 if constant else (n - step) / (n - warmup)
        for group in adam.param_groups:
            group["lr"] = PEAK * min(step / warmup, down)
        value = loss(model, next(batches), 0.1)
        adam.zero_grad()
        value.backward()
        adam.step()
        yield step


@torch.no_grad()
def held_out(model, pairs):
    """The loss of a target token, without smoothing."""
    model.eval()
    batches, total, count = TokenBatches(pairs, 4_000), 0.0, 0
    for rows in batches.epoch(0):
        batch = batches.batch(rows)
        total += loss(model, batch, 0.0).item() * batch.n_tokens
        count += batch.n_tokens
    return total / count


def seconds_an_update(kinds, pairs):
    """Of each kind of token: the median of two rounds, in which they take turns."""
    seconds = {name: [] for name in kinds}
    for k in range(2):
        for name in kinds:
            stamps = [time.process_time() for _ in steps(fresh(kinds[name], 0), pairs[name], k, 10)]
            seconds[name].append((stamps[-1] - stamps[3]) / 6)
    return {name: statistics.median(each) for name, each in seconds.items()}


def trained(vocabulary, pairs, seed, n, constant=False):
    """The model, and its weights after every 20 updates."""
    model, kept = fresh(vocabulary, seed), {}
    for step in steps(model, pairs, seed, n, constant):
        if step % 20 == 0:
            kept[step] = {key: value.clone() for key, value in model.state_dict().items()}
    return model.eval(), kept


def write(log):
    LOG.write_text(json.dumps(log, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")


def main():
    words = argparse.ArgumentParser(description="Which tokens, and what averaging changes.")
    words.add_argument("--hardware", default="one core", help="in words")
    words.add_argument("--longer", action="store_true", help="only: add words with 300 updates to the log")
    words = words.parse_args()
    train, val, test = (multi30k(split) for split in ("train", "val", "test"))
    sources, references = [pair.source for pair in test], [pair.target for pair in test]
    kinds = vocabularies([text for pair in train for text in (pair.source, pair.target)])
    if words.longer:
        model, _ = trained(kinds["words"], encoded(train, kinds["words"]), 0, UPDATES)
        score = bleu(translations(model, kinds["words"], sources), references, n_resamples=1)
        log = json.loads(LOG.read_text(encoding="utf-8"))
        log["words, 300 updates"] = {"seed": 0, "bleu": round(score.value, 2)}
        write(log)
        return
    pairs = {name: encoded(train, vocabulary) for name, vocabulary in kinds.items()}
    seconds = seconds_an_update(kinds, pairs)
    checked = encoded(val[:400], kinds["sub-words"])
    probe, last = fresh(kinds["sub-words"], 0), []
    log = {
        "task": "Multi30k, German to English, test_2016_flickr, 1,000 captions, greedy",
        "hardware": words.hardware,
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
        "tokens": {},
        "averaging": {},
    }

    def measured(*states):
        probe.load_state_dict(average(states))
        return round(held_out(probe, checked), 3)

    def averages(kept):
        return {
            f"update {end}": {
                "last": measured(kept[end]),
                "mean of five": measured(*(kept[step] for step in range(first, end + 1, 20))),
            }
            for first, end in SNAPSHOTS
        }

    for name, seeds in SEEDS.items():
        vocabulary, n = kinds[name], round(UPDATES * seconds["sub-words"] / seconds[name])
        read = [vocabulary.encode(source) for source in sources]
        log["tokens"][name] = {
            "vocabulary": len(vocabulary),
            "tokens of a German test caption": round(statistics.mean(map(len, read)), 1),
            "German test captions with an unknown word": sum(UNK in ids for ids in read),
            "seconds an update": round(seconds[name], 3),
            "updates": n,
            "bleu": [],
        }
        for seed in seeds:
            model, kept = trained(vocabulary, pairs[name], seed, n)
            said = translations(model, vocabulary, sources)
            log["tokens"][name]["bleu"].append(round(bleu(said, references, n_resamples=1).value, 2))
            print(name, seed, log["tokens"][name], said[:2], flush=True)
            if name == "sub-words":
                log["averaging"][f"falling, seed {seed}"] = averages(kept)
                last.append(kept[UPDATES])
            write(log)
    log["averaging"]["two seeds"] = {
        f"{i} and {j}": measured(last[i], last[j]) for i, j in ((0, 1), (0, 2), (1, 2))
    }
    write(log)
    for seed in (0, 1):
        kept = trained(kinds["sub-words"], pairs["sub-words"], seed, UPDATES, constant=True)[1]
        log["averaging"][f"constant, seed {seed}"] = averages(kept)
        write(log)


if __name__ == "__main__":
    sys.exit(main())
