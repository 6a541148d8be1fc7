"""What is printed: the verdict first, ten models in 25 lines, marks, means, options and figures."""

import json
import math
import re
from io import StringIO
from itertools import product

import pandas as pd
import pytest
import yaml
from conftest import REPOSITORY
from report_parts import AGE_SEX, COCAINE, HEROIN, MMLU, SALARY, by, command, said, table, write
from rich.cells import cell_len

from lm_eval_epidemia.benchmarks import find_tasks
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.headline import make_headline
from lm_eval_epidemia.report.screen import screen
from lm_eval_epidemia.results.published import add_published
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.score.score import Anchors
from lm_eval_epidemia.surveys import catalogue

LOW, RESULTS = [COCAINE, HEROIN], REPOSITORY / "docs" / "results"
SEX_RACE = "epidemia_high_nsduh_cocaine_ever_by_sex_race"
TABLES = yaml.safe_load((REPOSITORY / "tests" / "data" / "reports.yaml").read_text("utf-8"))
BALANCED = {"metadata": {"orderings": "balanced"}}
TASKS = {
    **{"low": LOW, "cocaine": [COCAINE], "heroin": [HEROIN], "high": [AGE_SEX]},
    **{way: [f"{task}_{way}" for task in LOW] for way in ("stated", "likelihood")},
    "union": [task for task, _ in find_tasks("epidemia_high_standin")],
}


def run(*arguments):
    return command("report", *arguments)


def flat(*arguments):
    """The screen as one line."""
    return " ".join(run(*arguments).split())


def put(folder, *runs):
    """Write runs of models, or of respondents of a kind, as in the table of screens."""
    for number, of in enumerate(runs):
        of = {"choice_mass": 0.9, "seen": 1.0, "score_stderr": 2.0, **of}
        model, kind = of.pop("model", ""), of.pop("kind", "")
        config = {"model": "hf" if model else "epidemia-baseline", "limit": of.pop("limit", None)}
        config["model_args"] = {"pretrained": model} if model else {"kind": kind}
        more = {key: of.pop(key) for key in ("metadata", "chat_template") if key in of}
        asked, error = TASKS[of.pop("asked", "low")], of.pop("error", None)
        if of["seen"] == "two":
            of["seen"] = float(store.load_truth(COCAINE).weights[:2].sum())
        if "answered" in of:
            del of["choice_mass"]
        row = {f"{key},none": x for key, x in {"score_population": of["score"], **of}.items()}
        tasks = {task: (of["score"], error) if error else {**row} for task in asked}
        write(folder / f"run {number}", tasks, config=config, date=float(number), **more)


def rows_of(text):
    """The rows of the table, under its rule."""
    _, _, below = text.partition("───\n")
    return re.findall(r"^  (\S+.*)$", below, flags=re.MULTILINE)


@pytest.mark.parametrize("case", TABLES["screens"].values(), ids=TABLES["screens"])
def test_what_the_screen_says_and_who_is_ranked(tmp_path, case):
    put(tmp_path, *case["runs"])
    ((order, ranked),) = case["rows"].items()
    shown, names = flat(tmp_path), [row.split()[0] for row in rows_of(run(tmp_path))]
    assert re.search(case["says"], shown), shown
    assert [name for name in names if name in order.split()] == order.split()
    found = table("leaderboard", tmp_path)
    assert found["rank"].str.contains(" of ", na=False).sum() == ranked


SIZES = [(1, "x" * 31), (3, "x" * 51), (10, "x" * 51), (40, "x"), (10, "模" * 25)]


@pytest.mark.parametrize(("number", "letters"), SIZES)
def test_ten_models_are_at_most_25_lines_of_100_columns(tmp_path, number, letters):
    """With other runs, MMLU, respondents, and several benchmarks; the rest is counted."""
    names = [f"Model-{place:02d}-{letters}" for place in range(number)]
    for asked in ("low", "high", "likelihood"):
        each = ({"model": name, "score": 90 - at, "asked": asked} for at, name in enumerate(names))
        put(tmp_path / asked, *each)
    put(tmp_path / "more", *({"model": name, "score": 1, **BALANCED} for name in names))
    put(tmp_path / "known", *({"kind": kind, "score": 50} for kind in ("mean", "truth", "uniform")))
    write(tmp_path / "mmlu", MMLU, model=f"x/{names[0]}")
    shown, wide = run(tmp_path), run(tmp_path, "--show", "leaderboard", "--wide")
    assert [*dict.fromkeys(re.findall(r"Model-(\d\d)", shown))] == [x[6:8] for x in names[:10]]
    assert f"{min(number, 10)} more run" in shown
    assert ("30 more models: --show" in shown) == (number == 40)
    assert shown.count(" of 100 on single conditions (2 of") == (number if number <= 3 else 1)
    assert max(map(len, wide.splitlines())) > 100 and "No room for" not in wide
    several = [tmp_path, *(RESULTS / name for name in ("interventions", "priors"))]
    for width, folders in product((60, 100), (several[:1], several)):
        lines = screen(make_headline(read_results(folders)), width).splitlines()
        # Sentences are folded by letters, tables by columns of the screen.
        length = cell_len if letters < "y" else len
        assert len(lines) <= 25 and max(map(length, lines)) <= width
        assert ("More tables (" in " ".join(lines)) == (folders == several)
        assert "Next: " in " ".join(lines[-2:])


def test_what_is_suggested_works_where_a_folder_has_the_name_of_a_model(tmp_path, monkeypatch):
    for name in ("a", "b"):
        write(tmp_path / name, {COCAINE: (3.0, 1.0)}, model=name)
    monkeypatch.chdir(tmp_path)
    (suggested,) = re.findall(r"Next: epidemia (compare .*?);", flat("a", "b"))
    assert suggested == "compare --models a b a b" and command(*suggested.split())
    with pytest.raises(EpidemiaError, match="compare --models A B RESULTS"):
        command("compare", "a", "same", ".")


def test_files_and_models_without_scores_are_named(tmp_path):
    write(tmp_path / "good", {COCAINE: (3.0, 1.0), "epidemia_low_zzz": {"score,none": 1.0}})
    write(tmp_path / "none", {COCAINE: {"score,none": "N/A"}}, model="x/none")
    edited = {COCAINE: {"score,none": 95.0, "l1,none": 0.3}}
    write(tmp_path / "bare", edited, model="x/bare", versions={})
    (tmp_path / "results_broken.json").write_text("{")
    told = flat(tmp_path, "--show", "notes", "--wide")
    assert "results_broken.json is not a result file" in told
    assert "left out epidemia_low_zzz" in told and "no score (NaN) in 1 task" in told
    assert f"the file lacks the version or settings of 1 task ({COCAINE})" in told
    assert f"1 task do not match their distances ({COCAINE}; in results_2026-01-01.json)" in told
    assert re.search(r"\d notes: --show notes", run(tmp_path))
    # Beside a table they go to stderr.
    assert "results_broken.json" in said("report", tmp_path, "--show", "leaderboard").stderr
    # Their scores are judged nowhere.
    with pytest.raises(EpidemiaError, match="not compared, as bare has scores that do not match"):
        command("compare", "bare", "some-model", tmp_path)
    assert table("pairs", tmp_path).empty
    board = table("leaderboard", tmp_path).set_index("model")
    assert math.isnan(board["rank_best"]["bare"]) and board["changed"]["bare"]
    write(tmp_path / "alone", MMLU)
    for folder, first in (("none", ".*Next: --show notes"), ("alone", "No epidemia task is in")):
        assert re.match(first, flat(tmp_path / folder))


def test_tasks_that_cannot_tell_a_guess_are_named_and_shown_so(tmp_path, monkeypatch):
    """Of a small survey: others of its size are as far from the truth as a guess is."""
    write(tmp_path, {COCAINE: (60, 1)})
    assert "from a guess" not in command("report", tmp_path)
    monkeypatch.setattr(Anchors, "informative", property(lambda _: False))
    assert "1 task cannot tell the truth from a guess: --informative" in command("report", tmp_path)
    shown = command("show", COCAINE)
    assert "uninformative: a guess" in shown and "it is 100, else 0" in shown
    assert "0: at an L1" not in shown


def test_a_reference_is_asked_what_the_run_was_asked(tmp_path):
    """Beside a run cut otherwise stands what the respondent gets on those prompts."""
    cut = {"model": "cut", "score": 20, "seen": "two", "limit": 2.0, "asked": "cocaine"}
    put(tmp_path, {"model": "whole", "score": 30}, cut)
    (row,) = [row for row in rows_of(run(tmp_path)) if row.startswith("cut ")]
    beside = re.search(r"20\.0 +1 of 2 tasks +(\d+) ", row)
    assert beside and "vs: the score for knowing averages only, on the same" in flat(tmp_path)
    # Alone, it stands in the row of the respondent, and in the sentence.
    alone, known = run(tmp_path / "run 1"), r"knows averages only .* ([\d.]+)\n"
    here, there = (re.search(known, text)[1] for text in (alone, run(tmp_path)))
    assert f"{float(here):.0f}" == beside[1] and here != there and " vs " not in alone
    assert f"knowing only averages scores {beside[1]}, guessing 0." in " ".join(alone.split())


def test_runs_are_chosen_and_published_ones_do_not_lead(tmp_path):
    for dtype, score in (("float32", 10.0), ("bfloat16", 30.0)):
        config = {"model_args": {"pretrained": "x/small", "dtype": dtype}}
        write(tmp_path / dtype, {COCAINE: (score, 1.0)}, config=config)
    chosen = [tmp_path, "--where", "dtype=bfloat16"]
    shown = run(*chosen)
    assert "30.0" in shown and "10.0" not in shown and "more run" not in shown
    assert "1 run of 2" in run(*chosen, "--show", "notes")
    shown = run(*chosen, "--published")
    assert rows_of(shown)[0].startswith("small") and "published" in rows_of(shown)[1]


@pytest.mark.parametrize(("number", "pairs"), [(20, 190), (21, 20)])
def test_of_more_than_20_runs_asked_alike_neighbours_are_paired(tmp_path, number, pairs):
    put(tmp_path, *({"model": f"m{place}", "score": place} for place in range(number)))
    assert len(table("pairs", tmp_path)) == pairs


def test_a_score_that_is_not_a_number_is_left_out_of_means(tmp_path):
    """A server without `echo`: the mass of its letters, which explains it, stays."""
    row = dict.fromkeys(("score,none", "score_stderr,none", "l1,none"), math.nan)
    row |= {"seen,none": 1.0, "choice_mass,none": 2.0}
    write(tmp_path, {COCAINE: row, HEROIN: (30.0, 4.0)})
    scores = read_results([tmp_path]).scores
    assert by(scores, "task", of="choice_mass") == {COCAINE: 2.0, HEROIN: 0.9}
    mean = table("leaderboard", tmp_path).iloc[0]
    assert (mean["value"], mean["error"], mean["tasks"]) == (30.0, 4.0, 1)
    # JSON has no NaN.
    shown = run(tmp_path, "--format", "json", "--show", "tasks")
    assert len(json.loads(shown, parse_constant=lambda text: 1 / 0)["tasks"]) == 2
    # In bfloat16, 22 probabilities that sum to 1 may read as 1.0065.
    write(tmp_path, {COCAINE: {**row, "score,none": 1.0, "choice_mass,none": 1.0065}})
    assert [*read_results([tmp_path]).scores["value"]] == [1.0]


# Means over surveys, numbers of conditions, versions, ways; and what was published.


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    """A base model, its instruct version, and one that only writes."""
    folder = tmp_path_factory.mktemp("versions")
    low = {COCAINE: (40.0, 1.0), HEROIN: (20.0, 1.0), SALARY: (60.0, 1.0)}
    subset = {f"{AGE_SEX}_likelihood": (10.0, 1.0), f"{SEX_RACE}_likelihood": (20.0, 1.0)}
    more = {task: (score + 10, 1.0) for task, (score, _) in low.items()}
    closed = {f"{AGE_SEX}_closed": (50.0, 3.0), f"{SEX_RACE}_closed": (70.0, 4.0)}
    write(folder / "a", {**low, AGE_SEX: (30.0, 2.0), **subset}, model="x/Small-7B")
    write(folder / "b", {**more, **subset}, model="x/Small-7B-Instruct")
    write(folder / "c", closed, model="x/Writes-1T")
    return folder


def test_means_by_survey_conditions_version_and_way(versions):
    here = table("survey", versions).query("model == 'Small-7B' and group == 'epidemia_low'")
    nsduh, acs = here.set_index("survey").loc[["nsduh", "acs"]].iloc
    assert (nsduh["value"], nsduh["tasks"], acs["value"], acs["tasks"]) == (30.0, 2, 60.0, 1)
    # Standard error of a mean of two: sqrt(1 + 1) / 2.
    error = math.sqrt(2) / 2
    assert [nsduh["error"], nsduh["high"]] == pytest.approx([error, 30 + 1.96 * error])
    found = table("dimension", versions)
    found = found[~found["group"].str.contains("likelihood|closed")]
    values = {("Small-7B", "d = 1"): 40.0, ("Small-7B", "d = 2"): 30.0}
    assert by(found, "model", "dimension") == values | {("Small-7B-Instruct", "d = 1"): 50.0}
    low = table("version-tasks", versions).query("group == 'epidemia_low'")
    assert by(low, "task", of="base") == {COCAINE: 40.0, HEROIN: 20.0, SALARY: 60.0}
    assert (low["value"] == low["base"] + 10).all()
    (mean,) = table("versions", versions).query("group == 'epidemia_low'").to_dict("records")
    assert (mean["difference"], mean["tasks"]) == (10.0, 3)
    found = table("closed", versions, published=True).set_index(["model", "asked"])
    closed, averages = found.loc["Writes-1T", "closed"], []
    assert (closed["value"], closed["error"]) == (60.0, 2.5)
    for truth in map(store.load_truth, (AGE_SEX, SEX_RACE)):
        # Who knows P(Y) says the middle of the interval, of 5 per cent, that holds it.
        middle = (math.floor(20 * truth.weights @ truth.p[:, 0]) + 0.5) / 20
        # Of two answers, both are as far off.
        l1 = 2 * truth.weights @ abs(truth.p[:, 0] - middle)
        averages.append(Anchors.of(truth).score(l1))
    assert closed["averages"] == pytest.approx(sum(averages) / 2)
    assert found["value"]["Small-7B", "likelihood"] == 15.0
    assert found["tasks"]["GPT 4.1", "likelihood"] == 2


def test_published_scores_are_of_the_tasks_asked(tmp_path):
    """Llama 3 8B, task 52: as in the published table; one score was published as not a number."""
    write(tmp_path, dict.fromkeys([COCAINE, f"{HEROIN}_likelihood"], (1.0, 1.0)))
    results = add_published(read_results([tmp_path]))
    models = results.runs[results.runs["kind"] == "published"].reset_index().set_index("model")
    asked = results.scores[results.scores["run"] == models["run"]["GPT 4.1"]]
    assert len(models) == 7 and [*asked["task"], *asked["way"]] == [HEROIN, "likelihood"]
    every = product(catalogue.all_tasks(), ("letters", "likelihood"))
    every = pd.DataFrame(every, columns=["task", "way"]).assign(asked_as="", run=0)
    results = add_published(read_results([tmp_path])._replace(scores=every))
    values = results.scores[results.scores["asked_as"] == "published"]
    values = by(values, "task", "way", "run")
    assert len(values) == 2197 - 1
    llama = models["run"]["LLama3 8B"]
    assert values["epidemia_low_acs_employment_status_by_sex", "letters", llama] == 52.7991


def test_several_findings_for_programs(versions):
    """They have a column more in csv, and a key each in json."""
    several = [versions, "--show", "leaderboard,pairs", "--format"]
    rows = pd.read_csv(StringIO(run(*several, "csv")))
    assert rows.columns[0] == "finding" and {*rows["finding"]} == {"leaderboard", "pairs"}
    assert sum(map(len, json.loads(run(*several, "json")).values())) == len(rows)


@pytest.mark.parametrize(("given", "said"), TABLES["refused"].items())
def test_options_that_are_not_known_are_answered_with_those_that_are(versions, given, said):
    with pytest.raises(EpidemiaError, match=said):
        command(*given.replace("RUNS", str(versions)).split())


def test_figures_are_saved(versions, tmp_path):
    begins = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF", "json": b"{"}
    for ending, begin in begins.items():
        path = tmp_path / f"leaderboard.{ending}"
        command("plot", "leaderboard", versions, "--out", path)
        assert path.read_bytes().startswith(begin) and b"NaN" not in path.read_bytes()
    pair = tmp_path / "versions.json"
    command("plot", "versions", versions, "--pair", "Small-7B-Instruct=Small-7B", "--out", pair)
    assert '"other": "Small-7B-Instruct"' in pair.read_text()
    assert "survey: Score by survey." in run(versions, "--show", "help")
