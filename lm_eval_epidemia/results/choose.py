"""Choose among results: runs with some settings, informative tasks, a run per model."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone

import pandas as pd

from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.core.errors import EpidemiaError, Option, OptionError, few, plural
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.results.read import NOT_SETTINGS, SETTINGS, Results
from lm_eval_epidemia.score.score import Anchors

#: Scores are comparable where these agree.
KEY = ["task", "way", "asked_as"]

#: What the usual value of a setting is called.
NONE = "none"

#: Units of numbers of parameters.
UNITS = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}

#: Words in a model's name that say it was tuned to follow instructions, and that it was not.
TUNED, PLAIN = {"instruct", "it", "chat"}, {"base", "pt", "hf"}


def keep_runs(results: Results, runs: Iterable[int]) -> Results:
    """Keep some runs."""
    kept = {*runs}
    tables = {
        name: table[table["run"].isin(kept)]
        for name, table in results._asdict().items()
        if name in ("scores", "older", "others", "files")
    }
    return results._replace(runs=results.runs[results.runs.index.isin(kept)], **tables)


def join_scores(one: pd.DataFrame, other: pd.DataFrame, on: Sequence[str] = KEY) -> pd.DataFrame:
    """Join two selections by what was asked, where both have a score; ``_other`` is the second's.

    Of a task in several groups one row is left.
    """
    both = one.merge(other, on=[*on], suffixes=("", "_other")).drop_duplicates([*on])
    both = both[both["value"].notna() & both["value_other"].notna()]
    return both.sort_values([*on], ignore_index=True)


def own_scores(results: Results) -> pd.DataFrame:
    """Return the scores of runs, without published ones."""
    kinds = results.scores["run"].map(results.runs["kind"])
    return results.scores[kinds != "published"]


def conditions_of(given: Iterable[str]) -> dict[str, str]:
    """Read ``--where``: ``limit=none,dtype=bfloat16``, in one text or several."""
    conditions: dict[str, str] = {}
    for pair in (pair for text in given for pair in text.split(",") if pair.strip()):
        key, sign, value = (part.strip() for part in pair.partition("="))
        if not (key and sign and value):
            raise EpidemiaError(f"--where {pair!r}: expected SETTING=VALUE, such as limit=none")
        if conditions.setdefault(key, value) != value:
            raise EpidemiaError(
                f"--where {key}={conditions[key]},{key}={value}: a run has one value per "
                "setting; choose one"
            )
    return conditions


def settings_of_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return every setting of runs as text, ``none`` for the usual value; known ones always."""
    named = [name for name in runs if name not in NOT_SETTINGS]
    known = runs[["model", *named]].reindex(
        columns=list(dict.fromkeys(["model", *named, *SETTINGS, *Variant._fields]))
    )
    days = [
        "" if math.isnan(date) else f"{datetime.fromtimestamp(date, timezone.utc):%F}"
        for date in runs["date"]
    ]
    return known.assign(date=days).astype(object).fillna("").replace("", NONE).astype(str)


def keep_where(results: Results, conditions: Mapping[str, str]) -> Results:
    """Keep the runs with some settings.

    Raises
    ------
    OptionError
        If no run has this setting or this value.
    """
    settings = settings_of_runs(results.runs)
    if unknown := [key for key in conditions if key not in settings]:
        raise OptionError(
            Option("where", {key: conditions[key] for key in unknown}),
            f": no run has this setting; expected {', '.join(settings)}",
        )
    fits = (settings[[*conditions]] == pd.Series(dict(conditions))).all(axis="columns")
    if not fits.any():
        values = "; ".join(f"{key} is {few(sorted({*settings[key]}))}" for key in conditions)
        raise OptionError(
            Option("where", dict(conditions)), f" leaves no run: in these results {values}"
        )
    kept = keep_runs(results, results.runs.index[fits])
    return add_notes(
        kept, [f"--where leaves out {plural(int((~fits).sum()), 'run')} of {len(fits)}"]
    )


def add_notes(results: Results, texts: Iterable[str]) -> Results:
    """Add notes."""
    more = pd.DataFrame({"run": "", "kind": "chosen", "text": [*texts]})
    return results._replace(notes=pd.concat([results.notes, more], ignore_index=True))


def load_truths(scores: pd.DataFrame) -> dict[str, store.GroundTruth]:
    """Return the available truths of what was asked, by task."""
    return {task: store.load_truth(task) for task in {*scores["task"]} & {*store.list_available()}}


def find_barely_informative(results: Results) -> list[str]:
    """Return the tasks that are barely informative."""
    return sorted(x for x, of in load_truths(results.scores).items() if Anchors.of(of).barely)


def keep_informative(results: Results) -> Results:
    """Leave out barely informative tasks.

    Raises
    ------
    EpidemiaError
        If no task is left.
    """
    barely = find_barely_informative(results)
    scores = results.scores[~results.scores["task"].isin(barely)]
    listed = f": {few(barely)}" if barely else ""
    left_out = f"{plural(len(barely), 'barely informative task')}{listed}"
    if scores.empty:
        raise EpidemiaError(f"no task is left: {left_out}; to see them, run without --informative")
    return add_notes(
        results._replace(scores=scores.reset_index(drop=True)), [f"left out: {left_out}"]
    )


def model_size(text: str) -> float:
    """Read a number of parameters: ``7B``, ``350M``, ``1.5e9``."""
    number = text.strip()
    unit = UNITS.get(number[-1:].upper(), 0.0)
    try:
        size = float(number[:-1]) * unit if unit else float(number)
    except ValueError:
        size = math.nan
    if not 0 < size < math.inf:
        raise EpidemiaError(f"size {text!r}: expected a number of parameters such as 7B or 350M")
    return size


def set_sizes(results: Results, sizes: Mapping[str, float]) -> Results:
    """Set numbers of parameters, by model."""
    models = results.runs["model"]
    if unknown := sorted({*sizes} - {*models}):
        known = ", ".join(sorted({*models}))
        raise EpidemiaError(f"a size was given for {few(unknown) or repr('')}: expected {known}")
    given = models.map(dict(sizes))
    return results._replace(
        runs=results.runs.assign(parameters=given.fillna(results.runs["parameters"]))
    )


def pair_in(text: str, models: Iterable[str]) -> tuple[str, str]:
    """Read two models from ``BASE=OTHER``; a name may contain a = itself.

    Raises
    ------
    EpidemiaError
        If no = separates two known names, or several do, or both are one model.
    """
    known = {*models}
    split = [(text[:at], text[at + 1 :]) for at, sign in enumerate(text) if sign == "="]
    fitting = [names for names in split if {*names} <= known]
    if len(fitting) != 1:
        what = "is ambiguous" if fitting else "does not name two of the models"
        raise EpidemiaError(
            f"--pair {text!r} {what}: expected BASE=OTHER, of {', '.join(sorted(known))}"
        )
    if fitting[0][0] == fitting[0][1]:
        raise EpidemiaError(f"{fitting[0][0]!r} cannot be paired with itself: give two models")
    return fitting[0]


def add_bases(results: Results, given: Sequence[tuple[str, str]] = ()) -> Results:
    """Say of runs what models they are versions of: a column ``bases`` of tuples of names.

    "Llama-3.1-8B-Instruct" is a version of "Llama-3.1-8B", and "gemma-2-9b-it" of "gemma-2-9b".

    Parameters
    ----------
    results : Results
    given : sequence of (str, str)
        Base and version, for names that do not show it.
    """
    models = [*dict.fromkeys(results.runs["model"])]
    stems: dict[tuple[str, ...], list[str]] = defaultdict(list)
    tuned = {}
    for model in models:
        words = [word for word in re.split(r"[-_\s]+", model.lower()) if word]
        stem = tuple(word for word in words if word not in TUNED | PLAIN)
        if TUNED & {*words}:
            tuned[model] = stem
        else:
            stems[stem].append(model)
    bases: dict[str, list[str]] = {
        model: [*stems[tuned[model]]] if model in tuned else [] for model in models
    }
    for base, version in given:
        bases[version] = [*dict.fromkeys([*bases[version], base])]
    of_model = results.scores["run"].map(results.runs["model"])
    notes = [
        f"--pair {base}={version}: the two share no task that was asked in the same way"
        for base, version in given
        if join_scores(results.scores[of_model == base], results.scores[of_model == version]).empty
    ]
    runs = results.runs.assign(bases=[tuple(bases[model]) for model in results.runs["model"]])
    return add_notes(results._replace(runs=runs), notes)


def find_closest(runs: pd.DataFrame, run: int, among: Iterable[int]) -> list[int]:
    """Return the runs of each model that share the most settings with a run."""
    settings = [name for name in runs if name not in NOT_SETTINGS]
    alike = {
        other: int((runs.loc[other, settings] == runs.loc[run, settings]).sum()) for other in among
    }
    best: dict[object, int] = {}
    for other, number in alike.items():
        of = runs["weights"][other]
        best[of] = max(best.get(of, 0), number)
    return [other for other, number in alike.items() if number == best[runs["weights"][other]]]


def group_alike(runs: pd.DataFrame, apart: Sequence[str]) -> list[list[int]]:
    """Group the runs of each model that differ in nothing but some settings."""
    same = [name for name in runs if name not in (*NOT_SETTINGS, *apart)]
    return [[*of.index] for _, of in runs.groupby(["model", *same], sort=False, dropna=False)]
