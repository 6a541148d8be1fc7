"""A model that writes notes: any backend of lm-eval that generates."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from lm_eval_epidemia.core.errors import EpidemiaError, suggest
from lm_eval_epidemia.models.loading import explain_loading

#: A note of 200 words and its tags, with room for a slip that the checker then sees.
MOST_TOKENS = 400

#: How freely a model writes at its first attempt; each further one is a step freer.
TEMPERATURE, STEP = 0.7, 0.1


class ModelWriter:
    """Writes with a model of lm-eval's registry.

    Parameters
    ----------
    backend : str
        As for ``lm_eval --model``: ``hf``, ``vllm``, ``local-chat-completions``.
    args : str
        As for ``--model_args``: ``pretrained=...,batch_size=8``.
    seed : int
        Of what is drawn; each attempt has its own.

    Raises
    ------
    EpidemiaError
        If no backend has this name, or it cannot be loaded with these arguments.
    """

    def __init__(self, backend: str, args: str = "", seed: int = 0) -> None:
        import lm_eval.models  # noqa: F401  (fills the registry)
        from lm_eval.api.registry import get_model, model_registry
        from lm_eval.utils import simple_parse_args_string

        known = list(model_registry.keys())
        if backend not in known:
            raise EpidemiaError(
                f"--writer {backend!r}: expected 'template' or a model type of lm-eval with its "
                f"arguments, as in --writer hf,pretrained=NAME ({suggest(backend, known)})"
            )
        self.seed = seed
        # The device is what lm_eval's command gives where none is named.
        given = {"device": "cuda:0", **simple_parse_args_string(args)}
        with explain_loading(f"--writer {backend},{args}"):
            self._model: Any = get_model(backend).create_from_arg_obj(given)
            tokenizer = getattr(self._model, "tokenizer", None)
        # A chat endpoint has the template itself, and takes messages.
        self._messages = "chat" in backend
        self._templated = tokenizer if getattr(tokenizer, "chat_template", None) else None

    def __call__(self, requests: Sequence[str], attempt: int) -> list[str]:
        """Return a reply to each request.

        Raises
        ------
        EpidemiaError
            If a server does not answer.
        """
        from lm_eval.api.instance import Instance

        temperature = round(TEMPERATURE + attempt * STEP, 2)
        how = {"until": [], "do_sample": True, "temperature": temperature}
        how["max_gen_toks"] = MOST_TOKENS
        # A local model draws from this; a server has its own seed.
        if torch := sys.modules.get("torch"):
            torch.manual_seed(1_000_003 * attempt + self.seed)
        instances = [
            Instance("generate_until", {}, (self._prompt(text), dict(how)), number)
            for number, text in enumerate(requests)
        ]
        try:
            return [reply or "" for reply in self._model.generate_until(instances)]
        except Exception as error:  # lm-eval, aiohttp and tenacity have their own
            fault = f"{type(error).__name__}: {error}".splitlines()[0]
            raise EpidemiaError(f"the writer does not answer ({fault}): start it again") from None

    def _prompt(self, text: str) -> Any:
        """Put a request into the model's chat template, where it has one."""
        chat, how = [{"role": "user", "content": text}], {"add_generation_prompt": True}
        if self._messages:
            return self._model.apply_chat_template(chat)
        if self._templated is None:
            return f"{text}\n"
        return self._templated.apply_chat_template(chat, tokenize=False, **how)
