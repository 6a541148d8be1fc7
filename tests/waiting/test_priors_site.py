"""The pages of priors and of quantities in a real browser, from the file system."""

import pytest
from lm_eval_epidemia.old.findings.leaderboard import make_report
from lm_eval_epidemia.results.results import read_results
from recorded_runs import copied_run
from test_site import at_rest, browser, rows_by_name, small_site, visit  # noqa: F401

from lm_eval_epidemia.benchmarks.prior.quantities import store
from lm_eval_epidemia.benchmarks.splits import split

NHANES = "epidemia_prior_nhanes"
CALIBRATED = "epidemia-baseline kind=calibrated,noise=1"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    copied_run(tmp_path_factory, folder, [NHANES], model_args="kind=truth")
    tasks = [NHANES, f"{NHANES}_grid"]
    copied_run(tmp_path_factory, folder, tasks, model_args="kind=calibrated,noise=1")
    report = make_report(read_results([folder]), with_published=True)
    return small_site(report, folder / "site")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_priors_has_figures_and_tables(site, visit, scheme):  # noqa: F811
    tab = visit(site, "priors.html", color_scheme=scheme)
    assert tab.evaluate("document.documentElement.dataset.theme") == scheme
    for name in ("wins", "quartiles", "uncertainty"):
        drawn = tab.locator(f"#figure-{name} svg").first
        assert drawn.is_visible() and drawn.bounding_box()["width"] > 200, name
        assert "kind=calibrated" in tab.locator(f"#figure-{name}").text_content()
        ink = drawn.locator("text").first.evaluate("e => getComputedStyle(e).fill")
        page = tab.evaluate("getComputedStyle(document.body).color")
        assert ink == page
    titles = tab.locator("summary").all_inner_texts()
    assert "Priors: what the asking changes (± standard error)" in titles
    assert "Priors: published numbers against those of the released answers" in titles
    assert "Priors by difficulty, family and survey (± standard error)" in titles
    assert "better than N real answers" in titles[0]
    rows = tab.locator("#priors-2 tbody tr").all_inner_texts()
    (row,) = (row.split("\t") for row in rows if row.startswith("o4-mini"))
    assert row[1] == "plain" and row[2] == "0.684 ± 0.053" and row[-1] == "0.976"
    assert any(row.startswith("knows the population") for row in rows)
    # Published rows are told apart.
    assert tab.locator("#priors-2 tr.reference").count() == 6
    assert tab.locator("#about-1 table").is_visible()


def test_every_quantity_opens_by_its_address(site, visit):  # noqa: F811
    truth = store.load(NHANES)
    tab = visit(site, "quantities.html")
    assert tab.locator("#quantities tbody a").count() >= len(truth.quantities) == 74
    # What the models were asked is what is shown.
    prompts = {row["prompt"] for row in split(NHANES, "direct")}
    for one in (truth.quantities[0], truth.quantities[30], truth.quantities[-1]):
        tab = visit(site, f"quantities.html#set={NHANES}&quantity={one.name}")
        tab.wait_for_selector("#stated svg")
        said = tab.locator("#wording").inner_text()
        assert said.lower() == f"{one.wording}.".lower()
        facts = tab.locator("#facts").inner_text()
        assert f"{one.n:,}" in facts and "Error of 30 real answers" in facts
        assert any(one.wording in prompt for prompt in prompts)


def test_a_quantity_shows_priors_truth_and_real_answers(site, visit):  # noqa: F811
    truth = store.load(NHANES)
    (one,) = (q for q in truth.quantities if q.name == "easy_16")
    tab = visit(site, f"quantities.html#set={NHANES}&quantity=easy_16")
    tab.wait_for_selector("#stated svg")
    assert "0.926 ± 0.025" in tab.locator("#facts").inner_text()
    rows = rows_by_name(tab, "#priors")
    exact, grid = rows["knows the truth (kind=truth)"], rows[f"{CALIBRATED}, grid"]
    assert "gpt-4o (published)" in rows
    assert exact[1].count("beta ") == 5 and exact[2] == f"{one.mean:.3f}"
    assert exact[4] == "0.00" and exact[5] == "5, 10, 20, 30"
    assert grid[1] == "41 numbers scored"
    # 5 priors of each of 8 that wrote, 1 of the grid, 25 samples of each of 4 sizes; o4-mini and
    # qwen3 did not always write one.
    marks = tab.locator("#stated svg .mark-symbol.role-mark path").count()
    unread = sum(cells[1].count("not read") for cells in rows.values())
    assert marks == 5 * (len(rows) - 1) - unread + 1 + 4 * 25
    labels = tab.locator("#stated svg.marks").text_content()
    assert "30 real answers" in labels and "kind=truth" in labels


def test_quantities_are_walked_through_and_closed(site, visit):  # noqa: F811
    names = [one.name for one in store.load(NHANES).quantities]
    tab = visit(site, f"quantities.html#set={NHANES}&quantity={names[0]}")
    tab.wait_for_selector("#stated svg")
    tab.locator("#next").click()
    tab.wait_for_function(f"location.hash.endsWith('={names[1]}')")
    tab.wait_for_function(f"document.getElementById('quantity')?.value === '{names[1]}'")
    tab.locator("#quantity").select_option("hard_3")
    tab.wait_for_function("document.querySelector('#panel .quiet').textContent.includes('hard_3')")
    tab.go_back()
    tab.wait_for_function(f"document.getElementById('quantity')?.value === '{names[1]}'")
    tab.locator("#close").click()
    tab.wait_for_selector("#panel", state="hidden")


@pytest.mark.parametrize("address", ["set=nowhere", f"set={NHANES}&quantity=%3Cimg%3E"])
def test_an_address_that_is_none_says_so(site, visit, address):  # noqa: F811
    tab = visit(site, f"quantities.html#{address}")
    tab.wait_for_selector("#panel p")
    assert "There is no" in tab.locator("#panel").inner_text()


def test_the_first_page_says_what_a_win_is(site, visit):  # noqa: F811
    tab = visit(site, "index.html")
    said = tab.locator("main").inner_text()
    assert "above one half the model is better" in said and "lower is better" not in said
    assert "scored here" in said and "0 to 100" not in said
    assert tab.locator("main a[href='quantities.html']").count() == 1


def test_a_phone_scrolls_down_only(site, visit):  # noqa: F811
    opened = f"quantities.html#set={NHANES}&quantity=hard_3"
    tabs = at_rest(visit, site, ["priors.html", "quantities.html", opened], width=390)
    tabs[opened].wait_for_selector("#stated svg")
    for page, tab in tabs.items():
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390, page
