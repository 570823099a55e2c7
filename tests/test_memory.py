"""Memories found by content: Hopfield networks, memory networks, the Turing machine."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from heed.attention import attention, record
from heed.memory import (
    Head,
    HopfieldNetwork,
    MemoryNetwork,
    Sharpened,
    TuringMachine,
    content_weights,
    erase_and_add,
    hopfield_energy,
    hopfield_weights,
    modern_energy,
    retrieve,
    shift_weights,
)
from heed.tasks import STORY_WORDS, endless, pictures, short_voyages, stories, torn, voyages
from heed.train import train

B, N, D_X, N_ROWS, D_ROW, D_HIDDEN = 2, 5, 7, 11, 3, 13


@pytest.fixture(autouse=True)
def float64():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before)


def bits(*shape):
    return torch.randint(2, shape).double() * 2 - 1


def weights(*shape):
    return torch.rand(*shape).softmax(dim=-1)


# --- Hopfield networks --------------------------------------------------------


def test_two_patterns_on_paper():
    X = torch.tensor([[1.0, 1, 1, 1], [1, 1, -1, -1]])
    W = torch.tensor([[0.0, 2, 0, 0], [2, 0, 0, 0], [0, 0, 0, 2], [0, 0, 2, 0]])
    assert torch.equal(hopfield_weights(X), W)
    assert hopfield_energy(X, W).tolist() == [-4, -4]
    assert hopfield_energy(torch.tensor([1.0, -1, 1, 1]), W).item() == 0
    network = HopfieldNetwork(4)
    network.store(X)
    assert network(torch.tensor([0.0, 1, 0, -1])).tolist() == [1, 1, -1, -1]
    x = torch.tensor([1.0, -1, 1, 0])
    assert network(x).tolist() == [-1, 1, 1, 1]
    assert network(x, order=range(4)).tolist() == [-1, -1, 1, 1] and x[3] == 0


def test_patterns_stored_one_by_one_are_those_stored_together():
    X = bits(N, D_X)
    together, one_by_one = HopfieldNetwork(D_X), HopfieldNetwork(D_X)
    together.store(X)
    for x in X:
        one_by_one.store(x[None])
    assert torch.allclose(together.W, one_by_one.W)
    assert "W" in together.state_dict()


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 9), st.integers(2, 30), st.integers(0, 2**31))
def test_the_energy_never_rises_when_entries_change_one_by_one(n, d_x, seed):
    torch.manual_seed(seed)
    network = HopfieldNetwork(d_x)
    network.store(bits(n, d_x))
    x = torch.randint(-1, 2, (d_x,)).double()
    for i in torch.randperm(d_x).tolist() * 2:
        after = network(x, order=[i])
        assert (after != x).sum() <= 1
        assert network.energy(after) <= network.energy(x) + 1e-12
        x = after


def test_all_at_once_the_energy_may_rise_and_two_states_take_turns():
    network = HopfieldNetwork(2)
    network.store(torch.tensor([[1.0, -1.0]]))
    x = torch.tensor([1.0, 1.0])
    assert torch.equal(network(x), -x) and torch.equal(network(network(x)), x)


def test_one_by_one_is_what_a_loop_over_entries_does():
    network, x = HopfieldNetwork(D_X), bits(B, D_X)
    network.store(bits(N, D_X))
    order, by_hand = torch.randperm(D_X).tolist(), x.clone()
    for i in order:
        for state in by_hand:
            field = sum(network.W[i, j] * state[j] for j in range(D_X))
            state[i] = state[i] if field == 0 else field.sign()
    assert torch.equal(network(x, order), by_hand)
    assert not torch.equal(x, by_hand)


def test_a_state_and_its_negative_have_one_energy():
    W, x = hopfield_weights(bits(N, D_X)), bits(B, D_X)
    assert torch.allclose(hopfield_energy(x, W), hopfield_energy(-x, W))
    assert torch.allclose(hopfield_energy(x, W), torch.stack([-(y @ W @ y) / 2 for y in x]))


def test_torn_pictures_are_completed():
    X = pictures()
    network = HopfieldNetwork(X.shape[1])
    network.store(X)
    x = torn(X)
    for _ in range(3):
        x = network(x, order=torch.randperm(X.shape[1]).tolist())
    assert torch.equal(x, X)


@pytest.mark.parametrize("entry", [0.0, 0.5, 2.0])
def test_patterns_that_are_not_1_and_minus_1_are_refused(entry):
    X = bits(N, D_X)
    X[3, 2] = entry
    with pytest.raises(ValueError, match=rf"1 and −1 only; entry 2 of pattern 3 is {entry:.4g}"):
        HopfieldNetwork(D_X).store(X)


def test_patterns_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="width 6 do not fit a network of 7 units"):
        HopfieldNetwork(D_X).store(bits(N, 6))
    with pytest.raises(ValueError, match=r"shape \(7,\)"):
        hopfield_weights(bits(D_X))


# --- The modern Hopfield network ----------------------------------------------


def test_one_update_on_paper():
    X = torch.eye(2)
    found = retrieve(torch.tensor([math.log(3.0), 0.0]), X, beta=1.0)
    assert torch.allclose(found, torch.tensor([0.75, 0.25]))


def test_the_update_is_attention_forward_and_gradient():
    x, X = (torch.randn(*shape, requires_grad=True) for shape in ((B, D_X), (N, D_X)))
    one = retrieve(x, X, 1 / math.sqrt(D_X))
    other, _ = attention(x, X, X)
    torch.testing.assert_close(one, other)
    g = torch.randn(B, D_X)
    for mine, theirs in zip(
        torch.autograd.grad(one, (x, X), g), torch.autograd.grad(other, (x, X), g), strict=True
    ):
        torch.testing.assert_close(mine, theirs)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 9), st.floats(0.1, 20), st.integers(0, 2**31))
def test_the_modern_energy_never_rises_and_is_never_negative(n, beta, seed):
    torch.manual_seed(seed)
    X, x = torch.randn(n, D_X), torch.randn(B, D_X)
    for _ in range(4):
        after = retrieve(x, X, beta)
        assert (modern_energy(after, X, beta) <= modern_energy(x, X, beta) + 1e-9).all()
        x = after
    assert (modern_energy(x, X, beta) >= -1e-9).all()


def test_an_update_goes_down_the_gradient_of_the_energy():
    x, X = torch.randn(B, D_X, requires_grad=True), torch.randn(N, D_X)
    (slope,) = torch.autograd.grad(modern_energy(x, X, 2.0).sum(), x)
    torch.testing.assert_close(x - slope, retrieve(x, X, 2.0))


def test_a_sharp_update_finds_the_nearest_and_a_blunt_one_the_mean():
    X = F.normalize(torch.randn(N, D_X), dim=-1)
    x = X + 0.02 * torch.randn(N, D_X)
    torch.testing.assert_close(retrieve(x, X, 1e4), X)
    torch.testing.assert_close(retrieve(x, X, 1e-9), X.mean(0).expand(N, -1), atol=1e-6, rtol=0)


# --- Memory networks ----------------------------------------------------------


def network(n_hops=2, **options):
    model = MemoryNetwork(17, D_X, n_hops, **options)
    for parameter in model.parameters():
        parameter.data = torch.randn_like(parameter)
    return model


def story(n=N, vocab=17):
    return torch.randint(vocab, (B, n, 2)), torch.randint(vocab, (B, 3))


def test_two_hops_on_paper():
    """Words are axes: 0 is with 1, and 1 is with 2; scores of ln 3 and 0."""
    model, s = MemoryNetwork(3, 3, n_hops=2), math.sqrt(math.log(3))
    model.A.weight.data = s * torch.eye(3)
    model.l_m.data = torch.tensor([[1.0], [0.0]]).expand(2, 3)
    model.l_c.data = torch.tensor([[0.0], [1.0]]).expand(2, 3)
    model.H.weight.data = torch.zeros(3, 3)
    with record(model) as maps:
        logits = model(torch.tensor([[[0, 1], [1, 2]]]), torch.tensor([[0]]))
    first, second = (p[0, 0].tolist() for p in maps["weights"])
    assert first == pytest.approx([0.75, 0.25])  # the question is 0
    scores = torch.tensor([0.0, 0.75]) * math.log(3)  # o holds 3/4 of word 1, and 1/4 of word 2
    assert second == pytest.approx(scores.softmax(-1).tolist())
    assert logits[0].tolist() == pytest.approx([0.0, *(math.log(3) * scores.softmax(-1)).tolist()])


@pytest.mark.parametrize("options", [{}, {"tied": False}, {"n_ages": N + 2}])
def test_hops_are_what_a_loop_over_facts_does(options):
    model = network(n_hops=3, **options)
    facts, question = story()
    by_hand = []
    for b in range(B):
        u = sum(model.A.weight[j] for j in question[b])
        for _ in range(3):
            scores, says = [], []
            for i in range(N):
                m, c = (
                    sum(l[j] * table.weight[facts[b, i, j]] for j in range(2))
                    for l, table in ((model.l_m, model.A), (model.l_c, model.C))
                )
                if options.get("n_ages"):
                    m, c = m + model.T_m[N - 1 - i], c + model.T_c[N - 1 - i]
                scores.append(u @ m)
                says.append(c)
            p = torch.stack(scores).softmax(-1)
            u = model.H.weight @ u + sum(p[i] * says[i] for i in range(N))
        by_hand.append(model.C.weight @ u)
    torch.testing.assert_close(model(facts, question), torch.stack(by_hand))


def test_a_hop_is_attention_of_the_question_to_the_facts():
    model = network(n_hops=1)
    facts, question = story()
    u = model.A(question).sum(1, keepdim=True)
    m, c = (model.l_m * model.A(facts)).sum(2), (model.l_c * model.A(facts)).sum(2)
    looked, _ = attention(u * math.sqrt(D_X), m, c)
    torch.testing.assert_close(model(facts, question), ((model.H(u) + looked) @ model.A.weight.T)[:, 0])


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3), st.integers(0, 2**31))
def test_a_memory_is_a_set_and_padding_is_invisible(n_hops, seed):
    torch.manual_seed(seed)
    model = network(n_hops)
    facts, question = story()
    right = model(facts, question)
    torch.testing.assert_close(model(facts[:, torch.randperm(N)], question), right)
    longer = torch.cat([facts, story()[0]], dim=1)
    mask = (torch.arange(2 * N) < N).expand(B, -1)
    torch.testing.assert_close(model(longer, question, mask), right)
    model.linear = True
    torch.testing.assert_close(model(longer, question, mask), model(facts, question))


def test_with_codes_of_age_the_order_counts_from_the_end():
    model = network(n_ages=N + 2)
    facts, question = story()
    assert not torch.allclose(model(facts.flip(1), question), model(facts, question))
    model(facts, question).sum().backward()
    assert (model.T_m.grad[:N] != 0).all() and (model.T_m.grad[N:] == 0).all()


def test_more_facts_than_codes_of_age_are_refused():
    with pytest.raises(ValueError, match="6 facts, and the memory has 5 rows: make it with n_ages=6"):
        network(n_ages=5)(*story(6))


def test_parameters_depend_neither_on_hops_nor_on_facts():
    sizes = {sum(p.numel() for p in MemoryNetwork(17, D_X, hops).parameters()) for hops in (1, 2, 3)}
    assert sizes == {17 * D_X + D_X * D_X + 4 * D_X}
    model = network()
    assert model(*story(40)).shape == model(*story(3)).shape == (B, 17)


def test_tied_or_not_and_softmax_or_not():
    model = network(tied=False)
    assert model.A is not model.C
    facts, question = story()
    with record(model) as maps:
        model(facts, question)
        assert [p.shape for p in maps["weights"]] == [(B, 1, N)] * 2
        model.linear = True
        model(facts, question)
        assert len(maps["weights"]) == 2  # no weights in a linear start
    one = network()
    assert one.A is one.C


def answered(model, needed, n_things=3):
    drawn = stories(300, n_things, torch.Generator().manual_seed(7), needed)
    with torch.no_grad():
        said = model(drawn.facts, drawn.questions).argmax(-1)
    return (said == drawn.answers).double().mean().item()


@pytest.mark.parametrize("n_hops", [1, 3])
def test_as_many_hops_as_facts_are_needed(n_hops):
    model = MemoryNetwork(len(STORY_WORDS), 32, n_hops)
    train(
        model,
        endless(stories, 64, 3, seed=0),
        lambda model, drawn: F.cross_entropy(model(drawn.facts, drawn.questions), drawn.answers),
        600,
        rate=1e-2,
    )
    shares = [answered(model, needed) for needed in (1, 2, 3)]
    assert shares[0] > 0.97
    assert min(shares) > 0.9 if n_hops == 3 else max(shares[1:]) < 0.7


# --- The Turing machine -------------------------------------------------------


def test_content_on_paper():
    M = torch.tensor([[[2.0, 0], [0, 3], [-1, 0]]])
    found = content_weights(torch.tensor([[5.0, 0]]), M, torch.tensor([[math.log(2.0)]]))
    assert torch.allclose(found, torch.tensor([[2.0, 1, 0.5]]) / 3.5)


def test_a_shift_on_paper_goes_on_and_comes_round():
    w = torch.tensor([[0.0, 0, 1, 0], [0, 0, 0, 1]])
    on = torch.tensor([[0.0, 0, 1]]).expand(2, 3)
    assert shift_weights(w, on).tolist() == [[0, 0, 0, 1], [1, 0, 0, 0]]
    blurred = shift_weights(w[:1], torch.tensor([[0.1, 0.7, 0.2]]))
    assert torch.allclose(blurred, torch.tensor([[0.0, 0.1, 0.7, 0.2]]))


def test_sharpening_on_paper():
    w = Sharpened()(torch.tensor([[0.25, 0.75]]), torch.tensor([[2.0]]))
    assert torch.allclose(w, torch.tensor([[0.1, 0.9]]))


def test_erase_and_add_on_paper():
    M = torch.tensor([[[1.0, 2], [3, 4]]])
    w, e, a = torch.tensor([[1.0, 0.5]]), torch.tensor([[1.0, 0]]), torch.tensor([[7.0, 10]])
    assert erase_and_add(M, w, e, a).tolist() == [[[7, 12], [5, 9]]]


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 9), st.integers(0, 2**31))
def test_weights_stay_weights_and_a_shift_is_a_circular_convolution(n_rows, seed):
    torch.manual_seed(seed)
    w, s, M = weights(B, n_rows), weights(B, 3), torch.randn(B, n_rows, D_ROW)
    by_hand = torch.zeros(B, n_rows)
    for i in range(n_rows):
        for j in range(n_rows):
            step = (i - j + 1) % n_rows
            by_hand[:, i] += w[:, j] * (s[:, step] if step < 3 else 0)
    torch.testing.assert_close(shift_weights(w, s), by_hand)
    new = Head(D_HIDDEN, D_ROW)(torch.randn(B, D_HIDDEN), M, w)
    torch.testing.assert_close(new.sum(-1), torch.ones(B))
    assert (new >= 0).all()


def test_the_head_takes_the_steps_of_the_paper_forward_and_gradient():
    head = Head(D_HIDDEN, D_ROW)
    h, M, w = torch.randn(B, D_HIDDEN), torch.randn(B, N_ROWS, D_ROW), weights(B, N_ROWS)
    h.requires_grad_(), M.requires_grad_()

    def on_paper():
        k = torch.tanh(head.k(h))
        beta, gamma = F.softplus(head.beta(h)), 1 + F.softplus(head.gamma(h))
        g, s = torch.sigmoid(head.g(h)), head.s(h).softmax(-1)
        cosines = torch.einsum("bd,brd->br", k, M) / k.norm(dim=-1)[:, None] / M.norm(dim=-1)
        w_g = g * (beta * cosines).softmax(-1) + (1 - g) * w
        moved = s[:, :1] * w_g.roll(-1, -1) + s[:, 1:2] * w_g + s[:, 2:] * w_g.roll(1, -1)
        return moved**gamma / (moved**gamma).sum(-1, keepdim=True)

    torch.testing.assert_close(head(h, M, w), on_paper())
    c = torch.randn(B, N_ROWS)
    ours = torch.autograd.grad((head(h, M, w) * c).sum(), (h, M))
    for mine, theirs in zip(ours, torch.autograd.grad((on_paper() * c).sum(), (h, M)), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_a_new_head_stays_where_it_is_and_looks_for_one_row():
    head = Head(D_HIDDEN, D_ROW)
    assert head.g.bias.tolist() == [-1] and head.beta.bias.tolist() == [2]


def machine():
    return TuringMachine(D_X, 17, D_HIDDEN, D_ROW)


def test_a_whole_run_is_its_steps():
    model, x = machine(), torch.randn(B, N, D_X)
    M = model.M_0.expand(B, N_ROWS, -1)
    w = torch.zeros(B, N_ROWS).index_fill(1, torch.tensor(0), 1.0)
    r, said, places = model.r_0.expand(B, -1), [], []
    with record(model) as maps:
        y = model(x, 4, N_ROWS)
    for t in range(N + 4):
        now = x[:, t] if t < N else torch.zeros(B, D_X)
        h = torch.tanh(model.controller(torch.cat([now, r], -1)))
        w = model.head(h, M, w)
        M = erase_and_add(M, w, model.e(h).sigmoid(), model.a(h).tanh())
        r = torch.einsum("br,brd->bd", w, M)
        places.append(w)
        said.append(model.out(torch.cat([h, r], -1)))
    torch.testing.assert_close(y, torch.stack(said[N:], 1))
    torch.testing.assert_close(torch.stack(maps["head.weights"]), torch.stack(places))


def test_nothing_is_said_before_all_is_read_and_nothing_peeks():
    model, x = machine(), torch.randn(B, N, D_X, requires_grad=True)
    y = model(x, 2)
    assert y.shape == (B, 2, 17)
    assert (torch.autograd.grad(y[:, 0].sum(), x)[0] != 0).any(dim=-1).all()
    assert torch.equal(model(x, 1), y[:, :1])  # the first output does not know that a second follows


def test_rows_are_not_parameters():
    model = machine()
    x = torch.randn(B, N, D_X)
    assert model(x, 1).shape == model(x, 1, n_rows=50).shape
    assert "M_0" in dict(model.named_parameters()) and model.M_0.shape == (D_ROW,)


def test_more_inputs_than_rows_are_refused():
    with pytest.raises(ValueError, match="5 inputs do not fit in 4 rows: give n_rows=5 or more"):
        machine()(torch.randn(B, N, D_X), 1, n_rows=4)


def one_hot(voyage):
    return F.one_hot(voyage.told, 22).double()


def test_it_learns_to_say_short_voyages_again():
    model = TuringMachine(22, 20, 64, 16)

    def loss(model, voyage):
        y = model(one_hot(voyage), voyage.ports.shape[1])
        return F.cross_entropy(y.flatten(0, 1), voyage.ports.flatten())

    train(model, endless(short_voyages, 32, 3, seed=0), loss, 500, rate=1e-2)
    voyage = voyages(100, 3, torch.Generator().manual_seed(1))
    with torch.no_grad():
        said = model(one_hot(voyage), 3).argmax(-1)
    assert (said == voyage.ports).double().mean() > 0.9
