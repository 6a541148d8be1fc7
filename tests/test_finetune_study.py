"""The study from the command line, in a minute: dataset, training, plain lm_eval, the report."""

import csv
import json
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("trl")

GROUP = "epidemia_low_nsduh"


def run(*words, folder, module="lm_eval_epidemia.cli"):
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, words)], cwd=folder, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def study(tiny_llama, tmp_path_factory):
    """A folder with a base, two trainings and results of all three."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "tiny").symlink_to(tiny_llama)
    said = {}
    for kind, held_out in (("distributions", "cells=0.25"), ("answers", "conditions=race")):
        run("finetune", "notes", "nsduh", "--kind", kind, "--tasks", GROUP, "--seed", 3,
            "--hold-out", held_out, "--out", f"data/{kind}",
            *(["--n", 400] if kind == "answers" else []), folder=folder)  # fmt: skip
        said[kind] = run(
            "finetune", "train", "--model", "tiny", "--data", f"data/{kind}", "--out",
            f"tuned/{kind}", "--lr", 1e-2, "--epochs", 40 if kind == "distributions" else 4,
            *(["--lora", "r=8"] if kind == "distributions" else ["--full"]), folder=folder,
        )  # fmt: skip
    for arguments in (
        "pretrained=tiny", "pretrained=tiny,peft=tuned/distributions", "pretrained=tuned/answers"
    ):  # fmt: skip
        run("run", "--model", "choice-hf", "--model_args", f"{arguments},dtype=float32", "--tasks",
            f"{GROUP},{GROUP}_likelihood", "--output_path", "results", "--log_samples",
            "--device", "cpu", "--batch_size", 16, folder=folder, module="lm_eval")  # fmt: skip
    return folder, said


def test_training_says_what_to_run_next(study):
    folder, said = study
    assert "--model_args pretrained=tiny,peft=tuned/distributions" in said["distributions"]
    assert "--model_args pretrained=tuned/answers" in said["answers"]
    for name in ("distributions", "answers"):
        assert {path.name for path in (folder / "tuned" / name).iterdir()} >= {
            "epidemia_finetune.json", "losses.csv", "losses.svg",
        }  # fmt: skip


def test_before_and_after_in_the_report(study):
    folder, _ = study
    rows = list(csv.DictReader(run("report", "results", "--format", "csv", folder=folder)
                               .splitlines()))  # fmt: skip
    tuning = [row for row in rows if row["base"] == "tiny"]
    assert {row["data"].split()[0] for row in tuning} == {"distributions", "answers"}
    found = json.loads(run("report", "results", "--format", "json", folder=folder))
    text = json.dumps(found)
    assert "held-out cells" in text and "held out" in text


def test_the_positive_control_rises_and_the_way_not_trained_is_asked_too(study):
    folder, _ = study
    scores = {}
    for path in (folder / "results").rglob("results_*.json"):
        read = json.loads(path.read_text())
        name = str(read["config"]["model_args"])
        for group, of in read["groups"].items():
            scores[group, "peft" in name, "tuned/answers" in name] = of["score,none"]
    assert scores[GROUP, False, False] == 0
    # Three quarters of the cells are trained on.
    assert scores[GROUP, True, False] > 60
    assert (f"{GROUP}_likelihood", True, False) in scores


def test_the_site_has_a_page_of_it(study):
    folder, _ = study
    run("report", "results", "--html", "site", folder=folder)
    page = (folder / "site" / "tuning.html").read_text()
    assert "distributions" in page and "answers" in page
