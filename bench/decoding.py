"""Decoding: the test sentences greedily, at equal lengths: ours, Hugging Face's `generate`, CTranslate2.

Each in one process with all threads, and with workers, one a core: a batch each, a thread each.
"""

import tempfile
from functools import partial
from pathlib import Path

import torch

from bench import peers
from bench.contest import contest, ratio
from heed.decode import greedy
from heed.recipe.export import engine, specification
from heed.speed import keep_memory, packed, quick
from heed.text import EOS, PAD
from heed.transformer import make_model, tie
from heed.workers import Workers

IMPOSSIBLE = -6e4  # added to the score of EOS, so that all lengths are equal
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
KINDS = ("float32", "int8")  # of CTranslate2's matrices


def in_batches(sources, n_tokens=4096):
    """Lists of ids in batches of like length, the longest first, as `heed.decode.translations` makes them."""
    order, made = sorted(sources, key=len, reverse=True), []
    while order:
        n = max(1, n_tokens // len(order[0]))
        made.append(order[:n])
        order = order[n:]
    return made


def as_it_is(model):
    """What workers make of a peer's model: nothing."""
    return model


def searched(turns, model, search, size, n_workers, prepare=as_it_is):
    """Round after round, all sentences by one search: in this process, or by so many workers."""
    batches = in_batches(size.sources)
    with Workers(model, max(1, n_workers), prepare) as workers:
        while True:
            turns.next()
            assert sum(map(len, workers.search(search, batches))) == len(size.sources)


def to_length(model, source, n):
    """Greedy decoding as the commands do it."""
    said = greedy(model, source, n_max=n)
    assert all(len(row) == n for row in said)
    return said


def ours(turns, size, dtype, n_workers):
    """heed's. n_workers: 0 for none."""
    keep_memory()
    model = quick(tie(make_model(size.vocab, size.vocab, **size.model))).eval().to(dtype)
    model.generator.proj.bias.data[EOS] = IMPOSSIBLE
    searched(turns, model, partial(to_length, n=size.written), size, n_workers, packed)


def by_generate(model, source, n):
    """Hugging Face's search, with its cache."""
    settings = {"max_new_tokens": n, "num_beams": 1, "do_sample": False, "use_cache": True}
    said = model.generate(source, attention_mask=(source != PAD).long(), **settings)
    assert said.shape[1] == n + 1
    return said.tolist()


def generate(turns, size, dtype, kept, n_workers):
    """Hugging Face's, on the same batches. kept: whether freed memory is kept. n_workers: 0 for none."""
    if kept:
        keep_memory()
    model = peers.marian(size.vocab, **size.model).eval().to(dtype)
    model.final_logits_bias[0, EOS] = IMPOSSIBLE
    searched(turns, model, partial(by_generate, n=size.written), size, n_workers)


def ctranslate2(turns, size, kind, n_workers):
    """The engine that does nothing but translate. n_workers: 0 for one batch at a time, with all threads."""
    model = tie(make_model(size.vocab, size.vocab, **size.model)).eval()
    model.generator.proj.bias.data[EOS] = IMPOSSIBLE
    spec, tokens = specification(model), [str(i) for i in range(size.vocab)]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = tokens[3], tokens[1], tokens[EOS]
    spec.config.decoder_start_token = tokens[1]
    spec.validate()
    spec.optimize(quantization=kind)
    threads = torch.get_num_threads()
    with tempfile.TemporaryDirectory() as folder:
        to = Path(folder) / "model"
        to.mkdir()
        spec.save(str(to))
        made = engine().Translator(
            str(to), inter_threads=n_workers or 1, intra_threads=1 if n_workers else threads
        )
        rows = [[tokens[i] for i in row] for row in size.sources]
        settings = {"beam_size": 1, "max_decoding_length": size.written, "max_input_length": 0}
        while True:
            turns.next()
            said = made.translate_batch(rows, max_batch_size=4096, batch_type="tokens", **settings)
            assert all(len(each.hypotheses[0]) == size.written for each in said)


def contestants(size):
    """name -> what `contest` wants: a function, and what it is given."""
    n = torch.get_num_threads()
    work = {}
    for name, dtype in DTYPES.items():
        work[f"heed, {name}"] = ours, size, dtype, 0
        work[f"heed, {name}, workers"] = ours, size, dtype, n
    if peers.has_transformers():
        for name, dtype in DTYPES.items():
            work[f"generate, {name}"] = generate, size, dtype, False, 0
            work[f"generate, {name}, memory kept"] = generate, size, dtype, True, 0
            work[f"generate, {name}, workers"] = generate, size, dtype, True, n
    if peers.has_ctranslate2():
        for kind in KINDS:
            work[f"CTranslate2, {kind}"] = ctranslate2, size, kind, 0
            work[f"CTranslate2, {kind}, workers"] = ctranslate2, size, kind, n
    return work


def decoding(size):
    """Measure all, in several precisions. Returns (results, log), as `training` does."""
    seconds = contest(contestants(size), size.rounds)
    speed = {name: [len(size.sources) / s for s in times] for name, times in seconds.items()}
    results = {}
    for name in DTYPES:
        for peer in (f"generate, {name}", f"generate, {name}, memory kept", f"generate, {name}, workers"):
            if peer in speed:
                results[f"heed, workers ÷ {peer}"] = ratio(speed[f"heed, {name}, workers"], speed[peer])
        if f"generate, {name}" in speed:
            results[f"heed ÷ generate, {name}"] = ratio(speed[f"heed, {name}"], speed[f"generate, {name}"])
    for kind in KINDS:
        for peer in (f"CTranslate2, {kind}", f"CTranslate2, {kind}, workers"):
            if peer in speed:
                results[f"heed, workers ÷ {peer}"] = ratio(speed["heed, float32, workers"], speed[peer])
    return results, {"sentences a second": {name: [round(x) for x in each] for name, each in speed.items()}}
