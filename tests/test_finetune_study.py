"""The study from the command line, in a minute: dataset, training, plain lm_eval, the report."""

import csv
import json
import subprocess
import sys

import pytest
from conftest import REPOSITORY, people_2022
from test_huggingface import lm_eval
from typer.testing import CliRunner

from lm_eval_epidemia.cli import app

pytest.importorskip("torch")
pytest.importorskip("trl")

pytestmark = pytest.mark.slow

#: Cocaine by age and by race.
TASKS = "epidemia_low_nsduh_cocaine_ever_by_race,epidemia_low_nsduh_cocaine_ever_by_age"


def epidemia(line):
    done = CliRunner().invoke(app, line.split(), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def study(tiny_llama, tmp_path_factory):
    """A folder with a base, an adapter, tuned weights, and the results of all three."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "tiny").symlink_to(tiny_llama)
    said = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        made = f"finetune notes nsduh --tasks {TASKS} --seed 3"
        train = "finetune train --model tiny --lr 1e-2"
        how = f"--tasks {TASKS},epidemia_low_nsduh_cocaine_ever_by_race_likelihood --log_samples"
        how += " --output_path results --device cpu --batch_size 16 --model choice-hf --model_args"
        epidemia(f"{made} --kind distributions --hold-out cells=0.25 --out data/p")
        epidemia(f"{made} --kind answers --n 300 --hold-out conditions=race --out data/y")
        said["lora"] = epidemia(f"{train} --data data/p --out tuned/p --lora r=8 --epochs 40")
        said["full"] = epidemia(f"{train} --data data/y --out tuned/y --full --epochs 3")
        for arguments in ("pretrained=tiny", "pretrained=tiny,peft=tuned/p", "pretrained=tuned/y"):
            lm_eval(*how.split(), f"{arguments},dtype=float32")
        yield folder, said


def test_training_says_what_to_run_next(study):
    folder, said = study
    assert "--model_args pretrained=tiny,peft=tuned/p " in said["lora"]
    assert "--model_args pretrained=tuned/y " in said["full"]
    for name in ("p", "y"):
        left = {path.name for path in (folder / "tuned" / name).iterdir()}
        assert left >= {"epidemia_finetune.json", "losses.csv", "losses.svg"}


def test_the_positive_control_learns_what_it_is_shown(study):
    """And the report has before, after and what was held out, of both tuned models."""
    text = epidemia("report results --show tuning --format csv")
    rows = [row for row in csv.DictReader(text.splitlines()) if row["base"].startswith("tiny")]
    assert {row["model"].split("(")[0].strip() for row in rows} >= {"tiny +p", "y"}
    parts = {(row["trained_on"].split(",")[0], row["part"]) for row in rows}
    assert ("distributions", "held-out cells") in parts and ("answers", "held out") in parts
    score = {}
    for path in (study[0] / "results").rglob("results_*.json"):
        read = json.loads(path.read_text())
        for task, of in read["results"].items():
            model = read["config"]["model_args"]
            score[task, model["pretrained"], model.get("peft")] = of
    epidemia("report results --html site")
    page = (study[0] / "site" / "finding-tuning.html").read_text()
    assert "distributions" in page and "answers" in page
    for task in TASKS.split(","):
        before, after = (score[task, "tiny", peft]["score,none"] for peft in (None, "tuned/p"))
        assert before < 5 < 40 < after


def test_the_script_of_the_study_goes_on_and_its_seeds_are_one_row(tiny_llama, tmp_path):
    """The second call makes one seed more, and touches nothing of the first."""
    people_2022().to_parquet(tmp_path / "NSDUH_2022_invented.parquet")
    script = REPOSITORY / "benchmarks" / "finetuning_seeds.py"
    line = f"{script} out --model {tiny_llama} --raw NSDUH_2022_invented.parquet --n 40"
    train = ["--train", "--lora r=4 --epochs 1 --lr 1e-2"]
    kept = {}
    for seeds in (["1"], ["1", "2"]):
        words = [sys.executable, *line.split(), "--per-person", "2", *train, "--seeds", *seeds]
        done = subprocess.run(words, cwd=tmp_path)
        assert done.returncode == 0
        times = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("results_*.json")}
        assert len(times) == 1 + len(seeds) and kept.items() <= times.items()
        kept = times
    said = epidemia(f"report {tmp_path}/out/results --show tuning --format csv")
    rows = [row for row in csv.DictReader(said.splitlines()) if row["seeds"] == "2"]
    assert {row["tasks"] for row in rows if row["part"] == "all"} == {"6"}
