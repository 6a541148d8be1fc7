"""A folder that is written again and again: what is ours in it is listed, the rest is the user's.

A site may lie in a clone with its ``.git`` and ``CNAME``, task files beside somebody's notes. Each
write leaves a list of its files; the next one replaces and removes those, and nothing else.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.core.paths import writing

#: Lists the files that were written, relative to its folder, one a line.
MANIFEST = ".epidemia.manifest"

#: Where new files are put together: inside a folder that is there, which may be a disk of its own;
#: of a new one beside it, with its name before this.
STAGING = ".epidemia.new"


@contextmanager
def rewritten(folder: Path, marker: str) -> Iterator[Path]:
    """Give an empty folder to write into; when the block succeeds, its files are put in place.

    Until then `folder` is as it was: a new one does not exist, and is whole from the first moment.
    Into one that is there, files are moved one by one, those deepest down first, so that a page
    finds what it loads; what only the earlier write had is removed last. Whenever that is cut
    short, each file is the old or the new one, all of them are listed, and the next write makes the
    folder whole.

    Parameters
    ----------
    folder : Path
        One that does not exist, is empty, or was written before. Where it is a link to a folder,
        that folder is written; links inside it are the user's, and not followed.
    marker : str
        A file that every write of this kind has, by which a folder is known: also one that was
        written before there were lists.

    Raises
    ------
    EpidemiaError
        If `folder` holds other files and no list, or what a write of another kind put there, if a
        file of the user's has the name of one of ours (before anything is changed), or if the disk
        does not take it.
    """
    folder = folder.resolve()
    with _staged(folder, marker) as (staging, ours):
        yield staging
        (staging / marker).touch()
        if folder.exists():
            _put_in_place(staging, folder, ours, marker)
        else:
            _list(staging, staging, _files(staging))
            staging.replace(folder)


def check_rewritable(folder: Path, marker: str) -> None:
    """Refuse a folder before long work is done for nothing; parameters as of `rewritten`."""
    with _staged(folder.resolve(), marker):
        pass


@contextmanager
def _staged(folder: Path, marker: str) -> Iterator[tuple[Path, set[Path] | None]]:
    """Give an empty folder in another or beside it, and which files there were written before."""
    if folder.exists() and not folder.is_dir():
        raise EpidemiaError(f"{folder} is a file: give a folder")
    with writing(folder):
        is_new = not folder.exists()
        ours = set[Path]() if is_new else _listed(folder, marker)
        staging = folder.with_name(f".{folder.name}{STAGING}") if is_new else folder / STAGING
        if staging.exists():  # of a write that was killed
            shutil.rmtree(staging)
        staging.mkdir(parents=True)
        try:
            yield staging, ours
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _listed(folder: Path, marker: str) -> set[Path] | None:
    """Return the files that the earlier write listed; None if it kept no list."""
    manifest = folder / MANIFEST
    if manifest.is_file():
        try:
            lines = manifest.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            lines = [".."]
        paths = {Path(line) for line in lines if line and not line.startswith("#")}
        if any(path.is_absolute() or ".." in path.parts for path in paths):
            raise EpidemiaError(
                f"{manifest} is not as it was written, so nobody knows which files may be "
                "replaced: give another folder, or take out the files that are ours, and this one"
            )
        if Path(marker) not in paths:
            written = few(sorted(map(str, paths)))
            raise EpidemiaError(
                f"{folder} holds what another command wrote ({written}), which would be removed: "
                "give another folder"
            )
        return paths
    if all(path.name == STAGING for path in folder.iterdir()):
        return set()
    if (folder / marker).is_file():
        return None
    raise EpidemiaError(
        f"{folder} holds other files, and no {MANIFEST} that says which of them an earlier write "
        "put there: give another folder"
    )


def _files(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


def _list(staging: Path, folder: Path, paths: Iterable[Path]) -> None:
    head = (
        "# Written by lm-eval-epidemia; the next write replaces or removes these, all else is kept"
    )
    names = sorted(path.as_posix() for path in paths)
    (staging / MANIFEST).write_text("\n".join([head, *names, ""]), "utf-8")
    (staging / MANIFEST).replace(folder / MANIFEST)


def _put_in_place(staging: Path, folder: Path, ours: set[Path] | None, marker: str) -> None:
    new = _files(staging)
    if blocked := sorted(
        {str(blocking) for path in new if (blocking := _in_the_way(folder, path, ours))}
    ):
        raise EpidemiaError(
            f"{folder} holds {few(blocked)}, not written by us, where a file of ours would be: "
            "move it elsewhere, or give another folder"
        )
    old = {Path(marker)} if ours is None else ours
    # Both: whatever stops the moves, the next write knows what is ours.
    _list(staging, folder, old | new)
    for path in sorted(new, key=lambda path: (-len(path.parts), path)):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (staging / path).replace(folder / path)
    for path in sorted(old - new):
        _remove(folder, path)
    _list(staging, folder, new)
    if ours is None:
        notices.warn(
            "folders without a list of files",
            f"{folder} was written by a version that kept no list of its files: those of the same "
            "names were replaced, all others are kept, out of date as they may be",
        )


def _in_the_way(folder: Path, path: Path, ours: set[Path] | None) -> Path | None:
    """Return what of the user's lies where a file is to be, or where a folder of it is."""
    for parent in [*path.parents][-2::-1]:  # from the top, without "."
        place = folder / parent
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            return parent
    place = folder / path
    theirs = place.exists() and ours is not None and path not in ours
    return path if theirs or place.is_symlink() or place.is_dir() else None


def _remove(folder: Path, path: Path) -> None:
    """Remove a file that the earlier write put there, and folders that are empty without it."""
    places = [folder / path, *(folder / parent for parent in path.parents)][:-1]
    if any(place.is_symlink() for place in places) or not places[0].is_file():
        return
    places[0].unlink()
    for place in places[1:]:
        if any(place.iterdir()):
            return
        place.rmdir()
