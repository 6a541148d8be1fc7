"""README.md: what it shows is what a user gets."""

import re
import shlex
import subprocess
import sys

import pytest
from conftest import REPOSITORY

README = (REPOSITORY / "README.md").read_text()

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
    assert len(README.splitlines()) < 120


def test_its_python_runs():
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "30-34" in done.stdout and "score" in done.stdout.lower()


def test_its_very_lines_run_beside_another_task(tiny_llama, tmp_path):
    """Both lines of "Run a model", the second with `hf`, and a task that stands for MMLU."""
    rows, task = tmp_path / "rows.json", tmp_path / "tasks" / "stand_in.yaml"
    rows.write_text('[{"q": "2 + 2 =", "c": ["4", "5"], "a": 0}]')
    task.parent.mkdir()
    task.write_text(STAND_IN.format(rows=rows))
    first, second = re.findall(r"^    (lm_eval --tasks .*)$", README, re.MULTILINE)
    assert "--model hf" in first and "mmlu" in second
    shown = []
    for line in (first, second):
        words = shlex.split(
            line.replace("MODEL", str(tiny_llama))
            .replace("--model vllm", "--model hf")
            .replace("mmlu", "stand_in")
            .replace("results/", str(tmp_path / "results"))
        )
        more = ["--limit", "2", "--device", "cpu", "--include_path", str(task.parent)]
        done = subprocess.run(
            [sys.executable, "-m", *words, *more], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        shown.append(done.stdout)
    for table in shown:
        groups = table[table.index(" Groups ") :]
        assert "|epidemia_low " in groups and "|epidemia_high " in groups
    assert "|stand_in" in shown[1] and "|stand_in" not in shown[0]


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#:]+)\)", README))
def test_its_links_lead_somewhere(target):
    assert (REPOSITORY / target).exists()
