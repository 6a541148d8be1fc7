"""From lm-eval's requests to questions: contexts whose choices differ in their last token.

Shared by `choice-hf` and `choice-vllm`. lm-eval turns a multiple-choice prompt into one request per
choice and tokenizes each twice; here a context is tokenized once, and its choices are put back
together, so that one forward pass answers them all.

The prompts of a task are the same lines in other orders. A tokenizer that ends a token wherever a
line ends (nearly all do; offsets tell) has the same tokens for a line wherever it stands, so a text
is put together from the tokens of its distinct lines. One text in sixteen is tokenized whole all
the same: where it differs, all of them are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, repeat
from operator import not_
from typing import Any, NamedTuple

from tqdm import tqdm

#: A choice's tokens are taken from other contexts that end in the same characters, once this many
#: of these gave the same.
TAIL, WITNESSES = 48, 3

#: Contexts tokenized at a time.
BATCH = 1024

#: A beginning that fewer tokens or fewer prompts share is not worth a forward pass of its own.
SHORTEST_PREFIX, FEWEST_ROWS = 16, 4

#: Tokens that keep an accelerator busy: a batch that has them ends where its beginning does.
ENOUGH = 2048

Key = tuple[str, str]
Encoded = tuple[Key, list[int], list[int]]


class Question(NamedTuple):
    """One input to the model, and the choices that are read after it.

    Attributes
    ----------
    tokens : list of int
        The context and all but the last token of the choices.
    shared : int
        How many of these belong to the choices: their log-probabilities count.
    requests : list of int
        Numbers of the requests answered.
    last : list of int
        The last token of each request's choice.
    """

    tokens: list[int]
    shared: int
    requests: list[int]
    last: list[int]


def move_spaces(context: str, choice: str) -> Key:
    """Give a context's trailing spaces to the choice, as lm-eval does."""
    kept = context.rstrip()
    return kept, context[len(kept) :] + choice


def encode(lm: Any, requests: Sequence[Key], disable_tqdm: bool = False) -> list[Encoded]:
    """Tokenize requests as ``lm._encode_pair`` does, each context once.

    The tokens of a choice are those that follow the context's in the tokens of both together.
    Tokenizers work locally: where three contexts that end in the same 48 characters gave a choice
    the same tokens, the fourth is not tried.

    Parameters
    ----------
    lm : TemplateLM
        A causal model of lm-eval.
    requests : sequence of (str, str)
        Context, not empty, and continuation.
    disable_tqdm : bool

    Returns
    -------
    list of ((str, str), list of int, list of int)
        As ``lm._loglikelihood_tokens`` takes them.
    """
    encoder = batch_encoder(lm)
    moved = [move_spaces(*request) for request in requests]
    contexts = list(dict.fromkeys(context for context, _ in moved))
    tokens: dict[str, list[int]] = {}
    with tqdm(total=len(contexts), desc="Tokenizing contexts", disable=disable_tqdm) as bar:
        for start in range(0, len(contexts), BATCH):
            batch = contexts[start : start + BATCH]
            tokens.update(zip(batch, encoder(batch), strict=True))
            bar.update(len(batch))
    after = _tokens_of_choices(encoder, moved, tokens)
    before = [tokens[context] for context, _ in moved]
    return list(zip(requests, before, after, strict=True))


def _tokens_of_choices(
    encoder: Callable[[list[str]], list[list[int]]],
    pairs: Sequence[Key],
    tokens: Mapping[str, list[int]],
) -> list[list[int]]:
    """Return the tokens of each choice after its context.

    Parameters
    ----------
    encoder : callable
        Tokenizes many texts.
    pairs : sequence of (str, str)
        Context and choice.
    tokens : dict
        Of each context.
    """
    alike: dict[Key, list[int]] = {}
    for number, (context, choice) in enumerate(pairs):
        alike.setdefault((context[-TAIL:], choice), []).append(number)
    after: list[list[int]] = [[] for _ in pairs]

    def tokenize(numbers: list[int]) -> None:
        for start in range(0, len(numbers), BATCH):
            batch = numbers[start : start + BATCH]
            whole = encoder(["".join(pairs[number]) for number in batch])
            for number, ids in zip(batch, whole, strict=True):
                after[number] = ids[len(tokens[pairs[number][0]]) :]

    tokenize([number for numbers in alike.values() for number in numbers[:WITNESSES]])
    disagreed = []
    for numbers in alike.values():
        witness, left = after[numbers[0]], numbers[WITNESSES:]
        if any(after[number] != witness for number in numbers[1:WITNESSES]):
            disagreed += left
            continue
        for number in left:
            after[number] = witness
    tokenize(disagreed)
    return after


def group_requests(
    encoded: Sequence[Encoded], longest: int, longest_choice: int
) -> tuple[list[Question], list[int]]:
    """Group the requests that one forward pass can answer.

    Parameters
    ----------
    encoded : sequence
        As `encode` returns it.
    longest : int
        Tokens of a context and a choice that fit; longer ones are left to lm-eval.
    longest_choice : int
        Tokens of a choice; longer ones are left too.

    Returns
    -------
    questions : list of Question
    others : list of int
        Numbers of the requests that are left.
    """
    questions: dict[tuple[int, tuple[int, ...]], Question] = {}
    others = []
    for number, (_, context, choice) in enumerate(encoded):
        if not 1 <= len(choice) <= longest_choice or len(context) + len(choice) > longest:
            others.append(number)
            continue
        # A context's list of tokens is one object for all its requests.
        key = (id(context), tuple(choice[:-1]))
        if key not in questions:
            questions[key] = Question([*context, *choice[:-1]], len(choice) - 1, [], [])
        questions[key].requests.append(number)
        questions[key].last.append(choice[-1])
    return list(questions.values()), others


def answer_requests(
    lm: Any,
    requests: Sequence[Any],
    fits: tuple[int, int],
    answer: Callable[[list[Question], list[Encoded], list[Any], bool], list[int]],
    stock: Callable[..., list[tuple[float, bool]]],
    quiet: bool,
) -> list[tuple[float, bool]]:
    """Answer requests grouped as questions, and the remaining ones in lm-eval's way.

    Parameters
    ----------
    lm : TemplateLM
        A causal model of lm-eval.
    requests : sequence of Instance
    fits : (int, int)
        Tokens of a context and a choice that fit, and of a choice.
    answer : callable
        Given questions, encoded requests, a list to fill in by number of request, and `quiet`;
        returns the numbers that it could not answer.
    stock : callable
        lm-eval's own ``loglikelihood``, for requests without a context.
    quiet : bool
        Show no progress.
    """
    answers: list[Any] = [None] * len(requests)
    if bare := [number for number, request in enumerate(requests) if not request.args[0]]:
        asked = [number for number, request in enumerate(requests) if request.args[0]]
        rest = [requests[number] for number in asked]
        some = answer_requests(lm, rest, fits, answer, stock, quiet)
        alone = stock([requests[number] for number in bare], disable_tqdm=quiet)
        for number, answered in zip(chain(asked, bare), chain(some, alone), strict=True):
            answers[number] = answered
        return answers
    encoded = encode(lm, [request.args for request in requests], quiet)
    questions, others = group_requests(encoded, *fits)
    others += answer(questions, encoded, answers, quiet)
    if others:
        left = [encoded[number] for number in others]
        by_stock = lm._loglikelihood_tokens(left, disable_tqdm=quiet)
        for number, answered in zip(others, by_stock, strict=True):
            answers[number] = answered
    return answers


class Batch(NamedTuple):
    """The input of one forward pass.

    Attributes
    ----------
    questions : list of Question
        All with the same number of shared choice tokens.
    prefix : int
        How many tokens at the beginning are the same in all; 0 if that does not pay.
    """

    questions: list[Question]
    prefix: int

    @property
    def cost(self) -> int:
        """Tokens that the model computes, padding included."""
        longest = max(len(q.tokens) for q in self.questions)
        return self.prefix + len(self.questions) * (longest - self.prefix)


def plan(questions: Sequence[Question], limit: int, share: bool) -> list[Batch]:
    """Put questions into batches, in the order that needs less computation.

    By length, longest first, there is little padding. By their tokens, questions with the same
    beginning (a system prompt, solved examples, a question in another order of its answers) stand
    side by side, and the beginning is computed once per batch.

    Parameters
    ----------
    questions : sequence of Question
    limit : int
        Tokens of a batch, padding and beginnings included.
    share : bool
        Whether the model can compute beginnings once.
    """
    by_length = sorted(questions, key=lambda q: (q.shared, -len(q.tokens), q.tokens))
    plans = [_batches(by_length, limit, share=False)]
    if share:
        by_tokens = sorted(questions, key=lambda q: (q.shared, q.tokens))
        plans.append(_batches(by_tokens, limit, share=True))
    return min(plans, key=lambda batches: sum(batch.cost for batch in batches))


def count_common(first: Sequence[int], other: Sequence[int]) -> int:
    """Return how many leading tokens two questions have in common."""
    for place, (a, b) in enumerate(zip(first, other, strict=False)):
        if a != b:
            return place
    return min(len(first), len(other))


def _batches(ordered: Sequence[Question], limit: int, share: bool) -> list[Batch]:
    batches: list[Batch] = []
    start = 0
    while start < len(ordered):
        first, end = ordered[start], start + 1
        longest = shortest = same = len(first.tokens)
        while end < len(ordered) and ordered[end].shared == first.shared:
            tokens = ordered[end].tokens
            rows, longer = end - start, max(longest, len(tokens))
            if (rows + 1) * longer > limit:
                break
            with_next = count_common(first.tokens, tokens) if share else 0
            # A batch that is large enough is not continued into questions that begin differently.
            enough = rows * (longest - same) >= min(limit // 4, ENOUGH)
            if share and enough and (rows + 1) * with_next < rows * same:
                break
            longest, shortest, same = longer, min(shortest, len(tokens)), with_next
            end += 1
        # At least the positions that are read, and one token before them, are each row's own.
        same = min(same, shortest - first.shared - 2)
        pays = share and same >= SHORTEST_PREFIX and end - start >= FEWEST_ROWS
        batches.append(Batch(list(ordered[start:end]), same if pays else 0))
        start = end
    return batches


def remember(lm: Any, answered: Iterable[tuple[Any, Any]], kind: str = "loglikelihood") -> None:
    """Write answers to lm-eval's cache of responses, if there is one, before continuing.

    Keyed as lm-eval keys them. It would commit each one in the background; a run that is killed has
    all of these or none, and all once this returned.

    Parameters
    ----------
    lm : LM
    answered : iterable of ((str, str), (float, bool))
        Requests and their answers.
    kind : str
        Of the requests.
    """
    database = lm.cache_hook.dbdict
    if database is None:
        return
    # Of its own each statement is a transaction, in the thread that writes.
    each, writer = database.autocommit, database.conn
    database.autocommit = writer.autocommit = False
    try:
        writer.execute("BEGIN")
        for request, answer in answered:
            lm.cache_hook.add_partial(kind, request, answer)
        database.commit()
    finally:
        writer.commit(blocking=False)  # interrupted: what is written again finds none open
        database.autocommit = writer.autocommit = each


#: A line, with the ends of lines that follow it.
LINE = re.compile(r"[^\n]*\n+|[^\n]+")

#: One text in so many is tokenized whole though all its lines are known.
CONTROLS = 16

Tokens = list[int]


#: A line, the character that follows it, and whether none precedes it: else what does ends a line.
Place = tuple[str, str, bool]


class TextTokens(NamedTuple):
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
        def tokenize(texts: list[str]) -> list[TextTokens]:
            encoded = lm.tokenizer(texts, **told, **special)
            # Whatever lm-eval does besides, it must come to the same.
            if encoded["input_ids"][0] != lm.tok_encode(texts[0]):
                return [TextTokens(lm.tok_encode(text), None) for text in texts]
            offsets = encoded["offset_mapping"] if fast else [None] * len(texts)
            return [TextTokens(*whole) for whole in zip(encoded["input_ids"], offsets, strict=True)]

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

    def __init__(self, tokenize: Callable[[list[str]], list[TextTokens]]) -> None:
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

    def _ask(self, texts: list[str], numbers: Sequence[int]) -> Iterator[tuple[int, TextTokens]]:
        """Tokenize some of the texts as wholes; yield the number of each with its tokens."""
        if numbers:
            wholes = self._tokenize([texts[number] for number in numbers])
            yield from zip(numbers, wholes, strict=True)

    def _learn(self, places: list[Place], whole: TextTokens) -> None:
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


def _cut(places: list[Place], whole: TextTokens) -> list[Tokens] | None:
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
