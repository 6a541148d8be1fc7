"""Drawings of pages without a script: scores on a line, truth and answers. SVG and HTML.

Positions along a line are in percent of its width, so that text keeps its size on a phone; colours
are those of the page, light or dark. Each drawing has a description in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from lm_eval_epidemia.old.findings.profile import Curve

#: Width and height of a small chart, and the space for its axis, in units of its view box.
WIDE, HIGH, LEFT, BELOW, ABOVE = 300, 200, 34, 34, 16

#: For the names at the ends of lines.
ROOM = 46

#: How many conditions are drawn at most: evenly chosen, where a task has more.
MOST = 48


class Mark(NamedTuple):
    """A score on a line.

    Attributes
    ----------
    who : str or Markup
    value, low, high : float
        The score, with the ends of its interval.
    known : float or None
        Score of the respondent that knows averages only, on the same questions.
    text : str
        The score as text.
    published : bool
    apart : bool
        Whether it does not belong to a model, and is separated from the marks above.
    """

    who: str
    value: float
    low: float
    high: float
    known: float | None = None
    text: str = ""
    published: bool = False
    apart: bool = False


class Line(NamedTuple):
    """A reference value across marks, with its label."""

    at: float
    says: str


def strip(
    marks: Sequence[Mark], lines: Sequence[Line], low: float, high: float, digits: int = 1
) -> Markup:
    """Draw a line per score, from one end of the scale to the other.

    Parameters
    ----------
    marks : sequence of Mark
        In drawing order, from the top.
    lines : sequence of Line
        Dashed lines through all marks, labelled above them.
    low, high : float
        The ends of the scale.
    digits : int
        Digits of numbers, after the point.
    """

    def at(value: float) -> str:
        return f"{100 * (min(max(value, low), high) - low) / (high - low):.2f}%"

    rules = Markup("").join(
        Markup('<line class="rule" x1="{0}" x2="{0}" y1="0" y2="100%"/>').format(at(line.at))
        for line in lines
    )
    parts = [
        Markup('<span></span><svg class="ends" style="--tall:{}rem" aria-hidden="true">').format(
            1.15 * len(lines)
        )
    ]
    for place, line in enumerate(lines):
        share = (line.at - low) / (high - low)
        side = "start" if share < 0.3 else "end" if share > 0.7 else "middle"
        parts.append(
            Markup(
                '<line class="rule" x1="{0}" x2="{0}" y1="{1}rem" y2="100%"/>'
                '<text class="says" x="{0}" y="{2}rem" text-anchor="{3}">{4}</text>'
            ).format(
                at(line.at),
                f"{1.15 * place + 1:.2f}",
                f"{1.15 * place + 0.85:.2f}",
                side,
                line.says,
            )
        )
    parts.append(Markup("</svg><span></span>"))
    for mark in marks:
        says = f"{mark.text}, from {mark.low:.{digits}f} to {mark.high:.{digits}f}"
        kinds = [*["published"] * mark.published, *["apart"] * mark.apart]
        known = Markup("")
        if mark.known is not None:
            says += f"; knows averages only, on the same questions: {mark.known:.{digits}f}"
            known = Markup('<line class="known" x1="{0}" x2="{0}" y1="15%" y2="85%"/>').format(
                at(mark.known)
            )
        parts.append(
            Markup(
                '<span class="who{apart}">{who}</span><svg role="img" aria-label="{says}"{kind}>'
                '<title>{says}</title><line class="axis" x1="0" x2="100%" y1="50%" y2="50%"/>'
                '{rules}{known}<line class="interval" x1="{low}" x2="{high}" y1="50%" y2="50%"/>'
                '<circle class="dot" cx="{value}" cy="50%" r="5"/></svg>'
                '<span class="value">{text}</span>'
            ).format(
                who=mark.who,
                apart=" apart" * mark.apart,
                says=says,
                kind=Markup(' class="{}"').format(" ".join(kinds)) if kinds else "",
                rules=rules,
                known=known,
                low=at(mark.low),
                high=at(mark.high),
                value=at(mark.value),
                text=mark.text,
            )
        )
    return Markup('<div class="strip">') + Markup("").join(parts) + Markup("</div>")


def _nice(highest: float) -> float:
    """Return where an axis of shares ends."""
    return next(end for end in (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0) if highest <= end)


def curve(shown: Curve) -> Markup:
    """Draw truth and answer over the conditions, as lines labelled at their ends.

    Many conditions are sorted by the truth, with points for answers; of very many, only some are
    drawn.
    """
    whole = len(shown.labels)
    many = whole > 24
    order = sorted(range(whole), key=lambda i: shown.truth[i]) if many else list(range(whole))
    if whole > MOST:
        order = [order[place * (whole - 1) // (MOST - 1)] for place in range(MOST)]
    number = len(order)
    place_of = {cell: place for place, cell in enumerate(order)}
    top = _nice(max([*shown.high, shown.mean, *(p for _, p in shown.answer)]))
    right = WIDE - ROOM

    def x(place: float) -> float:
        return LEFT + (right - LEFT) * (place + 0.5) / number

    def y(p: float) -> float:
        return ABOVE + (HIGH - ABOVE - BELOW) * (1 - p / top)

    def path(points: Sequence[tuple[int, float]]) -> str:
        return " ".join(f"{x(place):.0f},{y(p):.0f}" for place, p in points)

    truth = [(place, shown.truth[cell]) for place, cell in enumerate(order)]
    band = [(place, shown.high[cell]) for place, cell in enumerate(order)]
    band += [(place, shown.low[cell]) for place, cell in reversed(list(enumerate(order)))]
    answer = sorted((place_of[cell], p) for cell, p in shown.answer if cell in place_of)
    parts = [
        f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{y(p):.0f}" y2="{y(p):.0f}"/>'
        f'<text x="{LEFT - 4}" y="{y(p) + 4:.0f}" text-anchor="end">{100 * p:g} %</text>'
        for p in (0, top / 2, top)
    ]
    parts += [
        f'<polygon class="band" points="{path(band)}"/>',
        f'<line class="mean" x1="{LEFT}" x2="{right}" y1="{y(shown.mean):.0f}" '
        f'y2="{y(shown.mean):.0f}"/>',
        f'<polyline class="truth" points="{path(truth)}"/>',
    ]
    if answer:
        if not many:
            parts.append(f'<polyline class="answer" points="{path(answer)}"/>')
        # Lines of no length, whose ends are round.
        dots = "".join(f"M{x(place):.0f},{y(p):.0f}h0" for place, p in answer)
        parts.append(f'<path class="answer dots" d="{dots}"/>')
    ends = [("truth", y(truth[-1][1]), "survey"), ("mean", y(shown.mean), "average")]
    if answer:
        ends.append(("answer", y(answer[-1][1]), "model"))
    parts += [
        f'<text class="{kind}" x="{right + 4}" y="{at:.0f}">{says}</text>'
        for kind, at, says in _apart(ends)
    ]
    first, last = ("rarest", "commonest") if many else (shown.labels[0], shown.labels[-1])
    labels = Markup(
        '<text x="{}" y="{}">{}</text><text x="{}" y="{}" text-anchor="end">{}</text>'
    ).format(LEFT, HIGH - 18, _cut(first), right, HIGH - (18 if number > 1 else 4), _cut(last))
    gaps = [abs(p - shown.truth[cell]) for cell, p in shown.answer]
    said = f"Share of “{shown.says}” over {whole} conditions: survey from "
    said += f"{100 * min(shown.truth):.1f} % to {100 * max(shown.truth):.1f} %"
    if gaps:
        given = [p for _, p in shown.answer]
        said += (
            f"; model from {100 * min(given):.1f} % to {100 * max(given):.1f} %, "
            f"{100 * sum(gaps) / len(gaps):.1f} points off on average"
        )
    return Markup(
        '<svg class="curve" role="img" viewBox="0 0 {} {}" aria-label="{}">{}{}</svg>'
    ).format(WIDE, HIGH, said, Markup("".join(parts)), labels)


def _apart(ends: list[tuple[str, float, str]]) -> list[tuple[str, float, str]]:
    """Move labels at the ends of lines so that none overlap."""
    placed: list[tuple[str, float, str]] = []
    for kind, at, says in sorted(ends, key=lambda end: end[1]):
        above = placed[-1][1] + 12 if placed else ABOVE - 4
        placed.append((kind, max(at + 4, above), says))
    return placed


def _cut(label: str, most: int = 22) -> str:
    return label if len(label) <= most else label[: most - 1] + "…"
