"""Make the list of pairs: `lm_eval_epidemia/benchmarks/intervention/pairs.csv`.

    python benchmarks/tuebingen_pairs.py tubingen_pairs_direction.parquet

The file is a list of the 108 Tübingen cause-effect pairs (columns list, row, cause, effect): that
of the repository tejaskasetty/interventional-reasoning-llms (MIT License, copyright 2024 Tejas
Kasetty, Divyat Mahajan, Gintare Karolina Dziugaite, Alexandre Drouin, Dhanya Sridhar). What is left
out, merged and told apart is data with the reason, in ``pairs.yaml`` beside the list.
"""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

import lm_eval_epidemia.benchmarks.intervention as benchmark
from lm_eval_epidemia.benchmarks.intervention.names import Pair
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.paths import read_yaml

OUT = Path(benchmark.__file__).with_name("pairs.csv")


class _Source(NamedTuple):
    """Pairs about the same things: where a name means one thing only.

    Attributes
    ----------
    field : str
        What the pairs are about. Things that nature relates, listed or not, are better in one
        field: countries, cars and weather are, because of CO2 and the global mean temperature.
    rows : list of int
        Official numbers.
    names : mapping of str to str
        The list's name, in lower case -> ours; other names are kept. Two names that become one
        are synonyms; one name that becomes two, in two sources, is a homonym told apart.
    """

    field: str
    rows: list[int]
    names: Mapping[str, str]


@lru_cache
def chosen() -> tuple[dict[str, list[int]], tuple[_Source, ...]]:
    """Return the pairs that are not used, by reason, and the sources of the others."""
    data = read_yaml(benchmark.__name__, "pairs.yaml")
    return data["left out"], tuple(_Source(**source) for source in data["sources"])


def _merged(listed: Iterable[tuple[int, str, str]]) -> list[Pair]:
    """Name, merge and sort pairs given as (official number, cause, effect).

    Raises
    ------
    EpidemiaError
        If a pair is not exactly once in ``pairs.yaml``, or a merged name stands on both sides of
        one pair.
    """
    reasons, known = chosen()
    left_out = [row for rows in reasons.values() for row in rows]
    rows: dict[tuple[str, str, str], list[int]] = {}
    for row, *raw in sorted(listed):
        sources = [source for source in known if row in source.rows]
        if len(sources) + left_out.count(row) != 1:
            raise EpidemiaError(
                f"pair {row} ({raw[0]} -> {raw[1]}): expected exactly once in "
                f"lm_eval_epidemia/benchmarks/intervention/pairs.yaml, found "
                f"{len(sources) + left_out.count(row)} times"
            )
        for source in sources:
            cause, effect = (source.names.get(name.lower(), name.lower()) for name in raw)
            if cause == effect:
                raise EpidemiaError(
                    f"pair {row} ({raw[0]} -> {raw[1]}): both are named {cause!r}; give them two "
                    f"names in pairs.yaml or leave the pair out"
                )
            rows.setdefault((cause, effect, source.field), []).append(row)
    return [Pair(cause, effect, tuple(of), field) for (cause, effect, field), of in rows.items()]


def made_from(parquet: Path) -> str:
    """Make the text of ``pairs.csv``.

    Parameters
    ----------
    parquet : Path
        The list of pairs: columns ``list``, ``row``, ``cause``, ``effect``. Of its two lists,
        "complete" is used: the other is an edited selection without official numbers.

    Returns
    -------
    str
        CSV with columns cause, effect, rows (numbers joined by ";") and field.

    Raises
    ------
    EpidemiaError
        If the file has other columns or pairs.
    """
    columns: list[Any] = ["row", "cause", "effect"]
    frame = pd.read_parquet(parquet)
    if missing := {"list", *columns} - set(frame.columns):
        raise EpidemiaError(
            f"{parquet.name} lacks {', '.join(sorted(missing))}: expected the list of pairs, with "
            f"columns list, row, cause, effect"
        )
    complete = frame.loc[frame["list"] == "complete", columns]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Pair._fields)
    for pair in _merged(complete.itertuples(index=False, name=None)):
        writer.writerow([pair.cause, pair.effect, ";".join(map(str, pair.rows)), pair.field])
    return text.getvalue()


def main() -> None:
    """Write the list where the package has it."""
    parser = argparse.ArgumentParser(description="Write pairs.csv from the list of pairs.")
    parser.add_argument("parquet", type=Path, help="tubingen_pairs_direction.parquet")
    OUT.write_text(made_from(parser.parse_args().parquet), encoding="utf-8")


if __name__ == "__main__":
    main()
