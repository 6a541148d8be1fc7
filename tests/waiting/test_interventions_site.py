"""The page of interventions in a real browser, from the file system."""

import pytest
from lm_eval_epidemia.old.findings.leaderboard import make_report
from lm_eval_epidemia.results.results import read_results
from recorded_runs import copied_run
from test_site import browser, rows_by_name, small_site, visit  # noqa: F401

from lm_eval_epidemia.benchmarks.intervention import generate
from lm_eval_epidemia.benchmarks.splits import split

TASKS = ["epidemia_intervention", "epidemia_intervention_large_05"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for kind in ("retrieval", "target"):
        copied_run(tmp_path_factory, folder / kind, TASKS, model_args=f"kind={kind}")
    report = make_report(read_results([folder]), with_published=True)
    return small_site(report, folder / "site")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_effect_shows_graphs_prompts_and_answers(site, visit, scheme):  # noqa: F811
    tab = visit(site, "interventions.html", color_scheme=scheme)
    assert tab.evaluate("document.documentElement.dataset.theme") == scheme
    effects = tab.locator("article.effect:has(table.answers)")
    assert effects.count() == 22
    for number in range(22):
        assert effects.nth(number).locator("svg.graph").count() == 2
        assert effects.nth(number).locator("pre").count() == 3 * 3
    one = tab.locator("#mediation-AC-do-B")
    assert "yes before, no after: kappa = 1" in one.locator("h3").inner_text()
    drawn = one.locator("svg.graph").nth(1)
    assert drawn.is_visible() and drawn.bounding_box()["width"] > 100
    assert "deleted by do(B): A to B" in drawn.locator("title").text_content()
    ink, dashes = (
        drawn.locator("path.gone:not(.head)").evaluate(f"e => getComputedStyle(e).{style}")
        for style in ("stroke", "strokeDasharray")
    )
    assert dashes != "none" and ink not in ("none", "rgb(0, 0, 0)")
    # The prompts are those that lm-eval asks.
    asked = split("epidemia_intervention_random", "intervention")
    here = {"graph: mediation", "sample: 1", "does A cause C"}
    expected = {row["prompt"] for row in asked if {*row["given"]} - {"do(B)"} == here}
    shown = one.locator("pre").all_text_contents()
    assert len(expected) == 2 and expected == set(shown[:2])
    assert not one.locator("pre").first.is_visible()
    one.locator("summary").click()
    assert one.locator("pre").first.is_visible()


def test_answers_stand_beside_what_is_right(site, visit):  # noqa: F811
    """Retrieval says yes again where V is no longer reached; so does target, but for do(V)."""
    tab = visit(site, "interventions.html")

    def cells(effect):
        rows = rows_by_name(tab, f"#{effect} table.answers")
        return {name: row[2:5] for name, row in rows.items()}

    inside, target = cells("mediation-AC-do-B"), cells("mediation-AC-do-C")
    assert inside["right answer"] == target["right answer"] == ["yes", "no", ""]
    assert inside["epidemia-baseline kind=retrieval"] == ["100 % ✓", "100 %", "0.00"]
    assert inside["epidemia-baseline kind=target"] == ["100 % ✓", "100 %", "0.00"]
    assert target["epidemia-baseline kind=retrieval"] == ["100 % ✓", "100 %", "0.00"]
    assert target["epidemia-baseline kind=target"] == ["100 % ✓", "0 % ✓", "1.00"]
    # The tables of the report are here, the first one open.
    assert tab.locator("#about-1 table").is_visible()
    assert "kappa = 1" in tab.locator("#about-1 thead").inner_text()
    published = tab.locator("#about-1 tr.reference").all_inner_texts()
    assert [row.split()[:2] for row in published if "0.635" in row] == [["GPT-3.5", "plain"]]
    titles = tab.locator("summary").all_inner_texts()
    assert "Interventions by graph and variable: accuracy (± standard error)" in titles


def test_larger_graphs_have_an_example_of_every_size(site, visit):  # noqa: F811
    tab = visit(site, "interventions.html")
    for nodes in generate.SIZES:
        drawn = tab.locator(f"#size-{nodes} svg.graph")
        assert drawn.count() == 2
        assert drawn.first.locator("circle").count() == nodes
        assert drawn.nth(1).locator("rect").count() == 1
        assert drawn.nth(1).locator("path.gone").count() >= 2
    row = tab.locator("#large-answers tbody tr", has_text="kind=retrieval").inner_text().split("\t")
    assert row[2:5] == ["5", "0.00", "0.00"] and row[-1] == "0.50"


def test_the_first_page_says_what_an_accuracy_is(site, visit):  # noqa: F811
    tab = visit(site, "index.html")
    said = tab.locator("main").inner_text()
    assert "what an intervention changes in a causal graph" in said
    assert "US survey" not in said and "0 to 100" not in said and "surveys' sampling" not in said
    assert tab.locator("a[href='interventions.html']").count() == 2
    assert "answers" in tab.locator("p.verdict").inner_text() or "accuracy" in said


def test_a_phone_scrolls_down_only(site, visit):  # noqa: F811
    tab = visit(site, "interventions.html", width=390)
    tab.wait_for_load_state("networkidle")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
