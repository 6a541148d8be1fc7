"""What the report says of tasks about causal graphs, from what models said to their prompts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from lm_eval_epidemia.benchmarks.intervention.questions import TASKS, Pair, Questions, questions
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.findings.section import Section
from lm_eval_epidemia.findings.tables import Finding, Table, laid_out
from lm_eval_epidemia.results.entry import Asked, Entry
from lm_eval_epidemia.score.estimates import Estimate, apart, average, paired, pooled

#: The tasks about the graphs of the paper by where names come from, the others by their size.
SMALL = {one.names: name for name, one in TASKS.items() if one.nodes is None}
LARGE = {one.nodes: name for name, one in TASKS.items() if one.nodes is not None}

#: Ways that ask before and after an intervention.
EFFECTS = tuple(way for way in INTERVENTION.ways if WAYS[way].load is questions)

#: Who finds fewer of the relations that a graph states is no case for the shortcut test.
FOUND = 0.95

#: Paths of so many edges or more are counted together: few graphs have them.
LONGEST = 6

#: The metric of what an intervention moves.
ODDS = "log_odds_of_yes"

#: Where nature and the graph are at odds: graph, intervened variable, U and V.
CONTRASTS = (("bivariate", "B", "AB"), ("mediation", "B", "AC"), ("mediation", "C", "AC"))


#: Names in nature's direction and against it, from the same list.
TURNED = ("tuebingen", "anticommonsense")

#: What heads a column that would be wide.
SHORT = {
    "tuebingen - anticommonsense": "t - a",
    "tuebingen - random": "t - r",
    "anticommonsense - random": "a - r",
}


class Known(NamedTuple):
    """What a model said in a task, against the truth.

    Attributes
    ----------
    truth : Questions
    odds : ndarray, shape (prompts,)
    found : Graded
    """

    truth: Questions
    odds: Array
    found: Graded


def known(entry: Entry, task: str | None, way: str) -> Known | None:
    """Return what an entry said in a task; None where it was not asked, or that is not known."""
    score = entry.scores.get(Asked(task or "", way))
    if score is None or score.said is None:
        return None
    truth = WAYS[way].load(task or "")
    return Known(truth, score.said.odds, graded(truth, *score.said))


def labels(one: Known, of: Callable[[Pair], str]) -> NDArray[np.str_]:
    """Say of each effect which part of a table it belongs to."""
    return np.array([of(one.truth.pairs[number]) for number in one.found.numbers], dtype=str)


def _over(one: Known, chosen: Any, of: Any = None) -> Estimate:
    """Average over chosen effects, whether both answers are right if nothing else is given."""
    of = one.found.right if of is None else of
    return mean(one.truth, picked(one.found, chosen), of[chosen])


def _asked(entry: Entry, ways: Iterable[str]) -> Iterator[tuple[str, str, dict[str, Known]]]:
    """Return by group and way what an entry said, by names or, of larger graphs, by size."""
    for way in ways:
        for group, tasks in zip(
            INTERVENTION.groups, (SMALL, {str(n): task for n, task in LARGE.items()}), strict=True
        ):
            found = {key: one for key, task in tasks.items() if (one := known(entry, task, way))}
            if found:
                yield in_way(group, way), way, found


def _everything(one: Known) -> NDArray[np.bool_]:
    return np.ones(len(one.found.numbers), dtype=bool)


def _overall(entry: Entry) -> Iterator[Finding]:
    for group, _, by_names in _asked(entry, EFFECTS):
        several = list(by_names.values())
        parts = {
            "accuracy": [_over(one, _everything(one)) for one in several],
            "kappa = 0": [_over(one, one.found.kappa == 0) for one in several],
            "kappa = 1": [_over(one, one.found.kappa == 1) for one in several],
            "before": [_over(one, _everything(one), one.found.base) for one in several],
            "after": [_over(one, _everything(one), one.found.post) for one in several],
        }
        for part, means in parts.items():
            yield Finding("interventions", entry, group, "", part, average(means))


def _on(pair: Pair) -> str:
    return f"{pair.scene.shape}, do({pair.effect.intervened})"


def _by_effect(entry: Entry) -> Iterator[Finding]:
    for group, _, by_names in _asked(entry, EFFECTS):
        for names, one in by_names.items():
            if names in SMALL:
                where = labels(one, _on)
                for about in dict.fromkeys(where):
                    estimate = _over(one, where == about)
                    yield Finding("effect", entry, group, about, names, estimate, long=True)


def _kinds(entry: Entry) -> Iterator[Finding]:
    for group, _, by_size in _asked(entry, EFFECTS):
        where = [(one, labels(one, lambda pair: pair.kind)) for one in by_size.values()]
        for kind in (
            generate.TARGET,
            generate.INSIDE,
            generate.YES,
            generate.BYPASSED,
            generate.NO,
        ):
            means = [_over(one, kinds == kind) for one, kinds in where if kind in kinds]
            if means:
                yield Finding("kind of query", entry, group, "", kind, average(means))


def _retrieval(entry: Entry) -> Iterator[Finding]:
    for group, _, by_names in _asked(entry, ("retrieval", "retrieval_written")):
        prompts = [
            (one, [one.truth.prompts[number] for number in one.found.numbers])
            for one in by_names.values()
        ]
        if "random" in by_names:
            alone = by_names["random"]
            estimate = _over(alone, _everything(alone))
            yield Finding("retrieval", entry, group, "", "random names", estimate)
        where = {f"answer {said}": said == "yes" for said in ("yes", "no")}
        for part, right in where.items():
            means = [_over(one, np.array([p.right == right for p in ps])) for one, ps in prompts]
            yield Finding("retrieval", entry, group, "", part, average(means))
        for shape in dict.fromkeys(p.scene.shape for _, ps in prompts for p in ps):
            means = [
                _over(one, np.array([p.scene.shape == shape for p in ps])) for one, ps in prompts
            ]
            yield Finding("retrieval", entry, group, "", shape, average(means))


def _beside(way: str, other: str) -> str:
    """Return another way, written where this one is."""
    return other + ("_written" if WAYS[way].generated else "")


def _retrieved(entry: Entry, way: str) -> float:
    """Return the share of relations on random names that an entry finds; NaN if not asked."""
    one = known(entry, SMALL["random"], _beside(way, "retrieval"))
    return math.nan if one is None else float(one.found.right.mean())


def _shortcuts(entry: Entry) -> Iterator[Finding]:
    for group, way, by_names in _asked(entry, EFFECTS):
        one = by_names.get("random")
        if one is None or not _retrieved(entry, way) >= FOUND:
            continue
        where, kappa = labels(one, _on), one.found.kappa
        # do(A) changes nothing in any of the graphs.
        abouts = [about for about in dict.fromkeys(where) if not about.endswith("do(A)")]
        for about in (*abouts, "all"):
            chosen = np.isin(where, abouts if about == "all" else [about])
            same, changed = (_over(one, chosen & (kappa == k)) for k in (0, 1))
            for part, estimate, form in (
                ("kappa = 0", same, "share"),
                ("kappa = 1", changed, "share"),
                ("difference", paired(changed, same), "difference"),
            ):
                yield Finding(
                    "shortcut", entry, group, about, part, estimate, form, long=about != "all"
                )


def _without_shortcuts(runs: Sequence[Entry]) -> str:
    """Say who was left out of the shortcut test, and why."""
    said = []
    for entry in runs:
        for group, way, by_names in _asked(entry, EFFECTS):
            share = _retrieved(entry, way)
            if "random" in by_names and not share >= FOUND:
                why = (
                    f"was not asked {in_way(SMALL['random'], _beside(way, 'retrieval'))}"
                    if math.isnan(share)
                    else f"finds {share:.3f} of the relations"
                )
                said.append(f"{entry.name} in {group} ({why})")
    return f" Left out: {'; '.join(said)}." if said else ""


def _sides(
    entry: Entry,
    way: str,
    by_names: dict[str, Known],
    about: tuple[str, str, str],
    only_known: bool,
) -> dict[str, Estimate]:
    """Return the accuracy on one of `CONTRASTS` by names, over all samples or the known ones."""
    graph, intervened, query = about
    scenes: dict[str, NDArray[np.int64]] = {}
    for names, one in by_names.items():
        scenes[names] = np.arange(len(one.truth.scenes))
        if only_known and names != "random":
            facts = known(entry, SMALL[names], _beside(way, "knowledge"))
            scenes[names] = known_scenes(facts.found) if facts else scenes[names][:0]
    if graph == "bivariate" and scenes.keys() >= {*TURNED}:
        # The same pairs turned round, under the same numbers: those that both have are paired.
        first, second = (
            np.intersect1d(scenes[names], by_names[names].found.scene) for names in TURNED
        )
        scenes |= dict.fromkeys(TURNED, np.intersect1d(first, second))
    found = {}
    for names, one in by_names.items():
        where = labels(one, lambda p: f"{_on(p)} {p.effect.cause}{p.effect.result}")
        chosen = (where == f"{graph}, do({intervened}) {query}") & np.isin(
            one.found.scene, scenes[names]
        )
        found[names] = _over(one, chosen)
    return found


def _memorisation(entry: Entry, only_known: bool) -> Iterator[Finding]:
    kind = "memorisation, known pairs" if only_known else "memorisation"
    for group, way, by_names in _asked(entry, EFFECTS):
        if by_names.keys().isdisjoint(TURNED):
            continue
        if only_known and not any(
            known(entry, SMALL[names], _beside(way, "knowledge")) for names in SMALL
        ):
            continue
        for about in CONTRASTS:
            sides = _sides(entry, way, by_names, about, only_known)
            row = f"{about[0]}, do({about[1]}), {about[2]}"
            more = only_known or way.startswith("substitution")
            for names, one in sides.items():
                form = "counted" if only_known else "share"
                yield Finding(kind, entry, group, row, names, one, form, more)
            for first, second in (TURNED, ("tuebingen", "random"), ("anticommonsense", "random")):
                if first in sides and second in sides:
                    alike = about[0] == "bivariate" and second == "anticommonsense"
                    difference = (paired if alike else apart)(sides[first], sides[second])
                    part = f"{first} - {second}"
                    yield Finding(kind, entry, group, row, part, difference, "difference", more)


def _robustness(entry: Entry) -> Iterator[Finding]:
    for group, way, by_names in _asked(entry, ("substitution", "substitution_written")):
        differences = {}
        for names, one in by_names.items():
            if plain := known(entry, SMALL[names], _beside(way, "intervention")):
                first, second = shared(one.found, plain.found)
                differences[names] = paired(
                    mean(one.truth, first, first.right), mean(one.truth, second, second.right)
                )
        if differences:
            differences["all"] = average(list(differences.values()))
        for names, one_ in differences.items():
            yield Finding("robustness", entry, group, "", names, one_, "difference")


def _noticed(entry: Entry) -> Iterator[Finding]:
    for group, _, by_names in _asked(entry, [way for way in EFFECTS if not WAYS[way].generated]):
        moved = {names: noticed(*_as_noticed(one)) for names, one in by_names.items()}
        together = [average(means) for means in zip(*moved.values(), strict=True)]
        for part, one in zip(("kappa = 0", "kappa = 1", "difference"), together, strict=True):
            form = "interval" if part == "difference" else "difference"
            yield Finding("notices", entry, group, "", part, one, form, metric=ODDS)
        for names, (_, _, difference) in moved.items():
            if names in SMALL:
                part = f"difference, {names}"
                yield Finding(
                    "notices",
                    entry,
                    group,
                    "",
                    part,
                    difference,
                    "interval",
                    long=True,
                    metric=ODDS,
                )


def _as_noticed(one: Known) -> tuple[Questions, Graded, Array]:
    return one.truth, one.found, one.odds


def _answering(entry: Entry) -> Iterator[Finding]:
    for group, way, by_names in _asked(entry, INTERVENTION.ways):
        tasks = [entry.scores[Asked(one.truth.task, way)] for one in by_names.values()]
        bias = [one.metrics.get("yes_bias", math.nan) for one in tasks]
        unread = [
            float(np.isnan(one.said.odds[one.said.asked]).mean()) for one in tasks if one.said
        ]
        yield Finding(
            "answers",
            entry,
            group,
            "",
            "yes-bias",
            _plain_mean(bias),
            "difference",
            metric="yes_bias",
        )
        if WAYS[way].generated:
            yield Finding(
                "answers", entry, group, "", "not read", _plain_mean(unread), metric="not_read"
            )


def _plain_mean(values: Sequence[float]) -> Estimate:
    return Estimate(math.fsum(values) / len(values), math.nan, len(values), 0)


_TABLES = (
    Table(
        "interventions",
        "Interventions: accuracy (± standard error over samples)",
        _overall,
        "An effect is right when the answers before and after the intervention are. kappa = 0: it "
        "changes nothing; kappa = 1: it makes a no of a yes. before, after: each answer by itself. "
        "Whoever ignores the intervention has everything but kappa = 1.",
    ),
    Table(
        "retrieval",
        "Relation retrieval: accuracy on stated graphs (± standard error)",
        _retrieval,
        "Does U cause V in the graph as it is stated, for every ordered pair? Over names but for "
        "the first column, which the shortcut test asks for; by what the right answer is, and by "
        "graph.",
    ),
    Table(
        "shortcut",
        "Shortcut test, random names: accuracy (± standard error)",
        _shortcuts,
        f"Only who retrieves at least {FOUND:.2f} of the relations on random names; do(A) changes "
        "nothing and is left out. Difference: kappa = 1 less kappa = 0, paired over the same "
        "samples. Well below 0: what looks like reasoning is retrieval of what was stated.",
        about="effects",
    ),
    Table(
        "memorisation",
        "Memorisation: accuracy where names meet nature (samples)",
        lambda entry: _memorisation(entry, False),
        "Names of pairs as in nature (tuebingen) less names that contradict them (anticommonsense) "
        "or mean nothing (random): t - a, t - r, a - r are the differences. Bivariate tuebingen "
        "and anticommonsense are the same pairs turned round, so their error is paired over "
        "samples; everywhere else the samples are others, and errors are added in quadrature.",
        about="effect",
    ),
    Table(
        "memorisation, known pairs",
        "Memorisation over the pairs that the model knows (samples)",
        lambda entry: _memorisation(entry, True),
        "The same over the samples of which every question of the knowledge task was answered "
        "rightly: the cause among its listed pairs, in both directions. Random names have none: "
        "all their samples count.",
        about="effect",
    ),
    Table(
        "robustness",
        "Robustness: substitution minus plain, accuracy (± standard error)",
        _robustness,
        "The intervention under a made-up name, less the plain question; paired over the same "
        "effects and samples.",
    ),
    Table(
        "notices",
        "Does it notice? Change of the log-odds of yes, after minus before",
        _noticed,
        "In nats, where the intervention changes nothing (kappa = 0, ± standard error) and where "
        "it makes a no of a yes (kappa = 1). Difference: the second less the first, with its "
        "interval of 95 % (Student's t, clustered by sample). Below 0: the intervention is "
        "noticed, even if the answer does not turn. A bias to yes or no takes no part in it.",
    ),
    Table(
        "kind of query",
        "Larger graphs by kind of query: accuracy (± standard error)",
        _kinds,
        "Where X of do(X) is: V itself, or inside every path from U to V, so that yes becomes no; "
        "elsewhere, or on a path that another one bypasses, so that it stays yes; or there was no "
        "path before. Over all sizes.",
    ),
    Table(
        "answers",
        "How questions on graphs are answered",
        _answering,
        "yes-bias: the share of prompts answered yes less the share whose right answer that is. "
        "not read: written replies in which neither yes nor no was found; they count as wrong.",
    ),
    Table(
        "effect",
        "Interventions by graph and variable: accuracy (± standard error)",
        _by_effect,
        "For each sample the mean over queries, then the mean and its standard error over samples.",
        about="effects",
    ),
)


def findings(runs: Sequence[Entry]) -> list[Finding]:
    """Return every number of every table."""
    return [one for table in _TABLES for entry in runs for one in table.find(entry)]


def tables(runs: Sequence[Entry], long: bool) -> list[Section]:
    """Return the tables of what was asked, with what is `Finding.long` where that is wished for."""
    made = []
    for table in _TABLES:
        found = [one for entry in runs for one in table.find(entry) if long or not one.long]
        note = table.note + (_without_shortcuts(runs) if table.kind == "shortcut" else "")
        if found or (table.kind == "shortcut" and note != table.note):
            made.append(laid_out(table, found, note, INTERVENTION.groups[0], SHORT))
    return made


def by_length(entry: Entry, way: str) -> dict[tuple[int, int], Estimate]:
    """Average over larger graphs of all sizes by how long the path from U to V is.

    Returns
    -------
    dict of (int, int) to Estimate
        By the number of edges of the shortest directed path before the intervention, from 1 to
        `LONGEST` (or more), and kappa. Graphs are the clusters.
    """
    parts: dict[tuple[int, int], list[tuple[bool, tuple[int, int]]]] = {}
    for size, task in LARGE.items():
        if (one := known(entry, task, way)) is None:
            continue
        for number, scene, right in zip(
            one.found.numbers, one.found.scene, one.found.right, strict=True
        ):
            pair = one.truth.pairs[number]
            if pair.effect.before:
                length = pair.scene.graph.distance(pair.effect.cause, pair.effect.result)
                place = (min(length, LONGEST), pair.effect.kappa)
                parts.setdefault(place, []).append((bool(right), (size or 0, int(scene))))
    found = {}
    for place in sorted(parts):
        rights, clusters = zip(*parts[place], strict=True)
        numbered = {cluster: number for number, cluster in enumerate(dict.fromkeys(clusters))}
        found[place] = pooled(rights, [numbered[cluster] for cluster in clusters])
    return found
