"""Where things are: what the package ships, and what a user built."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from lm_eval_epidemia.core.errors import EpidemiaError

_PACKAGE = Path(__file__).resolve().parents[1]


def _shipped(name: str) -> Path:
    # In a wheel the data folders lie inside the package, in a checkout beside it.
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


def shipped_groundtruth() -> Path:
    """Return the folder of the ground truth that comes with the package."""
    return _shipped("groundtruth")


def shipped_task_yamls() -> Path:
    """Return the folder of the lm-eval task files that come with the package."""
    return _shipped("task_yamls")


def home() -> Path:
    """Return the folder for what the user builds: ``$EPIDEMIA_HOME`` or the platform's data folder.

    The folder need not exist.
    """
    if given := os.environ.get("EPIDEMIA_HOME"):
        return Path(given).expanduser().resolve()
    return _data_folder(os.environ.get("XDG_DATA_HOME"), os.environ.get("HOME"))


@lru_cache
def _data_folder(_xdg: str | None, _home: str | None) -> Path:
    """Return the platform's data folder, which depends on these variables."""
    import platformdirs

    return Path(platformdirs.user_data_dir("lm-eval-epidemia", appauthor=False))


def fresh_tasks() -> Path:
    """Return the folder of the sets of fresh tasks that the user made (it need not exist)."""
    return home() / "fresh"


#: What to do about what the system says of a write.
_WAYS_OUT = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "make room there"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "give a place you may write to"),
    **dict.fromkeys((errno.EEXIST, errno.ENOTDIR), "what should be a folder is a file"),
    errno.EISDIR: "what should be a file is a folder",
}


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say in one line where writing failed, and why: a full disk, a folder that is none.

    Raises
    ------
    EpidemiaError
        In place of any OSError of the block.
    """
    try:
        yield
    except OSError as error:
        mend = _WAYS_OUT.get(error.errno or 0, "give a place that can be written to")
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise EpidemiaError(f"cannot write {path}: {reason}; {mend}") from error


def check_writable(folder: Path) -> None:
    """Make a folder and a file in it, before long work is done for nothing.

    Raises
    ------
    EpidemiaError
        If that fails.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Give a temporary name beside `path` and rename it to `path` when the block succeeds.

    Nothing half-written remains: if the block raises, the temporary file is removed and an older
    file at `path` is left as it was.

    Raises
    ------
    EpidemiaError
        If the file cannot be written.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            # mkstemp makes files private to their owner; published files are for everyone.
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
