"""What README and docs tell users to type is typed here, page by page, from top to bottom.

``data/commands.yaml`` has every command line in one of three lists: run as it stands, run with
something added that makes it short, or not run here for a reason. A line in none of them fails.
Commands of one page share a folder, as a reader's would, and all run in this process; those of
vLLM run in the environment that has it.
"""

import io
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path

import numpy as np
import official
import pandas as pd
import pytest
import yaml
from conftest import REPOSITORY, nsduh_2023, recorded
from decision_servers import deciding
from lm_eval._cli import HarnessCLI
from scripted_server import scripted
from typer.main import get_command

from lm_eval_epidemia import cli
from lm_eval_epidemia.benchmarks import WAYS, find_tasks, list_groups, list_unions
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.harness import run as harness_run

pytest.importorskip("torch")

LISTS = yaml.safe_load((Path(__file__).parent / "data" / "commands.yaml").read_text())
PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]
PROGRAMS = r"(?:lm_eval|epidemia|python3?|pip|accelerate|tests/\w+)"
#: Where a command may stand: an indented line, or text between backticks.
COMMAND = re.compile(rf"^ {{4}}({PROGRAMS} .+)$|`({PROGRAMS} [^`]+)`", re.MULTILINE)
#: What stands for something of the reader's, and what it is here.
READERS = LISTS["readers"]
#: Models of the scripted server.
SERVED = ("PLAIN", "RETRIEVING", "NAME")
#: An assignment of the shell, which later lines of the page use as $NAME.
ASSIGNMENT = re.compile(r'^    (\w+)="(.+)"$', re.MULTILINE)


def commands_of(page):
    """The command lines of a page, each once, without comments, pipes and redirections."""
    # Cells of notebooks are run whenever the site is built, which fails if one of them does.
    text = re.sub(r"```(python|\{code-cell\}).*?```", "", page.read_text(), flags=re.DOTALL)
    text = re.sub(r"\\\n\s*", "", text)
    for assigned in reversed(list(ASSIGNMENT.finditer(text))):
        after = text[assigned.end() :].replace(f"${assigned[1]}", assigned[2])
        text = text[: assigned.start()] + after
    lines = (" ".join((found[1] or found[2]).split()) for found in COMMAND.finditer(text))
    lines = (re.split(r" (?:#|>|\|) ", line)[0] for line in lines)
    return [line for line in dict.fromkeys(lines) if not only_names(line)]


def only_names(line):
    """Tell whether a text names a command that cannot be typed without more."""
    if not line.startswith("epidemia "):
        return line in (
            "lm_eval run",
            "lm_eval --cache_requests",
            "pip install",
            "accelerate launch",
        )
    command, rest = command_of(line.split()[1:])
    more = any(parameter.required for parameter in command.params)
    more |= "ignore_unknown_options" in command.context_settings  # `epidemia run` takes lm-eval's
    more |= line == "epidemia report"  # which needs results, unless it lists the findings
    return not rest and (more or hasattr(command, "commands"))


def command_of(words):
    """Return the command that words of a line begin with, and the words after it."""
    command = get_command(cli.app)
    while words and words[0] in getattr(command, "commands", ()):
        command, words = command.commands[words[0]], words[1:]
    return command, words


OF_PAGE = {page: commands for page in PAGES if (commands := commands_of(page))}
#: A line that several pages have is typed on the first of them.
FIRST_PAGE = {line: page for page in reversed(OF_PAGE) for line in OF_PAGE[page]}
EVERY = list(dict.fromkeys(line for commands in OF_PAGE.values() for line in commands))
RUN, SHORTENED, NOT_HERE = LISTS["run"], LISTS["shortened"], LISTS["not here"]


def test_every_command_is_in_one_list():
    listed = [*RUN, *SHORTENED, *NOT_HERE]
    assert sorted(listed) == sorted(set(listed)), "in two lists"
    assert set(EVERY) - set(listed) == set(), "say in data/commands.yaml how they are run"
    assert set(listed) - set(EVERY) == set(), "on no page any more"
    assert len(NOT_HERE) <= 15 and all(NOT_HERE.values())


def on_vllm(line):
    return "--model vllm" in line or "--model choice-vllm" in line


@pytest.mark.parametrize("line", NOT_HERE)
def test_what_is_not_run_here_has_options_that_exist(line):
    """Every part of a line that lm-eval or `epidemia` would read is read; scripts exist."""
    for part in line.replace(" ...", "").split(" && "):
        words = shlex.split(re.sub(r"\[[^]]*\]", "", part), comments=True)
        if "lm_eval_epidemia" in words:
            words = ["epidemia", *words[words.index("lm_eval_epidemia") + 1 :]]
        if words[0].endswith("epidemia"):
            command, rest = command_of(words[1:])
            options = {option for parameter in command.params for option in parameter.opts}
            assert not {word for word in rest if word.startswith("--")} - options
        elif "lm_eval" in words:
            HarnessCLI()._parser.parse_args(["run", *words[words.index("lm_eval") + 1 :]])
        else:
            scripts = [word for word in words if word.startswith(("tests/", "benchmarks/"))]
            assert all((REPOSITORY / script).is_file() for script in scripts)


# -- A desk to type at ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server():
    with scripted(models=SERVED) as running, deciding("vllm", models=SERVED) as decides:
        running.decides = decides
        yield running


@pytest.fixture(scope="module")
def desk(tiny_llama, mmlu_style, tmp_path_factory):
    """A folder with what the pages take for granted: a model, survey files, older results."""
    folder = tmp_path_factory.mktemp("desk")
    for name in ("tiny", "other"):
        shutil.copytree(tiny_llama, folder / name)
    (folder / "old").symlink_to(REPOSITORY / "groundtruth")
    (folder / "benchmarks").symlink_to(REPOSITORY / "benchmarks")
    nsduh_2023(1500).to_parquet(folder / "nsduh_2022.parquet")
    official.save(official.people("gss", 3544), folder / "GSS2022.dta")
    answers = {
        "sex": ["male", "female"],
        "race": ["white", "black", "other race"],
        "degree": ["school", "college"],
        "partyid": ["democrat", "republican", "neither"],
        "happy": ["very", "pretty", "not too"],
    }
    people = pd.DataFrame({"wtssnrps": np.ones(3000)})
    for number, (name, levels) in enumerate(answers.items()):
        people[name] = np.arange(3000) // 7**number % len(levels) + 1.0
    for name in ("partyid", "happy"):  # what people say differs with who they are
        people[name] = (people["sex"] + people["race"] + people["degree"]) % 3 + 1
    pyreadstat = pytest.importorskip("pyreadstat")
    labels = {name: dict(enumerate(levels, 1)) for name, levels in answers.items()}
    pyreadstat.write_sav(people, str(folder / "gss7224_r3.sav"), variable_value_labels=labels)
    official.write("brfss", folder, official.people("brfss", 300))
    for kind in ("variables", "baselines"):
        sample = REPOSITORY / "tests" / "data" / f"sample_{kind}.json"
        shutil.copy(sample, folder / f"glassdoor_{kind}.json")
    (folder / "docs").mkdir()
    (folder / "docs" / "results").symlink_to(REPOSITORY / "docs" / "results")
    others = folder / "others"
    shutil.copytree(mmlu_style, others)
    mmlu = (others / "lettered.yaml").read_text().replace("task: lettered", "task: mmlu")
    (others / "lettered.yaml").write_text(mmlu)
    for name in ("tiny", "other"):
        recorded(
            folder / "results",
            ["epidemia_low_nsduh", "epidemia_high_nsduh"],
            model="choice-hf",
            model_args=f"pretrained={folder / name}",
            device="cpu",
            batch_size=64,
        )
    # Random models do not answer, and who does not is compared with nobody: let these.
    for path in (folder / "results").rglob("results_*.json"):
        path.write_text(re.sub(r'(?<="choice_mass,none": )[^,\s]+', "0.9", path.read_text()))
    return folder


@pytest.fixture
def type_in(monkeypatch, server):
    """Run a line as its list says, in this process and the current folder."""
    # Only our tasks are indexed, whatever is asked for: lm-eval's own 14,000 take 20 s.
    monkeypatch.setattr(harness_run, "has_only_ours", lambda tasks: True)
    monkeypatch.setattr("lm_eval.evaluator.add_env_info", lambda results: None)
    monkeypatch.setattr("lm_eval_epidemia.findings.interventions.LARGE", {})  # slow to draw
    monkeypatch.setattr("lm_eval.tasks.TaskManager", None)  # put back after the test

    def type_in(line):
        words = as_typed(line, server)
        monkeypatch.setattr(sys, "argv", words)
        shown = io.StringIO()
        try:
            with redirect_stdout(shown):
                code = run(words)
        except SystemExit as end:
            code = end.code
        assert not code, f"{line}\n{shlex.join(words)}\n{shown.getvalue()[-2000:]}"
        if words[0] == "lm_eval":
            assert_answered(words, shown.getvalue())

    return type_in


def run(words):
    """Run a line's words, which are in sys.argv too; return the exit status if it has one."""
    program, *rest = words
    if program == "lm_eval":
        return harness_run.run_lm_eval(rest)
    if program == "epidemia":
        return cli.main()
    if program == "pip":
        return subprocess.run([sys.executable, "-m", *words], cwd=REPOSITORY).returncode
    sys.argv = rest
    return runpy.run_path(rest[0], run_name="__main__") and 0


def as_typed(line, server):
    """The words of a line: what is the reader's own put in, and what makes it short added."""
    added = SHORTENED.get(line) or ""
    line = re.sub(r" \[[^]]*\]|,?\.\.\.(?= |$)", "", line)
    line = re.sub(r"https?://[^,\s]*/v1/chat/completions|(?<==)URL", server.url(), line)
    line = re.sub(r"http://[^,\s]*/v1/systemone", server.decides.url(), line)
    own = dict(word.split(":=") for word in added.split() if ":=" in word)
    for name, here in {**READERS, **own}.items():
        line = re.sub(rf"(?<![\w./-]){re.escape(name)}(?![\w/-])", here, line)
    return shlex.split(f"{line} {' '.join(word for word in added.split() if ':=' not in word)}")


# -- Page by page --------------------------------------------------------------------------------


@pytest.fixture
def at_desk(desk, home, tmp_path, monkeypatch):
    """The current folder is a copy of the desk, and some files were downloaded."""
    for path in desk.iterdir():
        if path.name in ("docs", "results"):
            shutil.copytree(path, tmp_path / path.name, symlinks=True)
        else:
            (tmp_path / path.name).symlink_to(path)
    for name in ("a", "b"):
        (tmp_path / name).symlink_to("results")
    for survey, name in (("brfss", "LLCP2023XPT.zip"), ("nsduh", "nsduh_2022.parquet")):
        downloaded = home / "raw" / survey / "2023"
        downloaded.mkdir(parents=True)
        (downloaded / name).symlink_to(desk / name)
    monkeypatch.chdir(tmp_path)


def assert_answered(words, shown):
    """Every task or group that a run asks for has a row in what lm-eval shows."""
    asked = words[words.index("--tasks") + 1].split(",")
    missing = [
        name for name in asked if "*" not in name and not re.search(rf"\|[ -]*{name} *\|", shown)
    ]
    assert not missing, f"{shlex.join(words)}\n{missing}\n{shown[-2000:]}"


#: Pages whose lines take longest, and those that no user needs.
LONG = {
    REPOSITORY / "docs" / page
    for page in ("guides/elsewhere.md", "guides/finetuning.md", "results/README.md")
}
LONG |= {page for page in OF_PAGE if page.parent.name == "evidence"}
assert set(OF_PAGE) > LONG


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] * (page in LONG)) for page in OF_PAGE],
    ids=lambda page: str(page.relative_to(REPOSITORY)),
)
def test_what_a_page_tells_to_type_works(page, at_desk, type_in):
    for line in OF_PAGE[page]:
        if FIRST_PAGE[line] is page and line not in NOT_HERE and not on_vllm(line):
            type_in(line)


# -- Every model, groups of every benchmark ------------------------------------------------------

#: By group, by pattern and by name.
LETTERS = (
    "epidemia_high_nsduh,epidemia_low_nsduh_*_by_race,"
    "epidemia_low_nsduh_heroin_ever_by_age_likelihood"
)
#: choice-api says of these that they are not asked by letters.
ASKED = f"{LETTERS},epidemia_intervention,epidemia_prior_grid"
MODELS = {
    "epidemia-baseline": ("kind=truth", ASKED),
    "hf": ("pretrained=MODEL --device cpu", ASKED),
    "choice-hf": ("pretrained=MODEL --device cpu", ASKED),
    "choice-api": (
        "base_url=http://HOST/v1/chat/completions,model=NAME --apply_chat_template",
        LETTERS,
    ),
    "choice-decide": (
        "base_url=http://HOST/v1/systemone,model=NAME",
        f"{LETTERS},epidemia_intervention,epidemia_high_nsduh_*_closed",
    ),
}
ON_VLLM = "pretrained=MODEL,dtype=float32,enforce_eager=True,max_model_len=1024"


def asking(model, model_args, asked):
    return f"lm_eval --model {model} --model_args {model_args} --tasks {asked} --limit 1"


@pytest.mark.parametrize("model", MODELS)
def test_every_model_answers_groups_of_every_benchmark(model, at_desk, type_in):
    type_in(asking(model, *MODELS[model]))


@pytest.mark.slow
def test_choice_api_answers_every_group_that_is_asked_by_letters(at_desk, type_in):
    """It once stopped at any group, although every task by itself was answered."""
    here = []
    # The tasks of a union are in other groups, and lm-eval takes no task twice.
    for name in list_groups().keys() - list_unions().keys() - {"epidemia_quick"}:
        with suppress(EpidemiaError):  # nothing of it is here
            task, way = find_tasks(name)[0]
            if not WAYS[way].generated and len(split(task, way)["choices"][0][0]) == 1:
                here.append(name)
    assert len(here) >= 10
    type_in(asking("choice-api", MODELS["choice-api"][0], ",".join(here)))


def test_models_on_vllm_run_what_pages_tell(desk, server, vllm_venv, tmp_path):
    lines = [line for line in EVERY if on_vllm(line)]
    lines += [asking(model, ON_VLLM, ASKED) for model in ("vllm", "choice-vllm")]
    typed = tmp_path / "lines.json"
    runs = [as_typed(line, server) for line in lines]
    typed.write_text(json.dumps(runs))
    done = subprocess.run(
        [f"{vllm_venv}/bin/python", Path(__file__).with_name("vllm_lines.py"), typed],
        capture_output=True,
        text=True,
        check=False,
        cwd=desk,
        env={**os.environ, "PATH": f"{vllm_venv}/bin:{os.environ['PATH']}"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for words, shown in zip(runs, re.split(r"== line \d+\n", done.stdout)[1:], strict=True):
        assert_answered(words, shown)
