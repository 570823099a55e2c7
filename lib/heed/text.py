"""Text in, numbers out, and back: words, characters, and pieces of words.

This module knows nothing about models. It owns the four special tokens, and the
sentence that a reader sees when a token id points outside a vocabulary.
"""

import hashlib
import json
from collections import Counter
from pathlib import Path

import torch

from heed import bpe

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")
BYTES = tuple(f"<0x{value:02X}>" for value in range(256))

MARKS = str.maketrans({" ": "▁", "\t": "⇥", "\n": "↵"})


def check_ids(ids, n, position=()):
    """Raise a ValueError for an id that a vocabulary of n tokens does not have.

    ids: one id, a tensor of ids of any shape, or lists of these, nested to any
        depth
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
            f"token id {ids[first].item()} at position {where} is outside a "
            f"vocabulary of {n} tokens: the ids must lie between 0 and {n - 1}"
        )


class Vocabulary:
    """A numbered list of tokens, of which the first four are `SPECIAL`.

    tokens: strings; a repeated one counts once, and the special ones may be
        among them or not
    """

    def __init__(self, tokens):
        self.tokens = list(dict.fromkeys([*SPECIAL, *tokens]))
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    @classmethod
    def build(cls, sequences, min_count=1):
        """Number the tokens seen `min_count` times, the frequent first."""
        counts = Counter(token for sequence in sequences for token in sequence)
        ordered = sorted(counts, key=lambda token: (-counts[token], token))
        return cls(token for token in ordered if counts[token] >= min_count)

    def encode(self, sequence, bos=False, eos=False):
        """Turn tokens into ids, on request between BOS and EOS."""
        ids = [self.ids.get(token, UNK) for token in sequence]
        return [BOS] * bos + ids + [EOS] * eos

    def decode(self, ids):
        """Turn ids back into tokens: stop at EOS, leave out PAD and BOS.

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
    """A vocabulary of characters in which none is unknown: text in, text out.

    Between the four special tokens and the characters stand 256 tokens for
    bytes, `<0x00>` … `<0xFF>`. A character that the vocabulary does not hold is
    written as its UTF-8 bytes and survives the round trip.

    tokens: characters, for instance a string
    """

    def __init__(self, tokens):
        super().__init__([*BYTES, *tokens])

    def encode(self, text, bos=False, eos=False):
        """Turn a string into a list of ids, on request between BOS and EOS."""
        tokens = []
        for character in text:
            data = character.encode(errors="replace")
            spelled = [BYTES[byte] for byte in data]
            tokens += [character] if character in self else spelled
        return super().encode(tokens, bos, eos)

    def decode(self, ids):
        """Turn ids back into a string: stop at EOS, leave out PAD and BOS.

        Bytes that form no character become `�`. Raises ValueError if an id is
        outside the vocabulary.
        """
        data = b""
        for token in super().decode(ids):
            byte = self.ids[token] - len(SPECIAL)
            if 0 <= byte < 256:
                data += bytes([byte])
            else:
                data += token.encode(errors="replace")
        return data.decode(errors="replace")


def learn_merges(lines, size):
    """Merge the most frequent neighbours, again and again, up to `size` tokens.

    A character seen less than once in a million is not worth a token: it is
    spelled in bytes, which gives the bytes something to learn from. The same
    lines give the same vocabulary, on any machine.

    lines: strings, of the training data only
    size: tokens in the vocabulary, the 4 special ones, the 256 bytes and the
        characters among them; if no pair is left that occurs twice, there are
        fewer

    Returns characters and merges, for `Subwords`. Raises ValueError without text,
    or room for its characters.
    """
    lines = [bpe.without_surrogates(line) for line in lines]
    counts = Counter()
    for line in lines:
        counts.update(line)
    total = counts.total()
    rare = {token for token, n in counts.items() if n * 1_000_000 < total}
    characters = sorted(counts.keys() - rare)
    n_fixed = len(SPECIAL) + len(BYTES)
    bpe.check_room(size, n_fixed, characters, lines)
    return characters, bpe.frequent_merges(lines, rare, size - n_fixed)


class Subwords(Characters):
    """Byte-pair encoding: pieces of words, in which no character is unknown.

    Characters, and the longer tokens that merges make of them within words.

    Encoding splits the text into words and signs, and makes the merges in each,
    in their order (Sennrich, Haddow & Birch 2016, algorithm 1; bytes and spaces
    inside of tokens are later ideas). Nothing is normalised. Text that looks
    like a special token is text.

    characters: those with a token of their own; all others are written as bytes
    merges: pairs of tokens, the first learned first; both are characters or the
        results of earlier merges

    Raises ValueError for a merge of unknown tokens, or into a special one.
    """

    def __init__(self, characters, merges=()):
        self.characters = "".join(characters)
        self.merges = [(left, right) for left, right in merges]
        bpe.check_merges(self.characters, self.merges, {*SPECIAL, *BYTES})
        longer = [left + right for left, right in self.merges]
        super().__init__([*self.characters, *longer])
        self.bpe = bpe.encoder(self.ids, self.merges)

    @classmethod
    def learn(cls, lines, size):
        """The vocabulary of `size` tokens that `learn_merges` finds."""
        return cls(*learn_merges(lines, size))

    def encode(self, text, bos=False, eos=False):
        """Turn a string into a list of ids, on request between BOS and EOS."""
        ids = self.bpe.encode(bpe.without_surrogates(text)).ids
        return [BOS] * bos + ids + [EOS] * eos

    def pieces(self, text):
        """What `encode` makes of a text, one string an id, `▁` for a space."""
        return self.labels(self.encode(text))

    def labels(self, ids):
        """The tokens behind these ids, for people. Raises as `decode` does."""
        check_ids(ids, len(self))
        return [self.tokens[int(i)].translate(MARKS) for i in ids]

    def save(self, path):
        """Write the vocabulary into one JSON file."""
        Path(path).write_text(self._json(), encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, path):
        """Read what `save` has written.

        Raises ValueError if the file is cut, or was made by other rules.
        """
        try:
            held = json.loads(Path(path).read_text(encoding="utf-8"))
            if held["words"] != bpe.WORDS:
                raise ValueError(f"it splits words by {held['words']!r}, and this version by {bpe.WORDS!r}")
            return cls(held["characters"], held["merges"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is no vocabulary of sub-words: {error!r}. Learn it again.") from error

    @property
    def fingerprint(self):
        """The SHA-256 of all that decides how a text is encoded, in hex."""
        return hashlib.sha256(self._json().encode()).hexdigest()

    def _json(self):
        held = {
            "words": bpe.WORDS,
            "characters": self.characters,
            "merges": self.merges,
        }
        return json.dumps(held, ensure_ascii=False) + "\n"
