"""Names found with few labels: after reading without labels, and without it; and what the controls say.

    python assets/16_bert_and_gpt/labels.py         (about six minutes of one thread)

The unlabelled sentences are chapter 01's, without their tags. F1 is measured on sentences with names that the
reading has seen, and on sentences with names that it never saw; none of which it has read. It writes
labels.json, which the chapter draws.
"""

import copy
import json
import platform
import random
from pathlib import Path

import torch
from torch.nn import functional as F

from heed.data import TAGS, hide_tokens, pad, pad_batch, tagged_sentences
from heed.engine.optimizers import make_optimizers, set_lr
from heed.evaluate import span_f1
from heed.loss import language_model_loss, masked_language_model_loss, next_token_loss
from heed.schedule import trapezoid
from heed.text import PAD, UNK, Vocabulary
from heed.train import Progress
from heed.transformer import LanguageModel, MaskedLanguageModel, TokenClassifier, make_language_model

LOG = Path(__file__).parent / "labels.json"
N_READ, UPDATES = 20_000, 500
SIZES = {"n_layers": 2, "d_model": 64, "d_ff": 256, "n_heads": 4, "dropout": 0.0}
LABELLED = (10, 20, 50, 200, 1000)


def unlabelled(n=N_READ):
    """The words of n sentences of chapter 01, and their vocabulary, in which the mask is a word."""
    sentences = [s.words for s in tagged_sentences(n, "train", 1)]
    return sentences, Vocabulary(["<mask>", *Vocabulary.build(sentences).tokens])


def tests(sentences, n=1500):
    """Two sets of unseen sentences: with names from the reading, and with names from the test split."""
    read = {" ".join(words) for words in sentences}
    drawn = [tagged_sentences(n, split, 7) for split in ("train", "test")]
    return [[s for s in sentences if " ".join(s.words) not in read] for sentences in drawn]


def make(vocab, kind=MaskedLanguageModel, seed=0):
    """An untrained stack, encoder or decoder alone; what it reads and what it says share a matrix."""
    torch.manual_seed(seed)
    model = make_language_model(vocab, kind=kind, **SIZES)
    model.generator.proj.weight = model.embed[0].embedding.weight
    return model.float()


def encode(vocabulary, words):
    """Ids of words; an unknown word is read as a hidden one."""
    mask = vocabulary.ids["<mask>"]
    return [mask if i == UNK else i for i in vocabulary.encode(words)]


def hidden_batches(sentences, vocabulary, seed=0):
    """Endless batches of 64 sentences for an encoder: words are hidden, and must be guessed."""
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    ids, mask = [vocabulary.encode(words) for words in sentences], vocabulary.ids["<mask>"]
    while True:
        yield hide_tokens(pad(rng.sample(ids, 64)), len(vocabulary), mask, generator=generator)


def next_batches(sentences, vocabulary, seed=0):
    """Endless batches of 64 sentences for a decoder: after each word the next one must be said."""
    rng = random.Random(seed)
    pairs = [([], vocabulary.encode(words, eos=True)) for words in sentences]
    while True:
        yield pad_batch(rng.sample(pairs, 64))


def reads_masks(mask, seed=0):
    """A decoder's loss when 15 words in 100 that it reads are masks, as unknown words will be."""
    generator = torch.Generator().manual_seed(seed)

    def loss(model, batch):
        ids = batch.target_in
        hidden = (ids != PAD) & (torch.rand(ids.shape, generator=generator) < 0.15)
        return next_token_loss(model.generator, model(ids.masked_fill(hidden, mask)), batch, 0.0)

    return loss


def read(model, batches, loss, updates=UPDATES):
    """Train a model in place with Muon. Returns the loss per token of every update."""
    optimisers, losses = make_optimizers(model, "muon", 1e-2), []
    with Progress(updates) as progress:
        for step in range(updates):
            set_lr(optimisers, trapezoid((step + 0.5) / updates, 0.1))
            batch = next(batches)
            value = loss(model, batch) / batch.n_tokens
            value.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for optimiser in optimisers:
                optimiser.step()
                optimiser.zero_grad()
            losses.append(value.item())
            progress.show(step + 1, f"loss {losses[-1]:.2f}")
    model.eval()
    return losses


def finetune(model, labelled, vocabulary, frozen=False, updates=300, rate=None, seed=0):
    """A tagger: a copy of the model with a new layer on top, trained on labelled sentences.

    While it learns, 15 words in 100 are hidden: it must not learn twenty names by heart.

    frozen: only the new layer learns
    """
    torch.manual_seed(seed)
    tagger = TokenClassifier(copy.deepcopy(model), len(TAGS)).float()
    tagger.model.requires_grad_(not frozen)
    rate = rate or (2e-2 if frozen else 2e-3)
    optimiser = torch.optim.Adam([p for p in tagger.parameters() if p.requires_grad], rate)
    x = pad([encode(vocabulary, s.words) for s in labelled])
    tags = [torch.tensor([TAGS.index(tag) for tag in s.tags]) for s in labelled]
    y = torch.nn.utils.rnn.pad_sequence(tags, batch_first=True, padding_value=-1)
    mask = vocabulary.ids["<mask>"]
    for step in range(updates):
        for group in optimiser.param_groups:
            group["lr"] = rate * (1 - step / updates)
        rows = torch.randperm(len(x))[:32]
        n = int((x[rows] != PAD).sum(1).max())
        ids, target = x[rows, :n], y[rows, :n]
        hidden = (ids != PAD) & (torch.rand(ids.shape) < 0.15)
        scores = tagger(ids.masked_fill(hidden, mask))
        loss = F.cross_entropy(scores.flatten(0, 1), target.flatten(), ignore_index=-1)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(tagger.parameters(), 1.0)
        optimiser.step()
    return tagger.eval()


@torch.no_grad()
def tagged(tagger, sentences, vocabulary):
    """The tags that a tagger gives, a list for each sentence."""
    said = tagger(pad([encode(vocabulary, s.words) for s in sentences])).argmax(-1)
    return [[TAGS[i] for i in row[: len(s.words)]] for row, s in zip(said.tolist(), sentences, strict=True)]


def f1(tagger, sentences, vocabulary):
    """F1 of the names found."""
    return span_f1(tagged(tagger, sentences, vocabulary), [s.tags for s in sentences]).f1


# --- What the chapter's figures and Conditions say ---------------------------------------------------------


def shuffled(sentences, seed=0):
    """The same sentences with their words in random order."""
    rng = random.Random(seed)
    return [rng.sample(words, len(words)) for words in sentences]


def measure(log, name, model, n, seed, given, **settings):
    """Fine-tune a model on n labelled sentences, and write down both F1."""
    vocabulary, both = given
    labelled = tagged_sentences(n, "train", 100 + seed)
    settings = {"updates": 300 if n <= 50 else 400} | settings
    tagger = finetune(model, labelled, vocabulary, seed=seed, **settings)
    scores = [round(f1(tagger, test, vocabulary), 3) for test in both]
    log["runs"].append({"name": name, "labelled": n, "seed": seed, "f1": scores, **settings})
    print(log["runs"][-1], flush=True)
    LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


def longer(log, sentences, given, times=6):
    """Six times the updates: then an encoder has been asked as often as the decoder was; and so for both."""
    vocabulary, _ = given
    kinds = (("read", MaskedLanguageModel), ("next words", LanguageModel))
    for name, kind, seed in [(*kind, seed) for kind in kinds for seed in range(2)]:
        model, causal = make(len(vocabulary), kind, seed), kind is LanguageModel
        batches = (next_batches if causal else hidden_batches)(sentences, vocabulary, seed)
        loss = language_model_loss if causal else masked_language_model_loss
        losses, name = read(model, batches, loss, times * UPDATES), f"{name}, six times as long"
        log["losses"].setdefault(name, []).append(round(sum(losses[-50:]) / 50, 3))
        measure(log, name, model, 20, seed, given)


def decoders_with_masks(log, sentences, given):
    """Is it the masks, which a decoder never reads, that keep names from nowhere from it?"""
    vocabulary, _ = given
    for times, seeds in ((1, range(3)), (6, range(2))):
        name = "next words, masks read" + (", six times as long" if times > 1 else "")
        for seed in seeds:
            model = make(len(vocabulary), LanguageModel, seed)
            batches = next_batches(sentences, vocabulary, seed)
            loss = reads_masks(vocabulary.ids["<mask>"], seed)
            losses = read(model, batches, loss, times * UPDATES)
            log["losses"].setdefault(name, []).append(round(sum(losses[-50:]) / 50, 3))
            measure(log, name, model, 20, seed, given)


def main():
    torch.set_default_dtype(torch.float64)  # what is drawn first is the same on every processor
    sentences, vocabulary = unlabelled()
    given = vocabulary, tests(sentences)
    log = {
        "read": len(sentences), "updates": UPDATES, "vocabulary": len(vocabulary), **SIZES,
        "parameters": sum(p.numel() for p in make(len(vocabulary)).parameters()),
        "tests": [len(test) for test in given[1]],
        "python": platform.python_version(), "torch": torch.__version__,
        "hardware": "one thread of an x86 server, drawn in float64 and trained in float32",
        "runs": [], "losses": {},
    }  # fmt: skip
    for seed in range(3):
        models = {"no reading": make(len(vocabulary), seed=seed)}
        for name, kind, text in (
            ("read", MaskedLanguageModel, sentences),
            ("next words", LanguageModel, sentences),
            ("shuffled", MaskedLanguageModel, shuffled(sentences)),
        ):
            models[name] = make(len(vocabulary), kind, seed)
            causal = kind is LanguageModel
            batches = (next_batches if causal else hidden_batches)(text, vocabulary, seed)
            loss = language_model_loss if causal else masked_language_model_loss
            losses = read(models[name], batches, loss)
            log["losses"].setdefault(name, []).append(round(sum(losses[-50:]) / 50, 3))
        for name in ("next words", "shuffled"):
            measure(log, name, models[name], 20, seed, given)
        measure(log, "no reading, five times as long", models["no reading"], 20, seed, given, updates=1500)
        for n in LABELLED:
            for name in ("no reading", "read"):
                measure(log, name, models[name], n, seed, given)
            measure(log, "read, frozen", models["read"], n, seed, given, frozen=True)
    longer(log, sentences, given)
    decoders_with_masks(log, sentences, given)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
