"""Folders that are written repeatedly: a list in each names our files, and others are left alone.

A site may be inside a clone with its ``.git`` and ``CNAME``, task files next to somebody's notes.
Each write leaves a list of its files; the next write replaces or removes only those.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.core.paths import guard_write

#: Lists the files we wrote, one per line, relative to its folder.
MANIFEST = ".epidemia.manifest"

#: Staging folder for new files: inside a folder that exists (it may be a mount point), or next to a
#: new one, with the new folder's name as prefix.
STAGING = ".epidemia.new"


@contextmanager
def rewrite_folder(folder: Path, marker: str) -> Iterator[Path]:
    """Yield an empty folder to write into; when the block succeeds, move its files into place.

    Until then `folder` is unchanged. A new folder appears complete, in one step. In an existing
    folder, files are moved one at a time, the deepest first, so that a page finds the files it
    loads; files that only the earlier write had are removed last. If this is interrupted, each file
    is either the old or the new one, all are listed, and the next write completes the folder.

    Parameters
    ----------
    folder : Path
        A folder that does not exist, is empty, or was written before. If it is a link to a folder,
        that folder is written; links inside it belong to the user and are not followed.
    marker : str
        A file that every write of this kind creates: it identifies the folder.

    Raises
    ------
    EpidemiaError
        If `folder` contains other files and no list, or files of another kind of write; if a user's
        file has the name of one of ours (checked before anything changes); or if the disk cannot be
        written.
    """
    folder = folder.resolve()
    with _staged(folder, marker) as (staging, ours):
        yield staging
        (staging / marker).touch()
        if folder.exists():
            _put_in_place(staging, folder, ours)
        else:
            _write_file_list(staging, staging, _walk_files(staging))
            staging.replace(folder)


def check_rewritable(folder: Path, marker: str) -> None:
    """Refuse an unusable folder before long work starts; parameters as in `rewrite_folder`."""
    with _staged(folder.resolve(), marker):
        pass


@contextmanager
def _staged(folder: Path, marker: str) -> Iterator[tuple[Path, set[Path]]]:
    """Yield an empty staging folder and the files that were written before."""
    if folder.exists() and not folder.is_dir():
        raise EpidemiaError(f"{folder} is a file: expected a folder")
    with _lock_folder(folder), guard_write(folder):
        is_new = not folder.exists()
        ours = set[Path]() if is_new else _read_file_list(folder, marker)
        staging = folder.with_name(f".{folder.name}{STAGING}") if is_new else folder / STAGING
        if staging.exists():  # left by a write that was killed
            shutil.rmtree(staging)
        staging.mkdir(parents=True)
        try:
            yield staging, ours
        finally:
            shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Refuse to write a folder that another process writes: both have one staging folder.

    The lock lies with temporary files, so that the folder has no file that is not ours.
    """
    key = f"{Path('~').expanduser()} {folder}"  # whose: nobody may open another user's lock
    name = f"epidemia-{hashlib.sha256(key.encode()).hexdigest()[:16]}.lock"
    try:
        with FileLock(Path(tempfile.gettempdir()) / name, timeout=0):
            yield
    except Timeout:
        raise EpidemiaError(f"another command is writing {folder}: wait until it ends") from None


def _read_file_list(folder: Path, marker: str) -> set[Path]:
    """Return the files that the earlier write listed."""
    manifest = folder / MANIFEST
    if not manifest.is_file():
        if all(path.name == STAGING for path in folder.iterdir()):
            return set()
        raise EpidemiaError(f"{folder} holds other files but no {MANIFEST}: give another folder")
    lines = manifest.read_text(encoding="utf-8", errors="replace").splitlines()
    paths = {Path(line) for line in lines if line and not line.startswith("#")}
    if any(path.is_absolute() or ".." in path.parts or "\ufffd" in str(path) for path in paths):
        raise EpidemiaError(
            f"{manifest} was edited or damaged: give another folder, or delete it and our files"
        )
    if Path(marker) not in paths:
        written = few(sorted(map(str, paths)))
        raise EpidemiaError(f"{folder} is of another command ({written}): give another folder")
    return paths


def _walk_files(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


def _write_file_list(staging: Path, folder: Path, paths: Iterable[Path]) -> None:
    head = (
        "# Written by lm-eval-epidemia; the next write replaces or removes these, all else is kept"
    )
    names = sorted(path.as_posix() for path in paths)
    (staging / MANIFEST).write_text("\n".join([head, *names, ""]), "utf-8")
    (staging / MANIFEST).replace(folder / MANIFEST)


def _put_in_place(staging: Path, folder: Path, ours: set[Path]) -> None:
    new = _walk_files(staging)
    if blocked := sorted(
        {str(blocking) for path in new if (blocking := _find_blocking(folder, path, ours))}
    ):
        raise EpidemiaError(
            f"{folder} contains {few(blocked)}, which we did not write: give another folder"
        )
    # List both: if the moves are interrupted, the next write still knows our files.
    _write_file_list(staging, folder, ours | new)
    for path in sorted(new, key=lambda path: (-len(path.parts), path)):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (staging / path).replace(folder / path)
    for path in sorted(ours - new):
        _remove(folder, path)
    _write_file_list(staging, folder, new)


def _find_blocking(folder: Path, path: Path, ours: set[Path]) -> Path | None:
    """Return the user's files that block a path we must write, or a folder above it."""
    for parent in [*path.parents][-2::-1]:  # from the top, except "."
        place = folder / parent
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            return parent
    place = folder / path
    theirs = place.exists() and path not in ours
    return path if theirs or place.is_symlink() or place.is_dir() else None


def _remove(folder: Path, path: Path) -> None:
    """Remove a file of the earlier write, and the folders that this leaves empty."""
    places = [folder / path, *(folder / parent for parent in path.parents)][:-1]
    if any(place.is_symlink() for place in places) or not places[0].is_file():
        return
    places[0].unlink()
    for place in places[1:]:
        if any(place.iterdir()):
            return
        place.rmdir()
