"""Before and after fine-tuning, from real runs of lm-eval: pairs, parts, errors, figures.

Respondents whose answers are known stand for models; what lm-eval wrote of their names is changed
to what it writes of a base, of adapters and of full weights.
"""

import json
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from conftest import REPOSITORY
from recorded_runs import copied_run
from report_parts import COCAINE as AGE
from report_parts import HEROIN, by, command, rewritten, write

from lm_eval_epidemia.cli.report import read_runs
from lm_eval_epidemia.core.distance import distance
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import find, tuning
from lm_eval_epidemia.findings.cells import collect_answers
from lm_eval_epidemia.report.figures import save_losses
from lm_eval_epidemia.results.card import LOSSES, TUNED_CARD, DatasetCard, Tuned, write_card
from lm_eval_epidemia.results.decode import LeafKey
from lm_eval_epidemia.score.score import Anchors, draw_truths

RACE, MARIJUANA = AGE.replace("age", "race"), AGE.replace("cocaine", "marijuana")
SEEN = [AGE, RACE]
TASKS = [*SEEN, HEROIN, MARIJUANA, f"{AGE}_likelihood"]
LOW, BASE = "epidemia_low", "org/small-1B"
#: Of cocaine by age, the cells that were left out of training.
LEFT_OUT = [0, 4, 7]
LINES = "step,epoch,split,loss\n10,.5,train,.9\n20,1,train,.6\n20,1,validation,.61\n30,2,train,nan"


def card(kind="answers", rows=100, base=BASE, how="lora", settings=(), **more):
    truth, drawn = store.load_truth(AGE).fingerprint, {"train": rows, "validation": 10}
    apart = {AGE: LEFT_OUT, HEROIN: [*range(11)]}
    data = DatasetCard(kind, "nsduh", "2022", truth, 1, drawn, [AGE, RACE], held_out=apart)
    done = {"epochs": 2, **dict(settings)}
    return Tuned(base, how, replace(data, **more), done, 40, 20, 0.61, 0.66)


def put(folder, found):
    """The two files that training leaves in the folder of a tuned model."""
    folder.mkdir(parents=True, exist_ok=True)
    write_card(folder, found)
    (folder / LOSSES).write_text(LINES)
    return folder


def renamed(source, folder, **arguments):
    """The result file of a run as lm-eval writes it of another model."""
    of = {"model": "hf", "model_args": {key: str(value) for key, value in arguments.items()}}
    return rewritten(source, folder, lambda found: found["config"].update(of))


def paired(results):
    """The base of each tuned model, by name; nothing without one."""
    runs = results.runs
    tuned = [of for of in runs.itertuples() if of.base >= 0 or of.card or of.weights.adapter]
    return {of.model: runs.model.get(of.base, "") for of in tuned}


def notes(results):
    """What is said of tuned models and of cards."""
    return [*results.notes["text"][results.notes["kind"] == "tuned"]]


# Names and pairs.


def parsed(text):
    return dict(part.split("=") for part in text.split())


def asked(folder, runs, **more):
    for name, of in parsed(runs).items():
        arguments = dict(zip(("pretrained", "peft"), of.split("+"), strict=False))
        write(folder / name, {AGE: (40.0, 3.0)}, config={"model_args": arguments}, **more)


PAIRS = yaml.safe_load((REPOSITORY / "tests/data/finetuning.yaml").read_text())["pairs"]


@pytest.mark.parametrize(("runs", "cards", "pairs", "said"), PAIRS)
def test_bases_of_tuned_models(runs, cards, pairs, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked(tmp_path / "results", runs)
    for place, base in parsed(cards).items():
        put(tmp_path / place, card(base=base, how="lora" if "+" in runs else "full"))
    made = read_runs([tmp_path / "results"])
    assert {name.replace(" ", ""): base for name, base in paired(made).items()} == parsed(pairs)
    assert said in "\n".join(notes(made)) and bool(said) == bool(notes(made))


def test_one_is_paired_by_hand_with_a_base_that_was_asked_alike(tmp_path):
    asked(tmp_path, "base=here/small one=moved/big+/gone/one two=moved/big+/gone/two")
    made = read_runs([tmp_path], pairs=["small=big +one", "small=big +two"])
    assert paired(made) == {"big +one": "small", "big +two": "small"}
    with pytest.raises(EpidemiaError, match="does not name two of the models"):
        command("report", tmp_path, "--pair", "tiny=big +one")
    asked(tmp_path, "base=here/small", chat_template="{{messages}}")
    made = read_runs([tmp_path], pairs=["small=big +one"])
    assert not any(paired(made).values()) and find("tuning")(made).table.empty
    assert "was not asked in the same way (chat template" in notes(made)[0]


@pytest.mark.parametrize("text", ["[" * 100_000, json.dumps(asdict(card(held_out={AGE: 3})))])
def test_a_damaged_card_is_a_note(text, tmp_path):
    asked(tmp_path / "results", f"base={BASE} tuned={tmp_path / 'out'}")
    (put(tmp_path / "out", card(how="full")) / TUNED_CARD).write_text(text)
    made = read_runs([tmp_path / "results"])
    (note,) = notes(made)
    assert paired(made) == {} and "copy it again" in note
    assert ("is not JSON" if text.startswith("[") else "Expected `array`, got `int`") in note


# What changed.


def seeded(number, **settings):
    """Of a training with a seed, the dataset's and its own, and what follows from it."""
    more = {"kind": "notes", "held_out": {}, "counts": {"sentence forms": 280 + number}}
    return {**more, "seed": number, "settings": {"seed": number, **settings}}


#: Adapters of one base: the noise of their answers, and what their cards say.
ADAPTERS = {
    "few": ("0.6", {}),
    "more": ("0.2", {"rows": 1000}),
    "every": ("0.2", {"rows": 500, "held_out": {}}),
    "soft": ("0.2", {"kind": "distributions"}),
    "other": ("0.2", {"kind": "notes", "fingerprint": "0123456789ab"}),
    "silent": ("0.2", {"kind": "notes", "vintage": "2023"}),
    # Two seeds; other settings; one seed twice; three seeds of answers that are alike.
    **{"two-0": ("0.6", seeded(0)), "two-1": ("0.2", seeded(1))},
    "two-2": ("0.2", seeded(2, lr=1e-4)),
    **{f"twice-{n}": ("0.2", seeded(0, r=8)) for n in range(2)},
    **{f"three-{n}": ("0.6", seeded(n, r=16)) for n in range(3)},
}
NAMES = {name: f"small-1B +{name}/adapter" for name in ADAPTERS}


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """Results of three respondents, the further from the truth the more noise they have."""
    folder, answered = tmp_path_factory.mktemp("tuned"), {}
    for noise in ("1.5", "0.6", "0.2"):
        how = {"model_args": f"kind=noisy,noise={noise},seed=3"}
        answered[noise] = copied_run(tmp_path_factory, folder / noise, TASKS, **how)
    renamed(answered["1.5"], folder / "results" / "base", pretrained=BASE)
    for name, (noise, of) in ADAPTERS.items():
        adapter = put(folder / name / "adapter", card(**of))
        path = renamed(answered[noise], folder / "results" / name, pretrained=BASE, peft=adapter)
        if name == "silent":
            path.write_text(path.read_text().replace('"said":', '"once said":'))
    made = read_runs([folder / "results"])
    finding, (own, _) = find("tuning")(made), collect_answers(made)
    runs = [scores(made, name)["run"].iloc[0] for name in ("small-1B", NAMES["more"])]
    # The answers of the base, and of the adapter that has seen more, by task.
    sides = {of: [own[run, LeafKey(of, "letters")].q for run in runs] for of in TASKS[:4]}
    of = {"table": finding.table, "left_out": "\n".join(finding.left_out), "sides": sides}
    return SimpleNamespace(folder=folder / "results", made=made, **of)


def only(table, **wanted):
    """The row of a table with these values."""
    (row,) = table[(table[[*wanted]] == [*wanted.values()]).all(axis=1)].itertuples(index=False)
    return row


def scores(made, name):
    """The scores of a run in letters, by task."""
    own = made.scores.query("way == 'letters'")
    return own[own["run"].map(made.runs["model"]) == name].set_index("task")


def drawn(made, name, tasks):
    return np.mean([of.at for of in scores(made, name)["draws"][tasks]], axis=0)


def moved(task, before, after, cells):
    """How much nearer the truth came at each replicate of the survey, in some cells."""
    truth = store.load_truth(task)
    weights = truth.weights[cells] / truth.weights[cells].sum()
    nearer = np.abs(truth.replicates - after) - np.abs(truth.replicates - before)
    return nearer[:, cells].sum(axis=2) @ weights


def test_parts_of_a_group_are_means_over_their_tasks(tuned):
    table = tuned.table[tuned.table.model == NAMES["more"]]
    low = table[(table.group == LOW) & ~table.part.str.contains("cells")]
    tasks = {"all": 4, "trained on": 2, "held out": 1, "not in training": 1}
    assert by(low[low.task == ""], "part", of="tasks") == tasks
    parts = ("trained on", "trained on", "held out", "not in training")
    assert by(low[low.task != ""], "task", of="part") == dict(zip(TASKS, parts, strict=False))
    one = only(low, part="trained on", task="")
    before, after = (scores(tuned.made, name).loc[SEEN] for name in ("small-1B", NAMES["more"]))
    assert (one.before, one.after) == pytest.approx((before.value.mean(), after.value.mean()))
    assert (one.l1_before, one.l1_after) == pytest.approx((before.l1.mean(), after.l1.mean()))
    # Tasks share a sample. Kept answers have six digits.
    draws = drawn(tuned.made, NAMES["more"], SEEN) - drawn(tuned.made, "small-1B", SEEN)
    assert one.error == pytest.approx(draws.std(ddof=1))
    at = [moved(task, *tuned.sides[task], slice(None)) for task in SEEN]
    assert one.l1_error == pytest.approx(np.mean(at, axis=0).std(ddof=1), rel=1e-4)
    averages = np.mean([Anchors.of(store.load_truth(task)).mean for task in SEEN])
    assert one.averages_l1 == pytest.approx(averages)
    assert one.wins == 2 and one.verdict in ("better", "better here")
    # Without both answers there is no error of l1.
    silent = tuned.table[tuned.table.model == NAMES["silent"]]
    assert silent.l1_error.isna().all() and silent.error.notna().all()


def test_held_out_cells_stand_apart_on_their_own_scale(tuned):
    """Everything worked out anew from the truth and from what was elicited."""
    table, truth = tuned.table[tuned.table.model == NAMES["more"]], store.load_truth(AGE)
    seen = [cell for cell in range(len(truth.weights)) if cell not in LEFT_OUT]
    for part, cells in (("cells trained on", seen), ("held-out cells", LEFT_OUT)):
        one = only(table, group=LOW, part=part, task="")
        w, p = truth.weights[cells] / truth.weights[cells].sum(), truth.p[cells]
        none = np.array([[0.5, 0.5], np.eye(2)[(w @ p).argmax()]])
        zero = min(w @ np.abs(p - q).sum(axis=1) for q in none)
        perfect = np.quantile(distance(w, draw_truths(p, truth.n_eff[cells]), p), 0.95)
        # The average of everybody, not of these cells.
        told = [*(q[cells] for q in tuned.sides[AGE]), truth.weights @ truth.p]
        l1 = np.array([float(w @ np.abs(p - q).sum(axis=1)) for q in told])
        assert [one.l1_before, one.l1_after, one.averages_l1] == pytest.approx(l1)
        values = 100 * np.clip((zero - l1) / (zero - perfect), 0, 1)
        assert [one.before, one.after, one.averages] == pytest.approx(values)
        assert one.l1_error == pytest.approx(moved(AGE, *tuned.sides[AGE], cells).std(ddof=1))
        assert one.people == pytest.approx(truth.weights[cells].sum())
    # Cocaine by race was trained on whole, heroin not at all; not of another truth, and by answers.
    cells = tuned.table[tuned.table.part.str.contains("cells") & (tuned.table.task != "")]
    assert {*cells.task} == {AGE, f"{AGE}_likelihood"}
    assert {*cells.model} == {NAMES[name] for name in ("few", "more", "soft")}
    assert "another truth (0123456789ab)" in tuned.left_out
    assert f"needs the answers of both (lm_eval --log_samples): {AGE}, {AGE}_l" in tuned.left_out


def test_runs_that_differ_in_their_seeds_alone_are_one_row_with_both_errors(tuned):
    table = tuned.table
    several = {f"{NAMES['two-0']}, 2 seeds", f"{NAMES['three-0']}, 3 seeds"}
    assert {*table.model[table.seeds > 1]} == several
    low, high = (only(table, model=NAMES[f"two-{n}"], group=LOW, part="all") for n in (0, 1))
    one = only(table, seeds=2, group=LOW, part="all")
    assert one.after == pytest.approx((low.after + high.after) / 2)
    # Of two, the standard deviation is their distance / sqrt 2, the mean's error that / sqrt 2.
    assert one.over_seeds == pytest.approx(abs(high.after - low.after) / 2)
    # The survey's error of the mean: the seeds share its replicates, which do not cancel.
    base, *of = (drawn(tuned.made, name, TASKS[:4]) for name in ("small-1B", low.model, high.model))
    assert one.error == pytest.approx((np.mean(of, axis=0) - base).std(ddof=1), rel=1e-3)
    # Student's t at 97.5 %, one degree of freedom: 12.706, and the seeds differ by more than that:
    # their error is most of both, so that Satterthwaite's degrees are hardly more.
    assert one.difference < 12 * one.over_seeds and one.verdict == "not shown"
    assert "no mean over seeds of small-1B +twice-0/adapter, small-1B +twice-1" in tuned.left_out
    # All alike: no error over seeds, and beyond t of the survey's.
    one = only(table, seeds=3, group=LOW, part="all")
    assert (one.over_seeds, one.verdict) == (0, "better here")


def test_a_verdict_on_seeds_needs_both_errors_l1_and_answers():
    """Of errors 1.4 and 0.3, the second of 2 degrees, Satterthwaite: 1038 degrees, t 1.962."""

    def verdict(difference, trainings=(1, 2, 3), silent=(), nearer=0.1):
        row = SimpleNamespace(group=LOW, l1_before=0.5, l1_after=0.5 - nearer, error=1.4)
        row.seeds, row.trainings, row.over_seeds = len(trainings), trainings, 0.3
        row.difference, row.compared = difference, SimpleNamespace(verdict="better here")
        return tuning._verdict(row, {*silent})

    both = (1.4**2 + 0.3**2) ** 0.5
    assert [verdict(x * both) for x in (1.95, 1.97)] == ["not shown", "better here"]
    assert verdict(-1.97 * both, nearer=-0.1) == "worse here"
    # Better by the score and not by l1 is neither, of one training as of several.
    for trainings in ((1,), (1, 2, 3)):
        assert verdict(9, trainings, nearer=-1e-3) == "not shown"
        assert verdict(9, trainings, silent=[(1, LOW)]) == "does not answer"


# What is shown.


def test_adapters_are_told_apart_described_and_on_a_curve_with_its_references(tuned):
    made, table = tuned.made, tuned.table
    assert notes(made) == [] and find("versions")(made).table.empty
    assert paired(made) == dict.fromkeys(NAMES.values(), "small-1B")
    # Texts are asked in no way.
    of = table[(table.part == "all") & table.model.isin([NAMES["few"], NAMES["two-0"]])]
    assert [*of.as_trained] == ["yes", "", "no", ""]
    (few,) = find("trained")(made).table.query("model == @NAMES['few']").to_dict("records")
    told = {"data": "answers", "rows": 100, "tasks held out": 1, "cells held out": 3}
    assert {**told, "kept step": 20}.items() <= few.items()
    low = find("learning")(made).table.query("group == @LOW")
    # Who was shown everything is not on the line of those who were not.
    part = "answers, lora, part held out"
    less = ["base", "distributions, lora, part held out", "knows averages only"]
    assert [*low.trained_on] == ["answers, lora", part, part, *less]
    assert [*low.rows[:3]] == [500, 100, 1000] and low.rows[3:].isna().all()
    assert low.value.iloc[1] < low.value.iloc[2] == low.value.iloc[4] and {*low.tasks} == {4}
    # The first screen says who was trained on what it is asked, and where its base is, more.
    shown, alone = (command("report", of).split() for of in (tuned.folder, tuned.folder / "few"))
    assert "tuning" in shown and "tuning" not in alone
    assert all("after training on these" in " ".join(text) for text in (shown, alone))
    losses = find("losses")(made).table
    assert len(losses) == 5 * len(NAMES) and {*losses.step[losses.split == "kept"]} == {20}
    # A loss that is not finite leaves a gap.
    assert [*losses.loss[:3]] == [0.9, 0.6, 0.61] and losses.loss[3:5].isna().all()


def test_losses(tmp_path):
    """One that is not finite leaves a gap."""
    folder = put(tmp_path, card())
    shown = save_losses(folder).read_text()
    # The dashed line is where the kept checkpoint is.
    assert "validation" in shown and "NaN" not in shown and "stroke-dasharray" in shown
    for text, said in (
        ("step,loss\n1,2\n", "expected columns step, epoch, split .train or"),
        (LINES.replace(".9", "much"), "expected columns"),
        (LINES[:22], "0 losses"),
        (LINES.replace("validation", "test"), "4 losses of"),
    ):
        (folder / LOSSES).write_text(text)
        with pytest.raises(EpidemiaError, match=said):
            save_losses(folder)
