"""What a GPU makes of the library: a model of 200 million parameters, the cost of a step.

    python -m bench.gpu large --to runs/gpu.json
    python -m bench.gpu step --to runs/gpu.json

`large` is tokens a second of `fit`, their share of the rate of a large product of matrices on the same
device, and where the time goes. `step` is milliseconds of a training step, Transformer beside recurrent
network with attention, as width, length and threads grow.

Both want the machine for themselves. A result goes into the log as soon as it is there; what
fails leaves its traceback there, and the others go on.
"""

import argparse
import datetime
import gc
import json
import os
import platform
import signal
import statistics
import sys
import tempfile
import time
import traceback
import warnings
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

import torch
from torch.nn import functional as F

from bench.__main__ import machine
from bench.contest import Rounds
from bench.training import operations
from heed.alignment import AttentionSeq2Seq
from heed.data import Batch, TokenBatches
from heed.engine import batch_to, choose_device, fit, make_optimizers
from heed.engine.devices import synchronize
from heed.engine.parallel import SingleProcess
from heed.loss import translation_loss
from heed.speed import linear_cross_entropy, quick
from heed.text import BOS, EOS, PAD
from heed.transformer import make_model, tie


@dataclass(frozen=True)
class Sizes:
    """How large everything is. The defaults are those of the committed logs.

    limits: seconds, a part; what has not begun by then is left out
    side: of the square matrices whose product shows the device's rate
    model, vocab, width: of `large`; its sentences are all of `width` tokens
    tokens: target tokens in a batch of `large`, each with as many updates in a round
    usual: of these, the one of the profile and of the variants
    compiled: whether the layers are compiled as well, which takes a compiler and half a minute
    layers, step_vocab: of `step`
    widths, lengths: of `step`, one of them varied at a time from `base`, with `step_tokens` in a batch
    few: the same on the processor, with fewer tokens; `threads` there
    least, most: updates that are timed; and no more when `seconds` are over
    """

    limits: dict = field(default_factory=lambda: {"large": 110, "step": 80})
    side: int = 8192
    model: dict = field(
        default_factory=lambda: {"n_layers": 6, "d_model": 1024, "d_ff": 4096, "n_heads": 16, "dropout": 0.0}
    )
    vocab: int = 32_000
    width: int = 256
    tokens: dict = field(default_factory=lambda: {4096: 20, 16384: 10, 65536: 4})
    usual: int = 16384
    rounds: int = 3
    compiled: bool = True
    layers: int = 3
    step_vocab: int = 1000
    base: tuple = (256, 32)
    widths: tuple = (128, 256, 512, 1024)
    lengths: tuple = (16, 32, 64, 128, 256, 512)
    step_tokens: int = 4096
    few_widths: tuple = (128, 512)
    few_lengths: tuple = (16, 128)
    few_tokens: int = 512
    threads: tuple = (1, 2, 4, 8, 16)
    few_threads: tuple = (1, 4, 16)
    least: int = 3
    most: int = 20
    seconds: float = 0.5


TINY = Sizes(
    side=64,
    model={"n_layers": 1, "d_model": 16, "d_ff": 24, "n_heads": 2, "dropout": 0.0},
    vocab=61, width=8, tokens={16: 1, 32: 1}, usual=16, rounds=1, compiled=False,
    layers=1, step_vocab=23, base=(8, 6), widths=(8, 12), lengths=(4, 6), step_tokens=24,
    few_widths=(12,), few_lengths=(4,), few_tokens=12, threads=(1, 2), few_threads=(1,),
    least=1, most=2, seconds=0.01,
)  # fmt: skip


# --- The log ------------------------------------------------------------------------------------------------


class Log:
    """One part of a log, a JSON file that is whole after every result.

    file: where it is; other parts in it stay
    part: the name of this one
    seconds: after which nothing more is begun
    """

    def __init__(self, file, part, seconds, device):
        self.file, self.part, self.limit, self.began = file, part, seconds, time.monotonic()
        self.found = {"device": named(device), "date": datetime.date.today().isoformat()}
        self.found |= {"torch": torch.__version__, "python": platform.python_version()}
        self.store()

    def add(self, name, value):
        """Keep a result, and print it."""
        self.found[name] = value
        self.found["seconds"] = round(time.monotonic() - self.began, 1)
        self.store()
        print(f"{self.found['seconds']:6.1f} s  {self.part}, {name}: {shown(value)}", flush=True)

    def store(self):
        there = json.loads(self.file.read_text(encoding="utf-8")) if self.file.is_file() else {}
        there[self.part] = self.found
        self.file.parent.mkdir(parents=True, exist_ok=True)
        beside = self.file.with_name(f"{self.file.name}.{os.getpid()}.part")
        text = json.dumps(there, indent=1, ensure_ascii=False) + "\n"
        beside.write_text(text, encoding="utf-8", newline="\n")
        os.replace(beside, self.file)

    def measure(self, name, function, *given):
        """Keep what a function returns under a name; if it fails, its traceback. Returns it, or None."""
        left = self.limit - (time.monotonic() - self.began)
        if left <= 0:
            self.add(name, {"left out": f"the {self.limit} seconds are over"})
            return None
        try:
            with at_most(left + 5):
                value = function(*given)
        except Exception:  # whatever it is, the next measurement may work
            text = traceback.format_exc()
            self.add(name, {"failed": [text[:1500], text[-1500:]] if len(text) > 3000 else text})
            return None
        finally:
            free()
        self.add(name, value)
        return value


def shown(value):
    """A result as a line can hold it."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 400 else f"{text[:400]} …"


@contextmanager
def at_most(seconds):
    """TimeoutError in what is inside, after so many seconds; where the system has no alarm, never."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def late(*_):
        raise TimeoutError(f"It took longer than {seconds:.0f} seconds.")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def free():
    """Give back what a measurement has left on the device."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def named(device):
    """The device in words, and the processor beside it."""
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)}; {machine()}, {os.cpu_count()} cores"
    return machine()


# --- A large model ------------------------------------------------------------------------------------------


class Enough(Exception):
    """All rounds have been measured."""


class Stopwatch:
    """The seconds of each round of a `bench.contest.Rounds`; the first one warms up, and is not counted.

    during: a context that is open in the last round, such as a profiler
    """

    def __init__(self, device, rounds, during=None):
        self.device, self.left, self.during = device, rounds + 1, during or nullcontext()
        self.began, self.seconds = None, []

    def next(self):
        """A round begins, when the device has done what it was given. Raises Enough after the last."""
        synchronize(self.device)
        now = time.perf_counter()
        if self.began is not None:
            self.seconds.append(now - self.began)
        if self.left == 0:
            self.during.__exit__(None, None, None)
            self.seconds.pop(0)
            raise Enough
        self.left -= 1
        if self.left == 0:
            self.during.__enter__()
        self.began = time.perf_counter()


def full(n_rows, width, vocab, n_batches):
    """Batches without any padding: random tokens, sources and targets all of one length."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(4, vocab, (2, n_rows * n_batches, width), generator=generator).tolist()
    pairs = [(source, [BOS, *target[1:], EOS]) for source, target in zip(*drawn, strict=True)]
    return TokenBatches(pairs, n_rows * (width + 1))


def large(log, size, device):
    """Tokens a second of `fit` in bfloat16, and their share of what the device multiplies at best."""
    device = choose_device(device)
    rate = log.measure("rate", matrix_rate, device, size.side)
    model = log_model(log, size)
    given = device, size, (rate or {}).get("TFLOP a second")
    for tokens in size.tokens:
        for optimizer in ("adamw", "muon"):
            log.measure(f"{optimizer}, {tokens} tokens", trained, model, *given, tokens, optimizer)
    log.measure("waits", waits, model, *given)
    log.measure("profile", profile, model, *given)
    log.measure("all positions in the loss", trained, model, *given, size.usual, "muon", dense_loss)
    log.measure("attention by cuDNN", by_cudnn, model, *given)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.1
    log.measure("dropout 0.1", trained, model, *given, size.usual, "muon")
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    if size.compiled:
        log.measure("layers compiled", compiled, model, *given)


def log_model(log, size):
    """The model, and in the log what it is."""
    torch.manual_seed(0)
    model = quick(tie(make_model(size.vocab, size.vocab, **size.model)))
    n = sum(p.numel() for p in model.parameters())
    log.add("model", {
        **size.model, "vocab": size.vocab, "width": size.width, "parameters": n,
        "multiplied": n_multiplied(model),
        "how": "Encoder and decoder, one matrix for both embeddings and the output. All sentences have "
        "`width` tokens, sources and targets; tokens are target tokens, each with a source token beside it. "
        "6 N tokens: N counts all parameters, the shared matrix once, for the output multiplies it. "
        "Counted: matrix products forward and backward, attention included, its causal part half.",
    })  # fmt: skip
    return model


def n_multiplied(model):
    """Parameters in matrices, the shared one once: each is multiplied; norms and biases are left out."""
    return sum(p.numel() for p in model.parameters() if p.dim() > 1)


def matrix_rate(device, side, times=20):
    """The rate of a product of two square matrices in bfloat16, and of a copy on the device."""
    a, b = torch.randn(2, side, side, device=device).bfloat16()
    out = torch.empty_like(a)

    def seconds(function):
        tries = []
        for _ in range(3):
            for _ in range(3):
                function()
            synchronize(device)
            began = time.perf_counter()
            for _ in range(times):
                function()
            synchronize(device)
            tries.append((time.perf_counter() - began) / times)
        return statistics.median(tries)

    product, copy = seconds(lambda: torch.mm(a, b, out=out)), seconds(lambda: out.copy_(a))
    return {
        "side": side,
        "TFLOP a second": round(2 * side**3 / product / 1e12, 7),
        "GB a second, read and written": round(2 * a.numel() * 2 / copy / 1e9, 1),
    }


@contextmanager
def nothing_saved():
    """`fit` without its checkpoints: the first of a large model takes longer than all that is measured."""
    with mock.patch("heed.engine.run.save", lambda *given: None):
        yield


def rounds_of(model, device, size, tokens, optimizer, loss=translation_loss, rounds=None, during=None):
    """Seconds of each round of `fit`, and the updates in one."""
    steps, n_rows = size.tokens[tokens], tokens // size.width
    watch = Stopwatch(device, rounds or size.rounds, during)
    batches = Rounds(full(n_rows, size.width, size.vocab, steps), steps, watch)
    with tempfile.TemporaryDirectory() as folder, nothing_saved():
        try:
            fit(
                model, batches, loss, folder, updates=10_000, every=10_000, checkpoint_minutes=None,
                optimizer=optimizer, lr=1e-4, precision="bf16", device=str(device),
            )  # fmt: skip
        except Enough:
            pass
    return watch.seconds, steps


def trained(model, device, size, rate, tokens, optimizer, loss=translation_loss):
    """How fast `fit` trains with batches of so many tokens."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds, steps = rounds_of(model, device, size, tokens, optimizer, loss)
    return speed(model, device, size, rate, tokens, [each / steps for each in seconds])


def speed(model, device, size, rate, tokens, seconds):
    """Seconds of an update, as what is said of them. rate: TFLOP a second of a product, or None."""
    n_rows = tokens // size.width
    lengths = [(size.width, size.width)] * n_rows
    done, second = n_rows * size.width, statistics.median(seconds)
    by_n = 6 * sum(p.numel() for p in model.parameters()) * done / second / 1e12
    counted = operations(lengths, size.vocab, **size.model) / second / 1e12
    peak = torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else None
    return {
        "ms an update": [round(1000 * each, 2) for each in seconds],
        "tokens a second": round(done / second),
        "tokens a second, sources too": round(2 * done / second),
        "TFLOP a second, 6 N tokens": round(by_n, 7),
        "TFLOP a second, counted": round(counted, 7),
        "share of the rate, 6 N tokens": round(by_n / rate, 4) if rate else None,
        "share of the rate, counted": round(counted / rate, 4) if rate else None,
        "GiB at the most": peak and round(peak, 1),
    }


def dense_loss(model, batch):
    """`translation_loss` without the choice of real positions, which waits for the device: all are real."""
    x = model(batch.source, batch.target_in)
    proj = model.generator.proj
    return linear_cross_entropy(x.flatten(0, 1), proj.weight, proj.bias, batch.target_out.flatten(), 0.1)


def waits(model, device, size, rate):
    """Where the processor waits for the device in a round, as torch itself reports it: place -> an update."""
    tokens = min(size.tokens)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _, steps = rounds_of(model, device, size, tokens, "muon", rounds=1, during=Reported(device))
    found = {}
    for each in caught:
        if "called a synchronizing" in str(each.message):
            name = f"{short(each.filename)}:{each.lineno}"
            found[name] = found.get(name, 0) + 1
    return {
        "updates": steps, "a report of the log among them": "every 10 updates",
        "an update": {name: round(n / steps, 2) for name, n in sorted(found.items(), key=lambda e: -e[1])},
    }  # fmt: skip


class Reported:
    """While it is open, torch warns wherever the processor waits for the GPU."""

    def __init__(self, device):
        self.device = device

    def __enter__(self):
        if self.device.type == "cuda":
            torch.cuda.set_sync_debug_mode("warn")

    def __exit__(self, *error):
        if self.device.type == "cuda":
            torch.cuda.set_sync_debug_mode("default")


def short(path):
    """A file's name from the package on."""
    return "/".join(Path(path).parts[-3:])


GROUPS = {
    "attention": ("fmha", "flash", "attention", "sdpa", "cudnn_generated"),
    "softmax": ("softmax",),
    "optimizer": ("adam", "multi_tensor", "foreach"),
    "norm": ("layer_norm", "layernorm"),
    "products": ("gemm", "cutlass", "nvjet", "xmma", "mm_kernel"),
    "index": ("index", "scatter", "gather", "sort", "scan", "nonzero", "select"),
    "copies": ("memcpy", "copy", "memset", "cat"),
    "reductions": ("reduce",),
    "elementwise": ("elementwise", "vectorized", "fill"),
}


def group(name):
    """What kind of work a kernel does, by its name: the first that fits."""
    low = name.lower()
    return next((kind for kind, words in GROUPS.items() if any(word in low for word in words)), "other")


def profile(model, device, size, rate):
    """Where the time of an update with Muon goes: kernels, and kinds of them, in milliseconds."""
    from torch.profiler import ProfilerActivity

    cuda = device.type == "cuda"
    kinds = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if cuda else [])
    profiler = torch.profiler.profile(activities=kinds)
    fewer = {**size.tokens, size.usual: min(3, size.tokens[size.usual])}
    short_rounds = Sizes(**{**vars(size), "tokens": fewer})
    seconds, steps = rounds_of(model, device, short_rounds, size.usual, "muon", rounds=1, during=profiler)
    rows = profiler.key_averages()
    return {
        "updates": steps,
        "ms an update under the profiler": round(1000 * seconds[-1] / steps, 2),
        **(of_kernels(rows, steps) if cuda else {}),
        "operations": [
            [round(own(row, cuda) / 1000 / steps, 3), row.count // steps, row.key[:80]]
            for row in sorted(rows, key=lambda row: -own(row, cuda))
            if not on_device(row) and not noted(row)
        ][:25],
    }  # fmt: skip


def of_kernels(rows, steps):
    """What the GPU itself did: all kernels, by kinds, and the fifteen that took longest."""

    def ms(row):
        return own(row, True) / 1000 / steps

    kernels, kinds = [row for row in rows if on_device(row) and own(row, True) and not noted(row)], {}
    for row in kernels:
        kinds[group(row.key)] = kinds.get(group(row.key), 0.0) + ms(row)
    longest = sorted(kernels, key=ms, reverse=True)[:15]
    return {
        "ms in kernels, an update": round(sum(kinds.values()), 2),
        "kernels, an update": sum(row.count for row in kernels) // steps,
        "kinds": {kind: round(kinds[kind], 3) for kind in sorted(kinds, key=kinds.get, reverse=True)},
        "kernels": [[round(ms(row), 3), row.count // steps, row.key[:120]] for row in longest],
    }


def on_device(row):
    """Whether a row of the profile is a kernel, and not an operation that has called some."""
    return "CUDA" in str(row.device_type)


def noted(row):
    """Whether a row only says what the program was at while kernels ran: it has their time once more."""
    return getattr(row, "is_user_annotation", False) or row.key.startswith(("Optimizer.", "ProfilerStep"))


def own(row, cuda):
    """The microseconds of a row of the profile, those of what it calls not among them."""
    return row.self_device_time_total if cuda else row.self_cpu_time_total


def by_cudnn(model, device, size, rate):
    """The same with cuDNN's kernel of attention before torch's own."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    order = [SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    with sdpa_kernel(order, set_priority=True):
        return trained(model, device, size, rate, size.usual, "muon")


def compiled(model, device, size, rate):
    """The same with every layer compiled, from outside: the library has no compiler of its own."""
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        layer.compile()
    began = time.monotonic()
    found = trained(model, device, size, rate, size.usual, "muon")
    return found | {"seconds, compiling too": round(time.monotonic() - began, 1)}


# --- The cost of a step -------------------------------------------------------------------------------------


def transformer(size, width):
    """Layers as in the recipes: as wide inside as two times outside, heads of 64."""
    torch.manual_seed(0)
    n_heads = max(1, width // 64)
    sizes = {"n_layers": size.layers, "d_model": width, "d_ff": 2 * width, "n_heads": n_heads, "dropout": 0.0}
    return quick(tie(make_model(size.step_vocab, size.step_vocab, **sizes)))


def recurrent(size, width):
    """Chapter 03's network with about as many parameters, its embeddings as wide as the Transformer's."""
    wanted = n_parameters(transformer(size, width))

    def made(d_hidden):
        torch.manual_seed(0)
        return AttentionSeq2Seq(size.step_vocab, size.step_vocab, width, d_hidden)

    low, high = 1, 8 * width
    while high - low > 1:
        middle = (low + high) // 2
        with torch.device("meta"):
            fits = n_parameters(made(middle)) <= wanted
        low, high = (middle, high) if fits else (low, middle)
    return made(max(8, low // 8 * 8) if width >= 64 else low)


def n_parameters(model):
    return sum(p.numel() for p in model.parameters())


def recurrent_loss(model, batch):
    """The cross-entropy of the real target tokens, summed."""
    logits = model(batch.source, batch.target_in).flatten(0, 1).float()
    return F.cross_entropy(logits, batch.target_out.flatten(), ignore_index=PAD, reduction="sum")


def plain_loss(model, batch):
    return translation_loss(model, batch, 0.0)


NETWORKS = {"Transformer": (transformer, plain_loss), "recurrent": (recurrent, recurrent_loss)}


def step(log, size, device):
    """Milliseconds of a training step, as width and length grow; a batch has as many tokens each time."""
    log.add("how", {
        "layers": size.layers, "vocab": size.step_vocab, "tokens": size.step_tokens,
        "tokens on the processor": size.few_tokens, "optimizer": "adamw, the gradient clipped", "dropout": 0,
        "recurrent": "AttentionSeq2Seq, embeddings as wide as the Transformer, states so that it has as many "
        "parameters, about", "a row": "milliseconds of an update, the median",
    })  # fmt: skip
    device = choose_device(device)
    width, n = size.base
    for precision in ("fp32", "bf16"):
        sizes = [(each, n) for each in size.widths] + [(width, each) for each in size.lengths if each != n]
        for each in sizes:
            where = f"{device.type}, {precision}, width {each[0]}, length {each[1]}"
            log.measure(where, both, size, *each, size.step_tokens, device, precision)
    before = torch.get_num_threads()
    try:
        for threads in size.threads:
            torch.set_num_threads(threads)
            sizes = [size.base]
            if threads in size.few_threads:
                sizes += [(each, n) for each in size.few_widths]
                sizes += [(width, each) for each in size.few_lengths]
            for each in sizes:
                where = f"processor, {threads} threads, fp32, width {each[0]}, length {each[1]}"
                log.measure(where, both, size, *each, size.few_tokens, torch.device("cpu"), "fp32")
    finally:
        torch.set_num_threads(before)


def both(size, width, n, tokens, device, precision):
    """Milliseconds of a step of each network; if one fails, why."""
    found = {}
    for name, (make, loss) in NETWORKS.items():
        model = make(size, width)
        found[f"parameters, {name}"] = n_parameters(model)
        try:
            found[name] = step_ms(size, model, loss, n, tokens, device, precision)
        except RuntimeError as error:
            found[name], found[f"failed, {name}"] = None, str(error)[:600]
    return found


def step_ms(size, model, loss, n, tokens, device, precision):
    """One network's step, in milliseconds."""
    module = SingleProcess(model.to(device).train(), loss, None, precision).loss
    (optimizer,) = make_optimizers(model, "adamw", 1e-4, precision=precision)
    n_rows = max(1, tokens // n)
    generator = torch.Generator().manual_seed(0)
    source, target = torch.randint(4, size.step_vocab, (2, n_rows, n + 1), generator=generator)
    target[:, 0], target[:, -1] = BOS, EOS
    batch = batch_to(Batch(source[:, 1:].contiguous(), target), device)

    def update():
        (module(batch) / (n_rows * n)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    together, least = (1, min(2, size.least)) if device.type == "cpu" else (2, size.least)
    for _ in range(together):  # the first ones warm up
        update()
    synchronize(device)
    tries = []
    while len(tries) < least or (len(tries) < size.most and sum(tries) * together < size.seconds):
        began = time.perf_counter()
        for _ in range(together):
            update()
        synchronize(device)
        tries.append((time.perf_counter() - began) / together)
    return round(1000 * statistics.median(tries), 3)


# --- The command --------------------------------------------------------------------------------------------

PARTS = {"large": large, "step": step}


def main(words=None):
    """Measure one part. Returns the status for the system."""
    parser = argparse.ArgumentParser("python -m bench.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--to", type=Path, default=Path("runs", "gpu.json"), metavar="FILE", help="the log")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, cpu; else cuda")
    parser.add_argument("--tiny", action="store_true", help="sizes that show whether every line works")
    about = "of the processor's steps, by threads; else 1, 2, 4, 8, 16; with no number there are none"
    parser.add_argument("--threads", type=int, nargs="*", metavar="N", help=about)
    words = parser.parse_args(words)
    size = TINY if words.tiny else Sizes()
    size = size if words.threads is None else replace(size, threads=tuple(words.threads))
    try:
        device = choose_device(words.device)
    except ValueError as error:
        print(f"bench.gpu: {error}", file=sys.stderr)
        return 1
    log = Log(words.to, words.part, size.limits[words.part], device)
    try:
        PARTS[words.part](log, size, words.device)
    except Exception:
        log.add("failed", traceback.format_exc())
        return 1
    log.add("ended", True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
