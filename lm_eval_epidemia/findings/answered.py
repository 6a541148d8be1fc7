"""What runs answered, cell by cell, from the samples beside their results."""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from rich.console import Console
from rich.progress import track

from lm_eval_epidemia.benchmarks import WAYS, in_way
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.findings.leaderboard import Report
from lm_eval_epidemia.results.entry import Asked
from lm_eval_epidemia.results.protocol import printable
from lm_eval_epidemia.results.samples import TaskAnswers, elicited, sample_file

#: What was answered, by entry and task.
Samples = dict[tuple[str, Asked], TaskAnswers]


def _read(job: tuple[str, Asked, Any]) -> tuple[str, Asked, TaskAnswers | str | None]:
    name, asked, path = job
    try:
        return name, asked, elicited(path, asked)
    except EpidemiaError as error:
        return name, asked, str(error)


def read_samples(report: Report, tasks: Iterable[Asked] | None = None) -> tuple[Samples, list[str]]:
    """Read the samples of all runs, on every processor; say on stderr what could not be read.

    Parameters
    ----------
    report : Report
    tasks : iterable of Asked, optional
        All if not given.

    Returns
    -------
    samples : dict
    notes : list of str
        What could not be read, per entry.
    """
    wanted = None if tasks is None else set(tasks)
    about = [
        (entry, asked, sample_file(score.source, asked))
        for entry in report.runs
        for asked, score in entry.scores.items()
        if WAYS[asked.way].distribution is not None and (wanted is None or asked in wanted)
    ]
    missing = Counter(entry.name for entry, _, path in about if not path)
    notes = [
        f"{name}: no samples of {number} tasks, so no cells; run with --log_samples"
        for name, number in missing.items()
    ]
    # The largest first, so that no process is left alone with one at the end.
    jobs = [(entry.name, asked, path) for entry, asked, path in about if path]
    jobs.sort(key=lambda job: -job[2].stat().st_size)
    workers = min(os.cpu_count() or 1, len(jobs))
    scores = {(entry.name, asked): entry.scores[asked] for entry, asked, _ in about}
    samples: Samples = {}
    with ProcessPoolExecutor(max(1, workers)) as pool:
        done = pool.map(_read, jobs) if workers > 1 else map(_read, jobs)
        shown = track(done, "Samples", len(jobs), console=Console(stderr=True), transient=True)
        for name, asked, answers in shown:
            if isinstance(answers, str):
                notes.append(f"{name}: {answers}")
            elif answers is not None:
                samples[name, asked] = answers
            elif not math.isnan(scores[name, asked].value):
                notes.append(
                    f"{name}: the samples of {in_way(*asked)} have no complete cell, or "
                    "log-probabilities that are not finite, but its result file has a score"
                )
    for (name, asked), score in scores.items():
        answers = samples.get((name, asked))
        if answers is not None and not math.isclose(answers.l1, score.l1, abs_tol=1e-6):
            notes.append(
                f"{name}: the samples of {in_way(*asked)} give a distance of "
                f"{answers.l1:.6f}, its result file says {score.l1:.6f}: one of them was changed"
            )
    notes = [printable(note) for note in notes]
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return samples, notes
