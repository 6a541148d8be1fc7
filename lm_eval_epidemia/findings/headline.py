"""What a reader has to know first: the best models in sentences, and a small table each."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from lm_eval_epidemia.benchmarks import (
    WAYS,
    Benchmark,
    find_groups,
    find_tasks,
    list_groups,
    list_unions,
)
from lm_eval_epidemia.core.errors import EpidemiaError, few, plural
from lm_eval_epidemia.findings import leaderboard, mean
from lm_eval_epidemia.findings.compare import compare_scores, label_asking
from lm_eval_epidemia.findings.finding import Finding, columns_of
from lm_eval_epidemia.findings.leaderboard import TOGETHER, ordered_groups
from lm_eval_epidemia.findings.pairs import comparable_scores
from lm_eval_epidemia.findings.references import AVERAGES, UNIFORM
from lm_eval_epidemia.findings.words import (
    WORDS,
    describe_group,
    describe_outcome,
    describe_scale,
    plain_name,
)
from lm_eval_epidemia.results.choose import load_truths
from lm_eval_epidemia.results.decode import LeafKey, leaf, leaves_of
from lm_eval_epidemia.results.naming import respondent, without_kind
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.score.joint import own_errors
from lm_eval_epidemia.score.score import Anchors

#: The best models that are shown, and up to how many have a sentence each.
MOST_ROWS, MOST_SENTENCES = 10, 3

#: Names of two models, and folders, that stand in a command.
LONGEST = 44

#: Topics that the best model knows least.
TOPICS = 3

#: Settings that all runs share stand in the note if they are longer than this.
LONG = 24

#: A smaller share of answered prompts is said: a server declined them, or nobody could read it.
ANSWERS = 0.995

KNOWN = [respondent(AVERAGES), respondent(UNIFORM)]


class Board(NamedTuple):
    """A benchmark on a screen.

    Attributes
    ----------
    benchmark : Benchmark
    rows : DataFrame
        Of the leaderboard: one run per model, the best models, then respondents.
    runs : DataFrame
        Those of the models, the best first; of respondents where there are no models.
    left_out : int
        How many models have no row.
    finding : Finding
        What people see.
    sentences : list of str
        On the best model, or each of a few; then on who is better.
    """

    benchmark: Benchmark
    rows: pd.DataFrame
    runs: pd.DataFrame
    left_out: int
    finding: Finding
    sentences: list[str]


class Headline(NamedTuple):
    """The contents of the first screen."""

    sentences: list[str]
    boards: list[Board]
    lines: list[str]


def make_headline(
    results: Results, folders: Sequence[Path] = (), board: pd.DataFrame | None = None
) -> Headline:
    """Say on one screen who knows the world best; `board` is the `leaderboard_table`, if known."""
    table = leaderboard.leaderboard_table(results) if board is None else board
    table = table.assign(model=table["run"].map(results.runs["model"]).fillna(table["model"]))
    of = table["group"].map(list_groups())
    benchmarks = [*dict.fromkeys(list_groups()[group] for group in ordered_groups(table["group"]))]
    boards = [_board(results, each, table[of == each], len(benchmarks)) for each in benchmarks]
    sentences = [text for board in boards for text in board.sentences]
    if not boards:  # why there is nothing to show
        sentences = [f"{text}." for text in results.notes["text"][:MOST_SENTENCES]]
    lines = [_say_topics(results, boards), _count_rest(results, boards)]
    lines.append(_suggest_next(results, boards, folders))
    return Headline(sentences, boards, [*filter(None, lines)])


def _board(results: Results, benchmark: Benchmark, rows: pd.DataFrame, boards: int) -> Board:
    """Choose one run of each model, and compare neighbours."""
    most = MOST_ROWS if boards == 1 else max(3, 8 // boards)
    runs = choose_runs(results, rows)
    # Respondents are held against models; alone, they are what is shown.
    known = runs[(runs["kind"] == "respondent") & (runs["kind"] == "run").any()]
    here = leaderboard.sort_rows(rows[rows["run"].isin(runs.index.drop(known.index))], results.runs)
    tested = runs.loc[here["run"].unique()]
    tested["published"] = tested["kind"] == "published"
    # Runs asked in one way stand together, those first in which most was asked.
    tested["most"] = tested.groupby("asked_as")["seen"].transform("max")
    keys = {"silent": True, "published": True, "most": False, "asked_as": True, "seen": False}
    tested = tested.round({"seen": 6}).sort_values([*keys], ascending=[*keys.values()])
    shown, is_survey = tested[:most], benchmark.of_surveys
    # Who is held against any run has rows of its own.
    known = known[~known["model"].isin(KNOWN)] if is_survey else known
    room = max(2, most - len(shown))
    own = rows["run"].isin(known.index[:room]) | ((rows["run"] < 0) & is_survey)
    parts = [here[here["run"] == run] for run in shown.index]
    own &= rows["group"].isin(pd.concat(parts)["group"])
    chosen = pd.concat([*parts, rows[own]], ignore_index=True)
    shown = _with_verdicts(results, benchmark, chosen, shown)
    left_out = len(tested[most:]) + len(known[room:])
    leading = shown[~shown["published"]] if not shown["published"].all() else shown
    if len(leading) + left_out > MOST_SENTENCES or boards > 1:
        leading = leading[:1]
    sentences = [_sentence(results, benchmark, chosen, run) for _, run in leading.iterrows()]
    better = [_verdict(shown, run) for _, run in shown[shown["verdict"] != ""].iterrows()]
    if better and len(shown) <= MOST_SENTENCES:
        sentences.append(f"{'; '.join(better)} ({shown['over'].max()}).")
    finding = _finding(results, benchmark, chosen, shown)
    return Board(benchmark, chosen, shown, left_out, finding, sentences)


def choose_runs(results: Results, rows: pd.DataFrame) -> pd.DataFrame:
    """Choose a run of each model: who answers, was asked most, in the usual wording, the newest."""
    of = rows[rows["run"] >= 0].groupby("run", sort=False)
    runs = results.runs.loc[[*of.groups]]
    runs = runs.assign(
        silent=rows[_is_leading(rows)].groupby("run")["silent"].all().astype(bool),
        together=rows[rows["group"].isin(TOGETHER)].groupby("run")["seen"].sum(),
        seen=of["seen"].sum(),
        worded=runs.get("wording", "") != "",
        asked_as=label_asking(results.scores),
    )
    keys = {"silent": True, "together": False, "seen": False, "worded": True, "date": False}
    return runs.sort_values([*keys], ascending=[*keys.values()]).drop_duplicates("weights")


def _is_leading(rows: pd.DataFrame) -> pd.Series:
    """Return which rows tell of their runs: those of low and high, where these were asked."""
    together = rows["group"].isin(TOGETHER)
    return together | ~rows["run"].isin(rows["run"][together])


def _with_verdicts(
    results: Results, benchmark: Benchmark, rows: pd.DataFrame, shown: pd.DataFrame
) -> pd.DataFrame:
    """Compare each run with the next, ``other``, over the groups that most of them share."""
    shown = shown.assign(other=-1, verdict="", over="")
    doubted = rows["run"][rows["changed"].eq(True)]
    runs = shown.index[~shown["published"] & ~shown["silent"] & ~shown.index.isin(doubted)]
    if benchmark.predicts or len(runs) < 2:
        return shown
    asked = rows[rows["run"].isin(runs)]["group"].value_counts()
    together = all(asked.get(group) == len(runs) for group in TOGETHER)
    over = " + ".join(TOGETHER) if together else max(ordered_groups(asked.index), key=asked.get)
    scores, pool = comparable_scores(results), leaderboard.pool_of(results)
    of = {run: scores[(scores["run"] == run) & (scores["group"] == over)] for run in runs}
    for run, other in pairwise(runs):
        made = compare_scores(of[run], of[other], pool)
        verdict = made.verdict if made else "not compared"
        shown.loc[run, ["other", "verdict", "over"]] = other, verdict, over
    return shown


def _verdict(runs: pd.DataFrame, run: pd.Series) -> str:
    other, verdict = runs.loc[run["other"]], run["verdict"]
    better = f"is shown {verdict.replace('here', 'in these tasks')} than"
    ways = [of["settings"] or "the default" for of in (run, other)]
    if ways[0] == ways[1]:
        ways = ["one way", "another"]
    apart = f" ({ways[0]}, not {ways[1]})" if verdict == "not compared" else ""
    return f"{run['model']} {WORDS['verdicts'].get(verdict, better)} {other['model']}{apart}"


def share_of(tasks: float, group: str) -> str:
    """Say how many of a group's available tasks were asked, unless all were."""
    try:
        part = _part(tasks, len(find_tasks(group)))
    except EpidemiaError:
        return ""  # no truth of them can be used here
    return f" ({part})" if part else ""


def _part(tasks: float, of: float) -> str:
    return f"{tasks:.0f} of {plural(int(of), 'task')}" if tasks < of else ""


def _finding(
    results: Results, benchmark: Benchmark, rows: pd.DataFrame, shown: pd.DataFrame
) -> Finding:
    """Return the table of a board: a row per model, a column per group."""
    listed, is_shown = ordered_groups(rows["group"]), rows["run"].isin(shown.index)
    most = rows[is_shown].groupby("group")["tasks"].max()
    marked = pd.DataFrame({"†": rows["silent"].eq(True) & (rows["run"] >= 0)})
    marked["vs"], marked["*"] = rows["versus"].notna(), rows["differ"] > 0
    marked["‡"] = rows["changed"].eq(True)
    settings, common = _settings(results, rows, is_shown)
    table = rows.assign(
        settings=settings,
        part=[*map(_part, rows["tasks"], rows["group"].map(most))],
        mark=["".join(s for s in "†*‡" if row[s]) for row in marked.to_dict("records")],
    )
    notes = [f"All models: {', '.join(common)}."] if common else []
    notes += [WORDS["marks"][sign] for sign in marked if marked[sign].any()]
    over = shown["over"].max()
    if over and len(shown) > MOST_SENTENCES:
        table["than_next"] = [shown["verdict"].get(run, "") for run in rows["run"]]
        notes.append(f"than next: paired comparison with the run in the next row ({over}).")
    others = leaderboard.list_others(results).rename(columns={"other": "group"})
    others = others[others["run"].isin(shown.index)]
    if benchmark.of_surveys and len(others):
        whose = table.drop_duplicates("run").set_index("run")[["model", "settings"]]
        table = pd.concat([table, others.join(whose, on="run")], ignore_index=True)
    if benchmark.predicts:
        table = table.drop(columns=["mark", "part", "versus"])
    # Of a run the group with the least stands for all.
    mass = table["choice_mass"].where(_is_leading(table))
    mass = mass.groupby([table["run"], table["model"]]).transform("min")
    table["choice_mass"] = mass.where(~table.duplicated(["run", "model"]))
    notes += [WORDS["choice_mass"]] if mass.notna().any() else []
    shares = {group: share_of(most[group], group) for group in listed}
    asked = "; ".join(
        f"{group}: {describe_group(group)}{share}"
        for group, share in shares.items()
        if share or group in TOGETHER or group in list_unions()
    )
    title = describe_scale(benchmark) + (f". {asked}" if asked else "")
    first = [group for group in listed if group in TOGETHER] or listed[:1]
    more = [group for group in table["group"].unique() if group not in listed]
    order = [*first, *more, *listed]
    return Finding(
        "board", title, table, columns_of("board"), " ".join(notes), across="group", over=order
    )


def _settings(
    results: Results, rows: pd.DataFrame, is_shown: pd.Series
) -> tuple[list[str], list[str]]:
    """Return the settings of rows without those that all runs share, if long; and these."""
    trained = rows["trained"].eq(True).groupby(rows["run"]).transform("any")
    told = rows["run"].map(results.runs["settings"]).fillna("")
    told = ("trained on it, " + told).str.removesuffix(", ").where(trained, told)
    own = [text.split(", ") for text in told[is_shown]]
    is_long = len(own) > 1 and told[is_shown].str.len().max() > LONG
    common = [word for word in own[0] if word and all(word in words for words in own) and is_long]
    return [", ".join(x for x in text.split(", ") if x not in common) for text in told], common


def _sentence(results: Results, benchmark: Benchmark, rows: pd.DataFrame, run: pd.Series) -> str:
    """State the scores of a run, beside those of the respondents that are known."""
    of = rows[rows["run"] == run.name].set_index("group")
    listed, silent = ordered_groups(of.index), of["silent"].astype(bool)
    if run["silent"]:
        answered, mass = of[silent]["answered"].min(), of[silent]["choice_mass"].min()
        if mass < 0.1 or pd.isna(answered):
            why = f"its answer letters have a total probability of {mass:.2g}"
        else:
            why = f"{f'only {answered:.0%}' if answered else 'none'} of its replies can be read"
        return f"{run['model']} does not answer: {why}."
    if benchmark.predicts:
        asked = results.scores[results.scores["run"] == run.name]
        asked = asked.assign(error=own_errors([*asked["draws"]])).sort_values("task")[::-1]
        predicted = " and ".join(
            f"{_rounded(row.value)} ± {row.error:.1f} on {known.entry.declared.group}"
            for row in asked.itertuples()
            if (known := leaf(LeafKey(row.task, row.way))).benchmark.predicts
        )
        return f"{run['model']}: predicted to get {predicted} of 100 in full runs."
    if not benchmark.of_surveys:
        told = f"{benchmark.says[0].lower()}{benchmark.says[1:]} {of['value'][listed[0]]:.2f}"
        known = rows[rows["model"].isin(KNOWN) & (rows["group"] == listed[0])]
        others = "".join(f"; {without_kind(of.model)}: {of.value:.2f}" for of in known.itertuples())
        return f"{run['model']}: {told} ({listed[0]}){others}."
    return f"{run['model']}: {_scores(run, of, headline_groups(listed))}."


def _scores(run: pd.Series, of: pd.DataFrame, asked: Sequence[str]) -> str:
    """State the scores of a run in some groups, how they came about, and what others get."""
    plain = [plain_name(group).replace("single condition", "single conditions") for group in asked]
    names = dict(zip(asked, plain, strict=True))
    said = of.loc[[group for group in asked if not of["silent"][group]]]
    told = " and ".join(
        f"{_rounded(row['value'])} on {names[group]}{share_of(row['tasks'], group)}"
        for group, row in said.iterrows()
    ).replace(" on ", " of 100 on ", 1)
    if limit := run.get("limit", ""):
        part = (
            f"under --limit {limit} (the first cells of each task)"
            if limit != "incomplete"
            else "from a part of each task"
        )
        told += f", {part}"
    if (least := said["answered"].min()) < ANSWERS:
        told += f", {least:.0%} of its prompts answered"
    told += ", after training on these tasks" if of["trained"].eq(True).any() else ""
    told += ", which do not match its distances (‡)" if said["changed"].any() else ""
    known = said[["averages", "guesses"]]
    if run["kind"] == "run" and known.notna().all(axis=None):
        averages, guesses = (" and ".join(dict.fromkeys(map(_rounded, known[x]))) for x in known)
        told += f"; knowing only averages scores {averages}, guessing {guesses}"
    for group, row in of.loc[[group for group in asked if of["silent"][group]]].iterrows():
        metric = "choice_mass" if row["choice_mass"] < 0.1 else "answered"
        told += f"; it does not answer on {names[group]} ({metric} {row[metric]:.2g})"
    return told


def find_topics(results: Results, runs: Sequence[int], group: str) -> pd.DataFrame:
    """Return the mean error of each run in each outcome of a group, most wrong first.

    An error is half the sum of absolute differences, as a mean over people, in points: what has to
    be moved from one answer to another. The survey's own error is taken off, where it is known.
    """
    scores = mean.add_metrics(results.scores, ("l1", "l1_population"))
    scores["l1"] = scores["l1_population"].clip(lower=0).fillna(scores["l1"])
    scores = scores[scores["run"].isin(runs) & (scores["group"] == group)]
    outcomes = [getattr(of.entry.declared, "outcome", None) for of in leaves_of(scores)]
    scores = scores.assign(outcome=outcomes, error=100 * scores["l1"] / 2)
    table = scores.pivot_table("error", "outcome", "run", sort=False).reindex(columns=[*runs])
    return table.sort_values(runs[0], ascending=False, kind="stable")


def _say_topics(results: Results, boards: Sequence[Board]) -> str:
    """Name the topics that the best model knows least."""
    for board in boards:
        best = board.runs[(board.runs["kind"] == "run") & ~board.runs["silent"].astype(bool)]
        groups = ordered_groups(board.rows["group"][board.rows["run"].isin(best.index[:1])])
        if board.benchmark.of_surveys and groups and not board.benchmark.predicts:
            off = find_topics(results, [int(best.index[0])], groups[0]).iloc[:, 0].dropna()
            far = [f"{describe_outcome(x).lower()} ({y:.0f})" for x, y in off[:TOPICS].items()]
            if len(off) > TOPICS:
                return (
                    f"{best['model'].iloc[0]} is furthest off on {', '.join(far)}: mean error in "
                    "percentage points."
                )
    return ""


def headline_groups(listed: Sequence[str]) -> list[str]:
    """Return the groups for a sentence: low and high, or a union with them; else the first."""
    shown = [group for group in listed if find_groups(group) & {*TOGETHER}]
    whole = [c for c in shown if not any(find_groups(c) < find_groups(other) for other in shown)]
    return whole or [*listed[:1]]


def _rounded(score: float) -> str:
    """Write a score for a sentence, as in the table."""
    return f"{score:.1f}".removesuffix(".0")


def _count_rest(results: Results, boards: Sequence[Board]) -> str:
    """Count what is not shown: models, further runs of shown models, groups, notes."""
    runs, left_out = results.runs, sum(board.left_out for board in boards)
    is_shown = runs.index.isin([run for board in boards for run in board.rows["run"]])
    more = runs[~is_shown & runs.index.isin(results.scores["run"])]
    more = more[more["weights"].isin(runs["weights"][is_shown])]
    names = few([without_kind(name) for name in more["model"].unique()])
    tuned = int(runs["base"].notna().sum()) if "base" in runs else 0
    known = sorted({*results.scores["group"]} & list_groups().keys())
    unscored = [group for group in known if not list_groups()[group].scored]
    vague = [x for x in load_truths(results.scores).values() if not Anchors.of(x).informative]
    counts = [
        f"{plural(len(vague), 'task')} cannot tell the truth from a guess: --informative"
        if vague
        else "",
        f"{plural(left_out, 'more model')}: --show leaderboard" if left_out else "",
        f"{plural(len(more), 'more run')} with other settings ({names}): --show leaderboard"
        if len(more)
        else "",
        f"{plural(tuned, 'tuned run')} beside the base: --show tuning" if tuned else "",
        f"{few(unscored)} has no score: --show year-lived" if unscored else "",
        f"{plural(len(results.notes), 'note')}: --show notes" if len(results.notes) else "",
    ]
    return "; ".join(filter(None, counts))


def _suggest_next(results: Results, boards: Sequence[Board], folders: Sequence[Path]) -> str:
    """Suggest the next commands."""
    if not boards:
        none = "No epidemia task is in these results. Next: --show other (tasks of others)"
        return ("Next: --show notes" if len(results.notes) else "") if len(results.scores) else none
    runs = pd.concat([board.runs for board in boards])
    rows = pd.concat([board.rows[board.rows["run"].isin(board.runs.index)] for board in boards])
    mute = rows[rows["silent"].eq(True) & (rows["run"].map(results.runs["kind"]) != "published")]
    for row in mute[:1].itertuples():
        if not row.choice_mass < 0.1:
            return f"Next: read {row.model}'s replies in its samples (--log_samples)."
        chat = results.runs.loc[row.run].get("chat_template", "")
        template = "" if chat else "--apply_chat_template if it is an instruct model, or "
        stated = WAYS["stated"].named(row.group) if row.group in TOGETHER else "a written group"
        return f"Next: {row.model} does not answer with letters: {template}ask {stated}."
    if boards[0].benchmark.predicts:
        return "Next: run epidemia_low,epidemia_high; a quick look predicts but does not rank."
    where = f"--show {WORDS['further'][boards[0].benchmark.name]}"
    fit = (runs["kind"] == "run") & (runs["verdict"] != "not compared")
    names = runs["model"][fit].unique()[:2].tolist()
    if len(names) > 1:
        pair, listed = shlex.join(names), shlex.join(map(str, folders))
        if len(pair) > LONGEST or any(name.startswith("-") for name in names):
            pair = "MODEL OTHER"
        elif any(Path(name).exists() for name in names):
            pair = f"--models {pair}"
        listed = listed if listed and len(listed) <= LONGEST else "RESULTS"
        return f"Next: epidemia compare {pair} {listed}; {where}; --html site/"
    more = "" if (results.runs["kind"] == "published").any() else ", --published (other models)"
    by = " (score by survey)" if where == "--show survey" else ""
    return f"Next: {where}{by}, --html site/ (every task){more}"
