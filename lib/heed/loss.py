"""What training makes small: the distance between what the model says and what it should say."""

import torch
from torch.nn import functional as F


def smoothed(target, vocab, smoothing):
    """The target distribution: 1 − smoothing on the true token, and smoothing shared out over all tokens.

        q_j = (1 − ε) [j = y] + ε / V      (Szegedy et al. 2016, section 7)

    The true token gets its share of ε as well, as in torch's cross_entropy.

    target: (n,), ids
    vocab: number of tokens, V
    smoothing: ε, from 0 to below 1

    Returns (n, vocab).
    """
    if not 0 <= smoothing < 1:
        raise ValueError(f"Smoothing is the share given away, from 0 to below 1; it is {smoothing}.")
    even = torch.full((len(target), vocab), smoothing / vocab, device=target.device)  # (n, vocab)
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
    q = smoothed(target, log_probabilities.shape[1], smoothing).to(log_probabilities.dtype)  # (n, vocab)
    return F.kl_div(log_probabilities, q, reduction="sum")
