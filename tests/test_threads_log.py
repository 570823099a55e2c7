"""The log of chapter 01's part on threads belongs to its script and carries what the text says."""

from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "assets" / "01_recurrent_networks" / "threads.py"


def test_every_job_was_timed(script, log):
    assert log["hardware"] == script.HARDWARE and log["threads"] == list(script.THREADS)
    jobs = [(b, n, layer) for b, n in script.JOBS for layer in ("recurrence", "convolution")]
    assert [(entry["sentences"], entry["words"], entry["layer"]) for entry in log["times"]] == jobs
    assert all(set(entry["milliseconds"]) == {"1", "2"} for entry in log["times"])


def test_a_second_thread_shortens_no_chain(log):
    gain = {
        (entry["layer"], entry["sentences"], entry["words"]):
            entry["milliseconds"]["1"] / entry["milliseconds"]["2"]
        for entry in log["times"]
    }  # fmt: skip
    assert max(gain["recurrence", 1, n] for n in (32, 128)) < 1.1
    assert gain["convolution", 1, 128] > 1.2
