"""The effects of interest: task, condition, and the expected role of the other conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Propensity(NamedTuple):
    """A task that asks for P(x | z).

    Attributes
    ----------
    task : str
        Its outcome is X, and its only condition, which is Z, is age in single years.
    answers : mapping of str to tuple of str
        By level of X, the answers that make up this level.
    """

    task: str
    answers: Mapping[str, tuple[str, ...]]


class Contrast(NamedTuple):
    """An effect of interest.

    Attributes
    ----------
    task : str
    x : str
        The condition whose levels are compared; the task's others are Z.
    why : str
        The expected role of Z.
    propensity : Propensity, optional
        The task that asks for P(x | z), in its own words and levels.
    """

    task: str
    x: str
    why: str
    propensity: Propensity | None = None


_SCHOOL = ("Regular high school diploma", "GED or alternative credential")
_COLLEGE = (
    "Some college, less than one year",
    "One or more years of college, no degree",
    "Associate's degree",
)
_BACHELOR = ("Bachelor's degree",)
_BEYOND = ("Master's degree", "Professional degree beyond a bachelor's degree", "Doctorate")


def _education(**levels: tuple[str, ...]) -> Propensity:
    return Propensity(
        "epidemia_low_acs_education_by_age",
        {label.replace("_", " "): answers for label, answers in levels.items()},
    )


#: No survey asks for P(x | z) itself, but the American Community Survey does for education by age.
_NSDUH = _education(
    High_school_graduate=_SCHOOL,
    Some_college_or_associate_degree=_COLLEGE,
    College_graduate=_BACHELOR + _BEYOND,
)
_SCF = _education(
    High_school_diploma_or_GED=_SCHOOL,
    Some_college=_COLLEGE,
    College_degree=_BACHELOR + _BEYOND,
)
_MEPS = _education(
    **{
        "12_years": ("Grade 12 without a diploma", *_SCHOOL),
        "16_years": _BACHELOR,
        "17_or_more_years": _BEYOND,
    }
)

_SCHOOLING = "generations differ in schooling, and the outcome changes with age"
_ALL = "as above; sex and race are also related to schooling and to the outcome"
_ORIGIN = "the groups differ in age, and the outcome changes with age"
_SEX = "a check: both sexes are about equally old, so little should change"
_INCOME = "people in mid-life earn most, and illness comes with age"

#: Of every published outcome with several conditions the same four, and extra tasks likewise.
CONTRASTS: tuple[Contrast, ...] = (
    *(
        Contrast(f"epidemia_{outcome}_by_{given}", x, why, propensity)
        for outcome, asks in (
            ("high_meps_insured", _MEPS),
            ("high_nsduh_marijuana_ever", _NSDUH),
            ("high_nsduh_cocaine_ever", _NSDUH),
            ("high_scf_home_ownership", _SCF),
            ("extra_nsduh_cigarettes_ever", _NSDUH),
        )
        for given, x, why, propensity in (
            ("age_education", "education", _SCHOOLING, asks),
            ("age_education_sex_race", "education", _ALL, None),
            ("age_race", "race", _ORIGIN, None),
            ("age_sex", "sex", _SEX, None),
        )
    ),
    Contrast("epidemia_extra_nhis_diabetes_by_age_income", "income", _INCOME),
    Contrast("epidemia_extra_nhis_diabetes_by_age_race", "race", _ORIGIN),
    Contrast("epidemia_extra_nhis_depression_by_age_income", "income", _INCOME),
    Contrast("epidemia_extra_nhis_high_blood_pressure_by_age_race", "race", _ORIGIN),
)
