"""How long are the captions of Multi30k? The numbers with which chapter 12 fills its batches.

    python lengths.py

writes lengths.json beside this file: [source, target, pairs] for every pair of lengths in the training set,
29,000 pairs in all. It needs Multi30k (`heed.data.multi30k` finds or fetches it); the chapter does not.
A length is counted in words between blanks; the target's includes BOS and EOS.
"""

import json
from collections import Counter
from pathlib import Path

from heed.data import multi30k

LOG = Path(__file__).with_name("lengths.json")


def counted(pairs):
    """[source, target, pairs] for every pair of lengths, in order."""
    lengths = Counter((len(pair.source.split()), len(pair.target.split()) + 2) for pair in pairs)
    return [[*sides, count] for sides, count in sorted(lengths.items())]


def main():
    """Count the training set."""
    rows = counted(multi30k("train"))
    lines = ",\n".join(
        "  " + ", ".join(json.dumps(row) for row in rows[i : i + 8]) for i in range(0, len(rows), 8)
    )
    LOG.write_text(f'{{\n "what": "[words of the German caption, words of the English one and 2, pairs]",\n'
                   f' "corpus": "Multi30k, training set", "pairs": {sum(row[2] for row in rows)},\n'
                   f' "lengths": [\n{lines}\n ]\n}}\n', encoding="utf-8", newline="\n")  # fmt: skip


if __name__ == "__main__":
    main()
