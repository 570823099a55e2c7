"""The whole model: against torch's, its properties, the paper's count, learning."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from variants import VARIANTS

from heed.attention import causal_mask
from heed.data import batches
from heed.engine import hidden_matrices
from heed.text import BOS, EOS, PAD
from heed.transformer import (
    Generator,
    LanguageModel,
    MaskedLanguageModel,
    TokenClassifier,
    make_language_model,
    make_model,
    tie,
)

B, N_SOURCE, N, D_MODEL, D_FF, H, VOCAB, VOCAB_TARGET = 2, 3, 5, 14, 11, 7, 13, 17


def small(dropout=0.0):
    torch.manual_seed(0)
    return make_model(VOCAB, VOCAB_TARGET, 2, D_MODEL, D_FF, H, dropout).double()


def ids(n, vocab=VOCAB, b=B):
    return torch.randint(4, vocab, (b, n), generator=torch.Generator().manual_seed(n))


def test_the_papers_base_model_has_the_papers_number_of_parameters():
    model = tie(make_model(37_000, 37_000))
    count = sum(p.numel() for p in model.parameters())
    attention, ff, norm = 4 * (512 * 512 + 512), 2 * 512 * 2048 + 2048 + 512, 2 * 512
    encoder, decoder = attention + ff + 2 * norm, 2 * attention + ff + 3 * norm
    assert count == 6 * (encoder + decoder) + 2 * norm + 37_000 * 512 + 37_000
    assert 62e6 < count < 65e6


@pytest.mark.parametrize("make", [partial(make_model, VOCAB, VOCAB), partial(make_language_model, VOCAB)])
@pytest.mark.parametrize("kind", VARIANTS.values(), ids=VARIANTS)
def test_a_variant_starts_as_its_class_has_set_it(make, kind):
    class Third(kind):
        """A variant with a matrix of its own."""

        def __init__(self, *sizes):
            super().__init__(*sizes)
            self.own = nn.Parameter(torch.full((3, 5), 1 / 3))

    model = make(2, D_MODEL, D_FF, H, self_attention=Third)
    variants = [module for module in model.modules() if isinstance(module, Third)]
    assert variants and all((module.own == 1 / 3).all() for module in variants)
    for module in variants:
        assert not hasattr(module, "by_distance") or not module.by_distance.any()
    firsts = {module.W_q.weight[0, 0].item() for module in variants}
    assert len(firsts) == len(variants)  # layers are not copies of one another


def test_no_check_keeps_a_gpu_waiting():
    """A GPU would be asked twice a step for what it has not computed yet; "meta" cannot be asked at all."""
    model = small().to("meta")
    assert model(ids(N_SOURCE).to("meta"), ids(N).to("meta")).shape == (B, N, D_MODEL)
    with pytest.raises(ValueError, match=r"token id 17 .* outside a vocabulary of 17 tokens"):
        small()(ids(N_SOURCE), torch.tensor([[VOCAB_TARGET]] * B))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_the_whole_model_equals_torchs_transformer():
    model = small()
    theirs = nn.Transformer(
        D_MODEL, H, 2, 2, D_FF, 0.0, batch_first=True, norm_first=True, dtype=torch.float64
    )
    with torch.no_grad():
        for side in ("encoder", "decoder"):
            stack, other = getattr(model, side), getattr(theirs, side)
            other.norm.weight.copy_(stack.norm.a), other.norm.bias.copy_(stack.norm.b)
            for layer, twin in zip(stack.layers, other.layers, strict=True):
                pairs = [(layer.self_attention, twin.self_attn)]
                pairs += [(layer.source_attention, twin.multihead_attn)] if side == "decoder" else []
                for a, t in pairs:
                    t.in_proj_weight.copy_(torch.cat([a.W_q.weight, a.W_k.weight, a.W_v.weight]))
                    t.in_proj_bias.copy_(torch.cat([a.W_q.bias, a.W_k.bias, a.W_v.bias]))
                    t.out_proj.load_state_dict(a.W_o.state_dict())
                twin.linear1.load_state_dict(layer.feed_forward.W_1.state_dict())
                twin.linear2.load_state_dict(layer.feed_forward.W_2.state_dict())
    source, target = torch.tensor([[4, 5, 6], [7, 8, PAD]]), ids(N, VOCAB_TARGET)
    causal = torch.triu(torch.ones(N, N, dtype=torch.bool), diagonal=1)
    out = theirs(
        model.source_embed(source),
        model.target_embed(target),
        tgt_mask=causal,
        src_key_padding_mask=source == PAD,
        memory_key_padding_mask=source == PAD,
    )
    assert torch.allclose(model(source, target), out, atol=1e-10)


def test_the_generator_gives_log_probabilities():
    torch.manual_seed(0)
    generator = Generator(D_MODEL, VOCAB).double()
    x = torch.randn(B, N, D_MODEL, dtype=torch.float64)
    log_p = generator(x)
    assert torch.allclose(log_p.exp().sum(-1), torch.ones(B, N, dtype=torch.float64))
    assert torch.allclose(log_p, torch.log_softmax(generator.proj(x), -1))


@settings(max_examples=15)
@given(st.integers(0, N - 1))
def test_no_position_sees_what_comes_after_it(position):
    model, source, target = small(), ids(N_SOURCE), ids(N, VOCAB_TARGET)
    changed = target.clone()
    changed[:, position] = (changed[:, position] - 3) % (VOCAB_TARGET - 4) + 4
    a, b = model(source, target), model(source, changed)
    assert torch.allclose(a[:, :position], b[:, :position], atol=1e-12)
    assert not torch.allclose(a[:, position], b[:, position])


@settings(max_examples=15)
@given(st.integers(1, 4), st.integers(1, 4))
def test_padding_is_invisible_on_both_sides(more_source, more_target):
    model, source, target = small(), ids(N_SOURCE), ids(N, VOCAB_TARGET)
    padded = model(nn.functional.pad(source, (0, more_source)), nn.functional.pad(target, (0, more_target)))
    assert torch.allclose(padded[:, :N], model(source, target), atol=1e-12)


def test_the_memory_is_asked_and_every_source_token_matters():
    model, source, target = small(), ids(N_SOURCE), ids(N, VOCAB_TARGET)
    for i in range(N_SOURCE):
        changed = source.clone()
        changed[:, i] = (changed[:, i] - 3) % (VOCAB - 4) + 4
        assert not torch.allclose(model(source, target), model(changed, target))


def test_order_matters():
    model, source, target = small(), ids(N_SOURCE), ids(N, VOCAB_TARGET)
    assert not torch.allclose(model(source.flip(1), target), model(source, target))


def test_a_source_of_padding_alone_gives_finite_numbers_and_gradients():
    model = small()
    model(torch.full((B, N_SOURCE), PAD), ids(N, VOCAB_TARGET)).sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_tied_matrices_are_one_and_untied_ones_are_not():
    model = make_model(VOCAB, VOCAB, 1, D_MODEL, D_FF, H)

    def matrices():
        owners = model.source_embed[0].embedding, model.target_embed[0].embedding, model.generator.proj
        return len({id(owner.weight) for owner in owners})

    assert matrices() == 3
    tie(model)
    assert matrices() == 1
    with pytest.raises(ValueError, match=f"{VOCAB} and {VOCAB_TARGET}"):
        tie(small())


def test_a_width_that_does_not_divide_is_refused_with_the_nearest_that_does():
    with pytest.raises(ValueError, match=r"d_model=14.*n_heads=5.*7"):
        make_model(VOCAB, VOCAB, 1, 14, D_FF, 5)


# --- Pre-norm and post-norm ---------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_norm_stands_where_it_is_asked_for(norm):
    torch.manual_seed(0)
    model = make_model(VOCAB, VOCAB_TARGET, 3, D_MODEL, D_FF, H, 0.0, norm)
    per_layer, last = (2 + 3) * 2 * D_MODEL, 2 * 2 * D_MODEL if norm == "pre" else 0
    norms = sum(p.numel() for name, p in model.named_parameters() if ".norm." in name)
    assert norms == 3 * per_layer + last
    x = model(ids(N_SOURCE), ids(N, VOCAB_TARGET))
    assert torch.allclose(x.mean(-1), torch.zeros(B, N), atol=1e-5)  # a norm comes last, either way
    plain = nn.TransformerEncoderLayer(D_MODEL, H, D_FF, 0.0, batch_first=True, norm_first=norm == "pre")
    layer = model.encoder.layers[0]
    with torch.no_grad():
        a, t = layer.self_attention, plain.self_attn
        t.in_proj_weight.copy_(torch.cat([a.W_q.weight, a.W_k.weight, a.W_v.weight]))
        t.in_proj_bias.copy_(torch.cat([a.W_q.bias, a.W_k.bias, a.W_v.bias]))
        t.out_proj.load_state_dict(a.W_o.state_dict())
    plain.linear1.load_state_dict(layer.feed_forward.W_1.state_dict())
    plain.linear2.load_state_dict(layer.feed_forward.W_2.state_dict())
    x = torch.randn(B, N, D_MODEL)
    assert torch.allclose(layer(x, None), plain(x), atol=1e-5)


def test_another_place_for_the_norm_is_refused():
    with pytest.raises(ValueError, match="'middle'"):
        make_model(VOCAB, VOCAB, 1, D_MODEL, D_FF, H, norm="middle")


# --- The decoder alone, and the encoder alone ---------------------------------------------------------------


def alone(kind):
    torch.manual_seed(0)
    return make_language_model(VOCAB, 2, D_MODEL, D_FF, H, 0.0, kind).double()


@pytest.mark.parametrize("kind", [LanguageModel, MaskedLanguageModel])
def test_one_mask_apart_who_sees_whom(kind):
    model, x = alone(kind), torch.randn(B, N, D_MODEL, dtype=torch.float64, requires_grad=True)
    out = model.encoder(x, model.mask(ids(N)))
    out = out[0] @ torch.randn(D_MODEL, dtype=torch.float64)  # a plain sum behind a norm has no gradient
    seen = torch.stack([torch.autograd.grad(out[i], x, retain_graph=True)[0][0] for i in range(N)])
    sees = seen.abs().sum(-1) > 1e-12  # (n, n)
    assert torch.equal(sees, causal_mask(N) if kind is LanguageModel else torch.ones(N, N).bool())


@pytest.mark.parametrize("kind", [LanguageModel, MaskedLanguageModel])
def test_padding_is_invisible_to_either_half(kind):
    model = alone(kind)
    padded = model(nn.functional.pad(ids(N), (0, 3)))
    assert torch.allclose(padded[:, :N], model(ids(N)), atol=1e-12)


def test_the_two_halves_have_the_same_parameters():
    one, other = (alone(kind).state_dict() for kind in (LanguageModel, MaskedLanguageModel))
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_classifier_by_hand():
    """Labels are told from the model's vectors, not from its probabilities of tokens."""
    model = alone(MaskedLanguageModel)
    tagger = TokenClassifier(model, 3).double()
    with torch.no_grad():
        tagger.out.weight.zero_()
        tagger.out.weight[1, 4] = 2.0
        tagger.out.bias.copy_(torch.tensor([0.0, 1.0, 5.0]))
    scores = tagger(ids(N))
    assert scores.shape == (B, N, 3)
    assert torch.allclose(scores[..., 1], 2 * model(ids(N))[..., 4] + 1, atol=1e-12)
    assert torch.equal(scores[0, 0, ::2], torch.tensor([0.0, 5.0]).double())


@pytest.mark.parametrize("kind", [LanguageModel, MaskedLanguageModel])
def test_a_classifier_equals_torchs_linear_layer_and_its_gradient_reaches_the_model(kind):
    model = alone(kind)
    tagger = TokenClassifier(model, 3).double()
    theirs = nn.functional.linear(model(ids(N)), tagger.out.weight, tagger.out.bias)
    weights = [*model.encoder.parameters(), *model.embed.parameters(), *tagger.out.parameters()]
    ours = torch.autograd.grad(tagger(ids(N)).square().sum(), weights)
    for a, b in zip(ours, torch.autograd.grad(theirs.square().sum(), weights), strict=True):
        assert torch.allclose(a, b, atol=1e-10)
    assert all(gradient.abs().sum() > 0 for gradient in ours)
    assert hidden_matrices(tagger) == hidden_matrices(model)  # its own layer is an output layer


def test_a_classifier_is_blind_where_its_model_is():
    for kind in (LanguageModel, MaskedLanguageModel):
        tagger = TokenClassifier(alone(kind), 3).double()
        changed = ids(N).clone()
        changed[:, -1] = (changed[:, -1] + 1 - 4) % (VOCAB - 4) + 4
        before = (tagger(changed) - tagger(ids(N)))[:, :-1].abs().max()
        assert (before < 1e-12) == (kind is LanguageModel)


@pytest.mark.parametrize("task", ["copy", "reverse"])
def test_it_learns_to_copy_and_to_reverse(task):
    rows = torch.randint(4, VOCAB, (1100, 6), generator=torch.Generator().manual_seed(0)).tolist()
    pairs = [(row, [BOS, *(row if task == "copy" else row[::-1]), EOS]) for row in rows]
    torch.manual_seed(0)
    model = make_model(VOCAB, VOCAB, 2, 32, 64, 4, 0.0)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    stream = batches(pairs[:1000], 64, seed=0)
    for _ in range(400):
        batch = next(stream)
        log_p = model.generator(model(batch.source, batch.target_in))
        loss = nn.functional.nll_loss(log_p.flatten(0, 1), batch.target_out.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    source = torch.tensor(rows[1000:])
    goal = source if task == "copy" else source.flip(1)
    written = torch.full((100, 1), BOS)
    for _ in range(6):
        best = model.generator(model(source, written)[:, -1]).argmax(-1)
        written = torch.cat([written, best[:, None]], dim=1)
    assert (written[:, 1:] == goal).all(1).float().mean() > 0.99
