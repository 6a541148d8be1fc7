"""Runs in the open: records that Every Eval Ever's schema takes, the Hub's files."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from conftest import REPOSITORY
from report_parts import COCAINE, HEROIN, MMLU, command, write

from lm_eval_epidemia.benchmarks import groups
from lm_eval_epidemia.cli.report import read
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.findings.mean import grouped, mean
from lm_eval_epidemia.report.share import share
from lm_eval_epidemia.results import every_eval_ever as eee
from lm_eval_epidemia.results.card import DatasetCard, Tuned, write_card
from lm_eval_epidemia.results.read import read_results

RESULTS = REPOSITORY / "docs" / "results"
SCHEMA = json.loads(
    (Path(__file__).parent / "data" / "every_eval_ever" / "eval.schema.json").read_text()
)


def records_in(folder):
    return [json.loads(path.read_text()) for path in sorted((folder / "data").rglob("*.json"))]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Letters, likelihoods and a wording of a real model, graphs, priors, a base with adapters."""
    folder = tmp_path_factory.mktemp("shared")
    return folder, share(read([RESULTS]), folder, "me/questions")


def test_records_follow_the_schema(shared):
    folder, done = shared
    records = records_in(folder)
    assert SCHEMA["version"] == records[0]["schema_version"] == "0.3.0"
    assert len(records) == done.records > 20
    for record in records:
        jsonschema.validate(record, SCHEMA)
        rows = record["evaluation_results"]
        means = {row["evaluation_name"] for row in rows if "generation_config" not in row}
        # As the page says: none of the groups of one survey.
        assert means and means <= groups().keys()


def means_of(results):
    """Every mean and error, by name of the run and group."""
    means = mean(grouped(results.scores), ["run", "group"])
    means["run"] = means["run"].map(results.runs["name"])
    return means.set_index(["run", "group"])


def test_a_group_has_its_joint_error_and_bounds(shared):
    ((row, run),) = (
        (row, run)
        for run in records_in(shared[0])
        for row in run["evaluation_results"]
        if row["evaluation_name"] == "epidemia_low"
        if row["score_details"]["details"]["mean_over_tasks"] == "63"
        if "wording" not in run["source_metadata"]["additional_details"]["settings"]
    )
    of, config = row["score_details"], row["metric_config"]
    error = of["uncertainty"]["standard_error"]
    (expected,) = means_of(read_results([RESULTS / "real-model" / "low"])).to_dict("records")
    assert (of["score"], error["value"]) == (expected["value"], expected["error"])
    assert error["method"] == "joint survey replicates"
    ends = of["uncertainty"]["confidence_interval"]
    assert ends["lower"] == expected["value"] - 1.96 * expected["error"]
    assert (config["min_score"], config["max_score"]) == (0.0, 100.0)
    # Countries and years were asked later than the other groups of this run.
    versions = {"name": "transformers", "version": "5.23.0, 5.24.0"}
    assert run["model_info"]["inference_engine"] == versions
    assert row["source_data"]["hf_repo"] == "me/questions"


def test_the_hub_reads_its_files(shared):
    hub = pytest.importorskip("huggingface_hub")
    if not hasattr(hub, "parse_eval_result_entries"):
        pytest.skip("this huggingface_hub knows no .eval_results")
    files = sorted(shared[0].rglob(".eval_results/*.yaml"))
    assert len(files) == shared[1].results
    for path in files:
        listed = yaml.safe_load(path.read_text())
        entries = hub.parse_eval_result_entries(listed)
        assert hub.eval_result_entries_to_yaml(entries) == listed
        # A file is of one run.
        assert len({entry.task_id for entry in entries}) == len(entries)
    model = shared[0] / "HuggingFaceTB" / "SmolLM2-135M-Instruct" / ".eval_results"
    assert (model / "epidemia.yaml").is_file() and len(list(model.iterdir())) > 3


def test_what_must_be_known_of_a_mean_is_in_its_notes(tmp_path):
    tasks = {COCAINE: (40.0, 3.0), HEROIN: (50.0, 4.0)}
    write(tmp_path / "a", tasks, "org/m", "1", metadata={"orderings": "balanced"})
    write(tmp_path / "a", tasks, "org/m", "2", chat_template="{{ x }}")
    # As a --limit of 3 leaves it.
    cut = {
        COCAINE: {"score,none": 30.0, "l1,none": 0.1, "seen,none": 0.3, "choice_mass,none": 0.01}
    }
    write(tmp_path / "a", cut, "org/m", "3", config={"limit": 3.0})
    report = read([tmp_path / "a"])
    done = share(report, tmp_path / "out", "me/questions")
    assert (done.records, done.results) == (3, 3)
    notes = {
        entry["notes"]
        for path in (tmp_path / "out" / "org" / "m").rglob("*.yaml")
        for entry in yaml.safe_load(path.read_text())
    }
    assert notes == {
        "Score, 0 to 100; ± 2.5, joint survey replicates; balanced orderings; 2 of 63 tasks",
        "Score, 0 to 100; ± 2.5, joint survey replicates; chat template; 2 of 63 tasks",
        "Score, 0 to 100; limit 3; 1 of 63 tasks; the model does not answer, so its score does "
        "not show its knowledge",
    }


def test_of_several_runs_of_a_model_the_one_that_answered_most_has_the_plain_name(tmp_path):
    cut = {"config": {"limit": 10}, "metadata": {"wording": "bare"}}
    write(tmp_path / "cut", {COCAINE: (40.0, 3.0)}, "org/m", date=9.0, **cut)
    write(tmp_path / "a", {COCAINE: (60.0, 3.0), HEROIN: (50.0, 3.0)}, "org/m", date=5.0)
    write(tmp_path / "b", {COCAINE: (60.0, 3.0)}, "org/m", metadata={"orderings": "balanced"})
    share(read_results([tmp_path]), tmp_path / "shared", "me/questions")
    (first,) = yaml.safe_load((tmp_path / "shared/org/m/.eval_results/epidemia.yaml").read_text())
    assert first["value"] == 55.0


def notes_in(folder):
    """The notes for the Hub, by model and group."""
    return {
        (str(path.parent.parent.relative_to(folder)), entry["dataset"]["task_id"]): entry["notes"]
        for path in sorted(folder.rglob(".eval_results/*.yaml"))
        for entry in yaml.safe_load(path.read_text())
    }


def test_the_notes_for_the_hub_say_what_the_number_is(shared):
    notes = notes_in(shared[0])
    model = "HuggingFaceTB/SmolLM2-135M-Instruct"
    graphs, wins = notes[model, "epidemia_intervention"], notes[model, "epidemia_prior_grid"]
    assert graphs.startswith("Accuracy on causal graphs; chat template")
    assert wins.startswith("Share of quantities on which stated priors beat five real answers; ± ")


def test_a_run_whose_replies_cannot_be_read_says_so(shared):
    """Its 0 is that of a reply which says nothing, not of what the model knows."""
    notes = notes_in(shared[0])["HuggingFaceTB/SmolLM2-135M-Instruct", "epidemia_prior"]
    said = "only 0% of the replies could be read, so the score does not show the model's knowledge"
    assert notes.endswith(said)
    (record,) = (
        row["score_details"]["details"]["notes"]
        for run in records_in(shared[0])
        for row in run["evaluation_results"]
        if row["evaluation_name"] == "epidemia_prior"
    )
    assert record.endswith(said)


def test_settings_in_words_do_not_depend_on_what_is_shared_beside(tmp_path):
    """Every argument of the model is named, and its dtype where the file tells it."""
    rows, args = {COCAINE: (40.0, 3.0)}, {"pretrained": "org/m", "dtype": "float32", "top": "1"}
    write(tmp_path / "a", rows, stamp="1", config={"model_args": args})
    write(tmp_path / "a", rows, "org/untold", "2")
    share(read([tmp_path / "a"]), tmp_path / "alone", "me/questions")
    other = {"model_args": {**args, "dtype": "bfloat16"}}
    write(tmp_path / "a", rows, stamp="3", config=other)
    share(read([tmp_path / "a"]), tmp_path / "beside", "me/questions")
    names = [
        {path.name for path in (tmp_path / out).rglob("org/m/*.json")}
        for out in ("alone", "beside")
    ]
    assert names[0] < names[1] and len(names[1]) == 2
    alone = notes_in(tmp_path / "alone")
    assert alone["org/m", "epidemia_low"].endswith("; float32; top=1; 1 of 63 tasks")
    assert alone["org/untold", "epidemia_low"].endswith("replicates; 1 of 63 tasks")


@pytest.fixture
def tuned(tmp_path):
    """A base, and an adapter that was trained on one of two tasks, its card beside its results."""
    tasks, base = {COCAINE: (40.0, 3.0), HEROIN: (50.0, 4.0)}, "/home/anna/models/base"
    write(tmp_path / "a" / "base", tasks, base, "1")
    arguments = {"pretrained": base, "peft": "tuned/adapter"}
    write(tmp_path / "a" / "adapter", tasks, stamp="2", config={"model_args": arguments})
    dataset = DatasetCard("answers", "nsduh", "2022", "x", 1, {"train": 100}, [COCAINE])
    card = Tuned(base, "lora", dataset, {"lr": 1.0}, 40, 20, 0.6, 0.7)
    write_card(tmp_path / "a" / "adapter", card)
    return tmp_path / "a"


def test_what_a_model_was_trained_on_is_shared(tuned, tmp_path):
    out = tmp_path / "out"
    done = share(read([tuned]), out, "me/questions")
    notes = notes_in(out)
    said = "joint survey replicates; trained on 1 of these 2 tasks; 2 of 63 tasks"
    assert said in notes["tuned/adapter", "epidemia_low"]
    assert "trained" not in notes["base", "epidemia_low"]
    for record in records_in(out):
        jsonschema.validate(record, SCHEMA)
        details = record["evaluation_results"][0]["score_details"]["details"]
        assert (said in details["notes"]) == ("adapter" in record["model_info"]["name"])
    assert not any("anna" in p.read_text() for p in out.rglob("*") if p.is_file())
    # What it is taken for.
    (line,) = done.lines
    assert "tuned/adapter is assumed to be a model on the Hub: if it is a folder" in line


@pytest.mark.parametrize(
    ("name", "public"),
    [
        ("org/model", "org/model"),
        # As lm-eval takes it, whatever folders there are.
        ("tuned/x", "tuned/x"),
        ("./tuned/x", "x"),
        ("runs/tuned/x", "x"),
        ("/home/anna/x/", "x"),
    ],
)
def test_a_name_of_two_parts_is_one_on_the_hub(name, public):
    assert eee.public(name) == public


def test_each_score_has_the_date_of_its_own_result_file(tmp_path):
    """A run is put together from files of several days; the newest does not date all of it."""
    day = 86_400.0
    write(tmp_path / "a", {COCAINE: (40.0, 3.0)}, "org/m", "1", date=day)
    write(tmp_path / "a", {f"{HEROIN}_likelihood": (50.0, 4.0)}, "org/m", "2", date=3 * day)
    share(read([tmp_path / "a"]), tmp_path / "out", "me/questions")
    (record,) = records_in(tmp_path / "out")
    jsonschema.validate(record, SCHEMA)
    dates = {
        row["evaluation_name"]: row["evaluation_timestamp"] for row in record["evaluation_results"]
    }
    assert dates == {
        **dict.fromkeys(("epidemia_low", COCAINE), "86400"),
        **dict.fromkeys(("epidemia_low_likelihood", f"{HEROIN}_likelihood"), "259200"),
    }
    assert record["evaluation_timestamp"] == "259200"
    (path,) = tmp_path.rglob("epidemia.yaml")
    dated = {entry["dataset"]["task_id"]: entry["date"] for entry in yaml.safe_load(path.open())}
    assert dated == {"epidemia_low": "1970-01-02", "epidemia_low_likelihood": "1970-01-04"}


def test_doubts_are_marked_or_refused(tmp_path):
    write(tmp_path / "a", {COCAINE: (40.0, 3.0)}, "org/twice", "1")
    write(tmp_path / "a", {COCAINE: (44.0, 3.0)}, "org/twice", "2", date=2.0)
    report = read([tmp_path / "a"])
    done = share(report, tmp_path / "out", "me/questions")
    assert done.records == 1
    (path,) = tmp_path.rglob("epidemia.yaml")
    assert "other results with the same settings differ by 4.0" in path.read_text()
    # Scores that are not those of their distances.
    write(tmp_path / "edited", {COCAINE: {"score,none": 95.0, "l1,none": 0.3, "seen,none": 1.0}})
    with pytest.raises(EpidemiaError, match=r"do not match their distances \(‡, in epidemia_low"):
        share(read([tmp_path / "edited"]), tmp_path / "out")


def test_nothing_of_the_machine_is_shared(tmp_path):
    arguments = {
        "model": "org/m",
        "tokenizer": "/home/anna/tok",
        "base_url": "http://anna:pw1@host:8000/v1/chat/completions?key=pw2",
        "header": "pw3",
        "api_key": "pw4",
        "device": "cuda:7",
    }
    config = {"model": "local-chat-completions", "model_args": arguments}
    rows = {COCAINE: (40.0, 3.0)}
    write(tmp_path / "a", rows, stamp="1", config=config)
    write(tmp_path / "a", rows, "/home/anna/models/mine", "2")
    other = {**config, "model_args": {**arguments, "base_url": "http://other/v1/chat/completions"}}
    write(tmp_path / "a", rows, stamp="3", config=other)
    report = read([tmp_path / "a"])
    assert share(report, tmp_path / "out", "me/questions").records == 3
    texts = [p.read_text() for p in (tmp_path / "out").rglob("*") if p.is_file()]
    for secret in ("anna", "pw1", "pw2", "pw3", "pw4", "cuda:7"):
        assert not any(secret in text for text in texts), secret
    assert (tmp_path / "out" / "data" / "lm-eval-epidemia" / "unknown" / "mine").is_dir()
    # What would be one run without its folder is none.
    write(tmp_path / "a", rows, "/srv/mine", "4")
    report = read([tmp_path / "a"])
    done = share(report, tmp_path / "more")
    assert done.records == 2 and sum("only in folders" in line for line in done.lines) == 2


def test_the_command(tmp_path, monkeypatch):
    folder = tmp_path / "shared"
    said = command("share", RESULTS / "wording" / "high-bare", folder)
    assert "1 record of Every Eval Ever: " in said and "no .eval_results" in said
    assert not list(folder.rglob("*.yaml"))
    with_hub = command(
        "share", RESULTS / "wording" / "high-bare", folder, "--dataset", "me/questions"
    )
    assert "1 file for the models' repositories" in with_hub
    assert len(list(folder.rglob("*.json"))) == 1  # of the write before, nothing is left
    with pytest.raises(EpidemiaError, match=r"holds no results_\*\.json"):
        command("report", folder)
    with pytest.raises(EpidemiaError, match="is no run to share"):
        command("share", RESULTS / "real-model" / "mean", tmp_path / "none")
    write(tmp_path / "others", MMLU)
    with pytest.raises(EpidemiaError, match="is no run to share"):
        command("share", tmp_path / "others", tmp_path / "none")
    # Before any result is read.
    (tmp_path / "mine.txt").write_text("mine")
    monkeypatch.setattr("lm_eval_epidemia.cli.report.read", lambda *_, **__: pytest.fail("late"))
    with pytest.raises(EpidemiaError, match="expected an id on the Hub, OWNER/NAME"):
        command("share", RESULTS / "wording" / "high-bare", folder, "--dataset", "questions")
    with pytest.raises(EpidemiaError, match="holds other files"):
        command("share", RESULTS / "wording" / "high-bare", tmp_path)
