"""What a release says of itself agrees; the workflow that publishes it has few rights."""

import json
import re

import jsonschema
import yaml
from conftest import REPOSITORY

from lm_eval_epidemia import __version__

CHANGELOG = (REPOSITORY / "CHANGELOG.md").read_text()
SECTIONS = re.findall(r"^## (\S+)(?: \((\w+)\)| - (\S+))?$", CHANGELOG, re.MULTILINE)
WORKFLOW = REPOSITORY / ".github" / "workflows" / "release.yml"
JOBS = yaml.safe_load(WORKFLOW.read_text())["jobs"]


def test_the_changelog_begins_with_this_version_and_keeps_its_form():
    assert [version for version, *_ in SECTIONS] == [__version__, "0.2.0", "0.1.0"]
    kinds = set(re.findall(r"^### (.+)$", CHANGELOG, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    entries = [line for line in CHANGELOG.splitlines() if line.startswith("- ")]
    assert len(entries) == len(set(entries))


def test_the_citation_is_valid_and_has_version_and_date_of_the_changelog():
    cited = yaml.load((REPOSITORY / "CITATION.cff").read_text(), yaml.BaseLoader)  # dates as text
    schema = json.loads((REPOSITORY / "tests" / "data" / "cff.schema.json").read_text())
    # Numbers are texts for this loader; there is one.
    for reference in cited["references"]:
        reference["year"] = int(reference["year"])
    checker = jsonschema.Draft7Validator.FORMAT_CHECKER
    jsonschema.validate(cited, schema, jsonschema.Draft7Validator, format_checker=checker)
    version, state, date = SECTIONS[0]
    assert (cited["version"], cited.get("date-released", "")) == (version, date)
    assert bool(date) != (state == "unreleased")


def test_only_the_job_that_publishes_may_ask_for_an_identity():
    workflow = yaml.load(WORKFLOW.read_text(), yaml.BaseLoader)
    assert workflow["permissions"] == {} and workflow["on"] == {"push": {"tags": ["v*"]}}
    assert JOBS["build"]["permissions"] == {"contents": "read"}
    assert JOBS["publish"]["permissions"] == {"id-token": "write"}
    assert (JOBS["publish"]["environment"], JOBS["publish"]["needs"]) == ("pypi", "build")
    assert "environment" not in JOBS["build"]
    assert "secrets." not in WORKFLOW.read_text()


def test_actions_are_pinned_by_commit():
    used = re.findall(r"^ *- uses: *(.+)$", WORKFLOW.read_text(), re.MULTILINE)
    assert len(used) == sum("uses" in step for job in JOBS.values() for step in job["steps"]) == 5
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", action) for action in used)


def test_what_is_published_is_built_as_ci_does():
    (ci,) = re.findall(r"python (-m hatchling build -d) ", (REPOSITORY / ".ci" / "run").read_text())
    (build,) = (
        run for step in JOBS["build"]["steps"] if "hatchling" in (run := step.get("run", ""))
    )
    assert f"python {ci} " in build
    # Nothing is run where the identity is: what was built and checked is downloaded.
    assert not any("run" in step for step in JOBS["publish"]["steps"])
