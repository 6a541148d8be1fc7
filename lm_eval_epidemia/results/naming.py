"""Name models by their arguments to lm-eval, as briefly as distinguishes them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from lm_eval_epidemia.benchmarks.observation.respondents import RESPONDENTS
from lm_eval_epidemia.core.paths import read_yaml

#: What is known of settings.
KNOWN: dict[str, Any] = read_yaml(__package__, "settings.yaml")

HASHES: list[str] = KNOWN["hashes"]


class RunConfig(msgspec.Struct):
    """The model of a run, and how it was run. Older files hold arguments as text."""

    model: Any = "model"
    model_args: dict[str, Any] | str | None = None
    gen_kwargs: dict[str, Any] | str | None = None
    limit: Any = None
    model_num_parameters: Any = None
    model_dtype: Any = None
    model_sha: Any = None
    peft_sha: Any = None
    delta_sha: Any = None
    torch_seed: Any = None


def settings_of(config: RunConfig) -> tuple[tuple[str, str], ...]:
    """Return the settings of a run that may affect its answers, besides the weights.

    The backend, the dtype (that of the weights as they were loaded, where the file tells), every
    argument but those of the machine, and the hub's hashes.
    """
    arguments = parse_arguments(config.model_args)
    dtype = str(config.model_dtype or arguments.get("dtype") or "auto").removeprefix("torch.")
    named = ("pretrained", "model", "peft", "dtype", *KNOWN["of_weights"], *KNOWN["of_machine"])
    # Where no model is named, they are its name.
    told = sorted(arguments.items()) if _find_name(arguments) else []
    more = {key: str(value) for key, value in told if key not in named and value is not None}
    hashes = {key: str(sha) for key in HASHES if (sha := getattr(config, key))}
    return tuple({"backend": str(config.model), "dtype": dtype, **more, **hashes}.items())


def _find_name(arguments: dict[str, Any]) -> Any:
    return arguments.get("pretrained") or arguments.get("model")


def is_chat(config: RunConfig) -> bool:
    """Whether a model was asked through a chat endpoint, whose template lm-eval does not know."""
    url = str(parse_arguments(config.model_args).get("base_url", ""))
    return "chat-completions" in str(config.model) or "/chat/completions" in url


def parse_arguments(arguments: dict[str, Any] | str | None) -> dict[str, Any]:
    """Parse arguments that older files hold as text."""
    if isinstance(arguments, str):
        return dict(pair.partition("=")[::2] for pair in arguments.split(",") if pair)
    return arguments or {}


class Weights(NamedTuple):
    """A model's weights, as given to lm-eval.

    Attributes
    ----------
    model : str
        Its name or folder; without either, the backend with its arguments.
    more : tuple of str
        Further distinctions, such as "revision=x".
    adapter : str
        Name or folder of its adapter (``peft=``); empty without one.
    """

    model: str
    more: tuple[str, ...] = ()
    adapter: str = ""

    @property
    def name(self) -> str:
        """All of these in one line."""
        return " +".join([self.model, *self.more, *([self.adapter] if self.adapter else [])])


def weights_of(config: RunConfig, model_name: Any) -> Weights:
    """Return the weights of a run; without arguments, lm-eval's name for its model."""
    arguments = parse_arguments(config.model_args)
    if not (named := _find_name(arguments)):
        written = ",".join(f"{key}={value}" for key, value in arguments.items())
        return Weights(f"{config.model} {written}" if written else str(model_name or config.model))
    given = [(key, arguments[key]) for key in KNOWN["of_weights"] if arguments.get(key)]
    # "main" is what everybody gets.
    more = [f"{key}={value}" for key, value in given if (key, value) != ("revision", "main")]
    adapter = str(arguments.get("peft") or "")
    return Weights(_strip_slash(str(named)), tuple(more), _strip_slash(adapter))


def _strip_slash(path: str) -> str:
    return path.rstrip("/") or path


def short_names(everyone: Collection[Weights]) -> dict[Weights, str]:
    """Name models and adapters by the last part of their path, if that is unique.

    Otherwise a model keeps its full name, and an adapter as many last parts of its path as make it
    unique: "small +run-1/adapter". A reference respondent is named by its knowledge: "knows
    averages only (kind=mean)".
    """
    models = {
        w.model: _respondent(w.model) if "=" in w.model else _last(w.model, 1) for w in everyone
    }
    several = _repeated(models.values())
    models = {name: name if short in several else short for name, short in models.items()}
    adapters = dict.fromkeys((w.adapter for w in everyone if w.adapter), "")
    left, depth = set(adapters), 1
    while left:
        tried = {name: _last(name, depth) for name in adapters}
        unclear = _repeated(tried.values())
        # Where no more of a path is left, it is told apart by being whole.
        done = {n for n in left if tried[n] not in unclear or depth > len(Path(n).parts)}
        adapters |= {name: tried[name] for name in done}
        left, depth = left - done, depth + 1
    return {
        w: w._replace(model=models[w.model], adapter=adapters.get(w.adapter, "")).name
        for w in everyone
    }


def respondent(kind: str, *more: str) -> str:
    """Name a reference respondent by its knowledge, with the kind that commands take."""
    return f"{RESPONDENTS[kind]} ({', '.join((f'kind={kind}', *more))})"


def add_settings(name: str, settings: Iterable[str]) -> str:
    """Add settings to a name: "m (limit 10)", "knows the truth (kind=truth, limit 10)"."""
    more = ", ".join(settings)
    if not more:
        return name
    return f"{name.removesuffix(')')}, {more})" if name.endswith(")") else f"{name} ({more})"


def without_kind(name: str) -> str:
    """Name a reference respondent by its knowledge alone; leave other models unchanged."""
    return re.sub(r" \(kind=\w+\)|kind=\w+, ", "", name)


def _respondent(model: str) -> str:
    backend, _, arguments = model.partition(" kind=")
    kind, *more = arguments.split(",")
    is_known = backend == "epidemia-baseline" and kind in RESPONDENTS
    return respondent(kind, *more) if is_known else model


def _repeated(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def _last(path: str, parts: int) -> str:
    """Return the last parts of a path; a text containing " / " is not a path."""
    return path if " / " in path else "/".join(Path(path).parts[-parts:]) or path
