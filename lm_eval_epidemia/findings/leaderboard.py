"""Who knows the world best: means of groups and of any part of them, ranked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from lm_eval_epidemia.benchmarks import OBSERVATION, groups, in_way, leaves, unions, within
from lm_eval_epidemia.core.errors import few, plural
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.finding import WHO, Column, Finding, if_empty, who
from lm_eval_epidemia.findings.mean import (
    grouped,
    is_silent,
    mean,
    population_mean,
    with_columns,
    with_facets,
)
from lm_eval_epidemia.findings.references import (
    AVERAGES,
    KNOWS_POPULATION,
    UNIFORM,
    changed,
    known_scores,
    population_known_over,
)
from lm_eval_epidemia.results.compare import CONFIDENCE, POPULATION
from lm_eval_epidemia.results.naming import respondent
from lm_eval_epidemia.results.pool import Pool, noise_of
from lm_eval_epidemia.results.ranks import Standing, alike, standings
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.score.joint import own_errors
from lm_eval_epidemia.score.score import Anchors, scale

#: The groups that sentences are about.
TOGETHER = ("epidemia_low", "epidemia_high")

#: How far a reference may be from that of other prompts before it counts as another.
ROUNDING = 0.05


def leaderboard(results: Results) -> Finding:
    """Every run's mean score in every group, with its rank; the best first."""
    table = without_run(leaderboard_table(results), results.runs)
    columns = {
        **WHO,
        "value": Column(error="error"),
        "part": Column("tasks"),
        "versus": Column("vs"),
        "rank": Column(),
        "choice_mass": Column("choice mass", digits=2),
    }
    return Finding(
        "leaderboard",
        "Score, 0 to 100 (± standard error)",
        who(table, results.runs),
        columns,
        RANKS,
        across="group",
        left_out=_barely(results.scores),
    )


def leaderboard_table(results: Results) -> pd.DataFrame:
    """Return the rows of the leaderboard, by run and group; those of respondents have run -1."""
    means = _means(results, with_references(results))
    beside = _respondents(results, means)
    known = beside[beside["model"] == respondent(AVERAGES)].set_index("group")["value"]
    apart = (means["averages"] - means["group"].map(known).astype(float)).abs() > ROUNDING
    means["versus"] = means["averages"].where(apart)
    table = pd.concat([means, beside], ignore_index=True)
    table["parameters"] = table["run"].map(results.runs["parameters"])
    return in_order(table, results.runs) if len(table) else table


RANKS = (
    f"A rank is a range ('2 of 5': second of five): paired comparisons at {CONFIDENCE:.0%} cannot "
    "narrow it further. Ranked together: models asked in the same way and with the same --limit, "
    "over the tasks that all of them share; a model is ranked if it shares at least half of the "
    "tasks of the model asked most. tasks: where a mean is over another number of tasks than most "
    "were asked; do not compare it with the others. vs: the score for knowing averages only, where "
    "it is not that of the last rows."
)


def with_references(results: Results) -> pd.DataFrame:
    """Return the scores of groups, with those of the respondents that are held against them."""
    scores = results.scores
    known = {kind: known_scores(scores, results.runs, kind) for kind in (AVERAGES, UNIFORM)}
    scores = scores.assign(
        averages=known[AVERAGES]["score"],
        averages_l1=known[AVERAGES]["l1"],
        guesses=known[UNIFORM]["score"],
        changed=changed(scores),
    )
    return grouped(with_columns(scores, ("choice_mass", "answered", "l1")))


def _means(results: Results, scores: pd.DataFrame) -> pd.DataFrame:
    """Return the mean of each run in each group, with ranks and what it is held against."""
    known = scores[scores["value"].notna()]
    by = ["run", "group"]
    means = mean(known, by)
    beside = known.groupby(by, sort=False)[["averages", "guesses"]].agg(
        lambda of: of.sum(skipna=False) / len(of)
    )
    beside["seen"] = known.groupby(by, sort=False)["seen"].sum()
    beside["changed"] = known.groupby(by, sort=False)["changed"].any()
    beside["trained"] = _trained(results, known).groupby([known["run"], known["group"]]).any()
    means = means.merge(beside.reset_index(), on=by)
    means["silent"] = is_silent(means)
    placed = ranks(results, known, means)
    for name in ("best", "worst", "shared", "among"):
        means[f"rank_{name}"] = [
            getattr(placed[run, group], name) or math.nan
            for run, group in zip(means["run"], means["group"], strict=True)
        ]
    means["rank"] = [
        *map(_rank, means["silent"], means["rank_best"], means["rank_worst"], means["rank_among"])
    ]
    means["differ"] = [*map(_differ(results, known), means["run"], means["group"])]
    most = means["group"].map(means.groupby("group")["tasks"].max())
    here = means["rank_shared"].fillna(means["tasks"])
    means["part"] = [
        plural(tasks, "task") if tasks not in (full,) or tasks != shared else ""
        for tasks, full, shared in zip(means["tasks"], most, here, strict=True)
    ]
    return means


def _trained(results: Results, scores: pd.DataFrame) -> pd.Series:
    """Tell of each score whether the model was trained on its task, as its card says."""
    cards = dict(results.runs["card"]) if "card" in results.runs else {}
    tasks = {run: {*card.dataset.tasks} for run, card in cards.items() if card is not None}
    return pd.Series(
        [
            task in tasks.get(run, ())
            for run, task in zip(scores["run"], scores["task"], strict=True)
        ],
        scores.index,
        dtype=bool,
    )


def _differ(results: Results, scores: pd.DataFrame) -> Callable[[int, str], float]:
    """Return how far a mean with the scores of an older file would be from the newest, at most."""
    older = results.older.merge(
        scores[["run", "task", "way", "group", "value"]],
        on=["run", "task", "way"],
        suffixes=("", "_new"),
    )
    group = "group_new" if "group_new" in older else "group"
    older = older.assign(apart=older["value"] - older["value_new"])
    count = scores.groupby(["run", "group"]).size()
    apart = older.groupby(["run", group, "file"])["apart"].sum().abs().groupby(level=[0, 1]).max()

    def differ(run: int, name: str) -> float:
        found = apart.get((run, name), 0.0) / count[run, name]
        return float(found) if round(float(found), groups()[name].digits) else 0.0

    return differ


def _rank(silent: bool, best: float, worst: float, among: float) -> str:
    """Write the possible ranks: ``2 of 5``, ``2-4 of 5``, or nothing."""
    if silent:
        return "does not answer"
    if math.isnan(best):
        return ""
    return f"{best:.0f}{'' if best == worst else f'-{worst:.0f}'} of {among:.0f}"


def ranks(
    results: Results, scores: pd.DataFrame, means: pd.DataFrame
) -> dict[tuple[int, str], Standing]:
    """Rank runs in every group; who does not answer, and respondents beside models, have none."""
    pool = pool_of(results)
    silent = means.set_index(["group", "run"])["silent"]
    is_model = results.runs["kind"] == "run"
    placed: dict[tuple[int, str], Standing] = {}
    for group, of in scores.groupby("group", sort=False):
        how = alike(of)
        can: dict[int, bool] = {}
        for _, runs in how.groupby(how, sort=False):
            asked = [
                run
                for run in runs.index
                if not silent[group, run] and results.runs["kind"][run] != "published"
            ]
            # Reference respondents are ranked where there are no models.
            ranked = [run for run in asked if is_model[run]] or asked
            can |= {run: run in ranked for run in runs.index}
        for run, standing in standings(of, str(group), can, pool).items():
            placed[run, str(group)] = standing
    return placed


def pool_of(results: Results) -> Pool:
    """Return what judges differences in log `l1`."""
    tasks = {*results.scores["task"]} & {*store.available()}
    noise = {task: noise_of(store.load(task)) for task in tasks}
    models = results.scores["run"].map(results.runs["model"])
    own = results.scores["run"].map(results.runs["kind"]) != "published"
    return Pool(results.scores.assign(model=models)[own], noise)


def _respondents(results: Results, means: pd.DataFrame) -> pd.DataFrame:
    """Return rows of who knows averages only and who guesses, asked as whoever was asked most."""
    asked = means[means["run"].map(results.runs["kind"]) != "published"]
    first = asked.loc[asked.groupby("group", sort=False)["seen"].idxmax()]
    parts = []
    for kind, name in ((AVERAGES, "averages"), (UNIFORM, "guesses")):
        here = first[first[name].notna()]
        own = {"run": -1, "model": respondent(kind), "kind": "respondent", "silent": False}
        numbers = dict.fromkeys(("value", "low", "high"), here[name])
        parts.append(here[["group", "tasks", "seen"]].assign(**own, **numbers))
    return pd.concat(parts, ignore_index=True)


def without_run(table: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Leave out the respondents' rows that one of their runs has, too."""
    ran = table[table["run"].map(runs["kind"]) == "respondent"]
    known = {
        (model, group): values.to_numpy()
        for (model, group), values in ran.groupby([ran["run"].map(runs["model"]), "group"])["value"]
    }
    is_there = [
        run < 0
        and bool((abs(known.get((model, group), np.array([math.inf])) - value) < ROUNDING).any())
        for run, model, group, value in zip(
            *(table[name] for name in ("run", "model", "group", "value")), strict=True
        )
    ]
    return table[~pd.Series(is_there, table.index, dtype=bool)]


def in_order(table: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Sort the rows of runs: who answers, who was asked most, the best; groups as they are listed.

    Published scores come after runs, and respondents last.
    """
    listed = {group: place for place, group in enumerate(ordered_groups(table["group"]))}
    table = table.assign(place=table["group"].map(listed)).sort_values("place", kind="stable")
    ids = [
        run if run >= 0 else model
        for run, model in zip(table["run"], table.get("model", table["run"]), strict=True)
    ]
    table = table.assign(id=ids)
    kinds = table["run"].map(runs["kind"]).fillna("respondent")
    keys = {}
    for own, of in table.groupby("id", sort=False):
        kind = kinds[of.index[0]]
        silent = bool(of["silent"].fillna(False).all()) if "silent" in of else False
        signs = [1 if groups()[g].measure.higher_is_better else -1 for g in of["group"]]
        worth = {
            place: -sign * value
            for place, sign, value in zip(of["place"], signs, of["value"], strict=True)
        }
        keys[own] = (
            kind == "respondent",
            silent,
            kind == "published",
            [worth.get(place, math.inf) for place in range(len(listed))],
        )
    order = {own: place for place, own in enumerate(sorted(keys, key=lambda own: keys[own]))}
    table = table.assign(order=table["id"].map(order)).sort_values(
        ["order", "place"], kind="stable"
    )
    return table.drop(columns=["id", "order", "place"]).reset_index(drop=True)


def ordered_groups(asked: Sequence[str]) -> list[str]:
    """Return groups in their usual order, unions before their parts."""
    listed = list(groups())
    return sorted(
        dict.fromkeys(asked),
        key=lambda name: (min(map(listed.index, within(name))), name not in unions()),
    )


def _barely(scores: pd.DataFrame) -> list[str]:
    """Say which tasks are barely informative."""
    tasks = {*scores["task"]} & {*store.available()}
    barely = sorted(task for task in tasks if Anchors.of(store.load(task)).barely)
    if not barely:
        return []
    verb = "is" if len(barely) == 1 else "are"
    return [
        f"{plural(len(barely), 'task')} {verb} barely informative ({few(barely)}): --informative "
        "leaves them out"
    ]


def sliced(facet: str, title: str, tasks: str = "epidemia_low") -> Callable[[Results], Finding]:
    """Return the finding of groups cut by a facet of their tasks, such as the survey."""

    def finding(results: Results) -> Finding:
        scores = with_facets(with_references(results), [facet])
        by = ["run", "group", facet]
        table = mean(scores, by)
        beside = scores[scores["value"].notna()].groupby(by, sort=False)["averages"]
        table = table.merge(
            beside.agg(lambda of: of.sum(skipna=False) / len(of)).reset_index(), on=by
        )
        columns = {
            **WHO,
            "group": Column(),
            "value": Column(error="error", count="tasks"),
        }
        table = table.sort_values(facet, kind="stable")
        table = in_order(table, results.runs) if len(table) else table
        note = "In brackets: the number of tasks."
        left_out = if_empty(table, f"no score by {facet}: run lm_eval on {tasks}")
        table = who(table, results.runs)
        return Finding(facet, title, table, columns, note, across=facet, left_out=left_out)

    finding.__doc__ = f"{title}."
    return finding


survey = sliced("survey", "Score by survey")
domain = sliced("domain", "Score by domain")
dimension = sliced("dimension", "Score by number of conditions")
subset = sliced("subset", "Score in tasks of few cells", "epidemia_high_likelihood")
nodes = sliced("nodes", "Accuracy by number of variables", "epidemia_intervention_large")
names = sliced("names", "Accuracy by names", "epidemia_intervention")

#: The two ways in which the closed subset stands in one table: models that only write beside those
#: whose log-probabilities are known.
CLOSED_WAYS = ("closed", "likelihood")


def closed(results: Results) -> Finding:
    """The closed subset: written answers beside likelihoods."""
    scores = with_facets(with_references(results), ["subset"])
    tasks = {*scores[(scores["subset"] == "closed") & scores["way"].isin(CLOSED_WAYS)]["task"]}
    here = scores[scores["task"].isin(tasks) & scores["way"].isin(CLOSED_WAYS)]
    table = mean(here, ["run", "way"]).assign(group="epidemia_high")
    averages = here[here["value"].notna()].groupby(["run", "way"], sort=False)["averages"]
    table["averages"] = averages.agg(lambda of: of.sum(skipna=False) / len(of)).to_numpy()
    table = table.sort_values("value", ascending=False, kind="stable").rename(
        columns={"way": "asked"}
    )
    columns = {
        **WHO,
        "asked": Column("asked in"),
        "value": Column("score", error="error"),
        "tasks": Column(),
    }
    note = (
        "Tasks with several conditions (the closed subset); the same questions in both ways. In "
        "'closed' the model writes the interval that contains the probability; in 'likelihood' the "
        "likeliest interval is its answer. Do not compare means over different numbers of tasks."
    )
    title = "Few cells: written answers and likelihoods"
    left_out = if_empty(
        table, "no task of the closed subset was asked: run lm_eval on epidemia_high_closed"
    )
    table = who(table, results.runs)
    return Finding("closed", title, table, columns, note, left_out=left_out)


#: Other scales for the same distance: the anchors that are 0 and 100, by name.
SCALES: dict[str, Callable[[float, Anchors], float]] = {
    "score": lambda d, at: float(scale(d, at.zero, at.perfect)),
    "against uniform": lambda d, at: float(scale(d, at.uniform, at.perfect)),
    "against mean": lambda d, at: float(scale(d, at.mean, at.perfect)),
    "without D_perfect": lambda d, at: _without_perfect(d, at),
}


def _without_perfect(distance: float, anchors: Anchors) -> float:
    # A zero of the scale that is the truth itself: only the truth reaches it.
    if anchors.zero == 0:
        return 100.0 if distance == 0 else 0.0
    return 100 * max(1 - distance / anchors.zero, 0.0)


def scales(results: Results) -> Finding:
    """Means on other scales of the same distance: other anchors, and against the population."""
    scores = with_references(results)
    scores = scores[
        scores["value"].notna() & scores["run"].map(results.runs["kind"].ne("published"))
    ]
    tasks = {*scores["task"]} & {*store.available()}
    truths = {task: store.load(task) for task in tasks}
    anchors = {task: Anchors.of(truth) for task, truth in truths.items()}
    another = {
        task: anchors[task]._replace(perfect=truth.d_perfect(scheme="population"))
        for task, truth in truths.items()
        if "population" in truth.distances or not truth.distances
    }
    makers = {
        **{how: (make, anchors) for how, make in SCALES.items()},
        "another survey": (SCALES["score"], another),
    }
    by = ["run", "group"]
    # Where a part, or another truth, was asked, these anchors are not those of the score.
    whole = scores[
        scores.assign(
            fits=scores["task"].isin(tasks) & (scores["seen"] >= 1) & (scores["truth"] == "")
        )
        .groupby(by)["fits"]
        .transform("all")
    ]
    rows = []
    for how, (make, at) in makers.items():
        put = whole.assign(
            value=[
                make(l1, at[task]) if task in at and not math.isnan(l1) else math.nan
                for task, l1 in zip(whole["task"], whole["l1"], strict=True)
            ],
            draws=whole["draws"] if how == "score" else None,
        )
        of_group = put.groupby(by)["value"].transform(lambda of: of.notna().all())
        rows.append(mean(put[of_group.astype(bool)], by).assign(scale=how))
    rows.append(population_mean(scores, by).assign(scale="population"))
    table = pd.concat(rows, ignore_index=True)
    table = in_order(table, results.runs) if len(table) else table
    columns = {**WHO, "group": Column(), "value": Column(error="error")}
    return Finding(
        "scale",
        "Means on other scales",
        who(table, results.runs),
        columns,
        "'another survey': 100 is the score that 95 % of other surveys of the same population "
        "reach; empty if a task's truth was built without it. ± if the joint error is known.",
        across="scale",
        left_out=if_empty(table, "no whole tasks about surveys: run lm_eval on epidemia_low"),
    )


def population(results: Results) -> Finding:
    """The score against the population, without what sampling error adds."""
    scores = grouped(with_columns(results.scores, (POPULATION,)))
    table = population_mean(scores, ["run", "group"])
    # Written answers are rounded and drawn ones are few: even who knows would score lower.
    letters = scores[
        (scores["way"] == OBSERVATION.plain.name)
        & scores[POPULATION].notna()
        & scores["task"].isin({*store.available()})
    ]
    knows = [
        {"run": -1, "model": f"{KNOWS_POPULATION} (baseline)", "kind": "respondent", "group": group}
        | population_known_over({*of["task"]})
        for group, of in letters.groupby("group", sort=False)
    ]
    table = pd.concat([table, pd.DataFrame(knows)], ignore_index=True)
    table = in_order(table, results.runs) if len(table) else table
    before = _of_before(results)
    return Finding(
        "population",
        "Score against the population, 0 to 100 (interval of 95 %)",
        who(table, results.runs),
        {**WHO, "value": Column(interval=("low", "high")), "tasks": Column()},
        "These scores subtract the distance that sampling error alone would cause. The interval is "
        "the mean ± 1.96 joint standard errors, cut off at 0 and 100. Someone who knows the "
        "population gets 100 up to chance; as no score can exceed 100, the average is lower. The "
        "last row shows the mean and 95 % range of that respondent over surveys of this size, "
        "asked for letters.",
        across="group",
        left_out=before or if_empty(table, "no scores about surveys: run lm_eval on epidemia_low"),
    )


def _of_before(results: Results) -> list[str]:
    """Name the runs whose score against the population uses the earlier formula."""
    scores = with_columns(results.scores, (POPULATION,))
    old = scores[POPULATION].notna() & pd.Series(
        [drawn is None or drawn.uncut is None for drawn in scores["population"]], scores.index
    )
    runs = [*dict.fromkeys(results.runs["name"][scores["run"][old]])]
    if not runs:
        return []
    return [
        "computed with the formula before task version 3, which is too low near 100: " + few(runs)
    ]


def other(results: Results) -> Finding:
    """Other people's tasks, beside ours, as lm-eval prints them."""
    ours = mean(grouped(results.scores), ["run", "group"]).rename(columns={"value": "score"})
    table = beside(results).merge(ours[["run", "group", "score"]], on="run", how="left")
    says = "no other tasks: run lm_eval on one, such as mmlu, with the same model"
    return Finding(
        "other",
        "Beside other tasks",
        who(table, results.runs),
        {**WHO, "group": Column(), "value": Column("", digits=4)},
        "As lm-eval prints them, so that an accuracy of 65 % is 0.6500.",
        across="other",
        left_out=if_empty(table, says),
    )


def beside(results: Results) -> pd.DataFrame:
    """Return other people's tasks of every run: its own, or those of its model run alike.

    Tasks that were run by themselves belong to every run of the model with the same chat template
    and dtype, since our settings do not apply to them.
    """
    runs = results.runs
    same = ["weights", "chat_template", "dtype"]
    for name in same:
        runs = runs if name in runs else runs.assign(**{name: ""})
    own = results.others.assign(**{name: results.others["run"].map(runs[name]) for name in same})
    ours = runs[runs.index.isin(results.scores["run"])].rename_axis("run").reset_index()
    joined = ours[["run", *same]].merge(own.rename(columns={"run": "source"}), on=same)
    # What stands in the run's own files comes first.
    joined = joined.assign(theirs=joined["run"] != joined["source"]).sort_values(
        "theirs", kind="stable"
    )
    alone = own[~own["run"].isin(joined["source"])]
    table = joined.drop_duplicates(["run", "other"])
    return pd.concat([table, alone])[["run", "other", "value"]].reset_index(drop=True)


def correlation(results: Results) -> Finding:
    """Rank correlation of our groups with other people's tasks."""
    from scipy import stats  # a third of what a report takes to start

    scores = grouped(results.scores)
    scores = scores[scores["value"].notna() & (scores["asked_as"] == "")]
    others = beside(results)
    rows = []
    for group, of in scores.groupby("group", sort=False):
        for label, theirs in others.groupby("other", sort=False):
            values = theirs.set_index("run")["value"]
            both = of[of["run"].isin(values.index)]
            shared = both.groupby("task")["run"].transform("nunique") == both["run"].nunique()
            means = both[shared].groupby("run")["value"].mean()
            coefficient = math.nan
            if len(means) > 2 and means.nunique() > 1 and values[means.index].nunique() > 1:
                coefficient = float(stats.spearmanr(means, values[means.index]).statistic)
            rows.append(
                {
                    "group": group,
                    "other": label,
                    "value": coefficient,
                    "models": both["run"].nunique(),
                }
            )
    table = pd.DataFrame(rows, columns=["group", "other", "value", "models"])
    return Finding(
        "correlation",
        "Rank correlation with other tasks (Spearman, number of models)",
        table,
        {"group": Column(), "value": Column(digits=2, count="models")},
        "Over the models asked in the default way and the tasks that they share; empty below three "
        "models. If lower is better, agreement is negative.",
        across="other",
        left_out=if_empty(table, "no other tasks: run lm_eval on one, such as mmlu"),
    )


def tasks(results: Results) -> Finding:
    """Every metric of every task, for programs."""
    scores, known = with_columns(results.scores, ("l1",)), leaves()
    names = [in_way(task, way) for task, way in zip(scores["task"], scores["way"], strict=True)]
    table = scores.drop(columns=["draws", "population", "said", "task", "way"]).assign(
        error=own_errors([*scores["draws"]]),
        file=[file.name for file in scores["file"]],
    )
    table.insert(1, "task", names)
    table.insert(2, "title", [known[name].entry.title for name in names])
    columns = {
        **WHO,
        "task": Column(),
        "value": Column("score", error="error"),
        "l1": Column(digits=3),
    }
    return Finding("tasks", "Every task", who(table, results.runs), columns)
