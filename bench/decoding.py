"""Decoding: the test sentences greedily, ours and Hugging Face's `generate`, at equal lengths."""

import torch

from bench import peers
from bench.contest import contest, ratio
from heed.data import pad
from heed.decode import greedy
from heed.speed import keep_memory, quick
from heed.text import EOS, PAD
from heed.transformer import make_model, tie


def in_batches(sources, n_tokens=4096):
    """Sentences in batches of like length, the longest first, as `heed.decode.translate` makes them."""
    order, made = sorted(sources, key=len, reverse=True), []
    while order:
        n = max(1, n_tokens // len(order[0]))
        made.append(pad(order[:n]))
        order = order[n:]
    return made


def ours(turns, size, dtype):
    """Greedy decoding as the commands do it. The end is made impossible, so that all lengths are equal."""
    keep_memory()
    model = quick(tie(make_model(size.vocab, size.vocab, **size.model))).eval().to(dtype)
    model.generator.proj.bias.data[EOS] = float("-inf")
    batches = in_batches(size.sources)
    while True:
        turns.next()
        for source in batches:
            for said in greedy(model, source, n_max=size.written):
                assert len(said) == size.written


def generate(turns, size, dtype, kept):
    """Hugging Face's, with its cache, on the same batches. kept: whether freed memory is kept."""
    if kept:
        keep_memory()
    model = peers.marian(size.vocab, **size.model).eval().to(dtype)
    model.final_logits_bias[0, EOS] = float("-inf")
    batches = in_batches(size.sources)
    settings = {"max_new_tokens": size.written, "num_beams": 1, "do_sample": False, "use_cache": True}
    while True:
        turns.next()
        for source in batches:
            said = model.generate(source, attention_mask=(source != PAD).long(), **settings)
            assert said.shape[1] == size.written + 1


def decoding(size):
    """Measure both, in float32 and in bfloat16. Returns (results, log), as `training` does."""
    dtypes = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    work = {f"heed, {name}": (ours, size, dtype) for name, dtype in dtypes.items()}
    if peers.has_transformers():
        for name, dtype in dtypes.items():
            work[f"generate, {name}"] = generate, size, dtype, False
            work[f"generate, {name}, memory kept"] = generate, size, dtype, True
    seconds = contest(work, size.rounds)
    speed = {name: [len(size.sources) / s for s in times] for name, times in seconds.items()}
    results = {}
    if peers.has_transformers():
        for name in dtypes:
            for peer in (f"generate, {name}", f"generate, {name}, memory kept"):
                results[f"heed ÷ {peer}"] = ratio(speed[f"heed, {name}"], speed[peer])
    return results, {"sentences a second": {name: [round(x) for x in each] for name, each in speed.items()}}
