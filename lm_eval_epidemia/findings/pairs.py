"""Paired comparisons: of models, of versions of a model, of ways and wordings of asking one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, pairwise

import pandas as pd

from lm_eval_epidemia.benchmarks import OBSERVATION, WAYS, groups, in_way
from lm_eval_epidemia.findings.finding import WHO, Column, Finding, if_empty, tabled, who
from lm_eval_epidemia.findings.leaderboard import TOGETHER, ordered_groups, pool_of
from lm_eval_epidemia.findings.mean import grouped, mean
from lm_eval_epidemia.results.choose import closest, own_scores
from lm_eval_epidemia.results.compare import FEWEST, KEY, Comparison, compare, paired
from lm_eval_epidemia.results.ranks import alike
from lm_eval_epidemia.results.read import Results

#: With more runs than this, only neighbours in rank are compared.
MOST_PAIRS_OF = 20

COLUMNS = {
    **WHO,
    "other": Column("less"),
    "group": Column(),
    "tasks": Column(),
    "difference": Column(signed=True, error="error"),
    "low": Column("95 %, from", signed=True),
    "high": Column("to", signed=True),
    "corrected": Column("here, corrected", signed=True, error="corrected_error"),
    "population": Column("here, population", signed=True, error="population_error"),
    "l1_ratio": Column("l1, ratio", digits=2, interval=("l1_ratio_low", "l1_ratio_high")),
    "wins": Column(),
    "ties": Column(),
    "losses": Column(),
    "verdict": Column("the first is"),
}

NOTE = (
    "The first minus the second, over the tasks that both were asked in the same way. The interval "
    "treats tasks on one outcome as one observation (in sets of quantities: each quantity). 'here' "
    "means: better in these tasks, but too unevenly over outcomes to generalise. It requires that "
    "three differences exceed 1.96 joint standard errors: that of the scores, the same corrected "
    "for sampling error, and that of the scores against the population. A task is won if all three "
    "exceed twice their errors in it. 'l1, ratio': the first's distance divided by the second's, "
    f"below 1 if the first is closer to the truth; with fewer than {FEWEST} outcomes it decides. "
    "Not corrected for the number of comparisons."
)


def _finding(
    name: str,
    title: str,
    rows: list[dict[str, object]],
    results: Results,
    says: str,
    note: str = NOTE,
    more: Mapping[str, Column] = {},
) -> Finding:
    columns = {**WHO, **more, **COLUMNS}
    table = tabled(rows, columns, results.runs, Comparison._fields)
    return Finding(name, title, table, columns, note, left_out=if_empty(table, says))


def compared(results: Results) -> pd.DataFrame:
    """Return the scores of groups in which models are compared, and of two of them together."""
    scores = grouped(results.scores)
    known = {group for group in {*scores["group"]} if not groups()[group].predicted}
    scores = scores[scores["group"].isin(known) & scores["value"].notna()]
    parts = [scores]
    for way in OBSERVATION.ways:
        names = [in_way(group, way) for group in TOGETHER]
        of = [scores[scores["group"] == name] for name in names]
        both = {*of[0]["run"]} & {*of[1]["run"]}
        parts += [part[part["run"].isin(both)].assign(group=" + ".join(names)) for part in of]
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def pairs(results: Results, most: int = MOST_PAIRS_OF) -> Finding:
    """Every two runs that were asked in the same way, over their common tasks.

    With more than `most` runs only neighbours in rank are compared.
    """
    scores, pool = compared(results), pool_of(results)
    own = results.runs["kind"][scores["run"]].to_numpy() != "published"
    rows = []
    for group, of in scores[own].groupby("group", sort=False):
        how, parts = alike(of), str(group).split(" + ")
        sign = 1 if groups()[parts[0]].measure.higher_is_better else -1
        means = of.groupby("run", sort=False)["value"].mean() * -sign
        mine = dict([*of.groupby("run", sort=False)])
        for _, runs in how.groupby(how, sort=False):
            best = [*means[runs.index].sort_values(kind="stable").index]
            both = pairwise(best) if len(best) > most else combinations(best, 2)
            for one, other in both:
                if made := compare(mine[one], mine[other], pool):
                    rows.append(
                        {
                            "run": one,
                            "other": results.runs["name"][other],
                            "group": group,
                            **made._asdict(),
                        }
                    )
    order = {group: place for place, group in enumerate(ordered([row["group"] for row in rows]))}
    rows.sort(key=lambda row: order[row["group"]])
    says = "no two models were asked in the same way: run lm_eval on another, such as before"
    return _finding("pairs", "Models compared over the same tasks", rows, results, says)


def ordered(listed: list[str]) -> list[str]:
    """Return groups in their usual order, those that are compared together first."""
    single = ordered_groups([group for group in listed if " + " not in group])
    return [*dict.fromkeys(group for group in listed if " + " in group), *single]


def versions(results: Results) -> Finding:
    """Instruct and retrieving versions against the plain model; once more where that scores 0."""
    scores, pool = compared(results), pool_of(results)
    scores = scores[~scores["group"].str.contains(" + ", regex=False)]
    rows = []
    for group, of in scores.groupby("group", sort=False):
        mine = dict([*of.groupby("run", sort=False)])
        for run, base in _with_base(results, [*mine]):
            at_zero = mine[base][mine[base]["value"] <= 0]
            for name, part in (("", mine[base]), ("the second has 0", at_zero)):
                if made := compare(mine[run], part, pool):
                    rows.append(
                        {
                            "run": run,
                            "other": results.runs["name"][base],
                            "group": group,
                            "where": name,
                            **made._asdict(),
                        }
                    )
    note = (
        f"{NOTE} Tasks on which the plain model scores 0 were selected by that score, which cannot "
        "be lower: chance alone makes the difference there positive."
    )
    title = "Instruct or retrieving version less plain model"
    return _finding("versions", title, rows, results, NO_VERSION, note, {"where": Column()})


#: What there has to be for versions to be compared.
NO_VERSION = (
    "no model and its instruct version were asked the same: run both, and name a pair with --pair "
    "BASE=OTHER where names do not show it"
)


def version_tasks(results: Results) -> Finding:
    """Every task of a base model beside its instruct or retrieving version."""
    scores = compared(results)
    scores = scores[~scores["group"].str.contains(" + ", regex=False)]
    parts = []
    for group, of in scores.groupby("group", sort=False):
        mine = dict([*of.groupby("run", sort=False)])
        for run, base in _with_base(results, [*mine]):
            both = paired(mine[run], mine[base]).rename(columns={"value_other": "base"})
            names = map(in_way, both["task"], both["way"])
            own = both[["run", "value", "base"]].assign(other=results.runs["name"][base])
            parts.append(own.assign(group=group, task=[*names]))
    columns = {
        **WHO,
        "other": Column("base model"),
        "task": Column(),
        "base": Column(),
        "value": Column("version"),
    }
    rows = pd.concat(parts, ignore_index=True) if parts else []
    table = tabled(rows, columns, results.runs, ("group",))
    title, left_out = "Base models and their versions, by task", if_empty(table, NO_VERSION)
    return Finding("version-tasks", title, table, columns, left_out=left_out)


def _with_base(results: Results, asked: list[int]) -> Iterator[tuple[int, int]]:
    """Yield runs and the runs of their bases that are most like them."""
    runs = results.runs
    for run in asked:
        bases = [
            other for other in asked if runs["model"][other] in runs.get("bases", {}).get(run, ())
        ]
        for base in closest(runs, run, bases):
            yield run, base


def ways(results: Results) -> Finding:
    """One model asked the same tasks in two ways, over the tasks asked in both."""
    scores = own_scores(results)
    scores = scores[scores["value"].notna()]
    order = [*WAYS]
    rows = []
    plain = scores["group"].str.removesuffix("")
    plain = pd.Series(
        [_plain(group, way) for group, way in zip(scores["group"], scores["way"], strict=True)],
        scores.index,
    )
    for (run, group), of in scores.groupby(["run", plain], sort=False):
        asked = sorted(
            {way for way in of["way"] if WAYS[way].distribution is not None}, key=order.index
        )
        for other, way in combinations(asked, 2):
            if made := compare(of[of["way"] == way], of[of["way"] == other], on=["task"]):
                rows.append(
                    {
                        "run": run,
                        "other": other,
                        "asked": way,
                        "group": in_way(str(group), way),
                        **made._asdict(),
                    }
                )
    return _finding(
        "ways",
        "One model asked in two ways",
        rows,
        results,
        "no task was asked in two ways: run lm_eval on epidemia_low and epidemia_low_likelihood",
        "Paired by task, as for two models, over the tasks asked in both ways. The ways need "
        "different skills: to give one answer, or to say how many people give it.",
        {"asked": Column()},
    )


def _plain(group: str, way: str) -> str:
    """Return the name of a group in the plain way."""
    return group.removesuffix(WAYS[way].suffix) if WAYS[way].suffix else group


def side_by_side(results: Results) -> Finding:
    """One model's means in all the ways it was asked, over the tasks asked in all of them."""
    scores = own_scores(results)
    scores = scores[scores["value"].notna()]
    plain = [_plain(group, way) for group, way in zip(scores["group"], scores["way"], strict=True)]
    scores = scores.assign(group=plain)
    by = ["run", "group"]
    number = scores.groupby(by)["way"].transform("nunique")
    common = scores.groupby([*by, "task"])["way"].transform("nunique") == number
    table = mean(scores[common & (number > 1)], [*by, "way"])
    none = scores[~scores.set_index(by).index.isin(table.set_index(by).index) & (number > 1)]
    left_out = [
        f"{results.runs['name'][run]}: no task of {group} has a score in all its ways "
        f"({', '.join(dict.fromkeys(of['way']))}): ask the same tasks in each"
        for (run, group), of in none.groupby(by, sort=False)
    ]
    return Finding(
        "side-by-side",
        "One model in all its ways of asking",
        who(table, results.runs),
        {**WHO, "group": Column(), "value": Column(error="error"), "tasks": Column()},
        "Means over the tasks that have a score in every way.",
        across="way",
        left_out=left_out
        or if_empty(table, "no task was asked in two ways: run lm_eval on epidemia_low_stated too"),
    )


def wording(results: Results) -> Finding:
    """One model asked in other wordings against the usual one, paired by task."""
    scores, runs = compared(results), results.runs
    rows = []
    worded = runs.get("wording", pd.Series("", runs.index))
    usual = [*worded.index[worded == ""]]
    same = scores.assign(asked_as=asked_but(scores["asked_as"], "wording"))
    for group, of in same[~same["group"].str.contains(" + ", regex=False)].groupby(
        "group", sort=False
    ):
        mine = dict([*of.groupby("run", sort=False)])
        for run in (run for run in mine if worded[run]):
            plain = [
                other
                for other in usual
                if other in mine and runs["weights"][other] == runs["weights"][run]
            ]
            for other in closest(runs, run, plain):
                if made := compare(mine[run], mine[other], on=KEY):
                    rows.append(
                        {"run": run, "other": runs["name"][other], "group": group, **made._asdict()}
                    )
    return _finding(
        "wording",
        "One model in two wordings",
        rows,
        results,
        'no task was asked in two wordings: run it again with --metadata {"wording": "bare"}',
        "Paired by task, as for two models: the effect of other words. 'bare' leaves out place, "
        "year and universe.",
    )


def asked_but(asked_as: pd.Series[str], setting: str) -> pd.Series[str]:
    """Return how tasks were asked, but for a setting."""
    left_out = asked_as.str.replace(rf"(?:^|; ){setting}=[^;]*", "", regex=True)
    return left_out.str.removeprefix("; ")
