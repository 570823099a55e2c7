"""The Transformer: stacks of layers, the encoder–decoder, and the function that builds one.

This module knows nothing about decoding or training.
"""

from torch import nn

from heed.attention import MultiHeadAttention, causal_mask, padding_mask
from heed.layers import (
    DecoderLayer,
    Embeddings,
    EncoderLayer,
    LayerNorm,
    PositionwiseFeedForward,
    PostNormConnection,
    SublayerConnection,
    clones,
)
from heed.position import PositionalEncoding
from heed.text import PAD


class Generator(nn.Module):
    """From a token's vector to the log-probabilities of the next token.

        log p = log softmax(W x + b)      (Vaswani et al. 2017, section 3.4)

    x: (..., d_model)

    Returns (..., vocab).
    """

    def __init__(self, d_model, vocab):
        super().__init__()
        self.proj = nn.Linear(d_model, vocab)

    def forward(self, x):
        return self.proj(x).log_softmax(dim=-1)  # (..., vocab)


class Encoder(nn.Module):
    """A stack of n equal layers, and at its end the one norm that a pre-norm stack adds."""

    def __init__(self, layer, n_layers):
        super().__init__()
        self.layers = clones(layer, n_layers)
        self.norm = LayerNorm(layer.size)

    def forward(self, x, mask):
        """x: (b, n, d_model). mask: (b, 1, 1, n). Returns (b, n, d_model)."""
        for layer in self.layers:
            x = layer(x, mask)  # (b, n, d_model)
        return self.norm(x)  # (b, n, d_model)


class Decoder(nn.Module):
    """A stack of n equal layers that also look at the encoder's memory, and a norm at its end."""

    def __init__(self, layer, n_layers):
        super().__init__()
        self.layers = clones(layer, n_layers)
        self.norm = LayerNorm(layer.size)

    def forward(self, x, memory, source_mask, target_mask):
        """Carry the target through all layers.

        x: (b, n, d_model)
        memory: (b, n_source, d_model)
        source_mask: (b, 1, 1, n_source)
        target_mask: (b, 1, n, n)

        Returns (b, n, d_model).
        """
        for layer in self.layers:
            x = layer(x, memory, source_mask, target_mask)  # (b, n, d_model)
        return self.norm(x)  # (b, n, d_model)


class EncoderDecoder(nn.Module):
    """The whole model but for its last step: who decodes calls the generator where it is needed.

    (Vaswani et al. 2017, figure 1)
    """

    def __init__(self, encoder, decoder, source_embed, target_embed, generator):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.source_embed = source_embed
        self.target_embed = target_embed
        self.generator = generator

    def forward(self, source, target_in):
        """source: (b, n_source). target_in: (b, n), from BOS on. Returns (b, n, d_model), not scores."""
        source_mask = padding_mask(source)  # (b, 1, 1, n_source)
        target_mask = padding_mask(target_in) & causal_mask(target_in.shape[1]).to(source.device)
        return self.decode(self.encode(source, source_mask), source_mask, target_in, target_mask)

    def encode(self, source, source_mask):
        """source: (b, n_source). source_mask: (b, 1, 1, n_source). Returns (b, n_source, d_model)."""
        return self.encoder(self.source_embed(source), source_mask)  # (b, n_source, d_model)

    def decode(self, memory, source_mask, target_in, target_mask):
        """target_in: (b, n). target_mask: (b, 1, n, n). Returns (b, n, d_model)."""
        return self.decoder(self.target_embed(target_in), memory, source_mask, target_mask)  # (b, n, d_model)


def make_model(
    source_vocab, target_vocab, n_layers=6, d_model=512, d_ff=2048, n_heads=8, dropout=0.1, norm="pre"
):
    """Build a Transformer; the numbers left out are those of the paper's base model (its table 3).

    Every matrix starts from Xavier's uniform distribution (Glorot & Bengio 2010), every embedding from a
    normal one with deviation 1/√d_model, so that after the factor √d_model a token's numbers have size 1.
    """

    if norm not in ("pre", "post"):
        raise ValueError(f'norm must be "pre" or "post"; got {norm!r}.')
    connection = SublayerConnection if norm == "pre" else PostNormConnection

    def attention():
        return MultiHeadAttention(d_model, n_heads, dropout)

    def feed_forward():
        return PositionwiseFeedForward(d_model, d_ff, dropout)

    def embed(vocab):
        return nn.Sequential(Embeddings(d_model, vocab), PositionalEncoding(d_model, dropout))

    model = EncoderDecoder(
        Encoder(EncoderLayer(d_model, attention(), feed_forward(), dropout, connection), n_layers),
        Decoder(
            DecoderLayer(d_model, attention(), attention(), feed_forward(), dropout, connection), n_layers
        ),
        embed(source_vocab),
        embed(target_vocab),
        Generator(d_model, target_vocab),
    )
    if norm == "post":
        model.encoder.norm = model.decoder.norm = nn.Identity()
    for name, p in model.named_parameters():
        if name.endswith("table.weight"):
            nn.init.normal_(p, std=d_model**-0.5)
            p.data[PAD] = 0.0
        elif p.dim() > 1:
            nn.init.xavier_uniform_(p)
    return model


def tie(model):
    """Let source, target and generator share one table (Press & Wolf 2017). Returns the model.

    Raises ValueError if the vocabularies differ in size: then there is no one table.
    """
    source, target, proj = model.source_embed[0].table, model.target_embed[0].table, model.generator.proj
    if source.weight.shape != target.weight.shape:
        raise ValueError(
            f"Vocabularies of {len(source.weight)} and {len(target.weight)} tokens cannot share one table. "
            "Build one vocabulary for both languages."
        )
    target.weight = proj.weight = source.weight
    return model
