"""README.md: what it shows is what a user gets."""

import re
import shlex
import subprocess
import sys

import pytest
from conftest import REPOSITORY

from lm_eval_epidemia.benchmarks import OBSERVATION, in_way
from lm_eval_epidemia.old.findings.means import group_mean
from lm_eval_epidemia.old.findings.published import published
from lm_eval_epidemia.old.findings.reference import references
from lm_eval_epidemia.results.entry import Asked, Entry, TaskScore

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
    assert len(README.splitlines()) < 90


@pytest.mark.slow  # all of our tasks
def test_its_very_line_runs_beside_another_task(tiny_llama, tmp_path):
    """The command for a model, with the task of the next one that is not ours."""
    rows, task = tmp_path / "rows.json", tmp_path / "tasks" / "stand_in.yaml"
    rows.write_text('[{"q": "2 + 2 =", "c": ["4", "5"], "a": 0}]')
    task.parent.mkdir()
    task.write_text(STAND_IN.format(rows=rows))
    quick, both, beside = re.findall(r"^    (lm_eval --tasks .*)$", README, re.MULTILINE)
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
    ways = ("letters", "likelihood")
    groups = [in_way(group, way) for way in ways for group in ("epidemia_low", "epidemia_high")]
    tasks = [
        Asked(entry.name, way)
        for way in ways
        for entry in OBSERVATION.asked(way)
        if in_way(entry.group, way) in groups
    ]
    (knows,) = references([Entry("", scores=dict.fromkeys(tasks, TaskScore(0.0)))])
    by_name = {one.model: one for one in published(tasks)}
    means = {
        "knows averages only": [knows],
        "Llama 3 8B, Phi 4 (published)": [by_name["LLama3 8B"], by_name["Phi4"]],
    }
    table = {
        cells[0]: cells[1:]
        for line in SCORES.splitlines()
        if line.startswith("| ") and len(cells := [x.strip() for x in line.strip("|").split("|")])
    }
    for name, entries in means.items():
        found = [[group_mean(entry, group) for entry in entries] for group in groups]
        shown = [", ".join(f"{mean.value:.1f}" for mean in each) for each in found]
        assert [cell.split(" ±")[0] for cell in table[name]] == shown
        assert [mean.tasks for each in found for mean in each][:: len(entries)] == [63, 44, 63, 44]
    header = " ".join(table["score, 0 to 100 (tasks)"])
    assert re.findall(r"\((\d+)\)", header) == ["63", "44", "63", "44"]
    quoted = re.findall(r"scores (\d+\.\d).*? and (\d+\.\d)", README.partition("For scale")[2])
    small, large = table["SmolLM2-135M-Instruct"], table["Llama 3 8B, Phi 4 (published)"]
    assert quoted == [
        tuple(cell.split(" ±")[0] for cell in small[:2]),
        tuple(cell.split(",")[0] for cell in large[:2]),
    ]
