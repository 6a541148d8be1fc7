"""What reports print, as it was approved: run with APPROVE=1 after a change that is meant.

`git diff tests/data/approved` then shows what readers will see.
"""

import os
import re
import shlex
from pathlib import Path

import pytest
from conftest import REPOSITORY
from report_parts import command

from lm_eval_epidemia.cli.report import read_runs
from lm_eval_epidemia.report.site import build_site

APPROVED = Path(__file__).parent / "data" / "approved"

#: Commands, from the root of the repository.
COMMANDS = {
    "screen.txt": "report docs/results/real-model",
    "screen-of-several.txt": "report docs/results",
    "survey.txt": "report docs/results/real-model --show survey",
    "population.tex": "report docs/results/real-model --show population --format latex",
    "leaderboard.csv": "report docs/results/real-model --format csv",
    "wordings.csv": "report docs/results/real-model docs/results/wording --show wordings "
    "--format csv",
    "ways.txt": "compare docs/results/real-model",
    "two-models.txt": "compare 'SmolLM2-135M-Instruct +distributions-lora' "
    "'SmolLM2-135M-Instruct +answers-4000-lora' docs/results/finetuning",
}


def approved(name, text):
    """Compare a text with the approved one; numbers to nine digits, as machines round otherwise."""
    text = re.sub(r"-?\d+\.\d{9,}(e-?\d+)?", lambda number: f"{float(number[0]):.9g}", text)
    path = APPROVED / name
    if os.environ.get("APPROVE"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "APPROVE=1 python -m pytest, if it is meant"


@pytest.mark.parametrize("name", COMMANDS)
def test_what_commands_print(name, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    approved(name, command(*shlex.split(COMMANDS[name])))


def test_what_a_page_says(tmp_path):
    """The first page of the site, without what is drawn."""
    index = build_site(
        read_runs([REPOSITORY / "docs" / "results" / "real-model"]), tmp_path / "site"
    )
    page = re.sub(r"<(svg|script|style|head)\b.*?</\1>", "", index.read_text(), flags=re.S)
    approved("index.txt", re.sub(r"\s*\n\s*", "\n", re.sub(r"<[^>]+>", "\n", page)).strip() + "\n")
