"""Before and after fine-tuning, from real runs of lm-eval: pairs, parts, errors, figures, a page.

Respondents whose answers are known stand for models; what lm-eval wrote of their names is changed
to what it writes of a base, of adapters and of full weights.
"""

import json
import math
import re
import shutil
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from conftest import recorded
from lm_eval_epidemia.old.findings import tuning, tuning_rows, tuning_tables
from lm_eval_epidemia.old.findings.answered import read_samples
from lm_eval_epidemia.old.findings.leaderboard import make_report
from lm_eval_epidemia.old.findings.rows import Number
from lm_eval_epidemia.old.report import figures
from lm_eval_epidemia.old.report.sections import printed
from lm_eval_epidemia.results.results import read_results
from recorded_runs import copied_run
from typer.testing import CliRunner

from lm_eval_epidemia.cli import app
from lm_eval_epidemia.core.distance import distance
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.results.card import LOSSES, TUNED_CARD, DatasetCard, Tuned, write_card
from lm_eval_epidemia.results.entry import Asked
from lm_eval_epidemia.score.score import draw_truths

NAMES = (
    "cocaine_ever_by_age",
    "cocaine_ever_by_race",
    "heroin_ever_by_age",
    "marijuana_ever_by_age",
)
AGE, RACE, HEROIN, MARIJUANA = (f"epidemia_low_nsduh_{name}" for name in NAMES)
TASKS = [AGE, RACE, HEROIN, MARIJUANA, f"{AGE}_likelihood"]
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


def report_of(*folders, pairs=None):
    return make_report(read_results(folders), pairs=pairs)


def paired(report):
    return {one.entry.model: one.base and one.base.model for one in report.tuned}


def run(*arguments):
    done = CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done


# Names and pairs.


def test_adapters_of_one_base_are_told_apart_and_paired_by_their_cards(results):
    report = report_of(results)
    names = {"small-1B +run-0/adapter", "small-1B +run-1/adapter"}
    assert {entry.name for entry in report.runs} == {"small-1B", *names}
    assert paired(report) == dict.fromkeys(names, "small-1B")
    assert [one.card.dataset.rows["train"] for one in report.tuned] == [100, 1000]  # by name
    assert report.notes == [] and report.pairs == []


def test_the_first_screen_says_who_was_trained_on_what_it_is_asked(results):
    said = " ".join(run("report", results).stdout.split())
    assert "after training on these tasks" in said and "trained on it" in said
    assert "2 tuned models beside the base: --section tuning" in said
    # The base alone was not; nor is there a table of tuned models without it.
    assert "train" not in run("report", results / "base").stdout
    assert "--section tuning" not in run("report", results / "0").stdout


def test_a_folder_is_taken_relative_to_the_working_directory(answered, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "out", card(how="full"))
    renamed(answered / "1.5", tmp_path / "results" / "base", pretrained=BASE)
    renamed(answered / "0.6", tmp_path / "results" / "tuned", pretrained="out/")
    report = report_of(tmp_path / "results")
    assert paired(report) == {"out": "small-1B"}


def test_cards_beside_results_serve_where_the_folder_is_gone(answered, tmp_path):
    """Of full weights; the base, which lies below too, is not taken for tuned."""
    folder = tmp_path / "results"
    renamed(answered / "1.5", folder / "base", pretrained=BASE)
    renamed(answered / "0.6", folder / "tuned", pretrained="/gone/weights")
    for place in (folder / "tuned", folder):
        put(place, card(how="full"))
        report = report_of(folder)
        assert paired(report) == {"weights": "small-1B"} and report.notes == []
        assert report.tuned[0].folder == place
        (place / TUNED_CARD).unlink()
    assert paired(report_of(folder)) == {}


def test_one_card_above_several_models_counts_for_none(answered, tmp_path):
    folder = put(tmp_path / "results", card(how="full"))
    for name in ("one", "other"):
        renamed(answered / "0.6", folder / name, pretrained=f"/gone/{name}")
    report = report_of(folder)
    assert paired(report) == {}
    assert "could belong to one, other, so it is ignored" in report.notes[0]
    # With a card of its own, the other leaves this one to the first.
    put(folder / "other", card(how="full"))
    assert set(paired(report_of(folder))) == {"one", "other"}


def test_without_a_card_the_same_weights_without_the_adapter_are_the_base(answered, tmp_path):
    renamed(answered / "1.5", tmp_path / "a", pretrained=BASE)
    renamed(answered / "0.6", tmp_path / "b", pretrained=BASE, peft="org/adapter")
    report = report_of(tmp_path)
    assert paired(report) == {"small-1B +adapter": "small-1B"} and report.tuned[0].card is None
    (whole, *_) = tuning.read(report).groups
    assert whole.part == "all" and whole.value.difference.value > 0


def test_an_adapter_on_other_weights_is_not_paired_with_its_base(results, answered):
    """Asked on weights that are not its base's, its difference from that base means nothing."""
    adapter = results.parent / "trained" / "run-0" / "adapter"
    for folder in ("0", "1"):
        shutil.rmtree(results / folder)
    renamed(answered / "0.6", results / "on", pretrained="org/other-1B", peft=adapter)
    report = report_of(results)
    assert paired(report) == {"other-1B +adapter": None}
    said, left = report.notes
    assert "its adapter was tuned from org/small-1B but runs on org/other-1B. Unless" in said
    assert "org/other-1B, which is not among the results" in left
    renamed(answered / "1.5", results / "other", pretrained="org/other-1B")
    assert paired(report_of(results)) == {"other-1B +adapter": "other-1B"}


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
    report = report_of(tmp_path / "results")
    assert paired(report) == {"weights": "small-1B" if found else None}
    assert report.notes == [] if found else "--pair BASE=weights" in report.notes[0]
    # Named by hand it is found, whatever the card says; and it is no instruct version.
    report = report_of(tmp_path / "results", pairs=[("small-1B", "weights")])
    assert paired(report) == {"weights": "small-1B"} and report.pairs == []


def test_a_written_name_is_preferred_and_two_that_fit_alike_are_asked_about(answered, tmp_path):
    weights = put(tmp_path / "weights", card(base="org/small-1B", how="full"))
    for owner in ("org", "other"):
        renamed(answered / "1.5", tmp_path / "results" / owner, pretrained=f"{owner}/small-1B")
    renamed(answered / "0.6", tmp_path / "results" / "tuned", pretrained=weights)
    assert paired(report_of(tmp_path / "results")) == {"weights": "org/small-1B"}
    put(weights, card(base="/cache/small-1B", how="full"))
    report = report_of(tmp_path / "results")
    assert paired(report) == {"weights": None}
    (note,) = report.notes
    assert "which could be org/small-1B, other/small-1B: name it with --pair BASE=weights" in note


def test_a_base_that_was_asked_otherwise_is_no_base(results, tmp_path):
    (path,) = (results / "base").rglob("results_*.json")
    found = json.loads(path.read_text())
    path.write_text(json.dumps({**found, "chat_template": "{{messages}}"}))
    report = report_of(results)
    assert set(paired(report).values()) == {None}
    assert all("was not asked in the same way" in note for note in report.notes)
    assert tuning.read(report).groups == []


def test_several_adapters_are_paired_by_hand_from_the_command_line(answered, tmp_path):
    renamed(answered / "1.5", tmp_path / "base", pretrained="here/small")
    for name in ("one", "two"):
        renamed(answered / "0.6", tmp_path / name, pretrained="moved/big", peft=f"/gone/{name}")
    pairs = ("--pair", "small=big +one", "--pair", "small=big +two")
    said = run("report", tmp_path, *pairs, "--format", "json")
    rows = [one for one in json.loads(said.stdout)["rows"] if one["kind"] == "tuning"]
    assert {(one["model"], one["base"]) for one in rows} == {
        ("big +one", "small"),
        ("big +two", "small"),
    }
    with pytest.raises(EpidemiaError, match="no model 'tiny' to pair"):
        run("report", tmp_path, "--pair", "tiny=big +one")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "not a card of this version"),
        ('{"base": "x"}', "not a card of this version"),
        ("[" * 100_000, "ignored the card of a tuned model"),
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
    report = report_of(tmp_path / "results")
    assert paired(report) == {}
    (note,) = report.notes
    assert said in note and TUNED_CARD in note and "copy it again" in note


# What changed.


def only(changes, **wanted):
    (one,) = [
        change
        for change in changes
        if all(getattr(change, key) == value for key, value in wanted.items())
    ]
    return one


@pytest.fixture
def second(results, tmp_path):
    """The base and the second adapter alone, with all that was read of them."""
    shutil.rmtree(results / "0")
    report = report_of(results)
    return report, tuning.read(report), read_samples(report)[0]


def test_parts_of_a_group_are_means_over_their_tasks(second, results):
    _, found, _ = second
    parts = {
        one.part: [a.task for a in one.tasks] for one in found.groups if one.group == "epidemia_low"
    }
    assert parts == {
        "all": sorted([AGE, RACE, HEROIN, MARIJUANA]),
        "trained on": sorted([AGE, RACE]),
        "held out": [HEROIN],
        "not in training": [MARIJUANA],
    }
    files = {
        name: json.loads(next((results / name).rglob("results_*.json")).read_text())
        for name in ("base", "1")
    }
    one = only(found.groups, group="epidemia_low", part="trained on")
    for name, value, l1 in zip(("base", "1"), one.value[:2], one.l1[:2], strict=True):
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
    assert one.value.difference.error == pytest.approx(moved.std(ddof=1))
    assert one.compared.wins == 2 and one.compared.verdict in ("better", "better here")


def test_the_error_of_l1_is_its_spread_over_the_replicates(second):
    report, found, samples = second
    base, tuned = (entry.name for entry in (report.tuned[0].base, report.tuned[0].entry))
    at = []
    for task in (AGE, RACE):
        truth = store.load(task)
        before, after = (samples[name, Asked(task, "letters")].q for name in (base, tuned))
        at.append(
            [
                truth.weights @ (np.abs(p - after) - np.abs(p - before)).sum(axis=1)
                for p in truth.replicates
            ]
        )
    one = only(found.groups, group="epidemia_low", part="trained on")
    assert one.l1.difference.error == pytest.approx(np.mean(at, axis=0).std(ddof=1))


def test_held_out_cells_stand_apart_on_their_own_scale(second):
    """Everything worked out anew from the truth and from what was elicited."""
    report, found, samples = second
    truth, run_ = store.load(AGE), report.tuned[0]
    seen = [cell for cell in range(len(truth.weights)) if cell not in LEFT_OUT]
    for part, cells in (("cells trained on", seen), ("held-out cells", LEFT_OUT)):
        one = only(found.cells, group="epidemia_low", part=part)
        w = truth.weights[cells] / truth.weights[cells].sum()
        p = truth.p[cells]
        zero = min(
            w @ np.abs(p - 0.5).sum(axis=1), w @ np.abs(p - np.eye(2)[(w @ p).argmax()]).sum(axis=1)
        )
        drawn = distance(w, draw_truths(p, truth.n_eff[cells]), p)
        perfect = np.quantile(drawn, 0.95)

        def score(d, zero=zero, perfect=perfect):
            return 100 * float(np.clip((zero - d) / (zero - perfect), 0, 1))

        answers = [
            samples[entry.name, Asked(AGE, "letters")].q[cells] for entry in (run_.base, run_.entry)
        ]
        for q, value, l1 in zip(answers, one.value[:2], one.l1[:2], strict=True):
            assert l1 == pytest.approx(float(w @ np.abs(p - q).sum(axis=1)))
            assert value == pytest.approx(score(l1))
        before, after = answers
        at = [
            w @ (np.abs(r[cells] - after) - np.abs(r[cells] - before)).sum(axis=1)
            for r in truth.replicates
        ]
        assert one.l1.difference.error == pytest.approx(np.std(at, ddof=1))
        known = truth.weights @ truth.p  # of everybody, not of these cells
        assert one.l1.alone == pytest.approx(float(w @ np.abs(p - known).sum(axis=1)))
        assert one.value.alone == pytest.approx(score(one.l1.alone))
        assert one.share == pytest.approx(truth.weights[cells].sum())
    # Cocaine by race was trained on whole, heroin not at all.
    assert {a.task for one in found.task_cells for a in one.tasks} == {AGE}
    assert {one.group for one in found.cells} == {"epidemia_low", "epidemia_low_likelihood"}


def test_knowing_the_marginal_scores_what_that_respondent_scores(second, tmp_path):
    _, found, _ = second
    recorded(tmp_path / "mean", TASKS, model_args="kind=mean")
    (entry,) = read_results([tmp_path / "mean"]).entries
    one = only(found.groups, group="epidemia_low", part="all")
    scores = [entry.scores[asked] for asked in one.tasks]
    assert one.value.alone == pytest.approx(np.mean([x.value for x in scores]))
    assert one.l1.alone == pytest.approx(np.mean([x.l1 for x in scores]), abs=1e-6)


def test_cells_of_another_truth_are_not_told_apart(results, capsys):
    put(results.parent / "trained" / "run-1" / "adapter", card(fingerprint="0123456789ab"))
    found = tuning.read(report_of(results))
    assert {one.run.entry.model for one in found.cells} == {"small-1B +run-0/adapter"}
    assert "another truth (0123456789ab)" in capsys.readouterr().err


def test_without_samples_cells_are_not_told_apart_and_l1_has_no_error(results, capsys):
    for path in (results / "base").rglob("samples_*"):
        path.unlink()
    found = tuning.read(report_of(results))
    assert found.cells == [] and all(math.isnan(one.l1.difference.error) for one in found.groups)
    assert not any(math.isnan(one.value.difference.error) for one in found.groups)
    said = capsys.readouterr().err
    assert f"held-out cells of 2 tasks ({AGE}, {AGE}_likelihood) cannot be separated" in said
    assert "--log_samples" in said


# What is shown.


def test_the_report_shows_both_ways_and_programs_get_every_task(results):
    said = run("report", results, "--full", "--wide").stdout
    assert "Before and after fine-tuning" in said and "held-out cells" in said
    assert "answers, 1,000 rows, lora" in said and "Learning curve" in said
    assert "Before and after fine-tuning by task" not in said
    said = run("report", results, "--effects", "--wide").stdout
    assert "Before and after fine-tuning by task" in said
    found = pd.read_csv(StringIO(run("report", results, "--format", "csv").stdout))
    kinds = found[found.kind.str.startswith("tuning", na=False)]
    assert set(kinds.kind) == {"tuning", "tuning task", "tuning cells", "tuning task cells"}
    chosen = kinds[(kinds.kind == "tuning task") & (kinds.name == f"{AGE}_likelihood")]
    assert set(chosen.as_trained) == {"no"} and set(chosen.part) == {"trained on"}
    chosen = chosen[chosen.model == "small-1B +run-1/adapter"].set_index("metric")
    # What is decided is the score; of l1 nothing is.
    assert isinstance(chosen.verdict["score, difference"], str)
    assert pd.isna(chosen.verdict["l1, difference"])
    chosen = chosen.value
    assert chosen["score, difference"] == pytest.approx(
        chosen["score, after"] - chosen["score, before"]
    )
    assert chosen["l1, after"] < chosen["l1, before"]
    assert {"score, averages only", "wins", "ties", "losses"} <= set(chosen.index)
    assert r"\begin{tabular}" in run("report", results, "--format", "latex").stdout


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
    return tuning.read(report_of(folder / "results"))


def test_runs_that_differ_in_their_seed_are_one_row_with_both_errors(answered, tmp_path):
    study = seeds(answered, tmp_path, ("0.6", "0.2"))
    (one,) = (
        change
        for change in tuning.over_seeds(study.groups).changes
        if (change.group, change.part) == ("epidemia_low", "all")
    )
    low, high = (
        only(study.groups, group="epidemia_low", part="all", run=seed.run).value
        for seed in one.seeds
    )
    assert one.value.after == pytest.approx((low.after + high.after) / 2)
    # Of two, the standard deviation is their distance / sqrt 2, the mean's error that / sqrt 2.
    assert one.value_over_seeds == pytest.approx(abs(high.after - low.after) / 2)
    # The survey's error of the mean: the seeds share its replicates, which do not cancel.
    drawn = [np.mean([draws.at for draws in of.draws], axis=0) for of in (low, high)]
    assert one.value.difference.error == pytest.approx(np.mean(drawn, axis=0).std(ddof=1))
    # Student's t at 97.5 %, one degree of freedom: 12.706, and the seeds differ by more than that:
    # their error is most of both, so that Satterthwaite's degrees are hardly more.
    assert one.value.difference.value < 12 * one.value_over_seeds
    assert one.verdict == "not shown"
    assert len(study.groups) == 2 * len(tuning.over_seeds(study.groups).changes)


def test_the_table_has_a_row_of_seeds_and_programs_every_one(answered, tmp_path):
    seeds(answered, tmp_path, ("0.6", "0.6", "0.6"))
    results = tmp_path / "results"
    text = " ".join(run("report", results, "--section", "tuning", "--wide").stdout.split())
    assert "± over seeds" in text and "seed-0, 3 seeds" in text
    assert "seed-1" not in text.split("what was trained")[0]
    # All alike: no error over seeds, and beyond t of the survey's.
    assert (
        "small-1B tuned on 100 of 110 notes of nsduh 2022, 10 people, 280 to 282 sentence forms, "
        "written by template, LoRA of rank 16, epochs 6, learning rate 5e-05, 40 steps run, 3 "
        "seeds: "
    ) in text
    said = (
        r"epidemia_low \(4 tasks\) from .*, errors 0 over seeds, [\d.]+ of the survey: better here"
    )
    assert re.search(said, text)
    long = " ".join(run("report", results, "--effects", "--wide").stdout.split())
    assert "seed-1" in long.split("what was trained")[0]
    rows = pd.read_csv(StringIO(run("report", results, "--format", "csv").stdout))
    assert set(rows[rows.kind == "tuning"].model) == {f"small-1B +seed-{n}" for n in range(3)}
    means = rows[(rows.kind == "tuning seeds") & (rows.name == "epidemia_low")]
    by_metric = means[means.part == "all"].set_index("metric")
    assert by_metric.value["seeds"] == 3 and by_metric.value["score, error over seeds"] == 0
    assert by_metric.verdict["score, difference"] == "better here"


def test_seeds_are_better_only_where_l1_says_so_and_they_answer(answered, tmp_path):
    study = seeds(answered, tmp_path, ("0.6", "0.6", "0.6"))
    (one,) = (
        change
        for change in tuning.over_seeds(study.groups).changes
        if (change.group, change.part) == ("epidemia_low", "all")
    )
    assert one.verdict == "better here"
    further = one.l1._replace(after=one.l1.before + 1e-3)
    (seed, *others), entry = one.seeds, one.seeds[0].run.entry
    assert seed.verdict == seed.compared.verdict == "better here"
    # The same of one training.
    assert {of._replace(l1=further).verdict for of in (one, seed)} == {"not shown"}
    scores = {
        asked: score._replace(metrics={**score.metrics, "choice_mass": 0.09})
        for asked, score in entry.scores.items()
    }
    silent = seed._replace(run=seed.run._replace(entry=replace(entry, scores=scores)))
    for change in (one._replace(seeds=(silent, *others)), silent):
        assert change.verdict == "does not answer"


def test_few_seeds_do_not_widen_the_survey_s_error(answered, tmp_path):
    """Of errors 1.4 and 0.3, the second of 2 degrees, Satterthwaite: 1038 degrees, t 1.962."""
    (one,) = (
        change
        for change in tuning.over_seeds(
            seeds(answered, tmp_path, ("0.6", "0.6", "0.6")).groups
        ).changes
        if (change.group, change.part) == ("epidemia_low", "all")
    )
    spread = (-0.3 * 3**0.5, 0.0, 0.3 * 3**0.5)  # standard error of their mean: 0.3
    several = tuple(
        seed._replace(value=seed.value._replace(after=off))
        for seed, off in zip(one.seeds, spread, strict=True)
    )
    error = (1.4**2 + 0.3**2) ** 0.5
    for moved, verdict in ((1.95 * error, "not shown"), (1.97 * error, "better here")):
        value = SimpleNamespace(difference=Number(moved, 1.4))
        assert one._replace(seeds=several, value=value).verdict == verdict


def test_other_settings_and_seeds_that_are_the_same_are_no_seeds(answered, tmp_path):
    study = seeds(answered, tmp_path, ("0.6", "0.2", "0.2"))
    cards = [tmp_path / "trained" / f"seed-{seed}" for seed in range(3)]

    def numbers():
        means = tuning.over_seeds(tuning.read(report_of(tmp_path / "results")).groups).changes
        return sorted(len(one.seeds) for one in means if one.group == "epidemia_low")

    assert {*numbers()} == {3} and len(study.cells) == 0
    kept = json.loads((cards[2] / TUNED_CARD).read_text())
    other = {**kept, "settings": {**kept["settings"], "lr": 1e-4}}
    (cards[2] / TUNED_CARD).write_text(json.dumps(other))
    assert {*numbers()} == {0, 2}
    again = {**kept, "settings": {**kept["settings"], "seed": 1}}
    again["dataset"] = {**kept["dataset"], "seed": 1}
    (cards[2] / TUNED_CARD).write_text(json.dumps(again))
    assert {*numbers()} == {0}
    text = " ".join(run("report", tmp_path / "results", "--section", "tuning").stdout.split())
    assert "no sample of seeds: small-1B +seed-0, small-1B +seed-1, small-1B +seed-2." in text


def test_texts_are_asked_in_no_way_and_the_other_tables_stay(results):
    put(results.parent / "trained" / "run-1" / "adapter", card(kind="notes"))
    found = {
        one.title: one
        for one in map(printed, tuning_tables.tables(tuning.read(report_of(results)), True))
    }
    rows = [
        dict(zip(found["Before and after fine-tuning"].columns, row, strict=True))
        for row in found["Before and after fine-tuning"].rows
    ]
    of = {(row["model"], row["group"]): row["asked as trained"] for row in rows}
    assert of == {
        ("small-1B +run-0/adapter", "epidemia_low"): "yes",
        ("small-1B +run-0/adapter", "epidemia_low_likelihood"): "no",
        ("small-1B +run-1/adapter", "epidemia_low"): "",
        ("small-1B +run-1/adapter", "epidemia_low_likelihood"): "",
    }
    trained = found["Fine-tuning: what was trained"].rows
    assert {row[2] for row in trained} == {"answers", "notes"}
    assert {row[7] for row in trained} == {"1 task, 3 cells"}


def test_a_report_without_tuned_models_says_nothing_of_them(answered, tmp_path):
    renamed(answered / "0.6", tmp_path / "a", pretrained=BASE)
    assert "fine-tuning" not in run("report", tmp_path, "--full").stdout
    report = report_of(tmp_path)
    for rows in (tuning_rows.tuning_rows, tuning_rows.loss_rows, tuning_rows.learning_rows):
        with pytest.raises(EpidemiaError, match="tuned"):
            rows(report)


def test_figures(results, tmp_path):
    report = report_of(results)
    rows = tuning_rows.tuning_rows(report)
    assert len(rows) == 2 * len(TASKS)
    assert {row["part"] for row in rows if row["task"] == "nsduh_heroin_ever_by_age"} == {
        "held out"
    }
    losses = tuning_rows.loss_rows(report)
    assert [row["step"] for row in losses if row["kind"] == "kept"] == [20, 20]
    assert len(losses) == 2 * (5 + 1)
    for name in ("tuning", "losses", "learning"):
        run("plot", name, results, "--out", tmp_path / f"{name}.svg")
        drawn = (tmp_path / f"{name}.svg").read_text()
        assert drawn.startswith("<svg") and "NaN" not in drawn
    assert "small-1B +run-1/adapter" in drawn or "Training rows" in drawn
    assert figures.save_losses(put(tmp_path / "alone", card())).name == "losses.svg"
    assert "validation" in (tmp_path / "alone" / "losses.svg").read_text()


def test_a_loss_that_is_not_finite_leaves_a_gap(tmp_path):
    folder = put(tmp_path / "tuned", card())
    (folder / LOSSES).write_text(LINES.replace("0.66", "nan"))
    assert [row["loss"] for row in tuning_rows.read_losses(folder)] == [0.9, 0.6, 0.61, 0.4, None]
    assert "NaN" not in figures.save_losses(folder).read_text()


def test_the_learning_curve_has_its_references(results, answered, tmp_path):
    soft = put(tmp_path / "soft", card(kind="distributions"))
    renamed(answered / "0.2", results / "soft", pretrained=BASE, peft=soft)
    rows = tuning_rows.learning_rows(report_of(results))
    low = [row for row in rows if row["group"] == "epidemia_low"]
    assert [(row["kind"], row["rows"]) for row in low] == [
        ("answers", 100),
        ("answers", 1000),
        ("base", None),
        ("known", None),
        ("distributions", None),
    ]
    assert low[0]["score"] < low[1]["score"] == low[4]["score"]
    assert {row["tasks"] for row in low} == {4}
    assert {row["who"] for row in low[:2]} == {"answers, lora, part held out"}
    # Who was shown everything is not on the line of those who were not.
    whole = put(tmp_path / "whole", card(rows=500, held_out={}))
    renamed(answered / "0.2", results / "whole", pretrained=BASE, peft=whole)
    rows = tuning_rows.learning_rows(report_of(results))
    assert [row["who"] for row in rows if row["rows"] == 500] == 2 * ["answers, lora"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("step,loss\n1,2\n", "expected columns step, epoch, split, loss"),
        ("step,epoch,split,loss\n1,1,train,much\n", "expected columns"),
        ("step,epoch,split,loss\n", "0 losses"),
        ("step,epoch,split,loss\n1,1,test,0.5\n", "expected losses of train or validation"),
    ],
)
def test_losses_that_are_none(tmp_path, text, said):
    folder = put(tmp_path / "tuned", card())
    (folder / LOSSES).unlink() if text is None else (folder / LOSSES).write_text(text)
    with pytest.raises(EpidemiaError, match=said):
        figures.save_losses(folder)
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
    report = report_of(tmp_path / "results")
    assert paired(report) == {f"{tiny_llama.name} +adapter": tiny_llama.name}
    one = only(tuning.read(report).groups, part="all")
    assert one.l1.before != one.l1.after and one.l1.difference.error > 0


def test_models_trained_on_the_same_are_told_apart_by_the_settings_that_differ():
    def run(name, **settings):
        dataset = SimpleNamespace(kind="distributions", held_out={})
        card = SimpleNamespace(dataset=dataset, how="lora", settings={"lr": 1e-3, **settings})
        return SimpleNamespace(card=card, entry=SimpleNamespace(name=name))

    runs = [run("a", dtype="bfloat16"), run("b", dtype="float32")]
    said = ["distributions, lora, dtype bfloat16", "distributions, lora, dtype float32"]
    assert tuning_rows._told_apart(runs) == said
    assert tuning_rows._told_apart(runs[:1]) == ["distributions, lora"]
