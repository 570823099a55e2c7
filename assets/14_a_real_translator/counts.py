"""How often training has seen the words of chapter 14's examination, as a log that the chapter reads.

    HEED_DATA=... python assets/14_a_real_translator/counts.py

It writes counts.json: each word of the sentences in exam.json and below -> in how many of Multi30k's 29,000
German training captions it occurs. Upper and lower case are kept apart; the first word of a sentence counts
for both. Its last lines count captions with something in common, and all words, as they say.
"""

import json
import re
from collections import Counter
from pathlib import Path

from heed.data import multi30k

HERE = Path(__file__).parent
WORD = re.compile(r"\w+")
KEIN = re.compile(r"\bkein(e[mnrs]?)?\b", re.IGNORECASE)
TRIED = ("Die Frau trägt den Mann.", "Den Mann trägt die Frau.")  # the sentences of solution 14.6


def words(sentence):
    """The different words of a sentence, the first one as if it stood inside."""
    found = WORD.findall(sentence)
    return {*found[1:], *(both for word in found[:1] for both in (word, word.lower()))}


def main():
    exam = json.loads((HERE / "exam.json").read_text(encoding="utf-8"))
    pairs = [(source, target) for source, target, _ in multi30k("train")]
    captions = [source for source, _ in pairs]
    seen = Counter(word for source in captions for word in words(source))
    sources = [*TRIED, *(source for questions in exam.values() for source, _ in questions)]
    asked = sorted({word for source in sources for word in words(source)})
    counts = {word: seen[word] for word in asked}
    counts["captions without a full stop"] = sum(not source.rstrip().endswith(".") for source in captions)
    counts["captions with kein in any form"] = sum(bool(KEIN.search(source)) for source in captions)
    shirtless = [source for source, target in pairs if "shirtless" in target.lower()]
    counts["captions whose English has shirtless"] = len(shirtless)
    counts["of these, with Oberkörper"] = sum("oberkörper" in source.lower() for source in shirtless)
    for language, side in zip(("German", "English"), zip(*pairs, strict=True), strict=True):
        counts[f"words of the {language} captions"] = sum(len(WORD.findall(caption)) for caption in side)
    text = json.dumps(counts, ensure_ascii=False, indent=0) + "\n"
    (HERE / "counts.json").write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
