"""Many processes and one take the same steps; and when one of them dies, all end, and the run can go on."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiny
import torch
from safetensors.torch import load_file

import heed
from heed.checkpoint import load
from heed.decode import greedy
from heed.engine import Interrupted
from heed.engine.parallel import FSDP, SingleProcess, layers, whole
from heed.engine.world import ProcessLost, World
from heed.loss import translation_loss

torch.set_num_threads(1)
pytestmark = pytest.mark.skipif(os.name != "posix", reason="processes are stopped by signals")

# Name of a run -> what it is given. Each is computed by one process, by three parts in one, by two processes.
RUNS = {
    "whole": {"optimizer": "adamw"},
    "muon": {"optimizer": "muon", "keep": 2},
    "few rows": {"optimizer": "adamw", "n_tokens": 11, "updates": 17},
    "said seldom": {"optimizer": "adamw", "log_every": 4, "validate": tiny.mean_loss},
}


def all_runs(folder, ways):
    """Train every run in every way; called in each process of a team."""
    for way in ways:
        for name, options in RUNS.items():
            tiny.run(folder / way["name"] / name, **{"kind": "Plain", "updates": 11, **options, **way["how"]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """All runs in all ways; two processes are started once."""
    folder = tmp_path_factory.mktemp("runs")
    all_runs(folder, [{"name": "one", "how": {}}, {"name": "parts", "how": {"micro_batches": 3}}])
    ways = [{"name": "two", "how": {}}, {"name": "two in parts", "how": {"micro_batches": 2}}]
    tiny.team(2, all_runs, folder, [*ways, {"name": "sharded", "how": {"sharded": True}}])
    return folder


@pytest.mark.parametrize("way", ["parts", "two", "two in parts", "sharded"])
@pytest.mark.parametrize("name", RUNS)
def test_many_processes_take_the_steps_of_one(folder, way, name):
    one, many = folder / "one" / name, folder / way / name
    # Muon multiplies in float32, and of a sharded matrix in other pieces
    tolerance = 1e-5 if (way, name) == ("sharded", "muon") else 1e-9
    assert len(tiny.losses(one)) == len(tiny.losses(many)) > 1
    assert torch.allclose(torch.tensor(tiny.losses(one)), torch.tensor(tiny.losses(many)), rtol=tolerance)
    for line, other in zip(tiny.log(one)[1:], tiny.log(many)[1:], strict=True):
        assert (line["step"], line.get("tokens")) == (other["step"], other.get("tokens"))
        assert abs(line.get("norm", 0) - other.get("norm", 0)) < tolerance * 10
    for file in ("checkpoint.pt", *(["average.pt"] if name == "muon" else [])):
        weights = load(many / file)["model"]
        for key, tensor in load(one / file)["model"].items():
            assert torch.allclose(tensor, weights[key], atol=tolerance), key


def test_the_log_says_how_many_there_were(folder):
    assert [tiny.log(folder / way / "whole")[0]["processes"] for way in ("one", "two")] == [1, 2]


def test_the_micro_batches_of_all_processes_are_the_batch_each_row_once():
    made, world = tiny.batches(), World("cpu")
    indices = made.epoch(0)[0]
    world.size, rows, tokens = 3, [], 0
    for world.rank in range(3):
        mine, counted = world.micro_batches(made, indices, 2)
        rows += [row.tolist() for batch, counts in mine if counts for row in batch.target]
        tokens += counted
    assert len(rows) == len(indices) and tokens == made.batch(indices).n_tokens


def until_stopped(folder, **options):
    """Train until a signal comes, and write what is said then."""
    with pytest.raises(Interrupted) as stopped:
        tiny.run(folder, **options)
    Path(folder, f"said {os.environ['RANK']}").write_text(str(stopped.value), encoding="utf-8")


def test_a_signal_to_one_stops_all_after_the_same_update_and_one_alone_can_go_on(tmp_path):
    options = {"kind": "Plain", "optimizer": "adamw", "updates": 3001, "every": 1000, "log_every": 100}
    ready = tiny.processes.Event()
    members, end = tiny.begin(2, until_stopped, tmp_path / "two", ready=ready, **options)
    with end:
        assert ready.wait(100)
        time.sleep(0.3)
        os.kill(members[1].pid, signal.SIGTERM)
    said = [(tmp_path / "two" / f"said {rank}").read_text(encoding="utf-8") for rank in range(2)]
    step = load(tmp_path / "two" / "checkpoint.pt")["state"]["step"]
    assert said[0] == said[1] and f"after step {step:,}. " in said[0] and 0 < step < 3001
    options |= {"updates": step + 5}
    tiny.run(tmp_path / "two", **options)
    assert load(tmp_path / "two" / "checkpoint.pt")["state"]["step"] == step + 5


def test_when_one_process_is_killed_all_end_with_a_sentence_and_the_run_is_resumed(tmp_path):
    options = {"kind": "Plain", "optimizer": "adamw", "updates": 100_000, "every": 20, "log_every": 10}
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    paths = [str(Path(heed.__file__).parents[1]), str(Path(__file__).parent)]
    with (tmp_path / "said").open("w", encoding="utf-8") as said:
        run = subprocess.Popen(
            [*command, tiny.__file__, str(folder), json.dumps(options)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
            stdout=said,
            stderr=said,
        )
    try:
        wait(lambda: len((folder / "log.jsonl").read_text(encoding="utf-8").splitlines()) > 5, run)
        ranks = [int((tmp_path / f"run pid {rank}").read_text(encoding="utf-8")) for rank in range(2)]
        os.kill(ranks[1], signal.SIGKILL)
        assert run.wait(200) != 0
    finally:
        run.kill()
        run.wait()
    words = (tmp_path / "said").read_text(encoding="utf-8")
    noticed = re.search(r"Rank 0 of 2: another process has ended, so all end \(.*gloo.*\)\.", words)
    assert noticed or re.search(r"rank +: 0 .*\n +exitcode +: -15", words)  # the launcher was faster
    for pid in ranks:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    step = load(folder / "checkpoint.pt")["state"]["step"]
    assert step >= 20
    tiny.run(folder, **options | {"updates": step + 7})
    assert [line["step"] for line in tiny.log(folder) if "loss" in line][-1] == step + 7


@pytest.mark.parametrize(
    "error, converted",
    [
        (RuntimeError("[/src/gloo/gloo/transport/tcp/pair.cc:554] Connection closed by peer"), True),
        (torch.distributed.DistBackendError("NCCL error: remote process exited"), True),
        (RuntimeError("a peer of size 3 does not fit into the socket of size 5"), False),
        (RuntimeError("the gloom of shapes"), False),
    ],
)
def test_only_errors_of_torch_distributed_say_that_a_process_was_lost_and_they_say_why(error, converted):
    world = World("cpu")
    world.size = 2
    with pytest.raises(ProcessLost if converted else RuntimeError) as caught:
        with world.explaining_losses(Path("run")):
            raise error
    assert isinstance(caught.value, ProcessLost) == converted and str(error) in str(caught.value)


def wait(condition, process, seconds=200):
    """Wait until it is so; fail if the process ends before."""
    for _ in range(10 * seconds):
        assert process.poll() is None, "the processes have ended before they were killed"
        try:
            if condition():
                return
        except FileNotFoundError:
            pass
        time.sleep(0.1)
    pytest.fail("nothing came")


# --- A Transformer, as recipes build it ---------------------------------------------------------------------

BY_LOSS = {"kind": "Transformer", "updates": 8, "every": 4, "validate": tiny.mean_translation_loss}
BY_BLEU = BY_LOSS | {"updates": 40, "every": 20, "validate": tiny.bleu_of_greedy, "better": max}
BY_BLEU |= {"optimizer": "adamw", "lr": 0.03}
# Name -> what one process and two are given, and what two are given alone.
TRANSFORMERS = {
    "fsdp fp32": (BY_LOSS | {"keep": 2}, {"sharded": True}),
    "fsdp fp32, micro-batches": (BY_LOSS | {"optimizer": "adamw"}, {"sharded": True, "micro_batches": 2}),
    "fsdp fp32, bleu": (BY_BLEU, {"sharded": True}),
    "fsdp bf16": (BY_LOSS | {"precision": "bf16"}, {"sharded": True}),
    "fsdp bf16, bleu": (BY_BLEU | {"precision": "bf16"}, {"sharded": True}),
    "ddp bf16": (BY_LOSS | {"precision": "bf16"}, {}),
    "ddp bf16, micro-batches": (BY_LOSS | {"precision": "bf16"}, {"micro_batches": 2}),
    "ddp fp32, bleu": (BY_BLEU, {}),
}


def all_transformers(folder, many):
    """Train each of them, in one process or as one of several."""
    for name, (options, of_many) in TRANSFORMERS.items():
        tiny.run(folder / name, **options | (of_many if many else {}))


@pytest.fixture(scope="module")
def transformers(tmp_path_factory):
    """All Transformers, each trained by one process and by two."""
    folder = tmp_path_factory.mktemp("transformers")
    all_transformers(folder / "one", many=False)
    tiny.team(2, all_transformers, folder / "two", many=True)
    return folder


def validations(folder):
    """The first number of each validation, by the log."""
    return [next(iter(line["validation"].values())) for line in tiny.log(folder) if "validation" in line]


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_transformer_learns_in_two_processes_what_it_learns_in_one(transformers, name):
    one, two = transformers / "one" / name, transformers / "two" / name
    # a gradient is rounded to one in 256 before it is summed, in one process and in two
    tolerance = 0.02 if "bf16" in name else 1e-4
    assert tiny.losses(two) == pytest.approx(tiny.losses(one), rel=tolerance)
    assert tiny.losses(two)[-1] < tiny.losses(two)[0]
    wanted, found = validations(one), validations(two)
    assert len(found) == len(wanted) >= 2
    if "bleu" in name:
        assert found == pytest.approx(wanted, abs=5.0 if "bf16" in name else 0.01) and max(found) > 5
    else:
        assert found == pytest.approx(wanted, rel=tolerance)
    weights = load_file(two / "model.safetensors")
    for key, tensor in load_file(one / "model.safetensors").items():
        assert tensor.dtype == weights[key].dtype == torch.float32
        # the gradient of a key's bias is zero but for rounding, and AdamW divides by its norm
        if "bf16" not in name and not key.endswith("W_k.bias"):
            assert torch.allclose(tensor, weights[key], atol=1e-3), key


def test_bf16_is_the_same_computation_with_ddp_and_with_fsdp(transformers):
    ddp, fsdp = (tiny.losses(transformers / "two" / name) for name in ("ddp bf16", "fsdp bf16"))
    exact = tiny.losses(transformers / "two" / "fsdp fp32")
    assert fsdp[0] == ddp[0] != exact[0] and fsdp == pytest.approx(ddp, rel=5e-3)


@pytest.mark.parametrize("precision", ["fp32", pytest.param("bf16", marks=pytest.mark.soak)])
def test_a_sharded_run_that_was_killed_is_resumed_and_ends_as_if_it_had_not_been(tmp_path, precision):
    options = BY_LOSS | {"updates": 60, "sharded": True, "precision": precision, "optimizer": "muon"}
    members, _ = tiny.begin(2, tiny.run, tmp_path / "killed", **options)
    try:
        while not validated(tmp_path / "killed"):
            assert all(member.is_alive() for member in members)
            time.sleep(0.01)
        assert len(tiny.log(tmp_path / "killed")) < 60
    finally:
        for member in members:
            member.kill()
            member.join()
    tiny.team(2, twice, tmp_path, **options)
    killed, left = (load(tmp_path / name / "checkpoint.pt") for name in ("killed", "left"))
    assert killed["state"]["step"] == left["state"]["step"] == 60
    assert tiny.losses(tmp_path / "killed") == pytest.approx(tiny.losses(tmp_path / "left"), rel=1e-6)
    for key, tensor in left["model"].items():
        assert torch.allclose(tensor, killed["model"][key], atol=1e-6), key
    tiny.run(tmp_path / "killed", **options | {"updates": 63})  # and one process can go on
    assert len(tiny.losses(tmp_path / "killed")) == 63


def validated(folder):
    """Whether a validation stands in the log."""
    try:
        return any("validation" in line for line in tiny.log(folder))
    except (OSError, json.JSONDecodeError):
        return False


def twice(folder, **options):
    """Resume the run that was killed, and make the same in one go."""
    tiny.run(folder / "killed", **options)
    tiny.run(folder / "left", **options)


@pytest.fixture
def one():
    """A process group of one process."""
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield SimpleNamespace(size=1, rank=0, device=torch.device("cpu"))
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_model_sharded_among_one_is_the_model(one, precision):
    single = SingleProcess(tiny.transformer(), translation_loss, one, precision)
    sharded = FSDP(tiny.transformer(), translation_loss, one, precision)
    batch, losses = tiny.batches().batch(range(7)), []
    for model in (single, sharded):
        for last in (False, True):
            with model.gradient_sync(last):
                losses.append(model.loss(batch))
                losses[-1].backward()
    assert losses[0] == losses[2] and losses[1] == losses[3]
    for p, q in zip(single.model.parameters(), sharded.model.parameters(), strict=True):
        assert p.grad.dtype == q.grad.dtype == torch.float32
        assert torch.allclose(p.grad, whole(q.grad), atol=1e-5)
        with torch.no_grad():
            p.sub_(p.grad), q.sub_(q.grad)
    with sharded.whole_model() as copied, torch.no_grad():
        assert not copied.training and copied.generator.proj.weight is copied.source_embed[0].embedding.weight
        assert greedy(copied, batch.source) == greedy(single.model.eval(), batch.source)
        for key, tensor in single.state_dict().items():
            assert torch.allclose(copied.state_dict()[key], tensor, atol=1e-5), key
    before = {key: 2 * tensor for key, tensor in sharded.state_dict().items()}
    sharded.load_state_dict(before)
    assert all(torch.equal(tensor, before[key]) for key, tensor in sharded.state_dict().items())


def test_a_layer_of_a_stack_is_sharded_as_one_and_no_list_inside_of_it():
    model = tiny.transformer()
    assert list(layers(model)) == [*model.encoder.layers, *model.decoder.layers]
