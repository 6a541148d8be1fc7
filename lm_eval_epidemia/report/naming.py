"""How models are called: by what was said to lm-eval of them, as short as tells them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

__all__ = ["Config", "model_name", "pairs", "short_names"]

#: Of a model's arguments, those that make it another model.
MODEL_ARGUMENTS = ("revision", "subfolder", "peft", "delta", "gguf_file", "quantization",
                   "load_in_4bit", "load_in_8bit")  # fmt: skip


class Config(msgspec.Struct):
    """Of a run: the model, and how it was run. Older files hold arguments as text."""

    model: Any = "model"
    model_args: dict[str, Any] | str | None = None
    gen_kwargs: dict[str, Any] | str | None = None
    limit: Any = None
    model_num_parameters: Any = None


def pairs(arguments: dict[str, Any] | str | None) -> dict[str, Any]:
    """Return arguments that older files hold as text."""
    if isinstance(arguments, str):
        return dict(pair.partition("=")[::2] for pair in arguments.split(",") if pair)
    return arguments or {}


def model_name(config: Config) -> tuple[str, str]:
    """Name the model of a run: whole, and what makes it another than its name says."""
    arguments = pairs(config.model_args)
    named = arguments.get("pretrained") or arguments.get("model")
    if not named:
        said = ",".join(f"{key}={value}" for key, value in arguments.items())
        return " ".join(part for part in (str(config.model), said) if part), ""
    given = {key: arguments[key] for key in MODEL_ARGUMENTS if arguments.get(key)}
    # "main" is what everybody gets.
    more = [
        Path(str(value)).name if key == "peft" else f"{key}={value}"
        for key, value in given.items()
        if (key, value) != ("revision", "main")
    ]
    return str(named).rstrip("/"), "".join(f" +{part}" for part in more)


def short_names(names: Collection[str]) -> dict[str, str]:
    """Call models by the last part of their path, where that tells them apart."""
    short = {name: name if "=" in name.split(" +")[0] else _last(name) for name in names}
    several = {name for name, count in Counter(short.values()).items() if count > 1}
    return {name: name if one in several else one for name, one in short.items()}


def _last(name: str) -> str:
    model, *more = name.split(" +")
    return " +".join([Path(model).name or model, *more])
