"""What all contestants get: the captions of the ten-minute recipe, in the same sub-words."""

from pathlib import Path
from typing import NamedTuple

from heed import recipe
from heed.data import TokenBatches
from heed.text import Subwords

RECIPE = Path(__file__).parents[2] / "recipes" / "multi30k-10min.toml"
SIZES = ("n_layers", "d_model", "d_ff", "n_heads", "dropout")


class Data(NamedTuple):
    """pairs to train with, as ids; held_out and test, as sentences; the vocabulary; the recipe's sections."""

    pairs: list
    held_out: list
    test: list
    subwords: Subwords
    model: dict
    tokens: int
    smoothing: float

    def batches(self, seed):
        """The batches of one seed, the same for all who take their batches from others."""
        return TokenBatches(self.pairs, self.tokens, seed)

    def stream(self, seed):
        """They, epoch after epoch."""
        batches, epoch = self.batches(seed), 0
        while True:
            yield from map(batches.batch, batches.epoch(epoch))
            epoch += 1


def read(folder, n_pairs=None):
    """The data. The sub-words are learnt once, into the folder; from then on they lie there.

    n_pairs: so many of each kind, to try things out
    """
    plan = recipe.read(RECIPE)
    train, held_out, test = (recipe.sentences(plan, split)[:n_pairs] for split in ("train", "val", "test"))
    file = folder / "subwords.json"
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        recipe.learn_subwords(plan, train).save(file)
    subwords, training = Subwords.load(file), plan["training"]
    longest = min(plan["data"]["longest"], training["tokens"])
    pairs = recipe.encoded(train, subwords, longest)
    model = {name: plan["model"][name] for name in SIZES}
    return Data(pairs, held_out, test, subwords, model, training["tokens"], training["smoothing"])
