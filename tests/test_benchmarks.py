"""Room for more: a way of asking and a benchmark are a file and a line each.

A copy of the package gets the toys of ``tests/toy``, as docs/adding-a-way.md says, and is then used
as a user would: task files, lm-eval, report, site.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY

TOY = Path(__file__).parent / "toy"


def with_change(path, *changes):
    text = path.read_text()
    for before, after in changes:
        assert text.count(before) == 1, (path, before)
        text = text.replace(before, after)
    path.write_text(text)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package with the toys in it."""
    root = tmp_path_factory.mktemp("toy")
    for name in ("lm_eval_epidemia", "groundtruth", "pyproject.toml"):
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, root / name)
    ours = root / "lm_eval_epidemia"
    # A way of asking is a file and a line, a benchmark a folder and a line.
    shutil.copy(TOY / "numbered.py", ours / "benchmarks" / "observation")
    shutil.copytree(TOY / "coins", ours / "benchmarks" / "coins")
    with_change(
        ours / "benchmarks" / "observation" / "ways.py",
        ("import letters,", "import letters, numbered,"),
        ("written.RAG\n", "written.RAG, numbered.WAY\n"),
    )
    with_change(
        ours / "benchmarks" / "__init__.py",
        (
            "from lm_eval_epidemia.benchmarks.prior import",
            "from lm_eval_epidemia.benchmarks.coins import COINS\n"
            "from lm_eval_epidemia.benchmarks.prior import",
        ),
        ("(OBSERVATION, INTERVENTION, PRIOR)", "(OBSERVATION, INTERVENTION, PRIOR, COINS)"),
    )
    epidemia(root, "tasks", "write", root / "task_yamls")
    return root


def epidemia(root, *arguments):
    """Run a command of the copy."""
    done = subprocess.run(
        [sys.executable, "-m", "lm_eval_epidemia.cli", *map(str, arguments)],
        capture_output=True, text=True, cwd=root, check=False,
        env={**os.environ, "PYTHONPATH": str(root), "EPIDEMIA_AUTOLOAD": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def results(package, tmp_path_factory):
    """Real lm-eval runs of the toys: two tiny models, and a respondent whose score is known."""
    from lm_eval_epidemia.benchmarks.splits import split
    from lm_eval_epidemia.models.tiny import make_tiny_llama

    folder = tmp_path_factory.mktemp("results")
    texts = list(split("epidemia_low_nsduh_cocaine_ever_by_age")["prompt"])
    for seed in (1, 2):
        model = make_tiny_llama(folder / f"model{seed}", texts, seed)
        epidemia(
            package, "run", "--tasks", "epidemia_coin,epidemia_low_nsduh_numbered",
            "--model", "hf", "--model_args", f"pretrained={model},dtype=float32", "--device", "cpu",
            "--batch_size", 64, "--log_samples", "--output_path", folder / "out",
        )  # fmt: skip
    epidemia(
        package, "run", "--tasks", "epidemia_low_nsduh_numbered", "--model", "epidemia-baseline",
        "--model_args", "kind=truth", "--output_path", folder / "out",
    )  # fmt: skip
    return folder / "out"


def test_the_toys_touch_their_own_files_and_two_tables(package):
    changed = {
        str(path.relative_to(package))
        for path in (package / "lm_eval_epidemia").rglob("*.py")
        if not (REPOSITORY / path.relative_to(package)).is_file()
        or path.read_bytes() != (REPOSITORY / path.relative_to(package)).read_bytes()
    }
    assert changed == {
        "lm_eval_epidemia/benchmarks/__init__.py",
        "lm_eval_epidemia/benchmarks/observation/ways.py",
        *(
            f"lm_eval_epidemia/benchmarks/coins/{name}.py"
            for name in ("__init__", "coin", "metrics")
        ),
        "lm_eval_epidemia/benchmarks/observation/numbered.py",
    }
    shipped = {path.name for path in (REPOSITORY / "task_yamls").rglob("*")}
    more = {path.name for path in (package / "task_yamls").rglob("*")} - shipped
    assert {"epidemia_coin.yaml", "epidemia_coin_3_tosses.yaml", "_coins"} <= more
    assert "epidemia_low_nsduh_numbered.yaml" in more


def test_a_way_needs_nothing_else_to_be_scored(results):
    found = [json.loads(path.read_text()) for path in results.rglob("results_*.json")]
    (truth,) = (one for one in found if one["config"]["model"] == "epidemia-baseline")
    row = truth["groups"]["epidemia_low_nsduh_numbered"]
    assert row["score,none"] == pytest.approx(100) and row["l1,none"] == pytest.approx(0, abs=1e-9)


def test_a_metric_that_is_better_when_lower_ranks_so(package, results):
    rows = json.loads(epidemia(package, "report", results, "--format", "json"))["rows"]
    means = {
        row["model"]: row["value"]
        for row in rows
        if row["kind"] == "group" and row["group"] == "epidemia_coin"
    }
    tasks = {(row["metric"]) for row in rows if row["group"] == "epidemia_coin"}
    assert tasks == {"squared_error", "choice_mass"}
    table = epidemia(package, "report", results)
    board = table[table.index("Squared error") :].split("\n\n")[0]
    # The title of a narrow table is folded.
    title = " ".join(board.split("model")[0].split())
    assert title == "Squared error of stated probabilities; lower is better"
    shown = re.findall(r"^ +(model\d)", board, re.MULTILINE)
    assert shown == sorted(means, key=means.get) and len(means) == 2
    assert f"{min(means.values()):.3f}" in board


def test_the_site_and_the_figure_show_it(package, results, tmp_path):
    epidemia(package, "report", results, "--html", tmp_path / "site")
    page = (tmp_path / "site" / "index.html").read_text()
    assert "Squared error of stated probabilities" in page and "epidemia_coin" in page
    assert "5 tosses" in (tmp_path / "site" / "explorer.html").read_text()
    epidemia(package, "plot", "leaderboard", results, "--out", tmp_path / "board.svg")
    assert "Squared error" in (tmp_path / "board.svg").read_text()


def test_the_page_shows_the_way_that_is_tested():
    page = (REPOSITORY / "docs" / "adding-a-way.md").read_text()
    assert (
        re.search(r"```python\n(.*?)```", page, re.DOTALL)[1] == (TOY / "numbered.py").read_text()
    )
