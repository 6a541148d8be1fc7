"""Attention over a pack of prompts (see `prefix_tree`), in models of Transformers that allow it.

Models of Transformers look their attention up by name, so another one can be put in for a while.
Whether a loaded model gives the same with it as without is tried, not derived from its name: one
that keeps a state instead of keys, counts positions itself or adds to the scores does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from lm_eval_epidemia.models.choices import Question
from lm_eval_epidemia.models.prefix_tree import BLOCK, Blocks, Tree, blocks_of, tree_of

NAME = "epidemia_tree"

#: Implementations of attention that this one can stand in for.
STANDARD = ("sdpa", "eager")

#: What a layer may pass on and this attention does not know.
REFUSED = ("softcap", "s_aux", "position_bias", "cache")

#: How far log-probabilities may lie apart, in units of rounding of their type (5e-5 in float32),
#: and relative to how far they differ between prompts: a wrong mask or position makes them another
#: prompt's.
UNITS, SIGNAL = 400, 0.1

#: Types of rotary embeddings that turn otherwise in long passes.
LENGTHENING = ("dynamic", "longrope")

#: Any number of tokens.
ANY = 1 << 30


class Unsuited(RuntimeError):
    """A layer wants of its attention what a tree cannot give."""


@contextmanager
def tree_attention(model: Any, tree: Tree, block: int = BLOCK) -> Iterator[list[int]]:
    """Let all layers of a model attend along a tree, given as one sequence.

    Parameters
    ----------
    model : PreTrainedModel or PeftModel
    tree : Tree
    block : int
        Tokens of a block.

    Yields
    ------
    list of int
        The sliding window of each layer that attended, `ANY` without one.
    """
    windows: list[int] = []
    known: list[Any] = [getattr(module, "config", None) for module in model.modules()]
    configs = {id(config): config for config in known if hasattr(config, "_attn_implementation")}
    with ExitStack() as stack:
        ALL_ATTENTION_FUNCTIONS[NAME] = _attention(blocks_of(tree, block), windows)
        stack.callback(ALL_ATTENTION_FUNCTIONS.__delitem__, NAME)
        for config in configs.values():
            stack.callback(setattr, config, "_attn_implementation", config._attn_implementation)
            config._attn_implementation = NAME
        yield windows


def _attention(blocks: Blocks, windows: list[int]) -> Callable[..., tuple[torch.Tensor, None]]:
    """Return an attention function for one tree."""
    count, size, width = blocks.visible.shape
    masks: dict[Any, tuple[torch.Tensor, torch.Tensor]] = {}

    def prepared(like: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and mask, once for each device that holds layers."""
        at = (like.device, like.dtype, group)
        if at not in masks:
            hidden = torch.from_numpy(~blocks.visible).to(like.device)
            mask = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device)
            mask.masked_fill_(hidden, -torch.inf)
            keys = torch.from_numpy(blocks.keys).flatten().to(like.device)
            masks[at] = keys, mask.repeat(1, group, 1)[:, None]
        return masks[at]

    def attend(
        _layer: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        dropout: float = 0.0,
        scaling: float | None = None,
        **more: Any,
    ) -> tuple[torch.Tensor, None]:
        rows, heads, length, depth = query.shape
        strange = [name for name in REFUSED if more.get(name) is not None]
        if strange or attention_mask is not None or rows != 1 or key.shape[2] != length:
            raise Unsuited(strange)
        windows.append(more.get("sliding_window") or ANY)
        shared = key.shape[1]
        group = heads // shared
        keys, mask = prepared(query, group)
        # Heads that share keys stand below each other, so that no key is copied for them.
        asking = F.pad(query[0], (0, 0, 0, count * size - length))
        asking = asking.view(shared, group, count, size, depth).permute(2, 0, 1, 3, 4)
        attended = F.scaled_dot_product_attention(
            asking.reshape(count, shared, group * size, depth),
            key[0].index_select(1, keys).view(shared, count, width, -1).transpose(0, 1),
            value[0].index_select(1, keys).view(shared, count, width, -1).transpose(0, 1),
            attn_mask=mask,
            scale=scaling,
        )
        attended = attended.reshape(count, shared, group, size, -1).permute(0, 3, 1, 2, 4)
        return attended.reshape(1, count * size, heads, -1)[:, :length], None

    return attend


def longest_prompt(
    model: Any,
    vocabulary: int,
    plain: Callable[[torch.Tensor], torch.Tensor],
    packed: Callable[[Tree, int], tuple[torch.Tensor, list[int]]],
) -> int:
    """Try a small tree on a model, and return how long its prompts may be.

    Parameters
    ----------
    model : PreTrainedModel or PeftModel
    vocabulary : int
        Tokens that the model knows.
    plain : callable
        Given token numbers, shape (1, L), returns the logits after each.
    packed : callable
        Given a tree and the size of its blocks, returns the logits at the positions read, shape
        (R, vocabulary), and the windows that `tree_attention` saw.

    Returns
    -------
    int
        Tokens; 0 for a model that cannot take trees.
    """
    config = _config(model)
    if getattr(config, "_attn_implementation", None) not in STANDARD:
        return 0
    # A long branch and two short ones, of which one begins the other, behind a trunk: blocks of 16
    # that begin in the middle of branches, and positions that jump back by 40.
    draw = torch.Generator().manual_seed(17)
    ids = torch.randint(vocabulary, (68,), generator=draw).tolist()
    trunk = ids[:12]
    prompts = sorted([trunk + ids[12:52], trunk + ids[52:60], trunk + ids[52:68]])
    tree = tree_of([Question(ids, 0, [], []) for ids in prompts])
    try:
        with torch.no_grad():
            expected = torch.stack([plain(torch.tensor([ids]))[0, -1] for ids in prompts])
            logits, windows = packed(tree, 16)
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        return 0
    # Some models have windows in their masks only; none shows in a trial shorter than it.
    named = [getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size")]
    longest = min([count_turning(model), *windows, *filter(None, named)])
    return longest if windows and _same(logits, expected) else 0


def count_turning(model: Any) -> int:
    """Return up to how many tokens positions turn alike in every forward pass, `ANY` without end.

    Of rotary embeddings of the types "dynamic" and "longrope", the longest row of a pass decides:
    beyond the length of the first training, all keys of a pass are other keys.
    """
    config = _config(model)
    rope = getattr(config, "rope_parameters", None) or {}
    # Some models have such parameters for each kind of layer.
    kinds = [parameters for parameters in (rope, *rope.values()) if isinstance(parameters, dict)]
    if not any(parameters.get("rope_type") in LENGTHENING for parameters in kinds):
        return ANY
    trained = [parameters.get("original_max_position_embeddings") for parameters in kinds]
    trained.append(getattr(config, "original_max_position_embeddings", None))
    return int(min(filter(None, trained), default=getattr(config, "max_position_embeddings", 0)))


def _config(model: Any) -> Any:
    return model.config.get_text_config() if hasattr(model.config, "get_text_config") else None


def _same(logits: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether two computations of logits differ by their rounding only."""
    if logits.shape != expected.shape:
        return False
    unit = torch.finfo(expected.dtype).eps
    right = expected.float().log_softmax(-1)
    apart = logits.float().log_softmax(-1) - right
    signal = (right - right.roll(1, 0)).square().mean().sqrt()
    # Not a number is never small enough.
    return bool(
        (apart.abs() <= UNITS * unit * right.abs().clamp(min=1)).all()
        and apart.square().mean().sqrt() <= SIGNAL * signal
    )
