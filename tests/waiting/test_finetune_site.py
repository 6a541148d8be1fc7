"""The page of fine-tuning in a real browser, from the file system."""

import pytest
from test_finetune_report import (  # noqa: F401
    BASE,
    HEROIN,
    answered,
    card,
    put,
    renamed,
    report_of,
)
from test_site import HOSTILE, browser, small_site, visit  # noqa: F401

from lm_eval_epidemia.surveys.catalogue import all_tasks


@pytest.fixture(scope="module")
def site(answered, tmp_path_factory):  # noqa: F811
    folder = tmp_path_factory.mktemp("tuned")
    renamed(answered / "1.5", folder / "results" / "base", pretrained=BASE)
    for noise, rows in (("0.6", 100), ("0.2", 1000)):
        adapter = put(folder / f"answers-{rows}", card(rows=rows, writer=HOSTILE))
        renamed(answered / noise, folder / "results" / noise, pretrained=BASE, peft=adapter)
    return small_site(report_of(folder / "results"), folder / "site")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_has_figures_and_tables(site, visit, scheme):  # noqa: F811
    tab = visit(site, "tuning.html", color_scheme=scheme)
    assert tab.evaluate("document.documentElement.dataset.theme") == scheme
    assert tab.evaluate("window.hacked") is None
    for name in ("tuning", "losses", "learning"):
        drawn = tab.locator(f"#figure-{name} svg").first
        assert drawn.is_visible() and drawn.bounding_box()["width"] > 200
    titles = tab.locator("summary").all_inner_texts()
    assert titles[:2] == [
        "Before and after fine-tuning",
        "Before and after fine-tuning: cells trained on against held-out cells",
    ]
    assert "Before and after fine-tuning by task" in titles and "Learning curve" in titles
    heads = tab.locator("#tuning-1 thead th").all_text_contents()
    heads = [" ".join(head.split()) for head in heads]
    lines = tab.locator("#tuning-1 tbody tr").all_inner_texts()
    rows = [dict(zip(heads, line.split("\t"), strict=True)) for line in lines]
    held_out = [
        row
        for row in rows
        if (row["tasks that were"], row["group"]) == ("held out", "single condition")
    ]
    assert {row["model"] for row in held_out} == {
        "small-1B +answers-100",
        "small-1B +answers-1000",
    }
    assert all(row["tuned from"] == "small-1B" and row["tasks"] == "1" for row in held_out)
    # Sorted by a number, without a script of our own.
    tab.wait_for_selector("#tuning-1_wrapper")
    tab.locator("#tuning-1 thead th", has_text="after").first.click()
    tab.wait_for_selector("#tuning-1 thead th:nth-child(5)[aria-sort]")
    after = [
        float(text) for text in tab.locator("#tuning-1 tbody td:nth-child(5)").all_inner_texts()
    ]
    assert after in (sorted(after), sorted(after, reverse=True)) and len(set(after)) > 3
    tab.locator("summary", has_text="by task").click()
    assert (
        all_tasks()[HEROIN].title
        in tab.locator("details:has(summary:text('by task'))").inner_text()
    )


def test_every_page_leads_to_it(site, visit):  # noqa: F811
    tab = visit(site, "index.html")
    tab.locator("header a", has_text="Fine-tuning").click()
    tab.wait_for_url("**/tuning.html")


def test_without_pairs_there_is_no_page(answered, tmp_path, visit):  # noqa: F811
    site = small_site(report_of(answered / "0.6"), tmp_path / "site")
    assert not (site / "tuning.html").exists()
    tab = visit(site, "index.html")
    assert tab.locator("header a", has_text="Fine-tuning").count() == 0
