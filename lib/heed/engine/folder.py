"""The folder of a run: which files are the run's own, and that one run at a time writes there.

The mark, a small file, says that the folder belongs to `fit`: only there anything is replaced. A run locks
it. The lock belongs to the process and not to the file: the system releases it when the process ends, however
it ends, so a crash leaves nothing behind that would have to be removed. What an earlier run has left is moved
aside, and not deleted.
"""

import errno
import os
import sys
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from heed.engine.log import read_log

MARK = ".heed"
TEXT = "This folder belongs to a run of heed.engine.fit, which replaces files in it.\n"
UNFINISHED = "*.part"  # what `checkpoint.write_file` was about to rename when its process was killed
LEFT = ("checkpoint.pt", "best.pt", "average.pt", "model.safetensors", "log.jsonl")  # … and the snapshots
NO_LOCKS = {getattr(errno, name, None) for name in ("ENOTSUP", "EOPNOTSUPP", "ENOLCK", "ENOSYS")}


def mark(folder):
    """Make a folder, or an empty one, a run's own; one that is marked stays as it is.

    Raises ValueError if it holds anything and has no mark: it may be somebody's data.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = sorted(path.name for path in folder.iterdir())
        if MARK not in found and not found:
            (folder / MARK).write_text(TEXT, encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{folder} cannot be the folder of a training: {error.strerror}.") from error
    if MARK not in found and found:
        raise ValueError(
            f"{folder} is no folder of a training: it holds {found[0]} and no {MARK}. A training "
            "replaces files in its folder; name an empty or a new one."
        )


def set_aside(folder):
    """Move what an earlier run has left here into a folder of its own: earlier-1, earlier-2, …

    Returns that folder; None if nothing was left.
    """
    left = [folder / name for name in LEFT if (folder / name).exists()] + snapshots(folder)
    if not left or (left == [folder / "log.jsonl"] and len(read_log(left[0])) < 2):  # of a start, no more
        return None
    aside = next(path for n in count(1) if not (path := folder / f"earlier-{n}").exists())
    for path in left:
        to = aside / path.relative_to(folder)
        to.parent.mkdir(parents=True, exist_ok=True)
        path.rename(to)
    return aside


@contextmanager
def owned(folder, world):
    """While it is open, the folder is this run's own and no other run's; rank 0 holds the lock.

    Raises ValueError in every process if the folder is not a run's own, or if another run is in it.
    """
    folder, lock, refused = Path(folder), None, None
    if world.rank == 0:
        try:
            mark(folder)
            lock = locked(folder)
        except ValueError as error:
            refused = str(error)
    try:
        refused = world.broadcast(refused)
        if refused:
            raise ValueError(refused)
        if world.rank == 0:
            for path in [*folder.glob(UNFINISHED), *folder.glob(f"snapshots/{UNFINISHED}")]:
                path.unlink()
        yield
    finally:
        if lock:
            HELD.discard(lock)
            lock.close()


HELD = set()  # the marks that this process has locked
if hasattr(os, "register_at_fork"):  # a child would hold the lock after the death of its parent
    os.register_at_fork(after_in_child=lambda: [file.close() for file in HELD])


def locked(folder):
    """The mark, opened and locked until it is closed. ValueError if it cannot be locked."""
    file = (folder / MARK).open("rb+")
    try:
        lock(file)
    except OSError as error:
        if error.errno in NO_LOCKS:
            print(
                f"heed: the file system of {folder} has no locks ({error.strerror}): "
                "see to it that no other run writes there.",
                file=sys.stderr,
            )
            return file
        file.close()
        if error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            raise ValueError(f"{folder / MARK} cannot be locked: {error.strerror}.") from error
        raise ValueError(
            f"Another run is writing to {folder}. Wait for its end, or train in another folder."
        ) from None
    HELD.add(file)
    return file


def lock(file):
    """Lock an open file for this process, at once or not at all (OSError)."""
    if os.name == "nt":
        import msvcrt

        file.seek(1 << 30)  # behind the text: others may read that
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def snapshot_name(step):
    """The name of the snapshot of this step."""
    return f"{step:09}.pt"


def snapshots(folder):
    """The snapshots that `fit` has left in a folder, the oldest first; files with other names are none."""
    names = (path for path in Path(folder, "snapshots").glob("*.pt") if path.stem.isdecimal())
    return sorted(
        (path for path in names if path.name == snapshot_name(int(path.stem))), key=lambda p: int(p.stem)
    )
