"""Group entries into models and runs, write run settings in words, and choose runs.

An `Entry` holds comparable scores. One run of lm-eval may become several entries: a task with fewer
conditions than ``--limit`` is complete, and a task without orderings ignores that setting. This
module joins them again: a run is everything asked with one setting.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

from lm_eval_epidemia.core.errors import EpidemiaError, Option, OptionError, few
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.results.entry import Entry, leaf
from lm_eval_epidemia.results.naming import MAYBE, Weights, kind_of
from lm_eval_epidemia.results.protocol import Protocol, printable

#: Precisions that need no words: what the weights have, and the usual one.
_PLAIN_DTYPES = ("auto", "float32")


class Model(NamedTuple):
    """A model, which has one row for all its runs.

    Attributes
    ----------
    name : str
        As in `naming.short_names`.
    weights : Weights
    runs : tuple of Entry
        The run with most answers first; among equals the newest.
    """

    name: str
    weights: Weights
    runs: tuple[Entry, ...]

    @property
    def shown(self) -> Entry:
        """The run that stands for the model."""
        return self.runs[0]

    @property
    def others(self) -> dict[str, float]:
        """Other tasks of lm-eval, from all runs with the shown run's dtype; the shown run comes
        first.

        Our prompt settings and ``--limit`` do not apply to them.
        """
        dtype = dict(self.shown.settings).get("dtype")
        alike = [run for run in self.runs if dict(run.settings).get("dtype") == dtype]
        return {label: value for run in reversed(alike) for label, value in run.others.items()}


def models_of(entries: Iterable[Entry]) -> list[Model]:
    """Return the models of entries, in order, each with its runs.

    Runs are grouped by weights, published scores by the name of their model.
    """
    grouped: dict[tuple[Weights, str], list[Entry]] = {}
    for entry in entries:
        key = (Weights(""), entry.model) if entry.reference else (entry.weights, "")
        grouped.setdefault(key, []).append(entry)
    return [
        Model(runs[0].model, weights, tuple(sorted(runs_of(runs), key=_answered)))
        for (weights, _), runs in grouped.items()
    ]


def _answered(run: Entry) -> tuple[float, bool, float]:
    """Order runs: most tasks first, then the usual wording, then the newest."""
    shares = (score.seen for score in run.scores.values() if not math.isnan(score.value))
    return -math.fsum(shares), "wording" in dict(run.protocol.variant), -run.date


def is_respondent(entry: Entry) -> bool:
    """Whether an entry is a run of a reference respondent."""
    return entry.weights.model.startswith("epidemia-baseline")


def is_averages(entry: Entry) -> bool:
    """Whether an entry is a run of the respondent that knows averages only."""
    return is_respondent(entry) and kind_of(entry.model) == "mean"


def runs_of(entries: Sequence[Entry]) -> list[Entry]:
    """Join a model's entries that belong to one run.

    These come from one result file, or differ only in settings that do not affect any task of one
    of them. Entries that answered the same task are never joined.
    """
    runs: list[list[Entry]] = []
    # The broadest first, so that a part joins what it is most likely of.
    for entry in sorted(entries, key=lambda entry: -len(entry.scores)):
        alike = [run for run in runs if all(_of_one_run(entry, part) for part in run)]
        joined = [run for run in alike if any(_sources(entry) & _sources(part) for part in run)]
        if run := next(iter(joined or alike), None):
            run.append(entry)
        else:
            runs.append([entry])
    return [together(run) for run in runs]


def _sources(entry: Entry) -> set[Path]:
    return {score.source for score in entry.scores.values()} - {Path()}


def _of_one_run(one: Entry, other: Entry) -> bool:
    run_as = (one.settings, one.chat) == (other.settings, other.chat)
    if not run_as or one.scores.keys() & other.scores.keys():
        return False
    return bool(_sources(one) & _sources(other)) or (
        _unvaried(one.protocol) == _unvaried(other.protocol)
        and one.details == other.details
        and _heeds_no_more(one, other)
        and _heeds_no_more(other, one)
    )


def _unvaried(protocol: Protocol) -> Protocol:
    return replace(protocol, variant=())


def _heeds_no_more(one: Entry, other: Entry) -> bool:
    """Whether the settings of only one entry affect no task of the other."""
    unlike = set(other.protocol.variant) - set(one.protocol.variant)
    return not any(leaf(asked).heeds(key) for key, _ in unlike for asked in one.scores)


def together(parts: Sequence[Entry]) -> Entry:
    """Join the parts of one run into an entry."""
    if len(parts) == 1:
        return parts[0]
    protocols = [part.protocol for part in parts]
    return replace(
        parts[0],
        variant=_merged(part.variant for part in parts),
        protocol=Protocol(
            variant=_merged(p.variant for p in protocols),
            num_fewshot=_listed(p.num_fewshot for p in protocols),
            system_prompt=_listed(p.system_prompt for p in protocols),
            task_version=_listed(p.task_version for p in protocols),
            truth=_listed(p.truth for p in protocols),
            vintage=_listed(p.vintage for p in protocols),
            incomplete=any(p.incomplete for p in protocols),
            limit=_listed(p.limit for p in protocols),
            drawn=_merged(p.drawn for p in protocols),
        ),
        scores={asked: score for part in parts for asked, score in part.scores.items()},
        others={label: value for part in parts for label, value in part.others.items()},
        details=_merged(part.details for part in parts),
        shown=_merged(part.shown for part in parts),
        date=max(part.date for part in parts),
        older=tuple(pair for part in parts for pair in part.older),
        parts=tuple(parts),
    )


def _merged(settings: Iterable[tuple[tuple[str, str], ...]]) -> tuple[tuple[str, str], ...]:
    return tuple(dict(pair for pairs in settings for pair in pairs).items())


def _listed(values: Iterable[str]) -> str:
    return " ".join(sorted({value for value in values if value}))


def fields(entry: Entry) -> dict[str, str]:
    """Return every setting of a run by name, ``none`` for defaults."""
    said = {**dict(entry.protocol.variant), **dict(entry.variant)}
    protocol, settings = entry.protocol, dict((*entry.settings, *entry.details))
    revision = [part for part in entry.weights.more if part.startswith("revision=")]
    day = "" if math.isnan(entry.date) else f"{datetime.fromtimestamp(entry.date, timezone.utc):%F}"
    known = {
        "model": entry.model,
        "revision": "".join(revision).removeprefix("revision="),
        "backend": settings.pop("backend", ""),
        "dtype": settings.pop("dtype", ""),
        "chat_template": "yes" if entry.chat else "",
        **{key: said.get(key, "") for key in Variant()._fields},
        "num_fewshot": protocol.num_fewshot,
        "system": protocol.system_prompt[:8],
        "limit": protocol.limit or "incomplete" * protocol.incomplete,
        "task_version": protocol.task_version,
        "truth": protocol.truth,
        "date": day,
    }
    more = {key: value for key, value in settings.items() if key not in known}
    more |= {key: value for key, value in protocol.drawn if key not in known}
    return {key: value or "none" for key, value in {**known, **more}.items()}


def chips(entry: Entry) -> tuple[str, ...]:
    """Return the non-default settings of a run, each in a few words."""
    of = fields(entry)
    backend, dtype = of["backend"], of["dtype"]
    # A model without weights is named after its backend.
    named = backend in ("none", "hf") or entry.weights.model.startswith(backend)
    variant = dict((*entry.protocol.variant, *entry.variant))
    # What changes the numbers most comes first: a narrow table cuts the rest.
    words = [
        "published" * entry.protocol.published,
        "" if of["limit"] == "none" else f"limit {of['limit']}".replace("limit inc", "inc"),
        "chat template" * entry.chat,
        *(_in_words(key, value) for key, value in variant.items()),
        "" if of["num_fewshot"] == "none" else f"few-shot {of['num_fewshot']}",
        "" if of["system"] == "none" else f"system prompt {of['system'][:4]}",
        "" if of["task_version"] == "none" else f"task version {of['task_version']}",
        "another truth" * bool(entry.protocol.truth),
        "" if dtype in ("none", *_PLAIN_DTYPES) else dtype,
        "" if named else backend,
        *(f"{key}={value}" for key, value in entry.protocol.drawn),
        # Where rows of one model differ in nothing that has words, they differ in these.
        *(
            f"{key} {value}" if key in MAYBE else f"{key}={value}"
            for key, value in entry.shown
            if key not in ("backend", "dtype", *variant)
        ),
        dtype * ("dtype" in dict(entry.shown) and dtype in _PLAIN_DTYPES),
        backend * ("backend" in dict(entry.shown) and named and backend != "none"),
    ]
    return tuple(dict.fromkeys(printable(word) for word in words if word))


def _in_words(key: str, value: str) -> str:
    return {
        "orderings": f"{value} orderings",
        "fewshot": f"{value} solved examples",
        "wording": f"{value} wording",
        "system_prompt": f"system prompt {value}",
        "structured": f"structured {value}",
        "tries": f"up to {value} tries",
    }.get(key, f"{key}={value}")


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


def chosen(entries: Sequence[Entry], conditions: Mapping[str, str]) -> list[Entry]:
    """Return the entries of runs with these settings.

    Raises
    ------
    EpidemiaError
        If no run has this setting or this value.
    """
    runs = [run for model in models_of(entries) for run in model.runs]
    of = {id(run): fields(run) for run in runs}
    known = list(dict.fromkeys(key for settings in of.values() for key in settings))
    if unknown := [key for key in conditions if key not in known]:
        raise OptionError(
            Option("where", {key: conditions[key] for key in unknown}),
            f": no run has this setting; expected {', '.join(known)}",
        )
    kept = [
        run
        for run in runs
        if all(of[id(run)].get(key, "none") == value for key, value in conditions.items())
    ]
    if not kept:
        values = {key: sorted({of[id(run)].get(key, "none") for run in runs}) for key in conditions}
        listed = "; ".join(f"{key} is {few(values[key])}" for key in conditions)
        raise OptionError(Option("where", conditions), f" leaves no run: in these results {listed}")
    parts = [part for run in kept for part in run.parts or (run,)]
    return [entry for entry in entries if any(entry is part for part in parts)]
