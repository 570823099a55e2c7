"""Greedy, beam and sampling: cached equals uncached, the optimum by trying everything, ends of every kind."""

from functools import partial
from itertools import product

import pytest
import torch
from torch import nn
from variants import VARIANTS

from heed import decode
from heed.attention import MultiHeadAttention, record
from heed.data import pad
from heed.decode import beam, greedy, length_penalty, longest, sample, start_decoding, translations, truncated
from heed.position import RelativeBias
from heed.text import BOS, EOS, PAD, Characters
from heed.transformer import LanguageModel, MaskedLanguageModel, make_language_model, make_model

B, N_SOURCE, D_MODEL, D_FF, H, VOCAB = 5, 7, 22, 13, 11, 17


def small(seed=0, vocab=VOCAB, sharp=3.0, **options):
    """An untrained model; `sharp` makes its scores differ enough for its sentences to differ, too."""
    torch.manual_seed(seed)
    model = make_model(VOCAB, vocab, 2, D_MODEL, D_FF, H, dropout=0.3, **options)
    model.generator.proj.weight.data *= sharp
    return model.double()


def small_language_model(seed=0, sharp=3.0, **options):
    torch.manual_seed(seed)
    model = make_language_model(VOCAB, 2, D_MODEL, D_FF, H, dropout=0.3, **options)
    model.generator.proj.weight.data *= sharp
    return model.double()


def sources(seed=0, b=B, n=N_SOURCE):
    """b random sources of 1 to n tokens, the longest among them."""
    g = torch.Generator().manual_seed(seed)
    lengths = [n, *torch.randint(1, n, (b - 1,), generator=g).tolist()]
    return pad([torch.randint(4, VOCAB, (k,), generator=g).tolist() for k in lengths])


class Uncached:
    """What `start_decoding` returns, without a cache: all that was read goes through the model again."""

    def __init__(self, model, source):
        self.model, self.source = model, source
        language_model = isinstance(model, LanguageModel)
        self.first = source if language_model else source.new_full((len(source), 1), BOS)
        self.read = self.first[:, :0]

    def step(self, ids):
        self.read = torch.cat([self.read, ids], dim=1)
        read = (self.read,) if isinstance(self.model, LanguageModel) else (self.source, self.read)
        logits = self.model.generator.proj(self.model(*read)[:, -1])
        logits[..., [PAD, BOS]] = float("-inf")
        return logits

    def select(self, rows):
        self.source, self.read = self.source[rows], self.read[rows]


SEARCHES = {
    "greedy": greedy,
    "beam of 1": partial(beam, width=1),
    "beam of 3": partial(beam, width=3),
    "beam of 5, no penalty": partial(beam, width=5, penalty=0.0),
    "sample": partial(sample, seed=2),
    "sample of few": partial(sample, temperature=0.7, top_k=5, top_p=0.8, seed=3),
}


def both_ways(search, model, source, monkeypatch):
    """What a search writes with the cache; it must be, token for token, what it writes without."""
    cached = search(model, source)
    with monkeypatch.context() as patch:
        patch.setattr(decode, "start_decoding", Uncached)
        assert search(model, source) == cached
    return cached


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_cached_equals_uncached_token_for_token(search, norm, monkeypatch):
    lengths = set()
    for seed in range(3):
        lengths |= {len(ids) for ids in both_ways(search, small(seed, norm=norm), sources(seed), monkeypatch)}
    assert len(lengths) > 3 and max(lengths) > 5


THREE = ("greedy", "beam of 3", "sample")


@pytest.mark.parametrize("search", THREE)
@pytest.mark.parametrize("kind", VARIANTS.values(), ids=VARIANTS)
def test_a_variant_of_attention_decodes_what_it_is_trained_for(kind, search, monkeypatch):
    """Cached equals uncached, and the variant does change what is said: it is not left out."""
    search, source, model = SEARCHES[search], sources(), small(self_attention=kind)
    for module in model.modules():
        if isinstance(module, RelativeBias):
            nn.init.normal_(module.by_distance)  # untrained it adds nothing
    said = both_ways(search, model, source, monkeypatch)
    assert said != search(small(), source)


@pytest.mark.parametrize("search", THREE)
@pytest.mark.parametrize("kind", [MultiHeadAttention, *VARIANTS.values()], ids=["plain", *VARIANTS])
def test_a_language_model_continues_what_it_would_without_a_cache(kind, search, monkeypatch):
    search = SEARCHES[search]
    for seed, n in ((0, 1), (1, 5)):
        model = silence(small_language_model(seed, self_attention=kind), EOS)
        prompt = torch.randint(4, VOCAB, (B, n), generator=torch.Generator().manual_seed(seed))
        prompt[:, 0] = BOS
        said = both_ways(partial(search, n_max=9), model, prompt, monkeypatch)
        assert {len(ids) for ids in said} == {9} and (n == 1 or len(set(map(tuple, said))) > 1)


def test_the_steps_of_the_cache_equal_one_pass_over_the_whole_sentence():
    model, source = small().eval(), sources()
    target = torch.randint(4, VOCAB, (B, 37), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        whole = model.generator.proj(model(source, target))
        writer = start_decoding(model, source)
        steps = torch.stack([writer.step(target[:, n, None]) for n in range(target.shape[1])], dim=1)
        at_once = start_decoding(model, source).step(target)
    assert torch.allclose(steps[..., EOS:], whole[..., EOS:], atol=1e-10)
    assert torch.allclose(at_once[:, EOS:], whole[:, -1, EOS:], atol=1e-10)
    assert steps[..., [PAD, BOS]].isinf().all()


def test_several_new_tokens_at_once_are_read_as_one_by_one():
    model = small_language_model()
    ids = torch.randint(4, VOCAB, (B, 11), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        whole, cache = model.eval()(ids), start_decoding(model, ids).cache
        pieces = torch.cat([model(piece, cache) for piece in ids.split([3, 1, 7], dim=1)], dim=1)
    assert torch.allclose(pieces, whole, atol=1e-10) and cache.n == 11


def test_record_sees_the_weights_of_cached_steps():
    model, source = small().eval(), sources()
    target = torch.randint(4, VOCAB, (B, 5), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        with record(model) as whole:
            model(source, target)
        writer = start_decoding(model, source)
        with record(model) as steps:
            for n in range(5):
                writer.step(target[:, n, None])
    for name in (name for name in whole if name.startswith("decoder")):
        for n, weights in enumerate(steps[name]):
            n_k = weights.shape[-1]
            assert torch.allclose(weights[:, :, 0], whole[name][0][:, :, n, :n_k], atol=1e-10), name


def test_models_that_do_not_write_and_prompts_that_do_not_fit_are_refused():
    model = small_language_model()
    with pytest.raises(ValueError, match="MaskedLanguageModel does not write"):
        greedy(small_language_model(kind=MaskedLanguageModel), sources(), n_max=3)
    with pytest.raises(ValueError, match="n_max, the most tokens to write; got None"):
        greedy(model, sources())
    with pytest.raises(ValueError, match=r"equally long.*\(5, 7\), \d+ of them PAD"):
        greedy(model, sources(), n_max=3)
    with pytest.raises(ValueError, match=r"\(5, 0\)"):
        greedy(model, sources()[:, :0], n_max=3)


def log_p(model, source, ids):
    """Log-probabilities of the next token at each place of one sentence, given those before, in one pass."""
    with torch.no_grad():
        logits = model.generator.proj(model.eval()(source[source != PAD][None], torch.tensor([[BOS, *ids]])))
    logits[..., [PAD, BOS]] = float("-inf")
    return logits[0].log_softmax(-1)  # (n + 1, vocab)


def score(model, source, ids, penalty=0.6):
    """Wu's score of a sentence with its EOS, without any search."""
    said = torch.tensor([*ids, EOS])
    return log_p(model, source, ids)[range(len(said)), said].sum().item() / ((5 + len(said)) / 6) ** penalty


def test_greedy_says_the_likeliest_token_at_each_place():
    ended = 0
    for seed in range(5):
        model, source = small(seed), sources(seed)
        for row, ids in zip(source, greedy(model, source), strict=True):
            likeliest = log_p(model, row, ids).argmax(-1).tolist()
            cut = len(ids) == longest(model, row[None])
            assert likeliest[: len(ids)] == ids and (cut or likeliest[-1] == EOS)
            ended += not cut
    assert ended > B


@pytest.mark.parametrize("search", [greedy, partial(beam, width=3)], ids=["greedy", "beam"])
def test_a_sentence_does_not_depend_on_its_neighbours(search):
    for seed in range(5):
        model, source = small(seed), sources(seed)
        together = search(model, source)
        assert [search(model, row[row != PAD][None])[0] for row in source] == together
        assert search(model, source.flip(0)) == together[::-1]


# --- Beam ---------------------------------------------------------------------------------------------------


def test_the_length_penalty_on_paper():
    assert length_penalty(1, 0.6) == 1.0
    assert length_penalty(7, 1.0) == 2.0
    assert length_penalty(19, 0.5) == 2.0


def test_a_beam_of_one_is_greedy():
    for seed in range(10):
        model, source = small(seed), sources(seed)
        assert beam(model, source, width=1) == greedy(model, source)


def plain_beam(model, source, width, penalty, n_max):
    """A beam search for one sentence, of lists, without a cache; it goes on to n_max whatever has ended."""
    live, ended = [(0.0, [])], []
    for n in range(1, n_max + 1):
        longer = [
            (s + p, [*ids, y])
            for s, ids in live
            for y, p in enumerate(log_p(model, source, ids)[-1].tolist())
        ]
        longer = sorted(longer, reverse=True)[:width]
        ended += [(s / ((5 + n) / 6) ** penalty, ids[:-1]) for s, ids in longer if ids[-1] == EOS]
        live = [(s, ids) for s, ids in longer if ids[-1] != EOS]
    return max(ended or live)[1]


@pytest.mark.parametrize("penalty, less_eos", [(0.0, 1.0), (0.6, 0.0), (2.0, -1.0), (0.6, 1e4)])
def test_the_beam_of_tensors_equals_one_of_lists(penalty, less_eos):
    said = []
    for seed in range(3):
        model, source = silence(small(seed, sharp=1.5), EOS, less_eos), sources(seed, b=3)
        said += beam(model, source, 3, penalty, n_max=8)
        assert said[-3:] == [plain_beam(model, row, 3, penalty, 8) for row in source]
    assert max(map(len, said)) > 3


def test_a_beam_ends_when_nothing_can_win_any_more(monkeypatch):
    """A sentence that ends at once with probability near 1 is not beaten by any longer one."""
    steps, one_step = [], decode.Translating.step
    monkeypatch.setattr(decode.Translating, "step", lambda self, ids: steps.append(1) or one_step(self, ids))
    assert beam(silence(small(), EOS, by=-1e3), sources(), n_max=17) == [[]] * B
    assert len(steps) == 1
    beam(silence(small(), EOS), sources(), n_max=17)
    assert len(steps) == 1 + 17


def test_caches_follow_any_order_of_the_rows():
    model, source, rows = small().eval(), sources(), torch.tensor([3, 0, 0, 4, 1, 2, 2])
    ids = torch.randint(4, VOCAB, (B, 23), generator=torch.Generator().manual_seed(1))
    for order in (rows, rows[:B], torch.tensor([1, 0, 2, 4, 3])):
        with torch.no_grad():
            writer, straight = start_decoding(model, source), start_decoding(model, source[order])
            writer.step(ids[:, :19])
            writer.select(order)
            straight.step(ids[order, :19])
            pairs = [(w.step(ids[order, 19:21]), w.step(ids[order, 21:])) for w in (writer, straight)]
        for one, other in zip(*pairs, strict=True):
            assert torch.allclose(one[:, EOS:], other[:, EOS:], atol=1e-10)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.5])
def test_a_beam_as_wide_as_everything_finds_the_best_sentence(penalty):
    n_max, found = 4, set()
    for seed in range(6):
        model, source = small(seed, vocab=6), sources(seed, b=2)
        model.generator.proj.bias.data[EOS] -= 1.0
        everything = [ids for n in range(n_max) for ids in product((3, 4, 5), repeat=n)]
        for row, ids in zip(source, beam(model, source, 3 ** (n_max - 1) * 4, penalty, n_max), strict=True):
            best = max(everything, key=lambda ids: score(model, row, ids, penalty))
            assert tuple(ids) == best
            found.add(len(ids))
    assert len(found) > 1


def test_a_wider_beam_finds_better_sentences():
    gains = []
    for seed in range(8):
        model, source = small(seed, sharp=1.5), sources(seed)
        model.generator.proj.bias.data[EOS] += 2.0
        for row, ids, wide in zip(source, greedy(model, source), beam(model, source, width=5), strict=True):
            if max(len(ids), len(wide)) < longest(model, row[None]):
                gains.append(score(model, row, wide) - score(model, row, ids))
    assert len(gains) > 20 and min(gains) >= -1e-9 and max(gains) > 0.1


def test_a_heavier_penalty_makes_no_sentence_shorter():
    model, source = small(1, sharp=2.0), sources(1, b=11)
    short, long = ([len(ids) for ids in beam(model, source, 7, penalty)] for penalty in (0.0, 2.0))
    assert sum(long) > sum(short) and all(a <= b for a, b in zip(short, long, strict=True))


# --- Where sentences end ------------------------------------------------------------------------------------


def silence(model, token, by=1e4):
    model.generator.proj.bias.data[token] -= by
    return model


@pytest.mark.parametrize("search", [greedy, beam, sample], ids=["greedy", "beam", "sample"])
def test_a_model_that_never_ends_is_stopped_at_a_length_that_the_source_sets(search):
    model, source = silence(small(), EOS), sources()
    lengths = (source != PAD).sum(1).tolist()
    assert [len(ids) for ids in search(model, source)] == [2 * n + 10 for n in lengths]
    assert [len(ids) for ids in search(model, source, n_max=3)] == [3] * B


@pytest.mark.parametrize("search", [greedy, beam, sample], ids=["greedy", "beam", "sample"])
def test_nobody_says_pad_or_bos_and_an_empty_source_gives_nothing(search):
    model, source = silence(silence(small(), PAD, by=-1e4), BOS, by=-1e4), sources()
    source[2] = PAD
    said = search(model, source)
    assert said[2] == [] and sum(map(len, said)) > 10
    assert not {PAD, BOS, EOS} & {i for ids in said for i in ids}
    assert search(model, source[:0]) == []
    assert search(model, source[2:3]) == search(model, source[:1, :0]) == [[]]
    assert search(silence(model, EOS, by=-1e6), source) == [[]] * B


def test_writing_leaves_the_model_as_it_was():
    model, source = small(), sources()
    once, again = greedy(model, source), greedy(model, source)
    assert once == again and model.training and model.decoder.layers[0].sublayer[0].dropout.training
    assert greedy(model.eval(), source) == once and not model.training
    assert all(p.grad is None and p.requires_grad for p in model.parameters())


def test_a_beam_of_one_is_greedy_where_tokens_are_equally_probable_too():
    """In bfloat16 they often are; here each token has a twin."""
    model, source = small(), torch.cat([sources(seed) for seed in range(6)])
    for p in (model.generator.proj.weight, model.generator.proj.bias):
        p.data[EOS + 2 :: 2] = p.data[EOS + 1 : -1 : 2]
    found = greedy(model, source)
    assert len({token for ids in found for token in ids}) > 3
    assert beam(model, source, width=1) == found


# --- Sampling -----------------------------------------------------------------------------------------------


def test_the_probabilities_to_draw_from_on_paper():
    logits = torch.tensor([[0.125, 0.5, 0.25, 0.125]]).log()
    given = {
        (1.0, None, 1.0): [1 / 8, 4 / 8, 2 / 8, 1 / 8],
        (0.5, None, 1.0): [1 / 22, 16 / 22, 4 / 22, 1 / 22],  # squares
        (1.0, 2, 1.0): [0, 2 / 3, 1 / 3, 0],
        (1.0, None, 0.4): [0, 1, 0, 0],
        (1.0, None, 0.6): [0, 2 / 3, 1 / 3, 0],
        (1.0, 2, 0.6): [0, 1, 0, 0],  # two thirds are more than 0.6
        (1.0, 9, 1.0): [1 / 8, 4 / 8, 2 / 8, 1 / 8],
    }
    for arguments, p in given.items():
        assert torch.allclose(truncated(logits, *arguments), torch.tensor([p], dtype=torch.float)), arguments


def test_the_fewest_that_reach_top_p_are_kept():
    logits = torch.tensor([[0.5, 0.25, 0.25]]).log()
    assert (truncated(logits, top_p=0.5) > 0).sum() == 1
    assert (truncated(logits, top_p=0.5001) > 0).sum() == 2


def test_tokens_are_drawn_as_often_as_they_are_likely():
    model, source, n = small(sharp=1.0), sources(b=1), 3_000
    p = log_p(model, source[0], [])[0].exp()
    said = sample(model, source.expand(n, -1), temperature=1.0, seed=5, n_max=1)
    counts = torch.tensor([ids[0] if ids else EOS for ids in said]).bincount(minlength=VOCAB)
    deviation = (n * p * (1 - p)).sqrt()
    assert ((counts - n * p).abs() <= 4.5 * deviation).all() and deviation.max() < n / 50


def test_every_batch_draws_otherwise_though_the_seed_is_one():
    """What `translations` calls for each batch; equal noise would give like sentences in each."""
    model = small(sharp=0.0)  # all tokens are equally probable
    source = sources(b=2)
    first, second = (sample(model, given, seed=3, n_max=40) for given in (source, source.flip(0)))
    assert first == sample(model, source, seed=3, n_max=40)
    same = [a == b for one, two in zip(first, second, strict=True) for a, b in zip(one, two, strict=False)]
    assert sum(same) < len(same) / 4


def test_to_draw_from_one_token_is_greedy_and_the_seed_decides_the_rest():
    model, source = small(), sources()
    assert sample(model, source, top_k=1) == sample(model, source, temperature=1e-6) == greedy(model, source)
    assert sample(model, source, top_p=1e-9) == greedy(model, source)
    assert sample(model, source, seed=1) == sample(model, source, seed=1) != sample(model, source, seed=2)


@pytest.mark.parametrize(
    "search, wrong",
    [
        (sample, {"temperature": 0.0}),
        (sample, {"temperature": float("nan")}),
        (sample, {"top_k": 0}),
        (sample, {"top_p": 0.0}),
        (sample, {"top_p": 1.5}),
        (beam, {"width": 0}),
        (beam, {"penalty": -0.5}),
        (greedy, {"n_max": 0}),
    ],
)
def test_numbers_that_mean_nothing_are_refused(search, wrong):
    with pytest.raises(ValueError, match=str(*wrong.values())):
        search(small(), sources(), **wrong)


# --- Text ---------------------------------------------------------------------------------------------------

LETTERS = Characters("abcdefgh ")


def writer(seed=0):
    torch.manual_seed(seed)
    model = make_model(len(LETTERS), len(LETTERS), 1, D_MODEL, D_FF, H).double()
    model.generator.proj.weight.data *= 3
    return model


SENTENCES = ["abc", "", "hgfedcbah", "a", "  \t ", "dd cc bb aa", "\0", "  e  é🙂", "\n", "bca"]


@pytest.mark.parametrize("search", [greedy, beam], ids=["greedy", "beam"])
def test_translations_come_back_in_order_whatever_the_batches(search):
    model = writer()
    alone = [translations(model, LETTERS, [sentence], search)[0] for sentence in SENTENCES]
    for n_tokens in (1, 13, 29, 4096):
        assert translations(model, LETTERS, SENTENCES, search, n_tokens) == alone
    assert [text == "" for text in alone] == [not sentence.strip() for sentence in SENTENCES]
    assert len(set(alone)) >= len(SENTENCES) - 2
    assert translations(model, LETTERS, [], search) == translations(model, LETTERS, [""], search)[1:]


def test_batches_hold_no_more_tokens_than_they_may_and_the_longest_come_first():
    seen = []

    def look(model, source):
        seen.append(tuple(source.shape))
        return [[EOS]] * len(source)

    translations(writer(), LETTERS, ["a" * n for n in (1, 2, 2, 2, 3, 5, 7, 19)], look, n_tokens=11)
    assert seen == [(1, 19), (1, 7), (2, 5), (4, 2)]


def test_a_sentence_longer_than_all_known_positions_is_read_to_its_end():
    model = writer()
    one, other = ("ab" * 300 + last for last in "cd")
    short = partial(greedy, n_max=600)
    a, b = translations(silence(model, EOS), LETTERS, [one, other], short)
    assert a != b and len(LETTERS.encode(a)) > 512


def test_a_single_string_is_refused():
    with pytest.raises(ValueError, match="list"):
        translations(writer(), LETTERS, "abc")
    with pytest.raises(ValueError, match="n_tokens=0"):
        translations(writer(), LETTERS, ["abc"], n_tokens=0)


@pytest.mark.parametrize("search", [greedy, beam, sample], ids=["greedy", "beam", "sample"])
def test_in_bfloat16_it_still_writes(search):
    model, source = small().float(), sources()
    with torch.autocast("cpu", torch.bfloat16):
        said = search(model, source)
    assert len(said) == B and any(said)
