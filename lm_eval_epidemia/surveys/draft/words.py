"""Texts of a file: what they say of columns and answers, and their way into a record.

The words and patterns of `words.yaml` are guesses, shown or marked for a person to check. Most are
of English surveys; weights and non-answers are also of other languages. In a record texts are
cleaned, cut, quoted, and never taken as markup.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from lm_eval_epidemia.core.names import ENDINGS
from lm_eval_epidemia.core.paths import read_yaml

if TYPE_CHECKING:
    from lm_eval_epidemia.surveys.draft.columns import FileColumn


class Pattern(NamedTuple):
    """What something is called: expressions for a column's name and for its label.

    Either may tell; `but` are labels that tell otherwise.
    """

    name: str
    label: str = r"(?!)"
    but: str = r"(?!)"

    def fits(self, column: FileColumn) -> bool:
        """Tell whether a column is one."""
        name, label = column.name.casefold(), column.label.casefold()
        if re.search(self.but, label):
            return False
        return bool(re.fullmatch(self.name, name) or re.search(self.label, label))


def fold_text(text: str) -> str:
    """Return a text in small letters without accents and apostrophes."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in plain if not unicodedata.combining(c) and c not in "'\u2019`\u00b4")


def split_name(name: str) -> str:
    """Part the words of a name, also where letters meet digits: W1WEIGHT is "w 1 weight"."""
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])|_", " ", name)
    return " ".join(re.findall(r"\w+", fold_text(parted)))


def _any_of(table: str) -> re.Pattern[str]:
    """Compile a table of `words.yaml`: words by the place in which they count."""
    words = {place: several.replace(", ", "|") for place, several in WORDS[table].items()}
    return re.compile(
        "|".join(_PLACES[place].format(f"(?:{word})") for place, word in words.items())
    )


#: What is too long for code.
WORDS = read_yaml(__package__, "words.yaml")
COLUMNS, DEMOGRAPHIC = (
    {
        name: Pattern(**{of: text.replace("\n", "") for of, text in one.items()})
        for name, one in several
    }
    for several in (WORDS["columns"].items(), WORDS["demographic"].items())
)
#: No two people have the same: "case_id"; or only where that shows too: "phone_number".
IDENTIFIER, NUMBER = COLUMNS["identifier"], COLUMNS["number"]
#: Of the interview, not of the person: no outcome worth asking a model about.
ABOUT_INTERVIEW = COLUMNS["about interview"]
COUNTRY, STRATA, PSU = (COLUMNS[name] for name in ("country", "strata", "psu"))
_PLACES = {"anywhere": "{}", "word": r"\b{}\b", "begins": r"\b{}", "ends": r"{}\b", "all": "^{}$"}
_SAYS_WEIGHT, _CALLED_WEIGHT = _any_of("weight"), _any_of("weight in names")
_NO_WEIGHT, _MEASURED = _any_of("no weight"), _any_of("measured")


def says_weight(name: str, label: str) -> bool:
    """Tell whether a column of this name and label is a survey weight, as far as words go."""
    name, label = split_name(name), fold_text(label)
    called = _SAYS_WEIGHT.search(f"{name} | {label}") or _CALLED_WEIGHT.search(name)
    return bool(called) and not _NO_WEIGHT.search(f"{name} | {label}")


def says_measured(name: str, label: str) -> bool:
    """Tell whether a column's name or label speaks of what is measured, which no weight is."""
    said = f"{split_name(name)} | {fold_text(label)}"
    return bool(_MEASURED.search(said) or _NO_WEIGHT.search(said))


#: Which weights are the likeliest: those that are the last step, and of persons.
FINAL = re.compile(WORDS["patterns"]["final"])
REPLICATE = re.compile(WORDS["patterns"]["replicate"])
#: A text that is a date or a time of day.
DATE = re.compile(WORDS["patterns"]["date"].replace("\n", ""), re.IGNORECASE)

#: Units of numbers, and in what multiples of these they are, by what a column's name or label says;
#: the first that fits.
UNITS, SCALES = WORDS["units"], WORDS["scales"]
#: What is counted in dollars where no currency is named; marked, as all that is guessed. And what
#: makes of money a number in another unit, or in one that is not known.
MONEY, NO_MONEY = WORDS["patterns"]["money"], WORDS["patterns"]["no money"]
#: Numbers whose mean means nothing.
CODED = WORDS["patterns"]["coded"]
#: How a currency is called after "thousand".
CURRENCIES = {"$": "dollars", "\u20ac": "euros", "\u00a3": "pounds sterling"}
#: Names of columns that are abbreviations.
SPELT_OUT = {"bmi": "body mass index", "hrs": "hours"}
#: How a demographic variable is asked for.
QUESTIONS = WORDS["questions"]
#: Answers that continue "is" as they stand, once in lower case.
PREDICATES = frozenset(WORDS["predicates"].split())

# -- Answers that say nothing -------------------------------------------------------------------

_SILENT = {kind: "|".join(words.split(", ")) for kind, words in WORDS["no answer"].items()}
_SILENT["silent"] = f"{_SILENT['not asked']}|{_SILENT['silent']}"
_SILENT["weak"] = f"{_SILENT['silent']}|{_SILENT['weak']}|{_SILENT['aside']}"
_PARTS = re.compile(r"\s*(?:[/,;&|()\[\]]|\bor\b|\band\b|(?<=\s)-(?=\s))\s*")
_BEGINS = re.compile(r"\s*[:(,;=\u2013\u2014]\s*|\s+-+\s+|\.(?:\s+|$)")


@lru_cache(2**16)  # labels repeat from column to column
def find_no_answer(label: str) -> str:
    """Tell of which kind of no answer a label is.

    Returns
    -------
    str
        "not asked", "silent" (refused, don't know, blank), "weak" (not sure: as good as an
        answer), or empty.
    """
    text = fold_text(label).strip()
    if text in (".", "-", "--", "?"):
        return "silent"
    # "N.I.U." and "n/a" are words; what stands before a label is its code, or said to interviewers.
    text = re.sub(r"\b([a-z])[./]+(?=[a-z]\b)", r"\1", text)
    text = re.sub(r"(?<=\w)[-_](?=\w)", " ", text)
    text = re.sub(r"^[\W\d]+(?=[a-z])|^[a-z][.)]\s+|[\W_]+$", "", text)
    text = re.sub(rf"^({_SILENT['aside']})\b\W+", "", text)
    parts = [part for part in _PARTS.split(text) if part]
    weak = bool(parts) and all(re.fullmatch(_SILENT["weak"], part) for part in parts)
    told = (text, _BEGINS.split(text)[0], *(parts if weak else ()))
    for kind in ("not asked", "silent"):
        if any(re.fullmatch(_SILENT[kind], part) for part in told):
            return kind
    return "weak" if weak else ""


def asks_nothing(label: str) -> bool:
    """Tell whether a label is that of no answer: refused, don't know, not applicable, blank."""
    return find_no_answer(label) in ("not asked", "silent")


def _stems(text: str) -> set[str]:
    """Return the beginnings of the words of a text, but for those that deny it."""
    return {word[:4] for word in re.findall(r"\w+", fold_text(text))} - {*WORDS["denials"].split()}


def like_others(text: str, texts: Iterable[str], enough: int = 3) -> bool:
    """Tell whether a text of no answer is one beside others.

    As a code among enough of them, of countries: NA beside AT, BE and DE. Or as what the others
    say, denied: "trifft nicht zu" beside "trifft eher zu".
    """
    said = _stems(text)
    if find_no_answer(text) == "not asked" and any(said <= _stems(o) for o in texts if o != text):
        return True
    shape = "[A-Z]{2,3}" if text.isupper() else "[a-z]{2,3}"
    others = [other for other in texts if not asks_nothing(other)]
    alike = [other for other in others if re.fullmatch(shape, other) and len(other) == len(text)]
    return bool(re.fullmatch(shape, text)) and len(alike) >= max(enough, len(others) / 2)


#: What stands for a person's eye, in a comment.
CHECK = "# check:"

#: Characters that a label, a phrase's question, a variable's name are cut at.
LONGEST = 200
LONGEST_NAME = 40


def clean_text(text: object) -> str:
    """Return a text in one line of printable characters, spaces single.

    Control and format characters, line breaks and lone surrogates become spaces or nothing.
    """
    if text is None:
        return ""
    kept = "".join(
        c if c.isprintable() else "" if unicodedata.category(c) == "Cf" else " " for c in str(text)
    )
    return " ".join(kept.split())


def shorten_text(text: str, longest: int = LONGEST) -> str:
    """Cut a text that is longer, at a space where there is one, and end it with an ellipsis."""
    if len(text) <= longest:
        return text
    head = text[: longest - 3]
    return (head.rsplit(" ", 1)[0] if " " in head[longest // 2 :] else head) + "..."


def quoted(text: str) -> str:
    """Write a text as a YAML scalar: whatever is in it, it is read back as it is."""
    # JSON's strings are YAML's double-quoted ones, once nothing unprintable is among them.
    scalar = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in scalar)


def quote_number(value: float) -> str:
    """Write a number so that YAML reads back the same."""
    if value in (float("inf"), float("-inf")):
        return ".inf" if value > 0 else "-.inf"
    if float(value).is_integer() and abs(value) < 2**53:
        return str(int(value))
    # Without a point before the exponent, YAML 1.1 would read a text.
    scalar = repr(float(value))
    return scalar if "." in scalar else scalar.replace("e", ".0e")


def variable_name(column: str, place: int) -> str:
    """Make a name for a variable, as task and file names need it: ``Q1 (a)`` is q1_a.

    Parameters
    ----------
    column : str
    place : int
        Of the column in its file, from 1: names one of which nothing is left.
    """
    plain = unicodedata.normalize("NFKD", column).encode("ascii", "ignore").decode().casefold()
    name = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")[:LONGEST_NAME].strip("_")
    if not name or not name[0].isalpha():
        name = f"v{name or place}"
    # "a_by_b" would leave open where the outcome ends, "by_a_likelihood" what is asked.
    name = re.sub(r"(?<=_)by(?=_)", "per", name)
    return f"{name}_v" if name.split("_")[-1] in ENDINGS or name in _NO_NAMES else name


def make_unique(name: str, taken: Iterable[str]) -> str:
    """Return a name that nothing else has: q1, q1_2, q1_3."""
    taken = set(taken)
    others = (f"{name}_{n}" for n in range(2, len(taken) + 3))
    return name if name not in taken else next(other for other in others if other not in taken)


#: YAML takes them for no text.
_NO_NAMES = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


class Mark(NamedTuple):
    """A place in a record that waits for a person's eye: its line, from 1, and what to check."""

    line: int
    says: str


def marks(text: str) -> list[Mark]:
    """Find the marks of a record.

    Returns
    -------
    list of Mark
        In their order; what to check is the rest of the line, or the line itself.
    """
    # Outside of double quotes: a label may say anything.
    mark = re.compile(rf'(?:[^"]|"(?:[^"\\]|\\.)*")*?{CHECK}(.*)')
    found = ((row, mark.match(line)) for row, line in enumerate(text.splitlines(), 1))
    return [Mark(row, said[1].strip() or said[0].strip()) for row, said in found if said]
