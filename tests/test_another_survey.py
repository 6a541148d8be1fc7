"""A second survey is YAML only: several levels, cut points, a universe, families of records."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import REPOSITORY, evaluate

from lm_eval_epidemia.core.store import look_at_disk
from lm_eval_epidemia.estimate import build as building
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.estimate.estimator import estimate_task
from lm_eval_epidemia.estimate.prepare import prepare
from lm_eval_epidemia.estimate.sampling import Sample
from lm_eval_epidemia.surveys.catalogue import find_record, find_task
from lm_eval_epidemia.surveys.microdata import MISSING, load_microdata

RECORD = (REPOSITORY / "tests" / "data" / "toy_households.yaml").read_text()
TASK = "epidemia_extra_toy_wealth_by_region"


@pytest.fixture
def toy(home):
    path = home / "surveys" / "toy.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(RECORD)
    look_at_disk()
    return find_record("toy")


@pytest.fixture
def raw(tmp_path):
    """200 families of five implicates each, as in the Survey of Consumer Finances."""
    rng = np.random.default_rng(1)
    family = np.repeat(np.arange(200), 5)
    region = rng.integers(1, 4, 200)[family]
    worth = np.round(rng.normal(18, 16, 200)[family] + rng.normal(0, 1, 1000), 2)
    frame = pd.DataFrame(
        {
            "FAMILY": family,
            "W": rng.gamma(3, 10, 200)[family],
            "REGION": region,
            "NETWORTH": worth,
            "INTERVIEWED": np.where(family < 190, 1, 2),
        }
    )
    frame.loc[frame["FAMILY"] == 3, "NETWORTH"] = -999
    path = tmp_path / "toy_2020.csv"
    frame.to_csv(path, index=False)
    return path


def test_cut_points_missing_codes_and_the_universe(toy, raw):
    data = load_microdata(toy, raw)
    frame = pd.read_csv(raw)
    cuts = [-np.inf, 0, 10, 20, 30, 40, np.inf]
    expected = pd.cut(frame["NETWORTH"], cuts, right=False, labels=False).to_numpy()
    expected = np.where(frame["NETWORTH"] == -999, MISSING, expected)
    assert (data.levels["wealth"] == expected).all()
    ready = prepare(data, find_task(TASK))
    assert ready.dropped == {"outside the universe (INTERVIEWED)": 50, "wealth missing": 5}
    assert len(ready.cell) == 1000 - 55


def test_families_are_resampled_whole(toy, raw):
    """Five implicates are one family: i.i.d. records would be too sure by about sqrt(5)."""
    ready = prepare(load_microdata(toy, raw), find_task(TASK))
    assert len(np.unique(ready.sample.units)) == 189
    families = estimate_task(ready, ("iid",), 200)
    alone = replace(ready, sample=Sample(ready.sample.weight, size=len(ready.sample.weight)))
    implicates = estimate_task(alone, ("iid",), 200)
    ratio = np.mean(families["distances"]["iid"]) / np.mean(implicates["distances"]["iid"])
    assert 1.5 < ratio < 2.6


def test_it_runs_through_lm_eval_with_sampled_orderings(toy, raw):
    built = building.build_survey("toy", raw, replicates=40, progress=False)
    assert built.key == "toy_2020"
    truth = store.load_truth(TASK)
    assert truth.p.shape == (2, 6)
    runs = {
        kind: evaluate(["epidemia_toy"], model_args=f"kind={kind}")
        for kind in ("truth", "uniform", "truth,position_bias=0.5")
    }
    of_task = {kind: run["results"][TASK] for kind, run in runs.items()}
    assert of_task["truth"]["score,none"] == 100
    assert of_task["uniform"]["score,none"] == pytest.approx(0, abs=1e-6)
    # 120 of 720 orderings: a position bias leaves an ordering error, a fair reader has none.
    biased = of_task["truth,position_bias=0.5"]
    assert biased["order_bias,none"] > 0.05
    assert biased["l1,none"] > of_task["truth"]["l1,none"]
    # The wheel ships nothing of it.
    assert store.list_available()[TASK].state == "built here"
    samples = runs["truth"]["samples"][TASK]
    assert samples[0]["doc"]["prompt"].startswith(
        "Consider a household in 2020 that lives in the north. What is this household worth?\nA. "
    )
    assert samples[0]["doc"]["choices"] == list("ABCDEF")
