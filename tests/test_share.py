"""Runs in the open: records that Every Eval Ever's schema takes, the Hub's files."""

import json
import re
from types import SimpleNamespace

import jsonschema
import pytest
import yaml
from conftest import REPOSITORY
from report_parts import COCAINE, HEROIN, MMLU, command, write

from lm_eval_epidemia.benchmarks import list_groups
from lm_eval_epidemia.cli.report import read_runs
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.findings.mean import average, group_scores
from lm_eval_epidemia.report.share import share_runs
from lm_eval_epidemia.results import every_eval_ever as eee
from lm_eval_epidemia.results.card import DatasetCard, Tuned, write_card

RESULTS = REPOSITORY / "docs" / "results"
SCHEMA = json.loads((REPOSITORY / "tests/data/every_eval_ever/eval.schema.json").read_text())
SMOL = "HuggingFaceTB/SmolLM2-135M-Instruct"
ONE, TWO = {COCAINE: (40.0, 3.0)}, {COCAINE: (40.0, 3.0), HEROIN: (50.0, 4.0)}


def shared(out, *sources):
    """Share results; check every record, and list what the Hub gets, by model and group."""
    done = share_runs(read_runs([*sources]), out, "me/questions")
    records = {path.name: json.loads(path.read_text()) for path in out.glob("data/**/*.json")}
    assert len(records) == done.records
    for record in records.values():
        jsonschema.validate(record, SCHEMA)
    files = {path: yaml.safe_load(path.read_text()) for path in out.rglob(".eval_results/*.yaml")}
    assert len(files) == done.results
    entries = {
        (str(path.parents[1].relative_to(out)), entry["dataset"]["task_id"], path.stem): entry
        for path, entries in files.items()
        for entry in entries
    }
    return SimpleNamespace(lines=done.lines, records=records, files=files, entries=entries)


def rows_of(record):
    return {row["evaluation_name"]: row for row in record["evaluation_results"]}


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Letters and likelihoods of a real model, graphs, priors."""
    sources = (RESULTS / name for name in ("real-model", "interventions", "priors"))
    return shared(tmp_path_factory.mktemp("shared"), *sources)


def test_records_of_real_runs_have_joint_errors_bounds_and_what_is_to_be_known(real):
    for record in real.records.values():
        assert record["schema_version"] == SCHEMA["version"]
        means = {name for name, row in rows_of(record).items() if "generation_config" not in row}
        # As the page says: none of the groups of one survey.
        assert means and means <= list_groups().keys()
    own = [of for of in real.records.values() if of["model_info"]["id"] == SMOL]
    (run,) = (of for of in own if "epidemia_low" in rows_of(of))
    row = rows_of(run)["epidemia_low"]
    of, config = row["score_details"], row["metric_config"]
    scores = group_scores(read_runs([RESULTS / "real-model" / "low"]).scores)
    ((value, error),) = average(scores, ["run", "group"])[["value", "error"]].to_numpy()
    assert (of["score"], config["min_score"], config["max_score"]) == (value, 0.0, 100.0)
    said, ends = (of["uncertainty"][key] for key in ("standard_error", "confidence_interval"))
    assert said == {"value": error, "method": "joint survey replicates"}
    assert (ends["lower"], ends["upper"]) == (value - 1.96 * error, value + 1.96 * error)
    # Countries and years were asked later than the other groups of this run.
    assert run["model_info"]["inference_engine"]["version"] == "5.23.0, 5.24.0"
    assert row["source_data"]["hf_repo"] == "me/questions"
    notes = {key[1]: entry["notes"] for key, entry in real.entries.items() if key[0] == SMOL}
    assert notes["epidemia_intervention"].startswith("Accuracy on causal graphs; chat template")
    # Its 0 is that of a reply which says nothing, not of what the model knows.
    said = "only 0% of the replies could be read, so the score does not show the model's knowledge"
    assert notes["epidemia_prior"].endswith(said)


def test_the_hub_reads_its_files(real):
    hub = pytest.importorskip("huggingface_hub")
    if not hasattr(hub, "parse_eval_result_entries"):
        pytest.skip("this huggingface_hub knows no .eval_results")
    for listed in real.files.values():
        entries = hub.parse_eval_result_entries(listed)
        assert hub.eval_result_entries_to_yaml(entries) == listed
        # A file is of one run.
        assert len({entry.task_id for entry in entries}) == len(entries)


def test_notes_say_how_it_was_asked_and_who_answered_most_has_the_plain_name(tmp_path):
    # As a --limit of 3 leaves it.
    cut = {"score,none": 30.0, "l1,none": 0.1, "seen,none": 0.3, "choice_mass,none": 0.01}
    write(tmp_path / "a", {COCAINE: cut}, "org/m", "0", date=9.0, config={"limit": 3.0})
    write(tmp_path / "a", TWO, "org/m", "1", metadata={"orderings": "balanced"})
    write(tmp_path / "a", ONE, "org/twice", "2", chat_template="{{ x }}")
    write(tmp_path / "a", {COCAINE: (44.0, 3.0)}, "org/twice", "3", chat_template="{{ x }}", date=2)
    args = {"pretrained": "org/m", "dtype": "float32", "top": "1"}
    write(tmp_path / "a", ONE, stamp="4", config={"model_args": args})
    made = shared(tmp_path / "out", tmp_path / "a")
    assert {entry["notes"] for entry in made.entries.values()} == {
        "Score, 0 to 100; ± 2.5, joint survey replicates; balanced orderings; 2 of 63 tasks",
        "Score, 0 to 100; ± 3.0, joint survey replicates; chat template; 1 of 63 tasks; other "
        "results with the same settings differ by 4.0",
        "Score, 0 to 100; limit 3; 1 of 63 tasks; the model does not answer, so its score does "
        "not show its knowledge",
        "Score, 0 to 100; ± 3.0, joint survey replicates; float32; top=1; 1 of 63 tasks",
    }
    assert made.entries["org/m", "epidemia_low", "epidemia"]["value"] == 45.0
    # What is said of a run does not depend on what is shared beside.
    write(tmp_path / "a", ONE, stamp="5", config={"model_args": {**args, "dtype": "bfloat16"}})
    assert {*made.records} < {*shared(tmp_path / "beside", tmp_path / "a").records}


def test_what_a_model_was_trained_on_is_shared_and_nothing_of_the_machine(tmp_path):
    base, folder = "/home/anna/models/base", tmp_path / "a"
    arguments = {"model": "org/m", "tokenizer": "/home/anna/tok", "device": "cuda:7"}
    arguments |= {"header": "pw3", "api_key": "pw4"}
    for stamp, host in enumerate(("anna:pw1@host:8000", "other")):
        url = f"http://{host}/v1/chat/completions?key=pw2"
        config = {"model": "local-chat-completions", "model_args": {**arguments, "base_url": url}}
        write(folder, ONE, stamp=stamp, config=config)
    write(folder / "base", TWO, base)
    tuned = {"model_args": {"pretrained": base, "peft": "tuned/adapter"}}
    write(folder / "adapter", TWO, config=tuned)
    dataset = DatasetCard("answers", "nsduh", "2022", "x", 1, {"train": 100}, [COCAINE])
    write_card(folder / "adapter", Tuned(base, "lora", dataset, {"lr": 1.0}, 40, 20, 0.6, 0.7))
    made = shared(tmp_path / "out", folder)
    said = made.entries["tuned/adapter", "epidemia_low", "epidemia"]["notes"]
    assert "joint survey replicates; trained on 1 of these 2 tasks; 2 of 63 tasks" in said
    for record in made.records.values():
        notes = rows_of(record)["epidemia_low"]["score_details"]["details"]["notes"]
        assert ("trained" in notes) == ("adapter" in record["model_info"]["name"])
    # What it is taken for.
    (line,) = made.lines
    assert "tuned/adapter is assumed to be a model on the Hub: if it is a folder" in line
    texts = [path.read_text() for path in (tmp_path / "out").rglob("*") if path.is_file()]
    for secret in ("anna", "pw1", "pw2", "pw3", "pw4", "cuda:7"):
        assert not any(secret in text for text in texts), secret
    assert len(made.records) == 4
    assert (tmp_path / "out/data/lm-eval-epidemia/unknown/base").is_dir()
    # What would be one run without its folder is none.
    write(folder, ONE, "/srv/base", "5")
    done = share_runs(read_runs([folder]), tmp_path / "more")
    assert done.records == 3 and sum("only in folders" in line for line in done.lines) == 2
    # A name of two parts is one on the Hub, as lm-eval takes it, whatever folders there are.
    names = ("org/m", "tuned/x", "./tuned/x", "runs/tuned/x", "/home/anna/x/")
    assert [*map(eee.hide_paths, names)] == ["org/m", "tuned/x", "x", "x", "x"]


def test_each_score_has_the_date_of_its_own_result_file(tmp_path):
    """A run is put together from files of several days; the newest does not date all of it."""
    for day, tasks in ((1, ONE), (3, {f"{HEROIN}_likelihood": (50.0, 4.0)})):
        write(tmp_path / "a", tasks, "org/m", day, date=86_400.0 * day)
    made = shared(tmp_path / "out", tmp_path / "a")
    (record,) = made.records.values()
    dates = {name: row["evaluation_timestamp"] for name, row in rows_of(record).items()}
    first, later = ("epidemia_low", COCAINE), ("epidemia_low_likelihood", f"{HEROIN}_likelihood")
    assert dates == dict.fromkeys(first, "86400") | dict.fromkeys(later, "259200")
    assert record["evaluation_timestamp"] == "259200"
    dates = {key[1]: entry["date"] for key, entry in made.entries.items()}
    assert dates == {first[0]: "1970-01-02", later[0]: "1970-01-04"}


def test_the_command(tmp_path, monkeypatch):
    folder, source = tmp_path / "shared", RESULTS / "wording" / "high-bare"
    assert "no .eval_results" in command("share", source, folder)
    assert not [*folder.rglob("*.yaml")]
    said = command("share", source, folder, "--dataset", "me/questions")
    assert "1 record of Every" in said and "1 file for the models' repositories" in said
    assert len([*folder.rglob("*.json")]) == 1  # of the write before, nothing is left
    with pytest.raises(EpidemiaError, match=r"holds no results_\*\.json"):
        command("report", folder)
    write(tmp_path / "others", MMLU)
    edited = {"score,none": 95.0, "l1,none": 0.3, "seen,none": 1.0}
    write(tmp_path / "edited", {COCAINE: edited})
    for none, said in (
        (RESULTS / "real-model" / "mean", "reference respondent"),
        (tmp_path / "others", "no score in an epidemia task"),
        (tmp_path / "edited", "do not match their distances (‡, in epidemia_low)"),
    ):
        with pytest.raises(EpidemiaError, match=f"is no run to share(.|\n)*{re.escape(said)}"):
            command("share", none, tmp_path / "none")
    # Before any result is read.
    (tmp_path / "mine.txt").write_text("mine")
    monkeypatch.setattr(
        "lm_eval_epidemia.cli.report.read_runs", lambda *_, **__: pytest.fail("late")
    )
    with pytest.raises(EpidemiaError, match="holds other files"):
        command("share", source, tmp_path)
