"""The one state handed to every step of the decoder: does exact match fall as fast?

    python assets/02_sequence_to_sequence/every_step.py

writes every_step.json beside this file. Task, 600 updates, batches and measurements are those of lengths.py,
whose functions this script calls. The encoder is that of the plain model, and so is its last state of 128
numbers. `every` is a decoder that reads this state at every step, beside the token before, and again where
it scores the next token (after Cho et al., EMNLP 2014). `plain` is the model of lengths.py with 153 units,
which has about as many parameters. Three seeds each. A run that stands in the log already is not made again.

- `model`, `d_hidden`, `seed`: which run; all other keys are explained in lengths.py
"""

import importlib.util
import json
import platform
from pathlib import Path

import torch
from torch import nn

from heed.recurrent import RecurrentEncoder
from heed.text import PAD

LOG = Path(__file__).with_suffix(".json")
# (model, d_hidden, most digits, seed)
RUNS = [(kind, width, 6, seed) for kind, width in (("every", 128), ("plain", 153)) for seed in range(3)]
HARDWARE = "one thread on a core of an Intel Xeon (CPU); other work ran beside it: seconds are upper bounds"


class EveryStep(nn.Module):
    """N → M, with the encoder's last state read at every step of the decoder."""

    def __init__(self, source_vocab, target_vocab, d_embed, d_hidden):
        super().__init__()
        self.encoder = RecurrentEncoder(source_vocab, d_embed, d_hidden)
        self.embed = nn.Embedding(target_vocab, d_embed, padding_idx=PAD)
        self.rnn = nn.GRU(d_embed + d_hidden, d_hidden, batch_first=True)
        self.out = nn.Linear(2 * d_hidden, target_vocab)

    def forward(self, source, target_in):
        """The scores (b, n_target, vocab) of the next token, the true tokens before it being read."""
        given = self.encoder(source)
        return self.decode(target_in, given, given)[0]

    def decode(self, target_in, state, given):
        """Scores and the new state; `given` (b, d_hidden) is what the encoder has left."""
        every = given[:, None].expand(-1, target_in.shape[1], -1)  # (b, n_target, d_hidden)
        states, last = self.rnn(torch.cat([self.embed(target_in), every], dim=-1), state[None])
        return self.out(torch.cat([states, every], dim=-1)), last[0]

    def start(self, source):
        """The first state, and what every step reads."""
        given = self.encoder(source)
        return given, given

    def step(self, y, state, memory):
        """One step: y (b) and a state give scores (b, vocab) and a state."""
        scores, state = self.decode(y[:, None], state, memory)
        return scores[:, 0], state


def lengths():
    """The script lengths.py as a module."""
    spec = importlib.util.spec_from_file_location("lengths", Path(__file__).with_name("lengths.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure(run):
    """Train one model and count."""
    script = lengths()
    kind, d_hidden, most, seed = run
    if kind == "every":
        script.Seq2Seq = EveryStep  # where lengths.py makes a plain model
    return script.measure(("plain", d_hidden, most, seed)) | {"model": kind}


def name_of(run):
    """A run's place in RUNS."""
    return run["model"], run["d_hidden"], run["most_digits"], run["seed"]


def fresh():
    """A log without runs."""
    return {
        "about": "made by every_step.py, whose first lines say how to read it",
        "settings": lengths().SETTINGS,
        "versions": {"python": platform.python_version(), "torch": torch.__version__.split("+")[0]},
        "hardware": HARDWARE,
        "runs": [],
    }


def main():
    """Make the runs that the log does not have yet."""
    for run in RUNS:
        log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else fresh()
        if run in map(name_of, log["runs"]):
            continue
        log["runs"].append(measure(run))
        LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")
        print(*run, log["runs"][-1]["by_digits"], log["runs"][-1]["n_parameters"], flush=True)


if __name__ == "__main__":
    main()
