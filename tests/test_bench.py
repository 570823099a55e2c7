"""The benchmark measures what its table says. Everything runs at toy size, and no test looks at a time."""

import json
import random
import sys
from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bench import __main__ as bench
from bench import decoding, memory, peers, training
from bench.contest import Ratio, Rounds, Turns, contest, ratio
from bench.size import MODEL, Size
from heed.attention import causal_mask
from heed.data import Batch, TokenBatches
from heed.transformer import make_model, tie

VOCAB, STEPS, ROUNDS = 53, 3, 2
TOY = {"n_layers": 2, "d_model": 22, "d_ff": 17, "n_heads": 2, "dropout": 0.1}
needs_transformers = pytest.mark.skipif(not peers.has_transformers(), reason="`make bench` installs it")

needs_ctranslate2 = pytest.mark.skipif(not peers.has_ctranslate2(), reason="it is an extra, `export`")


def some(chance):
    return [chance.randrange(4, VOCAB) for _ in range(chance.randrange(3, 9))]


@pytest.fixture(scope="module")
def size():
    chance = random.Random(0)
    pairs = [(some(chance), [1, *some(chance), 2]) for _ in range(97)]
    few = {"tokens": 59, "steps": STEPS, "rounds": ROUNDS, "width": 11, "written": 5}
    return Size(pairs, [source for source, _ in pairs[:23]], VOCAB, TOY, lengths=(128, 1024), side=67, **few)


class Line:
    """A connection that says go so many times, and then is closed."""

    def __init__(self, times):
        self.left, self.heard = times, []

    def recv(self):
        self.left -= 1
        if self.left < 0:
            raise EOFError
        return "go"

    def send(self, said):
        self.heard.append(said)


CONTESTANTS = {
    "Muon": (training.ours, "fp32", "muon"),
    "AdamW": (training.ours, "bf16", "adamw"),
    "nn.Transformer": (training.nn_transformer, "bf16", training.AS_IT_COMES),
    "nn.Transformer, bf16 throughout": (training.nn_transformer, "bf16", training.AS_HEED),
    "classic": (training.classic,),
    "product": (training.product, "fp32"),
    "greedy": (decoding.ours, torch.float32, 0),
    "greedy, workers": (decoding.ours, torch.float32, 2),
}
WITH_TRANSFORMERS = {
    "Marian": (training.marian, "bf16", training.AS_IT_COMES),
    "Marian, bf16 throughout": (training.marian, "bf16", training.AS_HEED),
    "generate": (decoding.generate, torch.float32, False, 0),
    "generate, workers": (decoding.generate, torch.float32, True, 2),
}
WITH_CTRANSLATE2 = {
    "float32": (decoding.ctranslate2, "float32", 0),
    "int8, workers": (decoding.ctranslate2, "int8", 2),
}


@pytest.mark.parametrize(
    "function, given",
    [pytest.param(work[0], work[1:], id=name) for name, work in CONTESTANTS.items()]
    + [
        pytest.param(work[0], work[1:], id=name, marks=needs_transformers)
        for name, work in WITH_TRANSFORMERS.items()
    ]
    + [
        pytest.param(work[0], work[1:], id=f"CTranslate2, {name}", marks=needs_ctranslate2)
        for name, work in WITH_CTRANSLATE2.items()
    ],
)
def test_every_contestant_does_round_after_round(size, function, given):
    line = Line(3)
    with pytest.raises(EOFError):
        function(Turns(line), size, *given)
    assert len(line.heard) == 3 and all(seconds > 0 for seconds in line.heard)


def test_a_round_is_so_many_steps_on_the_same_batches(size):
    batches = TokenBatches(size.pairs, size.tokens)
    rounds, seen = Rounds(batches, STEPS, Turns(Line(3))), []
    with pytest.raises(EOFError):
        for batch in rounds.forever():
            seen.append(batch.target.tolist())
    plan = [batches.batch(indices).target.tolist() for indices in batches.epoch(0)[:STEPS]]
    assert len(plan) == STEPS and seen == 3 * plan


def test_the_classic_loop_pads_and_cuts_32_sentences_to_one_width(size):
    padded = training.PaddedBatches(size.pairs, 7)
    first, *rest = padded.epoch(0)
    batch = padded.batch(first)
    assert len(first) == 32 and sorted(sum(rest, first)) == list(range(97))
    assert batch.source.shape == batch.target.shape == (32, 7)
    for row, i in enumerate(first):
        for side, ids in zip((batch.source, batch.target), size.pairs[i], strict=True):
            assert side[row].tolist() == (ids + [0] * 7)[:7]


# --- Contests and ratios ------------------------------------------------------------------------------------


def fails(turns):
    turns.next()
    raise RuntimeError("on purpose")


def test_processes_take_turns_and_the_first_round_is_not_counted(size):
    seconds = contest({"a": (training.product, size, "fp32"), "b": (training.product, size, "fp32")}, ROUNDS)
    assert list(seconds) == ["a", "b"]
    assert all(len(times) == ROUNDS and min(times) > 0 for times in seconds.values())


def test_a_contestant_that_fails_is_named():
    with pytest.raises(ValueError, match="the slow one has failed"):
        contest({"the slow one": (fails,)}, ROUNDS)


def test_a_ratio_is_taken_within_each_round():
    assert ratio([2, 30, 8], [1, 10, 8]) == Ratio(2, 1, 3)


# --- Operations ---------------------------------------------------------------------------------------------


def test_operations_are_those_that_torch_counts():
    s, t = 7, 5
    torch.manual_seed(0)
    model = tie(make_model(VOCAB, VOCAB, **TOY | {"dropout": 0.0})).train()
    source, target_in = torch.randint(4, VOCAB, (1, s)), torch.randint(4, VOCAB, (1, t))
    with FlopCounterMode(display=False) as counter:
        model.generator.proj(model(source, target_in)).sum().backward()
    unseen = TOY["n_layers"] * 6 * t * t * TOY["d_model"]  # torch counts what the causal mask hides, too
    counted = training.operations([(s, t)], VOCAB, **TOY)
    assert counted + unseen == counter.get_total_flops()
    assert training.operations([(s, t), (s, t)], VOCAB, **TOY) == 2 * counted
    assert int(causal_mask(t).sum()) == t * (t + 1) / 2  # about half of t², as counted


# --- Peers --------------------------------------------------------------------------------------------------


def n_parameters(model):
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def test_the_peers_are_of_our_size():
    mine = n_parameters(tie(make_model(6000, 6000, **MODEL)))
    assert n_parameters(peers.TorchTransformer(6000, **MODEL)) == mine
    if peers.has_transformers():
        norms_at_the_end, bias = 2 * 2 * MODEL["d_model"], 6000
        assert n_parameters(peers.marian(6000, **MODEL)) == mine - norms_at_the_end - bias


each_peer = pytest.mark.parametrize(
    "build, loss",
    [
        pytest.param(peers.TorchTransformer, peers.TorchTransformer.loss, id="nn.Transformer"),
        pytest.param(peers.marian, peers.marian_loss, id="Marian", marks=needs_transformers),
    ],
)


@each_peer
@pytest.mark.parametrize(
    "precision, way, norm, product",
    [
        ("fp32", training.AS_IT_COMES, torch.float32, torch.float32),
        ("bf16", training.AS_IT_COMES, torch.float32, torch.bfloat16),
        ("bf16", training.MEMORY_KEPT, torch.float32, torch.bfloat16),
        ("bf16", training.AS_HEED, torch.bfloat16, torch.bfloat16),
    ],
)
def test_a_peer_computes_in_its_way_and_its_weights_stay_in_float32(
    size, build, loss, precision, way, norm, product
):
    """Autocast rounds before each product and keeps norms in float32; heed's way rounds all."""
    torch.manual_seed(0)
    model, seen = build(VOCAB, **TOY).train(), {torch.nn.LayerNorm: set(), torch.nn.Linear: set()}
    for module in model.modules():
        if type(module) in seen:
            module.register_forward_hook(lambda m, inputs, out: seen[type(m)].add(out.dtype))
    batches = TokenBatches(size.pairs, size.tokens)
    value = training.computed(model, loss, precision, way)(batches.batch(batches.epoch(0)[0]))
    value.backward()
    assert seen == {torch.nn.LayerNorm: {norm}, torch.nn.Linear: {product}}
    weights = [p for p in model.parameters() if p.requires_grad]
    assert {p.dtype for p in weights} == {p.grad.dtype for p in weights} == {torch.float32}
    assert value.isfinite()


@each_peer
def test_a_peer_does_not_see_padding_nor_what_it_must_say(build, loss):
    torch.manual_seed(0)
    model = build(VOCAB, **TOY | {"dropout": 0.0})
    source, target = torch.randint(4, VOCAB, (2, 7)), torch.randint(4, VOCAB, (2, 5))
    wider = Batch(*(torch.cat([ids, torch.zeros_like(ids[:, :3])], dim=1) for ids in (source, target)))
    narrow = loss(model, Batch(source, target))
    torch.testing.assert_close(loss(model, wider), narrow)
    other = target.clone()
    other[:, -1] = 4 + (other[:, -1] - 3) % (VOCAB - 4)
    assert loss(model, Batch(source, other)) != narrow
    narrow.backward()
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)


# --- Memory -------------------------------------------------------------------------------------------------


def test_the_exponent_of_a_power_is_found():
    assert memory.exponent([1, 2, 4, 8], [3, 12, 48, 192]) == pytest.approx(2.0)
    assert memory.exponent([5, 10, 20], [10, 20, 40]) == pytest.approx(1.0)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells the peak of a process")
def test_fused_attention_takes_less_memory_than_the_explicit_one(size):
    results, log = memory.memory(size)
    fused, explicit = (log["MiB"][name] for name in ("fused", "explicit"))
    table = 4 * TOY["n_heads"] * 1024**2 / 2**20  # MiB of one table of weights
    assert explicit[1] > fused[1] + 2 * TOY["n_layers"] * table * 0.9
    assert results["explicit"] > results["fused"]


# --- The table and its log ----------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_table_holds_every_goal_and_divides_the_right_way(size, monkeypatch, tmp_path, capsys, precision):
    """Pretended times: ours take one second, peers two, in our way 1.5, the classic loop ten."""

    def pretended(work, rounds):
        def time(name):
            if "throughout" in name:
                return 1.5
            return 1.0 if name.startswith("heed") else 10.0 if name == "classic loop" else 2.0

        return {name: [time(name)] * rounds for name in work}

    for module in (training, decoding):
        monkeypatch.setattr(module, "contest", pretended)
        monkeypatch.setattr(module.peers, "has_transformers", lambda: True)
        monkeypatch.setattr(module.peers, "has_ctranslate2", lambda: True)
    monkeypatch.setattr(bench, "of_multi30k", lambda: replace(size, sources=size.sources))
    monkeypatch.setattr(bench, "versions", dict)
    monkeypatch.setattr(training, "choose_precision", lambda device: precision)
    file = tmp_path / "made" / "log.json"
    assert bench.main(["training", "decoding", "--rounds", "3", "--to", str(file)]) == 0
    log = json.loads(file.read_text(encoding="utf-8"))
    results = log["training"]["results"] | log["decoding"]["results"]
    assert set(bench.GOALS) <= set(results)
    assert results["heed, Muon ÷ faster peer"] == results["heed, workers ÷ generate, float32"] == [2, 2, 2]
    assert results["heed, workers ÷ CTranslate2, float32, workers"] == [2, 2, 2]
    in_our_way = results.get("heed, AdamW ÷ faster peer, bf16 throughout")
    assert in_our_way == (pytest.approx([1.5] * 3) if precision == "bf16" else None)
    assert ("Marian, bf16 throughout" in log["training"]["tokens a second"]) is (precision == "bf16")
    real = sum(t - 1 for _, t in of_plan(size)), sum(t - 1 for _, t in of_classic(size))
    assert results["heed, AdamW ÷ classic loop"][0] == pytest.approx(10 * real[0] / real[1])
    model = training.operations([(s, t - 1) for s, t in of_plan(size)], VOCAB, **TOY)
    peak = training.PRODUCTS * 2 * 67**3 / 2
    assert results["heed, Muon, share of the matrix rate"][0] == pytest.approx(model / peak)
    assert log["training"]["tokens a second"]["Marian"] == [round(real[0] / 2)] * 3
    printed = capsys.readouterr().out
    assert all(name in printed for name in results)
    assert ("bfloat16 throughout, with float32 master weights" in printed) is (precision == "bf16")


def test_what_this_system_does_not_measure_costs_nothing_else(size, monkeypatch, tmp_path, capsys):
    """Without transformers nothing to decode against; without the count of memory, none of it."""
    monkeypatch.setattr(bench, "decoding", lambda size: ({}, {}))
    monkeypatch.setattr(bench, "memory", lambda size: ({}, {}))
    monkeypatch.setattr(bench, "of_multi30k", lambda: size)
    file = tmp_path / "log.json"
    assert bench.main(["decoding", "memory", "--to", str(file)]) == 0
    assert {"decoding", "memory"} <= json.loads(file.read_text(encoding="utf-8")).keys()
    printed = capsys.readouterr().out
    assert "Memory is not measured" in printed and "No ratios" in printed and "median" not in printed


def of_plan(size):
    """The lengths of all pairs of a round."""
    batches = TokenBatches(size.pairs, size.tokens)
    return [batches.lengths[i] for rows in batches.epoch(0)[:STEPS] for i in rows]


def of_classic(size):
    """The same of the classic loop, which takes one batch here and cuts at its width."""
    rows = training.PaddedBatches(size.pairs, size.width).epoch(0)[0]
    return [(len(size.pairs[i][0]), min(len(size.pairs[i][1]), size.width)) for i in rows]


def test_without_data_one_sentence_says_where_to_get_it(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("HEED_DATA", str(tmp_path))
    assert bench.main(["training"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("bench: HEED_DATA names") and "Multi30k" in said
