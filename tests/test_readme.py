"""README.md: what it shows is what a user gets."""

import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
from conftest import REPOSITORY

from lm_eval_epidemia.benchmarks import WAYS
from lm_eval_epidemia.benchmarks.observation import OBSERVATION
from lm_eval_epidemia.benchmarks.observation.measured import part_of
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.results.published import find_observed
from lm_eval_epidemia.score.score import answer_marginal

README = (REPOSITORY / "README.md").read_text()
SCORES = (REPOSITORY / "docs" / "start" / "reading-a-score.md").read_text()

#: A task of other people's, as MMLU is one.
STAND_IN = """task: stand_in
dataset_path: json
dataset_kwargs:
  data_files:
    test: {rows}
test_split: test
output_type: multiple_choice
doc_to_text: q
doc_to_choice: c
doc_to_target: a
metric_list:
  - metric: acc
"""


def test_it_is_short():
    assert len(README.splitlines()) < 80


@pytest.mark.slow  # all of our tasks
def test_its_very_line_runs_beside_another_task(tiny_llama, tmp_path):
    """The command for a model, with the task of the next one that is not ours."""
    rows, task = tmp_path / "rows.json", tmp_path / "tasks" / "stand_in.yaml"
    rows.write_text('[{"q": "2 + 2 =", "c": ["4", "5"], "a": 0}]')
    task.parent.mkdir()
    task.write_text(STAND_IN.format(rows=rows))
    quick, both, beside = re.findall(r"^    (lm_eval .*)$", re.sub(r"\\\n\s*", "", README), re.M)
    assert quick.startswith("lm_eval --tasks epidemia_quick --model choice-hf")
    assert both.startswith("lm_eval --tasks epidemia_low,epidemia_high --model choice-hf")
    assert beside.startswith("lm_eval --tasks epidemia_low,epidemia_high,mmlu --model vllm")
    assert all("--apply_chat_template" in line for line in (quick, both, beside))
    line = both.replace("epidemia_high", "epidemia_high,stand_in", 1)
    line = line.replace("$MODEL", str(tiny_llama)).replace("results/", str(tmp_path / "results"))
    more = ["--limit", "1", "--device", "cpu", "--include_path", str(task.parent)]
    command = [sys.executable, "-m", *shlex.split(line), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    groups = done.stdout[done.stdout.index(" Groups ") :]
    assert "|epidemia_low " in groups and "|epidemia_high " in groups
    assert "|stand_in" in done.stdout


def test_its_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(targets) > 10 and not [one for one in targets if not (REPOSITORY / one).exists()]


def test_its_scores_are_of_the_same_whole_tasks():
    """Scores so far: averages and published models over all tasks that ship; README quotes them."""
    asked = [
        (g, way) for way in ("letters", "likelihood") for g in ("epidemia_low", "epidemia_high")
    ]
    groups = [
        [entry.name for entry in OBSERVATION.asked(way) if entry.group == group]
        for group, way in asked
    ]

    def averages_known(task, way):
        """Score telling everybody's answers, as one is told in this way."""
        part = part_of(store.load_truth(task))
        told = WAYS[way].told(answer_marginal(part.truth.weights, part.truth.p)[0])
        return float(part.score_of(part.distance(np.broadcast_to(told, part.p.shape))))

    averages = [
        [averages_known(task, way) for task in of]
        for of, (_, way) in zip(groups, asked, strict=True)
    ]
    scores = {(task, way, model): score for task, way, model, score, _ in find_observed()}
    means = {"knows averages only": [averages]} | {
        "Llama 3 8B, Phi 4 (published)": [
            [
                [scores[task, way, model] for task in of if (task, way, model) in scores]
                for of, (_, way) in zip(groups, asked, strict=True)
            ]
            for model in ("LLama3 8B", "Phi4")
        ]
    }
    table = {
        cells[0]: cells[1:]
        for line in SCORES.splitlines()
        if line.startswith("| ") and len(cells := [x.strip() for x in line.strip("|").split("|")])
    }
    for name, models in means.items():
        shown = [
            ", ".join(f"{np.mean(of):.1f}" for of in each) for each in zip(*models, strict=True)
        ]
        assert [cell.split(" ±")[0] for cell in table[name]] == shown
        assert [len(of) for of in models[0]] == [63, 44, 63, 44]
    header = " ".join(table["score, 0 to 100 (tasks)"])
    assert re.findall(r"\((\d+)\)", header) == ["63", "44", "63", "44"]
    quoted = re.findall(r"scores (\d+\.\d).*? and (\d+\.\d)", README.partition("For scale")[2])
    small, large = table["SmolLM2-135M-Instruct"], table["Llama 3 8B, Phi 4 (published)"]
    assert quoted == [
        tuple(cell.split(" ±")[0] for cell in small[:2]),
        tuple(cell.split(",")[0] for cell in large[:2]),
    ]
