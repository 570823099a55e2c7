"""What an update costs beside other programs: the script's turns, and its committed log."""

import json

import torch

from bench import busy


def test_with_one_thread_and_with_all_by_turns_and_nothing_is_left(monkeypatch):
    asked, started = [], []

    class Program:
        def __init__(self, words):
            started.append(self)

        def kill(self):
            self.ended = True

        def wait(self):
            assert self.ended

    monkeypatch.setattr(busy.subprocess, "Popen", Program)
    monkeypatch.setattr(busy, "choose_threads", lambda: torch.get_num_threads())
    monkeypatch.setattr(busy, "seconds_an_update", lambda data, n, updates: asked.append(n) or n / 10)
    torch.set_num_threads(3)
    row = busy.beside(2, None, 9, rounds=2)
    assert asked == [1, 3, 1, 3] and torch.get_num_threads() == 3
    assert row == {
        "other programs": 2, "chosen": [3, 3], "seconds an update": {1: [0.1, 0.1], 3: [0.3, 0.3]}
    }  # fmt: skip
    assert len(started) == 2 and all(program.ended for program in started)


def test_the_page_tells_the_log():
    page = (busy.LOG.parents[2] / "bench" / "README.md").read_text(encoding="utf-8")
    words = {0: "none", 1: "one", 2: "two"}
    for row in json.loads(busy.LOG.read_text(encoding="utf-8"))["beside"]:
        one, two = (sorted(found) for found in row["seconds an update"].values())
        cells = [words[row["other programs"]], *(", ".join(f"{s:.2f}" for s in each) for each in (one, two))]
        chosen = ", ".join(words[n] for n in row["chosen"])
        assert f"| {' | '.join(cells)} | {chosen} |" in page
