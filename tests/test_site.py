"""The site, from the file system: its files, and its pages in a real browser (Debian's Chromium).

Its input are real runs of lm-eval: respondents, a tiny transformer, tuned models, published
scores; names of a model and labels of a survey are markup.
"""

import json
import re
import shutil
from html import unescape
from types import SimpleNamespace
from urllib.parse import unquote, urlencode

import numpy as np
import pandas as pd
import pytest
from conftest import REPOSITORY, recorded
from recorded_runs import copied_run
from report_parts import rewritten, write
from test_finetune_report import BASE, card, put, renamed
from test_finetune_report import TASKS as TUNED_TASKS
from test_huggingface import samples_in

from lm_eval_epidemia.benchmarks.prior.quantities import store as quantities
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.cli.report import read
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.elicit.responses import softmax
from lm_eval_epidemia.estimate import build, store
from lm_eval_epidemia.findings import FINDINGS, find
from lm_eval_epidemia.report import charts
from lm_eval_epidemia.report import site as building
from lm_eval_epidemia.report.cards import card as card_of
from lm_eval_epidemia.report.figures import CHARTS, save
from lm_eval_epidemia.report.site import build_site, tasks
from lm_eval_epidemia.surveys.catalogue import all_tasks, record, records
from lm_eval_epidemia.surveys.draft.drafting import draft
from lm_eval_epidemia.surveys.draft.drafting import write as write_record

pytest.importorskip("torch")
pyreadstat = pytest.importorskip("pyreadstat")

COCAINE = "epidemia_low_nsduh_cocaine_ever_by_age"
AGE_SEX = "epidemia_high_nsduh_cocaine_ever_by_age_sex"
WORLD = "epidemia_world_factbook_"
INTERNET, TOBACCO = f"{WORLD}internet_by_country", f"{WORLD}tobacco_by_country_sex"
NHANES = "epidemia_prior_nhanes"
EVIL = "epidemia_extra_evil2020_q_by_sex"
SURVEYS = [COCAINE, AGE_SEX, "epidemia_low_bls_sex_by_occupation", f"{COCAINE}_likelihood"]

#: What is asked of whom, by folder.
ASKED = {
    "truth": ([*SURVEYS, NHANES, f"{COCAINE}_stated"], "kind=truth"),
    "mean": (SURVEYS, "kind=mean"),
    "noisy": (
        [
            *(INTERNET, TOBACCO, f"{AGE_SEX}_closed", f"{AGE_SEX}_likelihood", "epidemia_people"),
            *("epidemia_years_gsstrend_women_at_home_by_year", "epidemia_intervention_large_03"),
            *("epidemia_intervention_large_06", *SURVEYS),
        ],
        "kind=noisy,noise=0.3",
    ),
    "stating": ([NHANES, f"{NHANES}_grid"], "kind=calibrated,noise=1"),
    "retrieval": (["epidemia_intervention"], "kind=retrieval"),
    "target": (["epidemia_intervention"], "kind=target"),
}
HOSTILE = (
    "<script>window.hacked=1</script>\"'><img src=x onerror=window.hacked=1>&amp;😀" + "y" * 300
)
NAME = HOSTILE.replace("/", "|")
MARKUP = "[a](javascript:window.hacked=1) **b** `c` | d <!-- e --> \\f ${g} {{h}}"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The home of this file, which knows a survey whose every label is markup."""
    folder = tmp_path_factory.mktemp("place")
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"sex": rng.integers(1, 3, 300), "q": rng.integers(1, 4, 300)})
    path = folder / "evil2020.sav"
    bad = {1: HOSTILE[:100], 2: MARKUP}
    labels = {"sex": bad, "q": {**bad, 3: "</script><svg onload=window.hacked=1>"}}
    about = {"file_label": HOSTILE[:60], "column_labels": {"q": f"{MARKUP} {HOSTILE}"}}
    pyreadstat.write_sav(frame.astype(float), str(path), variable_value_labels=labels, **about)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EPIDEMIA_HOME", str(folder))
        write_record(draft([path]))
        build.build("evil2020", path, replicates=4, progress=False)
    return folder


@pytest.fixture(autouse=True)
def home(place, monkeypatch):
    monkeypatch.setenv("EPIDEMIA_HOME", str(place))


def other_tasks_alone(results):
    results["results"] = {"mmlu": {"acc,none": 0.65}}
    results["config"]["model_args"] = {"pretrained": "x/asked-nothing"}


@pytest.fixture(scope="module")
def made(place, tiny_llama, tmp_path_factory):
    """The folder of runs, their results, and the site."""
    folder = tmp_path_factory.mktemp("site")
    runs = folder / "runs"
    for name, (asked, arguments) in ASKED.items():
        copied_run(tmp_path_factory, runs / name, asked, model_args=arguments)
    # Who is tuned is told by a card, whose every text is markup.
    for name, rows, more in (("1.5", 0, {}), ("0.6", 100, {}), ("0.2", 1000, {})):
        arguments = f"kind=noisy,noise={name},seed=3"
        source = copied_run(tmp_path_factory, folder / name, TUNED_TASKS, model_args=arguments)
        if rows:
            more = {"peft": put(folder / f"answers-{rows}", card(rows=rows, writer=HOSTILE))}
        renamed(source, runs / f"tuned-{name}", pretrained=BASE, **more)
    renamed(folder / "0.6", runs / "version", pretrained=f"{BASE}-it")
    rewritten(runs / "mean", runs / "other", other_tasks_alone)
    arguments = f"pretrained={tiny_llama},dtype=float32"
    how = {"model": "choice-hf", "device": "cpu", "batch_size": 16}
    copied_run(tmp_path_factory, runs / "tiny", [COCAINE, AGE_SEX], model_args=arguments, **how)
    (path,) = (runs / "tiny").rglob("results_*.json")
    results = json.loads(path.read_text())
    results["config"]["model_args"] = {"pretrained": NAME}
    results["results"][HOSTILE] = {"acc,none": 0.5}
    results["system_instruction_sha"] = "</script><script>window.hacked=1</script>"
    results["system_instruction"] = "x"
    path.write_text(json.dumps(results))
    broken = runs / NAME[:60] / "results_broken.json"
    broken.parent.mkdir()
    broken.write_text("{")
    # One reply that cannot be read.
    (path,) = (runs / "truth").rglob("samples_*_stated_*.jsonl")
    lines = path.read_text().splitlines()
    spoilt = json.loads(lines[3])
    spoilt["resps"], spoilt["filtered_resps"] = [["I cannot say."]], ["I cannot say."]
    path.write_text("\n".join([*lines[:3], json.dumps(spoilt), *lines[4:]]) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EPIDEMIA_HOME", str(place))
        recorded(runs / "evil", [EVIL], model_args="kind=mean")
        results = read([runs], published=True)
        build_site(results, folder / "out")
    (hostile,) = (
        name
        for name, of in zip(results.runs["name"], results.runs["weights"], strict=True)
        if of.model == NAME
    )
    return SimpleNamespace(runs=runs, results=results, site=folder / "out", hostile=hostile)


def text_of(html):
    return " ".join(unescape(re.sub("<[^>]*>", "", html)).split())


def rows_of(page, table):
    """The cells of each row of a table of a page, as texts."""
    body = re.search(rf"{table}.*?<tbody>(.*?)</tbody>", page.read_text(), re.DOTALL)[1]
    rows = [re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL) for row in body.split("</tr>")]
    return [list(map(text_of, row)) for row in rows if row]


# Its files.


def test_every_page_is_written_and_links_within_the_folder(made):
    """Nothing is linked or read that is not there; what is elsewhere is only linked."""
    pages = {path.name: path.read_text() for path in made.site.glob("*.html")}
    expected = {page for page, _ in building.PAGES} | {f"survey-{name}.html" for name in records()}
    expected |= {"task.html", "surveys.html", "hierarchy.html", "replies.html"}
    with_rows = [name for name in FINDINGS if len(find(name)(made.results).table)]
    expected |= {f"finding-{n}.html" for n in with_rows if n not in building.NO_PAGE}
    models = made.results.runs["model"].nunique()
    assert expected <= {*pages} and len(pages) == len(expected) + models
    for name, page in pages.items():
        for attribute, to in re.findall(r'\b(href|src)="([^"]*)"', page):
            file, _, place = unquote(unescape(to)).partition("#")
            if ":" in file:
                assert attribute == "href" and file.startswith("https://"), (name, to)
            else:
                assert not file or (made.site / file).is_file(), (name, to)
                if place and "=" not in place:
                    assert f'id="{place}"' in pages[file or name], (name, to)
        assert len(ids := re.findall(r'\bid="([^"]+)"', page)) == len({*ids}), name
    files = {path.stem for path in (made.site / "data").iterdir()}
    for page in ("task.html", "quantities.html", "replies.html"):
        (index,) = re.findall(r'id="index">(.*?)</script>', pages[page])
        of = json.loads(index)
        here = {of[key][name] for key in ("tasks", "sets", "replies") for name in of.get(key, ())}
        assert here and here <= files
        files -= here
    assert not files
    # What was not asked is there too, and opens where the truth is.
    explorer = pages["explorer.html"]
    assert all(f'data-task="{name}"' in explorer for name in all_tasks())
    assert "needs " in explorer and (made.site / f"data/{EVIL}.js").is_file()


def test_the_same_results_make_the_same_bytes_and_only_what_is_ours_is_replaced(
    made, tmp_path, monkeypatch
):
    cards = {survey.title: "# A card" for survey in records().values()}
    monkeypatch.setattr(tasks, "_listed", lambda asked: [])
    monkeypatch.setattr(building, "card", lambda survey: cards[survey.title])
    results, out = read([made.runs / "mean"]), tmp_path / "site"

    def contents():
        return {p.relative_to(out): p.read_bytes() for p in out.rglob("*") if p.is_file()}

    build_site(results, out)
    first = contents()
    (out / "CNAME").write_text("mine")
    (out / "index.html").write_text("ours, of another report")
    build_site(results, out)
    assert (out / "CNAME").read_text() == "mine"
    (out / "CNAME").unlink()
    assert contents() == first
    # Without questions about countries there is no byte of a map.
    assert not {path.name for path in first} & {"map.js", "map.css", "world.js"}
    assert b"geoshape" not in (out / "task.html").read_bytes()
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("mine")
    with pytest.raises(EpidemiaError, match="holds other files"):
        build_site(results, other)
    with pytest.raises(EpidemiaError, match="is a file"):
        build_site(results, other / "thesis.tex")
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


@pytest.mark.parametrize("name", CHARTS)
def test_a_figure_is_drawn_from_the_rows_of_its_finding(made, name, tmp_path):
    of_task = {"map": TOBACCO}.get(name, COCAINE) if CHARTS[name].task else None
    text = save(name, lambda: made.results, tmp_path / "f.svg", of_task).read_text()
    assert text.startswith("<svg") and "NaN" not in text and "undefined" not in text
    drawn = re.findall(r'<path [^>]*(?:fill|stroke)="#', text)
    assert len(drawn) >= 2
    page = made.site / f"finding-{CHARTS[name].finding}.html"
    assert not page.is_file() or "<figure>" in page.read_text()


def test_results_without_scores_of_surveys_have_a_site_too(tmp_path):
    graphs = REPOSITORY / "docs/results/interventions"
    write(tmp_path / "others", {"mmlu": {"acc,none": 0.65}})
    for folder in (graphs, tmp_path / "others"):
        page = build_site(read([folder]), tmp_path / "site").parent / "method.html"
        assert page.is_file()


def test_a_card_holds_any_label():
    text = card_of(record("evil2020"))
    assert "not stated)" not in text and "<not stated>" not in text  # no links to nowhere
    assert "2 tasks, which `epidemia groundtruth build evil2020" in text and "wait for" not in text
    rows = [line for line in text.splitlines() if line.startswith(("| sex", "| q"))]
    assert len(rows) == 2
    for row in rows:
        assert row.replace("\\\\", "").replace("\\|", "").count("|") == 6  # of five cells


def test_the_method_page_tells_association_from_confounding(made):
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
    rows = rows_of(made.site / "method.html", 'id="confounding"')
    for row, (white, hispanic) in ((rows[0], overall), (rows[-1], alike)):
        shares = [f"{100 * share:.1f} %" for share in (white, hispanic)]
        assert row[1:4] == [*shares, f"{100 * (white - hispanic):+.1f}"]
    assert [row[0] for row in rows[1:-1]] == list(everybody)
    # The example is one: what is left is small beside what there was.
    assert overall[0] - overall[1] > 0.05 > 5 * abs(alike[0] - alike[1])


def test_the_three_layers_have_the_numbers_of_the_docs(made):
    page = made.site / "hierarchy.html"
    # 0.9 * 0.875 + 0.1 * 0.125 = 0.8, see docs/background/hierarchy.md.
    rows = {row[0]: row[1:] for row in rows_of(page, 'id="effects"')}
    assert rows["seen, in both"] == ["0.20", "0.80"] == rows["chain, under do(X)"]
    assert rows["fork, under do(X)"] == ["0.50", "0.50"]
    # (400 * .55 + 100 * .90) / 500, (100 * .40 + 400 * .80) / 500; means of .55, .90 and .40, .80.
    rows = {row[0]: row[1:] for row in rows_of(page, 'id="tutoring"')}
    assert rows["layer 1: seen"] == ["62.0", "72.0"]
    assert rows["layer 2: if everybody were, if nobody were"] == ["72.5", "60.0"]
    assert "72.7 % of such pupils" in page.read_text()


def test_every_effect_of_an_intervention_has_prompts_and_answers_beside_what_is_right(made):
    """Retrieval says yes again where V is no longer reached; so does target, but for do(V)."""
    page = made.site / "interventions.html"
    assert len(re.findall('<article class="effect"', page.read_text())) == 22 + 10
    one = re.search(
        '<article class="effect" id="mediation-AC-do-B">.*?</article>', page.read_text(), re.S
    )[0]
    assert "yes before, no after: kappa = 1" in one
    assert text_of(one).count("(deleted: A → B)") == 1
    # The prompts are those that lm-eval asks.
    asked = split("epidemia_intervention_random", "intervention")
    here = {"graph: mediation", "sample: 1", "does A cause C"}
    expected = {row["prompt"] for row in asked if {*row["given"]} - {"do(B)"} == here}
    shown = list(map(unescape, re.findall("<pre>(.*?)</pre>", one, re.DOTALL)))
    assert len(shown) == 9 and len(expected) == 2 and expected == {*shown[:2]}

    def cells(effect):
        return {row[0]: row[2:5] for row in rows_of(page, f'id="{effect}"')}

    inside, target = cells("mediation-AC-do-B"), cells("mediation-AC-do-C")
    assert inside["right answer"] == target["right answer"] == ["yes", "no", ""]
    for rows, kind, cell in (
        (inside, "retrieval", ["100 % ✓", "100 %", "0.00"]),
        (inside, "target", ["100 % ✓", "100 %", "0.00"]),
        (target, "retrieval", ["100 % ✓", "100 %", "0.00"]),
        (target, "target", ["100 % ✓", "0 % ✓", "1.00"]),
    ):
        assert rows[f"epidemia-baseline kind={kind}"] == cell


def luminance(colour):
    """Relative luminance of an sRGB colour, WCAG 2.2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_every_colour_is_seen_on_a_light_page_and_on_a_dark_one(made):
    """At 3:1 (WCAG 1.4.11): the palette of figures on both, the sheet's colours each on its own."""
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    sheet = (made.site / "assets" / "site.css").read_text()
    pairs = dict(re.findall(r"--(\w+): light-dark\((#\w{6}, #\w{6})\)", sheet))
    pages = pairs["page"].split(", ")
    for colour in charts.COLOURS:
        assert min(contrast(colour, page) for page in pages) >= 3, colour
    for name in ("text", "quiet", "edge", "link"):
        for colour, page in zip(pairs[name].split(", "), pages, strict=True):
            assert contrast(colour, page) >= 3, name


# In a browser: five tests, and no more.


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("needs Chromium (Debian: apt-get install chromium)")
    flags = "no-sandbox disable-gpu disable-background-networking disable-component-update"
    flags = [f"--{flag}" for flag in f"{flags} disable-sync no-first-run".split()]
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=chromium, args=flags)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser, made):
    """Open pages; at the end, nothing was complained of and no host was asked for anything."""
    contexts, complaints, requests = [], [], []

    def heard(message):
        if message.type in ("error", "warning"):
            complaints.append(f"{message.type}: {message.text}")

    def go(page, width=1280, **more):
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, **more))
        tab = contexts[-1].new_page()
        tab.set_default_timeout(60_000)
        tab.on("console", heard)
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto(f"file://{made.site}/{page}")
        if tab.locator("table[data-sortable]").count():
            tab.wait_for_selector("html[data-ready=yes]")
        return tab

    yield go
    for context in contexts:
        context.close()
    assert complaints == []
    assert {url.split(":")[0] for url in requests} <= {"file", "blob", "data"}


def rows_by_name(tab, table):
    """The cells of each row of a table, by the first of them, in one line."""
    rows = (row.split("\t") for row in tab.locator(f"{table} tbody tr").all_inner_texts())
    return {" ".join(row[0].split()): row for row in rows}


def first_number(text):
    """The number that a cell begins with; -1e9 where it is blank."""
    return float((re.match(r"[\d.]+", text) or ["-1e9"])[0])


def test_the_first_page_has_the_numbers_of_the_result_files_sorts_and_has_a_theme(made, visit):
    tab = visit("index.html", color_scheme="dark")
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    tab.locator("#theme").click()
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    tables = tab.locator("table[data-sortable]")
    heads = [" ".join(h.split()) for h in tables.last.locator("thead th").all_inner_texts()]
    assert heads[:2] == ["model", "settings"]
    (path,) = (made.runs / "mean").rglob("results_*.json")
    written = json.loads(path.read_text())
    score, error = (written["results"][AGE_SEX][f"score{of},none"] for of in ("", "_stderr"))
    (row,) = tables.last.locator("tbody tr", has_text="kind=mean").all_inner_texts()
    assert f"{score:.1f} ± {error:.1f}" in row
    assert "LLama3 70B" in tables.last.inner_text()
    # Sorted by a number, blanks last either way; then filtered.
    number = heads.index(next(head for head in heads if "epidemia_high" in head)) + 1
    for _ in range(2):
        tables.last.locator(f"thead th:nth-child({number})").click()
        tables.last.locator(f"thead th:nth-child({number})[aria-sort]").wait_for()
        cells = tables.last.locator(f"tbody td:nth-child({number})").all_inner_texts()
        shown = list(map(first_number, cells))
        known = [value for value in shown if value > -1e9]
        assert known in (sorted(known), sorted(known, reverse=True)) and len({*known}) > 2
        assert shown[: len(known)] == known
    tab.locator("input[type=search]").last.fill("kind=mean")
    assert tables.last.locator("tbody tr").count() == 1
    numbers = {"100.0 ± 0.3": 100, "7.6B": 7.6e9, "148K": 148e3, "1,234": 1234, "-3.5": -3.5}
    numbers |= {"+6.8 ± 1.2": 6.8, "2e-3": 2e-3, "<span>3.1</span><br>rank 2": 3.1, "2-4": 2}
    for cell, value in {**numbers, "": None, "better": None}.items():
        assert tab.evaluate("epidemia.number", cell) == value, cell


def test_a_task_opens_from_the_list_and_shows_truth_and_answers(made, visit):
    """The page's numbers against the ground truth, and against the samples, averaged anew."""
    tab = visit("explorer.html")
    every = tab.locator("#tasks tbody tr").count()
    tab.select_option("#filter-survey", "nsduh")
    tab.select_option("#filter-state", "asked")
    tab.select_option("#filter-way", "letters")
    shown = tab.locator("#tasks tbody tr").count()
    assert tab.locator("#shown").inner_text() == f"{shown} of {every} tasks" and 4 < shown < 9
    tab.select_option("#one", made.hostile)
    assert made.hostile in tab.locator("#tasks thead th").last.inner_text()
    (path,) = (made.runs / "tiny").rglob("results_*.json")
    expected = json.loads(path.read_text())["results"][COCAINE]
    row = tab.locator(f"#tasks tr[data-task={COCAINE}]")
    assert row.locator("td").last.inner_text() == f"{expected['score,none']:.1f}"
    row.locator("a").focus()
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#answers")
    assert tab.evaluate("document.activeElement.id") == "open"
    tab = visit(f"task.html#{urlencode({'task': COCAINE, 'model': made.hostile})}")
    tab.wait_for_selector("#answers")
    facts = tab.locator("#facts").text_content()
    for said in (
        f"{expected['score,none']:.1f} ± {expected['score_stderr,none']:.1f}",
        *(f"{expected[of]:.{d}f}" for of, d in (("l1,none", 4), ("choice_mass,none", 3))),
    ):
        assert said in facts
    truth, samples = store.load(COCAINE), samples_in(made.runs / "tiny", COCAINE)
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
        q, answers = np.mean(orders, axis=0), rows_by_name(tab, "#answers")
        for at, level in enumerate(truth.levels):
            assert answers[level][1] == f"{100 * round(truth.p[cell, at], 5):.1f} %"
            assert answers[level][3] == f"{100 * round(q[at], 3):.1f} %"
            assert re.fullmatch(r"[\d.]+ % to [\d.]+ %", answers[level][2])
        assert f"{truth.n[cell]:,} sampled units" in tab.locator("#panel").inner_text()
    assert "survey from" in tab.locator("#over svg.marks").get_attribute("aria-label")
    # Every model, the best first; an address opens what it names.
    assert tab.locator("#scores tbody tr").first.inner_text().startswith("knows the truth")
    tab.locator("#next").click()
    changed = "name => document.getElementById('model').value !== name"
    tab.wait_for_function(changed, arg=made.hostile)
    again = visit(f"task.html{tab.evaluate('location.hash')}")
    again.wait_for_selector("#answers")
    assert again.locator("#model").input_value() == tab.locator("#model").input_value()
    assert again.locator("#condition-0").input_value() == "65 or older"
    # Two conditions: the survey against the answer on one scale, so the plot is square.
    tab = visit(f"task.html#task={AGE_SEX}&cell=0")
    tab.wait_for_selector("#over svg")
    plot = tab.locator("#over svg .background").first.bounding_box()
    assert plot["width"] == pytest.approx(plot["height"], abs=2)
    tab = visit("task.html#task=epidemia_low_bls_sex_by_occupation")
    tab.wait_for_selector("#answers")
    assert "exact" in tab.locator("#answers").inner_text()
    tab.select_option("#model", "Phi4 (published)")
    tab.wait_for_selector("text=Only the score was published")
    tab = visit("task.html#task=no_such_task")
    tab.wait_for_selector("text=There is no task no_such_task")


def test_a_map_shows_truth_answer_and_error(visit):
    tab = visit(f"task.html#task={INTERNET}")
    tab.wait_for_selector("#map svg")
    assert "minus truth" in tab.locator("#map svg").get_attribute("aria-label")
    share = 100 * store.load(INTERNET).p[:, 0]
    singapore = share[[given[0] for given in store.load(INTERNET).given].index("Singapore")]
    assert f"Singapore (truth {singapore:.1f} %" in tab.locator("#on-map figcaption").inner_text()
    tab.select_option("#map-view", "truth")
    tab.wait_for_selector("#map svg[aria-label*='the truth']")
    label = tab.locator("#map svg").get_attribute("aria-label")
    assert f"from {share.min():.1f} % to {share.max():.1f} % in {len(share)} countries" in label
    filled = "all => all.map((p) => p.attributes.fill?.value)"
    assert {*tab.eval_on_selector_all("#map svg path", filled)} >= {*charts.SHADES}
    # A second condition is chosen beside it.
    tab, truth = visit(f"task.html#task={TOBACCO}&view=truth", 390), store.load(TOBACCO)
    for sex in ("Female", "Male"):
        tab.select_option("#map-1", sex)
        share = [100 * p[0] for p, given in zip(truth.p, truth.given, strict=True) if sex in given]
        says = f"from {min(share):.1f} % to {max(share):.1f} % in {len(share)} countries"
        tab.wait_for_selector(f"#map svg[aria-label*='{says}']")


def test_a_quantity_shows_priors_truth_and_real_answers(visit):
    truth = quantities.load(NHANES)
    (one,) = (q for q in truth.quantities if q.name == "easy_16")
    tab = visit(f"quantities.html#set={NHANES}&quantity=easy_16")
    tab.wait_for_selector("#stated svg")
    assert tab.locator("#quantities tbody a").count() >= len(truth.quantities) == 74
    assert tab.locator("#wording").inner_text().lower() == f"{one.wording}.".lower()
    assert any(one.wording in row["prompt"] for row in split(NHANES, "direct"))
    facts = tab.locator("#facts").inner_text()
    assert all(
        said in facts for said in ("0.926 ± 0.025", f"{one.n:,}", "Error of 30 real answers")
    )
    rows = rows_by_name(tab, "#priors")
    exact = rows["knows the truth (kind=truth)"]
    assert "gpt-4o (published)" in rows
    assert exact[1].count("beta ") == 5 and exact[2] == f"{one.mean:.3f}"
    assert exact[4] == "0.00" and exact[5] == "5, 10, 20, 30"
    assert rows["epidemia-baseline kind=calibrated,noise=1, grid"][1] == "41 numbers scored"
    assert "30 real answers" in tab.locator("#stated svg.marks").text_content()
    tab.locator("#quantity").select_option("hard_3")
    tab.wait_for_function("document.querySelector('#panel .quiet').textContent.includes('hard_3')")
    for address in ("set=nowhere", f"set={NHANES}&quantity=%3Cimg%3E"):
        tab = visit(f"quantities.html#{address}")
        tab.wait_for_selector("#panel p")
        assert "There is no" in tab.locator("#panel").inner_text()


def test_no_text_of_a_file_is_a_script_and_every_page_is_fit_for_all(made, visit):
    """Without their content security policy, scripts in pages would run; axe-core, on a phone."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    # What it would preload are sheets, which the pages' security policy lets nobody fetch.
    options = {"preload": False, "resultTypes": ["violations"]}
    (model,) = (path.name for path in made.site.glob("model-script*"))
    ways = [f"finding-{name}.html" for name in ("trained", "tuning", "calibration")]
    pages = ["index", "explorer", "findings", "method", "replies", "surveys", "survey-evil2020"]
    pages = [*(f"{page}.html" for page in pages), *ways, model, "hierarchy.html"]
    pages += [f"task.html#{urlencode({'task': COCAINE, 'model': made.hostile})}"]
    pages += [f"task.html#task={EVIL}&cell=0", f"quantities.html#set={NHANES}&quantity=hard_3"]
    for page in pages:
        tab = visit(page, bypass_csp=True, color_scheme="dark")
        tab.wait_for_load_state("networkidle")
        if "#" in page:
            tab.wait_for_selector("#panel svg")
        assert tab.evaluate("window.hacked") is None, page
        assert tab.locator("main img, main script:not([type='application/json'])").count() == 0
        assert tab.locator("a[href^=javascript]").count() == 0
        found = axe.run(tab, options=options).response["violations"]
        serious = [
            (rule["id"], rule["nodes"][0]["html"][:200])
            for rule in found
            if rule["impact"] in ("serious", "critical")
        ]
        assert serious == [], page
        tab.set_viewport_size({"width": 390, "height": 900})
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390, page
        body = tab.locator("body").inner_text()
        if EVIL in page or "evil2020" in page:
            assert HOSTILE[:25] in body and "[a](javascript:window.hacked=1) **b** `c` | d" in body
        if page in ("index.html", model, "explorer.html"):
            assert NAME[:60] in (
                body if page == model else tab.content() and text_of(tab.content())
            )
        if page == "replies.html":
            first = tab.locator("#replies article").first
            assert "Not read" in first.inner_text() and "I cannot say." in first.inner_text()
    notes = visit("index.html").locator(".notes").text_content()
    assert "is not a result file" in notes
