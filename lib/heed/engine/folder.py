"""The folder of a run: which files are the run's own, and that one run at a time writes there.

The mark, a small file, says that the folder belongs to `fit`: only there anything is replaced or removed. A
run locks it. The lock belongs to the process and not to the file: the system releases it when the process
ends, however it ends, so a crash leaves nothing behind that would have to be removed.
"""

import errno
import os
from contextlib import contextmanager
from pathlib import Path

MARK = ".heed"
TEXT = "This folder belongs to a run of heed.engine.fit, which replaces and removes files in it.\n"
UNFINISHED = "*.part"  # what `checkpoint.write_file` was about to rename when its process was killed


def mark(folder):
    """Make a folder, or an empty one, a run's own; one that is marked stays as it is.

    Raises ValueError if it holds anything and has no mark: it may be somebody's data.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / MARK).exists():
        found = sorted(path.name for path in folder.iterdir())
        if found:
            raise ValueError(
                f"{folder} is no folder of a training: it holds {found[0]} and no {MARK}. A training "
                "replaces and removes files in its folder; name an empty or a new one."
            )
        (folder / MARK).write_text(TEXT, encoding="utf-8")


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
            lock.close()


def locked(folder):
    """The mark, opened and locked until it is closed. ValueError if another process has locked it."""
    file = (folder / MARK).open("rb+")
    try:
        lock(file)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return file  # a file system without locks
        file.close()
        raise ValueError(
            f"Another run is writing to {folder}. Wait for its end, or train in another folder."
        ) from None
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
