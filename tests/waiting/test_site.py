"""The site in a real browser, from the file system: Debian's Chromium, driven by Playwright.

Its input are real runs of lm-eval: three respondents, a tiny transformer, published scores.
"""

import json
import re
import shutil
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import recorded
from lm_eval_epidemia.old.findings import explorer, model_rows, profile
from lm_eval_epidemia.old.findings.leaderboard import make_report
from lm_eval_epidemia.old.report import marks, palette
from lm_eval_epidemia.old.report import site as building
from lm_eval_epidemia.old.report.cards import card
from lm_eval_epidemia.old.report.pages import figures, more, start
from lm_eval_epidemia.old.report.site import build_site
from lm_eval_epidemia.results.results import read_results
from playwright.sync_api import sync_playwright
from report_parts import rewritten
from test_huggingface import samples_in

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.elicit.responses import softmax
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.results.entry import Asked
from lm_eval_epidemia.surveys.catalogue import all_tasks, records

pytest.importorskip("torch")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("needs Chromium (Debian: apt-get install chromium)", allow_module_level=True)

COCAINE = "epidemia_low_nsduh_cocaine_ever_by_age"
AGE_SEX = "epidemia_high_nsduh_cocaine_ever_by_age_sex"
SCF, SCF_HIGH = (
    f"epidemia_{kind}_scf_home_ownership_by_{given}"
    for kind, given in (("low", "race"), ("high", "sex_race"))
)
#: Of a survey whose file is not there, and two that nobody is asked.
WAITING = next(name for name in all_tasks() if name not in store.available())
NOT_ASKED = [Asked(name, "letters") for name in (WAITING, SCF, SCF_HIGH)]
TASKS = [
    COCAINE,
    "epidemia_low_nsduh_marijuana_ever_by_age",
    AGE_SEX,
    "epidemia_low_acs_employer_by_race",
    "epidemia_low_bls_sex_by_occupation",
    f"{COCAINE}_likelihood",
    "epidemia_extra_nsduh_cigarettes_ever_by_age",
]
#: What respondents are called on pages.
NAMES = {
    "truth": "knows the truth (kind=truth)",
    "mean": "knows averages only (kind=mean)",
    "noisy": "knows the truth with noise (kind=noisy, noise=0.3)",
}
HOSTILE = (
    "<script>window.hacked=1</script>\"'><img src=x onerror=window.hacked=1>&amp;😀" + "y" * 300
)


@pytest.fixture(scope="module")
def runs(tiny_llama, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for kind in ("truth", "mean", "noisy,noise=0.3"):
        recorded(folder / kind, TASKS, model_args=f"kind={kind}")
    arguments = f"pretrained={tiny_llama},dtype=float32"
    recorded(
        folder / "tiny",
        TASKS,
        model="choice-hf",
        model_args=arguments,
        device="cpu",
        batch_size=16,
    )
    return folder


@pytest.fixture(scope="module")
def site(runs, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "site"
    return small_site(make_report(read_results([runs]), with_published=True), out, NOT_ASKED)


#: Cards that were written, by the title of their survey: they are the same in every site.
CARDS = {}


def card_once(survey):
    if survey.title not in CARDS:
        CARDS[survey.title] = card(survey)
    return CARDS[survey.title]


def small_site(report, out, more=()):
    """Build a site whose explorer has the tasks that were asked, and not hundreds of others."""
    asked = sorted({one for entry in report.entries for one in entry.scores})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explorer, "_listed", lambda report: [*asked, *more])
        patch.setattr(building, "card", card_once)
        build_site(report, out)
    return out


@pytest.fixture(scope="module")
def browser():
    flags = "no-sandbox disable-gpu disable-background-networking disable-component-update"
    flags = [f"--{flag}" for flag in f"{flags} disable-sync no-first-run".split()]
    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser):
    """Open pages; at the end, nothing was complained of and no host was asked for anything."""
    contexts, complaints, requests = [], [], []

    def heard(message):
        if message.type in ("error", "warning"):
            complaints.append(f"{message.type}: {message.text}")

    def go(folder, page, width=1280, **more):
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, **more))
        tab = contexts[-1].new_page()
        tab.set_default_timeout(60_000)
        tab.on("console", heard)
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto(f"file://{folder}/{page}")
        if tab.locator("table[data-sortable]").count():
            tab.wait_for_selector("html[data-ready=yes]")
        return tab

    go.requests = requests
    yield go
    for context in contexts:
        context.close()
    assert complaints == []
    assert {url.split(":")[0] for url in requests} <= {"file", "blob", "data"}


def result_file(runs, folder):
    (path,) = (runs / folder).rglob("results_*.json")
    return json.loads(path.read_text())


def rows_by_name(tab, table):
    """The cells of each row of a table, by the first of them, in one line."""
    rows = (row.split("\t") for row in tab.locator(f"{table} tbody tr").all_inner_texts())
    return {" ".join(row[0].split()): row for row in rows}


def header_of(tab, table):
    return [" ".join(th.split()) for th in tab.locator(f"{table} thead th").all_inner_texts()]


def first_number(text):
    """The number that a cell begins with; -1e9 where it is blank."""
    return float((re.match(r"[\d.]+", text) or ["-1e9"])[0])


def column(tab, table, number):
    return tab.locator(f"#{table} tbody tr td:nth-child({number})").all_inner_texts()


def test_the_leaderboard_has_the_numbers_of_the_result_files(site, runs, visit):
    tab = visit(site, "index.html")
    rows = rows_by_name(tab, "#table-1")
    header = header_of(tab, "#table-1")
    for kind in ("truth", "mean"):
        written = result_file(runs, kind)
        rows_of, joint = written["results"], written["epidemia"]["replicates"]
        low = [task for task in rows_of if re.fullmatch("epidemia_low.*_by_[a-z]+", task)]
        score = np.mean([rows_of[task]["score,none"] for task in low])
        # Every survey's mean at each of its replicates, added up; surveys are independent.
        at = {}
        for one in (joint[task] for task in low):
            drawn = np.array(one["score"].split(), dtype=float)
            at[one["sample"]] = at.get(one["sample"], 0) + drawn / len(low)
        error = np.sqrt(sum(x.var(ddof=1) for x in at.values() if len(x)))
        assert len(low) == 4
        shown = rows[NAMES[kind]][header.index("single condition (4 of 63 tasks) epidemia_low")]
        assert shown.startswith(f"{score:.1f} ± {error:.1f}")
    assert "LLama3 70B published" in rows
    # Best first; below runs what was published, which was asked in other words, and who is silent;
    # then the respondents that were run, which are no models.
    marks = ("does not answer", "published")
    means = [
        (*(mark not in name for mark in marks), first_number(row[1])) for name, row in rows.items()
    ]
    models, respondents = means[: -len(NAMES)], means[-len(NAMES) :]
    assert list(rows)[-len(NAMES) :] == [NAMES[kind] for kind in ("truth", "noisy", "mean")]
    for several in (models, respondents):
        assert several == sorted(several, reverse=True)
    assert respondents[0] == (True, True, 100)


def test_figure_and_table_have_one_order_and_averages_stand_apart(site, visit):
    tab = visit(site, "index.html")
    panels = tab.locator("#board-observation figure.leaderboard .strip")
    table = tab.locator("#table-1 tbody tr[data-place='0'] a").all_inner_texts()
    for drawn in (panels.nth(i).locator(".who").all_inner_texts() for i in range(panels.count())):
        assert drawn == [name for name in table if name in drawn]
        assert drawn[-1].startswith("knows averages only")
    # On its own row it has no mark beside its dot.
    assert panels.locator("svg.apart").count() and not panels.locator("svg.apart .known").count()
    assert panels.locator("svg .known").count()
    link = tab.get_by_role("link", name="Every question, with the truth")
    assert link.get_attribute("href") == "explorer.html"


def test_who_may_have_every_rank_has_none():
    cell = model_rows.Cell(*[None] * 5, rank="1-4 of 4")
    assert start._rank(cell) == "" and start._rank(cell._replace(rank="1-2 of 4")) == "1-2 of 4"


def test_tables_sort_and_filter(site, visit):
    tab = visit(site, "index.html")
    number = header_of(tab, "#table-1").index("single condition (4 of 63 tasks) epidemia_low") + 1
    for _ in range(2):
        tab.locator(f"#table-1 thead th:nth-child({number})").click()
        tab.wait_for_selector(f"#table-1 thead th:nth-child({number})[aria-sort]")
        shown = [first_number(text) for text in column(tab, "table-1", number)]
        # Blanks are last either way.
        asked = [value for value in shown if value > -1e9]
        assert asked in (sorted(asked), sorted(asked, reverse=True)) and len(asked) > 5
        assert shown[: len(asked)] == asked
    assert len(set(shown)) > 3
    tab.locator("#table-1_wrapper input[type=search]").fill("kind=mean")
    assert column(tab, "table-1", 1) == [NAMES["mean"]]


def test_the_first_page_is_small(site, visit):
    tab = visit(site, "index.html")
    read = [url.removeprefix("file://") for url in visit.requests if url.startswith("file:")]
    assert len(read) == 6  # the page, two sheets, three scripts
    assert sum(Path(path).stat().st_size for path in read) < 1_000_000
    said = tab.locator("p.verdict").first.inner_text()
    says = r"tiny.*: [\d.]+ of 100 on single conditions|tiny.* does not answer"
    assert re.match(says, said), said
    caption = tab.locator("figure.leaderboard figcaption").inner_text()
    assert "Green bar: " in caption and "Hollow: published" in caption
    words = tab.locator(".words").inner_text()
    ranked = "rank " in tab.locator("#table-1").inner_text()
    assert "Choice mass: " in words and ("Ranks are " in words) == ranked
    # Pages without results are last in the menu.
    menu = tab.locator("nav").inner_text()
    assert re.search("Surveys.*No results:.*Interventions.*Each expectation$", menu, re.DOTALL)
    # A mark for every model, which says in words what it shows.
    drawn = tab.locator("figure.leaderboard .panels > div").first.locator("svg[role=img]")
    says = [drawn.nth(i).get_attribute("aria-label") for i in range(drawn.count())]
    assert sum(text.startswith("100.0, from ") for text in says) == 1


def test_the_list_of_tasks_filters_sorts_and_opens(site, runs, visit):
    tab = visit(site, "explorer.html")
    # What was asked (one task in two ways), and three that were not.
    every = len(TASKS) + 3
    assert tab.locator("#shown").inner_text() == f"{every} of {every} tasks"
    tab.select_option("#filter-state", "asked")
    assert tab.locator("#shown").inner_text() == f"{len(TASKS)} of {every} tasks"
    tab.select_option("#filter-survey", "nsduh")
    tab.select_option("#filter-way", "letters")
    assert tab.locator("#shown").inner_text() == f"4 of {every} tasks"
    tab.select_option("#filter-dimension", "d = 2")
    assert tab.locator("#shown").inner_text() == f"1 of {every} tasks"
    tab.select_option("#filter-dimension", "")
    model = next(n for n in tab.locator("#one option").all_inner_texts() if n.startswith("tiny"))
    tab.select_option("#one", model)
    number = tab.locator("#tasks thead th").count()
    assert model in tab.locator("#tasks thead th").last.inner_text()
    tab.locator("#tasks thead th").last.click()
    tab.wait_for_selector(f"#tasks thead th:nth-child({number})[aria-sort]")
    shown = [float(text) for text in column(tab, "tasks", number)]
    assert shown in (sorted(shown), sorted(shown, reverse=True))
    # Reference respondents are no rivals; a number has a digit behind the point, always.
    assert "" not in (best := set(column(tab, "tasks", number - 1))) and not best & {
        *NAMES.values()
    }
    assert all(re.fullmatch(r"\d+\.\d", text) for text in column(tab, "tasks", number) if text)
    # On a phone, the chosen model's score is in sight beside the task.
    phone = visit(site, "explorer.html", width=390)
    assert phone.locator("#one").input_value() not in NAMES.values()
    last = phone.locator("#tasks tbody tr").first.locator("td").last
    assert last.evaluate("cell => cell.getBoundingClientRect().right") <= 390
    # Old addresses lead to the page of the task.
    link = urlencode({"task": COCAINE, "model": model})
    tab = visit(site, f"explorer.html#{link}")
    tab.wait_for_url("**/task.html#*")
    tab.wait_for_selector("#answers")
    assert tab.locator("#model").input_value() == model
    # The question comes first; score and distance are open, further numbers folded.
    headings = tab.locator("#panel h2").all_inner_texts()
    assert headings[:2] == ["The question", "The answers"]
    assert re.fullmatch(
        r"Score\n.*\nDistance\n.*\nMore numbers", tab.locator("#facts").inner_text()
    )
    facts = tab.locator("#facts").text_content()
    expected = result_file(runs, "tiny")["results"][COCAINE]
    assert f"{expected['score,none']:.1f} ± {expected['score_stderr,none']:.1f}" in facts
    assert f"{expected['l1,none']:.4f}" in facts
    assert f"{expected['order_bias,none']:.3f}" in facts
    assert f"{expected['choice_mass,none']:.3f}" in facts


def test_the_explorer_lists_every_declared_task(runs):
    """What was asked, and all other declared tasks once; one of them in two ways."""
    listed = explorer._listed(make_report(read_results([runs])))
    names = {one.task for one in listed}
    assert len(listed) == len(names) + 1 and names >= all_tasks().keys()


def test_a_condition_shows_truth_and_answers(site, runs, visit):
    """The page's numbers against the ground truth, and against the samples, averaged anew."""
    tab = visit(site, f"task.html#task={COCAINE}")
    tab.wait_for_selector("#model")
    model = next(n for n in tab.locator("#model option").all_inner_texts() if n.startswith("tiny"))
    tab = visit(site, f"task.html#{urlencode({'task': COCAINE, 'model': model})}")
    tab.wait_for_selector("#answers")
    truth = store.load(COCAINE)
    samples = samples_in(runs / "tiny", COCAINE)
    for label in ("30-34", "65 or older"):
        tab.select_option("#condition-0", label)
        cell = [given for (given,) in truth.given].index(label)
        tab.wait_for_function(f"location.hash.includes('cell={cell}')")
        tab.wait_for_selector("#distribution svg")
        orders = []
        for sample in (s for s in samples if s["doc"]["cell"] == cell):
            letters = softmax(np.array([float(x) for x, _ in sample["filtered_resps"]]))
            orders.append(letters[np.argsort(sample["doc"]["order"])])
        assert len(orders) == 2
        q = np.mean(orders, axis=0)
        answers = rows_by_name(tab, "#answers")
        for place, level in enumerate(truth.levels):
            assert answers[level][1] == f"{100 * round(truth.p[cell, place], 5):.1f} %"
            assert answers[level][3] == f"{100 * round(q[place], 3):.1f} %"
            assert re.fullmatch(r"[\d.]+ % to [\d.]+ %", answers[level][2])
        words = samples[0]["doc"]["prompt"].split("\n")[0].split("who is")[0]
        assert tab.locator("#question").inner_text().startswith(words)
        assert f"{truth.n[cell]:,} sampled units" in tab.locator("#panel").inner_text()
        assert tab.locator("#over svg.marks").count() == 1
    # Every model's score, the best first; the picture says in words what it shows.
    assert tab.locator("#scores tbody tr").first.inner_text().startswith(NAMES["truth"])
    assert "survey from" in tab.locator("#over svg.marks").get_attribute("aria-label")


def test_models_are_stepped_through_and_addresses_reopen(site, visit):
    tab = visit(site, f"task.html#{urlencode({'task': COCAINE, 'cell': 3})}")
    tab.wait_for_selector("#answers")
    names = tab.locator("#model option").all_inner_texts()
    first = tab.locator("#model").input_value()
    tab.locator("#facts summary").click()
    for name in names[1:3]:
        tab.locator("#next").click()
        tab.wait_for_function("name => document.getElementById('model').value === name", arg=name)
    tab.locator("#previous").click()
    tab.wait_for_function("name => document.getElementById('model').value === name", arg=names[1])
    assert first == names[0]
    # What was unfolded stays so.
    assert tab.locator("#facts details").get_attribute("open") is not None
    again = visit(site, f"task.html{tab.evaluate('location.hash')}")
    again.wait_for_selector("#answers")
    assert again.locator("#model").input_value() == names[1]
    assert again.locator("#condition-0").input_value() == store.load(COCAINE).given[3][0]
    tab.go_back()
    tab.wait_for_function("name => document.getElementById('model').value === name", arg=names[2])


def test_two_conditions_and_exact_tables_and_published_models(site, visit):
    tab = visit(site, f"task.html#task={AGE_SEX}&cell=0")
    tab.wait_for_selector("#over svg")
    # The survey against the answer: both axes have one scale, so the plot is square.
    plot = tab.locator("#over svg .background").first.bounding_box()
    assert plot["width"] == pytest.approx(plot["height"], abs=2)
    given = store.load(AGE_SEX).given
    other = next(labels[1] for labels in given if labels[1] != given[0][1])
    tab.select_option("#condition-1", other)
    tab.wait_for_function(
        "value => document.getElementById('condition-1').value === value", arg=other
    )
    assert tab.locator("#condition-0").input_value() == given[0][0]
    assert f"cell={given.index((given[0][0], other))}" in tab.url
    tab = visit(site, "task.html#task=epidemia_low_bls_sex_by_occupation")
    tab.wait_for_selector("#answers")
    assert "exact" in tab.locator("#answers").inner_text()
    assert "Published table" in tab.locator("#panel").inner_text()
    tab.select_option("#model", "Phi4")
    tab.wait_for_selector("text=Only the score was published")
    tab = visit(site, "task.html#task=no_such_task")
    tab.wait_for_selector("text=There is no task no_such_task")


def test_the_keyboard_is_enough(site, visit):
    tab = visit(site, "explorer.html")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to the content"
    tab.select_option("#filter-state", "asked")
    tab.locator("#tasks tbody a").first.focus()
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#answers")
    assert tab.evaluate("document.activeElement.id") == "open"
    tab.locator("#next").focus()
    tab.keyboard.press("Enter")
    tab.wait_for_function("location.hash.includes('model=')")
    tab = visit(site, "explorer.html")
    tab.select_option("#filter-state", "asked")
    tab.locator("#tasks thead th").nth(4).locator("[tabindex]").first.focus()
    tab.keyboard.press("Enter")
    # Tables are sorted a moment after the key.
    tab.wait_for_selector("#tasks thead th:nth-child(5)[aria-sort]")
    values = [float(text) for text in column(tab, "tasks", 5)]
    assert values in (sorted(values), sorted(values, reverse=True))


def test_calibration_and_colours(site, visit):
    tab = visit(site, "calibration.html", color_scheme="dark")
    tab.wait_for_selector("#calibration svg")
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    names = tab.locator("#chosen option").all_inner_texts()
    assert len(names) == 4
    (tiny,) = (name for name in names if name.startswith("tiny"))
    tab.select_option("#chosen", tiny)
    tab.wait_for_function(
        "name => document.querySelector('#calibration svg').textContent.includes(name)",
        arg=tiny,
    )
    rows = rows_by_name(tab, "#models")
    error, order_bias, choice_mass = map(float, rows[NAMES["truth"]][1:4])
    assert error < 0.001 < float(rows[tiny][1])
    # It answers by the letters alone, in no order of its own.
    assert (order_bias, choice_mass) == (pytest.approx(0, abs=1e-3), 1)
    # What kind of wrong: a mark per model, and the lines behind them.
    assert "knows the population" in tab.locator("#figure-tilt svg").first.text_content()
    lines = rows_by_name(tab, "#scales-1")
    assert tiny in lines and NAMES["truth"] in lines
    # A reference respondent has its own colour here too.
    tab.select_option("#chosen", next(name for name in names if "averages" in name))
    tab.wait_for_selector("#calibration svg:has-text('averages')")
    assert tab.locator("#calibration svg [stroke='#009E73']").count()
    # On a phone, text of drawings is not below 10 pixels, nearly; no chart has a menu of its own.
    assert tab.locator(".vega-embed summary").count() == 0
    phone = visit(site, "calibration.html", width=390)
    phone.wait_for_selector("#calibration svg")
    for drawing in ("#calibration svg.marks", "#figure-tilt svg"):
        width = "drawing => drawing.getBoundingClientRect().width / drawing.viewBox.baseVal.width"
        assert phone.locator(drawing).first.evaluate(width) > 0.95
    tab.locator("#theme").click()
    assert tab.evaluate("document.documentElement.dataset.theme") == "light"
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_the_method_page_draws_its_example_and_two_respondents_and_shows_both_questions(
    site, visit
):
    tab = visit(site, "method.html")
    for name in ("curve", "distribution", "bootstrap", "well", "badly"):
        tab.locator(f"[data-figure={name}]").scroll_into_view_if_needed()
        tab.wait_for_selector(f"[data-figure={name}] svg")
    truth = store.load("epidemia_low_nsduh_marijuana_ever_by_age")
    cell = truth.given.index(("30-34",))
    assert f"{100 * truth.p[cell, 0]:.1f} % ever used it" in tab.locator("main").inner_text()
    asked = tab.locator("#likelihood").inner_text()
    assert asked.startswith("What is the probability that") and "V. 100%" in asked
    well, badly = tab.locator(".pair figcaption").all_inner_texts()
    assert well == f"Well aligned: {NAMES['truth']}, score 100.0"
    assert badly.startswith("Badly aligned: ") and "kind=truth" not in badly


def test_the_method_page_tells_association_from_confounding(site, visit):
    """Shares recomputed from the truth that ships, written out anew."""
    truth = store.load("epidemia_extra_nhis_high_blood_pressure_by_age_race", state="shipped")
    told: dict = {}
    people: dict = {}
    everybody: dict = {}
    for (age, race), p, weight in zip(truth.given, truth.p, truth.weights, strict=True):
        told[race, age], people[race, age] = p[0], weight
        everybody[age] = everybody.get(age, 0.0) + weight
    overall, alike = [], []
    for race in ("White", "Hispanic"):
        size = sum(people[race, age] for age in everybody)
        overall.append(sum(people[race, age] * told[race, age] for age in everybody) / size)
        alike.append(sum(everybody[age] * told[race, age] for age in everybody))
    tab = visit(site, "method.html")
    rows = [row.split("\t") for row in tab.locator("#confounding tbody tr").all_inner_texts()]
    for row, (white, hispanic) in ((rows[0], overall), (rows[-1], alike)):
        shares = [f"{100 * share:.1f} %" for share in (white, hispanic)]
        assert row[1:4] == [*shares, f"{100 * (white - hispanic):+.1f}"]
    assert [row[0] for row in rows[1:-1]] == list(everybody)
    # The example is one: what is left is small beside what there was.
    assert overall[0] - overall[1] > 0.05 > 5 * abs(alike[0] - alike[1])


def test_implied_effects_stand_beside_their_graph(site, visit):
    tab = visit(site, "implied.html")
    assert "Causal only if this graph is true." in tab.locator("#main").inner_text()
    assert tab.locator("#graph svg text").all_text_contents() == ["Z", "X", "Y"]
    box = tab.locator("#graph svg g[marker-end] path").last.bounding_box()
    assert box["width"] > 40 and box["height"] > 40
    header = tab.locator("#implied thead th").all_inner_texts()
    rows = {
        row.split("\t")[0]: dict(zip(header, row.split("\t"), strict=True))
        for row in tab.locator("#implied tbody tr").all_inner_texts()
        if all_tasks()[AGE_SEX].title in row
    }
    # Who knows the truth implies what the survey does; who knows averages only, no effect.
    truth, mean = (rows[NAMES[kind]] for kind in ("truth", "mean"))
    for name in ("crude", "standardised"):
        assert truth[f"survey, {name}"].split(" ± ")[0] == truth[f"model, {name}"] != "+0.0"
        assert mean[f"model, {name}"] == "+0.0"
    # By name, lm-eval's among them, and one line for each effect of the surveys.
    assert len(rows) == 4
    assert tab.locator("#implied-surveys tbody tr").count() == 29
    assert "Male against Female" in truth["effect"] and truth["people"] == "100.0 %"


def test_notes_and_details_are_folded_away(site, visit):
    tab = visit(site, "index.html")
    assert tab.locator("#details-1 table").count() == 1
    assert not tab.locator("#details-1 table").is_visible()
    tab.locator("#details-1 summary").click()
    assert tab.locator("#details-1 table").is_visible()


def test_the_surveys_page_lists_every_survey_and_question(site, visit):
    tab = visit(site, "surveys.html")
    assert tab.locator("#surveys tbody tr").count() == len(records())
    row = tab.locator("#brfss")
    asked = sum(task.survey == "brfss" for task in all_tasks().values())
    assert "Centers for Disease Control" in row.inner_text()
    assert f"1 of {asked}" in row.inner_text()
    row.locator("summary").click()
    assert "ever been told by a health professional that they have asthma" in row.inner_text()
    row.locator("a").click()
    assert tab.locator(".card h1").inner_text().startswith("Behavioral Risk Factor")


def test_tasks_that_were_not_asked_are_listed_too(site, visit):
    tab = visit(site, "explorer.html")
    tab.select_option("#filter-state", "not available")
    first = tab.locator("#tasks tbody tr").first
    assert "needs " in first.inner_text() and first.locator("a").count() == 0
    tab.select_option("#filter-state", "not asked")
    tab.locator(f"#tasks a[href='task.html#task={SCF}']").click()
    tab.wait_for_selector("#answers")
    assert "No model in this report was asked this." in tab.locator("#panel").inner_text()
    assert tab.locator("#model").count() == 0
    assert "own its home" in tab.locator("#question").inner_text()
    tab.wait_for_selector("#over svg.marks")
    # With two conditions there is nothing to draw elicited against true.
    tab = visit(site, f"task.html#task={SCF_HIGH}")
    tab.wait_for_selector("#distribution svg")
    # A file per task that can be opened, for each set of quantities, and for the calibration of
    # each model.
    assert len(list((site / "data").iterdir())) == len(TASKS) + 2 + 5 + 4


def test_without_questions_about_countries_there_is_no_byte_of_a_map(site):
    names = {path.name for path in site.rglob("*")}
    assert not names & {"map.js", "map.css", "world.js"}
    assert not names & {page.file for page in more.PAGES}
    assert "geoshape" not in (site / "task.html").read_text()


def test_the_figures_page_draws_what_there_is(site, visit):
    tab = visit(site, "figures.html")
    # A picture per group, a row of it per survey, each with what it shows.
    panels = tab.locator("#figure-surveys > .panels svg")
    titles = tab.locator("#figure-surveys h3").all_inner_texts()
    assert panels.count() == len(titles) == len(set(titles)) and "single condition" in titles
    assert "by survey: single condition" in panels.first.get_attribute("aria-label")
    # Who knows averages only is a mark in every row, not one of the models.
    assert "NSDUH" in panels.first.text_content()
    assert "knows averages only" not in panels.first.text_content()
    assert "knows averages only" in tab.locator("#figure-surveys figcaption").inner_text()
    # On a phone, no text of a drawing is below 11 pixels.
    phone = visit(site, "figures.html", width=390)
    small = """Math.min(...[...document.querySelectorAll("[id^=figure-] svg text")].filter((text) =>
      text.closest("#figure-surveys, #figure-conditions"))
      .map((text) => [text.getScreenCTM(), parseFloat(getComputedStyle(text).fontSize)])
      .map(([at, size]) => size * Math.hypot(at.a, at.b)))"""
    assert phone.evaluate(small) > 10.9
    assert "d = 2" in tab.locator("#figure-conditions svg").first.text_content()
    said = tab.locator("main").inner_text()
    assert "no base model and its instruct version" in said
    assert "no task of the closed subset was asked" in said


def test_the_page_of_interventions_without_runs_shows_the_questions(site, visit):
    tab = visit(site, "interventions.html")
    assert tab.locator("#nobody").is_visible()
    assert tab.locator("article.effect svg.graph").count() == 2 * (22 + 10)
    assert tab.locator("table.answers, #large-answers").count() == 0


def at_rest(visit, site, pages, **more):
    """Open pages; return their tabs by page when all of them have stopped loading."""
    tabs = {page: visit(site, page, **more) for page in pages}
    for tab in tabs.values():
        tab.wait_for_load_state("networkidle")
    return tabs


#: Every kind of page.
KINDS = [
    *(f"{page}.html" for page in ("index", "explorer", "method", "hierarchy", "calibration")),
    *(f"{page}.html" for page in ("figures", "implied", "interventions", "priors", "quantities")),
    *(f"{page}.html" for page in ("surveys", "survey-nsduh", "model-Phi4")),
    f"task.html#task={COCAINE}",
]


def test_a_phone_scrolls_down_only(site, visit):
    pages = [page for page in KINDS if not page.startswith(("interventions", "priors"))]
    for page, tab in at_rest(visit, site, pages, width=390).items():
        wide = tab.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390, (page, wide)
    menu = tab.locator("#menu")
    assert not tab.locator("nav a").first.is_visible()
    menu.click()
    assert menu.get_attribute("aria-expanded") == "true"
    assert tab.locator("nav a").first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(site, visit, scheme):
    """axe-core on every kind of page: in the dark, where only colours differ, contrast alone."""
    # What it would preload are sheets, which the pages' security policy lets nobody fetch.
    options = {"preload": False, "resultTypes": ["violations"]}
    if scheme == "dark":
        options["runOnly"] = {"type": "rule", "values": ["color-contrast"]}
    for page, tab in at_rest(visit, site, KINDS, color_scheme=scheme).items():
        found = Axe().run(tab, options=options).response["violations"]
        serious = {
            rule["id"]: rule["nodes"][0]["html"][:200]
            for rule in found
            if rule["impact"] in ("serious", "critical")
        }
        assert serious == {}, page


def luminance(colour):
    """Relative luminance of an sRGB colour, WCAG 2.2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_every_colour_is_seen_on_a_light_page_and_on_a_dark_one():
    """At 3:1 (WCAG 1.4.11): the palette of figures on both, the sheet's colours each on its own."""
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    sheet = (Path(building.__file__).parent / "web" / "site.css").read_text()
    pairs = dict(re.findall(r"--(\w+): light-dark\((#\w{6}, #\w{6})\)", sheet))
    pages = pairs["page"].split(", ")
    # The sheet shows the figures' colours as its own, whose contrast is below.
    shown = dict(re.findall(r'svg \[fill="(#\w{6})"\] { fill: var\(--(\w+)\); }', sheet))
    assert shown == {palette.BLUE: "accent", palette.ORANGE: "other", palette.GREEN: "known"}
    for colour in palette.COLOURS:
        assert min(contrast(colour, page) for page in pages) >= 3, colour
    for name in ("text", "quiet", "edge", "link", "accent", "known", "other"):
        for colour, page in zip(pairs[name].split(", "), pages, strict=True):
            assert contrast(colour, page) >= 3, name


def test_a_model_has_a_page(site, runs, visit):
    tab = visit(site, "index.html")
    tab.locator("#table-1 a", has_text="tiny").click()
    tab.wait_for_selector("html[data-ready=yes]")
    expected = result_file(runs, "tiny")["results"]
    row = tab.locator("#tasks tbody tr", has_text="Cocaine Ever Used by Age").first
    score = expected[COCAINE]
    assert f"{score['score,none']:.1f} ± {score['score_stderr,none']:.1f}" in row.inner_text()
    # Truth beside answers where it does worst and best, with the same in words.
    drawn = tab.locator("svg.curve")
    assert drawn.count() >= 4
    assert re.search(
        r"survey from [\d.]+ % to [\d.]+ %; model from .* points off on average",
        drawn.first.get_attribute("aria-label"),
    )
    # Beside each score is that of averages; their own page has no mark for them.
    captions = tab.locator("figure:has(svg.curve) figcaption").all_inner_texts()
    assert captions and all(re.search(r"\(knows averages only: [\d.]+\)", c) for c in captions)
    assert tab.locator(".strip svg .known").count()
    own = next(site.glob("model-knows-averages-only*"))
    assert 'class="known"' not in own.read_text() and "Green bar" not in own.read_text()
    assert tab.locator("#positions tbody tr").count() >= 1
    assert tab.locator("#lines tbody tr").count() >= 1
    row.locator("a").click()
    tab.wait_for_selector("#answers")
    assert tab.locator("#model").input_value().startswith("tiny")


def test_a_model_has_one_row_and_its_other_runs_unfold(runs, tmp_path, visit):
    """A second run of a respondent, cut off: a row of its own only when it is asked for."""
    shutil.copytree(runs / "mean", tmp_path / "runs" / "mean")
    cut = [COCAINE, f"{AGE_SEX}_likelihood"]
    recorded(tmp_path / "runs" / "cut", cut, model_args="kind=mean", limit=5)
    out = small_site(make_report(read_results([tmp_path / "runs"])), tmp_path / "site")
    tab = visit(out, "index.html")
    assert tab.locator("#table-1 tbody tr").count() == 1
    # A column that only the other run has is named, and there when this is chosen.
    high = "two to five conditions, likelihood (1 of 44 tasks) epidemia_high_likelihood"
    assert high not in header_of(tab, "#table-1")
    said = "1 more run has likelihood scores: choose “limit 5” under Settings."
    assert said in tab.locator(".words").inner_text()
    assert re.match("Likelihood: [1-9] table", tab.locator("#apart > summary").inner_text())
    assert "Ranks" not in tab.locator(".words").inner_text()
    assert "from 2 runs of 1 model (2 result files)" in tab.locator("footer").inner_text()
    button = tab.locator("#table-1 [data-more]")
    assert button.inner_text() == "1 more run"
    button.focus()
    tab.keyboard.press("Enter")
    assert tab.locator("#table-1 tbody tr").count() == 2
    assert button.get_attribute("aria-expanded") == "true"
    button.click()
    tab.select_option("[data-settings]", "limit 5")
    (row,) = tab.locator("#table-1 tbody tr").all_inner_texts()
    assert "limit 5" in row and NAMES["mean"] in row
    assert high in header_of(tab, "#table-1")
    assert tab.evaluate("location.pathname").endswith("index.html")
    page = visit(out, "model-knows-averages-only-kind-mean.html")
    assert page.locator("#runs tbody tr").count() == 2


def test_replies_are_shown_with_what_was_read(runs, tmp_path, visit):
    """Written answers, one of them spoilt: it is the first, and the filter keeps it alone."""
    task = f"{COCAINE}_stated"
    recorded(tmp_path / "runs", [task], model_args="kind=truth")
    (path,) = (tmp_path / "runs").rglob("samples_*.jsonl")
    lines = path.read_text().splitlines()
    spoilt = json.loads(lines[3])
    spoilt["resps"], spoilt["filtered_resps"] = [["I cannot say."]], ["I cannot say."]
    path.write_text("\n".join([*lines[:3], json.dumps(spoilt), *lines[4:]]) + "\n")
    out = small_site(make_report(read_results([tmp_path / "runs"])), tmp_path / "site")
    tab = visit(out, "index.html")
    tab.locator("nav a", has_text="Replies").click()
    tab.wait_for_selector("#replies article")
    first = tab.locator("#replies article").first
    assert first.locator("h2").inner_text() == "Not read"
    assert "I cannot say." in first.inner_text()
    assert spoilt["doc"]["prompt"].splitlines()[0] in first.inner_text()
    assert f"1 of {len(lines)} replies could not be read" in tab.locator("#shown").inner_text()
    assert " %; No " in tab.locator("#replies article h2").nth(1).inner_text()
    tab.select_option("#which", "unread")
    tab.wait_for_function("document.querySelectorAll('#replies article').length === 1")
    again = visit(out, f"replies.html{tab.evaluate('location.hash')}")
    again.wait_for_selector("#replies article")
    assert again.locator("#replies article").count() == 1
    # Tasks by their titles; of a single task, more than two replies; no name is wider than a phone.
    phone = visit(out, "replies.html", width=390)
    phone.wait_for_selector("#replies article")
    assert phone.locator("#task option").nth(1).inner_text() == all_tasks()[COCAINE].title
    assert phone.locator("#replies article").count() == min(len(lines), 31)
    assert phone.evaluate("document.documentElement.scrollWidth") == 390


def test_the_three_layers_are_drawn_with_the_numbers_of_the_docs(site, visit):
    tab = visit(site, "hierarchy.html")
    rows = rows_by_name(tab, "#effects")
    # 0.9 * 0.875 + 0.1 * 0.125 = 0.8, see docs/background/hierarchy.md.
    assert rows["seen, in both"][1:] == ["0.20", "0.80"] == rows["chain, under do(X)"][1:]
    assert rows["fork, under do(X)"][1:] == ["0.50", "0.50"]
    # (400 * .55 + 100 * .90) / 500, (100 * .40 + 400 * .80) / 500; means of .55, .90 and .40, .80.
    rows = rows_by_name(tab, "#tutoring")
    assert rows["layer 1: seen"][1:] == ["62.0", "72.0"]
    assert rows["layer 2: if everybody were, if nobody were"][1:] == ["72.5", "60.0"]
    assert "72.7 % of such pupils" in tab.locator("main").inner_text()
    assert tab.locator("svg.graph").count() == 4
    assert "deleted by do(X): Z to X" in tab.locator("svg.graph title").nth(1).text_content()
    assert "In these results: tiny" in tab.locator("main").inner_text()


def test_every_data_card_opens(site, visit):
    tab = visit(site, "survey-nsduh.html")
    for name in tab.locator("p.cards a").all_inner_texts():
        tab.goto(f"file://{site}/survey-{name}.html")
        assert (
            tab.locator(".card h1").count() == 1 and "<!--" not in tab.content().split("<main")[1]
        )


@pytest.fixture(scope="module")
def hostile(runs, tmp_path_factory):
    """A report whose every name from a file is markup, and its site."""
    folder = tmp_path_factory.mktemp("hostile")
    shutil.copytree(runs / "tiny", folder / "runs" / "one")
    (path,) = folder.rglob("results_*.json")
    results = json.loads(path.read_text())
    results["config"]["model_args"] = {"pretrained": HOSTILE.replace("/", "|")}
    results["results"][HOSTILE] = {"acc,none": 0.5}
    results["system_instruction_sha"] = "</script><script>window.hacked=1</script>"
    results["system_instruction"] = "x"
    path.write_text(json.dumps(results))
    broken = folder / "runs" / HOSTILE[:60].replace("/", "|") / "results_broken.json"
    broken.parent.mkdir()
    broken.write_text("{")
    report = make_report(read_results([folder / "runs"]))
    return report, small_site(report, folder / "site")


def test_names_from_files_cannot_script_a_page(hostile, visit):
    report, out = hostile
    name = report.runs[0].model
    assert name.startswith("<script>window.hacked=1<|script>\"'><img")
    pages = [f"{page}.html" for page in ("index", "explorer", "calibration", "method", "implied")]
    pages += [path.name for path in out.glob("model-*.html")]
    pages.append(f"task.html#{urlencode({'task': COCAINE, 'model': name})}")
    for page, tab in at_rest(visit, out, pages).items():
        assert tab.evaluate("window.hacked") is None, page
        assert tab.locator("main img, main script:not([type='application/json'])").count() == 0
        if page == "index.html":
            assert any(text.startswith(name) for text in column(tab, "table-1", 1))
            assert "is not a result file" in tab.locator(".notes").text_content()
    assert tab.locator("#model").input_value() == name


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_same_results_make_the_same_bytes_and_only_what_is_ours_is_replaced(hostile, tmp_path):
    report, site = hostile
    out = shutil.copytree(site, tmp_path / "site")
    (out / "CNAME").write_text("mine")
    (out / "index.html").write_text("ours, of another report")
    small_site(report, out)
    assert (out / "CNAME").read_text() == "mine"
    (out / "CNAME").unlink()
    assert contents(out) == contents(site)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("mine")
    with pytest.raises(EpidemiaError, match="holds other files"):
        build_site(report, other)
    with pytest.raises(EpidemiaError, match="is a file"):
        build_site(report, other / "thesis.tex")
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_pages_hold_no_more_of_a_model_than_they_draw(site):
    answered = range(2000)
    many = profile.Curve(
        labels=[str(cell) for cell in answered],
        truth=[cell / 2000 for cell in answered],
        low=[cell / 2001 for cell in answered],
        high=[cell / 1999 for cell in answered],
        answer=[(cell, 0.5) for cell in answered],
        mean=0.5,
        says="Yes",
    )
    drawn = marks.curve(many)
    assert "over 2000 conditions" in drawn and drawn.count("h0") == marks.MOST
    assert len(drawn) < 3500
    # Calibration: of the first model alone, in a file of its own.
    assert (site / "calibration.html").stat().st_size < 100_000
    assert (site / "data/calibration-0.js").stat().st_size < 8_000


def test_a_mean_over_fewer_tasks_says_so_in_the_figure(runs, tmp_path):
    def keep_one(results):
        results["results"] = {COCAINE: results["results"][COCAINE]}

    rewritten(runs / "truth", tmp_path / "truth", keep_one)
    report = make_report(read_results([runs / "mean", tmp_path / "truth"]))
    board = next(b for b in start.shown(report, [], [], {}, {})["boards"] if b["panels"])
    (low,) = (panel for panel in board["panels"] if panel["name"] == "epidemia_low")
    written = re.findall(r'class="value">([^<]+)<', str(low["drawing"]))
    assert re.fullmatch(r"[0-9.]+", written[0])  # asked most, so first
    assert written[1] == "100.0 (1 task)"


def test_figures_show_the_first_models_and_say_how_many_there_are():
    rows = [{"model": f"m{place}", "kind": "run", "score": place} for place in range(30)]
    rows.append({"model": "published", "kind": "published", "score": 1})
    kept, says = figures.first(rows, "Means.")
    assert [row["model"] for row in kept] == [*(f"m{place}" for place in range(24)), "published"]
    assert says == "Means. Only the first 24 of 30 models are shown; epidemia plot draws all."
    assert figures.first(rows[:24], "Means.") == (rows[:24], "Means.")


def test_what_a_cell_is_sorted_by(site, visit):
    tab = visit(site, "index.html")
    numbers = {"100.0 ± 0.3": 100, "7.6B": 7.6e9, "148K": 148e3, "1,234": 1234, "-3.5": -3.5}
    numbers |= {"+6.8 ± 1.2": 6.8, "2e-3": 2e-3, "<span>3.1</span><br>rank 2": 3.1, "2-4": 2}
    for cell, number in {**numbers, "": None, "better": None}.items():
        assert tab.evaluate("epidemia.number", cell) == number, cell
