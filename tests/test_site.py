"""The site, from the file system: its files, and its pages in a real browser (Debian's Chromium).

Its input are real runs of lm-eval: respondents, a tiny transformer, tuned models, published
scores; names of a model and labels of a survey are markup.
"""

import json
import re
import shutil
from html import escape, unescape
from itertools import product
from types import SimpleNamespace
from urllib.parse import unquote, urlencode

import numpy as np
import pandas as pd
import pytest
from conftest import recorded
from recorded_runs import copied_run
from report_parts import rewritten, write
from test_finetune_report import BASE, card, put, renamed

from lm_eval_epidemia.ask.prompts import Wording
from lm_eval_epidemia.ask.responses import softmax
from lm_eval_epidemia.benchmarks import list_leaves
from lm_eval_epidemia.benchmarks.prior.quantities import store as quantities
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.cli.report import read_runs
from lm_eval_epidemia.estimate import build, store
from lm_eval_epidemia.findings import FINDINGS, find
from lm_eval_epidemia.findings.cells import collect_answers
from lm_eval_epidemia.findings.finding import Column, Finding
from lm_eval_epidemia.findings.start import make_start
from lm_eval_epidemia.findings.words import describe_outcome, describe_question
from lm_eval_epidemia.report import charts
from lm_eval_epidemia.report import site as building
from lm_eval_epidemia.report.cards import render_card as card_of
from lm_eval_epidemia.report.figures import CHARTS, save
from lm_eval_epidemia.report.site import build_site, models, tasks
from lm_eval_epidemia.results.choose import keep_runs
from lm_eval_epidemia.results.decode import LeafKey
from lm_eval_epidemia.results.samples import TaskAnswers
from lm_eval_epidemia.score.estimates import interval
from lm_eval_epidemia.surveys.catalogue import all_tasks, find_record, records
from lm_eval_epidemia.surveys.draft.drafting import draft_record
from lm_eval_epidemia.surveys.draft.drafting import write_draft as write_record

pytest.importorskip("torch")
pyreadstat = pytest.importorskip("pyreadstat")

COCAINE = "epidemia_low_nsduh_cocaine_ever_by_age"
AGE_SEX = "epidemia_high_nsduh_cocaine_ever_by_age_sex"
INTERNET, TOBACCO = (
    f"epidemia_world_factbook_{of}" for of in ("internet_by_country", "tobacco_by_country_sex")
)
NHANES = "epidemia_prior_nhanes"
EVIL = "epidemia_extra_evil2020_q_by_sex"
SURVEYS = [COCAINE, AGE_SEX, "epidemia_low_bls_sex_by_occupation", f"{COCAINE}_likelihood"]

#: What is asked of whom, by folder.
MANY = f"""
{INTERNET} {TOBACCO} {AGE_SEX}_closed {AGE_SEX}_likelihood epidemia_people
epidemia_years_gsstrend_women_at_home_by_year epidemia_intervention_large_03
epidemia_intervention_large_06
"""
ASKED = {
    "truth": ([*SURVEYS, NHANES, f"{COCAINE}_stated"], "truth"),
    "mean": ([*SURVEYS, "epidemia_low_nsduh_cocaine_ever_by_race"], "mean"),
    "noisy": ([*MANY.split(), *SURVEYS], "noisy,noise=0.3"),
    "stating": ([NHANES, f"{NHANES}_grid"], "calibrated,noise=1"),
    **{kind: (["epidemia_intervention"], kind) for kind in ("retrieval", "target")},
}
#: Published models that have pages here: all would draw as many figures again.
PUBLISHED = ["LLama3 70B", "Phi4", "GPT-4", "gpt-4o"]
HOSTILE = (
    "<script>window.hacked=1</script>\"'><img src=x onerror=window.hacked=1>&amp;😀" + 300 * "y"
)
NAME = HOSTILE.replace("/", "|")
MARKUP = "[a](javascript:window.hacked=1) **b** `c` | d <!-- e --> \\f ${g} {{h}}"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The home of this file, which knows a survey whose every label is markup."""
    folder = tmp_path_factory.mktemp("place")
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"sex": rng.integers(1, 3, 300), "q": rng.integers(1, 4, 300)})
    path, bad = folder / "evil2020.sav", {1: HOSTILE[:100], 2: MARKUP}
    labels = {"sex": bad, "q": {**bad, 3: "</script><svg onload=window.hacked=1>"}}
    about = {"file_label": HOSTILE[:60], "column_labels": {"q": f"{MARKUP} {HOSTILE}"}}
    pyreadstat.write_sav(frame.astype(float), str(path), variable_value_labels=labels, **about)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EPIDEMIA_HOME", str(folder))
        write_record(draft_record([path]))
        build.build_survey("evil2020", path, replicates=4, progress=False)
        yield folder


@pytest.fixture(autouse=True)
def home(place, monkeypatch):
    monkeypatch.setenv("EPIDEMIA_HOME", str(place))


def hostile(results):
    results["config"]["model_args"] = {"pretrained": NAME}
    results["results"][HOSTILE] = {"acc,none": 0.5}
    results["system_instruction_sha"] = "</script><script>window.hacked=1</script>"
    results["system_instruction"] = "x"


@pytest.fixture(scope="module")
def made(place, tiny_llama, tmp_path_factory):
    """The folder of runs, their results, and the site."""
    folder = tmp_path_factory.mktemp("site")
    runs = folder / "runs"
    for name, (asked, kind) in ASKED.items():
        copied_run(tmp_path_factory, runs / name, asked, model_args=f"kind={kind}")
    how = {"model": "choice-hf", "device": "cpu", "batch_size": 16}
    how["model_args"] = f"pretrained={tiny_llama},dtype=float32"
    tiny = copied_run(tmp_path_factory, runs / "tiny", [COCAINE, AGE_SEX], **how)
    (path,) = tiny.rglob("results_*.json")
    rewritten(tiny, folder / "changed", hostile).rename(path)
    # Who is tuned is told by a card, whose every text is markup.
    renamed(runs / "mean", runs / "base", pretrained=BASE)
    renamed(runs / "noisy", runs / "version", pretrained=f"{BASE}-it")
    for rows in (100, 1000):
        peft = put(folder / f"answers-{rows}", card(rows=rows, writer=HOSTILE))
        renamed(runs / "truth", runs / f"tuned-{rows}", pretrained=BASE, peft=peft)
    broken = runs / NAME[:60] / "results_broken.json"
    broken.parent.mkdir()
    broken.write_text("{")
    # One reply that cannot be read.
    (path,) = (runs / "truth").rglob("samples_*_stated_*.jsonl")
    first, *lines = path.read_text().splitlines()
    reply = ["I cannot say."]
    first = json.dumps({**json.loads(first), "resps": [reply], "filtered_resps": reply})
    path.write_text("\n".join([first, *lines]))
    recorded(runs / "evil", [EVIL], model_args="kind=mean")
    every = read_runs([runs], published=True)
    kept = (every.runs["kind"] != "published") | every.runs["model"].isin(PUBLISHED)
    results = keep_runs(every, every.runs.index[kept])
    build_site(results, folder / "out")
    names, weights = results.runs["name"], results.runs["weights"]
    (name,) = (name for name, of in zip(names, weights, strict=True) if of.model == NAME)

    def score(run, task):
        """What a result file says of a task: the score as pages have it, and all."""
        (path,) = (runs / run).rglob("results_*.json")
        of = json.loads(path.read_text())["results"][task]
        return f"{of['score,none']:.1f} ± {of['score_stderr,none']:.1f}", of

    of = {"runs": runs, "results": results, "hostile": name, "score": score}
    return SimpleNamespace(**of, site=folder / "out")


def text_of(html):
    return " ".join(unescape(re.sub("<[^>]*>", "", html)).split())


def rows_of(page, table):
    """The cells of each row of a table of a page, as texts, by the first of them."""
    body = re.search(rf"{table}.*?<tbody>(.*?)</tbody>", page.read_text(), re.DOTALL)[1]
    rows = [re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL) for row in body.split("</tr>")]
    return {text_of(first): list(map(text_of, row)) for first, *row in filter(None, rows)}


# Its files.


def test_every_page_is_written_and_links_within_the_folder(made):
    """Nothing is linked or read that is not there; what is elsewhere is only linked."""
    pages = {path.name: path.read_text() for path in made.site.glob("*.html")}
    expected = {*building.PAGES["menu"]} | {f"survey-{name}.html" for name in records()}
    expected |= {"task.html"} | {page for page, *_ in building.PAGES["beside"].values()}
    shown = FINDINGS.keys() - {*building.PAGES["no_page"]}
    expected |= {f"finding-{of}.html" for of in shown if len(find(of)(made.results).table)}
    models = made.results.runs["model"].nunique()
    assert expected <= {*pages} and len(pages) == len(expected) + models
    for name, page in pages.items():
        for attribute, to in re.findall(r'\b(href|src)="([^"]*)"', page):
            file, _, place = unquote(unescape(to)).partition("#")
            if ":" in file:
                assert attribute == "href" and file.startswith("https://"), (name, to)
            else:
                assert (made.site / (file or name)).is_file(), (name, to)
                known = not place or "=" in place or f'id="{place}"' in pages[file or name]
                assert known, (name, to)
        assert len(ids := re.findall(r'\bid="([^"]+)"', page)) == len({*ids}), name
    files = {path.stem for path in (made.site / "data").iterdir()} - {"scores"}
    for page in ("task.html", "quantities.html", "replies.html"):
        of = json.loads(re.search(r'id="index">(.*?)</script>', pages[page])[1])
        here = {name for key in ("tasks", "sets", "replies") for name in of.get(key, {}).values()}
        assert here and here <= files
        files -= here
    assert not files
    # What was not asked is there too, and opens where the truth is.
    explorer = pages["explorer.html"]
    assert all(f'data-task="{name}"' in explorer for name in all_tasks())
    assert "needs " in explorer and (made.site / f"data/{EVIL}.js").is_file()


def test_every_figure_is_drawn_from_the_rows_of_its_finding(made, tmp_path):
    """On the page of the finding, or into a file."""
    for name, chart in CHARTS.items():
        page = made.site / f"finding-{chart.finding}.html"
        page = page if page.is_file() else made.site / "index.html"
        says = re.escape(escape(chart.says))
        drawn = rf"<figure><div[^>]*>(<svg.*?</svg>)</div><figcaption>{says}"
        if chart.task or not (found := re.findall(drawn, page.read_text(), re.DOTALL)):
            task = {"map": TOBACCO}.get(name, COCAINE) if chart.task else None
            found = [save(name, lambda: made.results, tmp_path / "f.svg", task).read_text()]
        # Marks have a place or a course; a group without rows has neither.
        marks = re.findall(r'role-mark[^>]*><(?:path|line)[^>]* (?:d|transform)="M?', found[0])
        assert marks and "NaN" not in found[0] and "undefined" not in found[0], name


def test_the_same_results_make_the_same_bytes_also_without_surveys(made, tmp_path, monkeypatch):
    monkeypatch.setattr(building, "render_card", lambda survey: "# A card")
    write(runs := tmp_path / "runs", {"mmlu": {"acc,none": 0.65}})
    build_site(read_runs([runs]), out := tmp_path / "site")
    (out / "CNAME").write_text("mine")
    results, sites = read_runs([made.runs / "target"]), []
    for _ in range(2):
        build_site(results, out)
        sites.append({path: path.read_bytes() for path in out.rglob("*") if path.is_file()})
    assert sites[0] == sites[1] and sites[0][out / "CNAME"] == b"mine"
    # Without questions about countries there is no byte of a map.
    assert not {path.name for path in sites[0]} & {"map.js", "map.css", "world.js"}
    assert b"geoshape" not in sites[0][out / "task.html"]


def test_a_card_holds_any_label():
    text = card_of(find_record("evil2020"))
    assert "not stated)" not in text and "<not stated>" not in text  # no links to nowhere
    rows = re.findall(r"^\| (?:sex|q) .*", text, re.M)
    assert [len(re.findall(r"(?<!\\)\|", row.replace("\\\\", ""))) for row in rows] == [6, 6]


def test_every_effect_of_an_intervention_has_prompts_and_answers_beside_what_is_right(made):
    """Retrieval says yes again where V is no longer reached; so does target, but for do(V)."""
    page = made.site / "interventions.html"
    articles = re.findall('<article class="effect".*?</article>', page.read_text(), re.DOTALL)
    (one,) = (article for article in articles if 'id="mediation-AC-do-B"' in article)
    assert len(articles) == 22 + 10 and "yes before, no after: kappa = 1" in one
    assert text_of(one).count("(deleted: A → B)") == 1
    # The prompts are those that lm-eval asks.
    asked = split("epidemia_intervention_random", "intervention")
    here = {"graph: mediation", "sample: 1", "does A cause C"}
    expected = {row["prompt"] for row in asked if {*row["given"]} - {"do(B)"} == here}
    shown = list(map(unescape, re.findall("<pre>(.*?)</pre>", one, re.DOTALL)))
    assert len(shown) == 9 and len(expected) == 2 and expected == {*shown[:2]}
    twice = ["100 % ✓", "100 %", "0.00"]
    for effect, of_target in (("B", twice), ("C", ["100 % ✓", "0 % ✓", "1.00"])):
        rows = rows_of(page, f'id="mediation-AC-do-{effect}"')
        names = ("right answer", *(f"epidemia-baseline kind={x}" for x in ("retrieval", "target")))
        cells = [rows[name][1:4] for name in names]
        assert cells == [["yes", "no", ""], twice, of_target]


def test_a_question_opens_where_the_best_comparable_run_is_most_wrong(made, tmp_path):
    """The first run is of today's truth; its worst condition is beyond the survey's interval."""
    results = read_runs([made.runs / "mean", made.runs / "noisy", made.runs / "truth"])
    older = results.runs.index[results.runs["name"].str.startswith("knows the truth (")]
    scores = results.scores
    old = scores.assign(truth=scores["truth"].where(~scores["run"].isin(older), "2019 abc"))
    results = results._replace(scores=old)
    written = {}
    tasks.make_tasks_page(results, lambda name, _, values: written.update({name: values}))
    data, truth = written[COCAINE], store.load_truth(COCAINE)
    assert data["title"] == "Ever used cocaine, by age (NSDUH 2022)" and data["ordered"]
    names = [one["name"] for one in data["models"]]
    assert names[-1].startswith("knows the truth (") and data["models"][-1]["old"]
    values = [one["score"] for one in data["models"][:-1]]
    assert values == sorted(values, reverse=True)
    low, high = interval(truth.p, truth.n_eff)
    for one in data["models"][:-1]:
        q = np.array([int(one["q"][at : at + 2], 36) for at in range(0, len(one["q"]), 2)]) / 1000
        off = np.maximum(low[:, 0] - q, q - high[:, 0])
        assert off[one["worst"][0]] >= off.max() - 0.002 and one["worst"][1] == 0
    people = [data["who"][cell] for cell in (0, len(truth.given) - 1)]
    assert people == ["people aged 12 or 13", "people aged 65 or older"]


def test_details_of_many_models_are_left_to_csv(made, monkeypatch):
    finding = find("distances")(made.results)
    assert building._cut(finding) is finding and finding.table["task"].notna().any()
    monkeypatch.setattr(building, "MOST_ROWS", len(finding.table) - 1)
    cut = building._cut(finding)
    assert 0 < len(cut.table) < len(finding.table) and cut.table["task"].fillna("").eq("").all()
    assert "--show distances --format csv" in cut.left_out[-1]
    monkeypatch.setattr(building, "MOST_ROWS", 2)
    cut = building._cut(find("order-bias")(made.results))
    assert len(cut.table) == 2 and "rows after the first 2" in cut.left_out[-1]


def test_settings_of_all_runs_are_said_once():
    columns = {name: Column() for name in ("model", "settings", "value")}
    rows = {"model": ["a", "b", "mean"], "kind": ["run", "run", "respondent"], "value": [1, 2, 3]}
    for settings, common in (
        (["x", "x", ""], True),
        (["x", "", ""], False),
        (["x", "y", ""], False),
    ):
        table = pd.DataFrame({**rows, "settings": settings})
        text = building.render_table(Finding("n", "t", table, columns), {})
        assert ("All runs: x." in text, "settings" in text) == (common, not common)


def test_titles_and_people_are_said_in_words():
    cocaine = list_leaves()[COCAINE].entry
    assert describe_question(cocaine, "2022") == "Ever used cocaine, by age (NSDUH 2022)"
    said = {
        "NHANES: Diabetes by BMI Group": "Diabetes, by BMI (NHANES 2022)",
        "BRFSS: High BP by State": "High blood pressure, by state (BRFSS 2022)",
        "Census 2022: American Indian People": "American Indian people (Census 2022)",
        MARKUP: MARKUP,
    }
    entries = [SimpleNamespace(title=title, declared=None) for title in said]
    assert {entry.title: describe_question(entry, "2022") for entry in entries} == said
    of = {
        "epidemia_low_scf_home_ownership_by_sex": "households whose reference person is male",
        "epidemia_high_meps_insured_by_age_sex": "people who are less than 1 year old and are male",
        "epidemia_low_bls_sex_by_occupation": "people employed as a chief executive",
    }
    for task, people in of.items():
        if task in store.list_available():
            assert Wording(store.load_truth(task)).people(0) == people


def test_a_model_is_wrong_in_words_by_topic_and_by_people(made):
    """What differences between groups come to decides the words; one who knows none has 0."""
    key, truth = LeafKey(COCAINE, "letters"), store.load_truth(COCAINE)
    by_race = LeafKey("epidemia_low_nsduh_cocaine_ever_by_race", "letters")

    def kind(slope):
        asked = {0: key, 1: by_race}
        said = {}
        for run, of in asked.items():
            known = store.load_truth(of.task)
            q = known.weights @ known.p + slope * (known.p - known.weights @ known.p)
            said[run, of] = TaskAnswers([*range(len(q))], q, None, 0.0)
        (text,) = models._describe_kind(said, "epidemia_low")
        return text

    assert re.match(r"It understates differences between people\. .* differ by 6\.\d ± ", kind(0.6))
    assert kind(0.0).startswith("It has no idea of differences between people")
    assert kind(1.5).startswith("It overstates differences between people")
    assert kind(1.0).startswith("It gets differences between people about right")
    results = read_runs([made.runs / "mean"])
    (name,) = results.runs["model"]
    found = {finding: find(finding)(results) for finding in ("leaderboard", "pairs")}
    start = make_start(results)
    page = models.make_model_page(results, name, {}, found, start, {})
    says = r"(\d+) of 100 on single conditions \(\d of 63 tasks\); [a-z ]+ gets \1\.$"
    assert re.match(says, page["says"][0])
    topics = {of["what"]: of["mean"] for of in page["wrong"]["topics"]}
    assert topics == {describe_outcome(of): off for of, off in start.topics.iloc[:, 0].items()}
    # A high score hides no large error.
    rows = {of["what"]: of for of in page["wrong"]["people"]}
    # Who knows averages only is off by the distance of each age from the average.
    off = 100 * np.abs(truth.p[:, 0] - truth.weights @ truth.p[:, 0])
    at = [given for (given,) in truth.given].index("65 or older")
    assert rows["Age: 65 or older"]["mean"] >= off[at] / 3 and not page["missing"]
    assert [run["chips"] for run in page["runs"]] == [[]] and page["others"] == []
    said = collect_answers(results)[0][next(iter(results.runs.index)), key]
    assert models._is_far(said, key) == bool((off[truth.weights >= 0.02] > 10).any())
    assert not models._is_far(said._replace(q=truth.p), key)


def test_lines_are_named_at_their_ends_and_models_keep_their_colour():
    chart = CHARTS["curve"]._replace(axes={"value": {"ends": "%"}})
    names = ["truth", "a", "b", "guesses uniformly"]
    values = {"truth": [0.1, 0.6], "a": [0.5, 0.5], "b": [0.2, 0.605], names[3]: [0.5, 0.5]}
    rows = [
        {"model": name, "settings": "", "kind": "run", "condition": x, "value": y}
        for name in names
        for x, y in zip("xy", values[name], strict=True)
    ]
    table = charts.name_in_words(chart, charts.prepare_rows(chart, pd.DataFrame(rows)))
    named = table[table["label"] != ""].set_index("label")["at"]
    assert {*named.index} == {"truth", "b", "a, guesses uniformly"}  # these coincide
    assert min(np.diff(sorted(named))) > 0.04
    drawn = charts.draw(chart, pd.DataFrame(rows), {"b": "#123456"}).to_dict()
    (scale,) = {json.dumps(of["encoding"]["color"]["scale"]) for of in drawn["layer"]}
    domain, colours = json.loads(scale)["domain"], json.loads(scale)["range"]
    assert dict(zip(domain, colours, strict=True))["b"] == "#123456"
    assert colours[0] == charts.INK and len({*colours}) == 4
    # More names than there are colours that can be told apart: grey, without a legend.
    many = pd.concat([pd.DataFrame(rows).assign(model=f"m{n}") for n in range(9)])
    drawn = charts.draw(chart, many).to_dict()
    assert all(of["encoding"]["color"] == {"value": charts.GREY} for of in drawn["layer"])


@pytest.mark.parametrize("width", [240, 504])
def test_a_figure_has_letters_of_eight_points_at_its_width(made, tmp_path, width):
    text = save("curve", lambda: made.results, tmp_path / "f.svg", COCAINE, width).read_text()
    wide, across = re.search(r'width="(\d+)pt".*?viewBox="0 0 ([\d.]+)', text).groups()
    letters = {float(size) for size in re.findall(r'font-size="([\d.]+)px"', text)}
    assert int(wide) == width and letters
    assert {round(size * width / float(across), 1) for size in letters} <= {7.9, 8.0, 8.1}


def contrast(one, other):
    """Of two sRGB colours, by their relative luminance (WCAG 2.2)."""
    bytes_ = np.array([[*bytes.fromhex(colour.strip("#"))] for colour in (one, other)]) / 255
    linear = np.where(bytes_ <= 0.04045, bytes_ / 12.92, ((bytes_ + 0.055) / 1.055) ** 2.4)
    low, high = sorted(linear @ [0.2126, 0.7152, 0.0722] + 0.05)
    return high / low


def test_every_colour_is_seen_on_a_light_page_and_on_a_dark_one(made):
    """At 3:1 (WCAG 1.4.11): the palette of figures on both, the sheet's colours each on its own."""
    sheet = (made.site / "assets" / "site.css").read_text()
    found = re.findall(r"--(\w+): light-dark\((#\w{6}), (#\w{6})\)", sheet)
    pairs = {name: both for name, *both in found}
    seen = [*product(charts.COLOURS, pairs["page"])]
    for name in ("text", "quiet", "edge", "link"):
        seen += zip(pairs[name], pairs["page"], strict=True)
    assert [both for both in seen if contrast(*both) < 3] == []


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
    contexts, complaints, requests, messages = [], [], set(), []

    def go(page, ready="", width=1280, **more):
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, **more))
        tab = contexts[-1].new_page()
        tab.set_default_timeout(60_000)
        tab.on("console", lambda message: messages.append(message))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
        tab.on("request", lambda request: requests.add(request.url.split(":")[0]))
        tab.goto(f"file://{made.site}/{page}")
        if tab.locator("table[data-sortable]").count():
            tab.wait_for_selector("html[data-ready=yes]")
        if ready:
            tab.wait_for_selector(ready)
        return tab

    yield go
    for context in contexts:
        context.close()
    complaints += [of.text for of in messages if of.type in ("error", "warning")]
    assert complaints == [] and requests <= {"file", "blob", "data"}


def rows_by_name(tab, table):
    """The cells of each row of a table, by the first of them, in one line."""
    rows = (row.split("\t") for row in tab.locator(f"{table} tbody tr").all_inner_texts())
    return {" ".join(row[0].split()): row for row in rows}


def test_the_first_page_has_the_numbers_of_the_result_files_sorts_and_has_a_theme(made, visit):
    tab = visit("index.html", color_scheme="dark")
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    tab.locator("#theme").click()
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    tab.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert tab.locator("nav a").count() <= 6 and tab.locator("h1").inner_text().count(" ") < 20
    rows = tab.locator(".board tr", has_text="small-1B-it").all_inner_texts()
    assert made.score("noisy", AGE_SEX)[0] in {" ".join(row.split()[-3:]) for row in rows}
    # Sorted by a number, either way.
    board = tab.locator(".board:has(tbody tr:nth-child(3))").first
    for _ in range(2):
        board.locator("th").last.click()
        board.locator("th[aria-sort]").wait_for()
        cells = board.locator("tbody td:last-child").all_inner_texts()
        known = [float(cell.split()[0]) for cell in cells]
        assert known in (sorted(known), sorted(known)[::-1]) and len({*known}) > 2
    # A topic leads to its questions among all, and back to all.
    link = tab.locator("#topics a").first
    topic = link.get_attribute("href").partition("topic=")[2]
    link.click()
    tab.wait_for_selector("button:has-text('Not only')")
    names = tab.locator("#tasks tbody tr").evaluate_all("rows => rows.map((x) => x.dataset.task)")
    assert names and all(f"_{topic}_by_" in name for name in names)
    tab.get_by_role("button", name="Not only").click()
    assert tab.locator("#tasks tbody tr").count() > len(names)
    numbers = {"7.6B": 7.6e9, "148K": 148e3, "1,234": 1234, "-3.5": -3.5, "+6.8 ± 1.2": 6.8}
    numbers |= {"2e-3": 2e-3, "<span>3.1</span><br>rank 2": 3.1, "2-4": 2, "": None, "x": None}
    for cell, value in numbers.items():
        assert tab.evaluate("epidemia.number", cell) == value, cell


def test_a_task_opens_from_the_list_and_shows_truth_and_answers(made, visit):
    """The page's numbers against the ground truth, and against the samples, averaged anew."""
    tab = visit("explorer.html")
    # First what was asked; the others on demand.
    asked = tab.locator("#tasks tbody tr").count()
    assert tab.locator("#tasks tbody tr[data-state=asked]").count() == asked > 0
    tab.locator("#every").click()
    assert tab.locator("#tasks tbody tr").count() > asked
    for facet, value in (("survey", "nsduh"), ("state", "asked"), ("way", "letters")):
        tab.select_option(f"#filter-{facet}", value)
    assert tab.locator("#tasks tbody tr").count() == 3
    assert re.fullmatch(r"3 of \d{3,} questions", tab.locator("#shown").inner_text())
    tab.select_option("#one", made.hostile)
    assert tab.locator("#tasks thead th").last.inner_text().strip() == "chosen model"
    score, expected = made.score("tiny", COCAINE)
    row = tab.locator(f"#tasks tr[data-task={COCAINE}]")
    assert row.locator("td").last.inner_text() == score.split()[0]
    row.locator("a").focus()
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#answers")
    assert tab.evaluate("document.activeElement.id") == "open"
    tab = visit(f"task.html#{urlencode({'task': COCAINE, 'model': made.hostile})}", "#answers")
    facts = tab.locator("#facts").text_content()
    assert score in facts and f"{expected['l1,none']:.4f}" in facts
    assert f"{expected['choice_mass,none']:.3f}" in facts
    truth = store.load_truth(COCAINE)
    (path,) = (made.runs / "tiny").rglob(f"samples_{COCAINE}_[0-9]*.jsonl")
    samples = [*map(json.loads, path.open())]
    for label in ("30-34", "65 or older"):
        tab.select_option("#condition-0", label)
        cell = [given for (given,) in truth.given].index(label)
        tab.wait_for_function(f"location.hash.includes('cell={cell}')")
        tab.wait_for_selector("#over svg")
        orders = [
            softmax(np.array(s["filtered_resps"])[:, 0].astype(float))[
                np.argsort(s["doc"]["order"])
            ]
            for s in samples
            if s["doc"]["cell"] == cell
        ]
        q, answers = np.mean(orders, axis=0), rows_by_name(tab, "#answers")
        for at, level in enumerate(truth.levels):
            assert answers[level][1] == f"{100 * round(truth.p[cell, at], 5):.1f} %"
            assert answers[level][2] == f"{100 * round(q[at], 3):.1f} %"
            assert re.fullmatch(r"[\d.]+ % to [\d.]+ %", answers[level][3])
        assert f"{truth.n[cell]:,} sampled units" in tab.locator("#panel").inner_text()
    # The headline is of what is open; without a choice, of where the model is most wrong.
    said = tab.locator("#said").inner_text()
    assert said.startswith("Survey: ") and "people aged 65 or older" in said
    other = visit(f"task.html#{urlencode({'task': COCAINE})}", "#over svg")
    first = other.evaluate("document.getElementById('model').value")
    assert "version" not in first and other.locator("#over svg").is_visible()
    assert "Grey" in other.locator("figcaption").first.inner_text()
    box = other.locator("#scores input:not(:checked):enabled").first
    drawn = box.get_attribute("aria-label").removeprefix("Draw ")
    box.focus()
    other.keyboard.press("Space")
    other.wait_for_function(
        "x => new URLSearchParams(location.hash).getAll('also').includes(x)", arg=drawn
    )
    with other.expect_download() as got:
        other.locator("#save-csv").click()
    assert (
        drawn in got.value.path().read_text() and got.value.suggested_filename == f"{COCAINE}.csv"
    )
    # Every model, the best first; an address opens what it names.
    assert tab.locator("#scores tbody tr").first.inner_text().strip().startswith("knows the truth")
    tab.locator("#scores tbody a.name").first.click()
    tab.wait_for_function("x => window.model.value !== x", arg=made.hostile)
    again = visit(f"task.html{tab.evaluate('location.hash')}", "#answers")
    assert again.locator("#model").input_value() != made.hostile
    assert again.locator("#condition-0").input_value() == "65 or older"
    tab = visit("task.html#task=epidemia_low_bls_sex_by_occupation", "#answers")
    assert "exact" in tab.locator("#answers").inner_text()
    assert re.search(r" is worth .* interviews", tab.locator("#worth").inner_text())
    tab.select_option("#model", "Phi4 (published)")
    tab.wait_for_selector("text=Only the score was published")
    visit("task.html#task=no_such_task", "text=There is no task no_such_task")


def test_up_to_four_of_many_models_are_drawn_in_colour(made, visit):
    pages = sorted(made.site.glob("finding-*.html"))
    tab = visit(next(page.name for page in pages if 'class="pick"' in page.read_text()))
    figure = tab.locator("figure:has(.pick)").first
    figure.locator("summary").click()
    boxes = figure.locator("input")
    for _ in range(4):
        figure.locator("input:not(:checked)").first.check()
    assert figure.locator("input:disabled").count() == boxes.count() - 4
    name, colour = (boxes.first.get_attribute(of) for of in ("value", "data-colour"))
    marks = figure.locator("svg :has(> title)").filter(has_text=re.compile(f"^{re.escape(name)}$"))
    assert marks.count()
    for mark in marks.all():
        inks = mark.evaluate("x => [x.style.fill, x.style.stroke].filter(Boolean)")
        red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
        assert inks and {*inks} == {f"rgb({red}, {green}, {blue})"}
    boxes.first.uncheck()
    assert marks.first.evaluate("x => x.style.fill + x.style.stroke") == ""


def test_a_map_shows_truth_answer_and_error(visit):
    tab, truth = visit(f"task.html#task={INTERNET}", "#map svg"), store.load_truth(INTERNET)
    assert "minus truth" in tab.locator("#map svg").get_attribute("aria-label")
    share = dict(zip((given[0] for given in truth.given), 100 * truth.p[:, 0], strict=True))
    says = f"Singapore (truth {share['Singapore']:.1f} %"
    assert says in tab.locator("#on-map figcaption").inner_text()
    tab.select_option("#map-view", "truth")
    tab.wait_for_selector("#map svg[aria-label*='the truth']")
    filled = "all => all.map((p) => p.attributes.fill?.value)"
    assert {*tab.eval_on_selector_all("#map svg path", filled)} >= {*charts.SHADES}
    # A second condition is chosen beside it.
    tab, truth = visit(f"task.html#task={TOBACCO}&view=truth", width=390), store.load_truth(TOBACCO)
    tab.select_option("#map-1", "Male")
    share = [100 * p[0] for p, given in zip(truth.p, truth.given, strict=True) if "Male" in given]
    says = f"from {min(share):.1f} % to {max(share):.1f} % in {len(share)} countries"
    tab.wait_for_selector(f"#map svg[aria-label*='{says}']")


def test_a_quantity_shows_priors_truth_and_real_answers(visit):
    truth = {of.name: of for of in quantities.load_quantities(NHANES).quantities}
    one = truth["easy_16"]
    tab = visit(f"quantities.html#set={NHANES}&quantity=easy_16", "#stated svg")
    assert tab.locator("#quantities tbody a").count() >= len(truth) == 74
    assert tab.locator("#wording").inner_text().lower() == f"{one.wording}.".lower()
    facts = tab.locator("#facts").inner_text()
    assert f"{one.n:,}" in facts and "0.926 ± 0.025" in facts and "Error of 30 real" in facts
    rows = rows_by_name(tab, "#priors")
    exact = rows["knows the truth (kind=truth)"]
    assert exact[1].count("beta ") == 5 and exact[2] == f"{one.mean:.3f}"
    assert exact[4:6] == ["0.00", "5, 10, 20, 30"] and "gpt-4o (published)" in rows
    assert rows["epidemia-baseline kind=calibrated,noise=1, grid"][1] == "41 numbers scored"
    tab.locator("#quantity").select_option("hard_3")
    tab.wait_for_selector("#panel .quiet:has-text('hard_3')")
    for address in ("set=nowhere", f"set={NHANES}&quantity=%3Cimg%3E"):
        visit(f"quantities.html#{address}", "#panel:has-text('There is no')")


def test_no_text_of_a_file_is_a_script_and_every_page_is_fit_for_all(made, visit):
    """Without their content security policy, scripts in pages would run; axe-core, on a phone."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    # What it would preload are sheets, which the pages' security policy lets nobody fetch.
    options = {"preload": False, "resultTypes": ["violations"]}
    (model,) = (path.name for path in made.site.glob("model-script*"))
    # By page, what it has to say.
    says = {"index.html": NAME[:60], model: NAME[:60], "replies.html": "I cannot say."}
    says |= dict.fromkeys(("survey-evil2020.html", f"task.html#task={EVIL}&cell=0"), MARKUP[:43])
    findings = (f"finding-{name}" for name in ("trained", "tuning", "calibration"))
    for name in ("explorer", "findings", "method", "surveys", "hierarchy", *findings):
        says[f"{name}.html"] = ""
    says[f"task.html#{urlencode({'task': COCAINE, 'model': made.hostile})}"] = ""
    says[f"quantities.html#set={NHANES}&quantity=hard_3"] = ""
    seen = set()
    for page, text in says.items():
        tab = visit(page, "#panel svg" if "#" in page else "", bypass_csp=True, color_scheme="dark")
        tab.wait_for_load_state("networkidle")
        assert tab.evaluate("window.hacked") is None, page
        alien = "main img, main script:not([type='application/json']), a[href^=javascript]"
        assert tab.locator(alien).count() == 0
        kind = re.match(r"\w+", page)[0]
        if kind not in seen:  # axe-core takes two seconds: one page of each template
            seen.add(kind)
            found = axe.run(tab, options=options).response["violations"]
            serious = [rule for rule in found if rule["impact"] in ("serious", "critical")]
            assert serious == [], page
        tab.set_viewport_size({"width": 390, "height": 900})
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390, page
        assert text in tab.locator("main").text_content(), page
    assert "is not a result file" in visit("index.html").locator(".notes").text_content()
