"""From text to text: many sentences, in batches of like length."""

from heed.data import pad
from heed.decode.search import greedy


def translations(
    model, subwords, sentences, search=greedy, n_tokens=4096, workers=None,
    watch=None,
):  # fmt: skip
    """Translate sentences in batches of like length; give them back in order.

    subwords: anything with encode(text) -> ids and decode(ids) -> text
    search: from a model and a source to lists of ids; for another width:
        functools.partial(beam, width=8)
    n_tokens: source tokens in a batch, padding included; a longer sentence is a
        batch of its own
    workers: `heed.workers.Workers` of this model, to search in their processes
    watch: called after each batch with the number of sentences so far

    Returns a list of strings; an empty or blank sentence becomes an empty one.
    Raises ValueError if `sentences` is one string, or n_tokens below 1.
    """
    if isinstance(sentences, str):
        raise ValueError(
            f"translations takes a list of sentences; for one sentence, give [{sentences[:40]!r}]."
        )
    if n_tokens < 1:
        raise ValueError(f"A batch holds at least one token, but {n_tokens=}.")
    ids = [subwords.encode(text) if text.strip() else [] for text in sentences]
    order = [i for i, row in enumerate(ids) if row]
    order.sort(key=lambda i: -len(ids[i]))
    batches = []
    while order:
        n = max(1, n_tokens // len(ids[order[0]]))
        batches.append(order[:n])
        order = order[n:]
    rows = ([ids[i] for i in batch] for batch in batches)
    if workers is None:
        device = next(model.parameters()).device
        said = (search(model, pad(batch).to(device)) for batch in rows)
    else:
        said = workers.search(search, rows)
    answers, n_done = [""] * len(ids), 0
    for batch, found in zip(batches, said, strict=True):
        for i, row in zip(batch, found, strict=True):
            answers[i] = subwords.decode(row)
        n_done += len(batch)
        if watch:
            watch(n_done)
    return answers
