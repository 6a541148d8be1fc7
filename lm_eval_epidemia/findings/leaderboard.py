"""Who knows the world best: means of groups and of any part of them, ranked; and notes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import pandas as pd

from lm_eval_epidemia.benchmarks import (
    describe_union,
    find_groups,
    in_way,
    list_groups,
    list_unions,
)
from lm_eval_epidemia.core.errors import few, plural
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import FINDINGS, mean, references
from lm_eval_epidemia.findings.compare import (
    POPULATION,
    Pool,
    Standing,
    label_asking,
    noise_of,
    standings,
)
from lm_eval_epidemia.findings.finding import Finding, make_finding
from lm_eval_epidemia.findings.references import AVERAGES, KNOWS_POPULATION, UNIFORM
from lm_eval_epidemia.results.choose import find_barely_informative, load_truths, own_scores
from lm_eval_epidemia.results.decode import leaves_of
from lm_eval_epidemia.results.naming import respondent
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.score.joint import own_errors
from lm_eval_epidemia.score.score import Anchors, scale_distance

#: The groups that sentences are about.
TOGETHER = ("epidemia_low", "epidemia_high")

#: How far a reference may be from that of other prompts before it counts as another.
ROUNDING = 0.05


def leaderboard(results: Results) -> Finding:
    """Every run's mean score in every group, with its rank; the best first."""
    table = _without_run(leaderboard_table(results), results.runs)
    barely = find_barely_informative(results)
    verb = "is" if len(barely) == 1 else "are"
    says = (
        f"{plural(len(barely), 'task')} {verb} barely informative ({few(barely)}): --informative "
        "leaves them out"
    )
    return make_finding("leaderboard", table, results.runs, [says] if barely else [])


def leaderboard_table(results: Results) -> pd.DataFrame:
    """Return the rows of the leaderboard, by run and group; those of respondents have run -1."""
    means = _means(results)
    beside = _respondents(results, means)
    known = beside[beside["model"] == respondent(AVERAGES)].set_index("group")["value"]
    apart = (means["averages"] - means["group"].map(known).astype(float)).abs() > ROUNDING
    means["versus"] = means["averages"].where(apart)
    table = pd.concat([means, beside], ignore_index=True)
    table["parameters"] = table["run"].map(results.runs["parameters"])
    return sort_rows(table, results.runs)


def add_references(results: Results) -> pd.DataFrame:
    """Return the scores of groups, with those of the respondents that are held against them."""
    scores = results.scores
    scores = scores.assign(
        averages=references.score_known(scores, results.runs, AVERAGES)["score"],
        guesses=references.score_known(scores, results.runs, UNIFORM)["score"],
        changed=references.find_changed(scores),
    )
    return mean.group_scores(mean.add_metrics(scores, ("choice_mass", "answered", "l1")))


def _means(results: Results) -> pd.DataFrame:
    """Return the mean of each run in each group, with ranks and what it is held against."""
    scores, by = add_references(results), ["run", "group"]
    cards = results.runs.get("card", pd.Series(dtype=object)).dropna()
    trained = {(run, task) for run, card in cards.items() for task in card.dataset.tasks}
    known = scores[scores["value"].notna()]
    known = known.assign(
        trained=[asked in trained for asked in zip(known["run"], known["task"], strict=True)]
    )
    also = known.groupby(by, sort=False).agg(
        seen=("seen", "sum"), changed=("changed", "any"), trained=("trained", "any")
    )
    means = mean.average(known, by, ["averages", "guesses"]).merge(also.reset_index(), on=by)
    means["silent"] = mean.is_silent(means)
    placed = _ranks(results, known, means)
    ranks = [placed[of] for of in zip(means["run"], means["group"], strict=True)]
    means = means.join(pd.DataFrame(ranks, columns=[*Standing._fields]).add_prefix("rank_"))
    means["rank"] = [_rank(row) for row in means.itertuples()]
    means = means.join(_differ(results, known).rename("differ"), on=by)
    digits = means["group"].map(lambda group: list_groups()[group].digits).astype(float)
    means["differ"] = means["differ"].where(means["differ"] > 0.5 * 10**-digits, 0.0)
    most, shared = means.groupby("group")["tasks"].transform("max"), means["rank_shared"]
    is_whole = (means["tasks"] == most) & (means["tasks"] == shared.fillna(means["tasks"]))
    means["part"] = means["tasks"].map(lambda number: plural(number, "task")).mask(is_whole, "")
    return means


def _differ(results: Results, scores: pd.DataFrame) -> pd.Series:
    """Return how far means with the scores of an older file would be from the newest, at most."""
    key, older = ["run", "task", "way"], results.older.drop(columns="group")
    older = older.assign(apart=older["value"] - older["value_newest"])
    older = older.merge(scores[[*key, "group"]], on=key)
    apart = older.groupby(["run", "group", "file"])["apart"].sum().abs()
    return apart.groupby(level=[0, 1]).max() / scores.groupby(["run", "group"]).size()


def _rank(row: Any) -> str:
    """Write the possible ranks: ``2 of 5``, ``2-4 of 5``, or nothing."""
    if row.silent or math.isnan(row.rank_best):
        return "does not answer" if row.silent else ""
    worst = "" if row.rank_best == row.rank_worst else f"-{row.rank_worst:.0f}"
    return f"{row.rank_best:.0f}{worst} of {row.rank_among:.0f}"


def _ranks(
    results: Results, scores: pd.DataFrame, means: pd.DataFrame
) -> dict[tuple[int, str], Standing]:
    """Rank runs in every group; respondents beside models have none.

    Nor has who does not answer, or has scores that are not those of their distances.
    """
    pool, placed = pool_of(results), dict[tuple[int, str], Standing]()
    for group, of in scores.groupby("group", sort=False):
        how = label_asking(of)
        kinds = results.runs["kind"][how.index]
        of_group = means[means["group"] == group].set_index("run").loc[how.index]
        asked = ~(of_group["silent"] | of_group["changed"].eq(True)) & (kinds != "published")
        models = asked & (kinds == "run")
        # Reference respondents are ranked where there are no models.
        can = models | (asked & ~models.groupby(how).transform("any"))
        for run, standing in standings(of, str(group), dict(can), pool).items():
            placed[run, str(group)] = standing
    return placed


def pool_of(results: Results) -> Pool:
    """Return what judges differences in log `l1`."""
    noise = {task: noise_of(truth) for task, truth in load_truths(results.scores).items()}
    own = own_scores(results)
    return Pool(own.assign(model=own["run"].map(results.runs["model"])), noise)


def _respondents(results: Results, means: pd.DataFrame) -> pd.DataFrame:
    """Return rows of who knows averages only and who guesses, asked as whoever was asked most."""
    asked = means[means["run"].map(results.runs["kind"]) != "published"]
    first = asked.loc[asked.groupby("group", sort=False)["seen"].idxmax()]
    names = {"averages": respondent(AVERAGES), "guesses": respondent(UNIFORM)}
    first = first[["group", "tasks", "seen", *names]].rename(columns=names)
    rows = first.melt(["group", "tasks", "seen"], var_name="model").dropna(subset="value")
    same = {"run": -1, "kind": "respondent", "silent": False}
    return rows.assign(**same, low=rows["value"], high=rows["value"])


def _without_run(table: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Leave out the respondents' rows that one of their runs has, too."""
    ran = table[table["run"].map(runs["kind"]) == "respondent"]
    ran = ran.assign(model=ran["run"].map(runs["model"]))[["model", "group", "value"]]
    known = table[table["run"] < 0].reset_index()
    both = known.merge(ran, on=["model", "group"], suffixes=("", "_ran"))
    return table.drop(both["index"][(both["value"] - both["value_ran"]).abs() < ROUNDING])


def sort_rows(table: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Sort the rows of runs: who answers, who was asked most, the best; groups as they are listed.

    Published scores come after runs, and respondents last.
    """
    listed = ordered_groups(table["group"])
    place = table["group"].map({group: place for place, group in enumerate(listed)})
    table = table.assign(place=place).sort_values("place", kind="stable", ignore_index=True)
    names = table["run"].astype(object).where(table["run"] >= 0, table.get("model", ""))
    ids = pd.Series(pd.factorize(names)[0], table.index)
    kinds = table["run"].map(runs["kind"]).fillna("respondent")
    silent = table.get("silent", pd.Series(False, table.index)).eq(True)
    keys = pd.DataFrame({"respondent": kinds == "respondent"})
    keys["silent"] = silent.groupby(ids).transform("all")
    keys["published"] = kinds == "published"
    for place, group in enumerate(listed):
        of_group = table["value"].where(table["group"] == group)
        keys[place] = of_group.groupby(ids).transform("last")
        keys[place] *= -1 if list_groups()[group].lead.higher_is_better else 1
    keys["id"], keys["group"] = ids, table["place"]
    order = keys.sort_values([*keys]).index
    return table.drop(columns="place").loc[order].reset_index(drop=True)


def ordered_groups(asked: Sequence[str]) -> list[str]:
    """Return groups in their usual order, unions before their parts."""
    listed = list(list_groups())
    return sorted(
        dict.fromkeys(asked),
        key=lambda name: (min(map(listed.index, find_groups(name))), name not in list_unions()),
    )


def slice_by(facet: str) -> Callable[[Results], Finding]:
    """Return the finding of groups cut by a facet of their tasks, such as the survey."""

    def finding(results: Results) -> Finding:
        scores = mean.add_facets(add_references(results), [facet])
        table = mean.average(scores, ["run", "group", facet], ["averages"])
        table = sort_rows(table.sort_values(facet, kind="stable"), results.runs)
        return make_finding(facet, table, results.runs)

    finding.__doc__ = f"{FINDINGS[facet]['title']}."
    return finding


survey, domain, dimension = slice_by("survey"), slice_by("domain"), slice_by("dimension")
subset, nodes, names = slice_by("subset"), slice_by("nodes"), slice_by("names")

#: The two ways in which the closed subset stands in one table: models that only write beside those
#: whose log-probabilities are known.
CLOSED_WAYS = ("closed", "likelihood")


def closed(results: Results) -> Finding:
    """The closed subset: written answers beside likelihoods."""
    scores = mean.add_facets(add_references(results), ["subset"])
    scores = scores[scores["way"].isin(CLOSED_WAYS)]
    tasks = scores["task"][scores["subset"] == "closed"]
    table = mean.average(scores[scores["task"].isin(tasks)], ["run", "way"], ["averages"])
    table = table.sort_values("value", ascending=False, kind="stable")
    table = table.rename(columns={"way": "asked"})
    table.insert(table.columns.get_loc("averages"), "group", "epidemia_high")
    return make_finding("closed", table, results.runs)


#: Other scales for the same distance: the anchors that are 0 and 100, by name.
SCALES: dict[str, Callable[[float, Anchors], float]] = {
    "score": lambda d, at: float(scale_distance(d, at.zero, at.perfect)),
    "against uniform": lambda d, at: float(scale_distance(d, at.uniform, at.perfect)),
    "against mean": lambda d, at: float(scale_distance(d, at.mean, at.perfect)),
    "without D_perfect": lambda d, at: float(scale_distance(d, at.zero, 0.0)),
}


def scales(results: Results) -> Finding:
    """Means on other scales of the same distance: other anchors, and against the population."""
    by, scores = ["run", "group"], add_references(results)
    scores = own_scores(results._replace(scores=scores[scores["value"].notna()]))
    truths = load_truths(scores)
    anchors = {task: Anchors.of(truth) for task, truth in truths.items()}
    another = {
        task: anchors[task]._replace(perfect=truth.d_perfect(scheme="population"))
        for task, truth in truths.items()
        if "population" in truth.distances or not truth.distances
    }
    makers = {how: (make, anchors) for how, make in SCALES.items()}
    makers["another survey"] = SCALES["score"], another
    # Where a part, or another truth, was asked, these anchors are not those of the score.
    fits = scores["task"].isin(truths) & (scores["seen"] >= 1) & (scores["truth"] == "")
    whole = scores[fits.groupby([scores[name] for name in by]).transform("all")]
    tables = []
    for how, (make, at) in makers.items():
        values = [
            make(l1, at[task]) if task in at else math.nan
            for task, l1 in zip(whole["task"], whole["l1"], strict=True)
        ]
        put = whole.assign(value=values, draws=whole["draws"] if how == "score" else None)
        is_known = put["value"].notna().groupby([put[name] for name in by]).transform("all")
        tables.append(mean.average(put[is_known], by).assign(scale=how))
    tables.append(mean.population_mean(scores, by).assign(scale="population"))
    table = sort_rows(pd.concat(tables, ignore_index=True), results.runs)
    return make_finding("scale", table, results.runs)


def population(results: Results) -> Finding:
    """The score against the population, without what sampling error adds."""
    scores = mean.group_scores(mean.add_metrics(results.scores, (POPULATION,)))
    table = mean.population_mean(scores, ["run", "group"])
    scores = scores[scores[POPULATION].notna()]
    # Written answers are rounded and drawn ones are few: even who knows would score lower.
    letters = scores[(scores["way"] == "letters") & scores["task"].isin({*store.list_available()})]
    knows = [
        {"run": -1, "model": f"{KNOWS_POPULATION} (baseline)", "kind": "respondent", "group": group}
        | references.score_population({*of["task"]})
        for group, of in letters.groupby("group", sort=False)
    ]
    table = sort_rows(pd.concat([table, pd.DataFrame(knows)], ignore_index=True), results.runs)
    return make_finding("population", table, results.runs)


def other(results: Results) -> Finding:
    """Other people's tasks, beside ours, as lm-eval prints them."""
    ours = mean.average(mean.group_scores(results.scores), ["run", "group"])
    ours = ours[["run", "group", "value"]].set_axis(["run", "group", "score"], axis=1)
    table = list_others(results).merge(ours, on="run", how="left")
    return make_finding("other", table, results.runs)


def list_others(results: Results) -> pd.DataFrame:
    """Return other people's tasks of every run: its own, or those of its model run alike.

    Tasks that were run by themselves belong to every run of the model with the same chat template
    and dtype, since our settings do not apply to them.
    """
    same = ["weights", "chat_template", "dtype"]
    runs = results.runs.reindex(columns=same, fill_value="").rename_axis("run").reset_index()
    own = results.others.merge(runs, on="run")
    ours = runs[runs["run"].isin(results.scores["run"])]
    joined = ours.merge(own.rename(columns={"run": "source"}), on=same)
    alone = own[~own["run"].isin(joined["source"])]
    # What stands in the run's own files comes first.
    joined = joined.assign(theirs=joined["run"] != joined["source"])
    table = joined.sort_values("theirs", kind="stable").drop_duplicates(["run", "other"])
    return pd.concat([table, alone])[["run", "other", "value"]].reset_index(drop=True)


def correlation(results: Results) -> Finding:
    """Rank correlation of our groups with other people's tasks."""
    from scipy import stats  # a third of what a report takes to start

    scores = mean.group_scores(results.scores)
    scores = scores[scores["value"].notna() & (scores["asked_as"] == "")]
    others, rows = list_others(results).groupby("other", sort=False), []
    for (group, of), (label, theirs) in product(scores.groupby("group", sort=False), others):
        both = of.merge(theirs, on="run", suffixes=("", "_theirs"))
        models = both["run"].nunique()
        shared = both[both.groupby("task")["run"].transform("nunique") == models]
        means = shared.groupby("run").agg({"value": "mean", "value_theirs": "first"})
        coefficient = math.nan
        if len(means) > 2 and (means.nunique() > 1).all():
            coefficient = float(stats.spearmanr(*means.to_numpy().T).statistic)
        rows.append((group, label, coefficient, models))
    table = pd.DataFrame(rows, columns=["group", "other", "value", "models"])
    return make_finding("correlation", table, results.runs)


def tasks(results: Results) -> Finding:
    """Every metric of every task, for programs."""
    scores = mean.add_metrics(results.scores, ("l1",))
    names = [*map(in_way, scores["task"], scores["way"])]
    table = scores.drop(columns=["draws", "population", "said", "task", "way"]).assign(
        error=own_errors([*scores["draws"]]), file=[file.name for file in scores["file"]]
    )
    table.insert(1, "task", names)
    table.insert(2, "title", [of.entry.title for of in leaves_of(scores)])
    return make_finding("tasks", table, results.runs)


def notes(results: Results) -> Finding:
    """What was left out, is missing or was changed, and what groups consist of."""
    asked = ordered_groups(mean.group_scores(results.scores)["group"])
    of_groups = [
        ("", "group", f"{group}: {describe_union(group)}")
        for group in asked
        if describe_union(group)
    ]
    more = pd.DataFrame([*_changed(results), *of_groups], columns=["run", "kind", "text"])
    return make_finding("notes", pd.concat([results.notes, more], ignore_index=True))


def list_notes(results: Results) -> list[str]:
    """Return the notes as texts; of equal ones on several runs, one."""
    table = notes(results).table
    alike = table.groupby(["kind", "text"], sort=False)["run"].agg(list)
    return [f"{few(runs)}: {text}" if any(runs) else text for (_, text), runs in alike.items()]


def _changed(results: Results) -> Iterator[tuple[str, str, str]]:
    """Say which scores do not match their distances, and in which files."""
    wrong = results.scores[references.find_changed(results.scores)]
    for run, of in wrong.groupby("run"):
        names = few([*map(in_way, of["task"], of["way"])])
        files = few(sorted({file.name for file in of["file"]}))
        yield (
            results.runs["name"][run],
            "changed",
            f"the scores of {plural(len(of), 'task')} do not match their distances ({names}; in "
            f"{files}): the file was changed, or D_perfect was different",
        )
