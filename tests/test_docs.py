"""The pages say what is so: links, commands, groups, the published numbers, the citation."""

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import yaml
from typer.main import get_command

import lm_eval_epidemia
from lm_eval_epidemia import api
from lm_eval_epidemia.benchmarks import find_tasks
from lm_eval_epidemia.cli import app

ROOT = Path(__file__).parents[1]
WRITTEN = sorted(
    page
    for page in (
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / name for name in ("CONTRIBUTING.md", "benchmarks/README.md")),
    )
    if "generated" not in page.parts  # what a build of the site wrote
)
#: The pages of the four shelves, by shelf.
SHELVES = {
    shelf: sorted((ROOT / "docs" / shelf).glob("*.md"))
    for shelf in ("start", "guides", "reference", "evidence")
}
#: Where a command may stand: an indented line, a notebook's cell, or text between backticks.
COMMAND = re.compile(r"^(?:    |!)(epidemia .+)$|`(epidemia [^`]+)`", re.MULTILINE)
#: A name as it stands on a command line; ``epidemia_low_*`` and file names are not of this form.
NAME = re.compile(r"(?<![\w/*])epidemia_(?:low|high|extra)(?:_[a-z_]+)?(?![\w*])")


def _without_continuations(page: Path) -> str:
    return re.sub(r"\\\n\s*", "", page.read_text())


def test_links_lead_somewhere():
    others = (ROOT / name for name in ("README.md", "CHANGELOG.md", "SECURITY.md"))
    for page in [*WRITTEN, *others]:
        links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
        here = [link for link in links if "://" not in link]
        assert not [link for link in here if not (page.parent / link).exists()], page


def test_the_index_of_each_shelf_names_its_pages():
    assert sum(map(len, SHELVES.values())) >= 29, "and no shelf is left out"
    for shelf, pages in SHELVES.items():
        index = (ROOT / "docs" / shelf / "index.md").read_text()
        listed = re.findall(r"^- \[.+?\]\((.+?\.md)\): ", index, re.MULTILINE)
        assert len(listed) == len(set(listed)), shelf
        names = {page.name for page in pages} - {"index.md"}
        assert {name for name in listed if "/" not in name} == names, shelf


def test_pages_are_of_one_sitting_and_merged():
    """At most 2,000 words."""
    for page in WRITTEN:
        text = page.read_text()
        assert not re.search(r"^(?:<{7}|>{7}) ", text, re.MULTILINE), f"{page}: an open merge"
        assert page.parent.name not in SHELVES or len(text.split()) <= 2000, page
        assert not re.search(r"^ *%", text, re.MULTILINE), f"{page}: MyST drops such a line"


def test_the_house_is_drawn_from_the_code():
    page = (ROOT / "docs" / "evidence" / "contributing.md").read_text()
    drawn = runpy.run_path(str(ROOT / "docs" / "house.py"))["page"]()
    assert page == drawn, "run: python docs/house.py"
    assert len(page.split()) <= 500


def test_the_page_of_the_api_names_all_of_it():
    page = (ROOT / "docs" / "reference" / "api.md").read_text()
    assert sorted(re.findall(r"^   (\w+)$", page, re.MULTILINE)) == sorted(api.__all__)


def _faults(words):
    """What no command, or no option of it, is called."""
    command, line = get_command(app), " ".join(words)
    while words and hasattr(command, "commands") and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    if hasattr(command, "commands"):
        yield line
    known = {option for parameter in command.params for option in parameter.opts}
    if "ignore_unknown_options" not in command.context_settings:  # `epidemia run` takes lm-eval's
        yield from (f"{line}: {x}" for x in words if x[:2] == "--" and x not in known)


def test_commands_and_their_options_exist():
    wrong = []
    for page in WRITTEN:
        for place in COMMAND.finditer(_without_continuations(page)):
            line = re.split(r" #|[|>]", place[1] or place[2])[0]
            words = shlex.split(line.replace("[", " ").replace("]", " "))[1:]
            wrong += [f"{page.name}: {fault}" for fault in _faults(words)]
    assert not wrong


def test_tasks_and_groups_exist():
    names = {name for page in WRITTEN for name in NAME.findall(page.read_text())}
    for name in sorted(names):
        # mygss is the reader's own survey, town the one that a notebook invents.
        assert "_mygss_" in name or "_town_" in name or find_tasks(name)


def test_the_published_numbers_are_those_that_its_code_prints():
    page = (ROOT / "docs" / "evidence" / "reproduce.md").read_text()
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
    page = " ".join(
        (ROOT / "docs" / "evidence" / "reproduce.md").read_text().replace("\n>", "\n").split()
    )
    assert study["title"] in page
    assert study["identifiers"][0]["value"] in page
    names = [f"{one['given-names']} {one['family-names']}" for one in study["authors"]]
    assert ", ".join(names) in page
