"""The study's four models beside runs: their numbers are those of its tables, weighted."""

import math

import numpy as np
import pytest
from conftest import REPOSITORY
from recorded_runs import copied_run
from report_parts import by

from lm_eval_epidemia.findings import find
from lm_eval_epidemia.findings.interventions import SUBTRACTED
from lm_eval_epidemia.results import published
from lm_eval_epidemia.results.naming import KNOWN
from lm_eval_epidemia.results.published import printed, with_published
from lm_eval_epidemia.results.read import read_results

PLAIN = "epidemia_intervention"
NAMES = ("random", "tuebingen", "anticommonsense")
RANDOM, TUEBINGEN, _ = TASKS = [f"{PLAIN}_{names}" for names in NAMES]
MODELS = ("GPT-3.5", "GPT-4", "GPT-4-turbo", "LLaMA-2")
#: Every published score, by task, way and model.
SCORES = {(task, way, model): value for task, way, model, value, _ in published._intervened()}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    tasks = [PLAIN + way for way in ("", "_retrieval", "_large_03", "_large_06")]
    folder, how = tmp_path_factory.mktemp("runs"), {"model_args": "kind=retrieval"}
    return with_published(read_results([copied_run(tmp_path_factory, folder, tasks, **how)]))


def test_means_are_the_printed_numbers_weighted_over_effects_and_relations():
    """A column of the bivariate graph is a mean over two of the 22 effects, others over three.

    By hand: GPT-3.5, random names, (2 (.83 + .87) + 3 (.8 + .69 + .36 + .58 + .36 + .67)) / 22.
    Retrieval, ordered pairs: (2 * 1 + 6 * 1 + 6 * .99) / 14; (2 * .87 + 6 * .63 + 6 * .86) / 14.
    """
    assert SCORES[RANDOM, "intervention", "GPT-3.5"] == pytest.approx(13.78 / 22)
    assert SCORES[RANDOM, "retrieval", "GPT-3.5"] == pytest.approx(13.94 / 14)
    assert SCORES[RANDOM, "retrieval_written", "LLaMA-2"] == pytest.approx(10.68 / 14)
    known = {model: x for (*of, model), x in SCORES.items() if of == [TUEBINGEN, "knowledge"]}
    assert known == {"GPT-3 (text-davinci-003)": 0.80, "GPT-3.5": 0.89, "GPT-4": 0.96}
    table = printed()[printed()["table"].isin(("7", "10"))]
    sums = table.accuracy * np.where(table.graph == "bivariate", 2, 3)
    means = (sums.groupby([table.way, table.model, table.names]).sum() / 22).to_dict()
    page = (REPOSITORY / "docs/background/reproduce-interventions.md").read_text(encoding="utf-8")
    for model in MODELS:
        cells = [model]
        for way, theirs in (("intervention", "plain"), ("substitution", "substitution")):
            for task, names in zip(TASKS, NAMES, strict=True):
                value = SCORES[task, way, model]
                assert value == pytest.approx(means[theirs, model, names])
                assert value == SCORES[task, f"{way}_written", model]
                cells.append(f"{value + 1e-9:.3f}".removeprefix("0"))
        assert f"| {' | '.join(cells)} |" in page


def test_who_ignores_interventions_and_what_was_not_asked(results):
    """15 of the 22 effects change nothing: .682, which the note says, and a run gets."""
    assert "ignoring interventions scores .682" in KNOWN["published"]["intervention"]
    scores = results.scores.assign(kind=results.scores["run"].map(results.runs["kind"]))
    of, here = (scores[(scores["kind"] == "published") == are] for are in (True, False))
    ours = by(here[here["way"] == "intervention"], "task")
    assert ours[RANDOM] == pytest.approx(15 / 22)
    # Only what was asked has published numbers.
    assert not [key for key in SCORES if "large" in key[0] or key[:2] == (TUEBINGEN, "retrieval")]
    asked, theirs = ({*zip(x["task"], x["way"], strict=True)} for x in (here, of))
    assert theirs < asked
    rows = find("interventions")(results).table
    means = rows[(rows["kind"] == "published") & (rows["asked"] == "") & (rows["group"] == PLAIN)]
    for model, value in by(means, "model").items():
        values = [SCORES[task, "intervention", model] for task in TASKS]
        assert value == pytest.approx(math.fsum(values) / 3)


def test_every_printed_number_of_a_table_is_in_the_findings(results):
    """Those of tables 3, 7, 8 and 9, with their errors (0 says nothing): of what was asked, all."""
    shown = []
    for name in ("interventions", "shortcut", "memorisation"):
        rows = find(name)(results).table
        rows = rows[(rows["kind"] == "published") & (rows["asked"] != "")].fillna({"error": 0})
        rows = rows[~rows["part"].isin(("difference", *SUBTRACTED))]
        shown += rows[["model", "value", "error"]].to_numpy().tolist()
    asked = printed()[printed()["table"].isin(["3", "7", "8", "9"])]
    numbers = asked[["model", "accuracy", "error"]].to_numpy().tolist()
    assert sorted(shown) == sorted(numbers) and len(shown) == 30 + 96 + 36 + 12


def test_the_bivariate_contrast_is_with_both_queries_as_printed_and_with_ab_alone(results):
    """Theirs is the mean of AB and BA; who ignores do(B) has BA right and AB wrong."""
    contrast = find("memorisation")(results)
    rows = contrast.table
    theirs = rows["kind"] == "published"
    alone, both = "bivariate, do(B), AB", "bivariate, do(B), AB and BA"
    others = {"mediation, do(B), AC", "mediation, do(C), AC"}
    assert {*rows["asked"][theirs]} == {both, *others}
    assert {*rows["asked"][~theirs]} == {alone, both, *others}
    assert "published numbers are for AB and BA" in contrast.note
    assert {*rows["value"][~theirs & (rows["asked"] == alone)]} == {0}
    values = by(rows, "model", "asked", "part")
    assert values["epidemia-baseline kind=retrieval", both, "random"] == 0.5
    assert values["GPT-4-turbo", both, "t - a"] == pytest.approx(0.90 - 0.57)
