"""The pages say what is so: links, commands, groups, the published numbers, the citation."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

import lm_eval_epidemia
from lm_eval_epidemia.benchmarks import members
from lm_eval_epidemia.cli import app

ROOT = Path(__file__).parents[1]
WRITTEN = sorted(
    [*(ROOT / "docs").glob("*.md"), ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md"]
)
#: One place of a page where a command may stand: an indented line, or text between backticks.
COMMAND = re.compile(r"^    (epidemia .+)$|`(epidemia [^`]+)`", re.MULTILINE)
#: A name as it stands on a command line; ``epidemia_low_*`` and file names are not of this form.
NAME = re.compile(r"(?<![\w/*])epidemia_(?:low|high|extra)(?:_[a-z_]+)?(?![\w*])")


def _without_continuations(page: Path) -> str:
    return re.sub(r"\\\n\s*", "", page.read_text())


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def test_the_index_names_every_page():
    linked = set(re.findall(r"\]\(([^)]+)\)", (ROOT / "docs" / "README.md").read_text()))
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages - linked == set(), "docs/README.md has a line for every page"


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_commands_and_their_options_exist(page):
    wrong = []
    for found in COMMAND.finditer(_without_continuations(page)):
        line = re.split(r" #|[|>]", found[1] or found[2])[0].replace("[", " ").replace("]", " ")
        words = shlex.split(line)[1:]
        command = get_command(app)
        while words and hasattr(command, "commands") and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        if hasattr(command, "commands"):
            wrong.append(line)
        known = {option for one in command.params for option in one.opts}
        if not command.ignore_unknown_options:  # `epidemia run` takes lm-eval's
            wrong += [f"{line}: {word}" for word in words if word[:2] == "--" and word not in known]
    assert not wrong


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_tasks_and_groups_exist(page):
    for name in sorted(set(NAME.findall(page.read_text()))):
        # mygss is the reader's own survey.
        assert "_mygss_" in name or members(name)


def test_the_published_numbers_are_those_that_its_code_prints():
    page = (ROOT / "docs" / "reproduce.md").read_text()
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    shown = re.search(r"```text\n(.*?)```", page, re.DOTALL)
    printed = subprocess.run(
        [sys.executable, "-c", code[1]], capture_output=True, text=True, check=True
    )
    assert printed.stdout == shown[1]


def test_the_citation_is_of_this_version_and_names_the_study():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == lm_eval_epidemia.__version__
    (study,) = cited["references"]
    # Plain text differs in line breaks and emphasis only.
    page = " ".join((ROOT / "docs" / "reproduce.md").read_text().replace("\n>", "\n").split())
    assert study["title"] in page
    assert study["identifiers"][0]["value"] in page
    names = [f"{one['given-names']} {one['family-names']}" for one in study["authors"]]
    assert ", ".join(names) in page
