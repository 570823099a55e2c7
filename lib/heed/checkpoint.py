"""Files that are whole or not there: how a training is saved so that it can go on after any accident.

A new file is written beside the old one, brought to the disk, and then renamed over it. Whoever pulls the
plug finds the old file or the new one, and never a half of either. Each file carries a checksum (SHA-256) of
what it holds, so that one whose bits have changed on the disk is refused; files without one, of earlier
versions and of other programs, are read as they are.
"""

import errno
import hashlib
import io
import json
import os
import random
import secrets
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as from_bytes
from safetensors.torch import save as as_bytes

SEAL = b"sha256:"  # before the checksum at the end of a checkpoint; torch.load reads over both
ZIP_END = b"PK\5\6"  # the last 22 bytes of what torch.save writes


class CheckpointError(ValueError):
    """A checkpoint that could not be written, or must not be used."""


class DamagedError(CheckpointError):
    """A file that was cut, or whose bytes are no longer those that were saved."""


def write_file(path, *data):
    """Put these bytes, one piece after the other, in the place of a file, at once and whole.

    They are first written beside it, under a name of their own that ends in .part.

    Raises CheckpointError if the disk is full, or will not take them; the old file is then as it was.
    """
    path = Path(path)
    beside = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with beside.open("wb") as file:
            for piece in data:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        sync_folder(path.parent)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise CheckpointError(not_written(path, error)) from error


def not_written(path, error):
    """Why a file could not be written, what has become of the old one, and what to do."""
    if not path.parent.is_dir():
        return f"{path} could not be written: there is no folder {path.parent} (any more)."
    kept = "The file that was there is whole, and stays" if path.exists() else "There was none before"
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    advice = " Make room, and run the same again." if full else ""
    return f"{path} could not be written: {error.strerror}. {kept}.{advice}"


def sync_folder(folder):
    """Bring a folder's list of names to the disk, where the system can (Windows does so by itself)."""
    if os.name == "posix":
        names = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(names)
        finally:
            os.close(names)


def save(path, state, fingerprint=""):
    """Save tensors, numbers, strings, and lists and dictionaries of these.

    fingerprint: what the state belongs to, such as a recipe and a vocabulary; `load` compares it

    Raises CheckpointError if the disk is full; the old file is then as it was.
    """
    data = io.BytesIO()
    torch.save({"fingerprint": fingerprint, "state": state}, data)
    write_file(path, data.getbuffer(), SEAL + hashlib.sha256(data.getbuffer()).digest())


def load(path, fingerprint=None):
    """What `save` has saved, on the CPU. Nothing in the file is executed.

    fingerprint: the one that the file must have; None takes any

    Raises DamagedError if the file was cut, has changed, or is no checkpoint; CheckpointError if it is not
    there, or has another fingerprint; OSError if it may not be read.
    """
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"There is no checkpoint at {path}.")
    data = path.read_bytes()  # an error here is no sign of damage: the file may be whole
    body, seal = data[: -len(SEAL) - 32], data[-len(SEAL) - 32 :]
    sealed = seal.startswith(SEAL)
    if sealed and seal != SEAL + hashlib.sha256(body).digest():
        raise DamagedError(f"{path} is damaged: its bytes are not those that were saved (SHA-256).")
    try:
        if not (sealed or data[-22:].startswith(ZIP_END)):
            raise EOFError
        saved = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        found, state = saved["fingerprint"], saved["state"]
    except MemoryError:
        raise
    except Exception as error:  # a cut file can fail in any way
        raise DamagedError(f"{path} is cut, or no checkpoint ({len(data):,} bytes).") from error
    if fingerprint is not None and found != fingerprint:
        raise CheckpointError(
            f"{path} belongs to another recipe or vocabulary: its fingerprint is {found[:12]!r}, and "
            f"this run's is {fingerprint[:12]!r}. Name another folder."
        )
    return state


def average(states):
    """The mean of several states of one model, entry by entry, its buffers included.

    Whole numbers, such as a counter, have no mean that is one: they are taken from the last state.

    states: an iterable of state dictionaries; one at a time is held in memory

    Returns a state dictionary. Raises ValueError if there is none, or if they do not fit one another.
    """
    total, last, n = {}, {}, 0
    for n, last in enumerate(states, 1):
        for name in total.keys() ^ last.keys() if total else ():
            raise ValueError(f"{name} stands in some of the states and not in state {n}, or the reverse.")
        for name, tensor in last.items():
            wide = tensor.to("cpu", torch.float64) if tensor.is_floating_point() else tensor
            if n > 1 and total[name].shape != tensor.shape:
                raise ValueError(
                    f"{name} is {tuple(total[name].shape)}, and {tuple(tensor.shape)} in state {n}."
                )
            total[name] = total[name] + wide if n > 1 and tensor.is_floating_point() else wide
    if not n:
        raise ValueError("An average needs at least one state, got none.")
    return {
        name: (total[name] / n).to(tensor) if tensor.is_floating_point() else tensor.clone()
        for name, tensor in last.items()
    }


def save_weights(path, model, state=None, fingerprint=""):
    """Save a model as it is used: float32, and a tensor that has two names (tied weights) under the first.

    The file is one of safetensors; checksum and fingerprint stand in its metadata.

    state: its state dictionary, where the model itself holds only a part of each tensor
    fingerprint: what the weights belong to; `load_weights` compares it

    Raises CheckpointError if the disk is full; the old file is then as it was.
    """
    state, tensors = state or model.state_dict(), {}
    for name in dict.fromkeys(first_names(model).values()):
        tensor = state[name].detach().cpu().contiguous()
        tensors[name] = tensor.float() if tensor.is_floating_point() else tensor
    write_file(path, as_bytes(tensors, {"fingerprint": fingerprint, "sha256": checksum(tensors)}))


def checksum(tensors):
    """The SHA-256 of tensors with their names, shapes and types, in hexadecimal digits."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} ".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


def first_names(model):
    """Every name in the model's state -> the first name under which the same tensor stands there."""
    state, first = model.state_dict(keep_vars=True), {}
    return {name: first.setdefault(id(tensor), name) for name, tensor in state.items()}


def load_weights(path, model, fingerprint=None):
    """Read into a model what `save_weights` has saved. Returns the model.

    fingerprint: the one that the file must have, if it has any; None takes any

    Raises DamagedError if the file was cut or has changed; CheckpointError if it is not there, holds another
    model, or has another fingerprint.
    """
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"There are no weights at {path}.")
    data = path.read_bytes()
    try:
        tensors = from_bytes(data)
    except SafetensorError as error:
        raise DamagedError(f"{path} is cut, or holds no weights ({len(data):,} bytes).") from error
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])  # so the format begins
    said = header.get("__metadata__", {})
    if said.get("sha256", "") not in ("", checksum(tensors)):
        raise DamagedError(f"{path} is damaged: its bytes are not those that were saved (SHA-256).")
    own, wanted = model.state_dict(), first_names(model)
    for name in sorted(set(wanted.values()) ^ tensors.keys()):
        where = "too much in" if name in tensors else "missing from"
        raise CheckpointError(f"{path} holds another model: {name} is {where} it.")
    for name in sorted(tensors):
        if tensors[name].shape != own[name].shape:
            raise CheckpointError(
                f"{path} holds another model: {name} is {tuple(tensors[name].shape)} in it, and "
                f"{tuple(own[name].shape)} here."
            )
    if fingerprint and said.get("fingerprint", "") not in ("", fingerprint):
        raise CheckpointError(f"{path} belongs to another recipe or vocabulary, though its shapes fit.")
    model.load_state_dict({name: tensors[first] for name, first in wanted.items()})
    return model


def rng_state():
    """The state of every random number generator here: Python's, numpy's, torch's, the device's."""
    algorithm, keys, *rest = np.random.get_state()  # noqa: NPY002
    state = {
        "python": random.getstate(),
        "numpy": [algorithm, keys.tolist(), *rest],
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state()
    if torch.backends.mps.is_available():
        state["mps"] = torch.mps.get_rng_state()
    return state


def set_rng_state(state):
    """Put every random number generator into the state that `rng_state` has returned."""
    random.setstate(state["python"])
    algorithm, keys, *rest = state["numpy"]
    np.random.set_state((algorithm, np.array(keys, dtype=np.uint32), *rest))  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
    if "mps" in state and torch.backends.mps.is_available():
        torch.mps.set_rng_state(state["mps"])


@contextmanager
def rng_preserved():
    """Whatever is drawn while it is open, the random number generators go on as if nothing had been."""
    state = rng_state()
    try:
        yield
    finally:
        set_rng_state(state)
