"""Americans who guessed six shares in 2000, who is beaten; and countries on a map."""

import numpy as np
import pytest
from recorded_runs import copied_run

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import people
from lm_eval_epidemia.findings.countries import countries_of, map_of
from lm_eval_epidemia.report.charts import DIVERGING, SHADES, shapes
from lm_eval_epidemia.report.figures import save
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.surveys.catalogue import all_tasks

TOBACCO = "epidemia_world_factbook_tobacco_by_country_sex"


def test_guesses_and_truths_are_those_of_the_sources():
    """The GSS as its codebook's counts give it (SOURCE.json); Census 2000, GCT-P6, and the NJPS."""
    guesses = people.guesses()
    assert [*guesses] == ["white", "black", "jewish", "hispanic", "asian", "american_indian"]
    means = [round(np.average(guess, weights=n), 2) for guess, n in guesses.values()]
    assert means == [58.92, 31.48, 17.88, 24.68, 17.77, 14.21]
    assert [n.sum() for _, n in guesses.values()] == [1318, 1310, 1197, 1277, 1256, 1248]
    truths = [store.load(f"epidemia_people_census2000_{name}").p[0, 0] for name in guesses]
    assert truths == pytest.approx([0.751, 0.123, 0.018, 0.125, 0.036, 0.009], abs=1e-12)


def test_who_is_beaten_by_hand(monkeypatch):
    """Of ten people six are further off than 4, one as far: 6 + .5; the nearer figure counts."""
    guess, number = np.array([0.0, 10.0, 14.0, 22.0, 50.0]), np.array([1.0, 2.0, 1.0, 1.0, 5.0])
    monkeypatch.setattr(people, "guesses", lambda: {"asian": (guess, number)})
    # From the truth, 10: 10, 0, 4, 12 and 40 off; the answer 14 is 4 off.
    assert people.beaten("asian", 10.0, 14.0) == pytest.approx(100 * (1 + 1 + 5 + 0.5) / 10)
    assert people.off("white", 75.1, [75.1, 69.1, 72.0, 60.0]) == pytest.approx([0, 0, 2.9, 9.1])


def test_models_stand_beside_the_average_american(tmp_path_factory, tmp_path):
    copied_run(tmp_path_factory, tmp_path, ["epidemia_people"], model_args="kind=truth")
    table = people.people(read_results([tmp_path])).table
    truth, americans = table[table.question.isna()].itertuples()
    assert truth.beaten == pytest.approx(100, abs=1) and truth.off < 0.01
    assert americans.model == "the average American of 2000 (baseline)"
    # Log-odds of 14 to 59 on those of .9 to 75 per cent: people guess towards one half.
    assert round(americans.slope, 2) == 0.38
    single = table[(table.model == americans.model) & table.question.notna()]
    assert len(single) == 6 and round(single.set_index("question").answer["white"], 2) == 58.92


def test_every_country_is_on_the_map_but_singapore():
    """A city state has no shape at 1:110 million. Rings go clockwise, as the projection needs."""
    drawn = {one["id"]: one["geometry"]["coordinates"] for one in shapes()}
    truths = [store.load(name) for name in store.available() if all_tasks()[name].given]
    of_countries = [*filter(None, map(countries_of, truths))]
    assert len(of_countries) == 15
    for condition, codes in of_countries:
        assert condition == 0 and len(codes) == 125
        assert [one for one, code in codes.items() if code not in drawn] == ["Singapore"]
    for outer in (polygon[0] for polygons in drawn.values() for polygon in polygons):
        x, y = np.array(outer).T
        assert (x[:-1] * y[1:] - x[1:] * y[:-1]).sum() < 0 and outer[0] == outer[-1]


def test_an_error_on_the_map_is_the_answer_less_the_truth(tmp_path_factory, tmp_path):
    """With two conditions countries are averaged over the people of both sexes."""
    copied_run(tmp_path_factory, tmp_path, [TOBACCO], model_args="kind=noisy,noise=0.3")
    results, truth = read_results([tmp_path]), store.load(TOBACCO)
    table = map_of(results, TOBACCO).table.set_index("country")
    true, told = (table[(table.kind == "survey") == are] for are in (True, False))
    here = [i for i, given in enumerate(truth.given) if given[0] == "Kenya"]
    assert len(here) == 2 and len(told) == len(true) == 113
    mean = np.average(truth.p[here, 0], weights=truth.weights[here])
    assert true.value["Kenya"] == pytest.approx(mean)
    assert told.error.to_numpy() == pytest.approx((told.value - true.value).to_numpy())
    text = save("map", lambda: results, tmp_path / "map.svg", TOBACCO).read_text()
    assert "Answer minus truth" in text and all(one in text for one in (*SHADES, *DIVERGING[1:-1]))
    with pytest.raises(EpidemiaError, match="has no country as a condition"):
        map_of(results, "epidemia_low_nsduh_heroin_ever_by_age")
