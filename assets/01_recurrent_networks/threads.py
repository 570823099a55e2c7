"""What a second thread is worth: a recurrent layer and a convolution, timed with one thread and with two.

    python threads.py

writes threads.json beside this file, in a minute or two. Forward and backward pass together, float32, 64
numbers a word in and out; the shortest of many passes, since other work only makes a pass longer. The two
numbers of threads take turns, so that both meet the same moments of the machine.
"""

import json
import platform
import time
from pathlib import Path

import torch
from torch import nn

import heed

THREADS = (1, 2)
JOBS = {"recurrence": (32, 128), "convolution": (32, 128, 8192)}  # words, of one sentence
HARDWARE = "2 cores of an x86-64 server processor, shared with other work; float32"
LOG = Path(__file__).with_name("threads.json")


def milliseconds(layer, x, n_passes):
    """The shortest of the passes, by number of threads."""
    best = dict.fromkeys(THREADS, float("inf"))
    for _ in range(n_passes):
        for threads in THREADS:
            torch.set_num_threads(threads)
            layer(x).sum().backward()  # warm up
            began = time.perf_counter()
            layer(x).sum().backward()
            best[threads] = min(best[threads], 1000 * (time.perf_counter() - began))
    return best


def main(n_passes=40):
    rnn, convolution = nn.RNN(64, 64, batch_first=True), nn.Conv1d(64, 64, kernel_size=3, padding=1)
    layers = {"recurrence": lambda x: rnn(x)[0], "convolution": lambda x: convolution(x.mT)}
    versions = {"heed": heed.__version__, "torch": torch.__version__, "python": platform.python_version()}
    log = {"versions": versions, "hardware": HARDWARE, "threads": THREADS, "passes": n_passes, "times": []}
    for name, lengths in JOBS.items():
        for n in lengths:
            best = milliseconds(layers[name], torch.randn(1, n, 64), n_passes)
            log["times"].append({"layer": name, "words": n, "milliseconds": best})
            print(log["times"][-1], flush=True)
    LOG.write_text(json.dumps(log, indent=1) + "\n")


if __name__ == "__main__":
    main()
