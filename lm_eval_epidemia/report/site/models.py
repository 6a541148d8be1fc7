"""A page per model: findings, its worst and best tasks; and how its replies were read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from markupsafe import Markup

from lm_eval_epidemia.benchmarks import WAYS, in_way, list_leaves
from lm_eval_epidemia.benchmarks.prior.quantities.families import FAMILIES
from lm_eval_epidemia.core.errors import plural
from lm_eval_epidemia.findings.cells import collect_answers, curve, join_truth
from lm_eval_epidemia.findings.finding import Column, Finding
from lm_eval_epidemia.findings.headline import find_topics, share_of
from lm_eval_epidemia.findings.mean import REACH, add_metrics
from lm_eval_epidemia.findings.start import Start
from lm_eval_epidemia.findings.words import WORDS, describe_outcome, describe_question, plain_name
from lm_eval_epidemia.report import charts
from lm_eval_epidemia.report.render import format_column
from lm_eval_epidemia.results.choose import keep_runs, settings_of_runs
from lm_eval_epidemia.results.decode import LeafKey, leaf, leaves_of, to_printable
from lm_eval_epidemia.results.documents import decode_line
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.results.samples import NOT_A_SAMPLE, TaskAnswers, sample_file
from lm_eval_epidemia.score.calibration_line import fit_differences
from lm_eval_epidemia.score.joint import own_errors

#: How many tasks are drawn at either end.
SHOWN = 3

#: An answer is visibly wrong if it is so far off for so large a part of the people.
FAR, MANY = 0.1, 0.02

ORDINALS = ["First", "Second", "Third", "Fourth", "Fifth", "Sixth", "Seventh", "Eighth"]

#: What tells a run of a leaderboard, and its limit.
WHOSE = ["model", "settings", "limit"]

#: A slope that is known less precisely says nothing.
VAGUE = 0.4

#: A mean that says nothing: the score was cut at 0.
SILENT = "0.0 ± 0.0"


def files_of(results: Results) -> dict[str, str]:
    """Return the page of every model, by its name; file names are short and plain."""
    files: dict[str, str] = {}
    for model in dict.fromkeys(results.runs["model"]):
        plain = re.sub(r"[^A-Za-z0-9.]+", "-", model).strip("-.")[:60] or "model"
        taken, number = {name.lower() for name in files.values()}, 1
        while (name := f"model-{plain}{f'-{number}' if number > 1 else ''}.html").lower() in taken:
            number += 1
        files[model] = name
    return files


def make_model_page(
    results: Results,
    model: str,
    can_open: Collection[str],
    made: Mapping[str, Finding],
    start: Start,
    colours: Mapping[str, str],
) -> dict[str, Any]:
    """Return the contents of a model's page, apart from the tables of findings.

    Parameters
    ----------
    results : Results
    model : str
    can_open : collection of str
        Tasks that have a page.
    made : mapping of str to Finding
        ``leaderboard`` and ``pairs``.
    start : Start
    colours : mapping of str to str
        By name of a run.
    """
    own = keep_runs(results, results.runs.index[results.runs["model"] == model])
    scores = own.scores[own.scores["value"].notna()]
    scores = scores[np.array([of.benchmark.of_surveys for of in leaves_of(scores)], bool)]
    # Of its runs, that of the first page, else that with most comparable scores: no older version.
    current = scores[(scores["task_version"] == "") & (scores["truth"] == "")]
    scores = current if len(current) else scores
    first = [run for run in start.compared if run in {*scores["run"]}]
    scores = scores[scores["run"].isin(first[:1] or scores["run"].mode()[:1])]
    letters = scores[scores["way"] == "letters"]
    scores = add_metrics(letters if len(letters) else scores, ("l1",))
    answered, _ = collect_answers(own)
    published = bool((own.runs["kind"] == "published").all())
    unknown = {*scores["run"]} - {run for run, _ in answered}
    # Where no first page shows it, the group with most questions.
    group = start.panels[0].rows["group"].iloc[0] if first else "".join(scores["group"].mode()[:1])
    said = {of: own for of, own in answered.items() if of[0] in {*scores["run"]}}
    return {
        "name": model,
        "published": published,
        "says": _describe_rank(made["leaderboard"].table, own, scores["run"].unique(), group)
        + _describe_kind(said, group),
        "missing": unknown and not published,
        "ends": _ends(own, scores, said, can_open, colours),
        "wrong": {"topics": _rank_topics(own, scores, group), "people": _rank_people(said)},
        "runs": _list_runs(own.runs, made["leaderboard"]),
        "others": _list_others(made["pairs"].table, results.runs, own.runs),
    }


def _describe_rank(board: pd.DataFrame, own: Results, run: Sequence[int], group: str) -> list[str]:
    """Say what place a run has in a group, its score, and what knowing only averages gets."""
    rows = board[board["group"] == group].merge(
        own.runs.loc[[*run]].reindex(columns=WHOSE).fillna("")
    )
    for row in rows.dropna(subset="value").itertuples():
        place = f"Rank {row.rank}: " if row.rank_among > 1 else ""
        if place and row.rank_best == row.rank_worst <= len(ORDINALS):
            place = f"{ORDINALS[int(row.rank_best) - 1]} of {row.rank_among:.0f}: "
        plain = plain_name(group).replace("single condition", "single conditions")
        known = f"; knowing only averages gets {row.averages:.0f}" if row.averages >= 0 else ""
        asked = share_of(row.tasks, group) + (f" under --limit {row.limit}" if row.limit else "")
        return [f"{place}{row.value:.0f} of 100 on {plain}{asked}{known}."]
    return []


def _describe_kind(answered: Mapping[tuple[int, LeafKey], TaskAnswers], group: str) -> list[str]:
    """Say in words what kind of wrong a model is about differences between people."""
    tasks = []
    for (_, asked), own in answered.items():
        if leaf(asked).group == group and len(own.cells) > 1:
            part, said = join_truth(asked, own)
            tasks.append((part.weights, part.p, said.q, part.truth.n_eff[part.complete]))
    slope = fit_differences(tasks)
    if not REACH * slope.error < VAGUE:
        return []
    far, reach = 10 * slope.value, REACH * slope.error
    kind = "has no idea of" if slope.value + reach < 0.1 else "gets"
    if kind == "gets" and abs(slope.value - 1) > max(reach, 0.1):
        kind = "understates" if slope.value < 1 else "overstates"
    right = " about right" if kind == "gets" else ""
    by = f"{far:.1f} ± {10 * slope.error:.1f}"
    where = "Where groups of people differ by 10 percentage points, its answers differ by"
    return [f"It {kind} differences between people{right}. {where} {by}."]


def _rank_topics(own: Results, scores: pd.DataFrame, group: str) -> list[dict[str, Any]]:
    """Return the topics of a group by error, as on the first page, with numbers of questions."""
    asked = scores[scores["group"] == group]
    if asked.empty:
        return []
    off = find_topics(own, [int(asked["run"].iloc[0])], group).iloc[:, 0].dropna()
    of = [getattr(leaf.entry.declared, "outcome", None) for leaf in leaves_of(asked)]
    rows = [{"topic": x, "size": of.count(x), "mean": mean} for x, mean in off.items()]
    return [{"what": describe_outcome(str(row["topic"])), **row} for row in rows]


def _rank_people(answered: Mapping[tuple[int, LeafKey], TaskAnswers]) -> list[dict[str, Any]]:
    """Return levels of conditions by error, each a mean over the questions that have it."""
    rows = []
    for (_, asked), own in answered.items():
        truth = WAYS[asked.way].load(asked.task)
        cells = pd.DataFrame([truth.given[cell] for cell in own.cells]).astype(str)
        weight = truth.weights[own.cells]
        off = 50 * np.abs(own.q - truth.p[own.cells]).sum(axis=1) * weight
        for place, name in enumerate(leaf(asked).entry.declared.given):
            sums = pd.DataFrame({"off": off, "weight": weight}).groupby(cells[place]).sum()
            plain = WORDS["conditions"].get(name, name.replace("_", " "))
            what = [f"{plain[0].upper()}{plain[1:]}: {label}" for label in sums.index]
            rows.append(pd.DataFrame({"what": what, "off": sums["off"] / sums["weight"]}))
    return _rank(pd.concat(rows)) if rows else []


def _rank(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return means by error; what a single question tells comes after what several do."""
    means = rows.groupby("what", sort=False)["off"].agg(["mean", "size"]).reset_index()
    means = means.assign(topic="", several=means["size"] > 1).sort_values("mean", ascending=False)
    return means.sort_values("several", ascending=False, kind="stable").to_dict("records")


def _list_runs(runs: pd.DataFrame, board: Finding) -> list[dict[str, Any]]:
    """Return runs, the newest first, with settings and means; groups at 0 are one text."""
    rows = board.table[board.table["value"].notna()]
    rows = rows.assign(text=format_column(rows, "value", board.columns["value"]))
    listed = []
    for run in runs.assign(day=settings_of_runs(runs)["date"]).to_dict("records"):
        here = rows[(rows["model"] == run["model"]) & (rows["settings"] == run["settings"])]
        said = here[here["text"] != SILENT]
        means = [f"{plain_name(of.group)} {of.text}" for of in said.itertuples()]
        if silent := len(here) - len(said):
            means.append(f"{SILENT} in {plural(silent, 'group')}")
        chips = [text for text in run["settings"].split(", ") if text]
        listed.append({"chips": chips, "day": run["day"], "means": means})
    return sorted(listed, key=lambda run: str(run["day"]), reverse=True)


def _list_others(pairs: pd.DataFrame, runs: pd.DataFrame, own: pd.DataFrame) -> Any:
    """Return whom a model is compared with, over all the tasks that both were asked."""
    names = runs.set_index(["model", "settings"])["name"].to_dict()
    keys = pairs[["model", "settings"]].itertuples(index=False, name=None)
    both = pairs.assign(mine=[names[key] for key in keys])
    turned = both.rename(columns={"mine": "other", "other": "mine"})
    both = pd.concat([both, turned.assign(difference=-turned["difference"])])
    # Groups that were compared together come first.
    both = both[both["mine"].isin(own["name"])].drop_duplicates(["mine", "other"])
    says = format_column(both, "difference", Column(digits=1, signed=True, error="error"))
    return both.assign(says=says).to_dict("records")


def _is_far(said: TaskAnswers, asked: LeafKey) -> bool:
    """Whether an answer is visibly wrong about many people."""
    truth = WAYS[asked.way].load(asked.task)
    off = np.abs(said.q - truth.p[said.cells]).max(axis=1)
    return bool(((off > FAR) & (truth.weights[said.cells] >= MANY)).any())


def _ends(own: Results, scores: pd.DataFrame, said: Any, *more: Any) -> list[dict[str, Any]]:
    """Return a model's worst and best tasks by score, with their curves.

    The best tasks have the highest lower ends of their intervals, to exclude noise, and no answer
    that is visibly wrong.
    """
    errors = pd.Series(own_errors([*scores["draws"]]), scores.index).fillna(0)
    half = min(SHOWN, len(scores) // 2)
    worst = scores.sort_values(["value", "l1"], ascending=[True, False])[:half]
    best = scores.assign(low=(scores["value"] - REACH * errors).clip(lower=0)).drop(worst.index)
    far = {asked for (_, asked), of in said.items() if _is_far(of, asked)}
    best = best.loc[[key not in far for key in zip(best["task"], best["way"], strict=True)]]
    best = best.sort_values(["low", "value"], ascending=False)[:half]
    best = best.sort_values("value", ascending=False)
    return [
        {"end": end, "tasks": [_make_task(own, row, *more) for row in of.to_dict("records")]}
        for end, of in (("least", worst), ("best", best))
        if len(of)
    ]


def _make_task(
    own: Results, row: Any, can_open: Collection[str], colours: Mapping[str, str]
) -> dict[str, Any]:
    """Return a task with the truth and the model's answer over its conditions."""
    name, svg, answer = in_way(row["task"], row["way"]), "", ""
    entry, run = list_leaves()[name].entry, keep_runs(own, [row["run"]])
    made, _ = collect_answers(run, lambda asked: asked == (row["task"], row["way"]))
    if made and len(entry.declared.given) == 1:
        # The answer in which it is most wrong.
        (said,), truth = made.values(), WAYS[row["way"]].load(row["task"])
        off = truth.weights[said.cells] @ np.abs(said.q - truth.p[said.cells])
        table = curve(run, name, int(off.round(5).argmax())).table
        table = table.sort_values("rank", kind="stable", ignore_index=True)
        table["given"], answer = table["condition"], table["answer"].iloc[0]
        cells = table[table["kind"] == "survey"].reset_index(drop=True)
        answers = table[table["model"].isin(run.runs["model"])].assign(who="", run=0)
        cells["average"] = np.average(cells["truth"], weights=cells["weight"])
        cells["says"] = charts.SAID + cells["given"] + cells["truth"].map(": survey {:.0%}".format)
        # A picture of hundreds of occupations is no small one.
        drawn = len(cells) <= MOST_CELLS and charts.draw_small(cells, answers)
        svg = charts.to_page_svg(drawn, entry.title) if drawn else ""
        svg = svg.replace(charts.PURPLE, colours.get(run.runs["name"].iloc[0], charts.BLUE))
    error = f" ± {own_errors([row['draws']])[0]:.1f}" if row["draws"] else ""
    return {
        "name": name,
        "run": run.runs["name"].iloc[0],
        "title": describe_question(entry, level=answer),
        "score": f"{row['value']:.1f}{error}",
        "answer": answer,
        "svg": Markup(svg),
        "opens": name in can_open,
    }


#: Conditions of a small picture at most.
MOST_CELLS = 100

#: How many replies of a run are kept: as many as could not be read, and of those that could be.
UNREAD, READ = 60, 30

#: Longer texts are cut, in characters.
LONGEST = 900


class _SampleLine(msgspec.Struct):
    doc: dict[str, Any]
    filtered_resps: list[Any]


def describe_answer(answer: Any, doc: dict[str, Any]) -> str:
    """Return the answer read from a reply, in words; empty if unreadable."""
    if not answer.is_read:
        return ""
    value, choices = answer.value, [str(choice) for choice in doc.get("choices", ())]
    if "family" in doc:
        family, a, b = value
        return f"{FAMILIES[int(family)]} {a:.4g}, {b:.4g}"
    if isinstance(value, tuple):
        order = answer.order or range(len(value))
        return "; ".join(
            f"{choice} {100 * value[level]:.1f} %"
            for choice, level in zip(choices, order, strict=False)
        )
    if answer.way.startswith("intervention"):
        return "yes" if value > 0 else "no"
    if answer.order:
        place = list(answer.order).index(value)
        return choices[place] if place < len(choices) else str(value)
    return f"{100 * value:.1f} %" if 0 <= value <= 1 else f"{value:g}"


def _read_replies(path: Path, asked: LeafKey) -> Iterator[dict[str, str]]:
    way = WAYS[asked.way]
    decoder = msgspec.json.Decoder(_SampleLine)
    with path.open("rb") as file:
        for text in file:
            try:
                line = decode_line(decoder, text, _SampleLine)
                answer: Any = way.read(way.of_row(line.doc), line.filtered_resps)
                value = describe_answer(answer, line.doc)
            except (*NOT_A_SAMPLE, KeyError, AttributeError, OverflowError):
                continue  # a line that lm-eval did not write
            reply = {"task": in_way(*asked), "prompt": str(line.doc.get("prompt", ""))}
            reply["reply"] = str(line.filtered_resps[0]) if line.filtered_resps else ""
            for name in ("prompt", "reply"):
                if len(reply[name]) > LONGEST:
                    reply[name] = reply[name][: LONGEST - 1] + "…"
            yield reply | {"value": to_printable(value)}


def collect_replies(results: Results) -> dict[str, dict[str, Any]]:
    """Return by model the number of its replies, of unread ones, and some: unread ones first."""
    kept: dict[str, dict[str, Any]] = {}
    scores = results.scores.assign(model=results.scores["run"].map(results.runs["model"]))
    written = scores[np.array([WAYS[way].generated for way in scores["way"]], bool)]
    for model, rows in written.groupby("model", sort=False):
        tasks = [LeafKey(*of) for of in zip(rows["task"], rows["way"], strict=True)]
        files = map(sample_file, rows["file"], tasks)
        paths = [(asked, path) for asked, path in zip(tasks, files, strict=True) if path]
        unread: list[dict[str, str]] = []
        read: list[dict[str, str]] = []
        number, lost, few = 0, 0, max(2, READ // max(1, len(paths)))
        for asked, path in paths:
            most = min(READ, len(read) + few)
            for reply in _read_replies(path, asked):
                number += 1
                lost += not reply["value"]
                of, end = (read, most) if reply["value"] else (unread, UNREAD)
                if len(of) < end:
                    of.append(reply)
        if number:
            kept[str(model)] = {"number": number, "unread": lost, "shown": [*unread, *read]}
    return kept
