"""Checks of chapter 13, decoding."""

import math
import random
from collections import Counter

import torch

from heed.attention import attention, causal_mask
from heed.check import NotYet, close, copied, exercise, expect, expect_close, without
from heed.evaluate import bleu, bleu_of, sentence_counts
from heed.text import BOS, EOS


def searched(next_log_p, width, alpha, n_max, *, eos=1, stay=False, extra=False):
    """All hypotheses that a beam has put aside, the best first; the options are mistakes.

    eos: what EOS counts in the length
    stay: what has said EOS stays in the beam, and takes a place
    extra: `width` hypotheses go on besides those that have ended
    """
    live, ended = [(0.0, [BOS])], []
    for n in range(1, n_max + 1):
        longer = [
            (score + p, [*said, y]) for score, said in live if said[-1] != EOS for y, p in next_log_p(said)
        ]
        longer += [h for h in live if h[1][-1] == EOS]
        longer.sort(key=lambda h: -h[0])
        new = longer if extra else longer[:width]
        lp = ((4 + eos + n) / 6) ** alpha
        ended += [(s / lp, said[1:-1]) for s, said in new if said[-1] == EOS and len(said) == n + 1]
        live = [h for h in new if stay or h[1][-1] != EOS][:width]
    return sorted(ended, key=lambda h: -h[0])


def table(seed, n_tokens=6):
    """A made-up model: from what was said to pairs (token, log P); the more was said, the likelier is EOS."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n_tokens, n_tokens, generator=generator, dtype=torch.float64)

    def next_log_p(said):
        row = 1.5 * logits[said[-1] % n_tokens]
        row = torch.cat([row, torch.tensor([-1.0 + 0.4 * len(said)], dtype=row.dtype)]).log_softmax(-1)
        return [*zip([*range(10, 10 + n_tokens), EOS], row.tolist(), strict=True)]

    return next_log_p


def same(given, true):
    """Are these the same hypotheses with the same scores, in the same order?"""
    return len(given) == len(true) and all(
        math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) and [*x] == y
        for (a, x), (b, y) in zip(given, true, strict=True)
    )


@exercise
def n_best(yours):
    """all hypotheses that a beam has put aside, the best first"""
    for seed in range(6):
        for width, alpha, n_max in ((3, 1.0, 6), (2, 0.0, 5), (4, 2.0, 4), (1, 1.0, 8)):
            asked = table(seed), width, alpha, n_max
            given, true = yours(*asked), searched(*asked)
            case = f"width {width}, α = {alpha}, n_max = {n_max}"
            expect(isinstance(given, list), "Return a list.")
            expect(
                all(isinstance(h, tuple) and len(h) == 2 for h in given),
                "Each entry of the list is a pair, (score, tokens).",
            )
            if same(given, true):
                continue
            tokens = [[*said] for _, said in given]
            expect(
                not any(BOS in said or EOS in said for said in tokens),
                "The tokens still hold BOS or EOS.",
            )
            expect(
                not (len(given) == 1 and len(true) > 1 and tokens[0] == true[0][1]),
                "This is only the best hypothesis: return all that were put aside.",
            )
            mistakes = {
                "The scores are log-probabilities: divide each by the length penalty.":
                    searched(*asked[:2], 0.0, n_max) if alpha else None,
                "n counts EOS, and your penalty does not.": searched(*asked, eos=0) if alpha else None,
                "What has said EOS still takes a place in the beam: put it aside.":
                    searched(*asked, stay=True),
                "`width` of all that are one token longer stay, those with EOS among them: yours keeps "
                "`width` besides those.":
                    searched(*asked, extra=True),
            }  # fmt: skip
            in_order = sorted(given, key=lambda h: -h[0])
            for sentence, wrong in mistakes.items():
                expect(wrong is None or same(wrong, true) or not same(in_order, wrong), sentence)
            expect(
                not same(in_order, true),
                "The hypotheses are right, and not in order: the highest score comes first.",
            )
            expect(
                len(given) >= len(true),
                f"{case}: {len(true)} hypotheses end, and yours returns {len(given)}.",
            )
            expect(
                len(given) <= len(true),
                f"{case}: only {len(true)} hypotheses end in the beam, and yours returns {len(given)}.",
            )
            i = next(i for i in range(len(true)) if not same(given[i : i + 1], true[i : i + 1]))
            expect(False, f"{case}: hypothesis {i} should be {true[i][1]} with the score {true[i][0]:.4f}.")


def told(table, width, last_first=False):
    """What a beam finds in a table; last_first: of two equal hypotheses the later stays."""
    live, ended = [(1.0, ("BOS",))], []
    while live:
        longer = [(p * q, (*said, y)) for p, said in live for y, q in table[said[-1]].items()]
        longer = longer[::-1] if last_first else longer
        longer = sorted(longer, key=lambda h: -h[0])[:width]
        ended += [h for h in longer if h[1][-1] == "EOS"]
        live = [h for h in longer if h[1][-1] != "EOS"]
    return max(ended, key=lambda h: h[0])


def expect_table(table):
    """A table of probabilities in which every way ends."""
    expect(isinstance(table, dict), f"Return a dictionary; this is of type {type(table).__name__}.")
    expect("BOS" in table, 'The table has no row "BOS", with which every sentence begins.')
    for token, row in table.items():
        if token == "EOS" and not row:
            continue
        expect(token != "EOS", 'Nothing follows "EOS": the table needs no row for it.')
        expect(isinstance(row, dict) and row, f"The row of {token!r} is {row!r}; it is a dictionary.")
        for y, p in row.items():
            number = isinstance(p, int | float) and 0 < p <= 1
            expect(number, f"After {token!r}, {y!r} has {p!r}; it is a probability above 0.")
            expect(y == "EOS" or y in table, f"{y!r} follows {token!r} and has no row of its own.")
        total = sum(row.values())
        whole = math.isclose(total, 1, abs_tol=1e-6)
        expect(whole, f"The row of {token!r} sums to {total:.4g}, and not to 1.")
    ends = {"EOS"}
    while new := {token for token in table if token not in ends and {*table[token]} <= ends}:
        ends |= new
    round_ = sorted({*table} - ends)
    expect(not round_, f"A sentence may never end: there is a way round among {round_}.")


@exercise
def trap(yours):
    """a table in which greedy search finds twice what a beam of two finds"""
    table = yours()
    expect_table(table)
    for last_first in (False, True):
        (greedy, one), (beam, two) = (told(table, width, last_first) for width in (1, 2))
        said = f"greedy search writes {' '.join(one[1:-1])!r}, {greedy:.3g}, and a beam of two "
        if two == one:
            raise NotYet(f"{said[0].upper()}{said[1:]}the same: its sentence never leaves the beam.")
        said += f"{' '.join(two[1:-1])!r}, {beam:.3g}"
        equal = " (of two equal hypotheses the later one was kept)" if last_first else ""
        expect(greedy > beam, f"Here {said}: the wider beam is at least as good{equal}.")
        expect(greedy >= 2 * beam * (1 - 1e-9), f"Here {said}: better, and not by a factor of two{equal}.")


def stops(live, n, best, alpha, n_max, *, at=None, which=max, ended=False, plain=False, waits=False):
    """May a beam stop? The options are mistakes."""
    if ended:
        return best > -math.inf
    divisor = 1.0 if plain else ((5 + (n_max if at is None else n + at)) / 6) ** alpha
    hope = which(live) / divisor if live else -math.inf
    return hope < best if waits else hope <= best


@exercise
def may_stop(yours):
    """True as soon as no hypothesis in the beam can win, and no earlier"""
    generator = random.Random(0)
    mistakes = {
        "You divide by the penalty of the present length; a hypothesis can go on to n_max tokens, where its "
        "divisor is largest.":
            {"at": 0},
        "The next token need not be the last: a hypothesis can go on to n_max tokens, where its divisor is "
        "largest.":
            {"at": 1},
        "`live` holds log P and `best` is a score: divide by the length penalty before you compare.":
            {"plain": True},
        "That something has ended is not enough: a hypothesis in the beam may still end with a better score.":
            {"ended": True},
        "One hypothesis that cannot win is not enough: look at the likeliest in the beam.":
            {"which": min},
    }  # fmt: skip
    cases = []
    for _ in range(400):
        n, more = generator.randint(1, 12), generator.randint(1, 12)
        live = [-generator.uniform(0.5, 12) for _ in range(generator.randint(1, 5))]
        alpha = generator.choice([0.0, 0.6, 1.0, 2.0])
        best = -generator.uniform(0.2, 8) if generator.random() < 0.85 else -math.inf
        cases.append((live, n, best, alpha, n + more))
    cases += [([-3.0], 4, -3.0, 0.0, 9), ([-4.0, -6.0], 1, -2.0, 1.0, 7)]  # a tie
    given = [yours(*case) for case in cases]
    for answer in given:
        expect(answer in (True, False), f"Return True or False; this is {answer!r}.")
    true = [stops(*case) for case in cases]
    if given == true:
        expect(yours([], 3, -2.0, 1.0, 9) in (True, False), "Return True or False for an empty beam, too.")
        expect(yours([], 3, -2.0, 1.0, 9), "No hypothesis is left in the beam: then it may stop.")
        return
    for sentence, options in mistakes.items():
        expect(given != [stops(*case, **options) for case in cases], sentence)
    tie = given == [stops(*case, waits=True) for case in cases]
    expect(not tie, "A score that only equals `best` wins nothing: there the beam may stop.")
    expect(given != [not answer for answer in true], "This is True where the beam must go on.")
    i = next(i for i in range(len(cases)) if given[i] != true[i])
    live, n, best, alpha, n_max = cases[i]
    numbers = ", ".join(f"{p:.2f}" for p in live)
    rest = f"live = [{numbers}], n = {n}, best = {best:.2f}, α = {alpha}, n_max = {n_max}"
    wrong = "none can win any more, and yours goes on" if true[i] else "one can still win, and yours stops"
    raise NotYet(f"{rest}: {wrong}.")


def chosen(texts, similarity, *, swapped=False, worst=False, unique=False, myself=False, product=False):
    """The text that is most like the other draws; the options are mistakes."""
    texts = [*dict.fromkeys(texts)] if unique else texts

    def mean(i):
        near = [
            similarity(other, texts[i]) if swapped else similarity(texts[i], other)
            for j, other in enumerate(texts)
            if myself or j != i
        ]
        return max(near) if product else sum(near) / max(1, len(near))

    best = (min if worst else max)(range(len(texts)), key=mean)
    return texts[best]


@exercise
def consensus(yours):
    """the draw that is most like all other draws"""
    generator = random.Random(1)
    names = ["a dog", "two dogs", "a cat", "some cats", "one bird"]
    mistakes = {
        "The translation is the first argument of `similarity`, and the reference the second.":
            {"swapped": True},
        "This is the text that is least like the others.": {"worst": True},
        "Every draw counts: a text that was drawn twice is two candidates and two references.":
            {"unique": True},
        "This text is very like one other draw; take the mean over all other draws.": {"product": True},
    }  # fmt: skip
    cases = []
    for _ in range(60):
        table = {(a, b): generator.uniform(0, 90) for a in names for b in names}
        table |= {(a, a): 100.0 for a in names}
        cases.append(([generator.choice(names) for _ in range(generator.randint(3, 9))], table))

    def like(table):
        return lambda translation, reference: table[translation, reference]

    given = [yours(texts, like(table)) for texts, table in cases]
    for text, (texts, _) in zip(given, cases, strict=True):
        expect(isinstance(text, str), f"Return one of the texts; this is of type {type(text).__name__}.")
        expect(text in texts, f"{text!r} is not one of the texts.")
    true = [chosen(texts, like(table)) for texts, table in cases]
    for sentence, options in mistakes.items():
        wrong = [chosen(texts, like(table), **options) for texts, table in cases]
        expect(given != wrong, sentence)
    for text, right, (texts, _) in zip(given, true, cases, strict=True):
        expect(text == right, f"Of {texts} with made-up similarities {right!r} is right, and not {text!r}.")
    expect(yours(["a cat"], lambda *_: 1.0) == "a cat", "Of a single draw there is nothing else to return.")


@exercise
def min_p(yours):
    """every token with at least a share of the highest probability is kept"""
    logits = 2 * torch.randn(5, 11, dtype=torch.float64)
    for share, temperature in ((0.3, 1.0), (0.1, 0.5), (0.5, 2.0), (1.0, 1.0)):
        p = (logits / temperature).softmax(-1)
        top = p.max(-1, keepdim=True).values
        kept = p.masked_fill(p < share * top, 0.0)

        def whole(p):
            return p / p.sum(-1, keepdim=True)

        plain = logits.softmax(-1)
        late = plain.masked_fill(plain < share * plain.max(-1, keepdim=True).values, 0.0)
        mistakes = {
            "What is kept does not sum to one: divide each row by its sum.": kept,
            "The bound is `share` itself; it should be `share` times the row's highest probability.":
                whole(p.masked_fill(p < share, 0.0)),
            "All rows have the same bound: take each row's highest value, p.amax(dim=-1, keepdim=True).":
                whole(p.masked_fill(p < share * p.max(), 0.0)),
            "The temperature comes after the truncation: divide the logits by it first.":
                whole(late ** (1 / temperature)),
            "The logits are not divided by the temperature.": whole(late),
            "The logits are multiplied by the temperature; divide them.":
                whole(min_kept((logits * temperature).softmax(-1), share)),
            "The unlikely tokens are kept and the likely ones thrown away.":
                whole(p.masked_fill(p >= share * top, 0.0)),
        }  # fmt: skip
        true = whole(kept)
        clear = {text: wrong for text, wrong in mistakes.items() if not close(wrong, true)}
        given = yours(logits, share, temperature)
        expect_close(given, true, f"min_p with {share=}, {temperature=}", typical=clear)
    expect_close(yours(logits, 0.2), whole(min_kept(logits.softmax(-1), 0.2)), "min_p without a temperature")


def min_kept(p, share):
    """Probabilities below this share of the row's highest become 0."""
    return p.masked_fill(p < share * p.max(-1, keepdim=True).values, 0.0)


@exercise
def cached_attention(yours):
    """the same outputs as causal self-attention over the whole sequence"""
    x, W_q, W_k, W_v = (torch.randn(shape, dtype=torch.float64) for shape in ((9, 5), *[(5, 5)] * 3))
    W_q = W_q / 4  # no weight near 1, so that every mistake shows
    q, k, v = x @ W_q, x @ W_k, x @ W_v
    whole = attention(q, k, v, causal_mask(9))[0]
    for sizes in ([1] * 9, [4, 1, 3, 1], [9]):
        layer, start = yours(*copied((W_q, W_k, W_v))), 0
        yours(*copied((W_q, W_k, W_v)))(x[:2].clone())  # another layer, which has a cache of its own
        for n in sizes:
            end = start + n
            given = layer(x[start:end].clone())
            if given is None or given is ...:
                raise NotImplementedError
            new, past = slice(start, end), slice(0, end)
            mistakes = {
                "Only the tokens of this call are looked at: the earlier keys and values are not kept, or "
                "the mask hides them.":
                    attention(q[new], k[new], v[new], causal_mask(n))[0] if start else None,
                "Among several new tokens, each sees those after it: a mask is needed.":
                    attention(q[new], k[past], v[past])[0],
                "The new tokens see the past and not one another, nor themselves.":
                    attention(q[new], k[:start], v[:start])[0] if start else None,
                "The keys are kept and the values are mixed up: each output mixes values, not keys.":
                    attention(q[new], k[past], k[past], causal_mask(n, start))[0],
                "Tokens are projected as W x, as columns; here they are rows: x @ W.":
                    attention(*(x @ W.T for W in (W_q, W_k, W_v)), causal_mask(9))[0][new],
            }  # fmt: skip
            true = whole[new]
            clear = {t: w for t, w in mistakes.items() if w is not None and not close(w, true)}
            what = f"after {start} tokens, the output of the next {n}"
            expect_close(given, true, what, typical=clear)
            start = end


def grams(sentence, n):
    """Every run of n words, and how often it occurs."""
    words = sentence.split()
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def scored(translations, references, *, clip=True, recall=False, mean="geometric", brevity="short"):
    """BLEU of a text, from 0 to 100, by hand; the options are mistakes."""
    pairs = [*zip(translations, references, strict=True)]
    shares = []
    for n in range(1, 5):
        equal = every = 0
        for t, r in pairs:
            ours, theirs = grams(t, n), grams(r, n)
            equal += (ours & theirs).total() if clip else sum(k for run, k in ours.items() if run in theirs)
            every += theirs.total() if recall else ours.total()
        shares.append(equal / every if every else 0.0)
    h, r = (sum(len(text.split()) for text in texts) for texts in (translations, references))
    factor = {
        "short": min(1.0, math.exp(1 - r / h)), "none": 1.0, "long": min(1.0, math.exp(1 - h / r)),
        "always": math.exp(1 - r / h),
    }[brevity]  # fmt: skip
    value = math.prod(shares) ** (1 / 4) if mean == "geometric" else sum(shares) / 4
    return 100 * factor * value


@exercise
@without(bleu, bleu_of, sentence_counts, "counted", "bleu_by_hand", "BLEU.compute_bleu")
def text_bleu(yours):
    """BLEU of a text, from the sums of its sentences' counts"""
    cases = {
        "long translations": (
            ["the man the man is sleeping on the bench in the park .", "a boy jumps off a wall , it seems ."],
            ["the man is sleeping on the bench .", "a boy jumps off a wall ."],
        ),
        "short translations": (
            ["a man sleeps on a bench .", "two dogs run in the deep snow .", "a child paints ."],
            ["a man sleeps on a bench in the park .", "two dogs run through the deep snow .",
             "a child paints a picture ."],
        ),
    }  # fmt: skip
    for name, (ours, theirs) in cases.items():
        true = scored(ours, theirs)
        each = [scored([t], [r]) for t, r in zip(ours, theirs, strict=True)]
        joined = scored([" ".join(ours)], [" ".join(theirs)])
        mistakes = {
            "This is the mean of the sentences' BLEU; add up the counts, and take BLEU once.":
                sum(each) / len(each),
            "The number is right but for the factor 100.": true / 100,
            "N-grams reach from one sentence into the next: count sentence by sentence.": joined,
            "An n-gram counts at most as often as it occurs in the reference: use `&` of the two counts.":
                scored(ours, theirs, clip=False),
            "These are shares of the reference's n-grams; divide by the number of the translation's.":
                scored(ours, theirs, recall=True),
            "This is the arithmetic mean of the four shares; take the fourth root of their product.":
                scored(ours, theirs, mean="arithmetic"),
            "The brevity penalty is missing.": scored(ours, theirs, brevity="none"),
            "The brevity penalty punishes long translations: it is min(1, e^(1 − r/h)).":
                scored(ours, theirs, brevity="long"),
            "A translation longer than the reference must not gain: the brevity penalty is at most 1.":
                scored(ours, theirs, brevity="always"),
        }  # fmt: skip
        given = yours(ours, theirs)
        expect(isinstance(given, int | float) or hasattr(given, "item"), "Return a number.")
        given = float(given)
        if math.isclose(given, true, rel_tol=1e-6):
            continue
        for sentence, wrong in mistakes.items():
            clear = not math.isclose(wrong, true, rel_tol=1e-6)
            expect(not (clear and math.isclose(given, wrong, rel_tol=1e-6)), sentence)
        expect(False, f"{name}: BLEU should be {true:.2f}, and yours is {given:.2f}.")
    copy = ["a man sleeps on a bench .", "two dogs run ."]
    perfect = math.isclose(float(yours(copy, copy)), 100.0)
    expect(perfect, "A translation that equals its reference has BLEU 100.")


@exercise
def other_table(yours):
    """greedy writes a b with 0.24, and a beam of two b with 0.32"""
    given = yours()
    pairs = isinstance(given, tuple | list) and len(given) == 2
    expect(pairs and all(len(pair) == 2 for pair in given), "Return two pairs, of words and a probability.")
    (greedy, one), (beam, two) = given
    greedy, beam = (" ".join(str(words).split()) for words in (greedy, beam))
    expect(greedy != "a", "After a, b and EOS are equal, and greedy takes the first of them, b.")
    expect(greedy != "b", "The most probable first token is a, whatever follows it.")
    expect(greedy == "a b", f"Greedy does not write {greedy!r}: take the most probable token at each step.")
    expect(not math.isclose(one, 0.3), "0.30 is the probability of a b so far; EOS is a factor, too.")
    expect(math.isclose(one, 0.24, abs_tol=1e-6), f"a b and EOS: 0.6 · 0.5 · 0.8, and not {one:.3g}.")
    expect(beam != "a b", "A beam of two also keeps b, and b EOS is more probable than anything from a.")
    expect(beam != "a", "a EOS has 0.30; what does b EOS have?")
    expect(beam == "b", f"A beam of two does not write {beam!r}: look at the second step, all five of them.")
    expect(math.isclose(two, 0.32, abs_tol=1e-6), f"b and EOS: 0.4 · 0.8, and not {two:.3g}.")


@exercise
def cache_size(yours):
    """the numbers in a hypothesis's cache, a language model's gigabytes, and whether heads matter"""
    given = yours()
    expect(isinstance(given, tuple | list) and len(given) == 3, "Return three things: (a), (b) and a bool.")
    numbers, gigabytes, heads = given
    for wrong, sentence in {
        30_720: "(a) This is the self-attention's part; the source's keys and values are kept, too.",
        18_432: "(a) This is the source's part; the self-attention's keys and values are kept, too.",
        24_576: "(a) Keys or values? Both are kept.",
        16_384: "(a) This is one layer's; there are three.",
        61_440: "(a) The source has 12 tokens, not 20.",
        147_456: "(a) Queries are not kept.",
        73_728: "(a) Queries are not kept, and values are.",
    }.items():
        expect(numbers != wrong, sentence)
    expect(numbers == 49_152, "(a) Layers · 2 · tokens · d_model, once for 20 tokens and once for 12.")
    for low, high, sentence in (
        (2.0, 2.2, "(b) A key and a value, and two bytes for each number: a 2 is missing."),
        (1.0, 1.1, "(b) A key and a value for each token, and two bytes for each number."),
        (6.2, 6.4, "(b) Queries are not kept."),
        (4.1e9, 4.3e9, "(b) These are bytes; a gigabyte is 10⁹ of them."),
        (8.3, 8.5, "(b) A language model has no source attention: one pair for each token and layer."),
    ):
        expect(not low < gigabytes < high, sentence)
    expect(3.85 < gigabytes < 4.25, f"(b) Layers · 2 · tokens · d_model numbers; not {gigabytes:.3g} GB.")
    expect(heads in (True, False), "The last answer is True or False.")
    expect(not heads, "The heads divide d_model among themselves: more of them have shorter keys.")


@exercise
def bleu_by_head(yours):
    """BLEU the other way round, a clipped share, and a zero"""
    given = yours()
    expect(isinstance(given, tuple | list) and len(given) == 4, "Return BLEU, two shares, a bool.")
    value, clipped, unclipped, zero = given
    for wrong, sentence in {
        63.16: "(a) The equal runs are the same, but the numbers of all runs and the two lengths are not.",
        70.71: "(a) This translation is the shorter one: the factor for the lengths is below 1.",
        57.15: "(a) The shares are of the runs of the translation, and that has 10, 9, 8 and 7 now.",
    }.items():
        expect(abs(value - wrong) > 0.06, sentence)
    expect(
        abs(value - scored_exchanged()) < 0.06, f"(a) BLEU is not {value:.4g}: four shares, and the factor."
    )
    expect(clipped != 1, "(b) The reference has `the` twice, so not all five count.")
    expect(not math.isclose(clipped, 1 / 5), "(b) The reference has `the` twice, not once.")
    expect(not math.isclose(clipped, 2 / 6), "(b) The share is of the translation's five words.")
    expect(math.isclose(clipped, 2 / 5), f"(b) s₁ with the rule is not {clipped:.3g}.")
    expect(math.isclose(unclipped, 1), "(b) Without the rule each `the` of the five is in the reference.")
    expect(zero in (True, False), "The last answer is True or False.")
    expect(zero, "(c) BLEU is a product: what if no run of four words is in the reference?")


def scored_exchanged():
    """BLEU of the shorter of the chapter's two sentences, by the longer."""
    return scored(["A man sleeps on a bench in the park ."], ["A man is sleeping on a bench in the park ."])
