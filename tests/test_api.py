"""The Python API: as lm-eval scores, aligned by labels, refusing by name what does not fit."""

import io
from itertools import product

import numpy as np
import pandas as pd
import pytest
from conftest import REPOSITORY, evaluate, in_a_process, recorded

from lm_eval_epidemia.api import Draws, Truth, joint_error, load_truth, questions, score, tasks
from lm_eval_epidemia.benchmarks import WAYS
from lm_eval_epidemia.benchmarks.observation import OBSERVATION
from lm_eval_epidemia.benchmarks.observation.respondents import simulate_answers
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.extras import install
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.harness.discovery import find_pin
from lm_eval_epidemia.score.estimates import interval
from lm_eval_epidemia.score.score import Anchors
from lm_eval_epidemia.surveys.catalogue import all_tasks, find_record

BY_AGE = "epidemia_low_nsduh_cocaine_ever_by_age"
BY_TWO = "epidemia_high_nsduh_cocaine_ever_by_age_sex"
MANY_ANSWERS = "epidemia_low_gss_political_view_by_age"
EXACT = "epidemia_low_bls_sex_by_occupation"
TASKS = [BY_AGE, BY_TWO, MANY_ANSWERS, EXACT]


def believed(name):
    """Beliefs that differ in every cell and answer."""
    return simulate_answers(store.load_truth(name), "noisy", noise=0.5, seed=3)


@pytest.mark.parametrize("kind", ["mean", "noisy"])
def test_scores_are_those_of_lm_eval(replicated, kind):
    errs = ",noise=0.5,seed=3" if kind == "noisy" else ""
    ran = evaluate(TASKS, model_args=f"kind={kind}{errs}")["results"]
    for name in TASKS:
        truth = load_truth(name)
        found = score(name, simulate_answers(truth, kind, noise=0.5, seed=3))
        theirs = [ran[name][f"{metric},none"] for metric in ("score", "score_stderr", "l1")]
        assert [found.score, found.error, found.l1] == pytest.approx(theirs, abs=1e-9), name
        assert score(name, truth.p).score == 100
        anchors = pytest.approx(Anchors.of(store.load_truth(name)), abs=0, nan_ok=True)
        assert found.anchors == anchors and truth.anchors == anchors


def test_a_truth_holds_its_data_and_shows_it():
    truth, stored = load_truth(BY_TWO), store.load_truth(BY_TWO)
    for name, value in vars(stored).items():
        if name not in ("columns", "distances"):  # copies, so that nobody changes what is kept
            assert getattr(truth, name) is value, name
    assert truth.columns == stored.columns and truth.distances.keys() == stored.distances.keys()
    assert truth.conditions == ("age", "sex")
    frame = truth.to_frame()
    columns = "age, sex, answer, p, weight, n, n_eff, low, high"
    assert list(frame.columns) == columns.split(", ")
    assert len(frame) == truth.p.size and frame.p.to_numpy() == pytest.approx(truth.p.ravel())
    row = frame[(frame.age == "26-29") & (frame.sex == "Female") & (frame.answer == "No")].iloc[0]
    cell = truth.given.index(("26-29", "Female"))
    low, high = interval(truth.p, truth.n_eff)
    about = [truth.weights[cell], truth.n[cell], truth.n_eff[cell]]
    assert list(row[3:]) == [truth.p[cell, 1], *about, low[cell, 1], high[cell, 1]]
    assert repr(truth).startswith(f"{BY_TWO} (nsduh 2022, shipped): P(cocaine_ever | age, sex), 2 ")
    assert truth._repr_html_().count("<tr") == 1 + 8 + 1  # head, rows, dots
    said = truth.cite()
    assert said.citation == find_record("nsduh").citation and said.vintage == "2022"
    assert str(said).startswith("Substance Abuse and Mental Health") and said.licence in str(said)
    assert "samhsa.gov" in said.source


def test_another_vintage_is_another_truth():
    older = load_truth(EXACT, "2019")
    assert isinstance(older, Truth) and older.cite().vintage == "2019"
    assert score(older, older.p).vintage == "2019"


@pytest.mark.parametrize("name", TASKS)
def test_beliefs_are_aligned_by_their_labels(name):
    truth, q = load_truth(name), believed(name)
    expected, conditions = score(name, q), list(truth.conditions)
    long = truth.to_frame().assign(q=q.ravel())
    shuffled = long.sample(frac=1, random_state=1)
    wide = shuffled.pivot(index=conditions, columns="answer", values="q")
    written = pd.read_csv(io.StringIO(long[[*conditions, "answer", "q"]].to_csv(index=False)))
    cells = dict(zip(truth.given, q, strict=True))

    def of(condition):
        return cells[tuple(condition.values())]

    given = {
        "array": q,
        "lists": q.tolist(),
        "long": shuffled,
        "wide": wide[reversed(truth.levels)],
        "wide, conditions as columns": wide.reset_index(),
        "long, conditions as index": shuffled.set_index(conditions),
        "csv": written,
        "function": of,
        "by answer": lambda condition: dict(zip(truth.levels, of(condition), strict=True)),
        "series": lambda condition: pd.Series(of(condition), truth.levels)[::-1],
    }
    if len(truth.levels) == 2:
        given["one number"] = lambda condition: of(condition)[0]
    if len(conditions) == 1:
        given["unnamed index"] = wide.rename_axis(index=None)
    for way, one in given.items():
        found = score(name, one)
        assert found.l1 == pytest.approx(expected.l1, abs=1e-12), way
        assert found.error == pytest.approx(expected.error, abs=1e-9), way


def frame(**changed):
    return load_truth(BY_AGE).to_frame().assign(q=lambda rows: rows.p, **changed)


def test_conditions_that_nobody_has_together_are_refused():
    truth = load_truth("epidemia_high_scf_home_ownership_by_age_education_sex_race")
    known = set(truth.given)
    labels = [sorted(set(column)) for column in zip(*truth.given, strict=True)]
    missing = next(given for given in product(*labels) if given not in known)
    more = pd.DataFrame([[*missing, "Yes", 0.5]], columns=[*truth.conditions, "answer", "q"])
    long = truth.to_frame().assign(q=lambda rows: rows.p)
    with pytest.raises(
        EpidemiaError, match="nobody in the survey has this combination of conditions: leave it out"
    ):
        score(truth, pd.concat([long, more]))


def test_tasks_lists_every_declared_task_with_what_is_here(home):
    found, places = tasks(), store.list_available()
    assert list(found.task) == list(all_tasks())
    assert set(found.task[found.state == "shipped"]) == set(places)
    assert not (found.state == "built here").any()
    for row in found.itertuples():
        if row.task in places:
            truth = load_truth(row.task)
            assert (row.cells, row.levels, row.vintage) == (*truth.p.shape, truth.vintage), row.task
            assert row.needs == "" and row.conditions == ", ".join(truth.conditions)
        else:
            assert row.state == "waiting" and row.needs and pd.isna(row.cells) and not row.vintage
            assert row.levels >= 2
    some = tasks(survey="nsduh", group="epidemia_low")
    assert set(some.survey) == {"nsduh"} and set(some.group) == {"epidemia_low"}
    assert list(tasks(group="epidemia_low_nsduh").task) == list(some.task)
    assert tasks(survey="scf", group="epidemia_low_nsduh").empty
    assert set(tasks(group="epidemia_high_closed").group) == {"epidemia_high"}
    assert len(tasks(group="epidemia_high_closed")) == 63


@pytest.mark.parametrize("way", OBSERVATION.ways)
def test_questions_are_the_prompts_of_lm_eval(way):
    name = BY_AGE if WAYS[way].asks(all_tasks()[BY_AGE]) else BY_TWO
    if not WAYS[way].asks(all_tasks()[name]):
        name = next(n for n in store.list_available() if WAYS[way].asks(all_tasks()[n]))
    asked = questions(name, way)
    assert {*asked.pop("way")} == {way}
    assert asked.to_dict("list") == split(name, way).to_dict()


def test_rounding_and_odd_forms_are_no_mistakes():
    truth = load_truth(BY_AGE)
    assert score(truth, np.matrix(truth.p)).score == 100
    q = believed(MANY_ANSWERS)
    single = score(MANY_ANSWERS, q.astype(np.float32)).score
    assert single == pytest.approx(score(MANY_ANSWERS, q).score, abs=1e-3)
    certain = score(truth, lambda condition: 1.0).l1
    assert score(truth, lambda condition: 1 + 2.3e-16).l1 == pytest.approx(certain, abs=1e-12)
    assert load_truth(BY_AGE, vintage=2022).vintage == "2022"
    assert questions(truth).equals(questions(BY_AGE))
    assert len(questions(BY_AGE, "sampled", n_samples=8)) == 8 * 11
    drawn = Draws("sample", np.array([1.0, 2.0, 4.0]), 0.5)
    assert joint_error([drawn, drawn], [0, 2]) == pytest.approx(2 * joint_error([drawn]))
    found = score(BY_AGE, truth.p * 0.9 + 0.05)
    assert joint_error(draws for draws in [found.draws]) == pytest.approx(found.error)


def test_nobody_can_change_what_others_load():
    truth = load_truth(BY_AGE)
    truth.columns["x"] = "1"
    truth.distances["iid"] = np.full(200, 0.01)
    again = load_truth(BY_AGE)
    assert "x" not in again.columns and again.anchors.perfect > 0.011
    for values in (again.p, again.weights, again.n_eff, again.distances["iid"]):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 0
    assert truth == truth and truth != again and len({truth, again}) == 2


@pytest.mark.parametrize("name", TASKS)
def test_a_truth_is_drawn(name):
    vl_convert = pytest.importorskip("vl_convert")
    truth = load_truth(name)
    chart = truth.plot()
    rows = chart.to_dict()["data"]["values"]
    assert len(rows) == (len(truth.given) if len(truth.conditions) > 1 else truth.p.size)
    assert vl_convert.vegalite_to_svg(chart.to_json()).startswith("<svg")


#: As if what the API and the tables of a report do without were not installed.
BLOCKED = """
import importlib.machinery as machinery, sys
gone, find = ("lm_eval", "torch", "transformers", "altair", "itables", "vl_convert"), (
    machinery.PathFinder.find_spec)
machinery.PathFinder.find_spec = lambda name, *more: None if name in gone else find(name, *more)
"""


def printed(code, cwd=REPOSITORY):
    done = in_a_process("-c", code, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_api_needs_no_lm_eval_no_torch_and_no_altair():
    said = printed(f"""{BLOCKED}
from lm_eval_epidemia.api import load_truth, questions, score, tasks
from lm_eval_epidemia.core.errors import EpidemiaError
truth = load_truth("{BY_AGE}")
print(score(truth, truth.to_frame().assign(q=lambda rows: rows.p)).score, truth.cite().vintage)
print(len(tasks()), len(questions("{BY_AGE}")))
try:
    truth.plot()
except EpidemiaError as error:
    print(error)
""")
    needed = f"plot() needs altair, which is not installed: {install('report')}"
    assert said.splitlines() == ["100.0 2022", f"{len(all_tasks())} 22", needed]


def test_the_examples_of_the_docstrings_and_of_the_page_run():
    tested = """
import doctest, sys
from lm_eval_epidemia.api import listing, scores, truths
results = [doctest.testmod(module) for module in (listing, scores, truths)]
assert sum(of.attempted for of in results) > 20 and not any(of.failed for of in results)
failed, tried = doctest.testfile(PAGE, module_relative=False, encoding="utf-8")
assert tried > 10 and not failed
assert "lm_eval" not in sys.modules and "torch" not in sys.modules
"""
    printed(tested.replace("PAGE", repr(str(REPOSITORY / "docs" / "guides" / "python.md"))))


#: Several commands in one process, each with its exit code.
COMMANDS = """
from lm_eval_epidemia.cli import main
for line in LINES:
    sys.argv = ["epidemia", *line.split()]
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    print("exit", code, flush=True)
"""


def test_a_wrong_name_and_then_the_missing_extra_are_said_before_any_work(tmp_path):
    """There are no results in 'nothing', which would be said if it were read first."""
    extra = ", which is not installed: "
    needs = {
        "report nothing --html site": f"the site needs itables{extra}",
        "plot leaderboard nothing": f"the figure leaderboard needs altair{extra}",
        f"plot bootstrap --task {BY_AGE}": f"the figure bootstrap needs altair{extra}",
        "groundtruth build nsdhu": "no survey 'nsdhu' (nearest: nsduh)",
        "cost epidemia_lo --tokenizer x": "no task or group 'epidemia_lo' (nearest: epidemia_low",
        f"plot curve x --task {BY_AGE[:-1]}": f"no task '{BY_AGE[:-1]}' (nearest: {BY_AGE}",
    }
    gone = BLOCKED.replace('"altair"', '"altair", "joblib"')
    done = in_a_process("-c", gone + COMMANDS.replace("LINES", repr([*needs])), cwd=tmp_path)
    assert done.stdout == "exit 2\n" * len(needs)
    for line, message in zip(done.stderr.splitlines(), needs.values(), strict=True):
        assert line.startswith(f"error: {message}")
        assert not message.endswith(extra) or line.endswith("[report]'")
    assert not list(tmp_path.glob("[!h]*"))  # but for the home of every test


def test_tables_and_the_list_of_figures_do_without_the_extra(tmp_path):
    from lm_eval_epidemia.report.figures import CHARTS

    recorded(tmp_path / "out", [BY_AGE])
    lines = ["plot list", "report out", "report out --show leaderboard --format latex"]
    said = printed(BLOCKED + COMMANDS.replace("LINES", repr(lines)), tmp_path)
    figures, table, latex, rest = said.split("exit 0\n")
    assert figures.count("\n") >= len(CHARTS) and "100.0" in table and "100.0" in latex
    assert not rest


def test_reports_the_site_and_the_export_need_no_lm_eval(tmp_path):
    """What runs a model says in a line what it needs; one task is exported."""
    recorded(tmp_path / "out", [BY_AGE])
    report = ["report out --format csv", "report out --html site"]
    runs = ["run --model hf --tasks epidemia_low", "demo"]
    short = f"""
from lm_eval_epidemia.findings import interventions
from lm_eval_epidemia.harness import export
interventions.LARGE = {{}}  # the site draws no large graphs, which takes longest
export.BENCHMARKS = {{"observation": export.BENCHMARKS["observation"]}}
export.BENCHMARKS["observation"].available = lambda: ["{BY_AGE}"]
"""
    gone = BLOCKED.replace('"torch", "transformers", "altair", "itables", "vl_convert"', "")
    share = f"share {REPOSITORY / 'docs' / 'results' / 'wording' / 'high-bare'} shared"
    lines = [*report, share, "export --out questions", *runs]
    code = gone + short + COMMANDS.replace("LINES", repr(lines))
    done = in_a_process("-c", code, cwd=tmp_path)
    ends = [line for line in done.stdout.splitlines() if line.startswith("exit ")]
    assert ends == ["exit 0"] * 4 + ["exit 2"] * 2, done.stderr
    assert (tmp_path / "site" / "index.html").is_file()
    assert (tmp_path / "questions" / "data" / "epidemia_low" / "truth.parquet").is_file()
    needs = f"error: this command needs lm-eval: pip install '{find_pin()}'"
    assert done.stderr.splitlines()[-len(runs) :] == [needs] * len(runs)


#: Arrow's threads abort one process in sixty that ends while they start.
THREADS = """
import os, pandas, pyarrow.parquet, scipy.linalg
count = lambda: len(os.listdir("/proc/self/task")) if os.path.exists("/proc/self/task") else 0
before = count()
"""


def test_what_is_made_without_lm_eval_ends_well(tmp_path):
    """Nothing is written before lm-eval turns out to be missing; help is no error."""
    data = REPOSITORY / "tests" / "data"
    files = f"{data / 'sample_variables.json'} {data / 'sample_baselines.json'}"
    lines = ["run --help", f"quantities import --name mine {files}", "quantities list"]
    code = BLOCKED + THREADS + COMMANDS.replace("LINES", repr(lines)) + "print(count() - before)"
    ran, made, listed, started = printed(code, tmp_path).split("exit 0\n")
    assert "Run lm-eval with its own options" in ran
    assert f"pip install '{find_pin()}'" in ran
    assert "task epidemia_prior_mine: lm_eval run" in made
    assert "epidemia_prior_mine" in listed
    assert int(started) == 0
