"""Clear errors for a model that cannot be loaded, before or while transformers loads it.

Errors of transformers and peft speak of backend tokenizers, repository ids and state dictionaries,
and an adapter whose weights do not fit the base is loaded silently. Here each of these is one error
that says what was given, what is expected and how to fix it.
"""

from __future__ import annotations

import filecmp
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from traceback import extract_tb
from typing import Any, NamedTuple

from lm_eval_epidemia.core.errors import EpidemiaError, few, nearest
from lm_eval_epidemia.core.extras import install
from lm_eval_epidemia.core.notices import warn

#: ``name`` or ``owner/name``: what the Hugging Face Hub calls a model.
HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?")

#: Files of weights, as save_pretrained names them.
_WEIGHTS = r"(?:model|pytorch_model)[\w.-]*\.(?:safetensors|bin)"

#: A GGUF file begins so.
MAGIC = b"GGUF"


class Given(NamedTuple):
    """A model as the user names it: lm-eval's arguments of the same names."""

    pretrained: str
    gguf_file: str | None = None
    subfolder: str = ""

    @classmethod
    def of(cls, named: str) -> Given:
        """Read a path or id; that of a ``.gguf`` file is its folder and its name."""
        if named.endswith(".gguf"):
            return cls(str(Path(named).parent), Path(named).name)
        return cls(named)

    @property
    def folder(self) -> Path | None:
        """Where the model lies, if it is here."""
        folder = Path(self.pretrained) / self.subfolder
        return folder if Path(self.pretrained).exists() else None

    def __str__(self) -> str:
        where = self.pretrained + (f"/{self.subfolder}" if self.subfolder else "")
        return f"{where}/{self.gguf_file}" if self.gguf_file else where


def _line(error: BaseException) -> str:
    """Return the first line of an error of another library."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].strip().rstrip(".:")


_Meaning = Callable[..., str | None]


def _explaining(*kinds: type[Exception]) -> Callable[[_Meaning], Callable[..., Any]]:
    """Turn a function that says what an error means into a block whose errors say it.

    Parameters
    ----------
    kinds : types of exception
        Of which the function is asked, with the arguments of the block; on None the error stays.
    """

    def explaining(meaning: _Meaning) -> Callable[..., AbstractContextManager[None]]:
        @contextmanager
        @wraps(meaning)
        def block(*given: Any) -> Iterator[None]:
            try:
                yield
            except EpidemiaError:
                raise
            except kinds as error:
                if (message := meaning(error, *given)) is None:
                    raise
                raise EpidemiaError(message) from error

        return block

    return explaining


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
def explaining_arguments(
    name: str, stock: type, args: Sequence[Any], more: Mapping[str, Any]
) -> Iterator[None]:
    """Refuse arguments that a model of lm-eval does not have, or would ignore.

    Parameters
    ----------
    name : str
        Of the model, after ``--model``.
    stock : type
        lm-eval's class.
    args, more
        What its constructor was given.

    Raises
    ------
    EpidemiaError
    """
    constructor = inspect.signature(stock)
    given = constructor.bind_partial(*args, **more).arguments
    given |= given.pop("kwargs", {})
    if "pretrained" not in given:
        names = [key for key in given if key not in ("batch_size", "max_batch_size", "device")]
        raise EpidemiaError(
            f"{name} needs --model_args pretrained=FOLDER_OR_ID (given: {few(names) or 'nothing'})"
        )
    longest = given.get("max_length")
    if longest is not None and not re.fullmatch(r"0*[1-9]\d*(\.0*)?", str(longest)):
        raise EpidemiaError(
            f"{name}: max_length={longest}: expected the most tokens of a prompt and its answer, "
            "at least 1"
        )
    try:
        yield
    except EpidemiaError:
        raise
    except TypeError as error:
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if unknown is None or unknown[1] not in given:
            raise
        hint = nearest(unknown[1], constructor.parameters)
        raise EpidemiaError(f"{name} has no argument {unknown[1]!r} ({hint})") from error
    except (AttributeError, ValueError) as error:
        no_type = f"module 'torch' has no attribute {str(given.get('dtype'))!r}"
        if no_type not in str(error) and "under `dtype=" not in str(error):
            raise
        raise EpidemiaError(
            f"{name}: dtype={given['dtype']}: expected a type of PyTorch, such as float32, bfloat16"
            " or float16"
        ) from error


def check_folder(given: Given) -> None:
    """Refuse a folder that does not exist or contains no model.

    Parameters
    ----------
    given : Given
        An id of the Hub passes: it is looked up when it is loaded.

    Raises
    ------
    EpidemiaError
    """
    folder = given.folder
    if folder is None:
        if given.gguf_file or not HUB_ID.fullmatch(given.pretrained):
            raise EpidemiaError(
                f"{given} does not exist: expected a model folder, a .gguf file, or a Hugging "
                "Face Hub id such as HuggingFaceTB/SmolLM2-135M-Instruct"
            )
        return
    if not folder.is_dir():
        raise EpidemiaError(
            f"{folder} is not a folder: expected one with config.json, weights and tokenizer. For "
            "a GGUF file, give lm_eval pretrained=FOLDER,gguf_file=NAME.gguf; 'epidemia demo' "
            "takes the path of the .gguf file"
        )
    files = sorted(path.name for path in folder.glob("*.gguf"))
    if given.gguf_file:
        _check_gguf(folder / given.gguf_file, files)
    elif not (folder / "config.json").is_file():
        mend = "expected a folder as save_pretrained writes it"
        if files:
            mend = (
                f"it contains {few(files)}: give that file with "
                f"pretrained={folder},gguf_file={files[0]} ('epidemia demo': --model "
                f"{folder}/{files[0]})"
            )
        elif (folder / "adapter_config.json").is_file():
            mend = "it is an adapter, not a whole model: give lm_eval pretrained=BASE and "
            mend += f"peft={folder}"
        raise EpidemiaError(f"{folder} has no config.json; {mend}")


def _check_gguf(file: Path, others: list[str]) -> None:
    if not file.is_file():
        hint = f"it has {few(others)}" if others else "it has no .gguf file"
        raise EpidemiaError(f"{file.parent} contains no file {file.name}: {hint}")
    with file.open("rb") as opened:
        start = opened.read(len(MAGIC))
    if start != MAGIC:
        raise EpidemiaError(
            f"{file} is not a GGUF file: it begins with {start!r}, not {MAGIC!r}. Download it again"
        )
    if find_spec("gguf") is None:
        raise EpidemiaError(
            f"reading {file.name} needs gguf, which is not installed. Install it with: pip "
            "install gguf"
        )


@_explaining(OSError, ValueError, KeyError)
def explaining_config(error: Exception, given: Given) -> str:
    """Explain an error in reading a model's configuration."""
    if given.gguf_file and "architecture" in str(error):
        from transformers import __version__
        from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

        known = ", ".join(sorted({*GGUF_SUPPORTED_ARCHITECTURES} - {"general", "tokenizer"}))
        return (
            f"{given}: {_line(error)}: transformers {__version__} can only read GGUF files of "
            f"{known}. Give the model as safetensors, or serve the file (llama.cpp) and use "
            "--model local-completions"
        )
    if given.folder is None:
        return (
            f"the model {given} is not a local folder, and could not be downloaded from the "
            f"Hugging Face Hub ({_line(error)}): give a local folder or a Hub id (the first "
            "download needs a network)"
        )
    return f"the configuration of {given} cannot be read: {_line(error)}"


@_explaining(OSError, ValueError, KeyError, TypeError, AttributeError, ImportError)
def explaining_tokenizer(error: Exception, given: Given, tokenizer: str | None = None) -> str:
    """Explain an error in reading a tokenizer; the user may name another place for it."""
    where = tokenizer or str(given)
    mend = "give lm_eval a folder or id that has one with tokenizer="
    if not (given.gguf_file or tokenizer):
        mend = (
            f"save it there with AutoTokenizer.from_pretrained(BASE).save_pretrained({where!r}), "
            "or give lm_eval a folder or id that has one with tokenizer="
        )
    return (
        f"{where} has no tokenizer that transformers can read ({_line(error)}): expected "
        f"tokenizer.json or the files of a slow tokenizer; {mend}"
    )


@_explaining(Exception)
def explaining_weights(error: Exception, given: Given) -> str | None:
    """Explain that transformers finds no weights, or cannot read them."""
    from safetensors import SafetensorError

    if isinstance(error, SafetensorError):
        return (
            f"the weights of {given} cannot be read ({_line(error)}). A download or copy may have "
            "been interrupted: download it again"
        )
    if isinstance(error, OSError) and given.folder is not None and "no file named" in str(error):
        return (
            f"{given} has no weights ({_line(error)}). Was the download interrupted, or has the "
            "training not saved its model yet?"
        )
    return None


def check_adapter_folder(peft: str, pretrained: str) -> None:
    """Refuse a folder that is not an adapter, before the base is loaded.

    Parameters
    ----------
    peft : str
        Folder or id of the adapter.
    pretrained : str
        The base it shall be put on.
    """
    if find_spec("peft") is None:
        raise EpidemiaError(f"peft={peft} needs peft: {install('hf')}")
    folder = Path(peft)
    if not folder.exists():
        if not HUB_ID.fullmatch(peft):
            raise EpidemiaError(f"peft={peft} is neither a folder nor a Hub id")
        return
    if not (folder / "adapter_config.json").is_file():
        mend = "expected a folder as PeftModel.save_pretrained writes it"
        if (folder / "config.json").is_file():
            mend = f"it is a whole model, not an adapter: give pretrained={peft}, without peft"
        raise EpidemiaError(f"peft={peft} has no adapter_config.json; {mend}")
    if not any(folder.glob("adapter_model.*")):
        raise EpidemiaError(
            f"peft={peft} has no weights (adapter_model.safetensors) for {pretrained}: has the "
            "training not saved its model yet?"
        )
    _check_readable(folder)


def _check_readable(adapter: Path) -> None:
    """Refuse an adapter with damaged files: peft's error would be taken for one of the base."""
    import torch
    from peft import PeftConfig
    from safetensors import safe_open

    file = adapter / "adapter_config.json"
    try:
        if not PeftConfig.from_pretrained(str(adapter)).peft_type:
            raise ValueError("it names no peft_type")
        if (file := adapter / "adapter_model.safetensors").is_file():
            with safe_open(file, "pt") as opened:
                names = list(opened.keys())
        elif (file := adapter / "adapter_model.bin").is_file():
            names = list(torch.load(file, map_location="cpu", weights_only=True))
        else:
            return  # of another program: peft says what it does not know
    except Exception as error:  # JSON, pickle, zip and safetensors have their own
        raise EpidemiaError(
            f"peft={adapter}: the adapter's {file.name} cannot be read ({_line(error)}). A copy "
            "or training may have been interrupted: copy or train the adapter again. The base "
            "model is not the cause"
        ) from error
    if not names:
        raise EpidemiaError(
            f"peft={adapter}: the adapter's {file.name} contains no weights: train it again"
        )


def _of_another_base(peft: str, pretrained: str, why: str) -> str:
    """Say that an adapter does not fit, and the base that it was made for."""
    from peft import PeftConfig

    try:
        base = PeftConfig.from_pretrained(peft).base_model_name_or_path
    except Exception:  # there is an error already; this only says more
        base = None
    mend = f"It was trained on {base or 'an unnamed base'}: give that as pretrained"
    if base and (base == pretrained or _same_weights(base, pretrained)):
        mend = (
            "It names this base as the one it was trained on, so its files were changed or mixed "
            "up: copy or train the adapter again"
        )
    return f"peft={peft} does not fit pretrained={pretrained}: {why}. {mend}"


def _is_from_peft(error: BaseException) -> bool:
    """Tell whether an error came out of peft, or of what it called."""
    package = find_spec("peft")
    folder = Path(str(package and package.origin)).parent
    return any(folder in Path(frame.filename).parents for frame in extract_tb(error.__traceback__))


@_explaining(Exception)
def explaining_adapter(error: Exception, peft: str | None, pretrained: str) -> str | None:
    """Explain an error in loading an adapter onto its base."""
    if peft is None or isinstance(error, OSError):
        return None
    if shapes := re.search(
        r"size mismatch for (\S+): .*?\[([\d, ]*)\].*?\[([\d, ]*)\]", str(error)
    ):
        why = "{} has the shape ({}) there, but ({}) here".format(*shapes.groups())
        return _of_another_base(peft, pretrained, why)
    if "not found in the base model" in str(error):
        return _of_another_base(peft, pretrained, _line(error))
    if "Can't find 'adapter_config.json'" in str(error):
        return (
            f"peft={peft} is not a local folder, and no adapter of that name could be downloaded "
            "from the Hugging Face Hub"
        )
    if not isinstance(error, RuntimeError) and _is_from_peft(error):  # not of memory
        return (
            f"peft={peft}: peft cannot load it onto {pretrained} ({type(error).__name__}: "
            f"{_line(error)}): was adapter_config.json written by PeftModel.save_pretrained of "
            "this peft version, and not edited?"
        )
    return None


def check_adapter_in_place(model: Any, peft: str, pretrained: str) -> None:
    """Refuse an adapter that fits the base only in part.

    peft silently skips weights for layers that the base does not have, and only warns about layers
    that the adapter lacks: the results would belong to neither model.

    Parameters
    ----------
    model : PeftModel
        The base with the adapter on it.
    peft, pretrained : str
        What the user gave.
    """
    if model.active_peft_config.is_prompt_learning:
        return  # one tensor, not of layers: it fits, or peft says that it does not
    # Put in place once more, since this, unlike `from_pretrained`, tells what found no place.
    result = model.load_adapter(peft, adapter_name=model.active_adapter)
    shared = ("vblora_vector_bank", "prompt_encoder", ".tinylora_v.", ".unilora_theta_d.")
    lacking = [k for k in result.missing_keys if not any(name in k for name in shared)]
    if over := list(result.unexpected_keys):
        why = f"{len(over)} of its weights do not exist in the base; the first is {over[0]}"
        raise EpidemiaError(_of_another_base(peft, pretrained, why))
    if lacking:
        why = f"it lacks {len(lacking)} weights that the base needs; the first is {lacking[0]}"
        raise EpidemiaError(_of_another_base(peft, pretrained, why))
    _check_base(peft, model.active_peft_config.base_model_name_or_path, pretrained)


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
            f"{pretrained}: unless both have the same weights, the answers belong to neither model",
        )
    elif not is_same:
        raise EpidemiaError(
            f"peft={peft} was trained on {named}, whose weights are not those of "
            f"pretrained={pretrained}: give that as pretrained. If both are the same weights, "
            f"write {pretrained} as base_model_name_or_path in {peft}/adapter_config.json"
        )


def _here(named: str) -> Path | None:
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
    folders = [_here(name) for name in named]
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
    lacking = [name for name in ("torch", "transformers") if find_spec(name) is None]
    if lacking:
        raise EpidemiaError(
            f"--model {given} needs {' and '.join(lacking)}, not installed here. Install with: "
            f"{install('hf')}"
        )
    check_folder(given)
    from transformers import AutoConfig, AutoTokenizer

    more = {"gguf_file": given.gguf_file} if given.gguf_file else {}
    with explaining_config(given):
        AutoConfig.from_pretrained(given.pretrained, **more)
    with explaining_tokenizer(given):
        tokenizer = AutoTokenizer.from_pretrained(given.pretrained, **more)
    return bool(tokenizer.chat_template)
