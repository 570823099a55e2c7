"""Who takes part: each builds a model, trains it by the clock, and scores the next token.

Batches, smoothing and sizes are the recipe's for all, and so is the way of the learning rate: a tenth of the
time up, then straight down to zero. What differs is said at each.
"""

import importlib.util
import math
import tempfile

import torch
from torch.nn import functional as F

from bench import peers
from bench.race.clock import WARMUP
from heed.alignment import AttentionSeq2Seq
from heed.attention import causal_mask, expectation, padding_mask
from heed.data import TokenBatches
from heed.engine import batch_to, choose_precision, fit
from heed.loss import next_token_loss, translation_loss
from heed.recipe import build
from heed.speed import keep_memory
from heed.text import PAD

NEVER = 2**62


class Contestant:
    """The interface. A model's `memory` is what it makes of a source, and can be cut to some rows of it.

    rate: the highest learning rate; where there are two optimizers, the first one's
    """

    needs = ()  # packages
    rates = (2e-3, 1e-3, 4e-3, 5e-4)  # that the search tries, in this order

    def __init__(self, label):
        self.label = label

    @property
    def missing(self):
        """The packages that are needed and not installed."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]

    def build(self, vocab, sizes, seed):
        """A model with fresh weights. sizes: n_layers, d_model, d_ff, n_heads, dropout."""
        raise NotImplementedError

    def train(self, model, data, clock, rate, seed):
        """Train it, on the device where it is, until the clock says that it is over."""
        raise NotImplementedError

    def memory(self, model, source):
        """What is made of source (b, n_source), once: a tuple of tensors, the first axis of each b long."""
        raise NotImplementedError

    def logits(self, model, memory, target_in, last=False):
        """The scores of the next token after each of target_in (b, n), from BOS on: (b, n, vocab).

        last: only after the last one, (b, 1, vocab)
        """
        raise NotImplementedError


def device_of(model):
    """Where a model is."""
    return next(model.parameters()).device


def ending(x, last):
    """The vectors at all positions, or only at the last one."""
    return x[:, -1:] if last else x


# --- heed ---------------------------------------------------------------------------------------------------


class Watched(TokenBatches):
    """Batches for `fit` that let the clock look at the model between two of them, each an update."""

    def __init__(self, data, seed, clock, model):
        super().__init__(data.pairs, data.tokens, seed)
        self.clock, self.model, self.asked, self.seen = clock, model, 0, 0

    def batch(self, indices):
        self.clock.look(self.model, self.asked, self.seen)
        batch = super().batch(indices)
        self.asked += 1
        self.seen += batch.n_tokens
        return batch


class Fit(Contestant):
    """The course's Transformer, trained by `fit`. With Muon, AdamW has half its rate, as in the recipe."""

    def __init__(self, label, optimizer):
        super().__init__(label)
        self.optimizer = optimizer
        if optimizer == "muon":
            self.rates = (8e-3, 4e-3, 16e-3, 2e-3)

    def build(self, vocab, sizes, seed):
        return build({"model": {**sizes, "norm": "pre"}, "training": {"seed": seed}}, vocab)

    def loss(self, model, batch, smoothing):
        """The sum over the batch's real target tokens."""
        return translation_loss(model, batch, smoothing)

    def train(self, model, data, clock, rate, seed):
        watched = Watched(data, seed, clock, model)
        adamw_lr = rate / 2 if self.optimizer == "muon" else None
        with tempfile.TemporaryDirectory() as folder:
            clock.start()
            result = fit(
                model, watched, lambda model, batch: self.loss(model, batch, data.smoothing), folder,
                minutes=clock.minutes, updates=clock.n_updates, optimizer=self.optimizer, lr=rate,
                adamw_lr=adamw_lr, warmup=WARMUP, device=str(device_of(model)), seed=seed,
                every=NEVER, checkpoint_minutes=None,
            )  # fmt: skip
        clock.updates, clock.tokens = result.steps, result.tokens
        clock.end(model)

    def memory(self, model, source):
        mask = padding_mask(source)
        return model.encode(source, mask), mask

    def logits(self, model, memory, target_in, last=False):
        mask = padding_mask(target_in) & causal_mask(target_in.shape[1]).to(target_in.device)
        x = model.decode(*memory, target_in, mask)
        return model.generator.proj(ending(x, last))


class Recurrent(AttentionSeq2Seq):
    """The recurrent model with attention, whose output layer is computed for all steps at once, and dropout.

    Dropout on the vectors of tokens, and on what the output layer reads. As wide as the Transformer.
    """

    def __init__(self, vocab, width, dropout):
        super().__init__(vocab, vocab, width, width)
        self.p = dropout
        for embed in (self.encoder.embed, self.decoder.embed):
            embed.register_forward_hook(self.dropped)

    def dropped(self, module, given, out):
        """A hook: what follows an embedding matrix."""
        return F.dropout(out, self.p, self.training)

    def vectors(self, memory, target_in):
        """What the output layer reads at each position, (b, n, 4 * width). memory: of `remember`."""
        h, keys, mask, s = memory
        decoder, read = self.decoder, []
        for y in decoder.embed(target_in).unbind(dim=1):
            alpha = decoder.attention(decoder.score.compare(s[:, None], keys), mask[:, None])
            c = expectation(alpha, h)[:, 0]
            s = decoder.cell(torch.cat([y, c], dim=-1), s)
            read.append(torch.cat([s, c, y], dim=-1))
        return F.dropout(torch.stack(read, dim=1), self.p, self.training)

    def remember(self, source):
        """A memory for `vectors`."""
        s, memory = self.start(source)
        return (*memory, s)


class Output:
    """The recurrent model's output layer, as `next_token_loss` wants a generator."""

    def __init__(self, model):
        self.proj = model.decoder.out


class FitRecurrent(Fit):
    """The course's recurrent model with attention, trained by `fit`. Muon moves its score's matrices alone,
    for those of a recurrent layer are no `nn.Linear`."""

    rates = (8e-3, 4e-3, 16e-3, 2e-3)

    def build(self, vocab, sizes, seed):
        torch.manual_seed(seed)
        return Recurrent(vocab, sizes["d_model"], sizes["dropout"])

    def loss(self, model, batch, smoothing):
        x = model.vectors(model.remember(batch.source), batch.target_in)
        return next_token_loss(Output(model), x, batch, smoothing)

    def memory(self, model, source):
        return model.remember(source)

    def logits(self, model, memory, target_in, last=False):
        return model.decoder.out(ending(model.vectors(memory, target_in), last))


# --- nn.Transformer -----------------------------------------------------------------------------------------


class Torch(Contestant):
    """`nn.Transformer`, with its norms before the sublayers, as the recipe has them; its matrix is tied."""

    def build(self, vocab, sizes, seed):
        torch.manual_seed(seed)
        return peers.TorchTransformer(vocab, **sizes, norm_first=True)

    def memory(self, model, source):
        padding = source == PAD
        return model.body.encoder(model.embed(source), src_key_padding_mask=padding), padding

    def logits(self, model, memory, target_in, last=False):
        x = model.body.decoder(
            model.embed(target_in), memory[0], tgt_mask=peers.future(target_in), tgt_is_causal=True,
            tgt_key_padding_mask=target_in == PAD, memory_key_padding_mask=memory[1],
        )  # fmt: skip
        return model.generator(ending(x, last))


class Classic(Torch):
    """In the loop of many a tutorial: float32, Adam with one rate from first to last, and nothing more."""

    rates = (1e-3, 5e-4, 2e-3, 2.5e-4)

    def train(self, model, data, clock, rate, seed):
        stream, device = data.stream(seed), device_of(model)
        optimizer = torch.optim.Adam(model.train().parameters(), rate, betas=(0.9, 0.98), eps=1e-9)
        torch.manual_seed(seed)
        clock.start()
        while not clock.over:
            batch = batch_to(next(stream), device)
            loss = model.loss(batch, data.smoothing)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            clock.step(model, batch.n_tokens)
        clock.end(model)


class Good(Torch):
    """In a good loop: autocast in bfloat16 where that is faster, freed memory kept, AdamW in one kernel, the
    gradient clipped, the rate up and down."""

    def train(self, model, data, clock, rate, seed):
        keep_memory()
        stream, device = data.stream(seed), device_of(model)
        precision = choose_precision(device)
        optimizer = adamw(model.train(), rate)
        torch.manual_seed(seed)
        clock.start()
        while not clock.over:
            for group in optimizer.param_groups:
                group["lr"] = rate * clock.share
            batch = batch_to(next(stream), device)
            with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
                loss = model.loss(batch, data.smoothing)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            clock.step(model, batch.n_tokens)
        clock.end(model)


def adamw(model, rate):
    """AdamW as `fit` has it."""
    return torch.optim.AdamW(
        model.parameters(), rate, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, fused=True
    )


# --- Hugging Face -------------------------------------------------------------------------------------------


class Marian(Contestant):
    """Hugging Face's Marian with `Trainer`, in bfloat16 where that is faster; its norms follow."""

    needs = ("transformers", "accelerate")
    rates = (5e-4, 1e-3, 2.5e-4, 2e-3)

    def build(self, vocab, sizes, seed):
        torch.manual_seed(seed)
        return peers.marian(vocab, **sizes)

    def train(self, model, data, clock, rate, seed):
        from bench.race.trainer import train

        train(model, data, clock, adamw(model, rate), seed, choose_precision(device_of(model)))

    def memory(self, model, source):
        mask = (source != PAD).long()
        return model.model.encoder(input_ids=source, attention_mask=mask).last_hidden_state, mask

    def logits(self, model, memory, target_in, last=False):
        x = model.model.decoder(
            input_ids=target_in, attention_mask=(target_in != PAD).long(), encoder_hidden_states=memory[0],
            encoder_attention_mask=memory[1], use_cache=False,
        ).last_hidden_state  # fmt: skip
        return model.lm_head(ending(x, last)) + model.final_logits_bias


# --- JoeyNMT ------------------------------------------------------------------------------------------------


class Joey(Contestant):
    """JoeyNMT with its own loop, batches and loss, in the float32 that it insists on; AdamW; norms before."""

    needs = ("joeynmt", "tensorboard", "subword_nmt", "sentencepiece")

    def build(self, vocab, sizes, seed):
        from bench.race import joey

        return joey.build(vocab, sizes, seed)

    def train(self, model, data, clock, rate, seed):
        from bench.race import joey

        joey.train(model, data, clock, rate, seed)

    def memory(self, model, source):
        from bench.race import joey

        return joey.memory(model, source)

    def logits(self, model, memory, target_in, last=False):
        from bench.race import joey

        return ending(joey.logits(model, memory, target_in), last)


CONTESTANTS = {
    "fit-muon": Fit("heed's fit, Muon", "muon"),
    "fit-adamw": Fit("heed's fit, AdamW", "adamw"),
    "torch-good": Good("nn.Transformer, good loop"),
    "torch-classic": Classic("nn.Transformer, classic loop"),
    "marian": Marian("Hugging Face's Marian, Trainer"),
    "joey": Joey("JoeyNMT"),
    "recurrent-adamw": FitRecurrent("recurrent with attention, fit, AdamW", "adamw"),
    "recurrent-muon": FitRecurrent("recurrent with attention, fit, Muon", "muon"),
}
OURS = ("fit-muon", "fit-adamw", "recurrent-adamw", "recurrent-muon")


def guessing(vocab):
    """The held-out loss of someone who guesses evenly."""
    return math.log(vocab)
