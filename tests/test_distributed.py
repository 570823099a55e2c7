"""Many processes and one take the same steps; and when one of them dies, all end, and the run can go on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tiny
import torch

import heed
from heed.checkpoint import load
from heed.engine import Interrupted
from heed.engine.processes import Team

torch.set_num_threads(1)
pytestmark = pytest.mark.skipif(os.name != "posix", reason="processes are stopped by signals")

# Name of a run -> what it is given. Each is computed by one process, by three parts in one, by two processes.
RUNS = {
    "whole": {"optimiser": "adamw"},
    "muon": {"optimiser": "muon", "keep": 2},
    "few rows": {"optimiser": "adamw", "n_tokens": 11, "updates": 17},
    "said seldom": {"optimiser": "adamw", "log_every": 4, "validate": tiny.mean_loss},
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
    all_runs(folder, [{"name": "one", "how": {}}, {"name": "parts", "how": {"parts": 3}}])
    ways = [{"name": "two", "how": {}}, {"name": "two in parts", "how": {"parts": 2}}]
    tiny.team(2, all_runs, folder, [*ways, {"name": "sharded", "how": {"sharded": True}}])
    return folder


@pytest.mark.parametrize("way", ["parts", "two", "two in parts", "sharded"])
@pytest.mark.parametrize("name", RUNS)
def test_many_processes_take_the_steps_of_one(folder, way, name):
    one, many = folder / "one" / name, folder / way / name
    # Muon multiplies in float32, and of a shared matrix in other pieces
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


def test_the_parts_of_all_processes_are_the_batch_each_row_once():
    made, team = tiny.batches(), Team("cpu")
    indices = made.epoch(0)[0]
    team.count, rows, tokens = 3, [], 0
    for team.rank in range(3):
        shares, counted = team.shares(made, indices, 2)
        rows += [row.tolist() for batch, counts in shares if counts for row in batch.target]
        tokens += counted
    assert len(rows) == len(indices) and tokens == made.batch(indices).n_tokens


def until_stopped(folder, **options):
    """Train until a signal comes, and write what is said then."""
    with pytest.raises(Interrupted) as stopped:
        tiny.run(folder, **options)
    Path(folder, f"said {os.environ['RANK']}").write_text(str(stopped.value), encoding="utf-8")


def test_a_signal_to_one_stops_all_after_the_same_update_and_one_alone_can_go_on(tmp_path):
    options = {"kind": "Plain", "optimiser": "adamw", "updates": 3001, "every": 1000, "log_every": 100}
    ready = tiny.processes.Event()
    members, end = tiny.begin(2, until_stopped, tmp_path / "two", ready=ready, **options)
    with end:
        assert ready.wait(100)
        time.sleep(0.3)
        os.kill(members[1].pid, signal.SIGTERM)
    said = [(tmp_path / "two" / f"said {rank}").read_text(encoding="utf-8") for rank in range(2)]
    step = load(tmp_path / "two" / "checkpoint.pt")["place"]["step"]
    assert said[0] == said[1] and f"after step {step:,}. " in said[0] and 0 < step < 3001
    options |= {"updates": step + 5}
    tiny.run(tmp_path / "two", **options)
    assert load(tmp_path / "two" / "checkpoint.pt")["place"]["step"] == step + 5


def test_when_one_process_is_killed_all_end_in_words_and_the_run_goes_on(tmp_path):
    options = {"kind": "Plain", "optimiser": "adamw", "updates": 100_000, "every": 20, "log_every": 10}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    paths = [str(Path(heed.__file__).parents[1]), str(Path(__file__).parent)]
    with (tmp_path / "said").open("w", encoding="utf-8") as said:
        run = subprocess.Popen(
            [*command, tiny.__file__, str(tmp_path), json.dumps(options)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
            stdout=said,
            stderr=said,
        )
    try:
        wait(lambda: len((tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()) > 5, run)
        ranks = [int((tmp_path / f"pid {rank}").read_text(encoding="utf-8")) for rank in range(2)]
        os.kill(ranks[1], signal.SIGKILL)
        assert run.wait(200) != 0
    finally:
        run.kill()
        run.wait()
    words = (tmp_path / "said").read_text(encoding="utf-8")
    assert "Process 0 of 2: another process has ended, so all end." in words
    for pid in ranks:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    step = load(tmp_path / "checkpoint.pt")["place"]["step"]
    assert step >= 20
    tiny.run(tmp_path, **options | {"updates": step + 7, "every": 7})
    assert [line["step"] for line in tiny.log(tmp_path) if "loss" in line][-1] == step + 7


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
