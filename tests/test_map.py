"""Countries on a map: their shapes, and the truth, answers and errors in them."""

import numpy as np
import pytest
from recorded_runs import copied_run

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.countries import countries_of, map_of
from lm_eval_epidemia.report.charts import DIVERGING, SHADES, shapes
from lm_eval_epidemia.report.figures import save
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.surveys.catalogue import all_tasks

WORLD = "epidemia_world_factbook_"
INTERNET, TOBACCO = f"{WORLD}internet_by_country", f"{WORLD}tobacco_by_country_sex"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder, noisy = tmp_path_factory.mktemp("world"), "kind=noisy,noise=0.3"
    return read_results(
        [copied_run(tmp_path_factory, folder, [INTERNET, TOBACCO], model_args=noisy)]
    )


def test_every_country_is_on_the_map_but_singapore():
    """A city state has no shape at 1:110 million; every other code of the record has."""
    known = {shape["id"] for shape in shapes()}
    of_countries = [
        countries
        for name in store.available()
        if all_tasks()[name].given and (countries := countries_of(store.load(name)))
    ]
    assert len(of_countries) == 15
    for condition, codes in of_countries:
        assert condition == 0 and len(codes) == 125
        assert [one for one, code in codes.items() if code not in known] == ["Singapore"]


def test_shapes_lie_where_their_countries_do():
    """Rings of outer borders go clockwise, which the projection takes for the smaller side."""
    drawn = {one["id"]: one["geometry"]["coordinates"] for one in shapes()}
    largest = max((polygon[0] for polygon in drawn["JPN"]), key=len)
    longitude, latitude = np.mean(largest, axis=0)
    assert 130 < longitude < 142 and 31 < latitude < 41  # Honshu
    for polygons in drawn.values():
        for outer, *_ in polygons:
            x, y = np.array(outer).T
            assert (x[:-1] * y[1:] - x[1:] * y[:-1]).sum() < 0
            assert outer[0] == outer[-1]


def test_an_error_is_the_answer_less_the_truth(results, tmp_path):
    """With two conditions countries are averaged over the people of both sexes."""
    truth, table = store.load(TOBACCO), map_of(results, TOBACCO).table
    is_true = table.kind == "survey"
    true, told = (table[which].set_index("country") for which in (is_true, ~is_true))
    here = [i for i, given in enumerate(truth.given) if given[0] == "Kenya"]
    assert len(here) == 2 and len(told) == len(true) == 113
    mean = np.average(truth.p[here, 0], weights=truth.weights[here])
    assert true.value["Kenya"] == pytest.approx(mean)
    assert told.error.to_numpy() == pytest.approx((told.value - true.value).to_numpy())
    text = save("map", lambda: results, tmp_path / "map.svg", TOBACCO).read_text()
    assert "Answer minus truth" in text and all(one in text for one in (*SHADES, *DIVERGING[1:-1]))
    with pytest.raises(EpidemiaError, match="has no country as a condition"):
        map_of(results, "epidemia_low_nsduh_heroin_ever_by_age")
