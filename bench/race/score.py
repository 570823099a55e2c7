"""What the kept weights are worth: the held-out loss, and BLEU of greedy translations, the same for all."""

import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch
from torch.nn import functional as F

from bench.race.contestants import CONTESTANTS, device_of
from bench.race.data import read
from heed.data import TokenBatches, pad
from heed.engine import batch_to
from heed.evaluate import bleu
from heed.recipe import encoded
from heed.text import BOS, EOS, PAD

AT_A_TIME = 4096  # tokens
given = {}  # in a process that scores: the data


@torch.no_grad()
def held_out_loss(contestant, model, pairs, tokens):
    """Cross-entropy of the next token without smoothing, the mean over all target tokens of the pairs."""
    batches = TokenBatches(pairs, max(tokens, *(max(map(len, pair)) for pair in pairs)))
    total, n = 0.0, 0
    for rows in batches.epoch(0):
        batch = batch_to(batches.batch(rows), device_of(model))
        logits = contestant.logits(model, contestant.memory(model, batch.source), batch.target_in).float()
        target = batch.target_out
        total += F.cross_entropy(
            logits.flatten(0, 1), target.flatten(), ignore_index=PAD, reduction="sum"
        ).item()
        n += batch.n_tokens
    return total / n


@torch.no_grad()
def greedy(contestant, model, source, n_max):
    """The likeliest token, again and again, by the scores alone: no cache, the same for every model.

    source: (b, n_source), padded on the right
    n_max: the most tokens to write, EOS among them

    Returns b lists of ids, without EOS.
    """
    said, rows = [[] for _ in source], torch.arange(len(source), device=source.device)
    memory, written = contestant.memory(model, source), source.new_full((len(source), 1), BOS)
    for _ in range(n_max):
        y = contestant.logits(model, memory, written, last=True)[:, -1].argmax(dim=-1)
        on = y != EOS
        for row, token in zip(rows[on].tolist(), y[on].tolist(), strict=True):
            said[row].append(token)
        if not on.any():
            break
        rows, memory = rows[on], tuple(part[on] for part in memory)
        written = torch.cat([written[on], y[on, None]], dim=1)
    return said


def translated(contestant, model, subwords, sentences, n_max=None):
    """Sentences in batches of like length; none becomes longer than half again its source, and ten tokens."""
    ids = [subwords.encode(sentence) for sentence in sentences]
    order, said = sorted(range(len(ids)), key=lambda i: -len(ids[i])), [""] * len(ids)
    while order:
        n = len(ids[order[0]])
        now, order = order[: max(1, AT_A_TIME // n)], order[max(1, AT_A_TIME // n) :]
        source = pad([ids[i] for i in now]).to(device_of(model))
        rows = greedy(contestant, model, source, n_max or n + n // 2 + 10)
        for i, row in zip(now, rows, strict=True):
            said[i] = subwords.decode(row)
    return said


def score(job, device="cpu"):
    """Measure one file of weights. job: (name, seed, file, n, test). Returns what is to be kept of it.

    n: so many of the held-out captions are translated
    test: whether the test captions are, too
    """
    name, seed, file, n, test = job
    data, contestant = given["data"], CONTESTANTS[name]
    model = contestant.build(len(data.subwords), data.model, seed)
    model.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
    model.to(device).eval()
    found = {"loss": held_out_loss(contestant, model, encoded(data.held_out, data.subwords), data.tokens)}
    for what, pairs in (("bleu", data.held_out[:n]), ("test", data.test if test else [])):
        if pairs:
            sources, references = zip(*pairs, strict=True)
            said = translated(contestant, model, data.subwords, sources)
            found[what] = bleu(said, references, n_resamples=1).value
    return {key: round(value, 4) for key, value in found.items()}


def begin(data):
    """In a process that scores: one thread."""
    torch.set_num_threads(1)
    given["data"] = data


def lines(folder):
    """The lines of a training's log, which may be going on."""
    text = (folder / "log.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def to_score(folder, n, parts=None):
    """What has not been measured yet: pairs (job, (folder of the training, part)); the last parts first."""
    found = []
    for run in sorted(folder.glob("*/log.jsonl")):
        (facts, *kept), done = lines(run.parent) or [{}], scores(run.parent)
        for line in kept:
            if str(line["part"]) not in done and (not parts or line["part"] in parts):
                job = (
                    facts["name"],
                    facts["seed"],
                    run.parent / line["file"],
                    n,
                    line["part"] == facts["parts"],
                )
                found.append((job, (run.parent, line["part"])))
    return sorted(found, key=lambda pair: -pair[1][1])


def ended(folder):
    """Whether there are trainings in the folder, and all have come to their end."""
    runs = [lines(run.parent) for run in folder.glob("*/log.jsonl")]
    return bool(runs) and all(bool(run) and run[-1].get("part") == run[0]["parts"] for run in runs)


def score_all(folder, n, processes=None, parts=None, device="cpu", watch=None, n_pairs=None):
    """Measure all weights of all trainings in the folder that have not been measured; each gets scores.json.

    n: so many held-out captions are translated; the test captions are after the last part of a run
    parts: only these parts of each run, else all
    device: where the models compute
    n_pairs: as `read` has it
    watch: for so many seconds at the most new weights are waited for, until all trainings have ended
    """
    data, began, failed = read(folder, n_pairs), time.monotonic(), set()
    context = get_context("fork" if hasattr(os, "fork") else "spawn")
    with ProcessPoolExecutor(processes or os.cpu_count(), context, begin, (data,)) as pool:
        while True:
            over = watch is None or time.monotonic() - began > watch or ended(folder)
            jobs = [pair for pair in to_score(folder, n, parts) if pair[1] not in failed]
            told = [(pool.submit(score, job, device), place) for job, place in jobs]
            for future, (place, part) in told:
                try:
                    done = scores(place) | {str(part): future.result()}
                except Exception as error:  # the others are measured all the same
                    print(f"{place.name} {part} cannot be measured: {error!r}", flush=True)
                    failed.add((place, part))
                    continue
                (place / "scores.json").write_text(json.dumps(done, indent=1), encoding="utf-8", newline="\n")
                print(place.name, part, done[str(part)], flush=True)
            if over:
                break
            time.sleep(0 if jobs else 1)


def scores(folder):
    """What has been measured in this folder: part -> loss, bleu, test."""
    file = folder / "scores.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def gathered(folder):
    """All trainings of the folder that have been measured, as the log of a race holds them."""
    runs = []
    for log in sorted(folder.glob("*/log.jsonl")):
        (facts, *kept), done = lines(log.parent), scores(log.parent)
        keys = ("part", "minute", "updates", "tokens") if facts["minutes"] else ("part", "updates", "tokens")
        points = [
            {key: line[key] for key in keys} | done[str(line["part"])]
            for line in kept
            if str(line["part"]) in done
        ]
        runs.append(facts | {"points": points})
    return runs
