"""The same Transformer as others build it: torch's own `nn.Transformer`, and Marian of Hugging Face."""

import importlib.util
import math
import warnings

import torch
from torch import nn
from torch.nn import functional as F

from heed.position import PositionalEncoding
from heed.text import BOS, EOS, PAD


def has_transformers():
    """Whether Hugging Face's library is installed."""
    return importlib.util.find_spec("transformers") is not None


def has_ctranslate2():
    """Whether CTranslate2 is installed."""
    return importlib.util.find_spec("ctranslate2") is not None


class TorchTransformer(nn.Module):
    """`nn.Transformer` between an embedding matrix and the same matrix as generator.

    Its masks mean the opposite of ours: True where a query may not look.

    norm_first: whether the norms stand before the sublayers; as it comes they follow them
    """

    def __init__(self, vocab, n_layers, d_model, d_ff, n_heads, dropout, norm_first=False):
        super().__init__()
        self.matrix = nn.Embedding(vocab, d_model, padding_idx=PAD)
        nn.init.normal_(self.matrix.weight, std=d_model**-0.5)
        self.position = PositionalEncoding(d_model, dropout)
        with warnings.catch_warnings():  # that norms which stand first have no nested tensors
            warnings.filterwarnings("ignore", "enable_nested_tensor is True")
            self.body = nn.Transformer(
                d_model, n_heads, n_layers, n_layers, d_ff, dropout, batch_first=True, norm_first=norm_first
            )
        self.generator = nn.Linear(d_model, vocab)
        self.generator.weight = self.matrix.weight

    def embed(self, ids):
        return self.position(self.matrix(ids) * math.sqrt(self.matrix.embedding_dim))

    def forward(self, source, target_in):
        """source: (b, n_source). target_in: (b, n). Returns (b, n, vocab)."""
        padding = source == PAD
        x = self.body(
            self.embed(source),
            self.embed(target_in),
            tgt_mask=future(target_in),
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            tgt_key_padding_mask=target_in == PAD,
            memory_key_padding_mask=padding,
        )
        return self.generator(x)

    def loss(self, batch, smoothing=0.1):
        """Smoothed cross-entropy, the mean over real target tokens."""
        logits, target = self(batch.source, batch.target_in).flatten(0, 1), batch.target_out.flatten()
        return F.cross_entropy(logits, target, ignore_index=PAD, label_smoothing=smoothing)


def future(ids):
    """True where a query may not look: at what comes after it, (n, n). ids: (b, n)."""
    n = ids.shape[1]
    return torch.ones(n, n, dtype=torch.bool, device=ids.device).triu(1)


def marian(vocab, n_layers, d_model, d_ff, n_heads, dropout):
    """Hugging Face's Marian, of this size, untrained. Its attention's weights have no dropout, as ever there.

    Its computation of attention is the library's own default.
    """
    from transformers import MarianConfig, MarianMTModel

    size = {
        f"{side}_{part}": number
        for side in ("encoder", "decoder")
        for part, number in (("layers", n_layers), ("ffn_dim", d_ff), ("attention_heads", n_heads))
    }
    special = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS, "decoder_start_token_id": BOS}
    config = MarianConfig(
        vocab_size=vocab, d_model=d_model, dropout=dropout, activation_function="relu", scale_embedding=True,
        max_position_embeddings=512, forced_eos_token_id=None, attn_implementation="sdpa", **size, **special,
    )  # fmt: skip
    return MarianMTModel(config)


def marian_loss(model, batch):
    """Cross-entropy as the model itself computes it, the mean over real target tokens."""
    labels = batch.target_out.masked_fill(batch.target_out == PAD, -100)
    mask = (batch.source != PAD).long()
    given = {"decoder_input_ids": batch.target_in, "labels": labels, "use_cache": False}
    return model(input_ids=batch.source, attention_mask=mask, **given).loss
