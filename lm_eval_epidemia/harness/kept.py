"""The file of ``--use_cache``: which model wrote its answers, and how letters were read.

lm-eval keys answers by prompt only, and would give one model's answers to another. `choice-api`
therefore adds two tables to the file: the arguments that its answers depend on, and the keys of the
answers it wrote, each in the same transaction as the answer.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from lm_eval_epidemia.core.errors import EpidemiaError

_ANOTHER = "give another path for --use_cache"

#: Seconds to wait for another process that writes.
_PATIENCE = 60.0

_logger = logging.getLogger("lm_eval_epidemia")


def check_file(use_cache: Any) -> None:
    """Refuse a path of ``--use_cache`` that cannot be written, before a model is asked.

    Parameters
    ----------
    use_cache : str, optional
        As given to lm-eval, without the suffix that it adds.
    """
    if not use_cache:
        return
    path, sound = Path(f"{use_cache}_rank0.db"), "ok"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            path.open("a+b").close()
            sound = _checked(path)
        else:
            path.touch()
            path.unlink()
    except OSError as error:
        raise EpidemiaError(
            f"--use_cache {use_cache}: the file {path} cannot be written ({error.strerror}): "
            "give another path"
        ) from None
    if sound != "ok":
        raise EpidemiaError(
            f"--use_cache {use_cache}: {path} is not a database, or is damaged ({sound}): delete "
            "it, or give another path"
        )


@contextmanager
def writing(database: Any) -> Iterator[None]:
    """Report in one line a file that cannot be written."""
    try:
        yield
    except (sqlite3.Error, OSError, RuntimeError) as error:
        raise EpidemiaError(
            f"the file of --use_cache, {database.filename}, cannot be written: {error}"
        ) from error


def _checked(path: Path) -> str:
    """Return "ok", or what is wrong with a database."""
    try:
        with closing(_opened(path)) as connection:
            return str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.DatabaseError as error:
        return str(error)


def refuse_served(database: Any) -> None:
    """Refuse to let another model use a file of `choice-api`, which contains a server's answers.

    Parameters
    ----------
    database : SqliteDict
        lm-eval's cache of responses.
    """
    with writing(database), closing(_opened(database.filename)) as connection:
        record = _record(connection)
    if record:
        raise EpidemiaError(
            f"{database.filename} contains answers of {record.get('model')}, written by "
            f"choice-api, which lm-eval would use as this model's: {_ANOTHER}"
        )


class Kept:
    """The record of which model answered, in a file of ``--use_cache``.

    Parameters
    ----------
    database : SqliteDict, optional
        lm-eval's cache of responses; None if there is none.
    asks : mapping
        The arguments that the answers depend on besides the prompt.
    base_url : str
        The server's address, which may change.

    Raises
    ------
    EpidemiaError
        If the file contains answers of another model or of other arguments.
    """

    #: Notes the key of an answer, in lm-eval's connection.
    mark = "INSERT OR IGNORE INTO choice_api_keys VALUES (?)"

    def __init__(self, database: Any, asks: Mapping[str, Any], base_url: str = "") -> None:
        self._database, self._asks, self._url = database, dict(asks), base_url
        #: As `note` wrote it; empty if there is no file, or nothing in it.
        self.record: dict[str, Any] = {}
        if database is None or not len(database):
            return
        with writing(database), closing(_opened(database.filename)) as connection:
            self.record, foreign = _record(connection), 0
            if self.record:
                others = f'FROM "{database.tablename}" WHERE key NOT IN choice_api_keys'
                foreign = connection.execute(f"SELECT COUNT(*) {others}").fetchone()[0]
        if foreign or not self.record:
            raise EpidemiaError(
                f"{database.filename} holds {foreign or len(database):,} answers that choice-api "
                f"did not write, perhaps of another model: {_ANOTHER}"
            )
        self._refuse_another(self.record)
        if (before := self.record["base_url"]) != base_url:
            held = f"{database.filename} holds answers of {self.record['model']} read at {before}"
            _logger.warning("epidemia: %s; they are used as answers of %s", held, base_url)

    def note(self, read_by: str, variants: str, checked: Mapping[str, Any]) -> None:
        """Record how letters are read and what the server reported, before any answer.

        Raises
        ------
        EpidemiaError
            If answers in the file depend on other arguments, or add up other spellings.
        """
        if self._database is None:
            return
        with writing(self._database), closing(_opened(self._database.filename)) as connection:
            # Of two runs that begin at once the second finds what the first wrote.
            connection.execute("BEGIN IMMEDIATE")
            if before := _record(connection):
                self._refuse_another(before)
                self._refuse_spellings(before, read_by, variants)
            ways = {*before.get("read_by", read_by).split(" and "), read_by}
            how = {"read_by": " and ".join(sorted(ways)), "spellings": variants}
            where = {"base_url": self._url, "checked": dict(checked)}
            self.record = {**self._asks, **where, **how}
            connection.execute("CREATE TABLE IF NOT EXISTS choice_api (record TEXT)")
            connection.execute("CREATE TABLE IF NOT EXISTS choice_api_keys (key TEXT PRIMARY KEY)")
            connection.execute("DELETE FROM choice_api")
            connection.execute("INSERT INTO choice_api VALUES (?)", (json.dumps(self.record),))
            connection.execute("COMMIT")

    def _refuse_another(self, record: Mapping[str, Any]) -> None:
        for name, value in self._asks.items():
            if record.get(name) != value:
                raise EpidemiaError(
                    f"{self._database.filename} contains answers with {name}={record.get(name)}, "
                    f"but this run has {name}={value}: {_ANOTHER}"
                )

    def _refuse_spellings(self, record: Mapping[str, Any], read_by: str, variants: str) -> None:
        if (before := record["spellings"]) != variants:
            raise EpidemiaError(
                f"{self._database.filename} contains letters read by {record['read_by']} with "
                f"variants={before}, but this server's are read by {read_by} with "
                f"variants={variants}: give variants={before}, or another path for --use_cache"
            )


def _opened(path: Any) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)


def _record(connection: sqlite3.Connection) -> dict[str, Any]:
    """Return what `choice-api` wrote down; empty if it did not."""
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    if ("choice_api",) not in tables:
        return {}
    rows = connection.execute("SELECT record FROM choice_api").fetchall()
    return json.loads(rows[0][0]) if rows else {}
