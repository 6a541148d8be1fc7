"""What holds for every way of asking and every benchmark, as in scikit-learn's `check_estimator`.

Each way is asked one small task, and reference respondents answer it.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.ask.way import COMMON, DistributionWay
from lm_eval_epidemia.benchmarks import BENCHMARKS, WAYS, in_way, list_leaves
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.models.baseline import Baseline

ASKED = [(benchmark, way) for benchmark in BENCHMARKS.values() for way in benchmark.ways.values()]
#: Of a way without a task of its own here.
SMALL = Variant(n_samples=8)


def task_of(benchmark, way):
    """The available task with the fewest cells, of three levels or more where there is one."""

    def size(name):
        truth = way.load(name)
        cells = len(truth.given)
        return len(getattr(truth, "levels", ())) < 3, cells < 2, cells

    return min([entry.name for entry in benchmark.asked(way.name)][:40], key=size)


def replies(way, rows, kind):
    """What a reference respondent replies to rows, as lm-eval hands it to `Way.read`."""
    name, respondent = in_way(rows[0]["task"], way.name), Baseline(kind=kind)

    def request(row, choice):
        return SimpleNamespace(task_name=name, doc=row, args=(row["prompt"], choice))

    if way.generated:
        return [[text] for text in respondent.generate_until([request(row, {}) for row in rows])]
    return [
        respondent.loglikelihood([request(row, choice) for choice in row["choices"]])
        for row in rows
    ]


def answers_of(way, rows, said):
    return [way.read(way.of_row(row), one) for row, one in zip(rows, said, strict=True)]


def check_rows(way, truth, rows):
    """Rows have the columns that are declared, and each of them is needed to read an answer."""
    assert {*rows[0]} == {*COMMON, *way.columns, "prompt"}
    assert [*dict.fromkeys(row["cell"] for row in rows)] == [*range(len(truth.given))]
    assert len({(row["cell"], row["prompt"]) for row in rows}) == len(rows)
    assert {row["truth"] for row in rows} == {truth.fingerprint}
    for column in {**COMMON, **way.columns}.keys() - {"given"}:
        lacking = {name: value for name, value in rows[0].items() if name != column}
        with pytest.raises(EpidemiaError, match=f"missing required field `{column}`"):
            way.of_row(lacking)
        with pytest.raises(EpidemiaError, match=rf"at `\$\.{column}"):
            way.of_row(rows[0] | {column: {"no": "value"}})


def check_answers(way, truth, answers):
    """Every prompt of every cell has its place, and belongs to the first."""
    places = {(answer.cell, answer.place) for answer in answers}
    prompts = way.count_prompts(truth, answers[0])
    assert places == {(c, place) for c, _ in places for place in range(prompts)}
    assert len(answers) == len(places) == len(truth.given) * prompts
    for answer in answers:
        way.check(answer, answers[0], truth)
        assert (answer.way, answer.task, answer.truth) == (way.name, truth.task, truth.fingerprint)
    with pytest.raises(EpidemiaError, match="were made from ground truth"):
        list_leaves()[in_way(truth.task, way.name)].benchmark.measure(
            [answer._replace(truth="f" * 12) for answer in answers]
        )


def check_measurement(benchmark, way, answers):
    """Every metric is there and within its bounds, and does not depend on the order of answers."""
    measured, metrics = benchmark.measure(answers), benchmark.metrics(way)
    shuffled = [answers[i] for i in np.random.default_rng(0).permutation(len(answers))]
    again = benchmark.measure(shuffled)
    assert again.numbers == pytest.approx(measured.numbers, nan_ok=True)
    assert again.kept == measured.kept
    assert measured.numbers["seen"] == 1 and {*measured.draws} <= {*metrics}
    for name, metric in metrics.items():
        if metric.of is None:
            value = measured.numbers[name]
        elif metric.of_text is None:
            value = metric.of_answers(answers)
        else:
            continue
        assert math.isnan(value) or metric.low - 1e-6 <= value <= metric.high + 1e-6, name
        assert metric.says or metric.of.__doc__, name
    return measured.numbers


def check_way(benchmark, way):
    """Ask a small task in a way of a benchmark; see the functions above."""
    notices.forget()
    assert WAYS[way.name] is way and way.name.endswith(way.suffix.lstrip("_") or way.name)
    task = task_of(benchmark, way)
    truth, rows = way.load(task), list(split(task, way.name, SMALL))
    check_rows(way, truth, rows)
    for kind in benchmark.kinds[:2]:
        answers = answers_of(way, rows, replies(way, rows, kind))
        check_answers(way, truth, answers)
        numbers = check_measurement(benchmark, way, answers)
        if isinstance(way, DistributionWay) and not way.drawn:
            # Intervals and whole per cents are a little off.
            told = [*map(way.told, benchmark.answers(truth, kind))]
            l1 = truth.weights @ abs(told - truth.p).sum(axis=1)
            assert numbers["l1"] == pytest.approx(l1, abs=1e-9)
            assert numbers["score"] > 90 if kind == "truth" else numbers["score"] == 0
    # Of a part, the share that was seen.
    half = [answer for answer in answers if answer.cell < len(truth.given) / 2]
    assert 0 < benchmark.measure(half).numbers["seen"] < 1
    if way.generated:
        silent = answers_of(way, rows, [["I cannot say."]] * len(rows))
        assert not any(answer.is_read for answer in silent)
        assert way.diagnostics["answered"].of(silent) == 0
        if isinstance(way, DistributionWay):  # all answers equally likely
            numbers = benchmark.measure(silent).numbers
            assert numbers["score"] == 0 and 0 < numbers["l1"] <= 2


@pytest.mark.parametrize(("benchmark", "way"), ASKED, ids=[way.name for _, way in ASKED])
def test_way(benchmark, way):
    check_way(benchmark, way)


@pytest.mark.parametrize("benchmark", BENCHMARKS.values(), ids=lambda benchmark: benchmark.name)
def test_benchmark(benchmark):
    """Its tables agree with each other, in every way."""
    entries = benchmark.entries()
    assert {*benchmark.available()} <= {*entries} and benchmark.plain.suffix == ""
    groups = benchmark.every_group
    for name, entry in entries.items():
        assert entry.name == name and entry.group in groups and entry.title
        assert entry.part == "" or entry.part.startswith(entry.group)
    for way in benchmark.ways.values():
        metrics = [*benchmark.metrics(way)]
        assert benchmark.leading in metrics and metrics[0] in (benchmark.primary, *way.diagnostics)
        if benchmark.has_error:
            assert metrics[metrics.index(benchmark.primary) + 1] == f"{benchmark.primary}_stderr"
        assert "seen" in metrics and ("answered" in metrics) == way.generated
    name = benchmark.asked(benchmark.plain.name)[0].name
    truth = benchmark.plain.load(name)
    assert benchmark.metadata(truth)["truth"] == truth.fingerprint
    assert benchmark.version(truth) >= 1 and benchmark.groups_version >= 1
    for values in benchmark.cells(truth).values():
        assert len(values) == len(truth.given)
    with pytest.raises((EpidemiaError, KeyError, ValueError)):
        benchmark.answers(truth, "truht")
