"""The committed log behind section 3.9 belongs to the script beside it, and is whole."""

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "assets" / "03_additive_attention"
SCRIPT = FOLDER / "patience.py"


def test_every_model_has_its_seeds_and_updates(script, log):
    assert log["seeds"] == list(script.SEEDS) and log["hardware"] == script.HARDWARE
    assert set(log["exact"]) == set(log["seconds"]) == set(script.UPDATES)
    for name, n in script.UPDATES.items():
        assert log["updates"][name] == list(range(0, n + 1, script.EVERY))
        assert [len(run) for run in log["exact"][name]] == [n // script.EVERY + 1] * len(script.SEEDS)


def test_on_one_schedule_every_run_ends_at_the_goal(script, log):
    assert set(log["exact, same schedule"]) == set(script.UPDATES) - {"plain"}
    for runs in log["exact, same schedule"].values():
        assert len(runs) == len(script.SEEDS)
        assert all(max(run[:-1]) < script.GOAL <= run[-1] for run in runs)


def test_a_run_ends_after_its_updates_or_at_the_goal(script, monkeypatch):
    monkeypatch.setattr(script, "EVERY", 1)
    assert len(script.learn("no query", seed=0, updates=2)[0]) == 3
    assert script.learn("plain", seed=0, updates=2, goal=0.0)[0] == [0.0]
