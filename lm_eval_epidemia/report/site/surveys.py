"""Every survey: its people and questions, and its tasks with and without a truth."""

from __future__ import annotations

from typing import Any

from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.surveys.catalogue import records
from lm_eval_epidemia.surveys.record import Declared

#: Groups of tasks, as records list them.
KINDS: tuple[Declared, ...] = ("low", "high", "extra")


def shown() -> list[dict[str, Any]]:
    """Return for every survey its people, questions, and number of tasks by state."""
    places, rows = store.available(), []
    for name, survey in records().items():
        here = [places[task.name] for task in survey.all_tasks if task.name in places]
        official = survey.vintages[survey.official]
        outcomes = dict.fromkeys(task.outcome for task in survey.all_tasks)
        rows.append(
            {
                "name": name,
                "title": survey.title,
                "publisher": survey.publisher,
                "about": survey.people,
                "questions": [survey.variables[outcome][-1].question for outcome in outcomes],
                "counts": [len(survey.tasks.get(kind, ())) for kind in KINDS],
                "available": len(here),
                "all": len(survey.all_tasks),
                "vintages": ", ".join(dict.fromkeys(place.vintage for place in here)),
                "needs": official.needed if len(here) < len(survey.all_tasks) else "",
            }
        )
    return rows
