"""A run is known by its settings: files of one make one row, files of several never do."""

import json
import math
import shutil

import numpy as np
import pytest
from conftest import recorded
from recorded_runs import copied_run
from test_report import AGE_SEX, COCAINE, EMPLOYER, HEROIN, SALARY, write

from lm_eval_epidemia.benchmarks.observation import respondents
from lm_eval_epidemia.benchmarks.observation.measured import Measured, part_of
from lm_eval_epidemia.elicit.way import Elicited
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.old.findings import data, explorer, head_to_head, model_rows
from lm_eval_epidemia.old.findings.leaderboard import make_report
from lm_eval_epidemia.old.findings.reference import known_over, not_known
from lm_eval_epidemia.old.findings.wordings import asked_in_wordings
from lm_eval_epidemia.old.report import figures, output, site
from lm_eval_epidemia.results.entry import LONGEST_NAME, Asked, Entry, TaskScore
from lm_eval_epidemia.results.models import models_of
from lm_eval_epidemia.results.results import read_results

SMALL = {"model": "hf", "model_args": {"pretrained": "x/small"}}
MMLU = {"mmlu": {"acc,none": 0.65}}


def run_as(config=None, **arguments):
    """What lm-eval writes of a run of the model "small"."""
    return {**SMALL, "model_args": {**SMALL["model_args"], **arguments}, **(config or {})}


def rows(folder):
    return read_results([folder]).entries


@pytest.mark.parametrize(
    ("other", "shown"),
    [
        ({"config": run_as({"model_dtype": "torch.bfloat16"})}, "dtype=bfloat16"),
        ({"config": run_as({"model": "choice-hf"})}, "backend=choice-hf"),
        ({"config": run_as(attn_implementation="eager")}, "attn_implementation=eager"),
        ({"config": run_as({"model_sha": "12345678ab"})}, "model_sha=12345678"),
        ({"config": SMALL, "chat_template": "{{ other }}"}, "chat_template=68318503"),
    ],
)
def test_runs_that_differ_in_a_setting_are_rows_of_their_own(tmp_path, other, shown):
    plain = {"config": run_as({"model_dtype": "torch.float32", "model_sha": "ffff"})}
    if "chat_template" in other:
        plain = {"config": SMALL, "chat_template": "{{ one }}"}
    elif "dtype" not in shown:
        other["config"] = {"model_dtype": "torch.float32", "model_sha": "ffff", **other["config"]}
    write(tmp_path / "a", {COCAINE: (40.0, 3.0), AGE_SEX: (1.0, 1.0)}, date=1.0, **plain)
    write(tmp_path / "b", {COCAINE: (60.0, 3.0)}, date=2.0, **other)
    results = read_results([tmp_path])
    one, two = sorted(results.entries, key=lambda entry: len(entry.scores), reverse=True)
    assert [one.scores[Asked(COCAINE, "letters")].value, len(one.scores)] == [40.0, 2]
    assert [two.scores[Asked(COCAINE, "letters")].value, len(two.scores)] == [60.0, 1]
    assert one.model == two.model == "small" and shown in two.name and shown not in one.name
    assert results.notes == []
    # Both are ranked, and compared with each other.
    report = make_report(results)
    assert report.standings["epidemia_low"][one.name].shared == 1
    assert any(two.name in row[0] for part in output.details(report) for row in part.rows)
    groups = [row for row in output.as_rows(report) if row["kind"] == "group"]
    assert {row["model"] for row in groups} == {one.name, two.name}


def test_runs_that_differ_in_nothing_that_is_answered_are_one_row(tmp_path):
    machine = {"batch_size": 1, "device": "cuda:0", "torch_seed": 1, "model_sha": "abc"}
    config = run_as({"model_dtype": "torch.float32", **machine}, dtype="auto", batch_size=8)
    write(tmp_path / "low", {COCAINE: (40.0, 3.0)}, git_hash="a", config=config)
    # The hub could not be reached: the hash is not known.
    machine = {"batch_size": 4, "device": "cpu", "torch_seed": 2, "model_sha": ""}
    more = {"dtype": "float32", "device_map": "auto"}
    config = run_as({"model_dtype": "torch.float32", **machine}, **more)
    write(tmp_path / "high", {AGE_SEX: (20.0, 3.0)}, git_hash="b", config=config)
    results = read_results([tmp_path])
    (entry,) = results.entries
    assert (entry.name, len(entry.scores), results.notes) == ("small", 2, [])


def test_folders_that_are_links_are_read_once(tmp_path):
    write(tmp_path / "runs" / "a", {COCAINE: (40.0, 3.0)}, config=SMALL)
    collected = tmp_path / "collected"
    collected.mkdir()
    (collected / "a").symlink_to(tmp_path / "runs" / "a")
    (collected / "again").symlink_to(tmp_path / "runs")
    (tmp_path / "runs" / "loop").symlink_to(collected)
    results = read_results([collected])
    assert [len(entry.scores) for entry in results.entries] == [1] and results.notes == []


def test_how_written_answers_were_drawn_tells_runs_apart_and_letters_join(tmp_path):
    sampled = f"{EMPLOYER}_sampled"
    write(tmp_path / "letters", {COCAINE: (40.0, 3.0)}, config=SMALL)
    for number in (20, 50):
        drawn = {"config": SMALL, "metadata": {"n_samples": number}}
        write(tmp_path / str(number), {sampled: (number, 3.0)}, **drawn)
    names = ["small", "small (n_samples=20)", "small (n_samples=50)"]
    assert [entry.name for entry in rows(tmp_path)] == names
    shutil.rmtree(tmp_path / "50")
    drawn["metadata"] = {"n_samples": 20}
    write(tmp_path / "20", {HEROIN: (1.0, 1.0), sampled: (20, 3.0), **MMLU}, **drawn)
    results = read_results([tmp_path])
    (entry,) = results.entries
    assert (entry.name, len(entry.scores), results.notes) == ("small", 3, [])
    for more in ({"gen_kwargs": {"max_gen_toks": 5}}, {"torch_seed": 7}):
        drawn["config"] = {**SMALL, **more}
        write(tmp_path / "50", {sampled: (9.0, 3.0)}, **drawn)
        assert len(rows(tmp_path)) == 3


def test_of_repeated_runs_one_line_counts_what_is_left_out(tmp_path):
    for date in (1.0, 2.0, 3.0):
        tasks = {COCAINE: (date, 3.0), HEROIN: (date, 1.0), **MMLU}
        write(tmp_path / str(date), tasks, config=SMALL, date=date)
    results = read_results([tmp_path])
    (entry,) = results.entries
    assert {score.value for score in entry.scores.values()} == {3.0}
    ours, theirs = results.notes
    assert "small: 2 tasks asked more than once with the same settings" in ours
    assert "2 older files (" in ours and f"{tmp_path}/1.0" in ours
    assert "mmlu (acc) is in 3 result files" in theirs and "2 older files (" in theirs


@pytest.mark.parametrize(
    ("ours", "seen"),
    [({"config": {**SMALL, "limit": 10}}, 0.4), ({"metadata": {"orderings": "balanced"}}, 1.0)],
)
def test_another_task_alone_joins_its_model_however_that_was_asked_ours(tmp_path, ours, seen):
    row = {"score,none": 50.0, "score_stderr,none": 1.0, "l1,none": 0.1, "seen,none": seen}
    write(tmp_path / "ours", {COCAINE: row}, **{"config": SMALL, **ours})
    # With another backend, and another limit or none.
    write(tmp_path / "mmlu", MMLU, config=run_as({"model": "choice-hf"}))
    results = read_results([tmp_path])
    (entry,) = results.entries
    assert entry.others == {"mmlu (acc)": 0.65} and entry.protocol.incomplete == (seen < 1)
    assert not [note for note in results.notes if "mmlu" in note]


def test_another_task_that_may_be_of_several_rows_is_a_row_of_its_own(tmp_path):
    for dtype in ("float32", "bfloat16"):
        write(tmp_path / dtype, {COCAINE: (40.0, 3.0)}, config=run_as(dtype=dtype))
    write(tmp_path / "mmlu", MMLU, config=SMALL)
    results = read_results([tmp_path])
    auto, half, single = (f"small (dtype={dtype})" for dtype in ("auto", "bfloat16", "float32"))
    mmlu = {"mmlu (acc)": 0.65}
    others = {entry.name: entry.others for entry in results.entries}
    assert others == {auto: mmlu, half: {}, single: {}}
    (note,) = results.notes
    assert "small (dtype=auto): mmlu (acc) cannot be assigned to another row of" in note
    sections = output.details(make_report(results))
    (section,) = [one for one in sections if one.title == "Beside other tasks"]
    assert section.rows == [[auto, "", "0.6500"]]
    # Run as one of them was, it belongs to that.
    write(tmp_path / "mmlu", MMLU, config=run_as(dtype="float32"))
    results = read_results([tmp_path])
    assert {entry.name: entry.others for entry in results.entries} == {half: {}, single: mmlu}
    assert results.notes == []
    # Of another model altogether it is a row as well.
    write(tmp_path / "theirs", MMLU, model="x/other")
    assert {entry.name for entry in rows(tmp_path) if entry.others} == {"other", single}


def test_wordings_and_versions_are_compared_within_one_dtype(tmp_path):
    for dtype, score in (("float32", 10.0), ("bfloat16", 30.0)):
        for model, more in (("x/Small", 0.0), ("x/Small-Instruct", 5.0)):
            config = {"model": "hf", "model_args": {"pretrained": model, "dtype": dtype}}
            where = tmp_path / f"{model[2:]}-{dtype}"
            write(where, {COCAINE: (score + more, 1.0)}, config=config)
            bare = {"config": config, "metadata": {"wording": "bare"}}
            write(where / "bare", {COCAINE: (score + more - 1, 1.0)}, **bare)
    report = make_report(read_results([tmp_path]))
    assert [one.across.difference for one in asked_in_wordings(report.runs)] == [-1.0] * 4
    assert [one.across.difference for _, one, _ in head_to_head.versions_compared(report)] == [
        5.0
    ] * 4


def test_a_tuned_model_is_compared_with_the_base_of_its_dtype(tmp_path):
    for dtype in ("float32", "bfloat16"):
        write(tmp_path / dtype, {COCAINE: (40.0, 3.0)}, config=run_as(dtype=dtype))
    tuned = run_as(dtype="bfloat16", peft="x/adapter")
    path = write(tmp_path / "tuned", {COCAINE: (50.0, 3.0)}, config=tuned)
    report = make_report(read_results([tmp_path]))
    assert [one.base.name for one in report.tuned] == ["small (dtype=bfloat16)"]
    # Where there is none, a note says what else differs.
    found = json.loads(path.read_text())
    found["config"]["model_args"]["dtype"] = "float16"
    path.write_text(json.dumps(found))
    shutil.rmtree(tmp_path / "bfloat16")
    (note,) = [one for one in make_report(read_results([tmp_path])).notes if "base" in one]
    assert "(dtype=float16, dtype=float32), so training does not explain the whole" in note


@pytest.fixture(scope="module")
def knows_marginal(tmp_path_factory):
    """Who knows averages only, asked whole tasks and the first ten prompts of each."""
    folder = tmp_path_factory.mktemp("mean")
    tasks = [COCAINE, f"{COCAINE}_likelihood", f"{EMPLOYER}_likelihood", f"{AGE_SEX}_closed"]
    for name, limit in (("whole", None), ("cut", 10)):
        recorded(folder / name, tasks, model_args="kind=mean", limit=limit)
    return folder


def references(report):
    """What who knows averages only gets in every group, by the cut of the runs."""
    rows = model_rows.model_rows(report, report.columns)
    return {
        row.chips: {column: cell.mean.value for column, cell in row.cells.items()}
        for row in model_rows.reference_rows(rows, "mean")
    }


def test_reference_rows_are_cut_as_the_run_they_stand_beside(knows_marginal, tmp_path, monkeypatch):
    """Who knows averages only is the reference itself: wherever both stand, they are the same."""
    report = make_report(read_results([knows_marginal]))
    cut = [entry for entry in report.runs if entry.protocol.limit == "10"]
    assert [len(entry.scores) for entry in cut] == [4] and len(report.runs) == 2
    for made in (data.leaderboard_rows, data.survey_rows, data.closed_rows):
        rows = made(report)
        assert {row["model"] for row in rows} == {entry.name for entry in report.runs}
        for row in rows:
            assert row["mean"] == pytest.approx(row["score"], abs=1e-9), row
    rows = model_rows.model_rows(report, report.columns)
    own = {row.chips: {c: cell.mean.value for c, cell in row.cells.items()} for row in rows}
    shown = references(report)
    assert shown == {cut: pytest.approx(values, abs=1e-9) for cut, values in own.items()}
    assert list(shown) == [(), ("limit 10",)] and shown[()] != shown["limit 10",]
    # It has its rows already.
    assert len(rows) == 2
    everyone = explorer.answerers(models_of(report.entries))
    for entry in report.runs:
        for asked, score in entry.scores.items():
            shown_of = explorer.task_data(asked, everyone, {})
            model = next(
                m
                for m in shown_of["models"]
                if ("limit 10)" in m["name"]) == bool(entry.protocol.limit)
            )
            anchors = model.get("anchors", shown_of["anchors"])
            assert anchors["D mean"] == pytest.approx(score.l1, abs=1e-9)
    monkeypatch.setattr(explorer, "_listed", lambda report: [Asked(COCAINE, "letters")])
    tasks = explorer.shown(report, everyone, {}, lambda *_: None)["tasks"]
    listed = {task["name"]: task for task in tasks}
    values = [entry.scores[Asked(COCAINE, "letters")].value for entry in report.runs]
    assert listed[COCAINE]["mean"] == f"{values[0]:.1f}; {values[1]:.1f} (limit 10)"


def test_the_reference_draws_as_many_answers_as_the_run_it_stands_beside(tmp_path):
    sampled, truth, expected = f"{SALARY}_sampled", store.load(SALARY), {}
    q, rng = respondents.mean(truth.weights, truth.p), np.random.default_rng(1)
    for number in (20, 100):
        drawn = {"config": SMALL, "metadata": {"n_samples": number}}
        write(tmp_path / str(number), {COCAINE: (40.0, 3.0), sampled: (30.0, 3.0)}, **drawn)
        counts = [np.pad(rng.multinomial(number, q), ((0, 0), (0, 1))) for _ in range(100)]
        scores = [Measured(part_of(truth), Elicited(q, counts=one)).score for one in counts]
        expected[number] = pytest.approx(np.mean(scores), abs=2.0)
    report = make_report(read_results([tmp_path]))
    shown = references(report)
    found = {
        row["model"]: row["mean"]
        for row in data.leaderboard_rows(report)
        if row["group"] == "epidemia_low_sampled"
    }
    for number in (20, 100):
        here = found[f"small (n_samples={number})"]
        assert here == expected[number]
        (cut,) = [cells for chips, cells in shown.items() if chips[0].endswith(f"{number}")]
        assert cut["epidemia_low_sampled"] == pytest.approx(here)
    # With exact shares it comes to 79.
    assert found["small (n_samples=20)"] + 20 < found["small (n_samples=100)"] < 75


def test_the_reference_is_not_known_where_the_number_of_answers_is_not(tmp_path):
    write(tmp_path, {f"{SALARY}_sampled": (30.0, 3.0)}, metadata={"n_samples": "many"})
    report = make_report(read_results([tmp_path]))
    assert [row["mean"] for row in data.leaderboard_rows(report)] == [None]
    (note,) = not_known(report.runs)
    assert f"{SALARY}_sampled" in note and "how many answers were drawn" in note


def test_the_reference_of_unknown_conditions_is_left_out_and_said(tmp_path, monkeypatch, capsys):
    row = {"score,none": 50.0, "score_stderr,none": 1.0, "l1,none": 0.1}
    write(tmp_path, {COCAINE: {**row, "seen,none": 0.123}, HEROIN: {**row, "seen,none": 1.0}})
    report = make_report(read_results([tmp_path]))
    unknown = {row["model"]: row["mean"] is None for row in data.leaderboard_rows(report)}
    assert unknown == {"some-model (incomplete)": True}
    # Nothing stands beside the mean of both.
    assert references(report) == {}
    pages = []
    monkeypatch.setattr(site, "_write", lambda *given: pages.append(given[3]))
    site.build_site(report, tmp_path / "site")
    figures.save("leaderboard", lambda: report, tmp_path / "leaderboard.json")
    for said in ("\n".join(pages[0]), capsys.readouterr().err):
        assert f"in 1 task ({COCAINE})" in said


def test_the_reference_of_another_task_version_is_what_was_run_of_it(tmp_path):
    """Today's prompts are not those of before: what they come to is no reference of these."""
    mean = {"model": "epidemia-baseline", "model_args": {"kind": "mean"}}
    for version, score in ((2, 41.0), (3, 43.0)):
        old = {"versions": {COCAINE: version}}
        write(tmp_path / f"{version}", {COCAINE: (10.0, 3.0)}, **old)
        write(tmp_path / f"mean{version}", {COCAINE: (score, 3.0)}, config=mean, **old)
    cells = {
        (row.model.name, row.chips): row.cells["epidemia_low"]
        for row in model_rows.model_rows(make_report(read_results([tmp_path])), ["epidemia_low"])
    }
    assert cells["some-model", ("task version 2",)].known == 41.0
    assert math.isnan(cells["some-model", ("task version 2",)].guessed)
    # That of today is computed.
    letters = Asked(COCAINE, "letters")
    today = Entry("", scores={letters: TaskScore(0.0)})
    assert cells["some-model", ()].known == known_over(today, [letters])[0]
    shutil.rmtree(tmp_path / "mean2")
    report = make_report(read_results([tmp_path / "2"]))
    (row,) = model_rows.model_rows(report, ["epidemia_low"])
    assert math.isnan(row.cells["epidemia_low"].known)
    (note,) = not_known(report.runs)
    assert "their version or truth is not the installed one" in note


def test_a_long_name_is_cut_off_and_the_longest_is_not():
    assert Entry("m" * LONGEST_NAME).name == "m" * LONGEST_NAME
    assert Entry("m" * (LONGEST_NAME + 1)).name == "m" * (LONGEST_NAME - 1) + "…"


def test_parts_of_a_task_in_several_files_of_a_run_are_one_result(tmp_path, tmp_path_factory):
    """As the jobs of a cluster leave them; a run with noise is another one, whatever it asked."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    noisy = {"model_args": "kind=noisy,noise=0.5"}
    copied_run(tmp_path_factory, whole, [COCAINE], **noisy)
    for number, asked in enumerate(([0, 1, 2, 3, 4], [*range(5, 22)])):
        part = {"samples": {COCAINE: asked}}
        copied_run(tmp_path_factory, parts / f"{number}", [COCAINE], **noisy, **part)
    other = {"model_args": "kind=truth", "samples": {COCAINE: [0, 1]}}
    copied_run(tmp_path_factory, parts / "other", [COCAINE], **other)
    (expected,) = read_results([whole]).entries
    results = read_results([parts])
    _, found = sorted(
        results.entries, key=lambda entry: entry.scores[Asked(COCAINE, "letters")].seen
    )
    assert found.protocol == expected.protocol
    joined, once = (entry.scores[Asked(COCAINE, "letters")] for entry in (found, expected))
    assert joined.metrics.items() >= {"seen": 1.0, "l1": once.l1}.items()
    # A result file has draws with six decimals.
    assert joined.value == once.value and joined.error == pytest.approx(once.error, abs=1e-5)
    assert "1 task put together from 2 files of one run" in " ".join(results.notes)

    first, later = (next((parts / place).rglob("samples_*")) for place in "01")
    doubled = json.loads(first.read_text().splitlines()[0])
    doubled["filtered_resps"] = [["-0.1", "True"], ["-3.0", "False"]]
    later.write_text(later.read_text() + json.dumps(doubled) + "\n")
    assert "answers prompts of the others in another way" in " ".join(read_results([parts]).notes)
    first.unlink()
    said = " ".join(read_results([parts]).notes)
    assert "has no samples: run its part again with --log_samples" in said
