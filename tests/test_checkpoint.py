"""Files that are whole or not there: round trips, accidents of the disk, averages, refusals."""

import errno
import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from heed.checkpoint import (
    CheckpointError,
    DamagedError,
    average,
    load,
    load_weights,
    rng_preserved,
    rng_state,
    save,
    save_weights,
    set_rng_state,
    write_file,
)


def state(value=1.0):
    return {"model": {"w": torch.full((2, 3), value)}, "step": 5, "words": ["a", None], "pair": (1, 2.5)}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_was_saved_is_loaded(tmp_path):
    save(tmp_path / "c.pt", state())
    found = load(tmp_path / "c.pt")
    assert torch.equal(found.pop("model")["w"], torch.ones(2, 3))
    assert found == {"step": 5, "words": ["a", None], "pair": (1, 2.5)}
    assert names(tmp_path) == ["c.pt"]


def test_another_fingerprint_is_refused_and_both_are_named(tmp_path):
    save(tmp_path / "c.pt", state(), "recipe one")
    assert load(tmp_path / "c.pt", "recipe one")["step"] == load(tmp_path / "c.pt")["step"] == 5
    with pytest.raises(CheckpointError, match=r"'recipe one'.*'recipe two'"):
        load(tmp_path / "c.pt", "recipe two")


def test_a_checkpoint_that_is_cut_anywhere_raises_a_readable_error(tmp_path):
    save(tmp_path / "c.pt", state())
    whole = (tmp_path / "c.pt").read_bytes()
    for n in [*range(0, len(whole) - 40, 61), *range(len(whole) - 60, len(whole))]:
        (tmp_path / "c.pt").write_bytes(whole[:n])
        if n == len(whole) - 39:  # all but the checksum: as earlier versions wrote it, and whole
            assert load(tmp_path / "c.pt")["step"] == 5
            continue
        with pytest.raises(DamagedError, match=f"is cut, or no checkpoint .{n:,} bytes"):
            load(tmp_path / "c.pt")


def test_no_bit_of_a_checkpoint_or_of_weights_changes_unseen(tmp_path):
    save(tmp_path / "c.pt", state())
    save_weights(tmp_path / "m.safetensors", Tied(), fingerprint="f")
    rng, right = random.Random(0), Tied().state_dict().keys()
    for name, read in (("c.pt", load), ("m.safetensors", lambda path: load_weights(path, Tied(), "f"))):
        whole, seen = (tmp_path / name).read_bytes(), 0
        for _ in range(150):
            data = bytearray(whole)
            i = rng.randrange(len(data))
            data[i] ^= 1 << rng.randrange(8)
            (tmp_path / name).write_bytes(data)
            try:
                found = read(tmp_path / name)
            except CheckpointError:
                seen += 1
            else:  # a blank of the header, or the word before a checksum: nothing that was saved
                assert name == "m.safetensors" and found.state_dict().keys() == right and i < 600
        assert seen >= 145


def test_a_checkpoint_that_is_not_there_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"There is no checkpoint at .*none"):
        load(tmp_path / "none.pt")


class Mischief:
    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def test_nothing_in_a_checkpoint_is_executed(tmp_path):
    trap = Mischief()
    trap.folder = tmp_path / "executed"
    torch.save({"fingerprint": "", "state": trap}, tmp_path / "c.pt")
    with pytest.raises(CheckpointError):
        load(tmp_path / "c.pt")
    assert not trap.folder.exists()


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, call):
    save(tmp_path / "c.pt", state(1.0))

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(CheckpointError, match=r"No space left on device.*is whole, and stays"):
        save(tmp_path / "c.pt", state(2.0))
    with pytest.raises(CheckpointError, match=r"There was none before"):
        save(tmp_path / "new.pt", state(2.0))
    assert names(tmp_path) == ["c.pt"]
    assert torch.equal(load(tmp_path / "c.pt")["model"]["w"], torch.ones(2, 3))


def test_a_file_that_the_system_will_not_let_grow_is_a_full_disk(tmp_path):
    resource = pytest.importorskip("resource")
    save(tmp_path / "c.pt", state(1.0))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(CheckpointError, match="is whole, and stays"):
            save(tmp_path / "c.pt", {"w": torch.ones(1 << 16)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert names(tmp_path) == ["c.pt"] and load(tmp_path / "c.pt")["step"] == 5


def test_the_data_are_on_the_disk_before_the_name_is(tmp_path, monkeypatch):
    order, fsync, replace = [], os.fsync, os.replace

    def noted_fsync(number):
        order.append(("fsync", os.fstat(number).st_size))
        fsync(number)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append(("replace", 0)), replace(a, b)))
    write_file(tmp_path / "c", b"seven !")
    assert order[:2] == [("fsync", 7), ("replace", 0)]


def test_averages_by_hand_with_buffers_and_counters():
    one = {"w": torch.tensor([1.0, 2.0]), "running": torch.tensor([0.5]), "count": torch.tensor(3)}
    two = {"w": torch.tensor([3.0, 8.0]), "running": torch.tensor([1.5]), "count": torch.tensor(7)}
    mean = average(iter([one, two]))
    assert torch.equal(mean["w"], torch.tensor([2.0, 5.0]))
    assert torch.equal(mean["running"], torch.tensor([1.0])) and int(mean["count"]) == 7
    assert torch.equal(one["w"], torch.tensor([1.0, 2.0]))


def test_the_average_of_equal_states_is_that_state_in_its_own_dtype():
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        tensor = torch.rand(7).to(dtype)
        mean = average([{"w": tensor}] * 5)["w"]
        assert mean.dtype == dtype and torch.equal(mean, tensor)


def test_the_average_is_that_of_numpy_in_float64():
    tensors = [torch.rand(5, 3, dtype=torch.float64) for _ in range(7)]
    expected = np.mean([tensor.numpy() for tensor in tensors], axis=0)
    assert np.allclose(average({"w": tensor} for tensor in tensors)["w"], expected, atol=1e-15)


@pytest.mark.parametrize(
    "states, words",
    [
        ([], "at least one"),
        ([{"a": torch.ones(1)}, {"b": torch.ones(1)}], "not in state 2"),
        ([{"a": torch.ones(2)}, {"a": torch.ones(3)}], r"a is \(2,\), and \(3,\) in state 2"),
    ],
)
def test_averages_that_are_none(states, words):
    with pytest.raises(ValueError, match=words):
        average(states)


class Tied(nn.Module):
    def __init__(self, d=5):
        super().__init__()
        self.table = nn.Embedding(7, d)
        self.proj = nn.Linear(d, 7)
        self.proj.weight = self.table.weight
        self.norm = nn.BatchNorm1d(3)


def test_weights_are_float32_and_tied_ones_stand_there_once(tmp_path):
    model = Tied().double()
    save_weights(tmp_path / "m.safetensors", model)
    stored = load_file(tmp_path / "m.safetensors")
    assert "table.weight" in stored and "proj.weight" not in stored
    assert (
        stored["table.weight"].dtype == torch.float32
        and stored["norm.num_batches_tracked"].dtype == torch.int64
    )
    other = load_weights(tmp_path / "m.safetensors", Tied())
    for name, tensor in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor.to(other.state_dict()[name])), name
    assert other.proj.weight is other.table.weight


def test_a_file_that_may_not_be_read_is_not_called_cut(tmp_path, monkeypatch):
    def refuse(*given, **named):
        raise PermissionError("not yours")

    save(tmp_path / "c.pt", state())
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(PermissionError, match="not yours"):
        load(tmp_path / "c.pt")


def test_weights_of_another_model_or_cut_ones_are_refused(tmp_path):
    path = tmp_path / "m.safetensors"
    with pytest.raises(CheckpointError, match="no weights at"):
        load_weights(path, Tied())
    save_weights(path, Tied())
    with pytest.raises(CheckpointError, match=r"table.weight is \(7, 5\) in it, and \(7, 3\) here"):
        load_weights(path, Tied(d=3))
    with pytest.raises(CheckpointError, match=r"bias is missing from it"):
        load_weights(path, nn.Linear(2, 3))
    untied = Tied()
    untied.proj = nn.Linear(5, 7)
    save_weights(tmp_path / "untied.safetensors", untied)
    with pytest.raises(CheckpointError, match=r"proj.weight is too much in it"):
        load_weights(tmp_path / "untied.safetensors", Tied())
    save_weights(path, Tied(), fingerprint="one")
    load_weights(path, Tied())
    with pytest.raises(CheckpointError, match="another recipe or vocabulary"):
        load_weights(path, Tied(), "two")
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(DamagedError, match="is cut"):
        load_weights(path, Tied())
    save_file({name: tensor.clone() for name, tensor in Tied().state_dict().items()}, path)
    with pytest.raises(CheckpointError, match=r"proj.weight is too much"):  # no checksum in it
        load_weights(path, Tied())


def test_two_writers_of_one_file_never_share_a_temporary_one(tmp_path, monkeypatch):
    beside, replace = [], os.replace

    def second_writer_comes_between(one, two):
        beside.append(one)
        if len(beside) == 1:
            write_file(tmp_path / "c", b"second")
        replace(one, two)

    monkeypatch.setattr(os, "replace", second_writer_comes_between)
    write_file(tmp_path / "c", b"first")
    assert len(set(beside)) == 2 and all(path.suffix == ".part" for path in beside)
    assert (tmp_path / "c").read_bytes() == b"first" and names(tmp_path) == ["c"]


def test_what_is_drawn_between_changes_nothing():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    with pytest.raises(KeyError), rng_preserved():
        torch.rand(7)
        raise KeyError
    assert torch.equal(torch.rand(3), expected)


def test_rng_states_are_restored(tmp_path):
    def draw():
        return random.random(), random.gauss(), *np.random.normal(size=3), float(torch.rand(()))  # noqa: NPY002

    draw()  # both normal ones make two at a time, and keep one in store
    save(tmp_path / "c.pt", rng_state())
    first = draw()
    assert draw() != first
    set_rng_state(load(tmp_path / "c.pt"))
    assert draw() == first
