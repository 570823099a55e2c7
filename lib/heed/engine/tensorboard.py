"""Logs of trainings as events for TensorBoard, for those who have it."""


def write_events(logs, folder):
    """Write the numbers of several trainings into a folder that `tensorboard --logdir` shows.

    logs: the name of each training -> the lines of its log.jsonl, as dictionaries

    Raises ValueError if the package `tensorboard` is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ValueError(
            f"TensorBoard is not installed ({error}). Install it: pip install tensorboard"
        ) from error
    for name, lines in logs.items():
        with SummaryWriter(folder / name.strip("/").replace("/", "-")) as writer:
            for line in lines:
                numbers = {
                    key: line[key] for key in ("loss", "norm", "lr", "tokens_per_second") if key in line
                }
                if line.get("weights") == "last":
                    numbers |= line["validation"]
                for key, value in numbers.items():
                    writer.add_scalar(key, value, line["step"])
