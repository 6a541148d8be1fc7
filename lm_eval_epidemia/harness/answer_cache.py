"""The files that a run writes: places that take none, and whose answers ``--use_cache`` holds.

A place is found unwritable before the model loads, or said at the run's end.

lm-eval keys answers by prompt only, and would give one model's answers to another. A run of ours
therefore writes into the file what its answers depend on, and refuses the file of another model,
other arguments or another template. So does a run without our tasks, if the file is one of ours.
"""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.harness.keys import SECRET

#: A model and its arguments, as ``simple_evaluate`` got them; None for a model made by the user.
ASKED: ContextVar[Mapping[str, Any] | None] = ContextVar("ASKED", default=None)

#: Arguments of models that change how fast they answer, where and for whom, but not what.
_IDLE = re.compile(
    "batch_size|max_batch_size|device|parallelize|num_concurrent|max_memory_per_gpu|max_cpu_memory|"
    "offload_folder|gpu_memory_utilization|tensor_parallel_size|data_parallel_size|swap_space|"
    "max_num_seqs|cache_dir|download_dir|trust_remote_code|timeout|max_retries|pause|"
    "max_cost_tokens|api_key_env|header_env|verify_certificate|ca_cert_path|" + "|".join(SECRET)
)

#: What tells models apart that the user made.
_TOLD = (
    *("tokenizer_name", "pretrained", "revision", "model", "variants", "enable_thinking"),
    *("kind", "noise", "seed", "position_bias", "base_url"),
)

#: What became of the answers before an error.
KEPT = "in the file of --use_cache: run the same command again to continue"
LOST = "lost: with --use_cache PATH lm-eval keeps each answer, and the same command continues"

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
    path = Path(f"{use_cache}_rank0.db")
    # It logs the traceback of an error that we report in a line.
    logging.getLogger("sqlitedict").setLevel(logging.CRITICAL)
    paths.check_writable(path.parent)
    try:
        with closing(_opened(path if path.exists() else ":memory:")) as connection:
            connection.execute("BEGIN IMMEDIATE")
            sound = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        sound = str(error)
    if sound != "ok":
        raise EpidemiaError(
            f"{path} is no database that can be written, or is damaged ({sound}): take another"
        )


@contextmanager
def explain_write(database: Any) -> Iterator[None]:
    """Report in one line a file that cannot be written."""
    try:
        yield
    except sqlite3.Error as error:
        raise EpidemiaError(
            f"the file of --use_cache, {database.filename}, cannot be written: {error}"
        ) from error


def list_dependencies(lm: Any, given: Mapping[str, Any]) -> dict[str, str]:
    """Return what a run's answers depend on besides the prompt.

    Parameters
    ----------
    lm : LM
    given : mapping
        The arguments of ``lm_eval.evaluator.evaluate``.
    """
    told = {name: getattr(lm, name, None) for name in _TOLD}
    made_of = {name: x for name, x in told.items() if isinstance(x, (str, int, float))}
    asks = ASKED.get() or {"--model": type(lm).__name__, **made_of}
    asks = {name: x for name, x in asks.items() if not _IDLE.fullmatch(name)}
    with suppress(Exception):  # Of two models under one name the weights differ.
        some = [weights.detach().flatten()[:4].tolist() for weights in lm.model.parameters()]
        asks["weights"] = f"{zlib.crc32(repr(some).encode()):08x}"
    asks["system_instruction"] = given.get("system_instruction") or ""
    asks["apply_chat_template"] = template = given.get("apply_chat_template") or False
    asks["fewshot_as_multiturn"] = bool(template and given.get("fewshot_as_multiturn"))
    # The query of an address may contain a key.
    return {
        name: str(x).partition("?")[0] if name == "base_url" else str(x) for name, x in asks.items()
    }


@contextmanager
def claim_file(database: Any, asks: Mapping[str, str]) -> Iterator[None]:
    """Note during a run whose answers a file holds, or refuse a file with those of another.

    A run that stops before its first answer leaves no note, and may be given other arguments.
    """
    write_note(database, asks)
    try:
        with explain_write(database):
            yield
    finally:
        with suppress(EpidemiaError), _locked(database) as connection:
            if not _count_answers(connection, database):
                connection.execute("DROP TABLE IF EXISTS epidemia")


def write_note(
    database: Any, asks: Mapping[str, str], part: str = "run", told: Mapping[str, Any] | None = None
) -> None:
    """Write down what the answers in a file depend on.

    Parameters
    ----------
    database : SqliteDict, optional
        lm-eval's cache of responses; None if there is none.
    asks : mapping
        What must be the same for all of them; an address may change.
    part : str
        What `asks` are: "run", its arguments; "letters", how a server's letters are read.
    told : mapping, optional
        What else is written down, and may change.

    Raises
    ------
    EpidemiaError
        If the file contains answers of another model, of other arguments, or of nobody knows whom.
    """
    if database is None:
        return
    with _locked(database) as connection:
        if not (record := _read_record(connection)) and (
            many := _count_answers(connection, database)
        ):
            raise EpidemiaError(
                f"{database.filename} holds {many:,} answers, but not whose they are: take another"
            )
        before = record.get(part, asks)
        for name in {**before, **asks}:
            was, now = (of.get(name, "not given") for of in (before, asks))
            if was != now and name == "base_url":
                held = f"{database.filename} holds answers of {before.get('model')} read at {was}"
                _logger.warning("epidemia: %s; they are used as answers of %s", held, now)
            elif was != now:
                raise EpidemiaError(
                    f"{database.filename} holds answers with {name}={was}, but this run has "
                    f"{name}={now}: give another path for --use_cache"
                )
        record |= {part: dict(asks), "told": {**record.get("told", {}), **(told or {})}}
        connection.execute("CREATE TABLE IF NOT EXISTS epidemia (record TEXT)")
        connection.execute("DELETE FROM epidemia")
        connection.execute("INSERT INTO epidemia VALUES (?)", (json.dumps(record),))


def record_of(database: Any) -> dict[str, Any]:
    """Return what `write_note` wrote into a file; empty if nothing, or if there is none."""
    if database is None:
        return {}
    with explain_write(database), closing(_opened(database.filename)) as connection:
        return _read_record(connection)


@contextmanager
def _locked(database: Any) -> Iterator[sqlite3.Connection]:
    """Open a file for one transaction: of two runs that begin at once one waits for the other."""
    with explain_write(database), closing(_opened(database.filename)) as connection, connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def _opened(path: Any) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)


def _count_answers(connection: sqlite3.Connection, database: Any) -> int:
    return int(connection.execute(f'SELECT COUNT(*) FROM "{database.tablename}"').fetchone()[0])


def _read_record(connection: sqlite3.Connection) -> dict[str, Any]:
    if ("epidemia",) not in connection.execute("SELECT name FROM sqlite_master").fetchall():
        return {}
    row = connection.execute("SELECT record FROM epidemia").fetchone()
    return json.loads(row[0]) if row else {}


def watch(tracker: Any) -> None:
    """Refuse an ``--output_path`` that cannot be written; let a failed save end the run.

    lm-eval logs "Could not save results", and ends as if all were well.

    Parameters
    ----------
    tracker : lm_eval.loggers.EvaluationTracker, optional
    """
    given = getattr(tracker, "output_path", None)
    if not given:
        return
    path = Path(given)
    paths.check_writable(path.parent if path.suffix == ".json" else path)

    def save(usual: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        from lm_eval.loggers.evaluation_tracker import eval_logger
        from lm_eval.utils import make_table

        def warning(said: str, *more: Any) -> None:
            if not said.startswith("Could not save"):
                return eval_logger.log(logging.WARNING, said, *more)
            # lm-eval prints its tables after this.
            for column in {"results", "groups"} & kwargs.get("results", {}).keys():
                print(make_table(kwargs["results"], column))
            raise EpidemiaError(
                f"--output_path {given}: the results cannot be written ({sys.exc_info()[1]})"
            ) from None

        with mock.patch.object(eval_logger, "warning", warning):
            usual(*args, **kwargs)

    for name in ("save_results_aggregated", "save_results_samples"):
        setattr(tracker, name, partial(save, getattr(tracker, name)))
