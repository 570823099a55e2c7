"""JoeyNMT: its configuration, its data on disk, its loop under our clock, and its scores in our numbers.

Its four special tokens have other numbers than ours, all the rest the same ones; its sources end in EOS.
"""

import logging
import tempfile
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import torch
import yaml
from joeynmt.builders import BaseScheduler
from joeynmt.config import load_config, parse_global_args
from joeynmt.data import load_data
from joeynmt.helpers import set_seed
from joeynmt.model import build_model
from joeynmt.training import TrainManager
from joeynmt.vocabulary import Vocabulary

from heed.text import BOS, EOS, PAD, UNK

THEIRS = {UNK: 0, PAD: 1, BOS: 2, EOS: 3}  # our number of a special token -> theirs
SYMBOLS = {
    "unk_id": 0,
    "pad_id": 1,
    "bos_id": 2,
    "eos_id": 3,
    "sep_token": None,
    "sep_id": None,
    "lang_tags": [],
}
SYMBOLS |= {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<bos>", "eos_token": "<eos>"}


def settings(folder, sizes, tokens, smoothing, rate, seed, cuda):
    """The configuration, as its YAML file holds it."""
    side = {"level": "word", "max_length": 512, "voc_file": str(folder / "vocabulary.txt")}
    return {
        "name": "race",
        "model_dir": str(folder / "model"),
        "use_cuda": cuda,
        "random_seed": seed,
        "data": {
            "train": str(folder / "train"),
            "dev": str(folder / "dev"),
            "dataset_type": "plain",
            "src": {"lang": "de", **side},
            "trg": {"lang": "en", **side},
            "special_symbols": SYMBOLS,
        },
        "model": model_settings(sizes),
        "training": {
            "optimizer": "adamw",
            "adam_betas": [0.9, 0.98],
            "learning_rate": rate,
            "learning_rate_min": 0.0,
            "learning_rate_warmup": 1000,  # the clock's schedule takes its place
            "scheduling": "warmupinversesquareroot",
            "clip_grad_norm": 1.0,
            "normalization": "tokens",
            "loss": "crossentropy",
            "label_smoothing": smoothing,
            "batch_type": "token",
            "batch_size": tokens,
            "epochs": 10**6,
            "validation_freq": 10**9,
            "logging_freq": 10**3,
            "keep_best_ckpts": 0,
            "shuffle": True,
        },
        "testing": {"batch_type": "token", "batch_size": tokens},
    }


def model_settings(sizes):
    """The model's part of the configuration."""
    side = {
        "type": "transformer",
        "num_layers": sizes["n_layers"],
        "num_heads": sizes["n_heads"],
        "hidden_size": sizes["d_model"],
        "ff_size": sizes["d_ff"],
        "dropout": sizes["dropout"],
        "layer_norm": "pre",
        "embeddings": {"embedding_dim": sizes["d_model"], "scale": True, "dropout": sizes["dropout"]},
    }
    own = {"initializer": "xavier_uniform", "embed_initializer": "normal"}
    own["embed_init_weight"] = sizes["d_model"] ** -0.5
    return {**own, "tied_embeddings": True, "tied_softmax": True, "encoder": side, "decoder": side}


def words(vocab):
    """The tokens as JoeyNMT's vocabulary lists them, without its special ones."""
    return [f"t{i}" for i in range(len(THEIRS), vocab)]


def build(vocab, sizes, seed):
    """A model with fresh weights."""
    logging.getLogger("joeynmt").setLevel(logging.ERROR)
    set_seed(seed)
    known = Vocabulary(words(vocab), SimpleNamespace(**SYMBOLS))
    return build_model(model_settings(sizes), src_vocab=known, trg_vocab=known)


def write(folder, data):
    """The captions, already split, as lines of tokens: JoeyNMT reads words between blanks."""

    def line(ids):
        return " ".join(f"t{i}" for i in ids if i not in (BOS, EOS))

    def file(name, lines):
        (folder / name).write_text("".join(f"{text}\n" for text in lines), encoding="utf-8", newline="\n")

    few = data.pairs[:2]  # it asks for sentences to validate with, and never reads them
    for name, pairs in (("train", data.pairs), ("dev", few)):
        file(f"{name}.de", (line(source) for source, _ in pairs))
        file(f"{name}.en", (line(target) for _, target in pairs))
    file("vocabulary.txt", words(len(data.subwords)))


class ByTheClock(BaseScheduler):
    """What JoeyNMT's loop calls after every update: it sets the rate, counts, and stops the loop.

    The loop takes a KeyboardInterrupt for its end.
    """

    def __init__(self, manager, clock, rate):
        super().__init__(manager.optimizer)
        self.manager, self.clock, self.rate = manager, clock, rate

    def step(self, step):
        if step >= 0:  # -1: before the first update
            self.clock.step(self.manager.model, self.manager.counted)
        if self.clock.over:
            raise KeyboardInterrupt
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * self.clock.share


class Manager(TrainManager):
    """Its manager of a training, which keeps nothing itself."""

    counted = 0

    def _train_step(self, batch):
        self.counted = batch.ntokens
        return super()._train_step(batch)

    def _save_checkpoint(self, new_best, score):
        """The clock has the weights."""


def train(model, data, clock, rate, seed):
    """Its own loop: batches, loss, update."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model").mkdir()
        write(folder, data)
        cuda = next(model.parameters()).is_cuda
        plan = settings(folder, data.model, data.tokens, data.smoothing, rate, seed, cuda)
        (folder / "race.yaml").write_text(yaml.safe_dump(plan), encoding="utf-8")
        args = parse_global_args(load_config(folder / "race.yaml"), rank=0, mode="train")
        _, _, train_data, dev_data, _ = load_data(args.data, ["train", "dev"])
        model.loss_function = (args.train.loss, args.train.label_smoothing)
        manager = Manager(
            rank=0, model=model, model_dir=args.model_dir, device=args.device, autocast=args.autocast,
            n_gpu=args.n_gpu, seed=seed, train_args=args.train, dev_args=args.test,
        )  # fmt: skip
        manager.scheduler, manager.scheduler_step_at = ByTheClock(manager, clock, rate), "step"
        set_seed(seed)
        clock.start()
        manager.scheduler.step(-1)
        manager.train_and_validate(train_data=train_data, valid_data=dev_data)
    clock.end(model)


@cache
def numbers(vocab, device):
    """Our number of a token -> theirs, as a tensor."""
    table = torch.arange(vocab, device=device)
    for mine, its in THEIRS.items():
        table[mine] = its
    return table


def memory(model, source):
    """What it makes of a source of ours."""
    b = len(source)
    lengths = (source != PAD).sum(dim=1)
    ended = torch.cat([source, source.new_full((b, 1), PAD)], dim=1)
    ended[torch.arange(b, device=source.device), lengths] = EOS
    table, mask = numbers(len(model.src_vocab), source.device), (ended != PAD).unsqueeze(1)
    read, _, _, _ = model(return_type="encode", src=table[ended], src_length=lengths + 1, src_mask=mask)
    return read, mask


def logits(model, memory, target_in):
    """Its scores, in our order of the tokens."""
    table = numbers(len(model.trg_vocab), target_in.device)
    out, _, _, _ = model(
        return_type="decode", encoder_output=memory[0], encoder_hidden=None, src_mask=memory[1],
        trg_input=table[target_in], unroll_steps=target_in.shape[1],
        trg_mask=(target_in != PAD).unsqueeze(1),
    )  # fmt: skip
    return out[..., table]
