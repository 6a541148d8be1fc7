"""Room for more: a way of asking and a benchmark are a file and a line each.

A copy of the package gets the toys of ``tests/toy``, as docs/guides/adding-a-way.md says, and is
then used as a user would: task files, lm-eval, report, site.
"""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from conftest import REPOSITORY, in_a_process

TOY = Path(__file__).parent / "toy"

#: Copies of the package, three lm-evals, a site.
pytestmark = pytest.mark.slow


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
    caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "lm_eval_epidemia", root / "lm_eval_epidemia", ignore=caches)
    shutil.copy(REPOSITORY / "pyproject.toml", root)
    # The truths of three surveys, since the site shows every task; its examples are theirs.
    shipped = REPOSITORY / "groundtruth"
    shutil.copytree(shipped / "quantities", root / "groundtruth" / "quantities")
    registry = json.loads((shipped / "registry.json").read_text())
    kept = ("nsduh_2022", "nhis_2021-unweighted", "acs_2024")
    registry["truths"] = {key: registry["truths"][key] for key in kept}
    (root / "groundtruth" / "registry.json").write_text(json.dumps(registry))
    for path in [path for key in kept for path in shipped.glob(f"{key}.*")]:
        shutil.copy(path, root / "groundtruth")
    # A way of asking is a file and a line, a benchmark a folder and a line.
    benchmarks = root / "lm_eval_epidemia" / "benchmarks"
    shutil.copy(TOY / "numbered.py", benchmarks / "observation")
    shutil.copytree(TOY / "coins", benchmarks / "coins")
    rag, prior = '        "rag": "likelihood:RAG",\n', '        "prior": "prior:PRIOR",\n'
    numbered = '        "numbered": "numbered:WAY",\n'
    with_change(benchmarks / "observation" / "ways.py", (rag, rag + numbered))
    coins = '        "coins": "coins:COINS",\n'
    with_change(benchmarks / "__init__.py", (prior, prior + coins))
    return root


#: Runs command lines of the copy, one after another in one process, and prints what each printed.
COMMANDS = """
import contextlib, io, json, sys, zlib
from lm_eval.api.registry import register_model
from lm_eval_epidemia.cli import main
from replicates import Hashing

@register_model("named")
class Named(Hashing):
    def __init__(self, pretrained, **options):
        super().__init__()
        self._name = pretrained

    def loglikelihood(self, requests, disable_tqdm=False):
        texts = ["".join([self._name, *one.args]) for one in requests]
        return [(-3 - zlib.crc32(text.encode()) % 997 / 500, False) for text in texts]

printed = []
for line in json.load(sys.stdin):
    sys.argv = ["epidemia", *line]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            main()
        except SystemExit as end:
            assert not end.code, (line, end.code)
    printed.append(out.getvalue())
print(json.dumps(printed))
"""


@pytest.fixture(scope="module")
def results(package, tmp_path_factory):
    """What is made of the toys, from task files to a site, and what the two reports print.

    lm-eval asks two models, and a respondent whose score is known.
    """
    folder = tmp_path_factory.mktemp("results")
    out = folder / "out"
    run = ["run", "--output_path", out, "--log_samples", "--tasks"]
    toys = "epidemia_coin,epidemia_low_nsduh_cocaine_ever_by_age_numbered"
    named = ["--model", "named", "--model_args"]
    known = ["--model", "epidemia-baseline", "--model_args", "kind=truth"]
    lines = [
        ["tasks", "write", package / "task_yamls"],
        *([*run, toys, *named, f"pretrained=model{number}"] for number in (1, 2)),
        [*run, "epidemia_low_nsduh_numbered", *known],
        ["report", out, "--show", "leaderboard", "--format", "json"],
        ["report", out, "--wide", "--html", folder / "site"],
        ["plot", "leaderboard", out, "--out", folder / "board.svg"],
    ]
    path = f"{package}{os.pathsep}{REPOSITORY / 'tests'}"
    typed = json.dumps([list(map(str, line)) for line in lines])
    own = {**os.environ, "PYTHONPATH": path, "EPIDEMIA_AUTOLOAD": "0"}
    done = in_a_process("-c", COMMANDS, cwd=package, input=typed, env=own)
    assert done.returncode == 0, done.stderr
    rows, table = json.loads(done.stdout.splitlines()[-1])[4:6]
    return folder, json.loads(rows)["leaderboard"], table


def test_the_toys_touch_their_own_files_and_two_tables(package, results):
    ours = {path.relative_to(package) for path in (package / "lm_eval_epidemia").rglob("*.py")}
    changed = {
        path.as_posix()
        for path in ours
        if not (REPOSITORY / path).is_file()
        or (package / path).read_bytes() != (REPOSITORY / path).read_bytes()
    }
    files = ("__init__", "observation/ways", "observation/numbered")
    coins = (f"coins/{name}" for name in ("__init__", "coin", "metrics"))
    assert changed == {f"lm_eval_epidemia/benchmarks/{name}.py" for name in (*files, *coins)}
    shipped = {path.name for path in (REPOSITORY / "task_yamls").rglob("*")}
    more = {path.name for path in (package / "task_yamls").rglob("*")} - shipped
    assert {"epidemia_coin.yaml", "epidemia_coin_3_tosses.yaml", "_coins"} <= more
    assert "epidemia_low_nsduh_numbered.yaml" in more


def test_a_way_needs_nothing_else_to_be_scored(results):
    files = [json.loads(path.read_text()) for path in results[0].rglob("results_*.json")]
    (truth,) = (file for file in files if file["config"]["model"] == "epidemia-baseline")
    row = truth["groups"]["epidemia_low_nsduh_numbered"]
    assert row["score,none"] == pytest.approx(100) and row["l1,none"] == pytest.approx(0, abs=1e-9)


def test_a_metric_that_is_better_when_lower_ranks_so(results):
    _, rows, table = results
    coins = [row for row in rows if row["group"] == "epidemia_coin"]
    means = {row["model"]: row["value"] for row in coins}
    assert [row["choice_mass"] is not None for row in coins] == [True, True]
    board = table[table.index("Squared error") :].split("\n\n")[0]
    # The title of a narrow table is folded.
    title = " ".join(board.split("model")[0].split())
    assert title.startswith("Squared error of stated probabilities; lower is better ")
    shown = re.findall(r"^ +(model\d)", board, re.MULTILINE)
    assert shown == sorted(means, key=means.get) and len(means) == 2
    assert f"{min(means.values()):.3f}" in board


def test_the_site_and_the_figure_show_it(results):
    folder = results[0]
    page = (folder / "site" / "index.html").read_text()
    assert "Squared error of stated probabilities" in page and "Coin: 3 questions" in page
    assert "5 tosses" in (folder / "site" / "explorer.html").read_text()
    assert "coin" in (folder / "board.svg").read_text()


def test_the_page_shows_the_way_that_is_tested():
    page = (REPOSITORY / "docs" / "guides" / "adding-a-way.md").read_text()
    shown = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]
    assert shown == (TOY / "numbered.py").read_text()
