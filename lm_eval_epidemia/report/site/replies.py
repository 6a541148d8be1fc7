"""Models' replies, and the answers read from them: the first thing to check if a model scores 0."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from lm_eval_epidemia.benchmarks import WAYS, in_way
from lm_eval_epidemia.benchmarks.prior.quantities.families import FAMILIES
from lm_eval_epidemia.results.decode import LeafKey, to_printable
from lm_eval_epidemia.results.documents import decode_line
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.results.samples import NOT_A_SAMPLE, sample_file

#: How many replies of a run are kept: as many as could not be read, and of those that could be.
UNREAD, READ = 60, 30

#: Longer texts are cut, in characters.
LONGEST = 900


class _SampleLine(msgspec.Struct):
    doc: dict[str, Any]
    filtered_resps: list[Any]


def describe_answer(answer: Any, doc: dict[str, Any]) -> str:
    """Return the answer read from a reply, in words; empty if unreadable."""
    if not answer.is_read:
        return ""
    value, choices = answer.value, [str(choice) for choice in doc.get("choices", ())]
    if "family" in doc:
        family, a, b = value
        return f"{FAMILIES[int(family)]} {a:.4g}, {b:.4g}"
    if isinstance(value, tuple):
        order = answer.order or range(len(value))
        return "; ".join(
            f"{choice} {100 * value[level]:.1f} %"
            for choice, level in zip(choices, order, strict=False)
        )
    if answer.way.startswith("intervention"):
        return "yes" if value > 0 else "no"
    if answer.order:
        place = list(answer.order).index(value)
        return choices[place] if place < len(choices) else str(value)
    return f"{100 * value:.1f} %" if 0 <= value <= 1 else f"{value:g}"


def _read_replies(path: Path, asked: LeafKey) -> Iterator[dict[str, str]]:
    way = WAYS[asked.way]
    decoder = msgspec.json.Decoder(_SampleLine)
    with path.open("rb") as file:
        for text in file:
            try:
                line = decode_line(decoder, text, _SampleLine)
                answer: Any = way.read(way.of_row(line.doc), line.filtered_resps)
                value = describe_answer(answer, line.doc)
            except (*NOT_A_SAMPLE, KeyError, AttributeError, OverflowError):
                continue  # a line that lm-eval did not write
            reply = {"task": in_way(*asked), "prompt": str(line.doc.get("prompt", ""))}
            reply["reply"] = str(line.filtered_resps[0]) if line.filtered_resps else ""
            for name in ("prompt", "reply"):
                if len(reply[name]) > LONGEST:
                    reply[name] = reply[name][: LONGEST - 1] + "…"
            yield reply | {"value": to_printable(value)}


def of_models(results: Results) -> dict[str, dict[str, Any]]:
    """Return by model the number of its replies, of unread ones, and some: unread ones first."""
    kept: dict[str, dict[str, Any]] = {}
    scores = results.scores.assign(model=results.scores["run"].map(results.runs["model"]))
    written = scores[np.array([WAYS[way].generated for way in scores["way"]], bool)]
    for model, rows in written.groupby("model", sort=False):
        tasks = [LeafKey(*of) for of in zip(rows["task"], rows["way"], strict=True)]
        files = map(sample_file, rows["file"], tasks)
        paths = [(asked, path) for asked, path in zip(tasks, files, strict=True) if path]
        unread: list[dict[str, str]] = []
        read: list[dict[str, str]] = []
        number, lost, few = 0, 0, max(2, READ // max(1, len(paths)))
        for asked, path in paths:
            most = min(READ, len(read) + few)
            for reply in _read_replies(path, asked):
                number += 1
                lost += not reply["value"]
                of, end = (read, most) if reply["value"] else (unread, UNREAD)
                if len(of) < end:
                    of.append(reply)
        if number:
            kept[str(model)] = {"number": number, "unread": lost, "shown": [*unread, *read]}
    return kept
