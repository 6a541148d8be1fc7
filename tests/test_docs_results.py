"""Numbers of a real run that a page prints are those in docs/results."""

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats

from lm_eval_epidemia.benchmarks.prior import grid
from lm_eval_epidemia.benchmarks.prior import metrics as priors
from lm_eval_epidemia.benchmarks.prior.quantities import store
from lm_eval_epidemia.findings import tuning, tuning_tables
from lm_eval_epidemia.findings.leaderboard import make_report
from lm_eval_epidemia.findings.reference import known_over
from lm_eval_epidemia.report.output import as_rows
from lm_eval_epidemia.results.card import TUNED_CARD
from lm_eval_epidemia.results.results import read_results

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = DOCS / "results"


@cache
def results(folder):
    (path,) = (RESULTS / folder).glob("results_*.json")
    return json.loads(path.read_text(encoding="utf-8"))


def metric(folder, task, name):
    return results(folder)["results"][task][f"{name},none"]


def section(page):
    """What a page says of the small model, and nothing after."""
    text = (DOCS / page).read_text(encoding="utf-8").split("## A real small model\n")[1]
    return " ".join(text.split("\n## ")[0].split())


def assert_printed(page, expected):
    """Hold numbers of the small model against a page; none with decimals may be left over."""
    text = section(page)
    for pattern, values in expected:
        printed = re.search(pattern, text)
        assert printed, f"{page} does not say {pattern}"
        for shown, value in zip(printed.groups(), values, strict=True):
            rounded = round(value, len(shown.partition(".")[2]))
            assert float(shown) == pytest.approx(rounded, abs=1e-9), (pattern, value)
        text = text.replace(printed[0], "")
    assert not re.findall(r"\d*\.\d+", text), "numbers that no file was held against"


def test_interventions():
    group = "epidemia_intervention"
    names = "accuracy base_accuracy choice_mass kappa0_accuracy kappa1_accuracy margin"
    names = f"{names} post_accuracy seen yes_bias".split()
    found = {name: metric("interventions", group, name) for name in names}
    rows = [(rf"\|{name} *\|[↑↓ ]*\| *(-?[\d.]+)\|", [value]) for name, value in found.items()]
    error = metric("interventions", group, "accuracy_stderr")
    noticed = {
        row["name"]: row
        for row in as_rows(make_report(read_results([RESULTS / "interventions"])))
        if row["kind"] == "notices"
    }
    difference = noticed["difference"]
    assert_printed(
        "interventional.md",
        [
            (r"± \|([\d.]+)\|", [error]),
            *rows,
            (r"probability of (\.\d+)", [found["choice_mass"]]),
            (
                r"rise by (\.\d+) where nothing changes and by (\.\d+) where",
                [noticed["kappa = 0"]["value"], noticed["kappa = 1"]["value"]],
            ),
            (
                r"difference of (\S+), with a 95 % interval from (\S+) to \+([\d.]+\d)",
                [difference["value"], difference["low"], difference["high"]],
            ),
        ],
    )
    # 5/22 of the effects and 8/14 of the relations, in every kind of names.
    assert "accuracy is 5/22, retrieval 8/14" in section("interventional.md")
    for names in ("random", "tuebingen", "anticommonsense"):
        task = f"{group}_{names}"
        assert metric("interventions", task, "accuracy") == pytest.approx(5 / 22)
        assert metric("interventions", f"{task}_retrieval", "accuracy") == pytest.approx(8 / 14)


def correlations():
    """Of the grid's means with truths: over all, of the marginals, within variables."""
    truth = store.load("epidemia_prior_nhanes")
    (line,) = results("priors/grid")["epidemia"]["said"].values()
    at = np.array([grid.points(one) for one in truth.quantities], dtype=float)
    means = (special.softmax(priors.said(line, truth), axis=1) * at).sum(axis=1)
    true, marginal, spread = np.array(
        [(one.mean, one.marginal_mean, one.marginal_sd) for one in truth.quantities]
    ).T
    conditional = np.array([bool(one.conditions) for one in truth.quantities])
    within = stats.spearmanr(*(((one - marginal) / spread)[conditional] for one in (means, true)))
    overall, alone = (stats.spearmanr(one, true).statistic for one in (means, marginal))
    return overall, alone, conditional.sum(), within.statistic, within.pvalue


def test_priors():
    row = r"\| ([\d.]+) ± ([\d.]+)" + 4 * r" \| ([\d.]+)"
    columns = ["error_ratio", "error_ratio_stderr", "win_rate_5", "posterior_win_rate_5"]
    columns += ["crps_ratio", "ece"]

    def numbers(folder, task, last):
        return [metric(f"priors/{folder}", task, name) for name in [*columns, last]]

    all_, marginals, number, within, p = correlations()
    task, by_grid = "epidemia_prior_nhanes", "epidemia_prior_nhanes_grid"
    assert_printed(
        "priors.md",
        [
            (rf"`direct`, [^|]* {row} \| ([\d.]+) \| \|", numbers("direct", task, "answered")),
            (rf"`grid`, [^|]* {row} \| \| ([\d.]+) \|", numbers("grid", by_grid, "end_mass")),
            (rf"`mean` [^|]* {row} \| \| ([\d.]+) \|", numbers("grid-mean", by_grid, "end_mass")),
            (r"truths by (\.\d+) \(Spearman\)", [all_]),
            (r"the marginals alone have (\.\d+)", [marginals]),
            (r"the (\d+) conditional quantities give (\.\d+) \(p = (\.\d+)\)", [number, within, p]),
        ],
    )


@pytest.mark.parametrize("folder", ["interventions", "priors/direct", "priors/grid"])
def test_the_runs_are_asked_as_the_pages_say(folder):
    found = results(folder)
    assert found["model_name"] == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert found["config"]["model_args"]["dtype"] == "float32"
    assert found["config"]["limit"] is None
    assert found["chat_template"]


def test_no_file_names_a_folder_of_this_machine():
    machine = re.compile(r"[\"' ]/(?:home|root|tmp|work|Users|opt|mnt)/")
    for path in RESULTS.rglob("*.json*"):
        assert not machine.search(path.read_text(encoding="utf-8")), path


# Fine-tuning: the run of each row of the tables.

TUNED = {
    "nothing": "base",
    "864 answers": "answers-960-lora",
    "3,600 answers": "answers-4000-lora",
    "10,800 answers": "answers-12000-lora",
    "90 distributions, bfloat16": "distributions-lora",
    "90 distributions, float32": "distributions-float32-lora",
    "3,600 answers, cells held out": "answers-4000-heldout-lora",
    "66 distributions, float32, cells held out": "distributions-heldout-lora",
    "270 statements, LoRA": "statements-300-lora",
    "270 shuffled notes, LoRA": "shuffled-300-lora",
    "270 notes, LoRA": "notes-300-lora",
    "270 notes, all weights": "notes-300-full",
}
SEEDS = [f"notes-400-seed-{seed}" for seed in (1, 2, 3)]


def table(first):
    """Rows of the table whose head begins so, by their first cells: the others by column."""
    lines = (DOCS / "finetuning.md").read_text(encoding="utf-8").split(f"| {first} ")[1]
    head, _, *rows = (f"| {first} {lines}".split("\n\n")[0]).splitlines()
    names, *rows = ([cell.strip(" *`") for cell in row.split("|")[1:-1]] for row in (head, *rows))
    return {row[0]: dict(zip(names[1:], row[1:], strict=True)) for row in rows}


def assert_rounded(shown, *values):
    """Hold "0.0 ± 0.0" or ".603" against values."""
    for text, value in zip(shown.split(" ± "), values, strict=True):
        digits = len(text.partition(".")[2])
        assert float(text) == pytest.approx(round(value, digits), abs=1e-9), (shown, values)


def tuned(name):
    return json.loads((RESULTS / "finetuning" / name / TUNED_CARD).read_text(encoding="utf-8"))


def test_fine_tuning():
    rows = table("trained on | steps")
    averages = rows.pop("knows averages only")
    assert set(rows) == set(TUNED)
    for row, name in TUNED.items():
        shown, run = rows[row], f"finetuning/{name}"
        low, likelihood = "epidemia_low_nsduh", "epidemia_low_nsduh_likelihood"
        for column, task in {"score": low, "score as likelihood": likelihood}.items():
            values = (metric(run, task, of) for of in ("score", "score_stderr"))
            assert_rounded(shown[column], *values)
        for column in ("l1", "choice_mass", "order_bias"):
            assert_rounded(shown[column], metric(run, low, column))
        if high := shown["high: score"]:
            values = (metric(run, "epidemia_high_nsduh", of) for of in ("score", "score_stderr"))
            assert_rounded(high, *values)
        if name != "base":
            assert int(shown["steps"]) == tuned(name)["steps"]
            trained = tuned(name)["dataset"]["rows"]["train"]
            assert f"{trained:,} " in row
    base = (RESULTS / "finetuning" / "base",)
    knows = make_report(read_results(base)).runs[0]
    for column, way in {"score": "letters", "score as likelihood": "likelihood"}.items():
        tasks = [a for a in knows.scores if a.way == way and a.task.startswith("epidemia_low")]
        value, distance = known_over(knows, tasks)
        assert_rounded(averages[column], value)
        if way == "letters":
            assert_rounded(averages["l1"], distance)


def test_fine_tuning_over_seeds():
    rows = table("360 notes")
    for column in ("score", "l1", "choice_mass", "order_bias"):
        base, *values = (
            metric(f"finetuning/{run}", "epidemia_low_nsduh", column) for run in ("base", *SEEDS)
        )
        assert_rounded(rows["nothing"][column], base)
        for seed, value in enumerate(values, 1):
            assert_rounded(rows[f"seed {seed}"][column], value)
        # The mean, and its standard error over seeds.
        mean, error = np.mean(values), np.std(values, ddof=1) / np.sqrt(3)
        assert_rounded(rows["mean ± over seeds"][column], mean, error)
    for seed, name in enumerate(SEEDS, 1):
        card = tuned(name)
        assert_rounded(rows[f"seed {seed}"]["validation loss"], card["last_loss"])
        assert rows[f"seed {seed}"]["forms"] == str(card["dataset"]["counts"]["sentence forms"])
        assert card["dataset"]["counts"]["people"] == 40 and card["settings"]["epochs"] == 1
        assert card["dataset"]["rows"]["train"] == 360 and card["settings"]["lr"] == 5e-4
        assert card["steps"] == 5  # stopped, as the page says
        assert card["dataset"]["seed"] == card["settings"]["seed"] == seed


def test_the_page_says_what_the_report_says_was_tested():
    read = make_report(read_results([RESULTS / "finetuning"]))
    (said,) = tuning_tables.tested(tuning.over_seeds(tuning.study(read, {}).groups))
    page = " ".join((DOCS / "finetuning.md").read_text(encoding="utf-8").split())
    assert said in page
