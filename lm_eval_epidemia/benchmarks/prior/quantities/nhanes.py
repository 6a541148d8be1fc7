"""The variables of the published quantities: NHANES 2017-2018, what was asked of whom, in words.

The words follow the official questionnaires and what the published truth was computed from, which
the published texts do not always say: diabetes includes borderline diabetes; difficulty is in
concentrating, remembering or making decisions; insurance is one's own, not a spouse's; cancer and
heart attack were asked at age 20 and over.

Source of the questions: NCHS documentation of the files named in `VARIABLES` (cycle J).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lm_eval_epidemia.benchmarks.prior.quantities.quantity import Condition
from lm_eval_epidemia.benchmarks.prior.quantities.wording import joined
from lm_eval_epidemia.core.paths import read_yaml

SURVEY = "the National Health and Nutrition Examination Survey (NHANES) 2017-2018"
ADULT = 18


class YesNoVariable(NamedTuple):
    """A question that is answered yes or no.

    Attributes
    ----------
    file, column : str
        Where it is in the official files.
    yes, no : str
        As a relative clause: "who take insulin now".
    codes : sequence of int
        That count as yes; others that are answers count as no.
    age : int
        From which it was asked.
    unknown : bool
        Whether "don't know", refusals and blanks count as no, as they do in the published truth.
    """

    file: str
    column: str
    yes: str
    no: str
    codes: Sequence[int] = (1,)
    age: int = ADULT
    unknown: bool = False


class Measurement(NamedTuple):
    """Something measured.

    Attributes
    ----------
    file, column : str
    words : str
        "blood lead level".
    unit : str
    """

    file: str
    column: str
    words: str
    unit: str


def _variables() -> dict[str, YesNoVariable | Measurement]:
    """Read ``nhanes.yaml``."""
    data = read_yaml(__package__, "nhanes.yaml")
    measured = {name: Measurement(**told) for name, told in data["measured"].items()}
    return measured | {name: YesNoVariable(**told) for name, told in data["answered"].items()}


VARIABLES: Mapping[str, YesNoVariable | Measurement] = _variables()


def wording(base: str, conditions: Sequence[Condition]) -> str:
    """Say what a quantity is.

    Parameters
    ----------
    base : str
        One of `VARIABLES`.
    conditions : sequence of Condition
        With phrases such as "whose body weight is at most 66.5 kg".

    Returns
    -------
    str
        A noun phrase.
    """
    variable = VARIABLES[base]
    involved = [variable, *(VARIABLES[condition.variable] for condition in conditions)]
    age = max([ADULT, *(other.age for other in involved if isinstance(other, YesNoVariable))])
    people = (
        f"adults aged {age} and over in the civilian noninstitutionalized population of the "
        f"United States"
    )
    people += joined([condition.phrase for condition in conditions])
    if isinstance(variable, Measurement):
        what = f"the mean {variable.words} (in {variable.unit}) of {people}"
    else:
        what = f"the proportion {variable.yes}, among {people}"
    return f"{what}, according to {SURVEY}"
