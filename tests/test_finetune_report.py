"""Before and after fine-tuning, from real runs of lm-eval: pairs, parts, errors, figures.

Respondents whose answers are known stand for models; what lm-eval wrote of their names is changed
to what it writes of a base, of adapters and of full weights.
"""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from conftest import recorded
from recorded_runs import copied_run
from report_parts import command

from lm_eval_epidemia.cli.report import read
from lm_eval_epidemia.core.distance import distance
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import find, tuning
from lm_eval_epidemia.findings.cells import answers
from lm_eval_epidemia.report.figures import save_losses
from lm_eval_epidemia.results.card import LOSSES, TUNED_CARD, DatasetCard, Tuned, write_card
from lm_eval_epidemia.score.score import draw_truths

NAMES = (
    "cocaine_ever_by_age",
    "cocaine_ever_by_race",
    "heroin_ever_by_age",
    "marijuana_ever_by_age",
)
AGE, RACE, HEROIN, MARIJUANA = (f"epidemia_low_nsduh_{name}" for name in NAMES)
TASKS = [AGE, RACE, HEROIN, MARIJUANA, f"{AGE}_likelihood"]
LOW = "epidemia_low"
BASE = "org/small-1B"
#: Of cocaine by age, the cells that were left out of training.
LEFT_OUT = [0, 4, 7]


def card(kind="answers", rows=100, base=BASE, how="lora", **more):
    dataset = DatasetCard(
        kind=kind,
        survey="nsduh",
        vintage="2022",
        fingerprint=store.load(AGE).fingerprint,
        seed=1,
        rows={"train": rows, "validation": 10},
        tasks=[AGE, RACE],
        held_out={AGE: LEFT_OUT, HEROIN: list(range(11))},
    )
    return Tuned(
        base=base,
        how=how,
        dataset=replace(dataset, **more),
        settings={"epochs": 2},
        steps=40,
        best_step=20,
        best_loss=0.61,
        last_loss=0.66,
    )


LINES = (
    "step,epoch,split,loss\n10,0.5,train,0.9\n20,1.0,train,0.6\n20,1.0,validation,0.61\n"
    "40,2.0,train,0.4\n40,2.0,validation,0.66\n"
)


def put(folder, found):
    """The two files that training leaves in the folder of a tuned model."""
    folder.mkdir(parents=True, exist_ok=True)
    write_card(folder, found)
    (folder / LOSSES).write_text(LINES)
    return folder


def renamed(source, folder, **arguments):
    """A copy of a run as lm-eval writes it of another model."""
    shutil.copytree(source, folder)
    (path,) = folder.rglob("results_*.json")
    found = json.loads(path.read_text())
    found["config"] |= {"model": "hf", "model_args": {k: str(v) for k, v in arguments.items()}}
    path.write_text(json.dumps(found))
    return folder


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """Three respondents, the further from the truth the more noise they have."""
    folder = tmp_path_factory.mktemp("answered")
    for noise in ("1.5", "0.6", "0.2"):
        arguments = f"kind=noisy,noise={noise},seed=3"
        copied_run(tmp_path_factory, folder / noise, TASKS, model_args=arguments)
    return folder


@pytest.fixture
def results(answered, tmp_path):
    """A base and two adapters of it, whose folders have one name."""
    folder = tmp_path / "results"
    renamed(answered / "1.5", folder / "base", pretrained=BASE)
    for number, (noise, rows) in enumerate((("0.6", 100), ("0.2", 1000))):
        adapter = put(tmp_path / "trained" / f"run-{number}" / "adapter", card(rows=rows))
        renamed(answered / noise, folder / str(number), pretrained=BASE, peft=adapter)
    return folder


def paired(results):
    """The base of each tuned model, by name; None without one."""
    runs = results.runs
    return {
        of["model"]: None if of["base"] != of["base"] else runs["model"][of["base"]]
        for of in runs.to_dict("records")
        if of["base"] == of["base"] or of["card"] or of["weights"].adapter
    }


def notes(results):
    """What is said of tuned models and of cards."""
    return [*results.notes["text"][results.notes["kind"] == "tuned"]]


# Names and pairs.


def test_adapters_of_one_base_are_told_apart_and_paired_by_their_cards(results):
    made = read([results])
    names = {"small-1B +run-0/adapter", "small-1B +run-1/adapter"}
    assert {*made.runs["name"]} == {"small-1B", *names}
    assert paired(made) == dict.fromkeys(names, "small-1B")
    rows = {of.dataset.rows["train"] for of in made.runs["card"] if of}
    assert rows == {100, 1000} and notes(made) == [] and find("versions")(made).table.empty
    # The first screen says who was trained on what it is asked; the base alone was not.
    shown = " ".join(command("report", results).split())
    assert "--show tuning" in shown and "tuned" in shown
    assert "tuned" not in command("report", results / "base")
    assert "--show tuning" not in command("report", results / "0")


def test_a_folder_is_taken_relative_to_the_working_directory(answered, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "out", card(how="full"))
    renamed(answered / "1.5", tmp_path / "results" / "base", pretrained=BASE)
    renamed(answered / "0.6", tmp_path / "results" / "tuned", pretrained="out/")
    assert paired(read([tmp_path / "results"])) == {"out": "small-1B"}


def test_cards_beside_results_serve_where_the_folder_is_gone(answered, tmp_path):
    """Of full weights; the base, which lies below too, is not taken for tuned."""
    folder = tmp_path / "results"
    renamed(answered / "1.5", folder / "base", pretrained=BASE)
    renamed(answered / "0.6", folder / "tuned", pretrained="/gone/weights")
    for place in (folder / "tuned", folder):
        put(place, card(how="full"))
        made = read([folder])
        assert paired(made) == {"weights": "small-1B"} and notes(made) == []
        assert [of for of in made.runs["card_folder"] if of] == [place]
        (place / TUNED_CARD).unlink()
    assert paired(read([folder])) == {}


def test_one_card_above_several_models_counts_for_none(answered, tmp_path):
    folder = put(tmp_path / "results", card(how="full"))
    for name in ("one", "other"):
        renamed(answered / "0.6", folder / name, pretrained=f"/gone/{name}")
    made = read([folder])
    assert paired(made) == {} and "could belong to one, other, so it is ignored" in notes(made)[0]
    # With a card of its own, the other leaves this one to the first.
    put(folder / "other", card(how="full"))
    assert {*paired(read([folder]))} == {"one", "other"}


def test_without_a_card_the_same_weights_without_the_adapter_are_the_base(answered, tmp_path):
    renamed(answered / "1.5", tmp_path / "a", pretrained=BASE)
    renamed(answered / "0.6", tmp_path / "b", pretrained=BASE, peft="org/adapter")
    made = read([tmp_path])
    assert paired(made) == {"small-1B +adapter": "small-1B"} and not made.runs["card"].any()
    (whole, *_) = find("tuning")(made).table.to_dict("records")
    assert whole["part"] == "all" and whole["difference"] > 0


def test_an_adapter_on_other_weights_is_not_paired_with_its_base(results, answered):
    """Asked on weights that are not its base's, its difference from that base means nothing."""
    adapter = results.parent / "trained" / "run-0" / "adapter"
    for folder in ("0", "1"):
        shutil.rmtree(results / folder)
    renamed(answered / "0.6", results / "on", pretrained="org/other-1B", peft=adapter)
    made = read([results])
    assert paired(made) == {"other-1B +adapter": None}
    said, left = notes(made)
    assert "its adapter was tuned from org/small-1B but runs on org/other-1B. Unless" in said
    assert "org/other-1B, which is not among the results" in left
    renamed(answered / "1.5", results / "other", pretrained="org/other-1B")
    assert paired(read([results])) == {"other-1B +adapter": "other-1B"}


@pytest.mark.parametrize(
    ("base", "asked", "found"),
    [
        ("models/small-1B", "models/../models/small-1B", True),  # the same folder
        ("/elsewhere/small-1B", "hub/small-1B", True),  # the last part
        ("hub/small-1B-v2", "hub/small-1B", False),
    ],
)
def test_a_base_named_in_another_form_is_found(answered, tmp_path, base, asked, found):
    weights = put(tmp_path / "weights", card(base=base, how="full"))
    renamed(answered / "1.5", tmp_path / "results" / "base", pretrained=asked)
    renamed(answered / "0.6", tmp_path / "results" / "tuned", pretrained=weights)
    made = read([tmp_path / "results"])
    assert paired(made) == {"weights": "small-1B" if found else None}
    assert notes(made) == [] if found else "--pair BASE=weights" in notes(made)[0]
    # Named by hand it is found, whatever the card says; and it is no instruct version.
    made = read([tmp_path / "results"], pairs=["small-1B=weights"])
    assert paired(made) == {"weights": "small-1B"} and find("versions")(made).table.empty


def test_a_written_name_is_preferred_and_two_that_fit_alike_are_asked_about(answered, tmp_path):
    weights = put(tmp_path / "weights", card(base="org/small-1B", how="full"))
    for owner in ("org", "other"):
        renamed(answered / "1.5", tmp_path / "results" / owner, pretrained=f"{owner}/small-1B")
    renamed(answered / "0.6", tmp_path / "results" / "tuned", pretrained=weights)
    assert paired(read([tmp_path / "results"])) == {"weights": "org/small-1B"}
    put(weights, card(base="/cache/small-1B", how="full"))
    made = read([tmp_path / "results"])
    (note,) = notes(made)
    assert paired(made) == {"weights": None}
    assert "which could be org/small-1B, other/small-1B: name it with --pair BASE=weights" in note


def test_a_base_that_was_asked_otherwise_is_no_base(results):
    (path,) = (results / "base").rglob("results_*.json")
    found = json.loads(path.read_text())
    path.write_text(json.dumps({**found, "chat_template": "{{messages}}"}))
    made = read([results])
    assert {*paired(made).values()} == {None}
    assert all("was not asked in the same way" in note for note in notes(made))
    assert find("tuning")(made).table.empty


def test_several_adapters_are_paired_by_hand_from_the_command_line(answered, tmp_path):
    renamed(answered / "1.5", tmp_path / "base", pretrained="here/small")
    for name in ("one", "two"):
        renamed(answered / "0.6", tmp_path / name, pretrained="moved/big", peft=f"/gone/{name}")
    pairs = ("--pair", "small=big +one", "--pair", "small=big +two")
    rows = json.loads(command("report", tmp_path, *pairs, "--show", "tuning", "--format", "json"))
    pairs = {(one["model"], one["base"]) for one in rows["tuning"]}
    assert pairs == {("big +one", "small"), ("big +two", "small")}
    with pytest.raises(EpidemiaError, match="does not name two of the models"):
        command("report", tmp_path, "--pair", "tiny=big +one")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "not a card of this version"),
        ('{"base": "x"}', "not a card of this version"),
        ("[" * 100_000, "is not JSON"),
        (None, "Expected `array`, got `int`"),
    ],
)
def test_a_damaged_card_is_a_note(answered, tmp_path, text, said):
    weights = put(tmp_path / "weights", card(how="full"))
    if text is None:
        broken = json.loads((weights / TUNED_CARD).read_text())
        broken["dataset"]["held_out"] = {AGE: 3}
        text = json.dumps(broken)
    (weights / TUNED_CARD).write_text(text)
    renamed(answered / "1.5", tmp_path / "results" / "base", pretrained=BASE)
    renamed(answered / "0.6", tmp_path / "results" / "tuned", pretrained=weights)
    made = read([tmp_path / "results"])
    (note,) = notes(made)
    assert paired(made) == {}
    assert said in note and TUNED_CARD in note and "copy it again" in note


# What changed.


def only(table, **wanted):
    """The row of a table with these values."""
    for name, value in wanted.items():
        table = table[table[name] == value]
    (row,) = table.itertuples(index=False)
    return row


@pytest.fixture
def second(results):
    """The base and the second adapter alone: table, and answers by folder and task."""
    shutil.rmtree(results / "0")
    made = read([results])
    own, _ = answers(made)
    base = made.runs.index[made.runs["model"] == "small-1B"][0]
    sides = {
        (("base" if run == base else "1"), asked.task): of.q
        for (run, asked), of in own.items()
        if asked.way == "letters"
    }
    return find("tuning")(made).table, sides


def test_parts_of_a_group_are_means_over_their_tasks(second, results):
    table, _ = second
    low = table[(table.group == LOW) & ~table.part.str.contains("cells")]
    counts = {row.part: row.tasks for row in low[low.task == ""].itertuples()}
    assert counts == {"all": 4, "trained on": 2, "held out": 1, "not in training": 1}
    parts = {row.task: row.part for row in low[low.task != ""].itertuples()}
    assert parts == {
        **dict.fromkeys((AGE, RACE), "trained on"),
        **{HEROIN: "held out", MARIJUANA: "not in training"},
    }
    files = {
        name: json.loads(next((results / name).rglob("results_*.json")).read_text())
        for name in ("base", "1")
    }
    one = only(low, part="trained on", task="")
    for name, value, l1 in (("base", one.before, one.l1_before), ("1", one.after, one.l1_after)):
        rows = [files[name]["results"][task] for task in (AGE, RACE)]
        assert value == pytest.approx(np.mean([row["score,none"] for row in rows]))
        assert l1 == pytest.approx(np.mean([row["l1,none"] for row in rows]))
    # The error from the draws in both files, of tasks that share a sample.
    drawn = [
        [
            np.array(files[name]["epidemia"]["replicates"][task]["score"].split(), dtype=float)
            for task in (AGE, RACE)
        ]
        for name in ("base", "1")
    ]
    moved = np.mean(drawn[1], axis=0) - np.mean(drawn[0], axis=0)
    assert one.error == pytest.approx(moved.std(ddof=1))
    assert one.wins == 2 and one.verdict in ("better", "better here")
    # Programs get every task; of l1 nothing is decided.
    chosen = only(table, task=f"{AGE}_likelihood", part="trained on")
    assert chosen.as_trained == "no" and one.as_trained == "yes"
    assert chosen.difference == pytest.approx(chosen.after - chosen.before)


def test_the_error_of_l1_is_its_spread_over_the_replicates(second):
    table, sides = second
    at = []
    for task in (AGE, RACE):
        truth, before, after = store.load(task), sides["base", task], sides["1", task]
        at.append(
            [
                truth.weights @ (np.abs(p - after) - np.abs(p - before)).sum(axis=1)
                for p in truth.replicates
            ]
        )
    one = only(table, group=LOW, part="trained on", task="")
    # Kept answers have six digits.
    assert one.l1_error == pytest.approx(np.mean(at, axis=0).std(ddof=1), rel=1e-4)


def test_held_out_cells_stand_apart_on_their_own_scale(second):
    """Everything worked out anew from the truth and from what was elicited."""
    table, sides = second
    truth = store.load(AGE)
    seen = [cell for cell in range(len(truth.weights)) if cell not in LEFT_OUT]
    for part, cells in (("cells trained on", seen), ("held-out cells", LEFT_OUT)):
        one = only(table, group=LOW, part=part, task="")
        w = truth.weights[cells] / truth.weights[cells].sum()
        p = truth.p[cells]
        zero = min(
            w @ np.abs(p - 0.5).sum(axis=1), w @ np.abs(p - np.eye(2)[(w @ p).argmax()]).sum(axis=1)
        )
        drawn = distance(w, draw_truths(p, truth.n_eff[cells]), p)
        perfect = np.quantile(drawn, 0.95)

        def score(d, zero=zero, perfect=perfect):
            return 100 * float(np.clip((zero - d) / (zero - perfect), 0, 1))

        before, after = (sides[side, AGE][cells] for side in ("base", "1"))
        for q, value, l1 in (
            (before, one.before, one.l1_before),
            (after, one.after, one.l1_after),
        ):
            assert l1 == pytest.approx(float(w @ np.abs(p - q).sum(axis=1)))
            assert value == pytest.approx(score(l1))
        at = [
            w @ (np.abs(r[cells] - after) - np.abs(r[cells] - before)).sum(axis=1)
            for r in truth.replicates
        ]
        assert one.l1_error == pytest.approx(np.std(at, ddof=1))
        known = truth.weights @ truth.p  # of everybody, not of these cells
        assert one.averages_l1 == pytest.approx(float(w @ np.abs(p - known).sum(axis=1)))
        assert one.averages == pytest.approx(score(one.averages_l1))
        assert one.people == pytest.approx(truth.weights[cells].sum())
    # Cocaine by race was trained on whole, heroin not at all.
    cells = table[table.part.str.contains("cells") & (table.task != "")]
    assert {*cells.task} == {AGE, f"{AGE}_likelihood"}


def test_knowing_the_marginal_scores_what_that_respondent_scores(second, tmp_path):
    recorded(tmp_path / "mean", TASKS[:4], model_args="kind=mean")
    scores = read([tmp_path / "mean"]).scores
    one = only(second[0], group=LOW, part="all")
    assert one.averages == pytest.approx(scores["value"].mean())
    assert one.averages_l1 == pytest.approx(scores["l1"].mean(), abs=1e-6)


def test_cells_of_another_truth_are_not_told_apart(results):
    put(results.parent / "trained" / "run-1" / "adapter", card(fingerprint="0123456789ab"))
    finding = find("tuning")(read([results]))
    table = finding.table
    assert {*table.model[table.part == "held-out cells"]} == {"small-1B +run-0/adapter"}
    assert "another truth (0123456789ab)" in "\n".join(finding.left_out)


def test_without_answers_cells_are_not_told_apart_and_l1_has_no_error(results):
    (path,) = (results / "base").rglob("results_*.json")
    found = json.loads(path.read_text())
    del found["epidemia"]["said"]
    path.write_text(json.dumps(found))
    for path in (results / "base").rglob("samples_*"):
        path.unlink()
    finding = find("tuning")(read([results]))
    table = finding.table
    assert not table.part.str.contains("cells").any()
    assert table.l1_error.isna().all() and table.error.notna().all()
    left = "\n".join(finding.left_out)
    assert "held-out cells are not told apart, as that needs the answers of both" in left
    assert f"{AGE}, {AGE}_likelihood" in left and "--log_samples" in left


# Several seeds.


def seeds(answered, folder, noises, **more):
    """A base, and a model tuned with each seed: those of the training and of the dataset."""
    renamed(answered / "1.5", folder / "results" / "base", pretrained=BASE)
    for seed, noise in enumerate(noises):
        counts = {"people": 10, "dropped": 0, "sentence forms": 280 + seed}
        made = card(kind="notes", seed=seed, counts=counts, facts=["age"], held_out={}, **more)
        made = replace(
            made, settings={"epochs": 6.0, "lr": 5e-5, "r": 16, "seed": seed}, best_step=seed
        )
        adapter = put(folder / "trained" / f"seed-{seed}", made)
        renamed(answered / noise, folder / "results" / str(seed), pretrained=BASE, peft=adapter)
    return read([folder / "results"])


def whole(made):
    """The rows of the group's means: of every training, and of the mean over seeds."""
    table = find("tuning")(made).table
    table = table[(table.group == LOW) & (table.part == "all")]
    return table[table.seeds == 1], table[table.seeds > 1]


def test_runs_that_differ_in_their_seed_are_one_row_with_both_errors(answered, tmp_path):
    made = seeds(answered, tmp_path, ("0.6", "0.2"))
    (low, high), (one,) = (table.to_dict("records") for table in whole(made))
    assert one["model"] == "small-1B +seed-0, 2 seeds"
    assert one["after"] == pytest.approx((low["after"] + high["after"]) / 2)
    # Of two, the standard deviation is their distance / sqrt 2, the mean's error that / sqrt 2.
    assert one["over_seeds"] == pytest.approx(abs(high["after"] - low["after"]) / 2)
    # The survey's error of the mean: the seeds share its replicates, which do not cancel.
    files = [next((tmp_path / "results" / n).rglob("results_*.json")) for n in ("base", "0", "1")]
    drawn = [
        np.mean(
            [
                np.array(
                    json.loads(path.read_text())["epidemia"]["replicates"][task]["score"].split(),
                    float,
                )
                for task in TASKS[:4]
            ],
            axis=0,
        )
        for path in files
    ]
    assert one["error"] == pytest.approx(
        ((drawn[1] + drawn[2]) / 2 - drawn[0]).std(ddof=1), rel=1e-3
    )
    # Student's t at 97.5 %, one degree of freedom: 12.706, and the seeds differ by more than that:
    # their error is most of both, so that Satterthwaite's degrees are hardly more.
    assert one["difference"] < 12 * one["over_seeds"] and one["verdict"] == "not shown"
    # For programs there is every training, too.
    rows = find("tuning")(made).table
    assert (rows.seeds == 1).sum() == 2 * (rows.seeds == 2).sum()


def test_a_verdict_on_seeds_needs_both_errors_l1_and_answers(answered, tmp_path):
    """All alike: no error over seeds, and beyond t of the survey's.

    Of errors 1.4 and 0.3, the second of 2 degrees, Satterthwaite: 1038 degrees, t 1.962.
    """
    made = seeds(answered, tmp_path, ("0.6", "0.6", "0.6"))
    single, several = whole(made)
    (one,) = several.itertuples()
    assert (one.over_seeds, one.seeds, one.verdict) == (0, 3, "better here")
    assert {*single.verdict} == {"better here"}
    fields = {name: getattr(one, name) for name in ("group", "l1_before", "l1_after")}

    def verdict(difference, error=1.4, over_seeds=0.3, trainings=(1, 2, 3), silent=(), **more):
        row = {**fields, "difference": difference, "error": error, "over_seeds": over_seeds}
        row |= {"seeds": len(trainings), "trainings": trainings, "compared": Better, **more}
        return tuning._verdict(type("Row", (), row), {*silent})

    class Better:
        verdict = "better here"

    both = (1.4**2 + 0.3**2) ** 0.5
    assert [verdict(x * both) for x in (1.95, 1.97)] == ["not shown", "better here"]
    # Better by the score and not by l1 is neither, of one training as of several.
    further = {"l1_after": one.l1_before + 1e-3}
    assert {verdict(9, trainings=t, **further) for t in ((1,), (1, 2, 3))} == {"not shown"}
    for trainings in ((1,), (1, 2)):
        assert verdict(9, trainings=trainings, silent=[(1, LOW)]) == "does not answer"


def test_other_settings_and_seeds_that_are_the_same_are_no_seeds(answered, tmp_path):
    seeds(answered, tmp_path, ("0.6", "0.2", "0.2"))
    cards = [tmp_path / "trained" / f"seed-{seed}" for seed in range(3)]

    def numbers():
        return {*whole(read([tmp_path / "results"]))[1].seeds}

    assert numbers() == {3}
    kept = json.loads((cards[2] / TUNED_CARD).read_text())
    other = {**kept, "settings": {**kept["settings"], "lr": 1e-4}}
    (cards[2] / TUNED_CARD).write_text(json.dumps(other))
    assert numbers() == {2}
    again = {**kept, "settings": {**kept["settings"], "seed": 1}}
    again["dataset"] = {**kept["dataset"], "seed": 1}
    (cards[2] / TUNED_CARD).write_text(json.dumps(again))
    assert numbers() == set()
    (text,) = find("tuning")(read([tmp_path / "results"])).left_out
    assert "no mean over seeds of small-1B +seed-0, small-1B +seed-1, small-1B +seed-2" in text


# What is shown.


def test_texts_are_asked_in_no_way_and_every_training_is_described(results):
    put(results.parent / "trained" / "run-1" / "adapter", card(kind="notes"))
    made = read([results])
    table = find("tuning")(made).table
    table = table[(table.part == "all") & (table.task == "")]
    names = [f"small-1B +run-{number}/adapter" for number in (0, 1)]
    assert dict(zip(zip(table.model, table.group, strict=True), table.as_trained, strict=True)) == {
        (names[0], LOW): "yes",
        (names[0], f"{LOW}_likelihood"): "no",
        (names[1], LOW): "",
        (names[1], f"{LOW}_likelihood"): "",
    }
    rows = find("trained")(made).table.to_dict("records")
    assert {row["data"] for row in rows} == {"answers", "notes"}
    assert {(row["tasks held out"], row["cells held out"]) for row in rows} == {(1, 3)}
    assert [row["kept step"] for row in rows] == [20, 20]
    shown = command("report", results, "--show", "tuning,trained,learning", "--wide")
    assert "Before and after fine-tuning" in shown and "held-out cells" in shown
    assert AGE not in command("report", results, "--show", "tuning") and AGE in shown


def test_results_without_tuned_models_say_what_is_needed(answered, tmp_path):
    renamed(answered / "0.6", tmp_path / "a", pretrained=BASE)
    assert "fine-tuning" not in command("report", tmp_path, "--show", "all")
    for name in ("tuning", "learning", "losses"):
        with pytest.raises(EpidemiaError, match="tuned"):
            command("plot", name, tmp_path, "--out", tmp_path / "x.svg")


def test_figures(results, tmp_path):
    made = read([results])
    losses = find("losses")(made).table
    assert [*losses.step[losses.split == "kept"]] == [20, 20] and len(losses) == 2 * (5 + 1)
    for name in ("tuning", "losses", "learning"):
        command("plot", name, results, "--out", tmp_path / f"{name}.svg")
        drawn = (tmp_path / f"{name}.svg").read_text()
        assert drawn.startswith("<svg") and "NaN" not in drawn
    assert save_losses(put(tmp_path / "alone", card())).name == "losses.svg"
    assert "validation" in (tmp_path / "alone" / "losses.svg").read_text()


def test_the_learning_curve_has_its_references(results, answered, tmp_path):
    soft = put(tmp_path / "soft", card(kind="distributions"))
    renamed(answered / "0.2", results / "soft", pretrained=BASE, peft=soft)
    low = find("learning")(read([results])).table.query("group == @LOW")
    assert [*low.trained_on] == [
        *("answers, lora, part held out",) * 2,
        *("base", "distributions, lora, part held out", "knows averages only"),
    ]
    assert [*low.rows[:2]] == [100, 1000] and low.rows[2:].isna().all()
    assert low.value.iloc[0] < low.value.iloc[1] == low.value.iloc[3]
    assert {*low.tasks} == {4}
    # Who was shown everything is not on the line of those who were not.
    every = put(tmp_path / "every", card(rows=500, held_out={}))
    renamed(answered / "0.2", results / "every", pretrained=BASE, peft=every)
    table = find("learning")(read([results])).table
    assert [*table.trained_on[table.rows == 500]] == 2 * ["answers, lora"]


def test_a_loss_that_is_not_finite_leaves_a_gap(tmp_path):
    folder = put(tmp_path / "tuned", card())
    (folder / LOSSES).write_text(LINES.replace("0.66", "nan"))
    losses = tuning.losses_of(folder)["loss"]
    assert [*losses[:4]] == [0.9, 0.6, 0.61, 0.4] and losses[4:].isna().all()
    assert "NaN" not in save_losses(folder).read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "FileNotFoundError"),
        ("step,loss\n1,2\n", "expected columns step, epoch, split"),
        ("step,epoch,split,loss\n1,1,train,much\n", "expected columns"),
        ("step,epoch,split,loss\n", "0 losses"),
        ("step,epoch,split,loss\n1,1,test,0.5\n", "expected columns step, epoch, split .train or"),
    ],
)
def test_losses_that_are_none(tmp_path, text, said):
    folder = put(tmp_path / "tuned", card())
    (folder / LOSSES).unlink() if text is None else (folder / LOSSES).write_text(text)
    with pytest.raises(EpidemiaError, match=said):
        save_losses(folder)
    assert not (folder / "losses.svg").exists()


def test_a_real_adapter_is_another_model_than_its_base(tiny_llama, tmp_path):
    """Through lm-eval and peft: the adapter's folder has the card, the distances differ."""
    peft, torch = pytest.importorskip("peft"), pytest.importorskip("torch")
    from transformers import AutoModelForCausalLM

    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_pretrained(tiny_llama, dtype=torch.float32)
    config = peft.LoraConfig(task_type="CAUSAL_LM", target_modules="all-linear", r=4)
    adapted = peft.get_peft_model(model, config)
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.3)
    adapter = tmp_path / "adapter"
    adapted.save_pretrained(adapter)
    put(adapter, card(base=str(tiny_llama)))
    for name, more in (("base", ""), ("tuned", f",peft={adapter}")):
        recorded(
            tmp_path / "results" / name,
            [RACE],
            model="choice-hf",
            device="cpu",
            model_args=f"pretrained={tiny_llama},dtype=float32{more}",
        )
    made = read([tmp_path / "results"])
    assert paired(made) == {f"{tiny_llama.name} +adapter": tiny_llama.name}
    one = only(find("tuning")(made).table, part="all", task="")
    assert one.l1_before != one.l1_after and one.l1_error > 0
