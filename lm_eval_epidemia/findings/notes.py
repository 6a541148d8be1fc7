"""What to know of the results: files left out, missing scores, changes, what groups consist of."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from lm_eval_epidemia.benchmarks import describe_union, in_way
from lm_eval_epidemia.core.errors import few, plural
from lm_eval_epidemia.findings.finding import Finding, make_finding
from lm_eval_epidemia.findings.leaderboard import ordered_groups
from lm_eval_epidemia.findings.mean import group_scores
from lm_eval_epidemia.findings.references import find_changed
from lm_eval_epidemia.results.read import Results


def notes(results: Results) -> Finding:
    """What was left out, is missing or was changed, and what groups consist of."""
    asked = ordered_groups(group_scores(results.scores)["group"])
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
    wrong = results.scores[find_changed(results.scores)]
    for run, of in wrong.groupby("run"):
        names = few([*map(in_way, of["task"], of["way"])])
        files = few(sorted({file.name for file in of["file"]}))
        yield (
            results.runs["name"][run],
            "changed",
            f"the scores of {plural(len(of), 'task')} do not match their distances ({names}; in "
            f"{files}): the file was changed, or D_perfect was different",
        )
