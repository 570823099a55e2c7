"""The log of chapter 01's part on threads belongs to its script and carries what the text says."""

from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "assets" / "01_recurrent_networks" / "threads.py"


def test_every_job_was_timed(script, log):
    assert log["hardware"] == script.HARDWARE and log["threads"] == list(script.THREADS)
    jobs = [(layer, n) for layer, lengths in script.JOBS.items() for n in lengths]
    assert [(entry["layer"], entry["words"]) for entry in log["times"]] == jobs
    assert all(set(entry["milliseconds"]) == {"1", "2"} for entry in log["times"])


def test_a_second_thread_shortens_no_chain(log):
    times = {(entry["layer"], entry["words"]): entry["milliseconds"] for entry in log["times"]}
    gain = {job: its["1"] / its["2"] for job, its in times.items()}
    assert max(gain["recurrence", n] for n in (32, 128)) < 1.1
    assert gain["convolution", 8192] > 1.3
    assert times["recurrence", 128]["1"] > 10 * times["convolution", 128]["1"]
