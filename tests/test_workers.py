"""Processes that share one model give the answers that one process gives, in the same order."""

import os
from functools import partial

import pytest
import torch

from heed.decode import beam, greedy, translate
from heed.speed import packed
from heed.text import Subwords
from heed.transformer import make_model
from heed.workers import Workers

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
    alone = translate(*translator, lines, search, n_tokens=20)
    with Workers(translator[0], n) as workers:
        assert translate(*translator, lines, search, n_tokens=20, workers=workers) == alone
        assert translate(*translator, lines[::-1], search, n_tokens=20, workers=workers) == alone[::-1]
    assert len(set(alone)) > 6 and alone[5] == ""


def test_where_processes_cannot_be_forked_they_are_spawned(translator, monkeypatch):
    monkeypatch.setattr("heed.workers.sys.platform", "darwin")
    with Workers(translator[0], 2) as workers:
        found = translate(*translator, LINES, n_tokens=20, workers=workers)
        assert found == translate(*translator, LINES, n_tokens=20) and workers.pool is not None


def process(model, source):
    """A search that answers with the process and its number of threads."""
    return [[os.getpid(), torch.get_num_threads(), model.encoder.norm.a.data_ptr()] for _ in source]


def test_the_batches_are_searched_elsewhere_with_one_thread_each_and_the_same_memory(translator):
    with Workers(translator[0], 2) as workers:
        found = [row for rows in workers.search(process, [[[4]], [[5, 6], [7]], [[8]]]) for row in rows]
        assert len(found) == 4 and os.getpid() not in {pid for pid, _, _ in found}
        assert {threads for _, threads, _ in found} == {1}
        assert translator[0].encoder.norm.a.is_shared()


def kind(model, source):
    """A search that answers with the class of the output layer."""
    return [type(model.generator.proj).__name__ for _ in source]


def as_it_is(model):
    return model


@pytest.mark.parametrize("batches", [[[[4]]], [[[4]], [[5]]]])
def test_each_process_prepares_the_model(translator, batches):
    for prepare in (packed, as_it_is):
        with Workers(translator[0], 2, prepare) as workers:
            found = {name for rows in workers.search(kind, batches) for name in rows}
        assert found == {type(prepare(translator[0]).generator.proj).__name__}


def test_one_batch_is_not_worth_a_process(translator):
    with Workers(translator[0], 2) as workers:
        (found,) = workers.search(process, [[[4], [5]]])
        assert {pid for pid, _, _ in found} == {os.getpid()} and workers.pool is None


def fails(model, source):
    raise ValueError(f"no answer to {source.tolist()}")


def test_what_fails_in_a_worker_fails_here(translator):
    with Workers(translator[0], 2) as workers, pytest.raises(ValueError, match=r"no answer to \[\[4\]\]"):
        list(workers.search(fails, [[[4]], [[5]]]))


def dies(model, source):
    os._exit(1)


def test_a_process_that_the_system_ends_is_no_silence(translator):
    ended = pytest.raises(ChildProcessError, match="one of 2 workers")
    with Workers(translator[0], 2) as workers, ended:
        list(workers.search(dies, [[[4]], [[5]]]))


def test_mistakes_are_answered_in_words(translator):
    with pytest.raises(ValueError, match="one process or more, on a CPU; got 0 on cpu"):
        Workers(translator[0], 0)
    with pytest.raises(ValueError, match="got 2 on meta"):
        Workers(make_model(9, 9, 1, 8, 8, 2).to("meta"), 2)
