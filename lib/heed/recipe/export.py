"""A trained translator in the formats of other programs: CTranslate2's model, Hugging Face's tokenizer.

CTranslate2 (https://opennmt.net/CTranslate2) is an engine that does nothing but translate: kernels in C++,
weights in eight bits where that is asked for. This module writes the weights where the engine expects them.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer, decoders
from torch import nn

from heed import bpe, layers, speed, transformer
from heed.attention import MaskedSoftmax, MultiHeadAttention
from heed.decode import greedy
from heed.position import PositionalEncoding, sinusoids
from heed.recipe.translator import new_folder
from heed.text import BOS, BYTES, EOS, PAD, UNK

KINDS = ("float32", "int8", "int16", "float16", "bfloat16")
N_POSITIONS = 2048  # rows of the matrix of positions: the engine computes no more
# What the engine computes as we do. A subclass may compute something else, so it is not one of these.
EXPORTABLE = {
    *(transformer.EncoderDecoder, transformer.Encoder, transformer.Decoder, transformer.Generator),
    *(transformer.InputEmbedding, layers.Embeddings, layers.EncoderLayer, layers.DecoderLayer),
    *(layers.SublayerConnection, layers.PostNormConnection, layers.PositionwiseFeedForward),
    *(layers.LayerNorm, speed.FusedLayerNorm, speed.ByteDropout, PositionalEncoding),
    *(MultiHeadAttention, MaskedSoftmax),
    *(nn.Linear, nn.Embedding, nn.Dropout, nn.Identity, nn.ModuleList),
}


def export(translator, to, kind="float32"):
    """Write a translator as a folder that CTranslate2 loads, with the tokenizer beside it.

    The folder holds the engine's own files, and tokenizer.json in Hugging Face's format.

    translator: as `heed.recipe.load_translator` returns it
    to: the folder; it must not be there yet
    kind: how the matrices are stored: float32, int8, int16, float16 or bfloat16

    Returns the folder. Raises ValueError if it is there, if CTranslate2 is not installed, for another kind,
    and for a model that the engine cannot run.
    """
    to = Path(to)
    if kind not in KINDS:
        raise ValueError(f"Matrices are stored as {', '.join(KINDS)}; got {kind!r}.")
    spec = specification(translator.model)
    tokens = translator.subwords.tokens
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    special = {"unk_token": UNK, "bos_token": BOS, "eos_token": EOS, "decoder_start_token": BOS}
    for name, i in special.items():
        setattr(spec.config, name, tokens[i])
    spec.validate()
    spec.optimize(quantization=kind)
    with new_folder(to, "--folder") as unfinished:
        try:
            spec.save(str(unfinished))
            tokenizer(translator.subwords).save(str(unfinished / "tokenizer.json"))
        except RuntimeError as error:  # the engine's, and the tokenizer's, for a full disk
            raise OSError(str(error)) from error
    return to


def engine():
    """The package `ctranslate2`. Raises ValueError if it is not installed."""
    try:
        import ctranslate2
        from ctranslate2 import specs  # noqa: F401
    except ImportError as error:
        raise ValueError(
            f"CTranslate2 cannot be used here ({error}). Install it: pip install ctranslate2"
        ) from error
    return ctranslate2


def check_exportable(model, by="CTranslate2"):
    """Raise a ValueError that names the first part of a model that an engine cannot compute.

    by: the name of the engine
    """
    connections = set()
    for name, module in model.named_modules():
        kind = type(module)
        if kind not in EXPORTABLE:
            raise ValueError(
                f"{name or 'The model'} is a {kind.__name__}, and {by} would compute something else. "
                "A Transformer as `make_model` builds it, without variants, can be exported."
            )
        if kind in (layers.SublayerConnection, layers.PostNormConnection):
            connections.add(kind.__name__)
    if not isinstance(model, transformer.EncoderDecoder) or len(connections) != 1:
        raise ValueError(
            "Only an EncoderDecoder whose connections are all of one kind can be exported; this is of class "
            f"{type(model).__name__}, with {', '.join(sorted(connections)) or 'none'}."
        )


def specification(model):
    """The engine's description of a model, with the model's weights in it."""
    check_exportable(model)
    encoder, decoder = model.encoder.layers, model.decoder.layers
    pre_norm = isinstance(encoder[0].sublayer[0], layers.SublayerConnection)
    n_heads = encoder[0].self_attention.n_heads
    sizes = (len(encoder), len(decoder))
    spec = engine().specs.TransformerSpec.from_config(sizes, n_heads, pre_norm=pre_norm)
    spec.config.layer_norm_epsilon = encoder[0].sublayer[0].norm.eps
    for side, stack, embed, embeddings in (
        (spec.encoder, model.encoder, model.source_embed, spec.encoder.embeddings[0]),
        (spec.decoder, model.decoder, model.target_embed, spec.decoder.embeddings),
    ):
        embeddings.weight = to_numpy(embed[0].embedding.weight)
        d_model = embeddings.weight.shape[1]
        side.position_encodings.encodings = to_numpy(sinusoids(N_POSITIONS, d_model))
        if pre_norm:
            norm(side.layer_norm, stack.norm)
        for layer_spec, layer in zip(side.layer, stack.layers, strict=True):
            attend, *source, feed = layer.sublayer
            norm(layer_spec.self_attention.layer_norm, attend.norm)
            own = layer.self_attention
            linear(layer_spec.self_attention.linear[0], own.W_q, own.W_k, own.W_v)
            linear(layer_spec.self_attention.linear[1], own.W_o)
            for connection in source:  # of a decoder layer
                norm(layer_spec.attention.layer_norm, connection.norm)
                asked = layer.source_attention
                linear(layer_spec.attention.linear[0], asked.W_q)
                linear(layer_spec.attention.linear[1], asked.W_k, asked.W_v)
                linear(layer_spec.attention.linear[2], asked.W_o)
            norm(layer_spec.ffn.layer_norm, feed.norm)
            linear(layer_spec.ffn.linear_0, layer.feed_forward.W_1)
            linear(layer_spec.ffn.linear_1, layer.feed_forward.W_2)
    linear(spec.decoder.projection, model.generator.proj)
    spec.decoder.projection.bias[[PAD, BOS]] = -6e4  # near −∞, in float16 too: never written
    return spec


def spelled(tokens):
    """Tokens as text, as `heed.text.Characters.decode` has it: bytes that form no character become `�`."""
    data = (bytes([BYTE[token]]) if token in BYTE else token.encode(errors="replace") for token in tokens)
    return b"".join(data).decode(errors="replace")


BYTE = {token: value for value, token in enumerate(BYTES)}


def to_numpy(tensor):
    """A tensor as an array of float32."""
    return tensor.detach().to("cpu", torch.float32).numpy().copy()


def norm(spec, layer_norm):
    """Hand the engine the scale and the shift of a layer norm."""
    spec.gamma, spec.beta = to_numpy(layer_norm.a), to_numpy(layer_norm.b)


def linear(spec, *layers):
    """Hand the engine linear layers, several as one: their outputs side by side."""
    spec.weight = np.concatenate([to_numpy(layer.weight) for layer in layers])
    spec.bias = np.concatenate([to_numpy(layer.bias) for layer in layers])


def tokenizer(subwords):
    """The vocabulary as a `tokenizers.Tokenizer`, which decodes too; its ids are the vocabulary's."""
    whole = Tokenizer.from_str(subwords.bpe.to_str())
    whole.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return whole


class Exported:
    """An exported folder at work: the same sentences in and out as a `Translator`, computed by the engine.

    folder: what `export` has written
    workers: batches that are translated at a time, each by one thread
    compute_type: what the engine computes in; by default, as the matrices are stored

    Raises ValueError if CTranslate2 is not installed, or the folder holds no model.
    """

    def __init__(self, folder, workers=1, compute_type="default"):
        file = Path(folder) / "tokenizer.json"
        if not file.is_file():
            raise ValueError(f"{folder} is no exported model: it has no tokenizer.json.")
        self.tokenizer = Tokenizer.from_str(file.read_text(encoding="utf-8"))
        self.engine = engine().Translator(
            str(folder), compute_type=compute_type, inter_threads=workers, intra_threads=1
        )

    def translate(self, sentences, width=1, n_tokens=4096):
        """Translate sentences, strings: greedily, or with a beam of this width. Returns as many strings.

        n_tokens: source tokens in a batch, padding included

        Raises ValueError for a sentence so long that its translation might need more than `N_POSITIONS`.
        """
        return [spelled(tokens) for tokens in self.search(sentences, width, n_tokens)]

    def search(self, sentences, width=1, n_tokens=4096):
        """The tokens of the translations, as `translate` takes and refuses."""
        cut = [
            self.tokenizer.encode(bpe.without_surrogates(text)).tokens if text.strip() else []
            for text in sentences
        ]
        rows = [i for i, row in enumerate(cut) if row]
        longest = max(map(len, cut), default=0)
        most = 2 * longest + 10  # of the longest, for all
        if most > N_POSITIONS:
            raise ValueError(
                f"A sentence has {longest:,} tokens. The exported model has {N_POSITIONS:,} positions, "
                f"enough for {(N_POSITIONS - 10) // 2:,} tokens and their translation. Cut it into sentences."
            )
        said = self.engine.translate_batch(
            [cut[i] for i in rows], beam_size=width, max_decoding_length=most,
            max_batch_size=n_tokens, batch_type="tokens", max_input_length=0,  # 0: the engine cuts nothing
        )  # fmt: skip
        answers = [[] for _ in cut]
        for i, result in zip(rows, said, strict=True):
            answers[i] = result.hypotheses[0][: 2 * len(cut[i]) + 10]  # of each: `heed.decode.longest`
        return answers


class Difference(NamedTuple):
    """Where the translations of one sentence part.

    line: of the sentence, from 0 on
    log_odds: how much more probable, for the model, our next token is than theirs: near 0 where rounding
        has decided between two tokens that are as likely as one another
    """

    line: int
    ours: str
    theirs: str
    log_odds: float


def compare(translator, folder, sentences):
    """Translate sentences with the model and with what was exported from it, both greedily.

    Returns a list of `Difference`. Raises ValueError if there is no sentence.
    """
    if not any(text.strip() for text in sentences):
        raise ValueError("There is nothing to compare: no line has a word in it.")
    ours, theirs = translator.translate(sentences), Exported(folder).search(sentences)
    return [
        Difference(i, a, spelled(b), log_odds(translator, sentences[i], b))
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True))
        if a != spelled(b)
    ]


@torch.no_grad()
def log_odds(translator, sentence, tokens):
    """How much more probable our token is than theirs, where the translations of a sentence part."""
    model, subwords, _ = translator
    source = torch.tensor([subwords.encode(sentence)])
    (ours,) = greedy(model, source)
    ours, theirs = [*ours, EOS], [*(subwords.ids[token] for token in tokens), EOS]
    n = next((n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
    if n is None:
        return 0.0
    logits = model.generator.proj(model(source, torch.tensor([[BOS, *ours[:n]]]))[0, -1])
    return float(logits[ours[n]] - logits[theirs[n]])
