"""Every survey: whom it asks what, how many tasks it has, and which have a truth."""

from __future__ import annotations

from typing import Any

from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.surveys.catalogue import records
from lm_eval_epidemia.surveys.record import Declared

#: Groups of tasks, as records list them.
KINDS: tuple[Declared, ...] = ("low", "high", "extra")


def shown() -> list[dict[str, Any]]:
    """Say of every survey what it asks whom, and how many tasks it has and of which state."""
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
