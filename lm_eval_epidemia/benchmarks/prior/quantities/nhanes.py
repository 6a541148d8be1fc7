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
    codes : tuple of int
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
    codes: tuple[int, ...] = (1,)
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


def _told(diagnosis: str) -> tuple[str, str]:
    """Say who has been told so, and who has not."""
    by = f"been told by a doctor or other health professional that {diagnosis}"
    return f"who have ever {by}", f"who have never {by}"


VARIABLES: Mapping[str, YesNoVariable | Measurement] = {
    "WaistCircumferenceCm": Measurement("BMX_J", "BMXWAIST", "waist circumference", "cm"),
    "TotalCholesterolMgdl": Measurement("TCHOL_J", "LBXTC", "total cholesterol level", "mg/dL"),
    "BloodLeadUgdl": Measurement("PBCD_J", "LBXBPB", "blood lead level", "ug/dL"),
    "BloodCadmiumUgl": Measurement("PBCD_J", "LBXBCD", "blood cadmium level", "ug/L"),
    "BloodMercuryTotalUgl": Measurement("PBCD_J", "LBXTHG", "total blood mercury level", "ug/L"),
    "BloodManganeseUgl": Measurement("PBCD_J", "LBXBMN", "blood manganese level", "ug/L"),
    "WeightKg": Measurement("BMX_J", "BMXWT", "body weight", "kg"),
    "DoctorToldYouHaveDiabetes": YesNoVariable(
        "DIQ_J",
        "DIQ010",
        *_told("they have diabetes or borderline diabetes"),
        codes=(1, 3),
        unknown=True,
    ),
    "TakeMedicationForDepression": YesNoVariable(
        "DLQ_J",
        "DLQ150",
        "who take medication for depression",
        "who do not take medication for depression",
    ),
    "CoveredByHealthInsurance": YesNoVariable(
        "HIQ_J",
        "HIQ011",
        "who are covered by health insurance or some other kind of health care plan",
        "who are not covered by health insurance or any other kind of health care plan",
    ),
    "EverToldYouHadCancerOrMalignancy": YesNoVariable(
        "MCQ_J", "MCQ220", *_told("they had cancer or a malignancy of any kind"), age=20
    ),
    "EverToldYouHadHeartAttack": YesNoVariable(
        "MCQ_J", "MCQ160E", *_told("they had a heart attack"), age=20
    ),
    "HaveSeriousDifficultyConcentrating": YesNoVariable(
        "DLQ_J",
        "DLQ040",
        "who have serious difficulty concentrating, remembering or making decisions because of a "
        "physical, mental or emotional condition",
        "who do not have serious difficulty concentrating, remembering or making decisions because "
        "of a physical, mental or emotional condition",
    ),
    "TakingInsulinNow": YesNoVariable(
        "DIQ_J", "DIQ050", "who are taking insulin now", "who are not taking insulin now"
    ),
}


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
