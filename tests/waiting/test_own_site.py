"""What a survey file says is text, wherever it is shown: card and site of a survey of one's own."""

import numpy as np
import pandas as pd
import pytest
from conftest import recorded
from lm_eval_epidemia.old.findings.leaderboard import make_report
from lm_eval_epidemia.results.results import read_results
from test_site import HOSTILE, browser, small_site, visit  # noqa: F401

from lm_eval_epidemia.estimate import build as building
from lm_eval_epidemia.report.cards import card
from lm_eval_epidemia.surveys.catalogue import record
from lm_eval_epidemia.surveys.draft.drafting import draft, write

pyreadstat = pytest.importorskip("pyreadstat")

MARKUP = "[a](javascript:window.hacked=1) **b** `c` | d <!-- e --> \\f ${g} {{h}}"
TASK = "epidemia_extra_evil2020_q_by_sex"


@pytest.fixture
def evil(tmp_path, home):
    """A survey whose every label is markup, drafted and built."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"sex": rng.integers(1, 3, 300), "q": rng.integers(1, 4, 300)})
    path = tmp_path / "evil2020.sav"
    bad = {1: HOSTILE[:100], 2: MARKUP}
    labels = {"sex": bad, "q": {**bad, 3: "</script><svg onload=window.hacked=1>"}}
    about = {"file_label": HOSTILE[:60], "column_labels": {"q": f"{MARKUP} {HOSTILE}"}}
    frame = frame.astype(float)
    pyreadstat.write_sav(frame, str(path), variable_value_labels=labels, **about)
    write(draft([path]))
    building.build("evil2020", path, replicates=4, progress=False)
    return path


def test_a_card_holds_any_label(evil):
    text = card(record("evil2020"))
    assert "not stated)" not in text and "<not stated>" not in text  # no links to nowhere
    assert "2 tasks, which `epidemia groundtruth build evil2020" in text and "wait for" not in text
    rows = [line for line in text.splitlines() if line.startswith(("| sex", "| q"))]
    assert len(rows) == 2
    for row in rows:
        assert row.replace("\\\\", "").replace("\\|", "").count("|") == 6  # of five cells


def test_a_site_without_samples_shows_labels_and_runs_none(evil, tmp_path, visit):  # noqa: F811
    recorded(tmp_path / "runs", [TASK], model_args="kind=mean")
    for path in (tmp_path / "runs").rglob("samples_*"):
        path.unlink()
    site = small_site(make_report(read_results([tmp_path / "runs"])), tmp_path / "site")
    for page in ("index.html", f"task.html#task={TASK}&cell=0", "survey-evil2020.html"):
        # Without its content security policy, a script in the page would run.
        tab = visit(site, page, bypass_csp=True)
        if "task" in page:
            tab.get_by_text("Consider a person in 2020").first.wait_for()
            tab.wait_for_selector("text=No answers of this model: run lm_eval with --log")
        if "index" not in page:
            body = tab.locator("body").inner_text()
            assert HOSTILE[:25] in body and "[a](javascript:window.hacked=1) **b** `c` | d" in body
        assert tab.evaluate("window.hacked") is None
        assert tab.locator("a[href^=javascript]").count() == 0
    notes = visit(site, "index.html").locator("#notes")
    assert "no samples for 1 task" in notes.text_content()
    assert notes.locator("li").first.is_visible()  # few and short: open
    assert "There are no samples" in visit(site, "calibration.html").locator("main").inner_text()
    assert "There are no answers" in visit(site, "implied.html").locator("main").inner_text()
