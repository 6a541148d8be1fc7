"""Tokenize texts as lm-eval's tokenizer does, each distinct line once.

The prompts of a task are the same lines in other orders. A tokenizer that ends a token wherever a
line ends (nearly all do; offsets tell) has the same tokens for a line wherever it stands, so a text
is put together from the tokens of its lines. One text in sixteen is tokenized whole all the same:
where it differs, all of them are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, compress, repeat
from operator import not_
from typing import Any, NamedTuple

#: A line, with the ends of lines that follow it.
LINE = re.compile(r"[^\n]*\n+|[^\n]+")

#: One text in so many is tokenized whole though all its lines are known.
CONTROLS = 16

Tokens = list[int]


#: A line, the character that follows it, and whether none precedes it: else what does ends a line.
Place = tuple[str, str, bool]


class Whole(NamedTuple):
    """A text's tokens; where each begins and ends, if the tokenizer tells."""

    tokens: Tokens
    offsets: list[tuple[int, int]] | None


def batch_encoder(lm: Any) -> Callable[[list[str]], list[Tokens]]:
    """Return a function that tokenizes many texts as ``lm.tok_encode`` does each.

    Parameters
    ----------
    lm : TemplateLM
        A model of lm-eval with a Hugging Face tokenizer.
    """
    bos = lm.tokenizer.decode(lm.prefix_token_id) if lm.prefix_token_id is not None else ""
    usual = {} if lm.add_bos_token is None else {"add_special_tokens": lm.add_bos_token}
    # Tokenizers without offsets may refuse the very question.
    fast = bool(getattr(lm.tokenizer, "is_fast", False))
    told = {"return_offsets_mapping": True} if fast else {}

    def by(special: dict[str, bool]) -> _ByLine:
        def tokenize(texts: list[str]) -> list[Whole]:
            encoded = lm.tokenizer(texts, **told, **special)
            # Whatever lm-eval does besides, it must come to the same.
            if encoded["input_ids"][0] != lm.tok_encode(texts[0]):
                return [Whole(lm.tok_encode(text), None) for text in texts]
            offsets = encoded["offset_mapping"] if fast else [None] * len(texts)
            return [Whole(*whole) for whole in zip(encoded["input_ids"], offsets, strict=True)]

        return _ByLine(tokenize)

    with_bos, without = by({"add_special_tokens": False}), by(usual)

    def encode(texts: list[str]) -> list[Tokens]:
        has_bos = [bool(bos) and text.startswith(bos) for text in texts]
        begun = iter(with_bos(list(compress(texts, has_bos))))
        others = iter(without(list(compress(texts, map(not_, has_bos)))))
        return [next(begun if has else others) for has in has_bos]

    return encode


class _ByLine:
    """Tokenizes texts of which many share lines; remembers the lines."""

    def __init__(self, tokenize: Callable[[list[str]], list[Whole]]) -> None:
        self._tokenize = tokenize
        #: None if the same line in the same place has had other tokens, or none of its own.
        self._known: dict[Place, Tokens | None] = {}
        self._trusted = True

    def __call__(self, texts: list[str]) -> list[Tokens]:
        if not self._trusted:
            return self._whole(texts)
        places = [_places(text) for text in texts]
        planned = set(self._known)
        asked: list[int] = []
        waiting: list[int] = []
        for number, of_text in enumerate(places):
            (waiting if planned.issuperset(of_text) else asked).append(number)
            planned.update(of_text)
        tokens: dict[int, Tokens] = {}
        for number, whole in self._ask(texts, asked):
            tokens[number] = whole.tokens
            self._learn(places[number], whole)
        for number, whole in self._ask(texts, waiting[::CONTROLS]):
            tokens[number] = whole.tokens
            self._trusted &= self._joined(places[number]) in (None, whole.tokens)
        if not self._trusted:
            return self._whole(texts)
        joined = {n: self._joined(places[n]) for n in waiting if n not in tokens}
        tokens |= {n: ids for n, ids in joined.items() if ids is not None}
        unknown = [n for n, ids in joined.items() if ids is None]
        tokens |= {number: whole.tokens for number, whole in self._ask(texts, unknown)}
        return [tokens[number] for number in range(len(texts))]

    def _whole(self, texts: list[str]) -> list[Tokens]:
        return [whole.tokens for _, whole in self._ask(texts, range(len(texts)))]

    def _ask(self, texts: list[str], numbers: Sequence[int]) -> Iterator[tuple[int, Whole]]:
        """Tokenize some of the texts as wholes; yield the number of each with its tokens."""
        if numbers:
            wholes = self._tokenize([texts[number] for number in numbers])
            yield from zip(numbers, wholes, strict=True)

    def _learn(self, places: list[Place], whole: Whole) -> None:
        parts = _cut(places, whole)
        for place, tokens in zip(places, parts or repeat(None), strict=False):
            if self._known.setdefault(place, tokens) != tokens:
                self._known[place] = None

    def _joined(self, places: list[Place]) -> Tokens | None:
        parts = [self._known[place] for place in places]
        return None if None in parts else list(chain.from_iterable(parts))  # type: ignore[arg-type]


def _places(text: str) -> list[Place]:
    lines = LINE.findall(text)
    following = [line[0] for line in lines[1:]]
    return list(zip(lines, chain(following, ("",)), chain((True,), repeat(False)), strict=False))


def _cut(places: list[Place], whole: Whole) -> list[Tokens] | None:
    """Return the tokens of each line; None if one goes across the end of a line."""
    if whole.offsets is None:
        return None
    parts, at, end = [], 0, 0
    for line, _, _ in places:
        end, begun = end + len(line), at
        while at < len(whole.tokens) and whole.offsets[at][1] <= end:
            at += 1
        if at < len(whole.tokens) and whole.offsets[at][0] < end:
            return None
        parts.append(whole.tokens[begun:at])
    return parts if at == len(whole.tokens) else None
