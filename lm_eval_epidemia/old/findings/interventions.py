"""Tables on causal graphs, from models' recorded answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks import INTERVENTION, WAYS, in_way
from lm_eval_epidemia.benchmarks.intervention import generate
from lm_eval_epidemia.benchmarks.intervention.contrasts import (
    known_scenes,
    mean,
    noticed,
    picked,
    shared,
)
from lm_eval_epidemia.benchmarks.intervention.metrics import Graded, graded
from lm_eval_epidemia.benchmarks.intervention.questions import TASKS, DoPair, Questions, questions
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.old.findings import published_interventions
from lm_eval_epidemia.old.findings.rows import ALIKE, Cell, Column, Finding, Number, Row
from lm_eval_epidemia.old.findings.tables import Table, row_of
from lm_eval_epidemia.results.entry import Asked, Entry
from lm_eval_epidemia.score.estimates import Estimate, apart, average, paired, pooled

#: The tasks about the graphs of the paper by where names come from, the others by their size.
SMALL = {one.names: name for name, one in TASKS.items() if one.nodes is None}
LARGE = {one.nodes: name for name, one in TASKS.items() if one.nodes is not None}

#: Ways that ask before and after an intervention.
EFFECTS = tuple(way for way in INTERVENTION.ways if WAYS[way].load is questions)

#: Who finds fewer of the relations that a graph states is no case for the shortcut test.
FOUND = 0.95

#: Where X of do(X) is, in the tasks about larger graphs.
KINDS = (generate.TARGET, generate.INSIDE, generate.YES, generate.BYPASSED, generate.NO)

#: Paths of so many edges or more are counted together: few graphs have them.
LONGEST = 6

#: Where nature and the graph are at odds: graph, intervened variable, and the queries U and V. With
#: BA, which is no in the graph before and after, the bivariate one is as the study prints it.
CONTRASTS = (
    ("bivariate", "B", ("AB",)),
    ("bivariate", "B", ("AB", "BA")),
    ("mediation", "B", ("AC",)),
    ("mediation", "C", ("AC",)),
)

#: Names in nature's direction and against it, from the same list.
TURNED = ("tuebingen", "anticommonsense")

#: Whose accuracies are subtracted, and what heads the column.
SUBTRACTED = {
    TURNED: "t - a",
    ("tuebingen", "random"): "t - r",
    ("anticommonsense", "random"): "a - r",
}

#: How numbers are written.
SHARE = Column("", "accuracy", 3, least=ALIKE, named=True)
DIFFERENCE = SHARE._replace(signed=True)
MOVED = DIFFERENCE._replace(metric="log_odds_of_yes")


class AnsweredTask(NamedTuple):
    """A model's answers in a task, with the truth.

    Attributes
    ----------
    truth : Questions
    odds : ndarray, shape (prompts,)
    found : Graded
    """

    truth: Questions
    odds: Array
    found: Graded


def known(entry: Entry, task: str | None, way: str) -> AnsweredTask | None:
    """Return an entry's answers in a task; None if it was not asked or they are unknown."""
    score = entry.scores.get(Asked(task or "", way))
    if score is None or score.said is None:
        return None
    truth = WAYS[way].load(task or "")
    return AnsweredTask(truth, score.said.odds, graded(truth, *score.said))


def labels(run: AnsweredTask, of: Callable[[DoPair], str]) -> NDArray[np.str_]:
    """Return the part of a table to which each effect belongs."""
    return np.array([of(run.truth.pairs[number]) for number in run.found.numbers], dtype=str)


def _over(run: AnsweredTask, chosen: Any = None, of: Any = None) -> Estimate:
    """Average over chosen effects (default all); by default of both answers being right."""
    chosen = np.ones(len(run.found.numbers), dtype=bool) if chosen is None else chosen
    of = run.found.right if of is None else of
    return mean(run.truth, picked(run.found, chosen), of[chosen])


def _asked(entry: Entry, ways: Iterable[str]) -> Iterator[tuple[str, str, dict[str, AnsweredTask]]]:
    """Return an entry's answers by group and way, then by names or, for larger graphs, by size."""
    for way in ways:
        for group, tasks in zip(
            INTERVENTION.groups, (SMALL, {str(n): task for n, task in LARGE.items()}), strict=True
        ):
            runs = {key: run for key, task in tasks.items() if (run := known(entry, task, way))}
            if runs:
                yield in_way(group, way), way, runs


def _row(
    entry: Entry, group: str, cells: Mapping[str, Cell], about: str = "", long: bool = False
) -> Row:
    return row_of(entry, group, INTERVENTION.groups[0], cells, about, long=long)


def _overall(entry: Entry) -> Iterator[Row]:
    for group, _, by_names in _asked(entry, EFFECTS):
        several = list(by_names.values())
        parts = {
            "accuracy": [_over(run) for run in several],
            "kappa = 0": [_over(run, run.found.kappa == 0) for run in several],
            "kappa = 1": [_over(run, run.found.kappa == 1) for run in several],
            "before": [_over(run, of=run.found.base) for run in several],
            "after": [_over(run, of=run.found.post) for run in several],
        }
        yield _row(entry, group, {part: average(means) for part, means in parts.items()})


def _on(pair: DoPair) -> str:
    return f"{pair.scene.shape}, do({pair.effect.intervened})"


def _by_effect(entry: Entry) -> Iterator[Row]:
    for group, _, by_names in _asked(entry, EFFECTS):
        where = {names: labels(run, _on) for names, run in by_names.items() if names in SMALL}
        for about in dict.fromkeys(label for labelled in where.values() for label in labelled):
            cells = {
                names: _over(by_names[names], labelled == about)
                for names, labelled in where.items()
                if about in labelled
            }
            yield _row(entry, group, cells, about, long=True)


def _kinds(entry: Entry) -> Iterator[Row]:
    for group, _, by_size in _asked(entry, EFFECTS):
        where = [(run, labels(run, lambda pair: pair.kind)) for run in by_size.values()]
        means = {
            kind: [_over(run, kinds == kind) for run, kinds in where if kind in kinds]
            for kind in KINDS
        }
        cells = {kind: average(several) for kind, several in means.items() if several}
        if cells:
            yield _row(entry, group, cells)


def _retrieval(entry: Entry) -> Iterator[Row]:
    for group, _, by_names in _asked(entry, ("retrieval", "retrieval_written")):
        cells = {"random names": _over(by_names["random"])} if "random" in by_names else {}
        where = []
        for run in by_names.values():
            prompts = [run.truth.prompts[number] for number in run.found.numbers]
            answers = ["answer yes" if p.right else "answer no" for p in prompts]
            where.append((run, np.array([answers, [p.scene.shape for p in prompts]], dtype=str)))
        shapes = dict.fromkeys(shape for _, (_, listed) in where for shape in listed)
        for part in ("answer yes", "answer no", *shapes):
            cells[part] = average([_over(run, (parts == part).any(axis=0)) for run, parts in where])
        yield _row(entry, group, cells)


def _beside(way: str, other: str) -> str:
    """Return another way of asking, in its written form if this one is written."""
    return other + ("_written" if WAYS[way].generated else "")


def _retrieved(entry: Entry, way: str) -> float:
    """Return the share of relations on random names that an entry retrieves; NaN if not asked."""
    run = known(entry, SMALL["random"], _beside(way, "retrieval"))
    return math.nan if run is None else float(run.found.right.mean())


def _shortcuts(entry: Entry) -> Iterator[Row]:
    for group, way, by_names in _asked(entry, EFFECTS):
        run = by_names.get("random")
        if run is None or not _retrieved(entry, way) >= FOUND:
            continue
        where, kappa = labels(run, _on), run.found.kappa
        # do(A) changes nothing in any of the graphs.
        abouts = [about for about in dict.fromkeys(where) if not about.endswith("do(A)")]
        for about in (*abouts, "all"):
            chosen = np.isin(where, abouts if about == "all" else [about])
            same, changed = (_over(run, chosen & (kappa == k)) for k in (0, 1))
            cells = {"kappa = 0": same, "kappa = 1": changed, "difference": paired(changed, same)}
            yield _row(entry, group, cells, about, long=about != "all")


def _without_shortcuts(runs: Sequence[Entry]) -> str:
    """Say which models were left out of the shortcut test, and why."""
    left_out = []
    for entry in runs:
        for group, way, by_names in _asked(entry, EFFECTS):
            share = _retrieved(entry, way)
            if "random" in by_names and not share >= FOUND:
                why = (
                    f"it was not asked {in_way(SMALL['random'], _beside(way, 'retrieval'))}"
                    if math.isnan(share)
                    else f"it retrieves {share:.3f} of the relations"
                )
                left_out.append(f"{entry.name} in {group} ({why})")
    return f" Left out: {'; '.join(left_out)}." if left_out else ""


def _sides(
    entry: Entry,
    way: str,
    by_names: dict[str, AnsweredTask],
    about: tuple[str, str, tuple[str, ...]],
    only_known: bool,
) -> dict[str, Estimate]:
    """Return the accuracy on one of `CONTRASTS` by names, over all samples or the known ones."""
    graph, intervened, queries = about
    scenes: dict[str, NDArray[np.int64]] = {}
    for names, run in by_names.items():
        scenes[names] = np.arange(len(run.truth.scenes))
        if only_known and names != "random":
            facts = known(entry, SMALL[names], _beside(way, "knowledge"))
            scenes[names] = known_scenes(facts.found) if facts else scenes[names][:0]
    if graph == "bivariate" and scenes.keys() >= {*TURNED}:
        # The same pairs turned round, under the same numbers: those that both have are paired.
        first, second = (
            np.intersect1d(scenes[names], by_names[names].found.scene) for names in TURNED
        )
        scenes |= dict.fromkeys(TURNED, np.intersect1d(first, second))
    accuracies = {}
    for names, run in by_names.items():
        where = labels(run, lambda p: f"{_on(p)} {p.effect.cause}{p.effect.result}")
        here = np.isin(where, [f"{graph}, do({intervened}) {query}" for query in queries])
        accuracies[names] = _over(run, here & np.isin(run.found.scene, scenes[names]))
    return accuracies


def _memorisation(entry: Entry, only_known: bool = False) -> Iterator[Row]:
    for group, way, by_names in _asked(entry, EFFECTS):
        if by_names.keys().isdisjoint(TURNED):
            continue
        facts = (known(entry, task, _beside(way, "knowledge")) for task in SMALL.values())
        if only_known and not any(facts):
            continue
        for about in CONTRASTS:
            sides = _sides(entry, way, by_names, about, only_known)
            cells = dict(sides)
            for first, second in SUBTRACTED:
                if first in sides and second in sides:
                    alike = about[0] == "bivariate" and (first, second) == TURNED
                    difference = (paired if alike else apart)(sides[first], sides[second])
                    cells[f"{first} - {second}"] = difference
            long = only_known or way.startswith("substitution")
            asked = " and ".join(about[2])
            yield _row(entry, group, cells, f"{about[0]}, do({about[1]}), {asked}", long)


def _robustness(entry: Entry) -> Iterator[Row]:
    for group, way, by_names in _asked(entry, ("substitution", "substitution_written")):
        differences = {}
        for names, run in by_names.items():
            if plain := known(entry, SMALL[names], _beside(way, "intervention")):
                first, second = shared(run.found, plain.found)
                differences[names] = paired(
                    mean(run.truth, first, first.right), mean(run.truth, second, second.right)
                )
        if differences:
            yield _row(entry, group, {**differences, "all": average(list(differences.values()))})


def _noticed(entry: Entry) -> Iterator[Row]:
    for group, _, by_names in _asked(entry, [way for way in EFFECTS if not WAYS[way].generated]):
        moved = {names: noticed(run.truth, run.found, run.odds) for names, run in by_names.items()}
        together = [average(means) for means in zip(*moved.values(), strict=True)]
        cells = dict(zip(("kappa = 0", "kappa = 1", "difference"), together, strict=True))
        cells |= {
            f"difference, {names}": difference
            for names, (_, _, difference) in moved.items()
            if names in SMALL
        }
        yield _row(entry, group, cells)


def _answering(entry: Entry) -> Iterator[Row]:
    for group, way, by_names in _asked(entry, INTERVENTION.ways):
        scores = [entry.scores[Asked(run.truth.task, way)] for run in by_names.values()]
        cells = {"yes-bias": _mean([score.metrics.get("yes_bias", math.nan) for score in scores])}
        if WAYS[way].generated:
            answers = [score.said for score in scores if score.said]
            cells["not read"] = _mean([float(np.isnan(s.odds[s.asked]).mean()) for s in answers])
        yield _row(entry, group, cells)


def _mean(values: Sequence[float]) -> Estimate:
    return Estimate(math.fsum(values) / len(values), math.nan, len(values), 0)


_DIFFERENCES = [
    DIFFERENCE._replace(name=" - ".join(sides), title=title) for sides, title in SUBTRACTED.items()
]

_TABLES = (
    Table(
        "interventions",
        "Interventions: accuracy (± standard error over samples)",
        _overall,
        "An effect counts as right if the answers before and after the intervention are both "
        "right. kappa = 0: the intervention changes nothing; kappa = 1: it turns a yes into a no. "
        "before, after: each answer by itself. A model that ignores interventions gets everything "
        "right except kappa = 1.",
        SHARE,
    ),
    Table(
        "retrieval",
        "Relation retrieval: accuracy on stated graphs (± standard error)",
        _retrieval,
        "Does U cause V in the stated graph, for every ordered pair? The first column is for "
        "random names alone (the shortcut test needs it); the others average over all names, by "
        "right answer and by graph.",
        SHARE,
    ),
    Table(
        "shortcut",
        "Shortcut test, random names: accuracy (± standard error)",
        _shortcuts,
        f"Only models that retrieve at least {FOUND:.2f} of the relations on random names; do(A) "
        "changes nothing and is left out. Difference: kappa = 1 minus kappa = 0, paired over the "
        "same samples. A difference well below 0 means that the model retrieves what was stated "
        "instead of reasoning about it.",
        SHARE,
        [DIFFERENCE._replace(name="difference")],
        about="effects",
    ),
    Table(
        "memorisation",
        "Memorisation: accuracy where names meet nature (samples)",
        _memorisation,
        "Accuracy with names that match nature (tuebingen), contradict it (anticommonsense) or "
        "mean nothing (random); t - a, t - r and a - r are the differences. Bivariate tuebingen "
        "and anticommonsense use the same pairs in opposite directions, so their error is paired "
        "over samples; everywhere else samples differ, and errors are added in quadrature. In the "
        "bivariate graph only AB contradicts nature; published numbers are for AB and BA.",
        SHARE,
        _DIFFERENCES,
        about="effect",
    ),
    Table(
        "memorisation, known pairs",
        "Memorisation over the pairs that the model knows (samples)",
        lambda entry: _memorisation(entry, only_known=True),
        "The same over the samples whose pairs the model knows: it answered every question of the "
        "knowledge task rightly, in both directions. Random names have no such questions, so all "
        "their samples count.",
        SHARE._replace(form="counted"),
        _DIFFERENCES,
        about="effect",
    ),
    Table(
        "robustness",
        "Robustness: substitution minus plain, accuracy (± standard error)",
        _robustness,
        "The intervention under a made-up name minus the plain question, paired over the same "
        "effects and samples.",
        DIFFERENCE,
    ),
    Table(
        "notices",
        "Does it notice? Change of the log-odds of yes, after minus before",
        _noticed,
        "In nats, where the intervention changes nothing (kappa = 0, ± standard error) and where "
        "it turns a yes into a no (kappa = 1). Difference: the second minus the first, with its "
        "95 % interval (Student's t, clustered by sample). Below 0, the model notices the "
        "intervention even if its answer stays the same. A bias to yes or no cancels out.",
        MOVED._replace(form="interval", long=True),
        [
            MOVED._replace(name="kappa = 0"),
            MOVED._replace(name="kappa = 1"),
            MOVED._replace(name="difference", form="interval"),
        ],
    ),
    Table(
        "kind of query",
        "Larger graphs by kind of query: accuracy (± standard error)",
        _kinds,
        "By the place of X in do(X). X is V, or lies inside every path from U to V: yes becomes "
        "no. X is elsewhere, or on a path that another path bypasses: yes stays yes. Or there was "
        "no path before. Over all sizes.",
        SHARE,
    ),
    Table(
        "answers",
        "How questions on graphs are answered",
        _answering,
        "yes-bias: the share of prompts answered yes minus the share whose right answer is yes. "
        "not read: written replies with neither yes nor no; they count as wrong.",
        SHARE._replace(metric="not_read"),
        [DIFFERENCE._replace(name="yes-bias", metric="yes_bias")],
    ),
    Table(
        "effect",
        "Interventions by graph and variable: accuracy (± standard error)",
        _by_effect,
        "Means over each sample's queries first; then the mean and its standard error over "
        "samples.",
        SHARE,
        about="effects",
    ),
)


def _published(entry: Entry, kind: str) -> Iterator[Row]:
    """Return the rows of a published model in a table, with differences of printed numbers."""
    differences = {f"{first} - {second}": (first, second) for first, second in SUBTRACTED}
    differences["difference"] = ("kappa = 1", "kappa = 0")
    for group, about, printed in published_interventions.cells(entry, kind):
        cells: dict[str, Cell] = {**printed}
        if kind in ("memorisation", "shortcut"):
            cells |= {
                name: Number(printed[first].value - printed[second].value)
                for name, (first, second) in differences.items()
                if {first, second} <= printed.keys()
            }
        yield _row(entry, group, cells, about, long=kind in ("effect", "shortcut"))


def _over_all(table: Table, entries: Sequence[Entry]) -> Finding:
    def rows(entry: Entry) -> Iterable[Row]:
        return _published(entry, table.kind) if entry.reference else table.rows(entry)

    finding = table._replace(rows=rows).over(entries)
    is_published = any(row.entry and row.entry.reference for row in finding.rows)
    more = published_interventions.NOTES.get(table.kind, "") * is_published
    return finding._replace(note=finding.note + more)


#: What is said of the shortcut test where its table is empty.
_NOBODY = (
    f"No model was tested: the test needs models that retrieve at least {FOUND:.2f} of the "
    "relations on random names."
)


def findings(entries: Sequence[Entry]) -> list[Finding]:
    """Return the tables of the tasks asked, with runs and published models."""
    tables = [_over_all(table, entries) for table in _TABLES]
    left_out = _without_shortcuts(entries)
    return [
        table._replace(note=(table.note if table.rows else _NOBODY) + left_out)
        if table.kind == "shortcut"
        else table
        for table in tables
        if table.rows or (table.kind == "shortcut" and left_out)
    ]


def by_length(entry: Entry, way: str) -> dict[tuple[int, int], Estimate]:
    """Average over larger graphs of all sizes, by length of the path from U to V.

    Returns
    -------
    dict of (int, int) to Estimate
        By the number of edges of the shortest directed path before the intervention, from 1 to
        `LONGEST` (or more), and kappa. Graphs are the clusters.
    """
    parts: dict[tuple[int, int], list[tuple[bool, tuple[int, int]]]] = {}
    for size, task in LARGE.items():
        if (run := known(entry, task, way)) is None:
            continue
        for number, scene, right in zip(
            run.found.numbers, run.found.scene, run.found.right, strict=True
        ):
            pair = run.truth.pairs[number]
            if pair.effect.before:
                length = pair.scene.graph.distance(pair.effect.cause, pair.effect.result)
                place = (min(length, LONGEST), pair.effect.kappa)
                parts.setdefault(place, []).append((bool(right), (size or 0, int(scene))))
    estimates = {}
    for place in sorted(parts):
        rights, clusters = zip(*parts[place], strict=True)
        numbered = {cluster: number for number, cluster in enumerate(dict.fromkeys(clusters))}
        estimates[place] = pooled(rights, [numbered[cluster] for cluster in clusters])
    return estimates
