"""What is measured, and on what: the model's size, the sentences, and how often."""

from dataclasses import dataclass, field

from heed.data import multi30k
from heed.recipe import encoded
from heed.text import Subwords

MODEL = {"n_layers": 3, "d_model": 256, "d_ff": 512, "n_heads": 4, "dropout": 0.15}


@dataclass(frozen=True)
class Size:
    """The size of a benchmark. The defaults are those of the committed logs.

    pairs: (source ids, target ids BOS … EOS), to train with
    sources: lists of ids, to translate
    vocab: number of tokens, the same for both languages
    tokens: target tokens in a batch, padding included
    steps: updates in a round
    width: to which the classic loop pads
    written: tokens that every sentence is made to have when it is translated
    lengths: for memory
    side: of the square matrices whose product shows what the processor can do
    """

    pairs: list
    sources: list
    vocab: int
    model: dict = field(default_factory=lambda: dict(MODEL))
    tokens: int = 2500
    steps: int = 12
    rounds: int = 5
    width: int = 72
    written: int = 16
    lengths: tuple = (128, 256, 512, 1024, 2048, 4096)
    side: int = 2048


def of_multi30k(vocab=6000):
    """The benchmark's size with Multi30k's sentences. Raises ValueError if these are not to be had."""
    pairs = [(source, target) for source, target, _ in multi30k("train")]
    subwords = Subwords.learn([line for pair in pairs for line in pair], vocab)
    sources = [subwords.encode(source) for source, _, _ in multi30k("test")]
    return Size(encoded(pairs, subwords), sources, len(subwords))
