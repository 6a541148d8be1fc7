"""Prompts as a tree of tokens, so that shared beginnings are computed once.

The orderings of a question and the cells of a task begin alike. Sorted, they are a tree in
pre-order; a *pack* is a piece of it, written as one sequence. Token ``j`` belongs to the prompt of
token ``i`` if it stands on the way from the root to ``i``: ``j <= i <= last[j]``, where ``last[j]``
is the last descendant of ``j``. Positions count from the root.

Attention over a whole pack would look at all pairs and throw most of them away. In pre-order the
tokens of a *block*, a run of neighbours, have outside of it no ancestors but those of the block's
first token: a block reads as many keys as its prompt is long, and its own. So attention does not
grow with the pack, and the largest pack that memory allows is the cheapest.

Everything here is planning: lists, arrays and costs, no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.models.choices import Batch, Question, count_common, plan

#: Tokens of a block: of 32, 64, 128 and 256 the fastest on a processor (64 is as fast).
BLOCK = 128

#: The number of keys is a multiple of this: what masks of accelerators' kernels want.
ALIGNED = 8

#: A multiply-add of attention costs as much as this many of the weights (softmax, mask and copies
#: of keys included): a rough fit (docs/guides/performance.md).
ATTENTION = 1.5


class Tree(NamedTuple):
    """Some prompts in pre-order.

    Attributes
    ----------
    tokens : array of int, shape (N,)
        The last token of each distinct beginning.
    position : array of int, shape (N,)
        Where it stands in its prompts, from 0.
    last : array of int, shape (N,)
        Its last descendant, or itself.
    read : list of list of int
        For each question the ``shared + 1`` tokens after which it is read.
    """

    tokens: np.ndarray
    position: np.ndarray
    last: np.ndarray
    read: list[list[int]]


def tree_of(questions: Sequence[Question]) -> Tree:
    """Write questions as a tree.

    Parameters
    ----------
    questions : sequence of Question
        Sorted by their tokens, at least one; equal ones and beginnings of others are allowed.
    """
    tokens: list[int] = []
    position: list[int] = []
    last: list[int] = []
    read: list[list[int]] = []
    path: list[int] = []
    before: Sequence[int] = ()
    for question in questions:
        same, length = count_common(before, question.tokens), len(question.tokens)
        start, path = len(tokens), path[:same]
        path += range(start, start + length - same)
        tokens += question.tokens[same:]
        position += range(same, length)
        last += [0] * (length - same)
        # Until a later question goes on from here, the end of this one is the last descendant.
        for node in path:
            last[node] = len(tokens) - 1
        read.append(path[length - question.shared - 1 :])
        before = question.tokens
    return Tree(np.array(tokens), np.array(position), np.array(last), read)


class Blocks(NamedTuple):
    """Which keys the tokens of a tree look at, block by block.

    Attributes
    ----------
    keys : array of int, shape (B, A + Q)
        The ancestors of the block's first token, filled up at the front, and the block's tokens,
        filled up behind.
    visible : array of bool, shape (B, Q, A + Q)
        Which keys a token sees: its ancestors and itself, each once. What fills up the last block
        sees something too, so that its softmax is a number.
    """

    keys: np.ndarray
    visible: np.ndarray


def blocks_of(tree: Tree, size: int = BLOCK) -> Blocks:
    """Cut a tree into blocks.

    Parameters
    ----------
    tree : Tree
    size : int
        Tokens of a block, Q; no more than the tree has.
    """
    total = len(tree.tokens)
    size = min(size, total)
    starts = np.arange(0, total, size)
    own = starts[:, None] + np.arange(size)
    queries = np.minimum(own, total - 1)
    before = -(-(int(tree.position[starts].max()) + size) // ALIGNED) * ALIGNED - size
    keys = np.zeros((len(starts), before + size), dtype=np.int64)
    real = np.zeros(keys.shape, dtype=bool)
    for number, start in enumerate(starts):
        ancestors = np.flatnonzero(tree.last[:start] >= start)
        place = slice(before - len(ancestors), before)
        keys[number, place], real[number, place] = ancestors, True
    keys[:, before:], real[:, before:] = queries, own < total
    visible = (
        real[:, None, :]
        & (keys[:, None, :] <= queries[:, :, None])
        & (queries[:, :, None] <= tree.last[keys][:, None, :])
    )
    return Blocks(keys, visible)


class Pack(NamedTuple):
    """What one forward pass over a tree takes.

    Attributes
    ----------
    questions : list of Question
        Sorted by their tokens.
    cost : int
        Tokens that the model computes: the distinct ones.
    """

    questions: list[Question]
    cost: int


def packs(questions: Sequence[Question], limit: int, reads: int) -> list[Pack]:
    """Cut the tree of some questions into packs.

    A pack begins with the whole first prompt: what that shares with the pack before is computed
    again. A pack is cut where that comes to the least, relative to what it computed.

    Parameters
    ----------
    questions : sequence of Question
    limit : int
        Tokens of a pack; a longer question has a pack of its own.
    reads : int
        Positions of a pack that reach the output head, at most, for the memory of their logits.
    """
    ordered = sorted(questions, key=lambda q: (q.tokens, q.shared, q.requests))
    again = [0, *(count_common(a.tokens, b.tokens) for a, b in pairwise(ordered))]
    cut: list[Pack] = []
    start = 0
    while start < len(ordered):
        size, read, end = len(ordered[start].tokens), ordered[start].shared + 1, start + 1
        best = (float("inf"), 0, 0)
        while True:
            whole = end == len(ordered)
            # The later one of two equals: fewer packs.
            best = min(best, (0.0 if whole else again[end] / size, -end, size))
            if whole:
                break
            q = ordered[end]
            size, read = size + len(q.tokens) - again[end], read + q.shared + 1
            if size > limit or read > reads:
                break
            end += 1
        _, end, size = best
        cut.append(Pack(ordered[start:-end], size))
        start = -end
    return cut


class Costs(NamedTuple):
    """What a model computes, in multiply-adds.

    Attributes
    ----------
    token : int
        Per token: the weights outside of the embeddings and the output head.
    pair : int
        Per query and key that meet, over all layers and heads.
    """

    token: int
    pair: int


def cost_of_pack(pack: Pack, costs: Costs, block: int = BLOCK) -> float:
    """Return the multiply-adds of a pack, those of attention at their price.

    Parameters
    ----------
    pack : Pack
    costs : Costs
    block : int
        Tokens of a block.
    """
    longest = max(len(q.tokens) for q in pack.questions)
    size = min(block, pack.cost)
    blocks = -(-pack.cost // size)
    pairs = blocks * size * ((longest if blocks > 1 else 0) + size)
    return pack.cost * costs.token + ATTENTION * pairs * costs.pair


def cost_of_rows(batch: Batch, costs: Costs) -> float:
    """Return the multiply-adds of a batch of rows, those of attention at their price.

    Rows behind a common beginning have a mask, and all their pairs are computed; others only those
    on and below the diagonal.

    Parameters
    ----------
    batch : Batch
    costs : Costs
    """
    rows, longest = len(batch.questions), max(len(q.tokens) for q in batch.questions)
    pairs = rows * longest**2 / 2
    if batch.prefix:
        pairs = batch.prefix**2 / 2 + rows * (longest - batch.prefix) * longest
    return batch.cost * costs.token + ATTENTION * pairs * costs.pair


def plan_paths(
    questions: Sequence[Question],
    limit: int,
    reads: int,
    share: bool,
    longest: int,
    costs: Costs,
    only: str | None = None,
) -> list[Pack | Batch]:
    """Put questions into packs where these cost less than rows, and into batches of rows.

    Parameters
    ----------
    questions : sequence of Question
    limit : int
        Tokens of a forward pass.
    reads : int
        Positions of a pack that reach the output head.
    share : bool
        Whether rows can share a beginning (see `plan`).
    longest : int
        Tokens of the longest prompt that the model reads in a tree; 0: none.
    costs : Costs
    only : {"tree", "rows"}, optional
        For measurements: the path of all questions that can take it.
    """
    longest = 0 if only == "rows" else longest
    short = [q for q in questions if len(q.tokens) <= longest]
    rows = [q for q in questions if len(q.tokens) > longest]
    chosen: list[Pack | Batch] = []
    for pack in packs(short, limit, reads):
        plain = sum(cost_of_rows(batch, costs) for batch in plan(pack.questions, limit, share))
        if only == "tree" or cost_of_pack(pack, costs) < plain:
            chosen.append(pack)
        else:
            rows += pack.questions
    return [*chosen, *plan(rows, limit, share)]
