"""How often training has seen the words of chapter 14's examination, as a log that the chapter reads.

    HEED_DATA=... python assets/14_a_real_translator/counts.py

It writes counts.json: each word of the sentences in exam.json -> in how many of Multi30k's 29,000 German
training captions it occurs. Upper and lower case are kept apart but at the beginning of a sentence.
"""

import json
import re
from collections import Counter
from pathlib import Path

from heed.data import multi30k

HERE = Path(__file__).parent
WORD = re.compile(r"\w+")


def words(sentence):
    """The different words of a sentence, the first one as if it stood inside."""
    found = WORD.findall(sentence)
    return {*found[1:], *(both for word in found[:1] for both in (word, word.lower()))}


def main():
    exam = json.loads((HERE / "exam.json").read_text(encoding="utf-8"))
    seen = Counter(word for source, _, _ in multi30k("train") for word in words(source))
    asked = sorted({word for questions in exam.values() for source, _ in questions for word in words(source)})
    counts = {word: seen[word] for word in asked}
    text = json.dumps(counts, ensure_ascii=False, indent=0) + "\n"
    (HERE / "counts.json").write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
