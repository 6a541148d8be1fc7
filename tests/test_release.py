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
    assert [version for version, *_ in SECTIONS] == [__version__, "0.1.0"]
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


def steps_of(job):
    return [step.get("run", "") for step in JOBS[job]["steps"]]


def test_only_the_job_that_publishes_may_ask_for_an_identity():
    workflow = yaml.load(WORKFLOW.read_text(), yaml.BaseLoader)
    assert workflow["permissions"] == {} and workflow["on"] == {"push": {"tags": ["v*"]}}
    assert JOBS["build"]["permissions"] == {"contents": "read"}
    assert JOBS["publish"]["permissions"] == {"contents": "read", "id-token": "write"}
    assert (JOBS["publish"]["environment"], JOBS["publish"]["needs"]) == ("pypi", "build")
    assert "environment" not in JOBS["build"]
    assert "secrets." not in WORKFLOW.read_text()


def test_what_the_workflow_runs_is_pinned():
    used = re.findall(r"^\s*-? *uses: *(.+)$", WORKFLOW.read_text(), re.MULTILINE)
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} +# v[\d.]+", action) for action in used)
    text = (REPOSITORY / ".github" / "release-requirements.txt").read_text()
    hashed = r"(?: *; [^\\\n]+)? \\\n +--hash=sha256:[0-9a-f]{64}"
    pinned = re.findall(rf"^([\w-]+)==[\w.]+{hashed}", text, re.MULTILINE)
    assert len(pinned) == len(re.findall(r"^[\w-]+==", text, re.MULTILINE))
    assert {"hatchling", "pypi-attestations", "twine"} <= set(pinned)


def test_what_is_published_is_built_as_ci_does_and_as_it_was_checked():
    (ci,) = re.findall(r"python (-m hatchling build -d) ", (REPOSITORY / ".ci" / "run").read_text())
    builds = [[run for run in steps_of(job) if "hatchling build" in run] for job in JOBS]
    assert builds[0] == builds[1] and f"python {ci} " in builds[0][0]
    publish = steps_of("publish")
    order = [
        next(at for at, run in enumerate(publish) if words in run)
        for words in ("hatchling build", "diff - <(sha256sum", "attestations sign", "twine upload")
    ]
    assert order == sorted(order)
