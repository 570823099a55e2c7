"""The Transformer: its stacks of layers, the models, and what builds them.

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

        log p = log softmax(W x + b)
        (Vaswani et al. 2017, section 3.4)

    x: (..., d_model)

    Returns (..., vocab).
    """

    def __init__(self, d_model, vocab):
        super().__init__()
        self.proj = nn.Linear(d_model, vocab)

    def forward(self, x):
        return self.proj(x).log_softmax(dim=-1)  # (..., vocab)


class Encoder(nn.Module):
    """A stack of n equal layers, and the one norm that pre-norm adds."""

    def __init__(self, layer, n_layers):
        super().__init__()
        self.layers = clones(layer, n_layers)
        self.norm = LayerNorm(layer.size)

    def forward(self, x, mask, caches=()):
        """x: (b, n, d_model). caches: one a layer. Returns (b, n, d_model)."""
        for i, layer in enumerate(self.layers):
            x = layer(x, mask, *caches[i : i + 1])  # (b, n, d_model)
        return self.norm(x)  # (b, n, d_model)


class Decoder(nn.Module):
    """A stack of n equal layers that also look at the memory, and a norm."""

    def __init__(self, layer, n_layers):
        super().__init__()
        self.layers = clones(layer, n_layers)
        self.norm = LayerNorm(layer.size)

    def forward(self, x, memory, source_mask, target_mask, caches=()):
        """Carry the target through all layers.

        x: (b, n, d_model)
        memory: (b, n_source, d_model)
        source_mask: (b, 1, 1, n_source)
        target_mask: (b, 1, n, n)

        Returns (b, n, d_model).
        """
        for i, layer in enumerate(self.layers):
            x = layer(x, memory, source_mask, target_mask, *caches[i : i + 1])
        return self.norm(x)  # (b, n, d_model)


class InputEmbedding(nn.Sequential):
    """From ids to vectors that know their position."""

    def forward(self, ids, start=0):
        """Embed the ids, the first of which stands at position `start`.

        ids: (b, n)

        Returns (b, n, d_model).
        """
        embeddings, position = self
        return position(embeddings(ids), start)  # (b, n, d_model)


class EncoderDecoder(nn.Module):
    """The whole model but for its last step, the generator.

    Whoever decodes calls it where it is needed (Vaswani et al. 2017, figure 1).
    """

    def __init__(self, encoder, decoder, source_embed, target_embed, generator):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.source_embed = source_embed
        self.target_embed = target_embed
        self.generator = generator

    def forward(self, source, target_in):
        """From source (b, n_source), target_in (b, n) to (b, n, d_model)."""
        source_mask = padding_mask(source)  # (b, 1, 1, n_source)
        causal = causal_mask(target_in.shape[1]).to(source.device)  # (n, n)
        target_mask = padding_mask(target_in) & causal  # (b, 1, n, n)
        memory = self.encode(source, source_mask)  # (b, n_source, d_model)
        return self.decode(memory, source_mask, target_in, target_mask)

    def encode(self, source, source_mask):
        """From source (b, n_source) to the memory (b, n_source, d_model)."""
        return self.encoder(self.source_embed(source), source_mask)

    def decode(self, memory, source_mask, target_in, target_mask, cache=None):
        """From memory and target_in (b, n) to vectors (b, n, d_model).

        With a cache (`heed.decode.Cache`), target_in holds only the new tokens.
        """
        start, caches = (0, ()) if cache is None else (cache.n, cache.layers)
        x = self.target_embed(target_in, start)  # (b, n, d_model)
        return self.decoder(x, memory, source_mask, target_mask, caches)


class LanguageModel(nn.Module):
    """The decoder alone: each token sees those before, predicts the next.

    A stack of `EncoderLayer`s under a causal mask: without a source there is no
    source attention (Radford et al. 2018). `forward` stops before the
    generator, as the encoder–decoder's does.
    """

    def __init__(self, encoder, embed, generator):
        super().__init__()
        self.encoder = encoder
        self.embed = embed
        self.generator = generator

    def forward(self, ids, cache=None):
        """Carry the tokens through the stack; with a cache, the new ones.

        ids: (b, n), padding included
        cache: a `heed.decode.Cache` of what came before ids, or None

        Returns (b, n, d_model).
        """
        if cache is None:
            return self.encoder(self.embed(ids), self.mask(ids))
        x = self.embed(ids, cache.n)  # (b, n, d_model)
        mask = causal_mask(ids.shape[1], cache.n).to(ids.device)  # (n, n_k)
        return self.encoder(x, mask, cache.layers)  # (b, n, d_model)

    def mask(self, ids):
        """Who may look at whom: everyone at real tokens, and not ahead.

        ids: (b, n)

        Returns (b, 1, n, n).
        """
        causal = causal_mask(ids.shape[1]).to(ids.device)  # (n, n)
        return padding_mask(ids) & causal  # (b, 1, n, n)


class MaskedLanguageModel(LanguageModel):
    """The encoder alone: each token sees all others, to predict hidden ones.

    One mask apart from `LanguageModel` (Devlin et al. 2019). It has no first
    and no next token, so it cannot be decoded step by step, and takes no cache.
    """

    def forward(self, ids):
        """ids: (b, n), padding included. Returns (b, n, d_model)."""
        return super().forward(ids)  # (b, n, d_model)

    def mask(self, ids):
        """Who may look at whom: everyone at real tokens.

        ids: (b, n)

        Returns (b, 1, 1, n).
        """
        return padding_mask(ids)  # (b, 1, 1, n)


class TokenClassifier(nn.Module):
    """A label for every token: what a model has made of it, and one more layer.

        scores_t = W h_t + b,   h_t: the model's vector of token t
        (Devlin et al. 2019, figure 4d)

    model: a `MaskedLanguageModel` or a `LanguageModel`, trained or not; its
        weights are shared with the caller, and its generator is not used
    """

    def __init__(self, model, n_labels):
        super().__init__()
        self.model = model
        self.out = nn.Linear(model.generator.proj.in_features, n_labels)

    def forward(self, ids):
        """Return a score for every label, (b, n, n_labels).

        ids: (b, n), padding included
        """
        return self.out(self.model(ids))  # (b, n, n_labels)


def make_model(
    source_vocab, target_vocab, n_layers=6, d_model=512, d_ff=2048, n_heads=8,
    dropout=0.1, norm="pre", self_attention=MultiHeadAttention,
):  # fmt: skip
    """Build a Transformer; the default has the base model's sizes (table 3).

    Every linear layer starts from Xavier's uniform distribution (Glorot &
    Bengio 2010), every embedding from a normal one with standard deviation
    1/√d_model: multiplied by √d_model, its entries have variance 1.

    norm: "pre" or "post" the sublayer; anything else raises a ValueError
    self_attention: a class; attention to the source is `MultiHeadAttention`
    """

    def attention(kind):
        return kind(d_model, n_heads, dropout)

    def rest():
        feed_forward = PositionwiseFeedForward(d_model, d_ff, dropout)
        return feed_forward, dropout, connections(norm)

    def embed(vocab):
        position = PositionalEncoding(d_model, dropout)
        return InputEmbedding(Embeddings(d_model, vocab), position)

    own, source = self_attention, MultiHeadAttention
    encoder_layer = EncoderLayer(d_model, attention(own), *rest())
    parts = attention(own), attention(source), *rest()
    decoder_layer = DecoderLayer(d_model, *parts)
    model = EncoderDecoder(
        Encoder(encoder_layer, n_layers),
        Decoder(decoder_layer, n_layers),
        embed(source_vocab),
        embed(target_vocab),
        Generator(d_model, target_vocab),
    )
    if norm == "post":
        model.encoder.norm = model.decoder.norm = nn.Identity()
    return initialised(model)


def make_language_model(
    vocab, n_layers=6, d_model=512, d_ff=2048, n_heads=8, dropout=0.1,
    kind=LanguageModel, self_attention=MultiHeadAttention,
):  # fmt: skip
    """Build a pre-norm Transformer that is only a decoder, or only an encoder.

    kind: `LanguageModel` or `MaskedLanguageModel`
    self_attention: `MultiHeadAttention` or a subclass of it
    """
    attention = self_attention(d_model, n_heads, dropout)
    feed_forward = PositionwiseFeedForward(d_model, d_ff, dropout)
    layer = EncoderLayer(d_model, attention, feed_forward, dropout)
    position = PositionalEncoding(d_model, dropout)
    embed = InputEmbedding(Embeddings(d_model, vocab), position)
    generator = Generator(d_model, vocab)
    return initialised(kind(Encoder(layer, n_layers), embed, generator))


def connections(norm):
    """The class of connection with its norm "pre" or "post" the sublayer.

    Raises ValueError for another word.
    """
    known = {"pre": SublayerConnection, "post": PostNormConnection}
    if norm not in known:
        raise ValueError(f'The norm stands "pre" or "post" the sublayer; got {norm!r}.')
    return known[norm]


def initialised(model):
    """Give embeddings a normal distribution, matrices of layers Xavier's.

    What a variant adds of its own, such as numbers for distances, stays as its
    class has set it.

    Returns the model.
    """
    for module in model.modules():
        if isinstance(module, Embeddings):
            weight = module.embedding.weight
            nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
            weight.data[PAD] = 0.0
        elif isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
    return model


def tie(model):
    """Let source, target and generator share one matrix (Press & Wolf 2017).

    Returns the model. Raises ValueError if the vocabularies differ in size:
    then no one matrix fits both.
    """
    source = model.source_embed[0].embedding
    target = model.target_embed[0].embedding
    proj = model.generator.proj
    if source.weight.shape != target.weight.shape:
        raise ValueError(
            f"Vocabularies of {len(source.weight)} and {len(target.weight)} "
            "tokens cannot share one matrix. "
            "Build one vocabulary for both languages."
        )
    target.weight = proj.weight = source.weight
    return model
