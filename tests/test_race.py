"""The race, at toy size: contestants have one interface, are measured alike, and stop by the clock."""

import json
import math
import time

import matplotlib.pyplot as plt
import pytest
import torch
from torch.nn import functional as F

from bench.race import __main__ as race
from bench.race import clock as clocks
from bench.race import data as captions
from bench.race import figure, score
from bench.race.clock import Clock
from bench.race.contestants import CONTESTANTS, OURS, Output
from bench.race.data import Data
from heed.data import multi30k, pad_batch
from heed.decode import greedy
from heed.engine.parallel import LossOf
from heed.engine.precision import InBFloat16
from heed.loss import translation_loss
from heed.recipe import encoded
from heed.text import EOS, PAD, Subwords

SIZES = {"n_layers": 2, "d_model": 16, "d_ff": 24, "n_heads": 2, "dropout": 0.1}
PAIRS = [
    (f"ein Hund {word} im Gras", f"a dog {word} in the grass now") for word in "läuft liegt sitzt".split()
]
PAIRS += [("zwei Katzen", "two cats"), ("rot", "the red one")]

each = pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[
                pytest.mark.skipif(bool(contestant.missing), reason=f"{contestant.missing} not installed"),
                pytest.mark.filterwarnings("default"),
            ],
        )
        for name, contestant in CONTESTANTS.items()
    ],
)


@pytest.fixture(scope="module")
def data():
    subwords = Subwords.learn([line for pair in PAIRS for line in pair], 300)
    return Data(encoded(PAIRS * 8, subwords), PAIRS, PAIRS[:2], subwords, SIZES, 120, 0.1)


@pytest.fixture
def built(name, data):
    """A contestant, its model, and source and target of three sentences, padded."""
    batch = pad_batch([data.pairs[i] for i in (0, 3, 4)])
    model = CONTESTANTS[name].build(len(data.subwords), SIZES, 0).eval()
    with torch.no_grad():  # weights so large that whatever is read is seen
        for p in model.parameters():
            p.add_(0.2 * torch.randn_like(p))
    return CONTESTANTS[name], model, batch


# --- The interface ------------------------------------------------------------------------------------------


@each
@torch.no_grad()
def test_scores_have_one_shape_and_the_last_ones_are_the_last(built, data):
    contestant, model, batch = built
    memory = contestant.memory(model, batch.source)
    logits = contestant.logits(model, memory, batch.target_in)
    assert logits.shape == (*batch.target_in.shape, len(data.subwords))
    last = contestant.logits(model, memory, batch.target_in[:, :3], last=True)
    assert last.shape == (3, 1, len(data.subwords))
    torch.testing.assert_close(last[0, 0], logits[0, 2], rtol=1e-4, atol=1e-4)


@each
@torch.no_grad()
def test_padding_and_the_future_change_nothing_and_the_source_does(built):
    contestant, model, batch = built
    source, target_in = batch.source, batch.target_in

    def scores(source, target_in, rows=slice(None)):
        memory = tuple(part[rows] for part in contestant.memory(model, source))
        return contestant.logits(model, memory, target_in[rows])

    plain = scores(source, target_in)
    wider = scores(F.pad(source, (0, 3)), F.pad(target_in, (0, 2)))[:, : target_in.shape[1]]
    real = target_in != PAD
    torch.testing.assert_close(wider[real], plain[real], rtol=1e-4, atol=1e-4)
    other = target_in.clone()
    other[:, 3:] = 7
    torch.testing.assert_close(scores(source, other)[:, :3], plain[:, :3], rtol=1e-4, atol=1e-4)
    assert not torch.allclose(scores(source, other)[0, 3:], plain[0, 3:], atol=1e-3)
    rows = torch.tensor([2, 0])
    torch.testing.assert_close(scores(source, target_in, rows)[0, 0], plain[2, 0], rtol=1e-4, atol=1e-4)
    turned = source.clone()
    turned[0, 0], turned[0, 1] = source[0, 1], source[0, 0]
    assert not torch.allclose(scores(turned, target_in)[0], plain[0], atol=1e-4)
    torch.testing.assert_close(scores(turned, target_in)[1:], plain[1:], rtol=1e-4, atol=1e-4)


@each
@torch.no_grad()
def test_the_scores_are_those_of_the_contestants_own_loss(name, built, data):
    """What each trains by, without smoothing and dropout, is the held-out loss."""
    contestant, model, batch = built
    measured = score.held_out_loss(contestant, model, [data.pairs[i] for i in (0, 3, 4)], 120)
    if name.startswith("fit"):
        own = translation_loss(model, batch, 0.0) / batch.n_tokens
    elif name.startswith("recurrent"):
        logits = model(batch.source, batch.target_in)  # the chapter's own way, step by step
        own = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD)
        torch.testing.assert_close(contestant.loss(model, batch, 0.0) / batch.n_tokens, own)
    elif name.startswith("torch"):
        own = model.loss(batch, 0.0)
    elif name == "marian":
        labels = batch.target_out.masked_fill(batch.target_out == PAD, -100)
        mask = (batch.source != PAD).long()
        own = model(
            input_ids=batch.source, attention_mask=mask, decoder_input_ids=batch.target_in, labels=labels
        ).loss
    else:
        own = joeys_loss(model, data, (0, 3, 4))
    assert measured == pytest.approx(float(own), rel=1e-4)


def joeys_loss(model, data, chosen):
    """From sentences in its own words, by its own batch."""
    from joeynmt.batch import Batch

    def line(ids):
        return [f"t{i}" for i in ids if i > EOS]

    sources, targets = zip(*(data.pairs[i] for i in chosen), strict=True)
    source, lengths, _ = model.src_vocab.sentences_to_ids([line(ids) for ids in sources], bos=False, eos=True)
    target, _, _ = model.trg_vocab.sentences_to_ids([line(ids) for ids in targets], bos=True, eos=True)
    batch = Batch(
        torch.tensor(source), torch.tensor(lengths), None, torch.tensor(target), None,
        torch.arange(len(chosen)), torch.device("cpu"), model.pad_index, model.eos_index,
    )  # fmt: skip
    model.loss_function = ("crossentropy", 0.0)
    loss, _, _, _ = model(return_type="loss", **vars(batch))
    return loss / batch.ntokens


# --- Training by the clock ----------------------------------------------------------------------------------


@each
def test_two_updates_are_two_and_every_weight_moves(name, data):
    contestant = CONTESTANTS[name]
    model, clock = contestant.build(len(data.subwords), SIZES, 0), Clock(None, updates=2)
    before = {key: p.detach().clone() for key, p in model.named_parameters() if p.requires_grad}
    contestant.train(model, data, clock, 1e-2, 0)
    assert clock.updates == 2 and clock.tokens > 2 * min(len(target) for _, target in data.pairs)
    still = {key for key, p in model.named_parameters() if key in before and torch.equal(p, before[key])}
    assert not still
    assert all(torch.isfinite(p).all() for p in model.parameters())


@each
def test_a_run_of_a_moment_ends_and_leaves_its_weights(name, data, tmp_path):
    contestant = CONTESTANTS[name]
    model, clock = contestant.build(len(data.subwords), SIZES, 1), Clock(tmp_path, minutes=0.5 / 60)
    clock.say(name=name, seed=1, parts=clock.parts)
    began = time.monotonic()
    contestant.train(model, data, clock, 1e-3, 1)
    assert time.monotonic() - began < 60 and clock.seconds >= 0.5
    facts, *kept = score.lines(tmp_path)
    assert facts["name"] == name and kept[-1]["part"] == 10 and kept[-1]["updates"] == clock.updates
    twin = contestant.build(len(data.subwords), SIZES, 2)
    twin.load_state_dict(torch.load(tmp_path / "10.pt", weights_only=True))
    held = [data.pairs[0]]
    assert score.held_out_loss(contestant, twin.eval(), held, 120) == pytest.approx(
        score.held_out_loss(contestant, model.eval(), held, 120)
    )


@pytest.mark.parametrize("name", ["fit-adamw", "torch-good"])
def test_a_run_of_so_many_updates_keeps_ten_parts_of_them(name, data, tmp_path):
    contestant = CONTESTANTS[name]
    model, clock = contestant.build(len(data.subwords), SIZES, 1), Clock(tmp_path, updates=20)
    contestant.train(model, data, clock, 1e-3, 1)
    kept = score.lines(tmp_path)
    assert [(line["part"], line["updates"]) for line in kept] == [(n, 2 * n) for n in range(1, 11)]
    assert 0.8 < kept[8]["tokens"] / kept[9]["tokens"] < 0.95  # every batch is an update


class Model:
    """No more than a clock needs."""

    def state_dict(self):
        return {}


def test_the_clock_keeps_ten_parts_and_the_rate_goes_up_and_down(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(clocks.time, "monotonic", lambda: now[0])
    clock = Clock(tmp_path, minutes=10)
    clock.start()
    shares = {}
    while not clock.over:
        shares[round(now[0] - 100)] = clock.share
        now[0] += 7
        clock.step(Model(), 5)
    clock.end(Model())
    kept = [(line["part"], line["minute"], line["updates"]) for line in score.lines(tmp_path)]
    assert [part for part, _, _ in kept] == list(range(1, 11))
    assert all(part <= minute < part + 7 / 60 for part, minute, _ in kept)
    assert kept[0][2] == 9 and clock.updates == 86 and clock.tokens == 430
    assert shares[0] == 0 and shares[28] == pytest.approx(28 / 60) and shares[595] == pytest.approx(5 / 540)
    assert max(shares.values()) > 0.98


def test_where_an_update_takes_longer_a_part_is_left_out(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(clocks.time, "monotonic", lambda: now[0])
    clock = Clock(tmp_path, minutes=1)
    clock.start()
    while not clock.over:
        now[0] += 13
        clock.step(Model(), 1)
    clock.end(Model())
    assert [line["part"] for line in score.lines(tmp_path)] == [2, 4, 6, 8, 10]


def test_the_recurrent_model_learns_in_bfloat16_too(data):
    """`fit` rounds the weights for a step: those of the recurrent layers, too, and they have gradients."""
    contestant = CONTESTANTS["recurrent-adamw"]
    model, batch = contestant.build(len(data.subwords), SIZES, 0), pad_batch(data.pairs[:3])
    rounded = InBFloat16(LossOf(model, lambda model, batch: contestant.loss(model, batch, 0.1)))
    rounded(batch).backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())
    assert Output(model).proj is model.decoder.out


# --- Measuring ----------------------------------------------------------------------------------------------


def test_greedy_without_a_cache_says_what_the_course_says(data):
    contestant = CONTESTANTS["fit-muon"]
    model = contestant.build(len(data.subwords), SIZES, 3).eval()
    source = pad_batch([data.pairs[i] for i in (0, 3, 4)]).source
    assert score.greedy(contestant, model, source, 9) == greedy(model, source, n_max=9)


def test_sentences_come_back_in_their_order(data):
    class Echo:
        """Says the source's token of each place, then EOS."""

        def memory(self, model, source):
            return (F.pad(source, (0, 1)).masked_fill(F.pad(source, (0, 1)) == PAD, EOS),)

        def logits(self, model, memory, target_in, last=False):
            return F.one_hot(memory[0][:, target_in.shape[1] - 1], len(data.subwords)).float()[:, None]

    model, texts = torch.nn.Linear(1, 1), [source for source, _ in PAIRS]
    assert score.translated(Echo(), model, data.subwords, texts) == texts


def test_a_race_from_its_folder_to_its_log(data, tmp_path, monkeypatch, capsys):
    """Two short runs in this process; then scores, log, table and figure."""
    plan = {"data": {"longest": 100}, "training": {"tokens": 120, "smoothing": 0.1}, "model": SIZES}
    monkeypatch.setattr(captions.recipe, "read", lambda file: plan)
    monkeypatch.setattr(captions.recipe, "sentences", lambda plan, split: PAIRS)
    monkeypatch.setattr(captions.recipe, "learn_subwords", lambda plan, pairs: data.subwords)
    place = [
        "--folder",
        str(tmp_path),
        "--to",
        str(tmp_path / "race.json"),
        "--log",
        str(tmp_path / "search.json"),
    ]
    monkeypatch.setattr(CONTESTANTS["torch-good"], "rates", (1e-3,), raising=False)
    assert race.main(["search", "torch-good", "--updates", "1", *place]) == 0
    found = json.loads((tmp_path / "search.json").read_text(encoding="utf-8"))["held-out loss"]
    assert list(found) == ["torch-good"] and len(found["torch-good"]) in (2, 3)
    for name, *more in (["fit-muon"], ["torch-good", "--dropout", "0.3"]):
        assert race.main(["run", name, "--minutes", "0.005", "--threads", "1", *more, *place]) == 0
    assert race.main(["run", "fit-muon", *place]) == 1  # it is there
    assert race.main(["score", "--processes", "1", "--captions", "2", *place]) == 0
    assert race.main(["gather", *place]) == race.main(["gather", *place]) == 0
    log = json.loads((tmp_path / "race.json").read_text(encoding="utf-8"))
    assert [run["name"] for run in log["runs"]] == ["fit-muon", "torch-good"]
    last = log["runs"][0]["points"][-1]
    assert last["part"] == 10 and {"loss", "bleu", "test", "minute", "updates", "tokens"} <= set(last)
    assert [run["rate"] for run in log["runs"]] == [8e-3, race.best(found["torch-good"])]
    assert [run["dropout"] for run in log["runs"]] == [data.model["dropout"], 0.3]
    assert 0 < last["loss"] < 2 * math.log(len(data.subwords))
    capsys.readouterr()
    assert race.main(["figure", *place]) == 0
    assert "the best other, nn.Transformer, good loop" in capsys.readouterr().out
    assert (tmp_path / "race.png").stat().st_size > 10_000


@pytest.mark.parametrize(("minutes", "minute"), [(10.0, {"minute": 1.0}), (None, {})])
def test_a_run_by_updates_has_no_minute_of_the_race(minutes, minute, tmp_path):
    said = {"part": 1, "minute": 1.0, "updates": 7, "tokens": 90, "file": "01.pt"}
    lines = [{"name": "fit-muon", "seed": 0, "minutes": minutes}, said]
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "one" / "scores.json").write_text(json.dumps({"1": {"loss": 2.0}}))
    [run] = score.gathered(tmp_path)
    assert run["points"] == [{"part": 1, "updates": 7, "tokens": 90, "loss": 2.0} | minute]


# --- The search ---------------------------------------------------------------------------------------------


def test_a_search_goes_on_beyond_an_edge_twice_and_no_more():
    found = {
        f"{rate:g}": loss
        for rate, loss in zip(sorted(CONTESTANTS["fit-adamw"].rates), (4, 3, 2, 1), strict=True)
    }
    assert race.wanted("fit-adamw", found) == [8e-3]
    found["0.008"] = 0.5
    assert race.wanted("fit-adamw", found) == [16e-3]
    found["0.016"] = 0.4
    assert race.wanted("fit-adamw", found) == []
    assert race.wanted("fit-adamw", {"0.0005": 3, "0.001": 1, "0.002": 2, "0.004": 2}) == []
    assert race.wanted("fit-adamw", {"0.0005": 1, "0.001": 1.5, "0.002": 2, "0.004": 2}) == [2.5e-4]
    assert race.wanted("fit-adamw", {"0.001": 1}) == [2e-3, 4e-3, 5e-4]
    assert race.best({"0.1": 3.0, "0.2": 2.0}) == 0.2


def square(x):
    if x == 3:
        raise RuntimeError("on purpose")
    return x * x


def test_jobs_run_side_by_side_and_one_that_fails_is_none(capfd):
    jobs, came = [(1,), (2,), (3,)], {}
    for (x,), result in race.side_by_side(jobs, square, 2, math.inf):
        came[x] = result
        if x == 1:
            jobs.append((4,))
    assert came == {1: 1, 2: 4, 3: None, 4: 16}
    assert "on purpose" in capfd.readouterr().err
    assert list(race.side_by_side([(1,)], square, 1, time.monotonic() - 1)) == []


def test_cores_and_the_lesser_recurrent_one(tmp_path, monkeypatch):
    assert race.cores_of("0-3,6") == [0, 1, 2, 3, 6]
    monkeypatch.setattr(race, "there", list)
    words = type("Words", (), {"names": [], "log": tmp_path / "search.json"})
    assert (
        "recurrent-muon" not in race.contenders(words) and len(race.contenders(words)) == len(CONTESTANTS) - 1
    )
    race.write(words.log, {"held-out loss": {"recurrent-adamw": {"1": 3.0}, "recurrent-muon": {"1": 2.0}}})
    assert "recurrent-adamw" not in race.contenders(words)


# --- Table and figure ---------------------------------------------------------------------------------------


def run(name, seed, losses, minutes=(1, 2, 3)):
    points = [
        {"part": i, "minute": m, "updates": 10 * i, "tokens": i, "loss": loss, "bleu": 40 - 5 * loss}
        for i, (m, loss) in enumerate(zip(minutes, losses, strict=True), 1)
    ]
    points[-1]["test"] = 39 - 5 * losses[-1]
    return {"name": name, "seed": seed, "rate": 0.001, "points": points}


def test_minutes_until_the_best_others_last_loss():
    ours, good = run("fit-muon", 0, (4.0, 2.0, 1.0)), run("torch-good", 0, (5.0, 4.0, 3.0))
    log = {"runs": [ours, run("fit-adamw", 0, (6, 5, 4)), good, run("joey", 0, (7, 6, 5))]}
    [found] = figure.verdict(log)
    assert found["best other"] == "torch-good" and found["loss"] == 3.0
    assert found["minutes until then"] == {"fit-muon": 1.5, "fit-adamw": None}
    assert figure.reached(ours, 4.5) == 1 and figure.reached(ours, 0.5) is None
    lines = list(figure.table(log))
    assert lines[2] == "| heed's fit, Muon | 0.001 | 30 | 1.00 | 35.0 | 34.0 |"
    assert "heed's fit, Muon: 1.5 min; heed's fit, AdamW: never" in lines[-1]


@pytest.mark.parametrize("seeds", [1, 3])
def test_a_band_stands_where_there_are_several_seeds(seeds, tmp_path, monkeypatch):
    monkeypatch.setattr(plt, "close", lambda figure: None)
    names = ["fit-muon", "torch-good"]
    log = {"runs": [run(name, seed, (4 + seed, 3, 2)) for name in names for seed in range(seeds)]}
    log["runs"][0]["points"].pop(1)  # one part was left out
    figure.draw(log, tmp_path / "race.png")
    axes = plt.gcf().axes
    assert [len(ax.lines) for ax in axes] == [2, 2]
    assert [len(ax.collections) for ax in axes] == ([2, 2] if seeds > 1 else [0, 0])
    assert list(axes[0].lines[0].get_xdata()) == [1, 3]
    if seeds > 1:
        assert "(4.00 to 6.00)" in figure.said([4, 5, 6])
        assert len(figure.verdict(log)) == 3
    monkeypatch.undo()
    plt.close("all")


def test_ours_are_ours():
    assert set(OURS) < set(CONTESTANTS) and not set(OURS) & set(figure.OTHERS)
    assert {name for name in CONTESTANTS if not CONTESTANTS[name].needs} >= {
        *OURS,
        "torch-good",
        "torch-classic",
    }
    assert multi30k  # the captions of `read`


TOLD = {
    "the course's `fit`": "fit-adamw", "a good loop": "torch-good", "a classic loop": "torch-classic",
    "Hugging Face's Marian": "marian", "JoeyNMT": "joey",
}  # fmt: skip


@pytest.mark.parametrize(("words", "name"), TOLD.items())
def test_the_front_page_tells_the_races_scores(words, name):
    runs = json.loads(race.RACED.read_text(encoding="utf-8"))["runs"]
    [score] = [run["points"][-1]["test"] for run in runs if run["name"] == name and run["seed"] == 0]
    page = (race.HERE / "README.md").read_text(encoding="utf-8")
    assert f"{words} {score:.1f}" in " ".join(page.split())


def test_lower_rates_were_given_as_many_updates_as_the_race_gave():
    log, later = (
        json.loads((race.ASSETS / name).read_text("utf-8")) for name in ("race.json", "race-rates.json")
    )
    [raced] = [run for run in log["runs"] if run["name"] == "recurrent-adamw"]
    updates = raced["points"][-1]["updates"]
    assert [run["rate"] for run in later["runs"]] == [raced["rate"] / 4, raced["rate"] / 2]
    for run in later["runs"]:
        assert run["name"] == raced["name"] and run["seed"] == raced["seed"]
        assert run["points"][-1]["updates"] == updates and "test" in run["points"][-1]
        for point in run["points"]:
            assert point["minute"] == pytest.approx(10 * point["updates"] / updates, abs=1e-3)


def test_the_table_of_the_smaller_vocabulary_is_its_logs():
    log = json.loads((race.ASSETS / "race-small.json").read_text("utf-8"))
    text = (race.HERE / "bench" / "README.md").read_text("utf-8").split("### Smaller tokens")[1]
    shown = [
        [cell.strip() for cell in line.split("|")[2:-1]] for line in text.splitlines() if line[:2] == "| "
    ]
    runs = {}
    for run in log["runs"]:
        key = (
            run["name"],
            bool(run["minutes"]),
            run["rate"],
            run["dropout"],
            run["points"][-1]["updates"] > 3000,
        )
        runs.setdefault(key, []).append((run["seed"], run["points"][-1]))
    spans = [max(tests) - min(tests) for tests in ([p["test"] for _, p in same] for same in runs.values())]
    assert f"Seeds differ by {max(spans):.1f} BLEU at the most." in text
    rows = []
    for (_, _, rate, dropout, _), found in runs.items():
        points = [point for _, point in sorted(found, key=lambda pair: pair[0])]
        updates = dict.fromkeys(f"{point['updates']:,}" for point in points)
        rows.append([f"{rate:g}", f"{dropout:g}", ", ".join(updates)])
        rows[-1].append(", ".join(f"{point['test']:.1f}" for point in points))
    assert sorted(rows) == sorted(shown[1:])
    long = {}
    for run in log["runs"]:
        if run["dropout"] == 0.1 and run["points"][-1]["updates"] > 3000:
            long[run["name"]] = run["points"]
    ahead = [a["bleu"] > b["bleu"] for a, b in zip(long["fit-adamw"], long["recurrent-adamw"], strict=True)]
    assert ahead == 2 * [False] + 8 * [True]
    assert "26.7 to 23.3 and 29.9 to 28.3" in " ".join(text.split())


def test_two_more_seeds_had_as_many_updates_as_the_race_gave():
    log, later = (
        json.loads((race.ASSETS / name).read_text("utf-8")) for name in ("race.json", "race-seeds.json")
    )
    [raced] = [run for run in log["runs"] if run["name"] == "fit-adamw"]
    updates = raced["points"][-1]["updates"]
    for seed, run in enumerate(later["runs"], start=1):
        assert (run["name"], run["seed"], run["rate"]) == ("fit-adamw", seed, raced["rate"])
        for point in run["points"]:
            assert point["minute"] == pytest.approx(10 * point["updates"] / updates, abs=1e-3)
    test = [run["points"][-1]["test"] for run in (raced, *later["runs"])]
    text = " ".join((race.HERE / "bench" / "README.md").read_text("utf-8").split())
    assert f"have {test[1]:.1f} and {test[2]:.1f} ([the log]" in text
    assert f"{sum(test) / 3:.1f} as the mean of three." in text
