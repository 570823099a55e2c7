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
# The sentences of solution 14.7.
TRIED = ("Die Frau trägt den Mann.", "Auf der Straße trägt den Mann die Frau.")
NEW = (  # three words that training does not hold: 14.1 and 14.3
    "Eine Frau mit einem Strandhut liest ein Buch.",
    "Ein Mann sitzt auf einer Strandbank.",
    "Ein Kind spielt auf einer Holzgitarre.",
)
SHOWN = (  # the sentences of 14.2 and 14.3
    "Zwei Hunde laufen durch den Schnee.",
    "Ein Mann in einem blauen Hemd spielt Gitarre.",
    "Zwei Kinder bauen eine Sandburg am Strand.",
    "Eine Frau mit einem roten Hut liest auf einer Parkbank ein Buch.",
    "Ein alter Mann, der eine Brille trägt, spielt Akkordeon.",
)
NOT = re.compile(r"\bnot\b|n't\b")


def words(sentence):
    """The different words of a sentence, the first one as if it stood inside."""
    found = WORD.findall(sentence)
    return {*found[1:], *(both for word in found[:1] for both in (word, word.lower()))}


def main():
    exam = json.loads((HERE / "exam.json").read_text(encoding="utf-8"))
    pairs = [(source, target) for source, target, _ in multi30k("train")]
    captions = [source for source, _ in pairs]
    seen = Counter(word for source in captions for word in words(source))
    sources = [*TRIED, *NEW, *(source for questions in exam.values() for source, _ in questions)]
    asked = sorted({word for source in sources for word in words(source)})
    counts = {word: seen[word] for word in asked}
    counts["captions without a full stop"] = sum(not source.rstrip().endswith(".") for source in captions)
    counts["captions with kein in any form"] = sum(bool(KEIN.search(source)) for source in captions)
    ours = [*SHOWN, *sources, *json.loads((HERE / "partners.json").read_text(encoding="utf-8"))]
    counts["sentences of ours that are captions"] = len({*ours} & {*captions})
    for word, english in (("nicht", NOT), ("sieben", re.compile(r"\bseven\b"))):
        having = [target.lower() for source, target in pairs if word in words(source)]
        counts[f"captions with {word} and its translation"] = sum(bool(english.search(t)) for t in having)
    for person in ("Mann", "Frau", "Kind", "Junge", "Mädchen"):
        having = [target.lower() for source, target in pairs if f"{person} ohne " in source]
        counts[f"captions with {person} ohne"] = len(having)
        counts[f"of these, with shirtless ({person})"] = sum("shirtless" in target for target in having)
    english = [target.lower() for _, target in pairs]
    for person in ("man", "woman", "child", "boy", "girl"):
        having = [target for target in english if re.search(rf"\b{person}\b", target)]
        counts[f"captions with {person}"] = len(having)
        counts[f"captions with {person} and shirtless"] = sum("shirtless" in target for target in having)
    for language, side in zip(("German", "English"), zip(*pairs, strict=True), strict=True):
        counts[f"words of the {language} captions"] = sum(len(WORD.findall(caption)) for caption in side)
    text = json.dumps(counts, ensure_ascii=False, indent=0) + "\n"
    (HERE / "counts.json").write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
