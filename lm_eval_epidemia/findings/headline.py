"""What a reader has to know first: the best models in sentences, and a small table each."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from lm_eval_epidemia.benchmarks import (
    OBSERVATION,
    WAYS,
    Benchmark,
    groups,
    members,
    unions,
    within,
)
from lm_eval_epidemia.core.errors import EpidemiaError, few, plural
from lm_eval_epidemia.findings.finding import Column, Finding
from lm_eval_epidemia.findings.leaderboard import (
    TOGETHER,
    beside,
    in_order,
    leaderboard_table,
    ordered_groups,
    pool_of,
)
from lm_eval_epidemia.findings.pairs import compared
from lm_eval_epidemia.findings.references import AVERAGES, UNIFORM
from lm_eval_epidemia.findings.words import CHOICE_MASS, plain_name, scale, with_example
from lm_eval_epidemia.results.compare import compare
from lm_eval_epidemia.results.naming import respondent, without_kind
from lm_eval_epidemia.results.read import Results

#: The best models that are shown, and up to how many have a sentence each.
MOST_ROWS, MOST_SENTENCES = 10, 3

#: Names of two models, and folders, that stand in a command.
LONGEST = 44

#: What the marks in a table are.
MARKS = {
    "†": "†: does not answer this group (choice_mass or answered below 0.1), so it has no rank.",
    "vs": "vs: the score for knowing averages only, on the same prompts.",
    "*": "*: other results with the same settings differ: the newest one counts.",
    "‡": "‡: scores that do not match their distances: see the notes.",
}

#: How verdicts read between two models.
VERDICTS = {
    "better": "is shown better than",
    "better here": "is shown better in these tasks than",
    "not shown": "is not shown better than",
    "worse here": "is shown worse in these tasks than",
    "worse": "is shown worse than",
    "not compared": "was asked in another way than",
}


class Board(NamedTuple):
    """A benchmark on a screen.

    Attributes
    ----------
    benchmark : Benchmark
    rows : DataFrame
        Of the leaderboard: one run per model, the best models, then respondents.
    runs : list of int
        Those of the models, the best first; of respondents where there are no models.
    verdicts : dict of int to str
        By run: the verdict on it against the next one.
    over : str
        The group, or two together, in which these are compared.
    left_out : int
        How many models have no row.
    finding : Finding
        What people see.
    sentence : str
        On the best model.
    """

    benchmark: Benchmark
    rows: pd.DataFrame
    runs: list[int]
    verdicts: dict[int, str]
    over: str
    left_out: int
    finding: Finding
    sentence: str = ""

    @property
    def groups(self) -> list[str]:
        return ordered_groups(self.rows["group"])

    def of(self, run: int) -> pd.DataFrame:
        """Return the rows of a run, by group."""
        return self.rows[self.rows["run"] == run].set_index("group")


class Headline(NamedTuple):
    """The contents of the first screen."""

    sentences: list[str]
    boards: list[Board]
    lines: list[str]


def headline(
    results: Results, folders: Sequence[Path] = (), unread: Sequence[str] = ()
) -> Headline:
    """Say on one screen who knows the world best, and what to read next."""
    table = leaderboard_table(results)
    table = table.assign(
        model=table.get("model", "").where(
            table["run"] < 0, table["run"].map(results.runs["model"])
        ),
        kind=table["run"].map(results.runs["kind"]).fillna("respondent"),
        benchmark=table["group"].map(groups()),
    )
    parts = [*table.groupby("benchmark", sort=False)]
    order = [*dict.fromkeys(groups()[group] for group in ordered_groups(table["group"]))]
    parts.sort(key=lambda part: order.index(part[0]))
    most = MOST_ROWS if len(parts) == 1 else max(3, 8 // max(1, len(parts)))
    boards = [_board(results, of, rows, most) for of, rows in parts]
    sentences = [says for board in boards for says in _sentences(results, board, len(boards) > 1)]
    lines = [*unread, *_counts(results, boards), _next(results, boards, folders)]
    return Headline(sentences, boards, lines)


def _board(results: Results, benchmark: Benchmark, rows: pd.DataFrame, most: int) -> Board:
    """Choose one run of each model, and compare neighbours."""
    asked = rows.groupby("run").agg(seen=("seen", "sum")).assign(silent=_silent(rows))
    own = rows[rows["run"] >= 0]
    first = rows[rows["group"].isin(TOGETHER)].groupby("run")["seen"].sum()
    best: dict[Any, int] = {}
    for run in sorted(
        dict.fromkeys(own["run"]),
        key=lambda run: (
            bool(asked["silent"][run]),
            -first.get(run, 0),
            -asked["seen"][run],
            *_usual(results, run),
        ),
    ):
        best.setdefault(results.runs["weights"][run], run)
    runs = [*best.values()]
    kinds = results.runs["kind"]
    # Respondents are held against models; alone, they are what is shown.
    who = [run for run in runs if kinds[run] == "run"] or [
        run for run in runs if kinds[run] == "respondent"
    ]
    tested = who + [run for run in runs if kinds[run] == "published"]
    here = in_order(rows[rows["run"].isin(tested)], results.runs)
    # Whoever was asked most stands first.
    share = asked["seen"][tested]
    ordered = [*dict.fromkeys(here["run"])]
    ordered.sort(
        key=lambda run: (
            bool(asked["silent"][run]),
            kinds[run] == "published",
            _asked_as(results, run, share),
            -round(share[run], 6),
        )
    )
    shown = ordered[:most]
    # Those that are held against any run have rows of their own.
    names = [respondent(kind) for kind in (AVERAGES, UNIFORM)]
    known = [
        run
        for run in runs
        if kinds[run] == "respondent"
        and run not in tested
        and (results.runs["model"][run] not in names or benchmark is not OBSERVATION)
    ]
    room = max(2, most - len(shown))
    listed = {*here[here["run"].isin(shown)]["group"]}
    is_own = (rows["run"] < 0) & (rows["kind"] == "respondent") & (benchmark is OBSERVATION)
    beside_them = rows[rows["run"].isin(known[:room]) | is_own]
    parts = [here[here["run"] == run] for run in shown]
    chosen = pd.concat([*parts, beside_them[beside_them["group"].isin(listed)]], ignore_index=True)
    over, verdicts = _verdicts(results, benchmark, chosen, shown)
    left_out = len(ordered[most:]) + len(known[room:])
    board = Board(benchmark, chosen, shown, verdicts, over, left_out, Finding("", "", chosen))
    sentence = next(_sentences(results, board, True), "")
    return board._replace(finding=_finding(results, board), sentence=sentence)


def _leading(rows: pd.DataFrame) -> pd.Series:
    """Return which rows tell of their runs: those of low and high, where these were asked."""
    together = rows["group"].isin(TOGETHER)
    return together | ~rows["run"].isin(rows["run"][together])


def _silent(rows: pd.DataFrame) -> pd.Series:
    """Return by run whether it does not answer."""
    return rows[_leading(rows)].groupby("run")["silent"].all()


def _usual(results: Results, run: int) -> tuple[bool, float]:
    """Order runs of a model: the usual wording, then the newest."""
    date = results.runs["date"][run]
    worded = results.runs["wording"][run] if "wording" in results.runs else ""
    return worded != "", -(date if date == date else -math.inf)


def _asked_as(results: Results, run: int, share: pd.Series) -> tuple[float, str]:
    """Order runs asked in one way together, those first in which most was asked."""
    scores = results.scores
    how = scores.groupby("run")["asked_as"].agg(lambda of: "|".join(sorted({*of})))
    alike = [other for other in share.index if how.get(other) == how.get(run)]
    return -max(share[other] for other in alike), how.get(run, "")


def _verdicts(
    results: Results, benchmark: Benchmark, rows: pd.DataFrame, shown: Sequence[int]
) -> tuple[str, dict[int, str]]:
    """Compare each run with the next, over the groups that most of them share."""
    silent = _silent(rows)
    doubted = rows.groupby("run")["changed"].any()
    runs = [
        run
        for run in shown
        if results.runs["kind"][run] != "published" and not silent[run] and not doubted[run]
    ]
    if benchmark.predicted or len(runs) < 2:
        return "", {}
    asked = rows[rows["run"].isin(runs)]["group"].value_counts()
    together = all(asked.get(group) == len(runs) for group in TOGETHER)
    first = max(ordered_groups(asked.index), key=lambda group: asked[group])
    over = " + ".join(TOGETHER) if together else first
    scores, pool = compared(results), pool_of(results)
    of = {run: scores[(scores["run"] == run) & (scores["group"] == over)] for run in runs}
    verdicts = {}
    for run, other in pairwise(runs):
        made = compare(of[run], of[other], pool)
        verdicts[run] = made.verdict if made else "not compared"
    return over, verdicts


def share_of(tasks: float, group: str) -> str:
    """Say how many of a group's available tasks were asked, unless all were."""
    try:
        here = len(members(group))
    except EpidemiaError:
        return ""  # no truth of them can be used here
    return f" ({tasks:.0f} of {plural(here, 'task')})" if tasks < here else ""


def _finding(results: Results, board: Board) -> Finding:
    """Return the table of a board: a row per model, a column per group."""
    rows, benchmark = board.rows, board.benchmark
    counts = rows[rows["run"].isin(board.runs)].groupby("group")["tasks"].max()
    part = [
        f"{tasks:.0f} of {plural(int(counts[group]), 'task')}" if tasks < counts[group] else ""
        for tasks, group in zip(rows["tasks"], rows["group"], strict=True)
    ]
    mark = [
        ("†" if silent and run >= 0 else "") + ("*" if differ else "") + ("‡" if changed else "")
        for run, silent, differ, changed in zip(
            rows["run"],
            rows["silent"].fillna(False),
            rows["differ"].fillna(0),
            rows["changed"].fillna(False),
            strict=True,
        )
    ]
    settings = rows["run"].map(results.runs["settings"]).fillna("")
    trained = rows["trained"].fillna(False).groupby(rows["run"]).transform("any")
    settings = [
        "trained on it" + (f", {of}" if of else "") if was else of
        for was, of in zip(trained, settings, strict=True)
    ]
    common = _common([s for s, run in zip(settings, rows["run"], strict=True) if run in board.runs])
    table = rows.assign(
        settings=[_without(of, common) for of in settings],
        part=part,
        mark=mark,
        than_next=rows["run"].map(board.verdicts).fillna("")
        if len(board.runs) > MOST_SENTENCES
        else "",
    )
    if benchmark is OBSERVATION:
        others = beside(results)
        others = others[others["run"].isin(board.runs)]
        whose = table.drop_duplicates("run").set_index("run")[["model", "settings"]]
        more = others.join(whose, on="run").rename(columns={"other": "group"})
        table = pd.concat([table, more], ignore_index=True) if len(more) else table
    # Of a run the group with the least stands for all.
    shares = table["choice_mass"].where(_leading(table))
    mass = shares.groupby([table["run"], table["model"]]).transform("min")
    first = ~table.duplicated(["run", "model"])
    table["choice_mass"] = mass.where(first)
    if benchmark.predicted:
        columns = {"value": Column()}
    else:
        columns = {
            "value": Column(error="error"),
            "mark": Column(" "),
            "part": Column("of"),
            "versus": Column("vs", digits=0),
        }
    columns = {
        "model": Column(),
        "settings": Column(),
        **columns,
        "choice_mass": Column("choice mass", digits=2),
        "than_next": Column("than next"),
    }
    asked = "; ".join(
        f"{group}: {with_example(group)}{share_of(counts[group], group)}"
        for group in board.groups
        if group in counts
        and (group in TOGETHER or group in unions() or share_of(counts[group], group))
    )
    marks = "".join(mark)
    notes = [f"All runs: {', '.join(common)}."] if common else []
    notes += [
        says
        for sign, says in MARKS.items()
        if sign in marks or (sign == "vs" and table["versus"].notna().any())
    ]
    if board.over and table["than_next"].any():
        notes.append(f"than next: paired comparison with the run in the next row ({board.over}).")
    if table["choice_mass"].notna().any():
        notes.append(f"choice mass: {CHOICE_MASS}")
    title = scale(benchmark) + (f". {asked}" if asked else "")
    first = [group for group in board.groups if group in TOGETHER] or board.groups[:1]
    others = [group for group in dict.fromkeys(table["group"]) if group not in board.groups]
    over = [*first, *others, *board.groups]
    return Finding("board", title, table, columns, " ".join(notes), across="group", over=over)


def _common(settings: Sequence[str]) -> list[str]:
    """Return the settings that all runs share, if repeating them in every row would be long."""
    each = [text.split(", ") for text in dict.fromkeys(settings)]
    if len(settings) < 2 or max(map(len, settings), default=0) <= 24:
        return []
    return [word for word in each[0] if word and all(word in of for of in each)]


def _without(settings: str, common: Sequence[str]) -> str:
    return ", ".join(word for word in settings.split(", ") if word not in common)


def _sentences(results: Results, board: Board, many: bool) -> Iterator[str]:
    """State the scores of the best model, or of each of a few, with verdicts between these."""
    runs = [run for run in board.runs if results.runs["kind"][run] != "published"] or board.runs
    if board.rows.empty:
        return
    short = len(runs) + board.left_out <= MOST_SENTENCES and not many
    for run in runs if short else runs[:1]:
        yield _sentence(results, board, run)
    if board.verdicts and len(board.runs) <= MOST_SENTENCES:
        says = "; ".join(_verdict(results, board, run) for run in board.verdicts)
        yield f"{says} ({board.over})."


def _verdict(results: Results, board: Board, run: int) -> str:
    other = board.runs[board.runs.index(run) + 1]
    names = [results.runs["model"][of] for of in (run, other)]
    verdict = board.verdicts[run]
    says = f"{names[0]} {VERDICTS[verdict]} {names[1]}"
    if verdict != "not compared":
        return says
    ways = [results.runs["settings"][of] or "the default" for of in (run, other)]
    return f"{says} ({ways[0]}, not {ways[1]})"


def _sentence(results: Results, board: Board, run: int) -> str:
    """State the scores of a run, beside those of the respondents that are known."""
    name, of, benchmark = results.runs["model"][run], board.of(run), board.benchmark
    if _silent(board.rows)[run]:
        of = of[of["silent"].astype(bool)]
        answered = of["answered"].min()
        if answered == answered and not of["choice_mass"].min() < 0.1:
            share = f"only {answered:.0%}" if answered else "none"
            return f"{name} does not answer: {share} of its replies can be read."
        mass = of["choice_mass"].min()
        return f"{name} does not answer: its answer letters have a total probability of {mass:.2g}."
    if benchmark.predicted:
        predicted = " and ".join(
            f"{_rounded(value)} on {group}" for group, value in _predictions(results, run)
        )
        return f"{name}: predicted to get {predicted} of 100 in full runs."
    listed = [group for group in board.groups if group in of.index]
    if benchmark is not OBSERVATION:
        group, says = listed[0], benchmark.says
        rows = board.rows[(board.rows["kind"] == "respondent") & (board.rows["group"] == group)]
        others = "".join(
            f"; {without_kind(model)}: {value:.2f}"
            for model, value in zip(rows["model"], rows["value"], strict=True)
            if model in (respondent(AVERAGES), respondent(UNIFORM))
        )
        return f"{name}: {says[0].lower()}{says[1:]} {of['value'][group]:.2f} ({group}){others}."
    asked = headline_groups(listed)
    said = [group for group in asked if not of["silent"][group]]
    scores = " and ".join(
        f"{_rounded(of['value'][g])}{' of 100' if g == said[0] else ''} on {_plural(g)}"
        f"{share_of(of['tasks'][g], g)}"
        for g in said
    )
    scores += _cut(results, run)
    scores += ", after training on these tasks" if of["trained"].fillna(False).any() else ""
    if of["changed"][said].any():
        scores += ", which do not match its distances (‡)"
    known = of.loc[said, ["averages", "guesses"]]
    if results.runs["kind"][run] == "run" and known.notna().all(axis=None):
        averages, guesses = (" and ".join(dict.fromkeys(map(_rounded, known[x]))) for x in known)
        scores += f"; knowing only averages scores {averages}, guessing {guesses}"
    for group in (g for g in asked if g not in said):
        metric = "choice_mass" if of["choice_mass"][group] < 0.1 else "answered"
        scores += f"; it does not answer on {_plural(group)} ({metric} {of[metric][group]:.2g})"
    return f"{name}: {scores}."


def headline_groups(listed: Sequence[str]) -> list[str]:
    """Return the groups for a sentence: low and high, or a union with them; else the first."""
    shown = [group for group in listed if within(group) & {*TOGETHER}]
    whole = [c for c in shown if not any(within(c) < within(other) for other in shown)]
    return whole or [*listed[:1]]


def _predictions(results: Results, run: int) -> list[tuple[str, float]]:
    """Return the scores that a run's quick looks predict, by group."""
    from lm_eval_epidemia.results.entry import Asked, leaf

    own = results.scores[results.scores["run"] == run].sort_values("task", ascending=False)
    asked = [Asked(task, way) for task, way in zip(own["task"], own["way"], strict=True)]
    return [
        (leaf(a).entry.declared.group, value)
        for a, value in zip(asked, own["value"], strict=True)
        if leaf(a).benchmark.predicted
    ]


def _rounded(score: float) -> str:
    """Write a score for a sentence, as in the table."""
    return f"{score:.1f}".removesuffix(".0")


def _cut(results: Results, run: int) -> str:
    """Say which cells a score covers, unless it covers all."""
    limit = results.runs["limit"][run] if "limit" in results.runs else ""
    if limit == "incomplete":
        return ", from a part of each task"
    return f", under --limit {limit}" if limit else ""


def _plural(group: str) -> str:
    return plain_name(group).replace("single condition", "single conditions")


def _counts(results: Results, boards: Sequence[Board]) -> list[str]:
    """Count what is not shown: models, further runs of shown models, groups, notes."""
    counts = []
    if left_out := sum(board.left_out for board in boards):
        counts.append(f"{plural(left_out, 'more model')}: --show leaderboard")
    shown = {run for board in boards for run in board.rows["run"]}
    weights = {results.runs["weights"][run] for run in shown if run >= 0}
    scored = {*results.scores["run"]}
    more = [
        run
        for run in results.runs.index
        if run not in shown and run in scored and results.runs["weights"][run] in weights
    ]
    if more:
        names = [without_kind(name) for name in dict.fromkeys(results.runs["model"][more])]
        counts.append(
            f"{plural(len(more), 'more run')} with other settings ({few(names)}): "
            "--show leaderboard"
        )
    if "base" in results.runs and (tuned := results.runs["base"].notna().sum()):
        counts.append(f"{plural(int(tuned), 'tuned run')} beside the base: --show tuning")
    listed = {*results.scores["group"]}
    if unscored := sorted(
        group for group in listed if group in groups() and not groups()[group].scored
    ):
        counts.append(f"{few(unscored)} has no score: --show year-lived")
    if len(results.notes):
        counts.append(f"{plural(len(results.notes), 'note')}: --show notes")
    return ["; ".join(counts)] if counts else []


#: The finding that says where models go wrong, by benchmark.
FURTHER = {"observation": "survey", "intervention": "interventions", "prior": "wins"}


def _next(results: Results, boards: Sequence[Board], folders: Sequence[Path]) -> str:
    """Suggest the next commands."""
    if not boards:
        return "Next: --show notes"
    for board in boards:
        for run in board.runs:
            of = board.of(run)
            if results.runs["kind"][run] != "published" and of["silent"].any():
                group = of.index[of["silent"].astype(bool)][0]
                return _mute(results, run, group, of.loc[group])
    if boards[0].benchmark.predicted:
        return "Next: run epidemia_low,epidemia_high; a quick look predicts but does not rank."
    where = f"--show {FURTHER[boards[0].benchmark.name]}"
    runs = [run for board in boards for run in board.runs if results.runs["kind"][run] == "run"]
    names = list(dict.fromkeys(results.runs["model"][runs]))
    if len(names) > 1:
        pair, listed = shlex.join(names[:2]), shlex.join(map(str, folders))
        fits = len(pair) <= LONGEST and not any(name.startswith("-") for name in names[:2])
        pair = pair if fits else "MODEL OTHER"
        listed = listed if listed and len(listed) <= LONGEST else "RESULTS"
        return f"Next: epidemia compare {pair} {listed}; {where}; --html site/"
    more = "" if (results.runs["kind"] == "published").any() else ", --published (other models)"
    by = " (score by survey)" if where == "--show survey" else ""
    return f"Next: {where}{by}, --html site/ (every task){more}"


def _mute(results: Results, run: int, group: str, row: pd.Series) -> str:
    name = results.runs["model"][run]
    if not row["choice_mass"] < 0.1:
        return f"Next: read {name}'s replies in its samples (--log_samples)."
    chat = results.runs["chat_template"][run] if "chat_template" in results.runs else ""
    template = "" if chat else "--apply_chat_template if it is an instruct model, or "
    stated = f" {WAYS['stated'].named(group)}" if group in TOGETHER else " a written group"
    return f"Next: {name} does not answer with letters: {template}ask{stated}."
