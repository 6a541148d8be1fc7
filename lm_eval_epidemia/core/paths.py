"""Paths of what the package ships and of what the user built."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from lm_eval_epidemia.core.errors import EpidemiaError

_PACKAGE = Path(__file__).resolve().parents[1]


def _shipped(name: str) -> Path:
    # In a wheel the data folders are inside the package, in a checkout next to it.
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


def shipped_groundtruth() -> Path:
    """Return the folder of the ground truth that ships with the package."""
    return _shipped("groundtruth")


def shipped_task_yamls() -> Path:
    """Return the folder of the lm-eval task files that ship with the package."""
    return _shipped("task_yamls")


def read_yaml(package: str, name: str) -> Any:
    """Return the data of a YAML file that ships beside the modules of a package."""
    text = (files(package) / name).read_text(encoding="utf-8")
    # libyaml's parser, where PyYAML was built with it, is ten times as fast.
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def home() -> Path:
    """Return the folder for the user's own data: ``$EPIDEMIA_HOME`` or the platform's data folder.

    The folder need not exist.
    """
    if given := os.environ.get("EPIDEMIA_HOME"):
        return Path(given).expanduser().resolve()
    import platformdirs

    return Path(platformdirs.user_data_dir("lm-eval-epidemia", appauthor=False))


#: The environment variable that lists own records.
RECORDS = "EPIDEMIA_RECORDS"


def named_records() -> list[Path]:
    """Return the files and folders that ``EPIDEMIA_RECORDS`` lists (they need not exist)."""
    listed = os.environ.get(RECORDS, "").split(os.pathsep)
    return [Path(named).expanduser() for named in listed if named]


def find_fresh_folder() -> Path:
    """Return the folder of the user's sets of fresh tasks (it need not exist)."""
    return home() / "fresh"


#: How to fix each system error of a write.
_WAYS_OUT = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "free some space"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "give a path that you may write to"),
    **dict.fromkeys((errno.EEXIST, errno.ENOTDIR), "a file stands where a folder is needed"),
    errno.EISDIR: "a folder stands where a file is needed",
}


@contextmanager
def guard_write(path: Path) -> Iterator[None]:
    """Report in one line which write failed and why, such as a full disk.

    Raises
    ------
    EpidemiaError
        Instead of an OSError in the block.
    """
    try:
        yield
    except OSError as error:
        mend = _WAYS_OUT.get(error.errno or 0, "give a path that can be written to")
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise EpidemiaError(f"cannot write {path}: {reason}; {mend}") from error


#: Bytes that a folder must take: about one file of results.
_ROOM = 2**20


def check_writable(folder: Path) -> None:
    """Check that a folder can be written to, before long work starts.

    Raises
    ------
    EpidemiaError
        If that fails.
    """
    with guard_write(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_ROOM))


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`; rename it to `path` when the block succeeds.

    No half-written file remains: if the block raises, the temporary file is removed and an older
    file at `path` is kept.

    Raises
    ------
    EpidemiaError
        If the file cannot be written.
    """
    with guard_write(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            # mkstemp makes files private to their owner; ours must be readable by everyone.
            temporary.chmod(0o644)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
