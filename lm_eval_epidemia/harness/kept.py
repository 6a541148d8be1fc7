"""What a file of ``--use_cache`` holds: by which model, and how its letters were read.

lm-eval keys answers by the prompt alone and hands those of one model to another. For `choice-api`
the same file says whose they are, in a table of its own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lm_eval_epidemia.errors import EpidemiaError

__all__ = ["Kept", "check_file", "writing"]

_TABLE, _ANOTHER = "choice_api", "give another path to --use_cache"

_SQLITE = b"SQLite format 3\0"


def check_file(use_cache: Any) -> None:
    """Refuse a path of ``--use_cache`` that cannot be written, before a model is asked.

    Parameters
    ----------
    use_cache : str, optional
        As lm-eval takes it: without the end that it adds.
    """
    if not use_cache:
        return
    path = Path(f"{use_cache}_rank0.db")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = not path.exists()
        with path.open("a+b") as file:
            file.seek(0)
            begins = file.read(len(_SQLITE))
        if new:
            path.unlink()
    except OSError as error:
        raise EpidemiaError(
            f"--use_cache {use_cache}: the file {path} cannot be written ({error.strerror}): "
            "give another path"
        ) from None
    if begins not in (b"", _SQLITE):
        raise EpidemiaError(
            f"--use_cache {use_cache}: {path} is no database that lm-eval wrote: give another path"
        )


@contextmanager
def writing(database: Any) -> Iterator[None]:
    """Say in a line what became of a file that cannot be written."""
    try:
        yield
    except (sqlite3.Error, OSError, RuntimeError) as error:
        raise EpidemiaError(
            f"the file of --use_cache, {database.filename}, cannot be written: {error}"
        ) from error


class Kept:
    """Who answered what a file holds.

    Parameters
    ----------
    database : SqliteDict, optional
        lm-eval's cache of responses; None if there is none.
    asks : mapping
        What the answers follow from beside the prompt.

    Raises
    ------
    EpidemiaError
        If the file holds answers of another model, or by other arguments.
    """

    def __init__(self, database: Any, asks: Mapping[str, Any]) -> None:
        self._database, self._asks = database, dict(asks)
        #: As `note` wrote it; empty where there is no file, or nothing in it.
        self.record: dict[str, Any] = {}
        if database is None or not len(database):
            return
        with writing(database), self._table() as table:
            self.record = dict(table)
        if not self.record:
            raise EpidemiaError(
                f"{database.filename} holds answers that choice-api did not write: {_ANOTHER}"
            )
        for name, value in self._asks.items():
            if self.record.get(name) != value:
                raise EpidemiaError(
                    f"{database.filename} holds answers with {name}={self.record.get(name)}, and "
                    f"this run has {name}={value}: {_ANOTHER}"
                )

    def note(self, read_by: str, variants: str) -> None:
        """Write down how letters are read, before the first answer is written.

        Raises
        ------
        EpidemiaError
            If those in the file have other spellings added up.
        """
        if self._database is None:
            return
        if self.record.get("spellings", variants) != variants:
            raise EpidemiaError(
                f"{self._database.filename} holds letters read by {self.record['read_by']} with "
                f"variants={self.record['spellings']}, and this server's are read by {read_by} "
                f"with variants={variants}: give variants={self.record['spellings']} too, or "
                "another path to --use_cache"
            )
        before = self.record.get("read_by", read_by).split(" and ")
        ways = " and ".join(sorted({*before, read_by}))
        self.record = {**self._asks, "read_by": ways, "spellings": variants}
        with writing(self._database), self._table() as table:
            table.update(self.record)

    def _table(self) -> Any:
        kind = type(self._database)  # SqliteDict
        return kind(self._database.filename, tablename=_TABLE, autocommit=True)
