"""What training makes small: how far a model is from what it should say."""

import torch
from torch.nn import functional as F

from heed.speed import linear_cross_entropy
from heed.text import PAD


def smoothed(target, vocab, smoothing, dtype=None):
    """The target distribution: 1 − ε on the true token, ε shared by all tokens.

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
    size, device = (len(target), vocab), target.device
    even = torch.full(size, smoothing / vocab, dtype=dtype, device=device)  # (n, vocab)
    rest = torch.full_like(even[:, :1], 1 - smoothing)  # (n, 1)
    return even.scatter_add(1, target[:, None], rest)  # (n, vocab)


def label_smoothing(log_probabilities, target, smoothing):
    """How far the model is from the smoothed target, summed over tokens.

    The distance is the Kullback–Leibler divergence:
        KL(q ‖ p) = Σ_j q_j (log q_j − log p_j),   with 0 log 0 = 0

    It differs from cross-entropy with smoothing by the entropy of q, which no
    model can change: the gradient is the same.

    log_probabilities: (n, vocab)
    target: (n,), ids of real tokens only

    Returns a number.
    """
    vocab, dtype = log_probabilities.shape[1], log_probabilities.dtype
    q = smoothed(target, vocab, smoothing, dtype)  # (n, vocab)
    return F.kl_div(log_probabilities, q, reduction="sum")


def translation_loss(model, batch, smoothing=0.1):
    """Smoothed cross-entropy of the next token, summed over real target tokens.

        L = −Σ_t Σ_j q_j log p(j | y_<t, x),   q from `smoothed`

    Positions of padding are left out before the generator: no score is computed
    that is not needed.

    model: an `EncoderDecoder`
    batch: a `heed.data.Batch`

    Returns a number; divided by `batch.n_tokens` it is the mean.
    """
    x = model(batch.source, batch.target_in)  # (b, n_target - 1, d_model)
    return next_token_loss(model.generator, x, batch, smoothing)


def language_model_loss(model, batch, smoothing=0.0):
    """Cross-entropy of the next token in a text, summed over its real tokens.

        L = −Σ_t Σ_j q_j log p(j | y_<t),   q from `smoothed`

    model: a `LanguageModel`
    batch: a `heed.data.Batch`: its target, for there is no source

    Returns a number; divided by `batch.n_tokens` it is the mean.
    """
    x = model(batch.target_in)  # (b, n_target - 1, d_model)
    return next_token_loss(model.generator, x, batch, smoothing)


def masked_language_model_loss(model, batch):
    """Cross-entropy of the hidden tokens, given all that can be read, summed.

        L = −Σ_{t ∈ M} log p(x_t | x̃)      (Devlin et al. 2019, section 3.1)

    M are the tokens to be guessed, and x̃ is what is read in their places and
    around them.

    model: a `MaskedLanguageModel`
    batch: a `heed.data.Hidden`

    Returns a number; divided by `batch.n_tokens` it is the mean.
    """
    x = model(batch.ids)
    chosen, proj = batch.target != PAD, model.generator.proj
    y = batch.target[chosen]
    return linear_cross_entropy(x[chosen], proj.weight, proj.bias, y)


def next_token_loss(generator, x, batch, smoothing):
    """Smoothed cross-entropy of the real tokens under the vectors, summed.

    x: (b, n_target - 1, d_model), what the model made of `batch.target_in`

    Returns a number.
    """
    real, proj = batch.target_mask, generator.proj
    y = batch.target_out[real]
    return linear_cross_entropy(x[real], proj.weight, proj.bias, y, smoothing)
