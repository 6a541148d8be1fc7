"""Causes and effects from nature: the Tübingen cause-effect pairs, by name and direction.

``pairs.csv`` holds them as this package uses them. It is made from a list of the database's 108
pairs (columns list, row, cause, effect):
``python -m lm_eval_epidemia.benchmarks.intervention.tuebingen PARQUET``.
What is left out, merged and told apart is written here as data, with the reason.

Source: J. M. Mooij, J. Peters, D. Janzing, J. Zscheischler and B. Schölkopf, "Distinguishing Cause
from Effect Using Observational Data: Methods and Benchmarks", Journal of Machine Learning Research
17(32), 2016, whose appendix describes the pairs. The list is the one in the repository
tejaskasetty/interventional-reasoning-llms (MIT License, copyright 2024 Tejas Kasetty, Divyat
Mahajan, Gintare Karolina Dziugaite, Alexandre Drouin, Dhanya Sridhar). Only names and directions
are taken from it; no measurement of the database, whose pairs have terms of their own, is here.
"""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from lm_eval_epidemia.core.errors import EpidemiaError

#: Reason -> official numbers of the pairs that are not used.
LEFT_OUT: Mapping[str, Sequence[int]] = {
    "several variables on a side": (52, 53, 54, 55, 71, 105),
    "the source's two lists state opposite directions": (84, 92),
    "one quantity at two times or places": (43, 44, 45, 46, 89, 90, 97, 98, 104),
    "the names say nothing without the experiment": (19, 70, 85, 102, 103, 106, 107, 108),
}


class _Source(NamedTuple):
    """Pairs about the same things: where a name means one thing only.

    Attributes
    ----------
    field : str
        What the pairs are about. Things that nature relates, listed or not, are better in one
        field: countries, cars and weather are, because of CO2 and the global mean temperature.
    rows : tuple of int
        Official numbers.
    names : mapping of str to str
        The list's name, in lower case -> ours; other names are kept. Two names that become one
        are synonyms; one name that becomes two, in two sources, is a homonym told apart.
    """

    field: str
    rows: tuple[int, ...]
    names: Mapping[str, str]


SOURCES = (
    # Weather stations, their surroundings and what is attached to them. All these temperatures are
    # of the air outside; the global mean is another quantity. PPFD is the photosynthetic photon
    # flux density; its direct and diffuse parts are merged with the whole.
    _Source(
        "world",
        (
            *(1, 2, 3, 4, 20, 21, 42, 48, 49, 50, 51, 69, 72, 77, 81, 82, 83, 87, 93, 94, 95, 96),
            *(78, 79, 80, 91),
        ),
        {
            "temperature": "outdoor temperature",
            "outside temperature": "outdoor temperature",
            "inside temperature": "indoor temperature",
            **{
                f"ozone concentration ({station}, switzerland)": "ozone concentration"
                for station in ("lausanne-cesar-roux", "chaumont", "davos-see")
            },
            **{f"local co2 flux, {s}": "local CO2 flux" for s in ("be-bra", "de-har", "us-pfa")},
            "sunspots": "number of sunspots",
            "total snow": "amount of snow",
            **dict.fromkeys(
                ("ppfd", "diffuse ppfddif", "direct ppfddir"), "photosynthetic photon flux density"
            ),
            "clay cont. in soil (forest)": "clay content in soil",
        },
    ),
    # Abalones, a kind of sea snail: their age is counted in rings.
    _Source(
        "abalones",
        (5, 6, 7, 8, 9, 10, 11),
        {
            name: f"{name} of an abalone"
            for name in (
                *("age", "length", "diameter", "height"),
                *(f"{part} weight" for part in ("shell", "whole", "shucked", "viscera")),
            )
        },
    ),
    # People: a census, patients with arrhythmia, Pima women, children, liver tests, families.
    _Source(
        "people",
        (12, 17, 18, 22, 23, 24, 33, 34, 35, 36, 37, 38, 39, 40, 41, 88, 99),
        {
            "age": "age of a person",
            "concentration gag": "glycosaminoglycan concentration in urine",
            "heightx": "height of a person",
            "weight": "weight of a person",
            "relative spinal bone mineral density": "spinal bone mineral density",
            "alkaline phosphotase": "alkaline phosphatase",
            "gamma-glutamyl transpeptdase": "gamma-glutamyl transpeptidase",
            "social-economic status family": "socio-economic status of a family",
        },
    ),
    _Source(
        "world",
        (13, 14, 15, 16, 47),
        {
            "displacement": "engine displacement of a car",
            "horse power": "horsepower of a car",
            "horsepower": "horsepower of a car",
            "weight": "weight of a car",
            "fuel consumption": "fuel consumption of a car",
            "acceleration": "acceleration of a car",
            "number of cars": "number of cars on the road",
        },
    ),
    _Source(
        "concrete",
        (25, 26, 27, 28, 29, 30, 31, 32),
        {
            "age": "age of concrete",
            **{
                name: f"{name} content of concrete"
                for name in (
                    *("cement", "blast furnace slag", "fly ash", "water", "superplasticizer"),
                    *("coarse aggregate", "fine aggregate"),
                )
            },
            "compressive strength": "compressive strength of concrete",
        },
    ),
    # Countries. Life expectancy of women, of men and of all, in any years, is one variable.
    _Source(
        "world",
        (56, 57, 58, 59, 60, 61, 62, 63, 64, 73, 74, 75, 76),
        {
            **{
                f"{sex} life expectancy, {years}": "life expectancy"
                for sex in ("female", "male")
                for years in ("1985-1990", "1990-1995", "1995-2000", "2000-2005")
            },
            "drinking water access": "access to drinking water",
            "co2 emissions": "CO2 emissions",
            "gni per capita": "GNI per capita",
        },
    ),
    _Source(
        "people",
        (65, 66, 67, 86),
        {
            "stock return of hang seng bank": "stock return of Hang Seng Bank",
            "stock return of hsbc hldgs": "stock return of HSBC Holdings",
            "stock return of hutchison": "stock return of Hutchison",
            "stock return of cheung kong": "stock return of Cheung Kong",
            "stock return of sun hung kai prop.": "stock return of Sun Hung Kai Properties",
            "size of apartment": "size of an apartment",
            "monthly rent": "monthly rent of an apartment",
        },
    ),
    _Source(
        "computers",
        (68, 100, 101),
        {
            "open http connections": "number of open HTTP connections",
            "bytes sent": "number of bytes sent",
            "cycle time of cpu": "cycle time of a CPU",
            "performance": "performance of a computer",
        },
    ),
)


class Pair(NamedTuple):
    """One relation of the list.

    Attributes
    ----------
    cause, effect : str
        Noun phrases that read well in "X causes Y."; in lower case except for proper names.
    rows : tuple of int
        Official numbers of the pairs merged, 1 to 108.
    field : str
        What it is about; both variables are in this field only.
    """

    cause: str
    effect: str
    rows: tuple[int, ...]
    field: str


@lru_cache
def pairs() -> tuple[Pair, ...]:
    """Return the pairs that ship, in the order of their first official number."""
    text = (files(__package__) / "pairs.csv").read_text(encoding="utf-8")
    return tuple(
        Pair(row["cause"], row["effect"], tuple(map(int, row["rows"].split(";"))), row["field"])
        for row in csv.DictReader(text.splitlines())
    )


def _merged(listed: Iterable[tuple[int, str, str]]) -> list[Pair]:
    """Name, merge and sort pairs given as (official number, cause, effect).

    Raises
    ------
    EpidemiaError
        If a pair is not exactly once in `LEFT_OUT` and `SOURCES`, or a merged name stands on both
        sides of one pair.
    """
    left_out = [row for rows in LEFT_OUT.values() for row in rows]
    rows: dict[tuple[str, str, str], list[int]] = {}
    for row, *raw in sorted(listed):
        sources = [source for source in SOURCES if row in source.rows]
        if len(sources) + left_out.count(row) != 1:
            raise EpidemiaError(
                f"pair {row} ({raw[0]} -> {raw[1]}): expected exactly once among LEFT_OUT and "
                f"SOURCES of lm_eval_epidemia/benchmarks/intervention/tuebingen.py, found "
                f"{len(sources) + left_out.count(row)} times"
            )
        for source in sources:
            cause, effect = (source.names.get(name.lower(), name.lower()) for name in raw)
            if cause == effect:
                raise EpidemiaError(
                    f"pair {row} ({raw[0]} -> {raw[1]}): both are named {cause!r}; give them two "
                    f"names in SOURCES or leave the pair out"
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
    import pandas as pd

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
    """Write ``pairs.csv`` next to this file."""
    parser = argparse.ArgumentParser(description="Write pairs.csv from the list of pairs.")
    parser.add_argument("parquet", type=Path, help="tubingen_pairs_direction.parquet")
    target = Path(__file__).with_name("pairs.csv")
    target.write_text(made_from(parser.parse_args().parquet), encoding="utf-8")


if __name__ == "__main__":
    main()
