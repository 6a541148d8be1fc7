"""Models that cannot be loaded, or only in part: one line that names what was given.

What transformers and peft say of it follows behind that. An adapter whose weights do not fit the
base would be loaded silently, and is refused here.
"""

from __future__ import annotations

import filecmp
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from lm_eval_epidemia.core.errors import EpidemiaError, suggest
from lm_eval_epidemia.core.extras import needs
from lm_eval_epidemia.core.notices import warn

#: ``name`` or ``owner/name``: what the Hugging Face Hub calls a model.
HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?")

#: Files of weights, as save_pretrained names them.
_WEIGHTS = r"(?:model|pytorch_model)[\w.-]*\.(?:safetensors|bin)"

#: Characters of another library's error that are quoted.
_QUOTED = 400

M = TypeVar("M", bound=BaseModel)


class Given(NamedTuple):
    """A model as the user names it: lm-eval's arguments of the same names."""

    pretrained: str
    gguf_file: str | None = None

    @classmethod
    def of(cls, named: str) -> Given:
        """Read a path or id; that of a ``.gguf`` file is its folder and its name."""
        if named.endswith(".gguf"):
            return cls(str(Path(named).parent), Path(named).name)
        return cls(named)

    def __str__(self) -> str:
        return "/".join(filter(None, self))


def is_batch_given(given: Mapping[str, Any]) -> bool:
    """Whether somebody chose a batch size.

    lm-eval's command line hands on the number 1 where none was given, and text where one was.

    Parameters
    ----------
    given : mapping
        The arguments of a model.
    """
    return given.get("batch_size", 1) not in (None, 1)


@contextmanager
def explain_loading(what: object) -> Iterator[None]:
    """Put what was given in front of an error of the libraries that load it."""
    try:
        yield
    except EpidemiaError:
        raise
    except Exception as error:  # JSON, pickle, zip and safetensors have their own
        said = " ".join(str(error).split()) or "no reason given"
        said = said if len(said) <= _QUOTED else f"{said[:_QUOTED]} ..."
        is_missing = isinstance(what, Given) and not Path(str(what)).exists()
        where = " is no file or folder here, and" if is_missing else ""
        raise EpidemiaError(
            f"{what}{where} cannot be loaded ({type(error).__name__}: {said})"
        ) from error


def read_arguments(name: str, kind: type[M], given: Mapping[str, Any]) -> M:
    """Read a model's arguments, which lm-eval may pass as text, but not those that all models get.

    Parameters
    ----------
    name : str
        Of the model, after ``--model``.
    kind : type
        What arguments there are.
    given : mapping
    """
    passed = ("batch_size", "max_batch_size", "device")
    try:
        return kind.model_validate({name: x for name, x in given.items() if name not in passed})
    except ValidationError as error:
        fault = error.errors()[0]
        argument = str(fault["loc"][0])
        if fault["type"] == "extra_forbidden":
            raise EpidemiaError(
                f"{name} has no argument {argument!r} ({suggest(argument, kind.model_fields)})"
            ) from None
        raise EpidemiaError(f"{name}: {argument}={given[argument]}: {fault['msg']}") from None


def check_arguments(name: str, given: Mapping[str, Any]) -> None:
    """Refuse what lm-eval would take, and read otherwise than meant.

    Parameters
    ----------
    name : str
        Of the model, after ``--model``.
    given : mapping
        Its arguments.
    """
    longest = given.get("max_length")
    if longest is not None and not re.fullmatch(r"0*[1-9]\d*(\.0*)?", str(longest)):
        raise EpidemiaError(f"{name}: max_length={longest}: expected the most tokens, at least 1")


def check_adapter(model: Any, peft: str, pretrained: str) -> None:
    """Refuse an adapter that fits the base only in part, or is of another base.

    peft silently skips weights for layers that the base does not have, and only warns about layers
    that the adapter lacks: the results would belong to neither model.

    Parameters
    ----------
    model : PeftModel
        The base with the adapter on it.
    peft, pretrained : str
        What the user gave.
    """
    named = model.active_peft_config.base_model_name_or_path
    if not model.active_peft_config.is_prompt_learning:  # which is one tensor, not of layers
        # Put in place once more, since this, unlike `from_pretrained`, tells what found no place.
        result = model.load_adapter(peft, adapter_name=model.active_adapter)
        shared = ("vblora_vector_bank", "prompt_encoder", ".tinylora_v.", ".unilora_theta_d.")
        lacking = [k for k in result.missing_keys if not any(name in k for name in shared)]
        for keys, what in (
            (result.unexpected_keys, "of its weights do not exist in the base"),
            (lacking, "weights that the base needs are not in it"),
        ):
            if keys:
                raise EpidemiaError(
                    f"peft={peft} does not fit pretrained={pretrained}: {len(keys)} {what}, as "
                    f"{next(iter(keys))}; it was trained on {named or 'an unnamed base'}"
                )
    _check_base(peft, named, pretrained)


def _check_base(peft: str, named: str | None, pretrained: str) -> None:
    """Refuse an adapter of other weights of the same shape; warn where nobody can tell.

    Where both bases are here their weights are compared, whatever they are called. Else two ids of
    the Hub tell, and a folder may hold any of them.
    """
    if not named or named == pretrained:
        return
    is_same = _same_weights(named, pretrained)
    if is_same is None and Path(named).name.lower() == Path(pretrained).name.lower():
        return
    if is_same is None and (Path(pretrained).exists() or not HUB_ID.fullmatch(named)):
        warn(
            "adapter of another base",
            f"peft={peft} was trained on {named} by its own account, but is loaded onto "
            f"{pretrained}: with other weights, the answers belong to neither model",
        )
    elif not is_same:
        raise EpidemiaError(
            f"peft={peft} was trained on {named}, whose weights are not those of "
            f"pretrained={pretrained}: give that as pretrained, or mend {peft}/adapter_config.json"
        )


def _find_folder(named: str) -> Path | None:
    """Return the folder of a model, if it is here: as a folder, or downloaded from the Hub."""
    if Path(named).is_dir():
        return Path(named)
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(named, local_files_only=True))
    except Exception:  # no id, or not here
        return None


def _same_weights(*named: str) -> bool | None:
    """Tell whether two models have the same weights; None if their files are not here, or alike."""
    folders = [_find_folder(name) for name in named]
    files, others = (
        {path.name: path for path in folder.iterdir() if re.fullmatch(_WEIGHTS, path.name)}
        if folder
        else {}
        for folder in folders
    )
    if not files or files.keys() != others.keys():
        return None
    return all(filecmp.cmp(files[name], others[name], shallow=False) for name in files)


def check_model(given: Given) -> bool:
    """Check that a model's configuration and tokenizer can be read, without loading its weights.

    Parameters
    ----------
    given : Given

    Returns
    -------
    bool
        Whether its tokenizer has a chat template.

    Raises
    ------
    EpidemiaError
    """
    with needs("hf", f"--model {given}"):
        import torch  # noqa: F401
        from transformers import AutoConfig, AutoTokenizer

    more = {"gguf_file": given.gguf_file} if given.gguf_file else {}
    with explain_loading(given):
        AutoConfig.from_pretrained(given.pretrained, **more)
        tokenizer = AutoTokenizer.from_pretrained(given.pretrained, **more)
    return bool(tokenizer.chat_template)
