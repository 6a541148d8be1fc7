"""How evenly models know countries: with equal weights, by region, by income; and on a map."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np

from lm_eval_epidemia.ask.prompts import find_variables
from lm_eval_epidemia.benchmarks.observation import places as measures
from lm_eval_epidemia.benchmarks.observation.measured import Part, part_of
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.cells import (
    AnsweredGroup,
    add_known,
    average_levels,
    cells_of,
    find_asked,
    group_answers,
)
from lm_eval_epidemia.findings.finding import Finding, make_finding
from lm_eval_epidemia.findings.mean import REACH
from lm_eval_epidemia.findings.references import KNOWS_MARGINAL
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.surveys.catalogue import all_tasks

#: What a larger place is called, by kind.
KINDS = {"region": "regions", "income": "thirds of countries by income"}

#: Of a smaller gap the order of places is rounding.
ALIKE = 1e-9

#: An ISO 3166 code of a country among the names of a level.
CODE = re.compile("[A-Z]{3}")


def _places(part: Part) -> measures.Places:
    where = measures.places_of(part)
    assert where is not None
    return where


#: Respondents that are known, and what they answer.
KNOWN: dict[str, Callable[[Part], Array]] = {
    KNOWS_MARGINAL: lambda part: scoring.answer_marginal(part.weights, part.p),
    "knows its region's average": lambda part: measures.average_places(
        part, _places(part), "region"
    ),
}


def _collect_answers(results: Results) -> tuple[Iterator[AnsweredGroup], list[str]]:
    """Return the answers to tasks about places, with those of known respondents."""
    of = measures.places_of
    groups, left_out = group_answers(
        results, lambda asked: of(part_of(store.load_truth(asked.task))), of
    )
    return add_known(groups, KNOWN), left_out


def _regions(of: AnsweredGroup) -> Iterator[tuple[str, measures.Regions]]:
    """Yield the kinds of larger places, and the errors in each; none with too few places."""
    tasks = [(part, _places(part), told.q) for part, told in of.tasks.values()]
    off = [measures.find_misplaced(part, where.names, q) for part, where, q in tasks]
    for kind in KINDS:
        within = {place: of[kind] for _, where, _ in tasks for place, of in where.within.items()}
        if known := measures.compare_regions(off, within):
            yield kind, known


def places(results: Results) -> Finding:
    """How evenly models know countries: with every country alike, and gaps between regions."""
    groups, left_out = _collect_answers(results)
    rows = []
    for group in groups:
        tasks = [(part, _places(part).names, told.q) for part, told in group.tasks.values()]
        row = group.row | {
            "places": len({name for _, names, _ in tasks for name in names}),
            "score": group.score,
            "alike": np.mean([measures.score_alike(*of) for of in tasks]),
            "rounding": np.mean(
                [measures.rounding(part, float(part.distance(q))) for part, _, q in tasks]
            ),
        }
        for kind, of in _regions(group):
            if of.gap > ALIKE:
                row |= {kind: 100 * of.gap, f"{kind}_error": 100 * of.gap_error}
                row[f"{kind}_ends"] = f"{of.names[-1]} less {of.names[0]}"
        rows.append(row)
    return make_finding("places", rows, results.runs, left_out)


def regions(results: Results) -> Finding:
    """Errors of the answers in every region of the world, and by income."""
    groups, left_out = _collect_answers(results)
    rows = []
    for group in groups:
        for kind, of in _regions(group):
            for place, number, off, error in zip(*of[:4], strict=True):
                row = {"of": KINDS[kind], "place": place, "places": number}
                row |= {"off": 100 * off, "off_error": 100 * error}
                row |= {"low": 100 * (off - REACH * error), "high": 100 * (off + REACH * error)}
                rows.append(group.row | row)
    return make_finding("regions", rows, results.runs, left_out)


def countries_of(truth: store.GroundTruth) -> tuple[int, dict[str, str]] | None:
    """Return which condition of a task is a country, and the ISO 3166 code of each; or None."""
    ways = find_variables(truth)
    for place, name in enumerate(all_tasks()[truth.task].given):
        codes = {
            level.label: next(filter(CODE.fullmatch, level.names), "")
            for level in ways[name].levels
        }
        if all(codes.values()):
            return place, codes
    return None


def map_of(results: Results, task: str) -> Finding:
    """The first answer of a task in every country, averaged over its people.

    Parameters
    ----------
    results : Results
    task : str
        The task's lm-eval name.

    Returns
    -------
    Finding
        A row per respondent and ``country`` (``code``: ISO 3166): what it says (``value``), the
        ``truth`` in the cells that it was asked, and the ``error``, which the survey's own rows
        (``kind`` is ``survey``) lack.

    Raises
    ------
    EpidemiaError
        If the task has no country as a condition.
    """
    truth = store.load_truth(find_asked(task).task)
    if (countries := countries_of(truth)) is None:
        raise EpidemiaError(f"{task} has no country as a condition, so it has no map")
    condition, codes = countries
    every = cells_of(results, task)
    table = average_levels(every, all_tasks()[truth.task].given[condition])
    table = table[table["place"] == 0].rename(columns={"level": "country"})
    apart = (table["value"] - table["truth"]).where(table["kind"] != "survey")
    table = table.assign(code=table["country"].map(codes), error=apart)
    return make_finding("map", table, left_out=every.left_out, title=task)
