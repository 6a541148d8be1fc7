"""How evenly models know places: weights, regions and their gaps, and the table of the report."""

from types import SimpleNamespace

import numpy as np
import pytest
from recorded_runs import copied_run

from lm_eval_epidemia.ask.way import Elicited
from lm_eval_epidemia.benchmarks.observation import places
from lm_eval_epidemia.benchmarks.observation.measured import part_of
from lm_eval_epidemia.core.distance import distance
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.cells import AnsweredGroup, add_known, curve, distribution
from lm_eval_epidemia.findings.single_groups import places as finding
from lm_eval_epidemia.findings.single_groups import regions
from lm_eval_epidemia.results.decode import LeafKey
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.score import score as scoring

WORLD = "epidemia_world_factbook_"
DRUGS = [f"epidemia_low_nsduh_heroin_ever_by_{given}" for given in ("age", "race")]
#: Three regions of five places; Y is known worst.
REGION = {f"{region}{n}": region for region in "XZY" for n in range(5)}


def part(name):
    return part_of(store.load_truth(WORLD + name))


def test_places_count_the_same_and_are_of_the_condition_that_has_larger_ones():
    """Cells of A weigh .6 and .2, of B .2: alike, A's share half. Off by .3 and .1: as weighed."""
    assert places.weigh_alike(np.array([0.6, 0.2, 0.2]), [*"AAB"]) == pytest.approx(
        [0.375, 0.125, 0.5]
    )
    p, q = np.array([0.5, 0.2, 1.0]), np.array([0.8, 0.3, 0.6])
    of = SimpleNamespace(weights=np.array([0.1, 0.3, 0.6]), p=np.array([p, 1 - p]).T)
    off = places.find_misplaced(of, [*"AAB"], np.array([q, 1 - q]).T)
    assert off == pytest.approx({"A": (0.03 + 0.03) / 0.4, "B": 0.4})
    assert places.places_of(part_of(store.load_truth(DRUGS[0]))) is None
    known = part("tobacco_by_country_sex")
    of, given = places.places_of(known), list(known.truth.given)
    assert of.within["France"] == {"region": "Europe", "income": "upper third"}
    # The average of a region is of people alike in the rest.
    larger = zip(given, (of.within[name]["region"] for name in of.names), strict=True)
    women = [place == "South Asia" and sex == "Female" for (_, sex), place in larger]
    mean = np.average(known.p[women], axis=0, weights=known.weights[women])
    for country in ("India", "Nepal"):
        answer = places.average_places(known, of, "region")[given.index((country, "Female"))]
        assert answer == pytest.approx(mean)


@pytest.mark.parametrize("name", ["internet_by_country", "tobacco_by_country_sex"])
def test_alike_is_a_scale_of_its_own(name):
    """Truth 100, the better of guess and 0/1 answer 0, by weights made without the package."""
    known, of = part(name), places.places_of(part(name))
    cells = list(zip(of.names, known.weights, strict=True))
    total = {place: sum(w for other, w in cells if other == place) for place, _ in cells}
    weights = np.array([w / total[place] / len(total) for place, w in cells])
    ends = scoring.answer_uniformly(known.p), scoring.zero_one(weights, known.p)
    zero = min(distance(weights, known.p, end) for end in ends)
    for q in (known.p, *ends):
        expected = 100 * max(1 - distance(weights, q, known.p) / zero, 0)
        assert places.score_alike(known, of.names, q) == pytest.approx(expected)


def test_a_gap_and_its_error_by_hand():
    """Means of regions .2, .3 and .5, and the standard errors of these; twice asked is no more."""
    x, z, y = [0.1, 0.2, 0.2, 0.2, 0.3], [0.3] * 5, [0.3, 0.4, 0.5, 0.6, 0.7]
    off = dict(zip(REGION, x + z + y, strict=True))
    # Of independent places, delete-one jackknife is the usual error of a mean: s^2 / n. Leaving a
    # place out moves the mean of all and the region's distance from it by the same.
    errors = np.array([np.var(v, ddof=1) / 5 for v in (x, z, y)]) ** 0.5
    for tasks in ([off], [off, off]):
        known = places.compare_regions(tasks, REGION)
        assert (known.names, known.places) == ([*"XZY"], [5, 5, 5])
        assert known.off == pytest.approx([0.2, 0.3, 0.5]) and known.gap == pytest.approx(0.3)
        assert known.errors == pytest.approx(errors)
        assert known.gap_error == pytest.approx(np.hypot(errors[0], errors[2]))
    # One region of five places and one of four.
    assert places.compare_regions([dict.fromkeys([*REGION][:9], 0.1)], REGION) is None


def test_a_task_that_a_region_lacks_moves_no_gap():
    """The second task is harder by .4 and Y lacks most of it: the gap stays that of the first.

    Means of the second: X .5, Y .7, all six .5333; less it: -.0333 and .1667, again .2 apart.
    """
    even = {place: 0.1 + 0.2 * (place[0] == "Y") for place in REGION if place[0] != "Z"}
    harder = {place: off + 0.4 for place, off in even.items() if place[0] == "X" or place == "Y0"}
    assert places.compare_regions([even, harder], REGION).gap == pytest.approx(0.2)


def test_rounding_is_half_the_last_digit_and_moves_no_score_by_more():
    """Internet: whole per cents, so .005 a share and .01 of L1; ages are counts.

    Answers that overshoot are the worst case: distance and zero move apart.
    """
    known = part("obese_by_country")
    most = 100 * 0.001 / (known.anchors.zero - 0.001)
    assert places.rounding(known, 0.0) == pytest.approx(most)
    assert places.rounding(part("age_by_country"), 0.1) == 0
    known = part("internet_by_country")
    q = np.clip(known.p + 0.1 * np.sign(known.p - 0.5), 0, 1)
    moved = np.clip(known.p - 0.005 * np.sign(known.p - 0.5), 0, 1)
    exact, rounded = (
        100 * (1 - distance(known.weights, q, p) / scoring.anchors(known.weights, p, 0.0).zero)
        for p in (known.p, moved)
    )
    most = places.rounding(known, float(known.distance(q)))
    assert exact - rounded == pytest.approx(most, rel=1e-9)


def test_who_is_known_is_asked_the_most_that_some_model_was():
    """A run that was cut off does not change what the others are held against."""
    truth = store.load_truth(WORLD + "obese_by_country")
    asked = LeafKey(truth.task, "letters")
    parts = [part_of(truth), part_of(truth, np.arange(len(truth.p)) < 5)]
    groups = [AnsweredGroup(0, "g", {asked: (of, Elicited(of.p))}) for of in parts]
    for order in (groups, groups[::-1]):
        *_, known = add_known(order, {"knows all": lambda of: of.p})
        assert known.who == "knows all" and len(known.tasks[asked][1].q) == len(truth.p)


def test_the_tables_say_how_even_it_is(tmp_path, tmp_path_factory):
    tasks = [WORLD + "internet_by_country", WORLD + "tobacco_by_country_sex", *DRUGS]
    for kind in ("truth", "mean"):
        copied_run(tmp_path_factory, tmp_path / kind, tasks, model_args=f"kind={kind}")
    results = read_results([tmp_path])
    table = finding(results).table.set_index("model")
    assert {*table["group"]} == {"epidemia_world"} and (table.tasks == 2).all()
    truth, known = table.iloc[0], table.loc["knows its region's average (baseline)"]
    assert (truth.score, truth.alike) == (100, 100) and np.isnan(truth.region)
    assert known.score < 100 and known.region > 2 * known.region_error > 0
    assert known.places == 125
    off = regions(results).table
    off = off[off.model == known.name].set_index("place").off
    worst, best = known.region_ends.split(" less ")
    # Over tasks whose places are all there, a gap is the difference of regions.
    assert off[worst] - off[best] == pytest.approx(known.region)
    # Respondents that were run are drawn once.
    who = [*distribution(results, DRUGS[0]).table.model.unique()]
    assert who[0] == "truth" and {*who[1:]} == {*results.runs["model"]}
    # Countries stand in no order: from the lowest share up. Ages and few conditions stay.
    for task, ranked in ((tasks[0], True), *((name, False) for name in DRUGS)):
        table = curve(results, task).table
        of_truth = table[table.kind == "survey"].sort_values("rank")
        assert of_truth["value"].is_monotonic_increasing is ranked
        assert of_truth["rank"].tolist() == [*range(len(of_truth))]
