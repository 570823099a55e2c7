"""What training makes small: the distance between what the model says and what it should say."""

import torch
from torch.nn import functional as F

from heed.speed import linear_cross_entropy


def smoothed(target, vocab, smoothing, dtype=None):
    """The target distribution: 1 − smoothing on the true token, and smoothing shared out over all tokens.

        q_j = (1 − ε) [j = y] + ε / V      (Szegedy et al. 2016, section 7)

    The true token gets its share of ε as well, as in torch's cross_entropy.

    target: (n,), ids
    vocab: number of tokens, V
    smoothing: ε, from 0 to below 1
    dtype: of what comes back; torch's default if it is not given

    Returns (n, vocab).
    """
    if not 0 <= smoothing < 1:
        raise ValueError(f"Smoothing must be at least 0 and below 1; got {smoothing}.")
    size = len(target), vocab
    even = torch.full(size, smoothing / vocab, dtype=dtype, device=target.device)  # (n, vocab)
    return even.scatter_add(1, target[:, None], torch.full_like(even[:, :1], 1 - smoothing))  # (n, vocab)


def label_smoothing(log_probabilities, target, smoothing):
    """How far the model is from the smoothed target, as a Kullback–Leibler divergence, summed over tokens.

        KL(q ‖ p) = Σ_j q_j (log q_j − log p_j),   with 0 log 0 = 0

    It differs from cross-entropy with smoothing by the entropy of q, which no model can change: the
    gradient is the same.

    log_probabilities: (n, vocab)
    target: (n,), ids of real tokens only

    Returns a number.
    """
    q = smoothed(target, log_probabilities.shape[1], smoothing, log_probabilities.dtype)  # (n, vocab)
    return F.kl_div(log_probabilities, q, reduction="sum")


def translation_loss(model, batch, smoothing=0.1):
    """Smoothed cross-entropy of the next token under teacher forcing, summed over the real target tokens.

        L = −Σ_t Σ_j q_j log p(j | y_<t, x),   q from `smoothed`

    Positions of padding are left out before the generator: no score is computed that is not needed.

    model: an `EncoderDecoder`
    batch: a `heed.data.Batch`

    Returns a number; divided by `batch.n_tokens` it is the mean.
    """
    return next_token_loss(model.generator, model(batch.source, batch.target_in), batch, smoothing)


def language_model_loss(model, batch, smoothing=0.0):
    """Cross-entropy of the next token in a text, summed over its real tokens: the target, without a source.

        L = −Σ_t Σ_j q_j log p(j | y_<t),   q from `smoothed`

    model: a `LanguageModel`
    batch: a `heed.data.Batch`, whose source is not looked at

    Returns a number; divided by `batch.n_tokens` it is the mean.
    """
    return next_token_loss(model.generator, model(batch.target_in), batch, smoothing)


def next_token_loss(generator, x, batch, smoothing):
    """Smoothed cross-entropy between what the vectors predict and the real tokens that come next, summed.

    x: (b, n_target, d_model), what the model made of `batch.target_in`

    Returns a number.
    """
    real, proj = batch.target_mask, generator.proj
    return linear_cross_entropy(x[real], proj.weight, proj.bias, batch.target_out[real], smoothing)
