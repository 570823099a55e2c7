"""Checks of chapter 02, sequence to sequence."""

from collections import Counter
from itertools import product

import torch
from torch import nn

from heed.alignment import AttentionSeq2Seq
from heed.check import exercise, expect, expect_close, expect_shape, without
from heed.data import pad_batch
from heed.recurrent import RecurrentEncoder, Seq2Seq
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
@without(
    RecurrentEncoder.forward,
    nn.GRU.forward,
    sentence="Write the loop yourself, with gru_step: call neither `encoder` nor `encoder.rnn`.",
)
def read_sources(yours):
    """the encoder's last state for every row, long, short or empty"""
    torch.manual_seed(3)
    encoder = RecurrentEncoder(vocab=11, d_embed=3, d_hidden=7).double()
    ids = torch.tensor([[5, 9, 6, 4, 8], [7, 4, PAD, PAD, PAD], [PAD] * 5, [8, PAD, PAD, PAD, PAD]])
    real = (ids != PAD)[..., None]  # (b, n, 1)
    with torch.no_grad():
        true, (states, _) = encoder(ids), encoder.rnn(encoder.embed(ids))  # states: (b, n, d_hidden)
        ones = encoder.rnn(encoder.embed(ids), torch.ones(1, 4, 7).double())[0]
        padding, _ = encoder.rnn(encoder.embed(torch.full_like(ids, PAD)))  # (b, n, d_hidden)
        alone = encoder.rnn(encoder.embed(ids.view(-1, 1)))[0].view(4, 5, 7)  # each token read from zero
        typical = {
            "Padding was read as a token: the states of the short rows went on changing behind it.":
                states[:, -1],
            "Padding sets the state to zero here. It must leave the state as it is.":
                states[:, -1] * real[:, -1],
            "The two values of `torch.where` are interchanged: here only padding changes the state.":
                last(padding, (ids == PAD).long(), torch.zeros(4, 7).double()),
            "All states are zero. Does the empty row stop the others? Each row has its own end.":
                torch.zeros(4, 7).double(),
            "Each step begins at zero again. Hand the states on from step to step.":
                last(alone, ids, torch.zeros(4, 7).double()),
            "The first state is zero, and this one begins at ones.":
                last(ones, ids, torch.ones(4, 7).double()),
            "A sentence is read from right to left: token 0 comes first.": backwards(encoder, ids),
            "The two biases are interchanged: `gru_step` takes bias_ih_l0 before bias_hh_l0.":
                last(swapped_biases(encoder)(encoder.embed(ids))[0], ids, torch.zeros(4, 7).double()),
        }  # fmt: skip
        given = in_doubles(yours, ids, encoder)
        every = isinstance(given, torch.Tensor) and given.dim() == 3
        expect(not every, "These are the states at all tokens; the decoder gets the last one of each row.")
        expect_close(given, true, "the states", typical)


def last(states, ids, first):
    """Each row's state at its last real token, and `first` where there is none."""
    n = (ids != PAD).sum(dim=1)
    chosen = states[torch.arange(len(ids)), (n - 1).clamp(min=0)]
    return torch.where(n[:, None] > 0, chosen, first)


def backwards(encoder, ids):
    """The last states of a reader that begins at the right, each row's padding skipped."""
    rows = [row[row != PAD].flip(0) for row in ids]
    return encoder(nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD))


def swapped_biases(encoder):
    """The encoder's GRU with its two biases interchanged."""
    gru = nn.GRU(3, 7, batch_first=True).double()
    weights = dict(encoder.rnn.named_parameters())
    weights["bias_ih_l0"], weights["bias_hh_l0"] = weights["bias_hh_l0"], weights["bias_ih_l0"]
    gru.load_state_dict(weights)
    return gru


def in_doubles(yours, ids, encoder):
    """What yours gives, or the sentence that its state is not of the encoder's dtype."""
    try:
        return yours(ids, encoder)
    except RuntimeError as error:
        double = "torch.zeros(b, d_hidden, dtype=torch.float64)"
        expect("dtype" not in str(error), f"The weights are doubles and your state is not: {double}.")
        raise


# What `ceiling` is asked: the states and the targets of some sources.
SOURCES = [*product(range(10), repeat=2)]
CEILINGS = (
    ([sum(x) for x in SOURCES], [f"{a}{b}" for a, b in SOURCES]),  # to copy from the sum
    ([sum(x) for x in SOURCES], ["even" if sum(x) % 2 == 0 else "odd" for x in SOURCES]),
    ([x[-1] for x in SOURCES], [f"{max(x)}" for x in SOURCES]),  # the largest, from the last digit
    ([min(x) // 4 for x in SOURCES], ["even" if sum(x) % 2 == 0 else "odd" for x in SOURCES]),
    ([(4, 4), (1, 0), (4, 4), (1, 0), (4, 4), (7, 2)], ["a", "b", "c", "b", "a", "a"]),
    ([5], ["5"]),
)


@exercise
def ceiling(yours):
    """the best that any decoder can do which sees only the state"""
    groups = [grouped(*case) for case in CEILINGS]
    sizes = [len(states) for states, _ in CEILINGS]

    def shares(count):
        values = [count(group) / n for group, n in zip(groups, sizes, strict=True)]
        return torch.tensor(values, dtype=torch.float64)

    def most(group):
        return sum(max(counts.values()) for counts in group.values())

    given = [yours([*states], [*targets]) for states, targets in CEILINGS]
    one = all(isinstance(it, int | float) or (isinstance(it, torch.Tensor) and it.dim() == 0) for it in given)
    expect(one, f"Return one number, the share; this is of type {type(given[0]).__name__}.")
    given = torch.tensor([float(it) for it in given], dtype=torch.float64)
    expect_close(
        given,
        shares(most),
        "the shares",
        typical={
            "This is the number of states divided by the number of sources. Sources that share a state *and* "
            "a target are all right with one answer.": shares(len),
            "A state with two targets is not lost: the decoder says the commoner one, and is right there.":
                shares(lambda group: sum(c.total() for c in group.values() if len(c) == 1)),
            "Each state counts equally here. A state counts as often as sources end in it.":
                torch.tensor([
                    sum(max(c.values()) / c.total() for c in group.values()) / len(group) for group in groups
                ], dtype=torch.float64),
            "This decoder gives one answer to all sources. It may have one for each state.":
                shares(lambda group: max(sum(group.values(), Counter()).values())),
            "These are different targets divided by sources: the states were not asked.":
                shares(lambda group: len(sum(group.values(), Counter()))),
            "This decoder draws from the targets of its state, by chance. Let it say the commonest.": shares(
                lambda group: sum(n * n / c.total() for c in group.values() for n in c.values())),
            "States and targets are interchanged: group the targets by their state.":
                torch.tensor([most(grouped(t, s)) / len(s) for s, t in CEILINGS], dtype=torch.float64),
            "This is how many can be right; divide by the number of sources.":
                shares(most) * torch.tensor(sizes),
            "These are the sources that must come out wrong: 1 minus what is asked for.": 1 - shares(most),
            "All can be right only if no two sources of one state have different targets.":
                torch.ones(len(CEILINGS), dtype=torch.float64),
        },
    )  # fmt: skip


def grouped(states, targets):
    """For every state, how often each target is wanted there."""
    group = {}
    for state, target in zip(states, targets, strict=True):
        group.setdefault(state, Counter())[target] += 1
    return group


@exercise
def log_probability(yours):
    """one log-probability for each target, the sum over its real tokens"""
    model, batch = network(), BATCH

    def scores(read):
        return model(batch.source, read).log_softmax(dim=-1)  # (b, n, vocab)

    def of(log_p, ids):
        return log_p.gather(2, ids[..., None])[..., 0]  # (b, n)

    with torch.no_grad():
        mask = batch.target_mask
        real = of(scores(batch.target_in), batch.target_out) * mask  # (b, n_target)
        whole, raw = scores(batch.target), model(batch.source, batch.target_in)
        typical = {
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
            "The sign is wrong: a log-probability is never above 0.": -real.sum(1),
            "EOS is left out: without it this is the probability that the target begins like this.":
                (real * (batch.target_out != EOS)).sum(1),
            "This is one number for the whole batch; give one for each row.": real.sum(),
        }  # fmt: skip
        expect_close(
            yours(model, batch.source, batch.target),
            real.sum(dim=1),
            "the tensor of log-probabilities",
            typical,
        )


@exercise
def finish(yours):
    """what stood there already, and then what the network writes after it, up to EOS or n_max"""
    sources = torch.tensor([[5, 9, 6], [7, 4, 10], [8, 8, 5], [4, 6, 9]])[:, None]
    begins = ([], 9), ([5, 8, 4], 9), ([7], 9), ([4, 9], 3), ([], 2), ([5, 8, 4], 3)
    for model in (network(), needs_memory(network(AttentionSeq2Seq))):
        with torch.no_grad():
            cases = [(model, source, begin, n_max) for source in sources for begin, n_max in begins]
            true = [written(*case) for case in cases]
            typical = {
                sentence: [written(*case, **mistake) for case in cases if case[2]]
                for sentence, mistake in MISTAKES.items()
            }
            given = [yours(*case) for case in cases]
            for answer, right, case in zip(given, true, cases, strict=True):
                judge_form(answer, right, *case[2:])
            judge(given, true, typical, [begin for _, _, begin, _ in cases])


def needs_memory(model):
    """The same model, with a readable error where its memory is missing."""
    step = model.step

    def guarded(y, state, memory=None):
        expect(memory is not None, "Hand the memory that `start` returns to every `step`, as some need it.")
        return step(y, state, memory)

    model.step = guarded
    return model


def judge_form(given, true, begin, n_max):
    """What can be said about one answer without asking how it came about."""
    expect(isinstance(given, list | tuple), f"Return a list of ids; this is of type {type(given).__name__}.")
    expect(
        all(isinstance(i, int) for i in given),
        "The list holds tensors; ids are whole numbers: append `y.item()`.",
    )
    given = list(given)
    if given == true:
        return
    expect(not given or given[0] != BOS, "BOS is read, and not written: leave it out of the list.")
    told = f"The beginning {begin} is part of the answer: put it in front of what the network writes."
    expect(not begin or given != true[len(begin) :], told)
    expect(
        len(given) <= n_max,
        f"There are {len(given)} ids, and n_max is {n_max}. The beginning counts among them.",
    )
    past = EOS in given[:-1]
    expect(not past, "It goes on writing after EOS. EOS says that the sequence has ended: stop there.")
    expect(given != true[:-1], "The last token is missing. If it is EOS: that belongs into the list, too.")


def judge(given, true, typical, begins):
    """Hold all answers against those that are right, and against those of typical mistakes."""
    given = [list(answer) for answer in given]
    begun = [answer for answer, begin in zip(given, begins, strict=True) if begin]
    for sentence, wrong in typical.items():
        expect(begun != wrong or given == true, sentence)
    for begin, answer, right in zip(begins, given, true, strict=True):
        i = next((i for i, (a, b) in enumerate(zip(answer, right, strict=False)) if a != b), len(answer))
        wanted = f"{right[i]}" if i < len(right) else "nothing"
        wrong = f"Token {i} should be {wanted}: {answer} instead of {right}, the beginning being {begin}."
        expect(answer == right, wrong)


def written(model, source, begin, n_max, read=lambda begin: [BOS, *begin], always=None, forgets=False):
    """`begin`, and what is written after it; with a typical mistake, if one is asked for.

    read: what is read before the first new token
    always: what every step reads instead of its token
    forgets: every step begins at the encoder's state
    """
    (state, memory), ids, unread = model.start(source), list(begin), read(begin)
    while len(ids) < n_max and EOS not in ids:
        for y in unread:
            scores, new = model.step(torch.tensor([y if always is None else always]), state, memory)
            state = state if forgets else new
        ids.append(scores.argmax().item())
        unread = ids[-1:]
    return ids


MISTAKES = {
    "The beginning stands in the answer, and the network has not read it: give it to `step`.":
        {"read": lambda begin: [BOS]},
    "BOS is missing: the network reads it first, as in training, and then the beginning.":
        {"read": lambda begin: begin},
    "The last token of the beginning is read twice.":
        {"read": lambda begin: [BOS, *begin, begin[-1]]},
    "The last token of the beginning is never read: the new tokens come after it.":
        {"read": lambda begin: [BOS, *begin[:-1]]},
    "Of the beginning only the last token is read; the state needs all of them.":
        {"read": lambda begin: [BOS, begin[-1]]},
    "Only the last token is read; the state needs BOS and all tokens of the beginning.":
        {"read": lambda begin: begin[-1:]},
    "Every step reads BOS. From the second on it must read the token that stands before.":
        {"always": BOS},
    "Every step begins at the encoder's state. Hand on the state that `step` returns.":
        {"forgets": True},
}  # fmt: skip


@exercise
def whole_targets(yours):
    """the share of targets that come out whole alone, from one call with a teacher"""
    out = torch.tensor([
        [4, 5, 6, EOS, PAD, PAD], [7, EOS, PAD, PAD, PAD, PAD], [4, 4, 5, 6, 7, EOS],
        [6, 4, EOS, PAD, PAD, PAD], [8, EOS, PAD, PAD, PAD, PAD], [5, EOS, PAD, PAD, PAD, PAD],
        [9, 6, 7, EOS, PAD, PAD],
    ])  # fmt: skip
    said = torch.tensor([
        [4, 5, 9, EOS, 5, 5], [7, EOS, 3, PAD, PAD, PAD], [4, 4, 5, 6, 7, EOS],
        [6, 4, EOS, PAD, PAD, PAD], [8, 9, PAD, PAD, PAD, PAD], [5, EOS, PAD, PAD, PAD, PAD],
        [9, 6, 7, EOS, 8, PAD],
    ])  # fmt: skip
    logits = torch.nn.functional.one_hot(said, 11).double() * 3 - 7
    real, hits = out != PAD, said == out
    given = yours(logits, out)
    given = given.detach() if isinstance(given, torch.Tensor) else torch.tensor(float(given))
    expect_shape(given, (), "the share")
    whole = (hits | ~real).all(dim=1)
    chances = logits.log_softmax(dim=-1).gather(2, out[..., None])[..., 0]
    share = (hits & real).sum().double() / real.sum()
    expect_close(
        given.double(),
        whole.double().mean(),
        "the share",
        typical={
            "Padding has to be right here, too. Nobody asks what is said there: let it count as right.":
                hits.all(dim=1).double().mean(),
            "Padding counts as a mistake: `right & real` is never True throughout a padded row.":
                (hits & real).all(dim=1).double().mean(),
            "This is the share of right tokens. A target comes out whole if none of its tokens is wrong.":
                share,
            "This is the mean over the rows' shares of right tokens; one wrong token spoils a row.":
                ((hits & real).sum(1) / real.sum(1)).double().mean(),
            "A power of the share of right tokens is a guess: it holds if mistakes fall independently. The "
            "logits say more: which rows have none.": (share ** real.sum(1)).mean(),
            "This is the share of positions that are right in all rows; a target is a row: `all(dim=1)`.":
                (hits | ~real).all(dim=0).double().mean(),
            "EOS is left out: a target that does not end where it should is not right.":
                (hits | ~real | (out == EOS)).all(dim=1).double().mean(),
            "This is the mean probability of the targets; count the rows whose likeliest tokens are right.":
                (chances * real).sum(1).exp().mean(),
            "These are the rows with a mistake: 1 minus what is asked for.": 1 - whole.double().mean(),
            "This is how many are right; divide by how many there are.": whole.double().sum(),
            "This is in percent; give a share between 0 and 1.": 100 * whole.double().mean(),
        },
    )  # fmt: skip


ALONE = {
    "<bos>": {"a": 0.6, "b": 0.4, "<eos>": 0.0},
    "a": {"a": 0.1, "b": 0.1, "<eos>": 0.8},
    "b": {"a": 0.8, "b": 0.1, "<eos>": 0.1},
}


def written_alone(likely, n_max=20):
    """What a decoder writes that knows the likeliest token after each token; at most n_max tokens."""
    tokens = ["<bos>"]
    while tokens[-1] != "<eos>" and len(tokens) <= n_max:
        tokens.append(likely[tokens[-1]])
    return tokens[1:]


@exercise
def same_state(yours):
    """three sources that end in the state of 3, 1, 4 and differ in the number of digits and in the largest"""
    found = [[int(digit) for digit in source] for source in yours()]
    expect(len(found) == 3, f"Three sources are asked for, and {len(found)} came.")
    for source in found:
        expect(source != [3, 1, 4], "3, 1, 4 is the source that the others are compared with.")
        expect(all(0 <= digit <= 9 for digit in source), f"{source} holds something that is no digit.")
        sentence = f"The state after {source} is {sum(source)}, and after 3, 1, 4 it is 8: each step adds."
        expect(sum(source) == 8, sentence)
    expect(len({*map(tuple, found)}) == 3, "Two of the three sources are the same.")
    longer = any(len(source) != 3 for source in found)
    expect(longer, "All have three digits, so a decoder could still write how many there were: find others.")
    largest = any(max(source) != 4 for source in found)
    expect(largest, "All have the largest digit 4, so a decoder could still write it: find others.")


@exercise
def never_ends(yours):
    """one row changed, as many right tokens with a teacher, and alone the decoder never ends"""
    table = {read: {token: float(p) for token, p in row.items()} for read, row in yours().items()}
    expect(table.keys() == ALONE.keys(), f"The table has a row after each of {[*ALONE]}; found {[*table]}.")
    for read, row in table.items():
        columns = row.keys() == ALONE["a"].keys()
        expect(columns, f"The row after {read} needs an entry for a, b and <eos>; found {[*row]}.")
        total = sum(row.values())
        sums = abs(total - 1) < 1e-9 and min(row.values()) >= 0
        expect(sums, f"The row after {read} is no distribution: it sums to {total:.2f}, or is negative.")
        single = sorted(row.values())[-1] > sorted(row.values())[-2]
        expect(single, f"In the row after {read} two tokens are equally likely: which does it write?")
    changed = [read for read in ALONE if table[read] != ALONE[read]]
    expect(len(changed) == 1, f"One row is to change, and {len(changed)} have: {changed}.")
    likely = {read: max(row, key=row.get) for read, row in table.items()}
    target = ["b", "a", "b", "a", "<eos>"]
    asked = zip(["<bos>", *target], target, strict=False)
    right = sum(likely[read] == true for read, true in asked)
    alone = written_alone(likely)
    ends = f"Alone it writes {' '.join(alone)}, and ends: which row does it meet on the way to <eos>?"
    expect(alone[-1] != "<eos>", ends)
    expect(right == 3, f"With a teacher {right} tokens are right now, and it was three.")
