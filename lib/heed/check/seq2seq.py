"""Checks of chapter 02, sequence to sequence."""

import torch
from torch import nn

from heed.alignment import AttentionSeq2Seq
from heed.check import exercise, expect, expect_close, expect_shape
from heed.data import pad_batch
from heed.recurrent import RecurrentEncoder, Seq2Seq, free_run
from heed.text import BOS, EOS, PAD

BATCH = pad_batch([([5, 9, 6], [BOS, 4, 8, 5, 6, EOS]), ([7], [BOS, 9, EOS]), ([8, 4], [BOS, 6, 6, 7, EOS])])


def network(shape=Seq2Seq):
    """A small network with large random weights: its state and what it reads decide what it says."""
    torch.manual_seed(1)
    model = shape(source_vocab=11, target_vocab=10, d_embed=3, d_hidden=7).double()
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(3)
        model.decoder.out.bias[[PAD, BOS]] = -100.0  # it never writes these two
    return model


@exercise
def read_source(yours):
    """the last state is the encoder's, for sentences with and without padding"""
    torch.manual_seed(3)
    encoder = RecurrentEncoder(vocab=11, d_embed=3, d_hidden=7).double()
    with torch.no_grad():
        for padding in (0, 3):
            ids = torch.tensor([5, 9, 6, 4] + [PAD] * padding)
            real = ids[:4]
            states, _ = encoder.rnn(encoder.embed(ids[None]))
            given = by_hand(yours, ids, encoder)
            if isinstance(given, torch.Tensor):
                every = given.shape in ((len(ids), 7), (len(real), 7))
                expect(not every, "These are the states at all tokens; the decoder gets the last one alone.")
            typical = {
                "The sentence is read from right to left: token 0 comes first.":
                    encoder(real.flip(0)[None])[0],
                "This is the state after the first token. Hand it on from step to step.": states[0, 0],
                "Each step begins at zero again. Hand the state on from step to step.":
                    encoder(real[-1:][None])[0],
                "The first state is zero, and this one begins at ones.":
                    encoder.rnn(encoder.embed(real[None]), torch.ones(1, 1, 7).double())[0][0, -1],
                "The two biases are interchanged: `gru_step` takes bias_ih_l0 before bias_hh_l0.":
                    swapped_biases(encoder)(encoder.embed(real[None]))[0][0, -1],
            }
            if padding:
                typical["Padding was read as a token: the state went on changing behind it."] = states[0, -1]
                for n_read in range(1, padding):
                    some = f"{n_read} of {padding} padding tokens were read: skip them all."
                    typical[some] = states[0, 3 + n_read]
            expect_close(given, encoder(ids[None])[0], "the state", typical=typical)
        nothing = by_hand(yours, torch.tensor([PAD, PAD]), encoder)
    expect_close(nothing, torch.zeros(7).double(), "the state of a sentence without tokens")


def swapped_biases(encoder):
    """The encoder's GRU with its two biases interchanged."""
    gru = nn.GRU(3, 7, batch_first=True).double()
    weights = dict(encoder.rnn.named_parameters())
    weights["bias_ih_l0"], weights["bias_hh_l0"] = weights["bias_hh_l0"], weights["bias_ih_l0"]
    gru.load_state_dict(weights)
    return gru


def by_hand(yours, ids, encoder):
    """What yours gives while neither the encoder nor its GRU may be called."""

    def refuse(module, inputs):
        expect(False, "Write the loop yourself, with gru_step: call neither `encoder` nor `encoder.rnn`.")

    hooks = [module.register_forward_pre_hook(refuse) for module in (encoder, encoder.rnn)]
    try:
        return yours(ids, encoder)
    except RuntimeError as error:
        double = "torch.zeros(1, d_hidden, dtype=torch.float64)"
        expect("dtype" not in str(error), f"The weights are doubles and your state is not: {double}.")
        raise
    finally:
        for hook in hooks:
            hook.remove()


@exercise
def log_probability(yours):
    """one log-probability for each target, the sum over its real tokens"""
    model, batch = network(), BATCH

    def scores(read):
        return model(batch.source, read).log_softmax(dim=-1)  # (b, n, vocab)

    def of(table, ids):
        return table.gather(2, ids[..., None])[..., 0]  # (b, n)

    with torch.no_grad():
        given = yours(model, batch.source, batch.target)
        mask = batch.target_mask
        real = of(scores(batch.target_in), batch.target_out) * mask  # (b, n_target)
        whole, raw = scores(batch.target), model(batch.source, batch.target_in)
        expect_close(
            given,
            real.sum(dim=1),
            "the log-probabilities",
            typical={
                "Padding counts as a token here: its log-probability is added, too.":
                    of(scores(batch.target_in), batch.target_out).sum(1),
                "The mask is that of the tokens read; leave out where the token to be said is PAD.":
                    (of(scores(batch.target_in), batch.target_out) * (batch.target_in != PAD)).sum(1),
                "These are the likeliest tokens' log-probabilities; gather those of the true tokens.":
                    (scores(batch.target_in).amax(dim=-1) * mask).sum(1),
                "This is the mean over the tokens; the logarithm of a product is the sum.":
                    real.sum(1) / mask.sum(1),
                "The shift is missing: each token is scored by the step that has read it already.":
                    (of(whole, batch.target) * (batch.target != PAD)).sum(1),
                "The shift is missing: score target[:, 1:], which is what the decoder must say.":
                    (of(scores(batch.target_in), batch.target_in) * (batch.target_in != PAD)).sum(1),
                "These are sums of logits; log_softmax over the vocabulary makes log-probabilities of them.":
                    (of(raw, batch.target_out) * mask).sum(1),
                "The softmax runs over the positions; it belongs on the vocabulary, the last axis.":
                    (of(raw.log_softmax(dim=1), batch.target_out) * mask).sum(1),
                "This is the probability; take its logarithm, or add up logarithms from the start.":
                    real.sum(1).exp(),
                "The sign is turned: a log-probability is never above 0.": -real.sum(1),
                "EOS is left out: without it this is the probability that the target begins like this.":
                    (real * (batch.target_out != EOS)).sum(1),
                "This is one number for the whole batch; give one for each row.": real.sum(),
            },
        )


@exercise
def write_greedily(yours):
    """the same ids as free_run, stopping at EOS or at n_max"""
    sources = torch.tensor([[5, 9, 6], [7, 4, 10], [8, 8, 5], [4, 6, 9]])
    for model in (network(), needs_memory(network(AttentionSeq2Seq))):
        with torch.no_grad():
            for source in sources[:, None]:
                for n_max in (9, 2):
                    true = [i for i in free_run(model, source, n_max)[0].tolist() if i != PAD]
                    judge(yours(model, source, n_max), true, n_max, model, source)


def needs_memory(model):
    """The same model, which says in words that its memory is missing."""
    step = model.step

    def guarded(y, state, memory=None):
        expect(memory is not None, "Hand the memory that `start` returns to every `step`, as some need it.")
        return step(y, state, memory)

    model.step = guarded
    return model


def judge(given, true, n_max, model, source):
    """Hold what was written against what should have been."""
    expect(isinstance(given, list | tuple), f"Return a list of ids; this is of type {type(given).__name__}.")
    expect(
        all(isinstance(i, int) for i in given),
        "The list holds tensors; ids are whole numbers: append `y.item()`.",
    )
    given = list(given)
    if given == true:
        return
    expect(not given or given[0] != BOS, "BOS is read, and not written: leave it out of the list.")
    expect(len(given) <= n_max, f"{len(given)} ids were written, and n_max is {n_max}.")
    past = EOS in given[:-1]
    expect(not past, "It goes on writing after EOS. EOS says that the sequence has ended: stop there.")
    expect(given != true[:-1], "The last token is missing. If it is EOS: that belongs into the list, too.")
    expect(
        given != same_start(model, source, n_max),
        "Every step reads BOS. From the second on it must read the token that was written before.",
    )
    expect(
        given != same_state(model, source, n_max),
        "Every step begins at the encoder's state. Hand on the state that `step` returns.",
    )
    place = next((i for i, (a, b) in enumerate(zip(given, true, strict=False)) if a != b), len(given))
    wanted = f"{true[place]}" if place < len(true) else "nothing"
    expect(False, f"Token {place} should be {wanted}: {given} instead of {true}.")


def same_start(model, source, n_max):
    """What comes of reading BOS at every step."""
    (state, memory), written = model.start(source), []
    while len(written) < n_max and EOS not in written:
        scores, state = model.step(torch.tensor([BOS]), state, memory)
        written.append(scores.argmax().item())
    return written


def same_state(model, source, n_max):
    """What comes of beginning at the encoder's state at every step."""
    (state, memory), written, y = model.start(source), [], torch.tensor([BOS])
    while len(written) < n_max and EOS not in written:
        y = model.step(y, state, memory)[0].argmax(dim=-1)
        written.append(y.item())
    return written


@exercise
def token_accuracy(yours):
    """the share of right tokens, each real token counted once and padding not at all"""
    out = torch.tensor([[4, 5, 6, EOS, PAD, PAD], [7, EOS, PAD, PAD, PAD, PAD], [4, 4, 5, 6, 7, EOS]])
    said = torch.tensor([[4, 5, 9, EOS, 5, 5], [8, 9, PAD, PAD, PAD, PAD], [4, 4, 5, 6, 7, EOS]])
    logits = torch.nn.functional.one_hot(said, 11).double() * 3 - 7
    real = out != PAD
    hits = said == out
    given = yours(logits, out)
    given = given.detach() if isinstance(given, torch.Tensor) else torch.tensor(float(given))
    expect_shape(given, (), "the accuracy")
    rows = (hits & real).sum(1) / real.sum(1)
    words = real & (out != EOS)
    chances = logits.softmax(dim=-1).gather(2, out[..., None])[..., 0]
    expect_close(
        given.double(),
        (hits & real).sum().double() / real.sum(),
        "the accuracy",
        typical={
            "Padding counts as a token: select with target_out != PAD first.": hits.double().mean(),
            "Padding is not among the right ones, but it is in the count by which you divide.":
                (hits & real).double().mean(),
            "This is the mean over the rows' means, in which a token of a short row counts for more.":
                rows.double().mean(),
            "This is the share of rows without a mistake; that is exact match, and this asks for tokens.":
                (hits | ~real).all(1).double().mean(),
            "These are the wrong tokens: 1 minus what is asked for.": 1 - hits[real].double().mean(),
            "EOS is left out: it must be written like any other token.": hits[words].double().mean(),
            "This is the mean probability of the true tokens; count where the likeliest one is true.":
                chances[real].mean(),
            "This is in percent; give a share between 0 and 1.": 100 * hits[real].double().mean(),
            "This is how many are right; divide by how many there are.": (hits & real).sum().double(),
        },
    )  # fmt: skip
