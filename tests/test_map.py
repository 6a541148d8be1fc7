"""Countries on a map, and the pages of countries, years, people and wordings, in a real browser."""

import numpy as np
import pytest
from recorded_runs import copied_run
from test_site import browser, small_site, visit  # noqa: F401

from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.old.findings import world_rows
from lm_eval_epidemia.old.findings.leaderboard import make_report
from lm_eval_epidemia.old.report import charts
from lm_eval_epidemia.old.report.pages import more
from lm_eval_epidemia.results.results import read_results
from lm_eval_epidemia.surveys.catalogue import all_tasks

WORLD = "epidemia_world_factbook_"
INTERNET, TOBACCO = f"{WORLD}internet_by_country", f"{WORLD}tobacco_by_country_sex"
TASKS = [INTERNET, TOBACCO, "epidemia_years_gsstrend_women_at_home_by_year", "epidemia_people"]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    copied_run(tmp_path_factory, folder, TASKS, model_args="kind=noisy,noise=0.3")
    return make_report(read_results([folder]))


@pytest.fixture(scope="module")
def site(report, tmp_path_factory):
    return small_site(report, tmp_path_factory.mktemp("out") / "site")


def test_every_country_is_on_the_map_but_singapore():
    """A city state has no shape at 1:110 million; every other code of the record has."""
    known = {shape["id"] for shape in charts.world.shapes()}
    of_countries = [
        countries
        for name in store.available()
        if all_tasks()[name].given and (countries := world_rows.countries_of(store.load(name)))
    ]
    assert len(of_countries) == 15
    for countries in of_countries:
        assert countries.condition == 0
        assert len(countries.codes) == 125
        assert [one for one, code in countries.codes.items() if code not in known] == ["Singapore"]


def test_shapes_lie_where_their_countries_do():
    """Rings of outer borders go clockwise, which the projection takes for the smaller side."""
    shapes = {one["id"]: one["geometry"]["coordinates"] for one in charts.world.shapes()}
    largest = max((polygon[0] for polygon in shapes["JPN"]), key=len)
    longitude, latitude = np.mean(largest, axis=0)
    assert 130 < longitude < 142 and 31 < latitude < 41  # Honshu
    for polygons in shapes.values():
        for outer, *_ in polygons:
            x, y = np.array(outer).T
            assert (x[:-1] * y[1:] - x[1:] * y[:-1]).sum() < 0
            assert outer[0] == outer[-1]


def test_an_error_is_the_answer_less_the_truth(report):
    """With two conditions countries are averaged over the people of both sexes."""
    truth = store.load(TOBACCO)
    rows = world_rows.map_rows(report, TOBACCO)
    true = {row["country"]: row["p"] for row in rows if row["who"] == "truth"}
    here = [i for i, given in enumerate(truth.given) if given[0] == "Kenya"]
    assert len(here) == 2
    mean = np.average(truth.p[here, 0], weights=truth.weights[here])
    assert true["Kenya"] == pytest.approx(mean)
    told = [row for row in rows if row["who"] != "truth"]
    assert len(told) == len(true)
    for row in told:
        assert row["error"] == pytest.approx(row["p"] - true[row["country"]])


@pytest.mark.slow
def test_a_map_shows_truth_answer_and_error(site, visit):  # noqa: F811
    tab = visit(site, f"task.html#task={INTERNET}")
    tab.wait_for_selector("#map svg")
    assert "minus truth" in tab.locator("#map svg").get_attribute("aria-label")
    note = tab.locator("#on-map figcaption").inner_text()
    p = store.load(INTERNET).p[[g[0] for g in store.load(INTERNET).given].index("Singapore"), 0]
    assert f"Singapore (truth {100 * p:.1f} %" in note
    tab.select_option("#map-view", "truth")
    tab.wait_for_selector("#map svg[aria-label*='the truth']")
    share = 100 * store.load(INTERNET).p[:, 0]
    label = tab.locator("#map svg").get_attribute("aria-label")
    assert f"from {share.min():.1f} % to {share.max():.1f} % in {len(share)} countries" in label
    assert "view=truth" in tab.url
    filled = tab.eval_on_selector_all(
        "#map svg path", "all => all.map((p) => p.attributes.fill?.value)"
    )
    assert set(filled) >= set(charts.world.SHADES)


@pytest.mark.slow
def test_the_second_condition_is_chosen_beside_the_map(site, visit):  # noqa: F811
    tab = visit(site, f"task.html#task={TOBACCO}&view=truth", 390, color_scheme="dark")
    truth = store.load(TOBACCO)
    for sex in ("Female", "Male"):
        tab.select_option("#map-1", sex)
        share = [100 * p[0] for p, given in zip(truth.p, truth.given, strict=True) if sex in given]
        says = f"from {min(share):.1f} % to {max(share):.1f} % in {len(share)} countries"
        tab.wait_for_selector(f"#map svg[aria-label*='{says}']")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "figure", "row"),
    [
        ("countries", "regions", "Central America and the Caribbean"),
        ("years", "years", "1985"),
        ("people", "people", "the average American of 2000"),
    ],
)
def test_what_was_asked_has_a_page(site, visit, page, figure, row):  # noqa: F811
    tab = visit(site, f"{page}.html", 390)
    assert tab.locator("nav a[aria-current]").text_content().lower() == page
    assert tab.locator(f"#figure-{figure} svg").count() >= 1
    cells = tab.locator("main td").all_text_contents()
    assert any(cell.startswith(row) for cell in cells)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert not (site / "wordings.html").exists()


def test_without_samples_there_is_no_page_and_no_error(tmp_path_factory, tmp_path):
    copied_run(tmp_path_factory, tmp_path, TASKS, model_args="kind=noisy,noise=0.3")
    for samples in tmp_path.rglob("samples_*"):
        samples.unlink()
    assert more.found(make_report(read_results([tmp_path]))) == []
