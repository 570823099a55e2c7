"""Text in, numbers out, and back: vocabularies of words, of characters, and of the pieces between them.

This module knows nothing about models. It owns the four special tokens, and the sentence that a reader sees
when a token id points outside a vocabulary.
"""

import hashlib
import json
import re
from collections import Counter
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")
BYTES = tuple(f"<0x{value:02X}>" for value in range(256))

# No sub-word is longer than one of these: letters, digits or signs, with the blank before them; other blanks.
WORDS = r" ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+|\s+(?!\S)|\s+"
MARKS = str.maketrans({" ": "▁", "\t": "⇥", "\n": "↵"})


def check_ids(ids, n, position=()):
    """Raise a ValueError for a token id that a vocabulary of n tokens does not have.

    ids: one id, a tensor of ids of any shape, or lists of these, nested to any depth
    n: size of the vocabulary; the allowed ids are 0 … n - 1
    position: where in a larger structure `ids` stands; leave it out

    Raises ValueError with the first wrong id, its position and n.
    """
    if isinstance(ids, (list, tuple)) and any(isinstance(i, (list, tuple, torch.Tensor)) for i in ids):
        for i, inner in enumerate(ids):
            check_ids(inner, n, (*position, i))
        return
    ids = torch.as_tensor(ids)
    if ids.numel() and (ids.is_floating_point() or ids.dtype == torch.bool):
        raise ValueError(f"token ids are whole numbers, but these are {ids.dtype}: make them with encode()")
    ids = ids.long()  # a small type would wrap n
    wrong = ((ids < 0) | (ids >= n)).nonzero()
    if len(wrong):
        first = tuple(wrong[0].tolist())
        where = ", ".join(map(str, position + first)) or "0"
        raise ValueError(
            f"token id {ids[first].item()} at position {where} is outside a vocabulary of {n} tokens: "
            f"the ids must lie between 0 and {n - 1}"
        )


class Vocabulary:
    """A numbered list of tokens. The first four are always `<pad>`, `<bos>`, `<eos>` and `<unk>`.

    tokens: strings; a repeated one counts once, and the special ones may be among them or not
    """

    def __init__(self, tokens):
        self.tokens = list(dict.fromkeys([*SPECIAL, *tokens]))
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    @classmethod
    def build(cls, sequences, min_count=1):
        """Number the tokens that occur `min_count` times or more: the frequent first, then by alphabet."""
        counts = Counter(token for sequence in sequences for token in sequence)
        ordered = sorted(counts, key=lambda token: (-counts[token], token))
        return cls(token for token in ordered if counts[token] >= min_count)

    def encode(self, sequence, bos=False, eos=False):
        """Turn tokens into a list of ids, on request between BOS and EOS. An unknown token becomes UNK."""
        ids = [self.ids.get(token, UNK) for token in sequence]
        return [BOS] * bos + ids + [EOS] * eos

    def decode(self, ids):
        """Turn ids back into a list of tokens: stop at EOS, leave out PAD and BOS.

        Raises ValueError if an id is outside the vocabulary.
        """
        check_ids(ids, len(self))
        ids = [int(i) for i in ids]
        end = ids.index(EOS) if EOS in ids else len(ids)
        return [self.tokens[i] for i in ids[:end] if i not in (PAD, BOS)]

    def __len__(self):
        return len(self.tokens)

    def __contains__(self, token):
        return token in self.ids


class Characters(Vocabulary):
    """A vocabulary of characters in which no character is unknown: text in, text out.

    Between the four special tokens and the characters stand 256 tokens for bytes, `<0x00>` … `<0xFF>`.
    A character that the vocabulary does not hold is written as its UTF-8 bytes and survives the round trip.

    tokens: characters, for instance a string
    """

    def __init__(self, tokens):
        super().__init__([*BYTES, *tokens])

    def encode(self, text, bos=False, eos=False):
        """Turn a string into a list of ids, on request between BOS and EOS."""
        tokens = []
        for character in text:
            spelled = [BYTES[byte] for byte in character.encode(errors="replace")]
            tokens += [character] if character in self else spelled
        return super().encode(tokens, bos, eos)

    def decode(self, ids):
        """Turn ids back into a string: stop at EOS, leave out PAD and BOS.

        Bytes that form no character become `�`. Raises ValueError if an id is outside the vocabulary.
        """
        data = b""
        for token in super().decode(ids):
            byte = self.ids[token] - len(SPECIAL)
            data += bytes([byte]) if 0 <= byte < 256 else token.encode(errors="replace")
        return data.decode(errors="replace")


class Merged(Characters):
    """Characters, and the longer tokens that merges make of them, inside of words.

    A *merge* makes one token of two neighbours. Encoding splits the text into words and signs, and makes the
    merges in each of them, in their order (Sennrich, Haddow & Birch 2016, algorithm 1; the bytes and the
    blanks inside of tokens are later ideas). Nothing is normalised: case, blanks, accents come out as they
    went in. Text that looks like a special token is text.

    characters: those with a token of their own; all others are written as their UTF-8 bytes
    merges: pairs of tokens, the first learned first; both are characters or the results of earlier merges

    Raises ValueError for a merge of unknown tokens, or one whose result would be a special token.
    """

    def __init__(self, characters, merges=()):
        self.characters = "".join(characters)
        self.merges = [(left, right) for left, right in merges]
        known, reserved = set(self.characters), {*SPECIAL, *BYTES}
        for i, (left, right) in enumerate(self.merges):
            if not {left, right} <= known or left + right in reserved:
                pair = f"merge {i}, {left!r} + {right!r}"
                raise ValueError(f"{pair}: a part of it is no token yet, or the whole is a special one")
            known.add(left + right)
        super().__init__([*self.characters, *(left + right for left, right in self.merges)])
        self.bpe = _by_words(models.BPE(vocab=self.ids, merges=self.merges, byte_fallback=True))

    def encode(self, text, bos=False, eos=False):
        """Turn a string into a list of ids, on request between BOS and EOS."""
        return [BOS] * bos + self.bpe.encode(_without_surrogates(text)).ids + [EOS] * eos

    def pieces(self, text):
        """What `encode` makes of a text, for people to read: one string an id, `▁` for a blank."""
        return self.labels(self.encode(text))

    def labels(self, ids):
        """The tokens behind these ids, for people. Raises ValueError for an id outside the vocabulary."""
        check_ids(ids, len(self))
        return [self.tokens[int(i)].translate(MARKS) for i in ids]


def learn_merges(lines, size):
    """Merge the most frequent pair of neighbours, count again, and so on, until there are `size` tokens.

    A character seen less than once in a million is not worth a token: it is spelled in bytes, which gives
    the bytes something to learn from. The same lines give the same vocabulary, on any machine.

    lines: strings, of the training data only
    size: tokens in the vocabulary, the 4 special ones, the 256 bytes and the characters among them; if no
        pair is left that occurs twice, there are fewer

    Returns characters and merges, for `Merged`. Raises ValueError without text, or room for its characters.
    """
    lines = [_without_surrogates(line) for line in lines]
    counts = Counter()
    for line in lines:
        counts.update(line)
    if not counts:
        raise ValueError(f"there is no text to learn from: {len(lines)} lines, all of them empty")
    rare = {character for character, n in counts.items() if n * 1_000_000 < counts.total()}
    characters = sorted(counts.keys() - rare)
    room = size - len(SPECIAL) - len(BYTES)
    if room < len(characters):
        raise ValueError(
            f"{size=} leaves no room: {len(SPECIAL)} special tokens, {len(BYTES)} bytes and "
            f"{len(characters)} characters are {size - room + len(characters)} tokens before the first merge"
        )
    gaps = re.compile("|".join(map(re.escape, sorted(rare))) or "(?!)")
    parts = (part for line in lines for part in gaps.split(line))
    trainer = trainers.BpeTrainer(vocab_size=room, min_frequency=2, show_progress=False)
    learner = _by_words(models.BPE())
    learner.train_from_iterator(parts, trainer)
    return characters, json.loads(learner.to_str())["model"]["merges"]


class Subwords(Merged):
    """A vocabulary of pieces of words, in which no character is unknown: byte-pair encoding."""

    @classmethod
    def learn(cls, lines, size):
        """The vocabulary of `size` tokens that `learn_merges` finds in these lines."""
        return cls(*learn_merges(lines, size))

    def save(self, path):
        """Write the vocabulary into one JSON file."""
        Path(path).write_text(self._json(), encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, path):
        """Read what `save` has written. Raises ValueError if the file is cut or made by other rules."""
        try:
            held = json.loads(Path(path).read_text(encoding="utf-8"))
            if held["words"] != WORDS:
                raise ValueError(f"it splits words by {held['words']!r}, and this version by {WORDS!r}")
            return cls(held["characters"], held["merges"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is no vocabulary of sub-words: {error!r}. Learn it again.") from error

    @property
    def fingerprint(self):
        """The SHA-256 of all that decides how a text is encoded: 64 hexadecimal digits."""
        return hashlib.sha256(self._json().encode()).hexdigest()

    def _json(self):
        held = {"words": WORDS, "characters": self.characters, "merges": self.merges}
        return json.dumps(held, ensure_ascii=False) + "\n"


def _by_words(model):
    """A tokenizer that hands the model one word after the other."""
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(WORDS), "isolated")
    return tokenizer


def _without_surrogates(text):
    """A lone surrogate is no character and has no UTF-8: it becomes a question mark."""
    return text.encode(errors="replace").decode()
