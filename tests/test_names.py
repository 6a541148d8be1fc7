"""What a name on the command line means: the same to `run`, `anchors` and `cost`."""

import re

import lm_eval.evaluator
import lm_eval.tasks
import pytest
import yaml
from conftest import REPOSITORY
from lm_eval.config.evaluate_config import EvaluatorConfig
from processes import python
from typer.main import get_command

import lm_eval_epidemia
from lm_eval_epidemia import cli
from lm_eval_epidemia.benchmarks import find_tasks, list_names
from lm_eval_epidemia.benchmarks.search import search
from lm_eval_epidemia.cli.about import HITS, ROWS, WIDTH
from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.errors import EpidemiaError, suggest
from lm_eval_epidemia.core.store import look_at_disk
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.harness.cost import cost
from lm_eval_epidemia.harness.discovery import extend_evaluator
from lm_eval_epidemia.surveys.catalogue import all_tasks, find_record

TABLES = yaml.safe_load((REPOSITORY / "tests" / "data" / "names.yaml").read_text("utf-8"))
TASK = "epidemia_low_nsduh_heroin_ever_by_race"
WAITS = "epidemia_low_nsduh_alcohol_past_month_by_age"


def refusal(done):
    """What the command says where it refuses something."""
    assert done.returncode == 2
    return done.stderr


@pytest.mark.parametrize("name", ["epidemia_low_closed", "epidemia_high_brfss"])
def test_commands_give_the_same_hint(epidemia, name):
    ran = refusal(epidemia("run", "--model", "dummy", "--tasks", name))
    assert name in ran and ran.count("\n") == 1
    for command in ("anchors", "cost"):
        assert refusal(epidemia(command, name)) == ran


def test_without_docstrings_the_error_says_what_takes_them(monkeypatch, epidemia):
    """As altair, lightgbm, peft and transformers end under PYTHONOPTIMIZE=2."""

    def broken(*_):
        raise AttributeError("Found no doc for _MarkDef")

    monkeypatch.setattr("lm_eval_epidemia.report.figures.save", broken)
    monkeypatch.setattr(cli, "_without_docstrings", lambda: True)
    told = refusal(epidemia("plot", "bootstrap", "--task", TASK))
    assert "Found no doc for _MarkDef" in told
    assert "PYTHONOPTIMIZE=2" in told and "unset it, or set it to 1" in told
    monkeypatch.setattr(cli, "_without_docstrings", lambda: False)
    with pytest.raises(AttributeError):
        cli.main()


@pytest.mark.parametrize(("written", "meant"), TABLES["near"].items())
def test_near_misses_are_answered_with_what_was_meant(written, meant):
    first, *others = suggest(written, list_names()).removeprefix("nearest: ").split(", ")
    assert first == meant
    # What else is offered has the rare word, too: no depression beside marijuana.
    rare = {"marijuana", "marij", "heroin", "cocaine"} & set(re.findall("[a-z]+", written))
    assert all(word in other for word in rare for other in others)


def test_what_is_near_nothing_is_answered_with_groups():
    assert suggest("hellaswag", list_names()).startswith("known: epidemia_low, epidemia_high, ")


def test_every_kind_of_name_means_its_tasks():
    nsduh = {name for name in store.list_available() if all_tasks()[name].survey == "nsduh"}
    low = {name for name in nsduh if name.startswith("epidemia_low_")}
    assert find_tasks(TASK) == [(TASK, "letters")]
    assert find_tasks(f"{TASK}_sampled") == [(TASK, "sampled")]
    assert {task for task, _ in find_tasks("nsduh")} == nsduh
    assert {mode for _, mode in find_tasks("nsduh")} == {"letters"}
    assert dict(find_tasks("epidemia_low_nsduh")) == dict.fromkeys(low, "letters")
    assert {task for task, _ in find_tasks("epidemia_low_nsduh_*")} == low
    assert len(find_tasks("epidemia_low_nsduh_*")) > len(low)


def test_anchors_and_cost_take_every_kind_of_name(epidemia):
    assert cost(["nsduh"])[0].tasks == len(find_tasks("nsduh"))
    for name in ("nsduh", "epidemia_low_nsduh", "epidemia_low_nsduh_*", f"{TASK}_likelihood"):
        done = epidemia("anchors", name, TASK)
        assert done.returncode == 0 and done.stdout.count(f" {TASK} ") == 1


@pytest.mark.parametrize(("name", "says"), TABLES["without anchors"].items())
def test_what_has_no_anchors_is_told_what_to_type_instead(epidemia, name, says):
    said = refusal(epidemia("anchors", TASK, name))
    assert says in said and said.startswith(f"error: {name}") and said.count("\n") == 1
    assert "no anchors" in said and "nearest" not in said
    for typed in re.findall("'epidemia (.*?)'", said):
        assert epidemia(*typed.split()).returncode == 0


# Tasks that plain lm-eval does not find.

NEEDS = "survey download nsduh, then epidemia groundtruth build nsduh"
MISSING = [
    (WAITS, NEEDS),
    (f"{WAITS}_sampled", NEEDS),
    ("epidemia_high_brfss", "epidemia groundtruth build brfss"),
    ("epidemia_high_brfss*", "epidemia groundtruth build brfss"),
    ("epidemia_lwo", "no task or group 'epidemia_lwo' (nearest: epidemia_low)"),
    (WAITS.removeprefix("epidemia_low_"), f"(nearest: {WAITS}"),
    ("nsduh", "nsduh is a survey, not a task or group (nearest: epidemia_"),
]


@pytest.fixture
def own_index(monkeypatch, mmlu_style):
    """lm-eval's command line, with an index of ours and another's tasks: its own takes 20 s."""
    extend_evaluator(lm_eval.evaluator)
    monkeypatch.setattr(lm_eval.tasks, "TaskManager", lm_eval_epidemia.task_manager)
    return lambda *tasks: EvaluatorConfig(
        tasks=list(tasks), include_path=str(mmlu_style)
    ).process_tasks()


def test_lm_eval_says_what_missing_tasks_need_and_leaves_other_names_alone(own_index, monkeypatch):
    names = [name for name, _ in MISSING]
    with pytest.raises(ValueError) as refused:
        own_index(*names, TASK, "lettered", "hellaswag")
    first, *lines = str(refused.value).splitlines()
    assert first == f"Tasks not found: {', '.join(names)}, hellaswag"
    assert len(lines) == len(MISSING)
    assert all(says in line for (_, says), line in zip(MISSING, lines, strict=True)), lines
    with pytest.raises(ValueError, match=r"^Tasks not found: hellaswag, age$"):
        own_index("hellaswag", "age")
    # The blank of "A, B" belongs to no name of ours.
    assert own_index("lettered", f" {TASK}").match_tasks(["lettered"]) == ["lettered"]
    # What is wrong with us is not what stops lm-eval.
    monkeypatch.setattr("lm_eval_epidemia.harness.arguments.list_names", lambda: 1 / 0)
    with pytest.raises(ValueError, match=r"^Tasks not found: epidemia_lwo$"):
        own_index("epidemia_lwo")


def test_of_tasks_that_all_wait_every_survey_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "shipped_groundtruth", lambda: tmp_path)
    monkeypatch.setenv("EPIDEMIA_HOME", str(tmp_path))
    look_at_disk()
    with pytest.raises(EpidemiaError, match="no task of epidemia_low has ground truth") as raised:
        find_tasks("epidemia_low")
    surveys = {task.survey for task in all_tasks().values() if task.group == "epidemia_low"}
    for survey in surveys:
        assert f"epidemia groundtruth build {survey}" in str(raised.value)


# What `epidemia show` and `search` print, tab completion, and the help of every command.


HEROIN = "epidemia_low_nsduh_heroin_ever_by_age"
#: Lines that a terminal shows.
SCREEN = 50


def lines_of(done):
    """What was printed: a screen of it, 100 columns wide."""
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) <= SCREEN and max(map(len, lines)) <= WIDTH
    return lines


def as_text(lines):
    """Lines without their folds."""
    return " ".join(" ".join(lines).split())


def test_a_task_is_shown_on_a_screen(epidemia):
    lines = lines_of(epidemia("show", HEROIN))
    text, truth = as_text(lines), store.load_truth(HEROIN)
    assert "one of 22 prompts in the way 'letters'" in text  # 11 ages, two orders
    assert "who is 35 to 49 years old. Has this person ever, even once, used heroin?" in text
    assert "bare" in text and "Has a person who is 35 to 49 years old ever" in text
    assert "letters (the name alone), _likelihood, _sampled, _stated" in text
    rows = {line.split()[0]: line.split() for line in lines if line.startswith("   ")}
    cell = truth.given.index(("35-49",))
    percent, n = f"{100 * truth.p[cell, 0]:.1f}", f"{truth.n[cell]:,}"
    assert rows["35-49"][2:4] == [n, percent] and re.fullmatch(r"\(.*-.*\)", rows["35-49"][4])
    anchors = store.load_truth(HEROIN).d_perfect()
    assert "who gives everyone the commoner answer" in text and f"at {anchors:.3f} or less" in text
    assert "who knows averages only" in text and find_record("nsduh").publisher in text
    assert f"truth {truth.fingerprint}" in text and "2022 (shipped)" in text


@pytest.mark.parametrize(("name", "says"), TABLES["shown"].items())
def test_everything_that_has_a_name_can_be_shown(epidemia, name, says):
    text = as_text(lines_of(epidemia("show", name)))
    assert all(words in text for words in says), text


def test_all_prints_every_answer_of_every_cell(epidemia):
    task = "epidemia_low_acs_employment_status_by_age"
    cells, levels = store.load_truth(task).p.shape
    shown = epidemia("show", task).stdout
    whole = epidemia("show", task, "--all").stdout

    def rows(text):
        return len(re.findall(r"^   \d\d +", text, re.MULTILINE))  # of an age

    assert rows(shown) == ROWS < cells and rows(whole) == cells * levels
    assert f"{cells - ROWS} smaller cells more" in shown and "smaller cells" not in whole


@pytest.mark.parametrize(("words", "first"), TABLES["searched"].items())
def test_search_finds_what_is_meant(words, first):
    assert search(words)[0].name == first


def test_search_shows_the_best_and_says_how_many_more(epidemia):
    lines = lines_of(epidemia("search", "race"))
    assert len(lines) == HITS + 1 and all("race" in line.casefold() for line in lines[:HITS])
    assert lines[-1].startswith(f"{len(search('race')) - HITS} weaker matches are not shown")
    # Health is not wealth, and nothing here is about this.
    for words in ("wealth", "xyzzy", "?"):
        assert "nothing matches" in epidemia("search", words).stdout


def test_tab_completes_commands_tasks_groups_and_surveys(epidemia, monkeypatch):
    def offered(*words):
        monkeypatch.setenv("_EPIDEMIA_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(("epidemia", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        return epidemia().stdout.split()

    assert offered("gro") == ["groundtruth"] and offered("tasks", "fr") == ["fresh"]
    assert f"{HEROIN}_stated" in offered("show", "epidemia_low_nsduh_heroin")
    assert offered("cost", "epidemia_low_gss,epidemia_qu") == [
        f"epidemia_low_gss,epidemia_quick{part}" for part in ("", "_high", "_low")
    ]
    assert offered("anchors", WAITS[:-1]) == [WAITS]  # has no truth here
    assert offered("survey", "download", "ns") == ["nsduh"]
    assert offered("tasks", "list", "--survey", "gss,ns") == ["gss,nsduh"]


def test_help_and_completion_load_neither_torch_nor_lm_eval():
    code = """
import os, sys
from lm_eval_epidemia import cli
os.environ.update(COMP_WORDS="epidemia show epidemia_low_gss_p", COMP_CWORD="2")
for words, complete in ((["-h"], ""), ([], "complete_bash")):
    sys.argv = ["epidemia", *words]
    os.environ["_EPIDEMIA_COMPLETE"] = complete
    try:
        cli.main()
    except SystemExit:
        pass
heavy = {"torch", "lm_eval", "transformers", "pandas", "scipy", "datasets"} & {*sys.modules}
print("loaded:", sorted(heavy))
"""
    printed = python(code)
    assert "epidemia_low_gss_party_by_age" in printed and "loaded: []" in printed


def every_command(command, *above):
    yield above, command
    for name, each in getattr(command, "commands", {}).items():
        yield from every_command(each, *above, name)


def test_every_help_text_is_a_whole_sentence_on_a_screen(epidemia, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    for words, command in every_command(get_command(cli.app)):
        texts = [command.help, *(getattr(each, "help", None) for each in command.params)]
        for text in texts:
            assert text and re.fullmatch(r"[A-Z][^.]* .*[.?]", text, re.DOTALL), (words, text)
            assert "..." not in text, (words, text)
        if words != ("run",):  # lm-eval's
            shown = epidemia(*words, "-h").stdout
            assert "…" not in shown and len(shown.splitlines()) <= SCREEN, words


def test_help_groups_commands_by_purpose(epidemia):
    shown = epidemia("-h").stdout
    places = [shown.index(f"─ {purpose} ─") for purpose in ("Run", "Look", "Build")]
    assert places == sorted(places) and "─ Commands ─" not in shown
    assert places[1] < shown.index(" report ") < shown.index(" search ") < places[2]
