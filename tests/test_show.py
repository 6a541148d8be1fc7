"""`epidemia show` and `search`, tab completion, and the help of every command."""

import re

import pytest
import yaml
from conftest import REPOSITORY
from processes import python
from typer.main import get_command

from lm_eval_epidemia import cli
from lm_eval_epidemia.benchmarks.search import search
from lm_eval_epidemia.cli.about import HITS, ROWS, WIDTH
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.surveys.catalogue import record

TABLES = yaml.safe_load((REPOSITORY / "tests" / "data" / "names.yaml").read_text("utf-8"))
TASK = "epidemia_low_nsduh_heroin_ever_by_age"
WAITS = "epidemia_low_nsduh_alcohol_past_month_by_age"
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
    lines = lines_of(epidemia("show", TASK))
    text, truth = as_text(lines), store.load(TASK)
    assert "one of 22 prompts in the way 'letters'" in text  # 11 ages, two orders
    assert "who is 35 to 49 years old. Has this person ever, even once, used heroin?" in text
    assert "bare" in text and "Has a person who is 35 to 49 years old ever" in text
    assert "letters (the name alone), _likelihood, _sampled, _stated" in text
    rows = {line.split()[0]: line.split() for line in lines if line.startswith("   ")}
    cell = truth.given.index(("35-49",))
    percent, n = f"{100 * truth.p[cell, 0]:.1f}", f"{truth.n[cell]:,}"
    assert rows["35-49"][2:4] == [n, percent] and re.fullmatch(r"\(.*-.*\)", rows["35-49"][4])
    anchors = store.load(TASK).d_perfect()
    assert "who gives everyone the commoner answer" in text and f"at {anchors:.3f} or less" in text
    assert "who knows averages only" in text and record("nsduh").publisher in text
    assert f"truth {truth.fingerprint}" in text and "2022 (shipped)" in text


@pytest.mark.parametrize(("name", "says"), TABLES["shown"].items())
def test_everything_that_has_a_name_can_be_shown(epidemia, name, says):
    text = as_text(lines_of(epidemia("show", name)))
    assert all(words in text for words in says), text


def test_all_prints_every_answer_of_every_cell(epidemia):
    task = "epidemia_low_acs_employment_status_by_age"
    cells, levels = store.load(task).p.shape
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
    assert f"{TASK}_stated" in offered("show", "epidemia_low_nsduh_heroin")
    assert offered("cost", "epidemia_low_gss,epidemia_qu") == [
        f"epidemia_low_gss,epidemia_quick{part}" for part in ("", "_high", "_low")
    ]
    assert offered("anchors", WAITS[:-1]) == [WAITS]  # has no truth here
    assert offered("survey", "download", "ns") == ["nsduh"]
    assert offered("tasks", "list", "--survey", "gss,ns") == ["gss,nsduh"]
    assert offered("run", "--model", "hf", "--tasks", "epidemia_low_bl")[0] == "epidemia_low_bls"
    assert offered("run", "--model", "epi") == ["epidemia-baseline"]


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
