"""What columns and answers are known by: patterns of names and labels, as data.

All are guesses, shown or marked for a person to check. They are of English surveys, with the usual
non-answers of a few other languages.
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import NamedTuple

import yaml


class Pattern(NamedTuple):
    """What something is called: expressions for a column's name and for its label.

    Either may tell; `but` are labels that tell otherwise.
    """

    name: str
    label: str = r"(?!)"
    but: str = r"(?!)"

    def fits(self, name: str, label: str) -> bool:
        """Tell whether a column of this name and label is one."""
        name, label = name.casefold(), label.casefold()
        if re.search(self.but, label):
            return False
        return bool(re.fullmatch(self.name, name) or re.search(self.label, label))


def folded(text: str) -> str:
    """Return a text in small letters without accents and apostrophes."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in plain if not unicodedata.combining(c) and c not in "'\u2019`\u00b4")


def spelt(name: str) -> str:
    """Part the words of a name, also where letters meet digits: W1WEIGHT is "w 1 weight"."""
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])|_", " ", name)
    return " ".join(re.findall(r"\w+", folded(parted)))


def _any_of(*tables: str) -> re.Pattern[str]:
    """Compile tables of `words.yaml`: words by the place in which they count."""
    found = [
        _PLACES[place].format(f"(?:{word})")
        for table in tables
        for place, several in WORDS[table].items()
        for word in several.split(", ")
    ]
    return re.compile("|".join(found))


#: What is too long for code: words of many countries, each an expression, parted by commas.
WORDS = yaml.safe_load(Path(__file__).with_name("words.yaml").read_text(encoding="utf-8"))
_PLACES = {"anywhere": "{}", "word": r"\b{}\b", "begins": r"\b{}", "ends": r"{}\b", "all": "^{}$"}
_SAYS_WEIGHT, _CALLED_WEIGHT = _any_of("weight"), _any_of("weight in names")
_NO_WEIGHT, _MEASURED = _any_of("no weight"), _any_of("measured")


def says_weight(name: str, label: str) -> bool:
    """Tell whether a column of this name and label is a survey weight, as far as words go."""
    name, label = spelt(name), folded(label)
    called = _SAYS_WEIGHT.search(f"{name} | {label}") or _CALLED_WEIGHT.search(name)
    return bool(called) and not _NO_WEIGHT.search(f"{name} | {label}")


def says_measured(name: str, label: str) -> bool:
    """Tell whether a column's name or label speaks of what is measured, which no weight is."""
    return bool(_MEASURED.search(f"{spelt(name)} | {folded(label)}"))


#: Which weights are the likeliest: those that are the last step.
FINAL = re.compile(
    r"final|wtssnrps|wtssps|wtmec|_llcpwt|anweight|pspwght|perwt|pwgtp|analwt|wtfa|post"
)

#: Weights of several countries: how large each is, and what that is multiplied with already.
POPULATION = Pattern(
    r"pweight|pwght|w?pop(ulation)?_?(size_?)?w(eigh|gh|g)?t?\w{0,3}",
    r"population (size )?weight",
    r"combin|includ|incl\.|times|post-?strat",
)
COMBINED = Pattern(
    r"anweight|comb\w*w(eigh|gh|g)?t\w*|acrosswt\w*",
    r"\bcombin(ed|ation)\b.*weight|weight.*\bcombin(ed|ation)\b"
    r"|post-?strat\w*.*(times|incl\w*|and|x|\*) ?.*population",
)
COUNTRY = Pattern(
    r"(iso_?|b_|tns)?(cntry|country|cnt|nation|pais|pays|land)(_?\w{1,5})?|s003|c_alphan",
    r"^(iso )?country\b",
    r"birth|born|origin",
)

REPLICATE = re.compile(r"replicate|\bbrr|jack-?knife|bootstrap|rep_?w|jkw|bsw|bsrw|_fstr")

STRATA = Pattern(
    r"_?(v|p|var|pseudo|sdmv)?_?(strata|strat|stra|stratum)(_?[a-z]?\d{0,2})|vestr\w*|var_?str"
    r"|_?ststr|\w+_(strata|stratum)",
    r"\bstrat(um|a)\b",
)

PSU = Pattern(
    r"_?(v|p|s|var|sdmv|pseudo)?_?psus?(_?\w{1,3})?|verep|secu\w*|(v|var)?_?(cluster|clust)\w{0,4}"
    r"|var_?unit\w{0,3}|\w+_psu",
    r"primary sampling unit|\bpsus?\b|variance (estimation )?(primary|unit|replicate)"
    r"|sampling error (cluster|unit|computation unit)|^cluster (number|id|variable)",
)

IDENTIFIER = Pattern(
    r"(\w+_)?(id|ids|ident|uuid|guid)|(case|resp|respondent|person|pers|hh|household|record|serial"
    r"|family|subject|participant|interview|quest|questionnaire|pid|user|worker|unique)_?"
    r"(id|no|num|nr|nbr|number|key)\w{0,2}|seqn|seqno|idnum\w*|idno|serial|duid|dupersid|pid|ssuid"
    r"|caseno|rowid|index|unnamed: \d+|responseid|questid\d?",
    r"\b(respondent|case|person|household|interview|sequence|serial|record|participant|survey)"
    r"('?s)?[ -]*(sequence )?(id\b|identif|identification|number$|no\.?$)|unique (id|identifier)"
    r"|^id( number)?$",
)

#: A number of something, where no two people have the same: "phone_number", "Account no.".
NUMBER = Pattern(
    r"(.*[_ .])?(no|num|nr|nbr|key|code|ref|serial|phone|ssn)|.*number",
    r"\b(no\.?|number|code|key)$",
)

#: A text that is a date or a time of day.
DATE = re.compile(
    r"\d{4}-\d{1,2}(-\d{1,2})?([T ].*)?|\d{1,2}[/.]\d{1,2}[/.](\d{2}|\d{4})( .*)?"
    r"|\d{1,2}:\d{2}(:\d{2})?( ?[ap]\.?m\.?)?|\d{1,2}[- ]?(jan|feb|mar|apr|may|jun|jul|aug|sep|oct"
    r"|nov|dec)[a-z]*[- ]?(\d{2}|\d{4}).*",
    re.IGNORECASE,
)

#: Of the interview, not of the person: no outcome worth asking a model about.
ABOUT_INTERVIEW = Pattern(
    r"(int|intv|interview|interviewer|sample|samp|ballot|version|form|mode|batch|wave|release|flag"
    r"|year|month|day|date|quarter|language|lang|status|dispcode|consent|duration|filter)\w{0,6}"
    r"|\w+_(flag|imp|fl|date|time)",
    r"interviewer|interview (date|mode|language|month|status|time)|\bballot|questionnaire version"
    r"|\bimput(ed|ation)\b|\bflag\b|date of interview|month of interview|sampl(e|ing) (type|frame)"
    r"|release version|file (flag|version)|length of interview|in what language",
)

_OTHERS = r"father|mother|spouse|husband|wife|partner|parent|child|household (ref|member)|proxy"

#: Demographic variables, which become conditions, most asked first.
DEMOGRAPHIC: dict[str, Pattern] = {
    "age": Pattern(
        r"_?((r|person|p|hh|q)_|resp_?|q)?age(_?(p|r|c|x|cl|g|yrs?|years?|in_years|grp|group|groups|cat"
        r"|range|band|bracket|5yr|recode)?(_?\d{0,3})(_?[axgpc])?)|ridageyr|catage?\d|agecat\w*"
        r"|ageg?5?yr|_ageg\w*",
        r"^(r'?s|respondent'?s?|current|person'?s)? ?age( of (respondent|person)\b.*| in (years|"
        r"single years).*| (group|category|recode|range|bracket)s?.*| at (screening|interview).*"
        r"|\(.*\)|, .*)?$|^how old are you|^what is your age",
        r"first|began|start|when|stopp|quit|diagnos|onset|married|born|" + _OTHERS,
    ),
    "sex": Pattern(
        r"_?(r|ir|hh|q|resp|ria)?_?(sex|gender|gendr)(_[a-z])?\d?|sexvar|birthsex",
        r"^(r'?s|respondent'?s?)? ?(sex|gender)( of respondent)?$|^are you (male|a man)"
        r"|what is your (sex|gender)|^gender\b|^sex\b( \(.*\)|, .*)?$",
        r"orientation|partner|frequen|" + _OTHERS,
    ),
    "race": Pattern(
        r"_?(r|q|imp|new)?_?(race|racethx?|raceeth|race_?ethn?\w*|ethnic\w*|hisp\w{0,6}|latino)"
        r"\w{0,3}|ridreth\d|rac\d?p|newrace\d\w*|hisp",
        r"^(r'?s|respondent'?s?)? ?(race|ethnicity|ethnic|hispanic)\b|race.{1,3}ethnic"
        r"|\bhispanic origin",
        _OTHERS + r"|racis|relations|race of inter",
    ),
    "education": Pattern(
        r"_?(ir|r|hh|q)?_?(educ|edu|edlevel|edcl|edyrs?|isced|eisced|schl|degree|schooling)\w{0,8}"
        r"|dmdeduc\d?|eduhigh\w*|ireduhigh\w*|highest_(degree|grade|level)\w*",
        r"^(r'?s|respondent'?s?)? ?(education|educational|schooling)\b|highest .*(degree|grade|"
        r"education|school)|level of (education|school)",
        _OTHERS + r"|spending|quality|system|policy|field|major",
    ),
    "income": Pattern(
        r"_?(r|hh|fam|real|tot|total|family|household|ir|q)?_?(income|inc|incomg|incgrp|inccat|incom"
        r"|faminc|hhinc)(_?\w{0,4})|irpinc\d|irfamin\d|pincp|hincp|indfmpir|indhhin\d|povcat\w{0,3}"
        r"|povlev\w*|wagp",
        r"(family|household|personal|total|annual|respondent'?s?|r'?s|poverty).{0,12} income\b"
        r"|^income\b|ratio of (family )?income|income (group|categor)",
        _OTHERS + r"|satisf|opinion|inequal|tax|differences",
    ),
    "region": Pattern(
        r"_?(census|r|q)?_?(region|division|state|stfips|statefip|province|country|cntry)\w{0,3}",
        r"^(census )?(region|division|state|province|country)\b( of (interview|residence).*)?$"
        r"|census region",
        r"birth|born|origin|health",
    ),
    "marital status": Pattern(
        r"_?(ir|r|q)?_?(marital(_?stat\w*)?|marstat?|marst|marit|marry|married)\w{0,4}|dmdmart[lz]|marp",
        r"\bmarital status\b|^(are you|currently) married",
        r"father|mother|parent|satisf|happi",
    ),
}

#: Units of numbers, by what a column's name or label says; the first that fits.
UNITS = {
    "\u20ac": r"\b(eur|euros?)\b|\u20ac",
    "\u00a3": r"\bgbp\b|\bpounds sterling\b|\u00a3",
    "$": r"\busd\b|\bdollars?\b|\$",
    "kg/m2": r"\bbmi\w{0,2}\b|body mass index",
    "kg": r"\b(kgs?|kilos?|kilograms?)\b",
    "pounds": r"\b(lbs?|pounds)\b",
    "cm": r"\b(cm|cent[ie]met(er|re)s?)\b",
    "%": r"%|\bper ?cent\b|\bpct\b",
    "minutes": r"\bmin(ute)?s\b",
    "hours": r"\b(hours|hrs)\b",
    "days": r"\bdays\b",
    "weeks": r"\bweeks\b",
    "months": r"\bmonths\b",
    "years": r"\b(years|yrs|age)\b",
}

#: What is counted in dollars where no currency is named; marked, as all that is guessed.
MONEY = (
    r"\b(salar(y|ies)|wages?|earnings?|incomes?|(real|fam|hh)inc\w*|pay|rent|prices?|costs?|expen(ses?"
    r"|ditures?)|spending|wealth|assets|debts?|savings)\b"
)

#: In what multiples of a unit numbers are, by what a column's name or label says.
SCALES = {
    "thousand": r"(?<!401)(?<!401.)\bk\b|\b(ths|thousands?)\b|(?<![\d,.])(?<!per )(1[,.]?)?000s?\b",
    "million": r"\b(mln|mio|mn|millions?)\b",
    "billion": r"\b(bn|bln|billions?)\b",
    "cents": r"\bcents?\b",
}

#: What makes of money a number in another unit, or in one that is not known.
NO_MONEY = r"\b(m|logs?|logged|ln|ratio|index|rank|percentile|quantile|quintile|decile|share|z)\b"

#: How a currency is called after "thousand".
CURRENCIES = {"$": "dollars", "\u20ac": "euros", "\u00a3": "pounds sterling"}

#: Numbers whose mean means nothing.
CODED = (
    r"\b(zip|postal|fips|naics|soc|isco|icd|codes?|county|tract|district|occupation|industry|yob)\b"
    r"|\b(year of|birth ?year|year born)\b"
)

#: Names of columns that are abbreviations.
SPELT_OUT = {"bmi": "body mass index", "hrs": "hours"}

#: Answers that continue "is" as they stand, once in lower case.
_IS = (
    "male female married widowed divorced separated single unmarried employed unemployed retired "
    "pregnant hispanic"
)
PREDICATES = frozenset(_IS.split())

# -- Answers that say nothing -------------------------------------------------------------------

_SILENT = {kind: "|".join(words.split(", ")) for kind, words in WORDS["no answer"].items()}
_SILENT["silent"] = f"{_SILENT['not asked']}|{_SILENT['silent']}"
_SILENT["weak"] = f"{_SILENT['silent']}|{_SILENT['weak']}|{_SILENT['aside']}"
_PARTS = re.compile(r"\s*(?:[/,;&|()\[\]]|\bor\b|\band\b|(?<=\s)-(?=\s))\s*")
_BEGINS = re.compile(r"\s*[:(,;=\u2013\u2014]\s*|\s+-+\s+|\.(?:\s+|$)")


def unanswered(label: str) -> str:
    """Tell of which kind of no answer a label is.

    Returns
    -------
    str
        "not asked", "silent" (refused, don't know, blank), "weak" (not sure: as good as an
        answer), or empty.
    """
    text = folded(label).strip()
    if text in (".", "-", "--", "?"):
        return "silent"
    # "N.I.U." and "n/a" are words; what stands before a label is its code, or said to interviewers.
    text = re.sub(r"\b([a-z])[./](?=[a-z]\b)", r"\1", text)
    text = re.sub(r"(?<=\w)[-_](?=\w)", " ", text)
    text = re.sub(r"^[\W\d]+(?=[a-z])|^[a-z][.)]\s+|[\W_]+$", "", text)
    text = re.sub(rf"^({_SILENT['aside']})\b\W+", "", text)
    parts = [part for part in _PARTS.split(text) if part]
    for kind in ("not asked", "silent"):
        said = _SILENT[kind]
        if re.fullmatch(said, text) or re.fullmatch(said, _BEGINS.split(text)[0]):
            return kind
        if any(re.fullmatch(said, part) for part in parts) and all(
            re.fullmatch(_SILENT["weak"], part) for part in parts
        ):
            return kind
    weak = parts and all(re.fullmatch(_SILENT["weak"], part) for part in parts)
    return "weak" if weak else ""


def asks_nothing(label: str) -> bool:
    """Tell whether a label is that of no answer: refused, don't know, not applicable, blank."""
    return unanswered(label) in ("not asked", "silent")
