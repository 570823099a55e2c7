"""Text in, numbers out, and back: vocabularies of words and of characters.

This module knows nothing about models. It owns the four special tokens, and the sentence that a reader sees
when a token id points outside a vocabulary.
"""

from collections import Counter

import torch

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")
BYTES = tuple(f"<0x{value:02X}>" for value in range(256))


def check_ids(ids, n, position=()):
    """Refuse a token id that a vocabulary of n tokens does not have.

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
    wrong = ((ids < 0) | (ids >= n)).nonzero()
    if len(wrong):
        first = tuple(wrong[0].tolist())
        place = ", ".join(map(str, position + first)) or "0"
        raise ValueError(
            f"token id {ids[first].item()} at position {place} is outside a vocabulary of {n} tokens: "
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
