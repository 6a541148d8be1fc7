"""Two models compared: `compare`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

import pandas as pd

from lm_eval_epidemia.core.errors import EpidemiaError, OptionError
from lm_eval_epidemia.core.store import look_at_disk


@dataclass(frozen=True, repr=False, eq=False)
class Compared:
    """Two models compared; its text is what ``epidemia compare`` prints.

    Attributes
    ----------
    one, other : str
        The models' full names.
    table : DataFrame
        Every number, in the tidy rows of ``epidemia compare --format csv``: a row per group of our
        tasks, and per metric of other tasks; ``difference`` is the first minus the second,
        ``verdict`` the conclusion about the first.
    unlike : dict of str to (str, str)
        Settings in which the two runs differ, with both values.
    notes : tuple of str
        What is not compared, and why.
    words : tuple of str
        Lines of text, at most one screen.
    """

    one: str
    other: str
    table: pd.DataFrame
    unlike: dict[str, tuple[str, str]]
    notes: tuple[str, ...]
    words: tuple[str, ...]

    def __repr__(self) -> str:
        return "\n".join(self.words)


def compare(
    one: str,
    other: str,
    results: str | PathLike[str] | Iterable[str | PathLike[str]],
    where: Mapping[str, str] | None = None,
    cluster: str | None = None,
    informative: bool = False,
) -> Compared:
    """Say which of two models is better, by how much, and whether that holds in other tasks.

    Parameters
    ----------
    one, other : str
        The models, as ``epidemia report`` names them or as they were named to lm-eval.
    results : path or iterable of paths
        Result files of lm-eval, or folders that hold them at any depth.
    where : mapping of str to str, optional
        Only runs with these settings, such as ``{"limit": "none", "dtype": "bfloat16"}``.
    cluster : str, optional
        A column of the documents of other tasks: rows with the same value are one observation.
    informative : bool
        Whether to leave out barely informative tasks.

    Returns
    -------
    Compared

    Raises
    ------
    EpidemiaError
        If a name matches no model (with the nearest names) or a model with several runs; if nothing
        can be compared.
    """
    look_at_disk()
    if not (isinstance(one, str) and isinstance(other, str)):
        raise EpidemiaError(f"compare: {one!r} and {other!r}: expected the names of two models")
    if not isinstance(where or {}, Mapping):
        raise EpidemiaError(f"where={where!r}: expected settings, such as {{'limit': 'none'}}")
    from lm_eval_epidemia.findings.versus import compare_models
    from lm_eval_epidemia.report.screen import describe_versus
    from lm_eval_epidemia.results.choose import keep_informative
    from lm_eval_epidemia.results.read import read_results

    paths = [results] if isinstance(results, str | PathLike) else results
    try:
        made = read_results([Path(fspath(path)) for path in paths])
        made = keep_informative(made) if informative else made
        compared = compare_models(made, one, other, where, cluster)
    except OptionError as error:
        raise EpidemiaError(error.in_python) from None
    tables = [of.table for of in (compared.ours, compared.documents) if len(of.table)]
    return Compared(
        one=compared.one.name,
        other=compared.other.name,
        table=pd.concat(tables, ignore_index=True),
        unlike=compared.unlike,
        notes=tuple(compared.notes),
        words=tuple(describe_versus(compared)),
    )
