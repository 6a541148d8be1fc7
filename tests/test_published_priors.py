"""The published models, judged by our code from the published answers: the paper's own numbers."""

import runpy

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from conftest import RAW, REPOSITORY

from lm_eval_epidemia.benchmarks.prior import metrics as priors
from lm_eval_epidemia.benchmarks.prior.judged import (
    judge,
    make_priors,
    mean_of,
    of_baseline,
    proportions,
)
from lm_eval_epidemia.benchmarks.prior.quantities import answers, store
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import DRAWS, SIZES, Samples
from lm_eval_epidemia.core import paths

FOLDER = RAW / "openestimate"
MAKER = runpy.run_path(str(REPOSITORY / "benchmarks" / "published_quantities.py"))

needs_files = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="needs the benchmark's files beside the checkout"
)

MODELS = ["gpt-4o", "o3-mini", "o4-mini", "qwen3-235b-a22b-fp8-tput"]
MODELS += ["meta-llama-3-70b", "meta-llama-3-8b"]


@pytest.fixture(scope="module")
def truth():
    return store.load_quantities(answers.PUBLISHED)._replace(scored="published")


def direct(truth, model, experiment="model_family_comparison"):
    (run,) = [
        run
        for run in answers.runs(truth)
        if (run.experiment, run.model, run.protocol, run.system_prompt)
        == (experiment, model, "direct", "base")
    ]
    return make_priors(run.priors)


@pytest.mark.parametrize("model", MODELS)
def test_what_the_released_answers_give(truth, model):
    """As published, and as the table of docs/guides/priors-metrics.md has it."""
    judged = judge(truth, direct(truth, model), published=True)
    low = np.where(np.isnan(judged.position), np.nan, judged.position < 0.25)
    numbers = [
        f"{mean_of(judged.ratio):.3f}",
        f"{mean_of(judged.wins[:, 0]):.3f}"[1:],
        f"{priors.calibration_error(judged.position):.1f}",
        f"{mean_of(judged.crps_ratio):.2f}",
    ]
    ratio, wins, *others = numbers
    # Errors in standard deviations between people, where there is a reply.
    sd, there = truth.column("marginal_sd"), ~np.isnan(judged.error)
    mine, theirs = ((x / sd)[there] for x in (judged.error, judged.baseline_error[:, 0]))
    numbers = [wins, f"{mine.mean() / theirs.mean():.2f}", ratio, *others]
    worth = priors.count_worth(mean_of(judged.wins, axis=0))
    numbers += [
        f"{mean_of(mean_of(low)):.3f}"[1:],
        {priors.FEWER: "<5", priors.MORE: ">30"}.get(worth, f"{worth:.1f}"),
    ]
    short = model.removeprefix("meta-").removesuffix("-a22b-fp8-tput")
    page = (REPOSITORY / "docs" / "guides" / "priors-metrics.md").read_text(encoding="utf-8")
    assert f"| {short} | {' | '.join(numbers)} |" in page


@pytest.mark.parametrize(
    "model, failures, ratio, crps_ratio",
    [("o4-mini", 9, "1.028", "1.098"), ("meta-llama-3-8b", 1, "7.238", "7.930")],
)
def test_failures_count_as_the_marginal(truth, model, failures, ratio, crps_ratio):
    stated = direct(truth, model)
    assert np.isnan(stated.a).sum() == failures
    judged = judge(truth, stated)
    assert f"{judged.ratio.mean():.3f}" == ratio
    assert f"{judged.crps_ratio.mean():.3f}" == crps_ratio
    dropped = judge(truth, stated, published=True)
    # Never a win: where some were read, their win counts for their share.
    assert judged.wins == pytest.approx(dropped.wins * judged.answered[:, None])


def test_every_run_is_there(truth):
    runs = answers.runs(truth)
    assert len(runs) == 20
    assert {run.priors.shape for run in runs} == {(74, 5, 3), (74, 4, 3)}
    (short,) = [run for run in runs if len(run.trials) < 5]
    assert (short.model, short.protocol, short.trials) == ("o4-mini", "quantile", (1, 2, 3, 4))
    unread = sum(int(np.isnan(run.priors[..., 1]).sum()) for run in runs)
    path = paths.shipped_groundtruth() / "quantities" / answers.ANSWERS
    table = pq.read_table(path)
    assert unread == table["a"].null_count
    assert len(table) == sum(run.priors[..., 0].size for run in runs) == 7326
    assert b"MIT License" in table.schema.metadata[b"licence"]
    assert path.stat().st_size < 500_000


@needs_files
def test_the_shipped_answers_are_those_of_the_files(tmp_path):
    shipped = paths.shipped_groundtruth() / "quantities" / answers.ANSWERS
    assert pq.read_table(MAKER["write_answers"](FOLDER, tmp_path)).equals(pq.read_table(shipped))


@needs_files
def test_results_per_variable(truth):
    """Error and quartile of every answer, and the ratio and ECE of every run, as published."""
    # What answers say of a quantity; a row each.
    names = list(truth.column("name"))
    results = pd.read_parquet(FOLDER / "results_per_variable.parquet")
    summary = pd.read_csv(FOLDER / "results_summary.csv")
    keys = ["experiment", "model", "system_prompt", "protocol", "temperature_or_effort"]
    summary = summary[summary.dataset == "nhanes"].astype({keys[-1]: str}).set_index(keys)
    for run in answers.runs(truth):
        judged = judge(truth, make_priors(run.priors), published=True)
        rows = results[(results[keys] == list(run[:5])).all(axis=1)]
        table = rows.pivot(index="variable", columns="trial").loc[names]
        assert np.abs(judged.centre - truth.column("mean")[:, None]) == pytest.approx(
            table["abs_error"].to_numpy(), nan_ok=True, rel=1e-9, abs=1e-12
        )
        quartile = 1 + np.minimum(np.floor(4 * judged.position), 3)
        assert quartile == pytest.approx(table["quartile_of_gt"].to_numpy(), nan_ok=True)
        whole = summary.loc[run[:5]]
        assert mean_of(judged.ratio) == pytest.approx(whole["error_ratio_mean"])
        assert priors.calibration_error(judged.position) == pytest.approx(
            whole["ece_quartile_points"]
        )
        wins = [whole[f"win_rate_vs_n{size}"] for size in SIZES]
        assert mean_of(judged.wins, axis=0) == pytest.approx(wins)


@needs_files
def test_posteriors_of_the_baselines_from_the_people_drawn(truth):
    """All 7,400 of them."""
    drawn = pd.read_parquet(FOLDER / "baseline_samples.parquet")
    where = ["variable", "n", "trial"]
    w, y = drawn["weight_WTMEC2YR"], drawn["value"]
    sums = drawn.assign(w=w, wy=w * y, wyy=w * y * y, ww=w * w).groupby(where).sum()
    mean = sums.wy / sums.w
    of = {"mean": mean, "size": sums.w**2 / sums.ww}
    centred = drawn.join(mean.rename("mean"), on=where)
    of["variance"] = (
        centred.assign(s=w * (y - centred["mean"]) ** 2).groupby(where).s.sum()
    ) / sums.w
    names = list(truth.column("name"))

    def cube(series):
        return np.array(
            [[[series[name, size, k] for k in range(DRAWS)] for size in SIZES] for name in names]
        )

    baseline = Samples(*(cube(of[field]) for field in Samples._fields))
    shipped = truth.baselines["published"]
    for mine, theirs in zip(baseline, shipped, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-9, abs=1e-9)
    known = pd.read_parquet(FOLDER / "baseline_posteriors.parquet").set_index(where)
    for given in (baseline, shipped):
        _, a, b = of_baseline(proportions(truth), given)
        assert a == pytest.approx(cube(known.mu_or_alpha), rel=1e-9, abs=1e-9)
        assert b == pytest.approx(cube(known.sigma_or_beta), rel=1e-9, abs=1e-9)
    assert len(known) == 7400
