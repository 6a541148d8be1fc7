"""Paired comparisons: of models, of versions of a model, of ways and wordings of asking one."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd

from lm_eval_epidemia.ask.prompts import WORDINGS
from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.benchmarks import WAYS, in_way, list_groups, list_leaves
from lm_eval_epidemia.benchmarks.observation import OBSERVATION
from lm_eval_epidemia.benchmarks.observation.other_scales import is_typed
from lm_eval_epidemia.core.distance import Array, distance
from lm_eval_epidemia.core.errors import few
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import FINDINGS
from lm_eval_epidemia.findings.cells import collect_answers, join_truth
from lm_eval_epidemia.findings.compare import Pool, compare_scores, label_asking, outcomes
from lm_eval_epidemia.findings.finding import Finding, make_finding
from lm_eval_epidemia.findings.leaderboard import TOGETHER, ordered_groups, pool_of
from lm_eval_epidemia.findings.mean import average, group_scores, is_silent
from lm_eval_epidemia.findings.references import find_changed, score_known
from lm_eval_epidemia.results.choose import (
    KEY,
    find_closest,
    group_alike,
    join_scores,
    keep_runs,
    own_scores,
)
from lm_eval_epidemia.results.decode import LeafKey
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.results.samples import TaskAnswers
from lm_eval_epidemia.surveys.catalogue import all_tasks

#: With more runs than this, only neighbours in rank are compared.
MOST_PAIRS_OF = 20

#: The beginning of a row, and the scores that it compares.
Pair = tuple[dict[str, Any], pd.DataFrame, pd.DataFrame]


def _finding(
    name: str,
    both: Iterable[Pair],
    runs: pd.DataFrame,
    pool: Pool | None = None,
    on: Sequence[str] = KEY,
) -> Finding:
    """Compare pairs, a row for each that has tasks in common."""
    rows = [
        {**row, **made._asdict()}
        for row, one, other in both
        if (made := compare_scores(one, other, pool, on))
    ]
    return make_finding(name, rows, runs)


def find_unfit(results: Results) -> dict[tuple[int, str], str]:
    """Say of runs, by group, why their scores show no knowledge; of others nothing."""
    scores = group_scores(results.scores)
    wrong = scores.loc[find_changed(scores), ["run", "group"]].itertuples(index=False, name=None)
    why = dict.fromkeys(wrong, "has scores that do not match their distances (‡)")
    means = average(scores, ["run", "group"])
    for row in means[is_silent(means)].itertuples(index=False):
        low = pd.Series({"choice_mass": row.choice_mass, "answered": row.answered})
        why[row.run, row.group] = f"does not answer ({low.idxmin()} {low.min():.2g}, below 0.1)"
    return why


def comparable_scores(results: Results, also_unfit: bool = False) -> pd.DataFrame:
    """Return the scores of groups in which models are compared, and of two of them together."""
    scores = group_scores(results.scores)
    known = {group for group in {*scores["group"]} if not list_groups()[group].predicts}
    scores = scores[scores["group"].isin(known) & scores["value"].notna()]
    if not also_unfit:
        own = pd.MultiIndex.from_frame(scores[["run", "group"]])
        scores = scores[~own.isin([*find_unfit(results)])]
    parts = [scores]
    for way in OBSERVATION.ways:
        names = [in_way(group, way) for group in TOGETHER]
        of = scores[scores["group"].isin(names)]
        both = of[of.groupby("run")["group"].transform("nunique") == len(names)]
        parts.append(both.assign(group=" + ".join(names)))
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def sort_compared(listed: Sequence[str]) -> list[str]:
    """Return groups in their usual order, those that are compared together first."""
    single = ordered_groups([group for group in listed if " + " not in group])
    return [*dict.fromkeys(group for group in listed if " + " in group), *single]


def pairs(results: Results) -> Finding:
    """Every two runs that were asked in the same way, over their common tasks."""
    both: list[Pair] = []
    scores = comparable_scores(results)
    scores = scores[scores["run"].map(results.runs["kind"]) != "published"]
    for group in sort_compared([*scores["group"]]):
        of = scores[scores["group"] == group]
        better = 1 if list_groups()[group.split(" + ")[0]].lead.higher_is_better else -1
        means = of.groupby("run", sort=False)["value"].mean() * -better
        mine, how = dict([*of.groupby("run", sort=False)]), label_asking(of)
        for _, runs in how.groupby(how, sort=False):
            best = means[runs.index].sort_values(kind="stable").index
            for one, other in (
                pairwise(best) if len(best) > MOST_PAIRS_OF else combinations(best, 2)
            ):
                row = {"run": one, "other": results.runs["name"][other], "group": group}
                both.append((row, mine[one], mine[other]))
    return _finding("pairs", both, results.runs, pool_of(results))


def versions(results: Results) -> Finding:
    """Instruct and retrieving versions against the plain model; once more where that scores 0."""
    both = (
        ({**row, "where": where}, one, of)
        for row, one, base in _with_base(results)
        for where, of in (("", base), ("the second has 0", base[base["value"] <= 0]))
    )
    return _finding("versions", both, results.runs, pool_of(results))


def version_tasks(results: Results) -> Finding:
    """Every task of a base model beside its instruct or retrieving version."""
    rows = [
        {**row, "task": in_way(of.task, of.way), "base": of.value_other, "value": of.value}
        for row, one, base in _with_base(results)
        for of in join_scores(one, base).itertuples()
    ]
    return make_finding("version-tasks", rows, results.runs)


def _with_base(results: Results) -> Iterator[Pair]:
    """Yield, in every group, each run with those of its bases that are most like it."""
    runs, bases = results.runs, results.runs.get("bases", pd.Series(dtype=object))
    for group, of in comparable_scores(results).groupby("group", sort=False):
        mine = dict([*of.groupby("run", sort=False)]) if " + " not in str(group) else {}
        for run in mine:
            beside = [x for x in mine if runs["model"][x] in bases.get(run, ())]
            for other in find_closest(runs, run, beside):
                row = {"run": run, "other": runs["name"][other], "group": group}
                yield row, mine[run], mine[other]


def ways(results: Results) -> Finding:
    """One model asked the same tasks in two ways, over the tasks asked in both."""
    scores, runs = _in_all_ways(results)
    both: dict[tuple[str, ...], Pair] = {}
    for (run, group), of in scores.groupby(["run", "group"], sort=False):
        asked = dict([*of.groupby("way")])
        named = [way for way in OBSERVATION.ways if way in asked]
        for other, way in combinations(named, 2):
            row = {"run": run, "other": other, "asked": way, "group": in_way(group, way)}
            asked_in = [asked[each]["of"].iloc[0] for each in (way, other)]
            both.setdefault((group, way, other, *asked_in), (row, asked[way], asked[other]))
    return _finding("ways", both.values(), runs, on=["task"])


def side_by_side(results: Results) -> Finding:
    """One model's means in all the ways it was asked, over the tasks asked in all of them."""
    scores, runs = _in_all_ways(results)
    by = ["run", "group"]
    number = scores.groupby(by)["way"].transform("nunique")
    common = scores.groupby([*by, "task"])["way"].transform("nunique") == number
    table = average(scores[common & (number > 1)], [*by, "way"])
    none = scores[~scores.set_index(by).index.isin(table.set_index(by).index) & (number > 1)]
    left_out = [
        f"{runs['name'][run]}: no task of {group} has a score in all its ways "
        f"({', '.join(dict.fromkeys(of['way']))}): ask the same tasks in each"
        for (run, group), of in none.groupby(by, sort=False)
    ]
    return make_finding("side-by-side", table, runs, instead=left_out)


def _in_all_ways(results: Results) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the scores of each run, also in ways in which only another like it was asked.

    Runs of a model are alike if they differ at most in settings that one of the two ways does not
    heed, such as orderings for likelihoods; of several the most alike is taken. Groups have their
    plain names, and ``of`` is the run in which a score was asked. The runs' settings are those of
    all that were joined.
    """
    scores, runs = own_scores(results), results.runs.copy()
    scores = scores[scores["value"].notna()]
    named = zip(scores["group"], scores["way"], strict=True)
    plain = [group.removesuffix(WAYS[way].suffix) for group, way in named]
    scores = scores.assign(group=plain, of=scores["run"])
    apart = [*Variant._fields, "torch_seed", "max_gen_toks"]
    like = {run: each for each in group_alike(runs, apart) for run in each}
    parts, known = [scores[:0]], set()
    for _, of in scores.groupby("group", sort=False):
        by_way = [dict([*each.groupby("run")]) for _, each in of.groupby("way", sort=False)]
        for run in of["run"].unique():
            chosen: list[pd.DataFrame] = []
            # First its own ways, with which those of others have to agree.
            for by_run in sorted(by_way, key=lambda by_run: run not in by_run):
                fit = [x for x in like[run] if x in by_run]
                fit = [x for x in fit if all(_agree(by_run[x], other) for other in chosen)]
                best = [run] if run in by_run else find_closest(runs, run, fit)[-1:]
                chosen += [by_run[x] for x in best]
            made = frozenset(each.index[0] for each in chosen)
            parts += [each.assign(run=run) for each in chosen if made not in known]
            known.add(made)
    # In the order of the results.
    joined = pd.concat(parts).sort_index(kind="stable").reset_index(drop=True)
    for run, of in joined.groupby("run")["of"]:
        words = ", ".join(results.runs["settings"][[run, *of.unique()]]).split(", ")
        runs.loc[run, "settings"] = ", ".join(filter(None, dict.fromkeys(words)))
    return joined, runs


def _agree(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Whether the variants that two ways were asked in are equal in all that both ways heed."""
    return _heeded(one, other) == _heeded(other, one)


def _heeded(scores: pd.DataFrame, by: pd.DataFrame) -> set[str]:
    leaf = list_leaves()[in_way(by["task"].iloc[0], by["way"].iloc[0])]
    told = "; ".join({*scores["asked_as"]}).split("; ")
    keys = [key for key in Variant._fields if leaf.heeds(key)]
    return {part for part in told if part.partition("=")[0] in keys}


def drop_setting(asked_as: pd.Series[str], setting: str) -> pd.Series[str]:
    """Return how tasks were asked, but for a setting."""
    left_out = asked_as.str.replace(rf"(?:^|; ){setting}=[^;]*", "", regex=True)
    return left_out.str.removeprefix("; ")


#: By setting, its values in order: runs that differ in it are compared, and first what is usual.
SETTINGS = {
    "wording": {"": "usual", **{name: name for name in WORDINGS if name}},
    "typed": {"": "choice", "yes-no": "yes-no", "score": "score"},
}

#: In these settings runs may differ, too: they are those of single tasks, and compared with them.
APART = ("task_version", "truth")

#: Permutations of a test, and their seed.
PERMUTATIONS, SEED = 9_999, 34

#: A test that cannot give a p-value as small says nothing.
LEAST_P = 0.05


def vary(name: str, setting: str) -> Callable[[Results], Finding]:
    """Return the finding of one model in several values of a setting."""

    def finding(results: Results) -> Finding:
        runs = results.runs
        known = score_known(results.scores, runs)["score"]
        scores = comparable_scores(results._replace(scores=results.scores.assign(known=known)))
        value = runs.get(setting, pd.Series("", runs.index)).replace(SETTINGS[setting])
        scores = scores[~scores["group"].str.contains(" + ", regex=False)].assign(
            asked=scores["run"].map(value), asked_as=drop_setting(scores["asked_as"], setting)
        )
        rows: list[dict[Any, Any]] = []
        for alike in group_alike(runs, (setting, *APART)):
            of_model = scores[scores["run"].isin(alike)]
            # Of several runs in one value, the one asked most.
            most = of_model.groupby(["asked", "run"])["task"].size().groupby("asked").idxmax()
            if len(most) < 2:
                continue
            kept = of_model[of_model["run"].isin({run for _, run in most})]
            made, _ = collect_answers(keep_runs(results, kept["run"]))
            for group in sort_compared([*kept["group"]]):
                of_group = kept[kept["group"] == group]
                # Another type of questions fits other tasks: each is held against the usual one.
                usual, *others = SETTINGS[setting].values()
                sets = [(usual, x) for x in others] if setting == "typed" else [(usual, *others)]
                for values in sets:
                    of_values = of_group[of_group["asked"].isin(values)]
                    rows += _compare_values(of_values, setting, made)
        rows = [{setting: row.pop("asked"), **row} for row in rows]
        differ = setting == "typed" and value.nunique() > 1
        asked = {*scores["task"]} & {*all_tasks()} if differ else set()
        unknown = sorted(asked - {*store.list_available()})
        says = f"{few(unknown)}: left out, no ground truth here: epidemia groundtruth build"
        return make_finding(name, rows, runs, [says] if unknown else [])

    finding.__doc__ = f"{FINDINGS[name]['title']}: whether scores differ more than by chance."
    return finding


wordings, typed = vary("wordings", "wording"), vary("typed", "typed")


def _changes(setting: str, value: str, task: str) -> bool:
    """Whether a value of a setting changes how a task is asked: not every task has each type."""
    if setting != "typed":
        return True
    return task in store.list_available() and is_typed(value, task, store.load_truth(task).levels)


def _compare_values(
    of: pd.DataFrame, setting: str, made: Mapping[tuple[int, LeafKey], TaskAnswers]
) -> list[dict[Any, Any]]:
    """Return the rows of a model and group: every value over the common tasks, and all."""
    wide = of.pivot(index=KEY, columns="asked", values="value").dropna()
    wide = wide[[value for value in SETTINGS[setting].values() if value in wide]]
    changed = [any(_changes(setting, x, task) for x in wide) for task, *_ in wide.index]
    wide = wide[changed]
    if wide.shape[1] < 2 or wide.empty:
        return []
    common = of.set_index(KEY).loc[wide.index].reset_index()
    means = average(common, ["run", "group", "asked"]).set_index("asked").loc[wide.columns]
    rows = means.reset_index().rename(columns={"value": "score"}).to_dict("records")
    tasks = [LeafKey(task, way) for task, way, _ in wide.index]
    for row in rows[1:]:
        pair = (wide.columns[0], row["asked"])
        of_row = [task for task in tasks if any(_changes(setting, x, task.task) for x in pair)]
        row["apart"] = _distance_between(made, rows[0]["run"], row["run"], of_row)
    # What is known of the first run's tasks, as they were asked there.
    known = common[common["run"] == rows[0]["run"]].set_index(KEY)["known"].loc[wide.index]
    beats = wide.gt(known, axis="index")[known.notna()]
    flips = beats.any(axis="columns") & ~beats.all(axis="columns")
    clusters = outcomes(wide.index.to_frame(index=False))
    # Permuting all outcomes alike changes nothing.
    different = math.factorial(wide.shape[1]) ** (len({*clusters}) - 1)
    enough = different * LEAST_P >= 1
    together = {
        "run": rows[0]["run"],
        "group": rows[0]["group"],
        "asked": "all",
        "tasks": len(wide),
        "between": float(np.std(means["value"], ddof=1)),
        "flips": 100 * float(flips.mean()),
        "flips_tasks": len(beats),
        "p": permutation_p(wide.to_numpy().T, clusters) if enough else math.nan,
    }
    return [*rows, together]


def _distance_between(
    made: Mapping[tuple[int, LeafKey], TaskAnswers], one: int, other: int, tasks: Sequence[LeafKey]
) -> float:
    """Return the mean total variation between two runs' answers to tasks; NaN if none are known."""
    apart = []
    for task in tasks:
        first, second = made.get((one, task)), made.get((other, task))
        # Drawn answers are apart by chance, too.
        if first and second and first.cells == second.cells and first.counts is None:
            part, _ = join_truth(task, first)
            apart.append(float(distance(part.weights, first.q, second.q)) / 2)
    return math.fsum(apart) / len(apart) if apart else math.nan


def permutation_p(scores: Array, clusters: Iterable[Hashable]) -> float:
    """Test whether the means of wordings differ, by permutation.

    If they do not, the scores of a task are exchangeable between wordings. Tasks of one cluster
    share errors, and are permuted together. The statistic is the variance of the means.

    Parameters
    ----------
    scores : ndarray, shape (W, T)
    clusters : iterable of hashable, length T

    Returns
    -------
    float
        p-value, at least 1 / (`PERMUTATIONS` + 1).
    """
    at = pd.factorize(pd.Series([*clusters], dtype=object))[0]
    number = int(at.max()) + 1
    sums = np.stack([np.bincount(at, row, number) for row in scores])
    observed = sums.sum(axis=1).var()
    rng = np.random.default_rng(SEED)
    order = rng.random((PERMUTATIONS, len(scores), number)).argsort(axis=1)
    drawn = np.take_along_axis(sums[None], order, axis=1).sum(axis=2).var(axis=1)
    # Sums in another order differ in their last digits.
    as_large = int((drawn >= observed - 1e-9 * max(observed, 1.0)).sum())
    return (1 + as_large) / (1 + PERMUTATIONS)
