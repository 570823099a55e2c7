"""Processes that share one model give the answers that one process gives, in the same order."""

import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiny
import torch

from heed.decode import beam, greedy, translations
from heed.speed import packed
from heed.text import Subwords
from heed.transformer import make_model
from heed.workers import Workers, ending

ENDS = "", "sechs", "sieben mal acht"
LINES = [f"{a} {b}" for a in ("eins", "zwei", "drei und vier", "fünf") for b in ENDS]


@pytest.fixture(scope="module")
def translator():
    """An untrained model whose sentences differ, and its vocabulary."""
    torch.manual_seed(0)
    subwords = Subwords.learn(LINES, 290)
    model = make_model(len(subwords), len(subwords), 1, 12, 10, 3, 0.0).eval()
    model.generator.proj.weight.data *= 8
    return model, subwords


@pytest.mark.parametrize("search", [greedy, partial(beam, width=2)])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_any_number_of_workers_says_the_same_in_the_same_order(translator, n, search):
    lines = [*LINES[:5], "", *LINES[5:]]
    alone = translations(*translator, lines, search, n_tokens=20)
    with Workers(translator[0], n, few=0) as workers:
        assert translations(*translator, lines, search, n_tokens=20, workers=workers) == alone
        assert translations(*translator, lines[::-1], search, n_tokens=20, workers=workers) == alone[::-1]
    assert len(set(alone)) > 6 and alone[5] == ""


def test_where_processes_cannot_be_forked_they_are_spawned(translator, monkeypatch):
    monkeypatch.setattr("heed.workers.sys.platform", "darwin")
    with Workers(translator[0], 2, few=0) as workers:
        found = translations(*translator, LINES, n_tokens=20, workers=workers)
        assert found == translations(*translator, LINES, n_tokens=20) and workers.pool is not None


def process(model, source):
    """A search that answers with the process and its number of threads."""
    return [[os.getpid(), torch.get_num_threads()] for _ in source]


def sizes(model, source):
    """A search that answers with each row's first token, and with how many rows there are."""
    return [[int(row[0]), len(source)] for row in source]


def test_the_batches_are_searched_elsewhere_with_one_thread_each(translator):
    torch.set_num_threads(2)
    with Workers(translator[0], 2, few=0) as workers:
        found = [row for rows in workers.search(process, [[[4]], [[5, 6], [7]], [[8]]]) for row in rows]
        assert len(found) == 4 and os.getpid() not in {pid for pid, _ in found}
        assert {threads for _, threads in found} == {1}


def test_a_batch_is_cut_where_there_are_more_processes_than_batches(translator):
    with Workers(translator[0], 3, few=0) as workers:
        (found,) = workers.search(sizes, [[[4], [5], [6], [7], [8], [9], [10]]])
        assert found == [[4, 3], [5, 2], [6, 2], [7, 3], [8, 2], [9, 2], [10, 3]]
        assert [*workers.search(sizes, [[[4]]])] == [[[4, 1]]]
        assert [*workers.search(sizes, [[[4], [5]], [[6]], [[7]]])] == [[[4, 2], [5, 2]], [[6, 1]], [[7, 1]]]


def test_the_matrices_are_packed_once_and_the_model_stays_as_it_was(translator):
    made = []

    def prepare(model):
        made.append(packed(model))
        return made[-1]

    with Workers(translator[0], 2, prepare, few=2) as workers:
        for batches in 2 * [[[[4]], [[5]]], [[[4]], [[5]], [[6]]]]:
            list(workers.search(kind, batches))
    assert len(made) == 1 and not any(p.is_shared() for p in translator[0].parameters())


def kind(model, source):
    """A search that answers with the class of the output layer."""
    return [type(model.generator.proj).__name__ for _ in source]


def as_it_is(model):
    return model


@pytest.mark.parametrize("batches", [[[[4]]], [[[4]], [[5]]]])
def test_each_process_prepares_the_model(translator, batches):
    for prepare in (packed, as_it_is):
        with Workers(translator[0], 2, prepare, few=0) as workers:
            found = {name for rows in workers.search(kind, batches) for name in rows}
        assert found == {type(prepare(translator[0]).generator.proj).__name__}


def test_a_few_sentences_are_searched_here_with_one_thread(translator):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with Workers(translator[0], 2, few=3) as workers:
            for found in workers.search(process, [[[4], [5]], [[6]]]):
                assert {(pid, threads) for pid, threads in found} == {(os.getpid(), 1)}
                assert torch.get_num_threads() == 2
            assert workers.pool is None
            for found in workers.search(process, [[[4], [5]], [[6], [7]]]):
                assert {threads for _, threads in found} == {1}
            assert workers.pool is not None
        with Workers(translator[0], 2) as workers:
            for n in 64, 65:
                assert len(next(workers.search(process, [n * [[4]]]))) == n
                assert (workers.pool is None) == (n == 64)
        with Workers(translator[0], 1, few=1) as workers:  # many, and no other process: with all threads
            assert [found[0][1] for found in workers.search(process, [[[4], [5]]])] == [2]
    finally:
        torch.set_num_threads(before)


def fails(model, source):
    raise ValueError(f"no answer to {source.tolist()}")


def test_what_fails_in_a_worker_fails_here(translator):
    failing = pytest.raises(ValueError, match=r"no answer to \[\[4\]\]")
    with Workers(translator[0], 2, few=0) as workers, failing:
        list(workers.search(fails, [[[4]], [[5]]]))


@pytest.mark.skipif(sys.platform == "win32", reason="other signals")
def test_ctrl_c_is_the_parents_and_what_fails_in_the_parent_ends_them_at_once(translator):
    with pytest.raises(ZeroDivisionError), Workers(translator[0], 2, few=0) as workers:
        list(workers.search(process, [[[4]], [[5]]]))
        ends = workers.processes
        for worker in ends:
            os.kill(worker.pid, signal.SIGINT)
        assert [len(rows) for rows in workers.search(process, [[[4]], [[5], [6]]])] == [1, 2]
        1 / 0  # noqa: B018
    assert {worker.exitcode for worker in ends} == {-signal.SIGTERM}


def begins_and_ends(path, model, source):
    name = int(source[0, 0])
    (path / f"{name} begun").touch()
    time.sleep(0.2)
    (path / f"{name} ended").touch()
    return source.tolist()


def test_who_has_seen_enough_waits_for_no_batch_that_has_not_begun(translator, tmp_path):
    with Workers(translator[0], 2, few=0) as workers:
        found = workers.search(partial(begins_and_ends, tmp_path), [[[i]] for i in range(4, 44)])
        assert next(found) == [[4]]
        workers.close()
    begun, ended = (
        {path.name.split()[0] for path in tmp_path.glob(f"* {word}")} for word in ("begun", "ended")
    )
    assert begun == ended and len(begun) < 20


def exits(model, source):
    os._exit(7)


def is_killed(model, source):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    "search, words",
    [
        (exits, "One of 2 workers has ended with status 7"),
        (is_killed, "by the signal SIGKILL.* want of memory"),
    ],
)
def test_a_process_that_ends_is_no_silence_and_the_next_call_starts_others(translator, search, words):
    with Workers(translator[0], 2, few=0) as workers:
        for _ in range(2):
            with pytest.raises(ChildProcessError, match=words):
                list(workers.search(search, [[[4]], [[5]]]))
        assert [len(rows) for rows in workers.search(process, [[[4]], [[5], [6]]])] == [1, 2]


def test_how_the_first_process_ended():
    codes = {
        (None, -15, -9): "was ended by the signal SIGKILL, as the system does for want of memory",
        (-11, -15): "was ended by the signal SIGSEGV",
        (0, 3): "has ended with status 3",
        (1,): "has ended with status 1",
        (None, -15): "has ended before its time",
    }
    for given, words in codes.items():
        assert ending([SimpleNamespace(exitcode=code) for code in given]) == words


def cannot(model):
    raise MemoryError("nothing left")


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_a_model_that_cannot_be_prepared_says_why(translator, monkeypatch, platform):
    monkeypatch.setattr("heed.workers.sys.platform", platform)
    with (
        Workers(translator[0], 2, cannot, few=0) as workers,
        pytest.raises(MemoryError, match="nothing left"),
    ):
        list(workers.search(process, [[[4]], [[5]]]))


def tells_and_waits(path, model, source):
    (path / str(os.getpid())).touch()
    time.sleep(100)


def parent(path):
    """Start two workers, and wait for them."""
    torch.manual_seed(0)
    with Workers(make_model(9, 9, 1, 8, 8, 2).eval(), 2, few=0) as workers:
        list(workers.search(partial(tells_and_waits, path), [[[4]], [[5]]]))


@pytest.mark.skipif(sys.platform == "win32", reason="other signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_parent_however_it_ends(tmp_path, number):
    process = tiny.processes.Process(target=parent, args=(tmp_path,))
    process.start()
    for _ in range(3000):
        pids = [int(path.name) for path in tmp_path.iterdir()]
        if len(pids) == 2:
            break
        time.sleep(0.01)
    os.kill(process.pid, number)
    process.join()
    for _ in range(500):
        if not any(map(alive, pids)):
            return
        time.sleep(0.01)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    pytest.fail(f"the workers {pids} live on")


def alive(pid):
    try:
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").split()[2]
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_mistakes_are_answered_in_words(translator):
    with pytest.raises(ValueError, match="one process or more, on a CPU; got 0 on cpu"):
        Workers(translator[0], 0)
    with pytest.raises(ValueError, match="got 2 on meta"):
        Workers(make_model(9, 9, 1, 8, 8, 2).to("meta"), 2)
