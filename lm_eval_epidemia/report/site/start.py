"""The first page: pictures of questions, who knows them best, and where models are wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import pandas as pd
from markupsafe import Markup

from lm_eval_epidemia.findings.leaderboard import list_notes
from lm_eval_epidemia.findings.start import Question, Start
from lm_eval_epidemia.report import charts
from lm_eval_epidemia.report.render import cut_text
from lm_eval_epidemia.results.naming import without_kind
from lm_eval_epidemia.results.read import Results

#: Characters of a model's name under a picture.
LONGEST = 30


def make_start_page(
    results: Results, start: Start, files: Mapping[str, str], otherwise: Sequence[str]
) -> dict[str, Any]:
    """Return the contents of the page; `files` are of models, `otherwise` is what else to say."""
    names = results.runs["model"].map(without_kind)
    tiles = [_make_tile(of, start.pictured, names, results.runs["name"]) for of in start.questions]
    said = {"sentences": start.sentences or otherwise, "notes": list_notes(results)}
    whose = {"names": names, "labels": results.runs["name"], "files": files}
    return {"start": start, "tiles": tiles, **said, **whose}


def _make_tile(
    of: Question, who: Mapping[int, str], names: Mapping[int, str], labels: Mapping[int, str]
) -> dict[str, Any]:
    """Draw a question with the best and the middle model, and say where each is most wrong.

    Parameters
    ----------
    of : Question
    who : mapping of int to str
        The runs in the pictures of the page, the best first.
    names, labels : mapping of int to str
        By run: of its model, and of itself, as addresses have it.
    """
    cells, aged = of.cells, "Aged " if of.title.endswith(", by age") else ""
    where = aged + cells["given"]
    said = {"survey": cells["truth"]} | {names[run]: of.answers.get(run) for run in who}
    told = pd.DataFrame(said | {"average": cells["average"]}).map("{:.0%}".format)
    says = told.apply(lambda row: ", ".join(f"{name} {p}" for name, p in row.items()), axis=1)
    lines, worst = {}, {}
    for run, q in of.answers.items():
        at = worst[run] = of.find_worst(run)
        name = cut_text(names[run], LONGEST)
        lines[run] = [f"{where[at]}: survey {cells['truth'][at]:.0%}, ", f"{name} {q[at]:.0%}"]
    answers = pd.DataFrame(of.answers).assign(given=cells["given"])
    answers = answers.melt("given", var_name="run").assign(who=lambda x: x["run"].map(who))
    answers["worst"] = answers["given"] == cells["given"].loc[answers["run"].map(worst)].to_numpy()
    first = next(run for run in (*who, *of.answers) if run in of.answers)
    place = {"cell": worst[first], "answer": of.level}
    address = {"task": of.task, "model": labels[first], **place}
    drawing = charts.draw_small(cells.assign(says=charts.SAID + where + ": " + says), answers)
    svg = Markup(charts.to_page_svg(drawing, f"{of.title}. {''.join(lines[first])}"))
    tile = {"question": of, "svg": svg, "href": f"task.html#{urlencode(address)}"}
    return tile | {"runs": [*of.answers], "lines": lines, "first": lines[first]}
