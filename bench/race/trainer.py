"""Marian's training by Hugging Face's `Trainer`: its own loop, with our batches, our clock."""

import tempfile

from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, IterableDataset
from transformers import Trainer, TrainerCallback, TrainingArguments

from heed.text import PAD


class Stream(IterableDataset):
    """Whole batches, as `Trainer` wants them."""

    def __init__(self, data, seed):
        self.data, self.seed = data, seed

    def __iter__(self):
        for batch in self.data.stream(self.seed):
            yield {
                "input_ids": batch.source,
                "attention_mask": (batch.source != PAD).long(),
                "decoder_input_ids": batch.target_in.contiguous(),
                "labels": batch.target_out.masked_fill(batch.target_out == PAD, -100),
            }


class Batched(Trainer):
    """`Trainer` whose data come in batches that are already made."""

    counted = 0

    def get_train_dataloader(self):
        return DataLoader(self.train_dataset, batch_size=None)

    def training_step(self, model, inputs, *given, **more):
        self.counted = int((inputs["labels"] != -100).sum())
        return super().training_step(model, inputs, *given, **more)


class Timed(TrainerCallback):
    """Lets the clock count, and stops the training when it is over."""

    def __init__(self, clock):
        self.clock, self.trainer = clock, None

    def on_train_begin(self, args, state, control, **given):
        self.clock.start()

    def on_step_end(self, args, state, control, model=None, **given):
        self.clock.step(model, self.trainer.counted)
        control.should_training_stop = self.clock.over


def train(model, data, clock, optimizer, seed, precision):
    """Train by the clock. The rate follows it, too: `Trainer` takes any scheduler."""
    clock.start()  # the scheduler asks once before the training
    scheduler = LambdaLR(optimizer, lambda step: clock.share)
    model.config.use_cache, on_cpu = False, next(model.parameters()).device.type == "cpu"
    timed = Timed(clock)
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            folder, max_steps=10**9, label_smoothing_factor=data.smoothing, max_grad_norm=1.0, seed=seed,
            bf16=precision == "bf16", use_cpu=on_cpu, logging_strategy="no", save_strategy="no",
            report_to="none", disable_tqdm=True, remove_unused_columns=False, dataloader_pin_memory=False,
        )  # fmt: skip
        trainer = Batched(
            model=model, args=settings, train_dataset=Stream(data, seed), optimizers=(optimizer, scheduler),
            callbacks=[timed],
        )  # fmt: skip
        timed.trainer = trainer
        trainer.train()
    clock.end(model)
