"""A small training loop.

It knows nothing about the model it trains: the loss is given as a function.
"""

import sys
import time

import torch
from torch.nn import functional as F

from heed.text import PAD


def sequence_loss(model, batch):
    """Mean cross-entropy of the next token, over real target tokens only.

        L = −(1/N) Σ_t log p(y_t | y_<t, x)

    model: returns, for every target position, a score for each token of the
        vocabulary
    batch: a `heed.data.Batch`

    Raises ValueError for a model whose scores come from a separate `generator`,
    such as an `EncoderDecoder`.
    """
    if hasattr(model, "generator"):
        raise ValueError(f"{type(model).__name__} returns vectors, not scores: use `translation_loss`.")
    logits = model(batch.source, batch.target_in)  # (b, n_target, vocab)
    logits, target = logits.flatten(0, 1), batch.target_out.flatten()
    return F.cross_entropy(logits, target, ignore_index=PAD)


def train(
    model, batches, loss, n_steps, rate=4e-3, clip=1.0, seed=0,
    watch=None, every=50,
):  # fmt: skip
    """Improve a model in place by `n_steps` updates with Adam.

    The gradient is clipped, and the learning rate falls to zero.

    batches: an endless iterator over batches, of whatever type `loss` takes
    loss: loss(model, batch) -> the number to minimise
    n_steps: updates to make
    rate: the first learning rate; it falls linearly and would reach
        zero one step after the last
    clip: the norm to which a larger gradient is scaled down
        (Pascanu et al. 2013)
    seed: for what is random inside the model, such as dropout; the batches
        carry a seed of their own
    watch: called as watch(step) before the first update, after every `every`
        updates, and after the last one

    Returns the loss of every step, as a list. Raises ValueError if the loss is
    no longer a finite number, or if the batches run out.
    """
    optimiser = torch.optim.Adam(model.parameters(), lr=rate, foreach=True)
    batches, losses = iter(batches), []
    with torch.random.fork_rng(), Progress(n_steps) as progress:
        torch.manual_seed(seed)
        for step in range(n_steps):
            if watch and step % every == 0:
                look(model, watch, step)
            batch = next_batch(batches, step, n_steps)
            losses.append(update(model.train(), batch, loss, optimiser, clip))
            for group in optimiser.param_groups:
                group["lr"] = rate * (1 - (step + 1) / n_steps)
            progress.show(step + 1, f"loss {losses[-1]:.3f}")
        if watch:
            look(model, watch, n_steps)
    model.eval()
    return losses


def update(model, batch, loss, optimiser, clip):
    """One step: measure the loss, find the gradient, clip it, move the weights.

    Returns the loss.
    """
    value = loss(model, batch)
    if not torch.isfinite(value):
        raise ValueError(f"The loss is {value.item()}. Try a lower learning rate.")
    optimiser.zero_grad()
    value.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimiser.step()
    return value.item()


def next_batch(batches, step, n_steps):
    """The next batch. Raises ValueError if there is none."""
    for batch in batches:
        return batch
    raise ValueError(f"The batches ran out after {step} of {n_steps} steps; `batches` must be endless.")


def look(model, watch, step):
    """Let someone look at the model as it is used: no dropout, no gradients."""
    model.eval()
    with torch.no_grad():
        watch(step)


class Progress:
    """A line that says how far a loop has come; it vanishes with the loop.

    In a notebook it is a display that ends empty, in a terminal a line that is
    erased; elsewhere it is none.

    n_steps: how many steps there will be
    """

    def __init__(self, n_steps):
        self.n_steps = n_steps

    def __enter__(self):
        self.began = self.shown = time.monotonic()
        IPython = sys.modules.get("IPython")
        in_notebook = IPython and hasattr(IPython.get_ipython(), "kernel")
        self.display = None
        if in_notebook:
            show = IPython.display.display
            self.display = show({}, raw=True, display_id=True)
        self.terminal = self.display is None and sys.stderr.isatty()
        return self

    def show(self, done, note=""):
        """Say that `done` steps are made, at most five times a second."""
        now = time.monotonic()
        if now - self.shown < 0.2:
            return
        self.shown = now
        left = (now - self.began) * (self.n_steps - done) / done
        bar = "█" * (20 * done // self.n_steps)
        steps = f"{done}/{self.n_steps}"
        self.write(f"{bar:·<20} {steps}  {note}  {left:.0f} s left")

    def __exit__(self, *error):
        self.write("")

    def write(self, line):
        """Replace the line before by this one; an empty one erases it."""
        if self.display:
            self.display.update({"text/plain": line} if line else {}, raw=True)
        elif self.terminal:
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()
