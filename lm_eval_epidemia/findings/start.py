"""What a first page shows: who knows the surveys best, telling questions, who is wrong where.

Rules choose who is compared with whom, which questions are drawn and which topics come first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lm_eval_epidemia.ask.prompts import find_variables
from lm_eval_epidemia.benchmarks import Benchmark, in_way, list_groups, list_leaves
from lm_eval_epidemia.core.errors import plural
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import leaderboard, mean, words
from lm_eval_epidemia.findings.cells import collect_answers
from lm_eval_epidemia.findings.compare import compare_scores
from lm_eval_epidemia.findings.headline import KNOWN, choose_runs, find_topics, share_of
from lm_eval_epidemia.findings.pairs import comparable_scores
from lm_eval_epidemia.findings.words import WORDS, describe_group, describe_outcome, describe_task
from lm_eval_epidemia.results.choose import own_scores
from lm_eval_epidemia.results.decode import LeafKey, leaf
from lm_eval_epidemia.results.naming import without_kind
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.results.samples import sample_file
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.estimates import interval
from lm_eval_epidemia.surveys.catalogue import all_tasks, find_record, records

#: So many questions are drawn.
DRAWN = 6

#: A survey whose sampling errors are larger, in probabilities, tells little in a small picture.
LARGEST_NOISE = 0.025

#: All are wrong about a question if the best of them is so far off, as a mean over people.
WRONG = 0.05

#: The best model is visibly wrong if one of its answers is so far outside the survey's interval; a
#: question where it is tells twice as much.
VISIBLE = 0.015

#: Words about people in a sentence on top, which has ten more.
MOST_WORDS = 10

#: Answers that say that something is not so: of two answers the other one is drawn.
NEGATIVE = ("No", "0")


class Panel(NamedTuple):
    """The runs that answered the same questions.

    Attributes
    ----------
    title : str
    benchmark : Benchmark
    rows : DataFrame
        A row per run, as in the leaderboard, with its ``name``, ``why`` it is not ranked (or ""),
        its ``own`` settings, and whether it is the ``usual`` run of its model.
    common : list of str
        Settings of all these runs.
    folded : dict of str to list of str
        What is said of models in place of a row: they have nothing to tell.
    """

    title: str
    benchmark: Benchmark
    rows: pd.DataFrame
    common: list[str]
    folded: dict[str, list[str]]


class Question(NamedTuple):
    """A question with its answers over an ordered condition.

    Attributes
    ----------
    task, survey, title, answer : str
        `answer` is the drawn level (empty if "Yes").
    level : int
        Its place among the answers.
    cells : DataFrame
        By level of the condition (``given``): ``truth``, ``low``, ``high``, and ``average``.
    answers : dict of int to ndarray
        By run, what it says in each cell.
    worth, wrong : float
        How telling the picture is, and how far off the best model is, as a mean over people.
    """

    task: str
    survey: str
    title: str
    answer: str
    level: int
    cells: pd.DataFrame
    answers: dict[int, Any]
    worth: float
    wrong: float

    def find_worst(self, run: int) -> int:
        """Return the cell in which a run is furthest off."""
        return int((self.answers[run] - self.cells["truth"]).abs().argmax())


class Start(NamedTuple):
    """The contents of the first page.

    Attributes
    ----------
    sentences : list of str
    panels : list of Panel
        The first is what the sentences are about.
    compared : list of int
        Runs of the first panel, one per model, the best first.
    drawn : list of int
        Those whose answers are in the questions; others, if none of them has any.
    unknown : list of int
        Compared runs without any answer in their files.
    questions : list of Question
    topics : DataFrame
        A row per outcome, a column per compared run: mean error in percentage points.
    """

    sentences: list[str]
    panels: list[Panel]
    compared: list[int]
    drawn: list[int]
    unknown: list[int]
    questions: list[Question]
    topics: pd.DataFrame

    @property
    def pictured(self) -> dict[int, str]:
        """The runs that every picture shows: the best, and of more than two the middle one."""
        middle = self.drawn[len(self.drawn) // 2 :][:1] if len(self.drawn) > 2 else []
        return dict.fromkeys(self.drawn[:1], "best") | dict.fromkeys(middle, "middle")


def make_start(results: Results, board: pd.DataFrame | None = None) -> Start:
    """Choose what the first page shows; `board` is the `leaderboard_table`, if known."""
    board = leaderboard.leaderboard_table(results) if board is None else board
    panels = _make_panels(results, board[board["run"] >= 0])
    if not panels or not panels[0].benchmark.of_surveys:
        return Start([], panels, [], [], [], [], pd.DataFrame())
    first = panels[0].rows
    ranked = first[first["why"] == ""]
    compared = [*(ranked if len(ranked) else first).drop_duplicates("model")["run"]]
    first = first.set_index("run").loc[compared]
    topics = find_topics(results, compared, first["group"].iloc[0])
    trained = {run for of in panels for run in of.rows["run"][of.rows["trained"]]}
    drawn, questions = _choose_questions(results, compared, trained)
    sentences = _say(results, first)
    for least, off in topics.iloc[:1, 0].items():
        far = f"“{describe_outcome(str(least)).lower()}”: {off:.0f} percentage points"
        worst = _say_worst(first["name"], questions)
        sentences.append(worst or f"{first['name'].iloc[0]} is furthest off on {far}.")
    unknown = _find_unknown(results, compared)
    return Start(sentences, panels, compared, drawn, unknown, questions, topics)


def _find_unknown(results: Results, runs: Sequence[int]) -> list[int]:
    """Return the runs of which no file holds an answer."""
    asked = own_scores(results)
    asked = asked[asked["run"].isin(runs)]
    keys = [LeafKey(*of) for of in zip(asked["task"], asked["way"], strict=True)]
    rows = zip(asked["run"], asked["file"], keys, asked["said"], strict=True)
    known = {run for run, file, of, said in rows if isinstance(said, str) or sample_file(file, of)}
    return [run for run in runs if run not in known]


def _make_panels(results: Results, rows: pd.DataFrame) -> list[Panel]:
    """Put runs that answered the same questions together; the first page is about the first."""
    whose = results.runs.reindex(columns=["model", "settings", "kind", "limit"]).fillna("")
    rows = rows.drop(columns=["model", "kind"], errors="ignore").join(whose, on="run")
    rows[["trained", "silent", "changed"]] = rows[["trained", "silent", "changed"]].eq(True)
    asked = mean.group_scores(results.scores).query("value == value").groupby(["run", "group"])
    asked = asked.agg(set=("task", frozenset), asked_as=("asked_as", frozenset))
    rows, panels = rows.join(asked, on=["run", "group"]), list[Panel]()
    for group in leaderboard.ordered_groups(rows["group"]):
        alike = rows[rows["group"] == group].groupby(["set", "limit"], sort=False)
        parts = sorted(alike, key=lambda part: (-len(part[0][0]), part[0][1], -len(part[1])))
        panels += [_make_panel(results, of, str(group), *key) for key, of in parts]
    # A first page is about what somebody untrained answered.
    can = [of.benchmark.of_surveys and "" in {*of.rows["why"]} for of in panels]
    panels.insert(0, panels.pop(can.index(True) if any(can) else 0)) if panels else None
    return panels


def _make_panel(
    results: Results, rows: pd.DataFrame, group: str, tasks: frozenset[str], limit: str
) -> Panel:
    """Put the runs of a panel in their order, without what all of them share."""
    kind = "run" if (rows["kind"] == "run").any() else "respondent"
    # The tick of averages and the end of the scale say the same.
    rows = rows[(rows["kind"] == kind) | ~rows["model"].isin(KNOWN)]
    rows = rows.assign(
        name=rows["model"].map(without_kind),
        usual=rows["run"].isin(choose_runs(results, rows).index),
    )
    rows["why"] = _find_reasons(rows, kind)
    lead = list_groups()[group].lead
    rows["last"] = rows["trained"] * 1 + (rows["why"] != "")
    rows = rows.sort_values(["last", "value"], ascending=[True, not lead.higher_is_better])
    settings = [[*filter(None, text.split(", "))] for text in rows["settings"]]
    common = [word for word in settings[0] if len(rows) > 1 and all(word in of for of in settings)]
    rows["own"] = [[word for word in of if word not in common] for of in settings]
    is_zero = (rows["value"] == lead.low) & ~(rows["error"] > 0)
    mute = (rows["silent"] | is_zero) & (rows["kind"] == "run")
    mute &= not mute.all()
    says = rows["why"].where(rows["silent"], f"{lead.low:g} in all")[mute]
    folded = {str(text): [*of.unique()] for text, of in rows["model"][mute].groupby(says)}
    return Panel(_title(group, tasks, limit), list_groups()[group], rows[~mute], common, folded)


def _find_reasons(rows: pd.DataFrame, kind: str) -> Any:
    """Say of every run why it is not ranked with others of its kind; of those that are, nothing."""
    can = (rows["kind"] == kind) & ~(rows["silent"] | rows["trained"] | rows["changed"])
    ways = [*rows["asked_as"][can & rows["usual"]]]
    reasons = {
        "": can & (rows["asked_as"] == max(ways, key=ways.count, default=None)),
        "does not answer": rows["silent"],
        "trained on these questions": rows["trained"],
        "asked in other words": rows["kind"] == "published",
        "reference": rows["kind"] == "respondent",
        "its scores do not match its distances": rows["changed"],
    }
    return np.select([*reasons.values()], [*reasons], "asked in another way")


def _title(group: str, tasks: frozenset[str], limit: str) -> str:
    """Name a set of questions in words."""
    part = share_of(len(tasks), group).replace(" task", " question").strip(" ()")
    facets = [of.entry.facets for of in list_leaves().values() if of.entry.name in tasks]
    surveys = {str(of.get("survey", "")) for of in facets}
    says = f"{describe_group(group)}: {part or plural(len(tasks), 'question')}"
    if part and len(surveys) == 1 and surveys <= {*records()}:
        short = find_record(surveys.pop()).title.partition(",")[0]
        says = f"{short}: {part}, {describe_group(group)}"
    first = "a part" if limit == "incomplete" else f"the first {limit} conditions"
    return says[0].upper() + says[1:] + (f", {first} of each" if limit else "")


def _say(results: Results, rows: pd.DataFrame) -> list[str]:
    """Say in one sentence who is best, compared with what; in another who is next."""
    best, known = rows.iloc[0], rows["averages"].iloc[0]
    beside = "" if pd.isna(known) else f"; knowing only averages gets {known:.0f}"
    if len(rows) < 2:
        return [f"{best['name']} gets {best['value']:.0f} of 100{beside}."]
    scores, pool = comparable_scores(results), leaderboard.pool_of(results)
    scores = scores[scores["group"] == best["group"]]
    one, two = (scores[scores["run"] == run] for run in rows.index[:2])
    made, other = compare_scores(one, two, pool), rows.iloc[1]
    shown = WORDS["differences"].get(made.verdict if made else "", "too close to call")
    first = f"{best['name']} knows these surveys best: {best['value']:.0f} of 100{beside}."
    return [first, f"{other['name']} comes second with {other['value']:.0f}: {shown}."]


def _say_worst(names: pd.Series, questions: Sequence[Question]) -> str:
    """Say in a sentence the largest drawn error of the best model that few words can say."""
    errors, best, even = [], names.index[0], "Even " if len(names) > 1 else ""
    for of in (of for of in questions if best in of.answers):
        says, truth = of.answers[best][at := of.find_worst(best)], of.cells["truth"][at]
        event = words.say_event(store.load_truth(of.task), at, of.answer or "Yes")
        text = f"{even}{names[best]} says that {says:.0%} of {event}; the survey says {truth:.0%}."
        can = 0 < len(event.split()) <= MOST_WORDS and f"{says:.0%}" != f"{truth:.0%}"
        errors += [(abs(says - truth), text)] if can else []
    return max(errors)[1] if errors else ""


def _choose_questions(
    results: Results, compared: Sequence[int], trained: Collection[int]
) -> tuple[list[int], list[Question]]:
    """Choose the questions that tell most: of each survey one, then others.

    At least one is such that all are wrong, if there is one.
    """
    made, _ = collect_answers(results, _is_drawable)
    others = sorted({run for run, _ in made})
    runs = [run for run in compared if run in others]
    # Without answers of who is compared, other models show what a question looks like: those that
    # were not trained on it first.
    others = [run for run in others if run not in trained] or others
    runs = runs or [*{results.runs["model"][run]: run for run in reversed(others)}.values()]
    tasks = dict.fromkeys(asked for run, asked in sorted(made) if run in runs)
    said = {of: {run: made[run, of].q for run in runs if (run, of) in made} for of in tasks}
    found = [of for of in map(_measure, said, said.values()) if of and of.worth > 0]
    found.sort(key=lambda of: -of.worth)
    surveys = {of.survey: of for of in reversed(found)}
    first = [of for of in found if of is surveys[of.survey]][:DRAWN]
    chosen = first + [of for of in found if of is not surveys[of.survey]][: DRAWN - len(first)]
    worst = max(found, key=lambda of: of.wrong, default=None)
    if worst and worst.wrong >= WRONG > max(of.wrong for of in chosen):
        chosen[-1] = worst
    return [run for run in runs if any(run in of.answers for of in chosen)], chosen


def _is_drawable(asked: LeafKey) -> bool:
    """Whether a question is asked by letter over one condition with an order, and can be drawn."""
    known = asked.task in all_tasks() and asked.task in store.list_available()
    if asked.way != "letters" or not known or len(given := all_tasks()[asked.task].given) != 1:
        return False
    return bool(find_variables(store.load_truth(asked.task))[given[0]].ordered)


def _measure(asked: LeafKey, answers: dict[int, Any]) -> Question | None:
    """Measure how telling a question is, in the level that varies most.

    More so if the first who answered is visibly wrong.
    """
    truth = store.load_truth(asked.task)
    answers = {run: q for run, q in answers.items() if len(q) == len(truth.p)}
    if not answers or len(truth.p) < 3:
        return None
    low, high = interval(truth.p, truth.n_eff)
    weights, stated = truth.weights, np.array([*answers.values()])
    noise = weights @ ((high - low) / (2 * mean.REACH)) ** 2
    varies = np.array([np.cov(p, aweights=weights) for p in truth.p.T])
    off = weights @ np.abs(stated - truth.p)  # (runs, levels)
    differ = weights @ stated.std(axis=0, ddof=1) if len(stated) > 1 else off[0]
    worth = np.sqrt(np.maximum(varies - noise, 0)) * differ * (noise < LARGEST_NOISE**2)
    worth *= [len(truth.levels) > 2 or level not in NEGATIVE for level in truth.levels]
    at = int(np.argmax(worth))
    worth *= 1 + (np.maximum(low - stated[0], stated[0] - high)[:, at].max() > VISIBLE)
    average = scoring.answer_marginal(weights, truth.p)
    columns = {"truth": truth.p, "low": low, "high": high, "average": average}
    cells = pd.DataFrame({name: of[:, at] for name, of in columns.items()})
    cells.insert(0, "given", [given for (given,) in truth.given])
    answer = truth.levels[at].removeprefix("Yes")
    about = in_way(*asked), truth.survey, describe_task(leaf(asked).entry, answer), answer, at
    says = {run: q[:, at] for run, q in answers.items()}
    return Question(*about, cells, says, float(worth[at]), float(off[:, at].min()))
