"""Make a trained model small enough to be stored with the course: its weights in bfloat16, and its log.

    python assets/14_a_real_translator/pack.py runs/multi30k-10min

It writes recipe.toml, subwords.json, log.jsonl, model.safetensors and SHA256SUMS into the folder `model`
beside this script. What is stored is what the chapter loads; ladder.py measured the weights before they were
rounded.
"""

import hashlib
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

HERE = Path(__file__).parent / "model"
COPIED = ("recipe.toml", "subwords.json", "log.jsonl")


def pack(folder, to=HERE):
    """Copy a trained model, with its weights rounded."""
    to.mkdir(exist_ok=True)
    for name in COPIED:
        shutil.copyfile(folder / name, to / name)
    weights = load_file(folder / "model.safetensors")
    save_file({name: tensor.to(torch.bfloat16) for name, tensor in weights.items()}, to / "model.safetensors")
    sums = [
        f"{hashlib.sha256((to / name).read_bytes()).hexdigest()}  {name}\n"
        for name in (*COPIED, "model.safetensors")
    ]
    (to / "SHA256SUMS").write_text("".join(sums), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    pack(Path(sys.argv[1]))
