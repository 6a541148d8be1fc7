"""What a name on the command line means: the same to `run`, `anchors` and `cost`."""

import sys

import pytest

from lm_eval_epidemia import cli
from lm_eval_epidemia.benchmarks import members
from lm_eval_epidemia.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.harness.cost import cost
from lm_eval_epidemia.surveys.catalogue import all_tasks

TASK = "epidemia_low_nsduh_heroin_ever_by_race"
WAITS = "epidemia_low_nsduh_alcohol_past_month_by_age"


def said(monkeypatch, capsys, *arguments):
    """What the command says where it refuses something."""
    monkeypatch.setattr(sys, "argv", ["epidemia", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("epidemia_lo", "(nearest: epidemia_low,"),
        (f"{TASK}s", f"(nearest: {TASK}"),
        ("epidemia_low_nsdhu", "(nearest: epidemia_low_nsduh,"),
        ("epidemia_low_likelyhood", "(nearest: epidemia_low_likelihood"),
        ("epidemia_x_*", "no task or group 'epidemia_x_*'"),
        (WAITS, "needs NSDUH-2023"),
        (f"{WAITS}_likelihood", "needs NSDUH-2023"),
        ("epidemia_low_closed", "no task or group 'epidemia_low_closed' (nearest: "),
        ("epidemia_high_brfss", "has no available task"),
    ],
)
def test_commands_give_the_same_hint(monkeypatch, capsys, name, says):
    ran = said(monkeypatch, capsys, "run", "--model", "dummy", "--tasks", name)
    assert says in ran and ran.count("\n") == 1
    for command in ("anchors", "cost"):
        assert said(monkeypatch, capsys, command, name) == ran


def test_a_misspelt_survey_is_hinted_at(monkeypatch, capsys):
    for command in ("anchors", "cost"):
        assert "(nearest: nsduh)" in said(monkeypatch, capsys, command, "nsduhh")


def test_every_kind_of_name_means_its_tasks():
    nsduh = {name for name in store.available() if all_tasks()[name].survey == "nsduh"}
    low = {name for name in nsduh if name.startswith("epidemia_low_")}
    assert members(TASK) == [(TASK, "letters")]
    assert members(f"{TASK}_sampled") == [(TASK, "sampled")]
    assert {task for task, _ in members("nsduh")} == nsduh
    assert {mode for _, mode in members("nsduh")} == {"letters"}
    assert dict(members("epidemia_low_nsduh")) == dict.fromkeys(low, "letters")
    assert {task for task, _ in members("epidemia_low_nsduh_*")} == low
    assert len(members("epidemia_low_nsduh_*")) > len(low)
    with pytest.raises(EpidemiaError, match="no task or group"):
        members("")


def test_anchors_and_cost_take_every_kind_of_name(monkeypatch, capsys):
    assert cost(["nsduh"])[0].tasks == len(members("nsduh"))
    for name in ("nsduh", "epidemia_low_nsduh", "epidemia_low_nsduh_*", f"{TASK}_likelihood"):
        monkeypatch.setattr(sys, "argv", ["epidemia", "anchors", name, TASK])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code
        assert capsys.readouterr().out.count(f" {TASK} ") == 1
