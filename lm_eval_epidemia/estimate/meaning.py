"""The part of a record that determines the numbers of a task: everything except the wording.

Users draft a record, build it, and then improve it. The wording may change without a new build, but
not what is counted: the registry keeps a hash of it.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.store import read_disk_once
from lm_eval_epidemia.estimate.registry import Place, entry_of
from lm_eval_epidemia.surveys import catalogue
from lm_eval_epidemia.surveys.record import Record, Task

#: Where a truth's entry has the hash.
FIELD = "record"
#: What of a variable is counted, and what of that is words.
COUNTED = {"column", "missing", "missing_texts", "both", "levels"}
WORDS: Any = {"levels": {"__all__": {"phrase": True, "within": True}}}


def meaning_of(survey: Record, task: Task, vintage: str) -> str:
    """Hash the part of a record that determines a task's numbers.

    Parameters
    ----------
    survey : Record
    task : Task
    vintage : str

    Returns
    -------
    str
        64 hexadecimal digits. Labels are included; phrases, questions and titles are not.
    """
    asked = [part for name in (task.outcome, *task.given) for part in (name, *survey.parts(name))]
    variables = {
        name: [
            way.model_dump(mode="json", exclude_defaults=True, include=COUNTED, exclude=WORDS)
            for way in survey.ways(name, vintage)
        ]
        for name in sorted({*asked, *survey.margin_variables(vintage)})
    }
    rules: list[Any] = [
        survey.design_of(vintage).model_dump(mode="json", exclude_defaults=True),
        survey.model_dump(mode="json", include={"join", "universe"}),
        survey.vintages[vintage].model_dump(mode="json", include={"year", "select", "adjustments"}),
        task.model_dump(mode="json", include={"outcome", "given", "universe"})
        | ({"equal": task.equal} if task.equal else {}),
    ]
    return hashlib.sha256(json.dumps([variables, rules]).encode()).hexdigest()


def check_meaning(place: Place, task: str) -> None:
    """Refuse the truth of a task whose record has since changed in what is counted.

    Raises
    ------
    EpidemiaError
        If it does.
    """
    recorded = entry_of(place, task)[1].get(FIELD)
    if recorded is not None and recorded != _hash_current(task, place.vintage):
        raise EpidemiaError(
            f"the record of {task} has changed since its truth was built, in what is counted "
            f"(levels, codes, weights or population): 'epidemia groundtruth build {place.survey} "
            f"--vintage {place.vintage} --raw FILE' rebuilds it"
        )


@read_disk_once
def _hash_current(task: str, vintage: str) -> str:
    declared = catalogue.find_task(task)
    survey = catalogue.find_record(declared.survey)
    return meaning_of(survey, declared, vintage) if vintage in survey.vintages else ""
