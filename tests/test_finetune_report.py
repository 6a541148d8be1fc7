"""Before and after fine-tuning, from real runs of lm-eval: pairs, parts, errors, figures.

Respondents whose answers are known stand for models; what lm-eval wrote of their names is changed
to what it writes of a base, of adapters and of full weights.
"""

import json
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest
from recorded_runs import copied_run
from report_parts import COCAINE as AGE
from report_parts import HEROIN, command, rewritten, write

from lm_eval_epidemia.cli.report import read
from lm_eval_epidemia.core.distance import distance
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import find, tuning
from lm_eval_epidemia.findings.cells import answers
from lm_eval_epidemia.report.figures import save_losses
from lm_eval_epidemia.results.card import LOSSES, TUNED_CARD, DatasetCard, Tuned, write_card
from lm_eval_epidemia.score.score import draw_truths

RACE, MARIJUANA = (
    f"epidemia_low_nsduh_{of}" for of in ("cocaine_ever_by_race", "marijuana_ever_by_age")
)
ASKED = [AGE, RACE, HEROIN, MARIJUANA]
TASKS = [*ASKED, f"{AGE}_likelihood"]
LOW, BASE = "epidemia_low", "org/small-1B"
NAMES = [f"small-1B +run-{number}/adapter" for number in (0, 1)]
#: Of cocaine by age, the cells that were left out of training.
LEFT_OUT = [0, 4, 7]


def card(kind="answers", rows=100, base=BASE, how="lora", **more):
    truth, drawn = store.load(AGE).fingerprint, {"train": rows, "validation": 10}
    apart = {AGE: LEFT_OUT, HEROIN: [*range(11)]}
    data = DatasetCard(kind, "nsduh", "2022", truth, 1, drawn, [AGE, RACE], held_out=apart)
    return Tuned(base, how, replace(data, **more), {"epochs": 2}, 40, 20, 0.61, 0.66)


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
    """The result file of a run as lm-eval writes it of another model."""
    of = {"model": "hf", "model_args": {key: str(value) for key, value in arguments.items()}}
    return rewritten(source, folder, lambda found: found["config"].update(of))


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
        adapter = put(tmp_path / f"run-{number}" / "adapter", card(rows=rows))
        renamed(answered / noise, folder / str(number), pretrained=BASE, peft=adapter)
    return folder


def paired(results):
    """The base of each tuned model, by name; nothing without one."""
    runs = results.runs
    return {
        of["model"]: "" if of["base"] != of["base"] else runs["model"][of["base"]]
        for of in runs.to_dict("records")
        if of["base"] == of["base"] or of["card"] or of["weights"].adapter
    }


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


#: Runs (folder of results = weights + adapter), where a card lies = its base; who is paired with
#: whom, and what is said.
PAIRS = [
    # From the working directory; beside the results, where the folder is gone; above them, too.
    ("a=org/small-1B b=out/", "out=org/small-1B", "out=small-1B", ""),
    ("a=org/small-1B b=/gone/out", "results/b=org/small-1B", "out=small-1B", ""),
    ("a=org/small-1B b=/gone/out", "results=org/small-1B", "out=small-1B", ""),
    ("a=/gone/one b=/gone/out", "results=org/x", "", "could belong to one, out, so it is ignored"),
    ("a=/gone/one b=/gone/out", "results=org/x results/b=org/x", "one= out=", "not among the res"),
    # Without a card, the same weights without the adapter; weights that are not its base's.
    ("a=org/small-1B b=org/small-1B+org/out", "", "small-1B+out=small-1B", ""),
    ("a=org/small-1B b=org/x+out", "out=org/small-1B", "x+out=", "org/small-1B but runs on org/x."),
    ("a=org/small-1B b=org/x+out c=org/x", "out=org/small-1B", "x+out=x", "Unless both have the"),
    # One folder by two names; the last part of a name; and other names.
    ("a=m/../m/small-1B b=out", "out=m/small-1B", "out=small-1B", ""),
    ("a=hub/small-1B b=out", "out=/elsewhere/small-1B", "out=small-1B", ""),
    ("a=hub/small-1B b=out", "out=hub/small-1B-v2", "out=", "or name it with --pair BASE=out"),
    # As it is written, before others that fit; two that fit alike.
    ("a=org/x b=other/x c=out", "out=org/x", "out=org/x", ""),
    ("a=org/x b=other/x c=out", "out=/x", "out=", "could be org/x, other/x: name it with --pair"),
]


@pytest.mark.parametrize(("runs", "cards", "pairs", "said"), PAIRS)
def test_bases_of_tuned_models(runs, cards, pairs, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked(tmp_path / "results", runs)
    for place, base in parsed(cards).items():
        put(tmp_path / place, card(base=base, how="lora" if "+" in runs else "full"))
    made = read([tmp_path / "results"])
    assert {name.replace(" ", ""): base for name, base in paired(made).items()} == parsed(pairs)
    assert said in "\n".join(notes(made)) and bool(said) == bool(notes(made))
    if "or name it" in said:  # what a card says does not count then; it is no instruct version
        made = read([tmp_path / "results"], pairs=["small-1B=out"])
        assert paired(made) == {"out": "small-1B"} and find("versions")(made).table.empty


def test_several_adapters_are_paired_by_hand_with_a_base_that_was_asked_alike(tmp_path):
    asked(tmp_path, "base=here/small one=moved/big+/gone/one two=moved/big+/gone/two")
    pairs = ("--pair", "small=big +one", "--pair", "small=big +two")
    rows = json.loads(command("report", tmp_path, *pairs, "--show", "tuning", "--format", "json"))
    pairs = {(one["model"], one["base"]) for one in rows["tuning"]}
    assert pairs == {("big +one", "small"), ("big +two", "small")}
    with pytest.raises(EpidemiaError, match="does not name two of the models"):
        command("report", tmp_path, "--pair", "tiny=big +one")
    asked(tmp_path, "base=here/small", chat_template="{{messages}}")
    made = read([tmp_path], pairs=["small=big +one"])
    assert not any(paired(made).values()) and find("tuning")(made).table.empty
    assert "was not asked in the same way (chat template" in notes(made)[0]


def test_a_damaged_card_is_a_note(tmp_path):
    asked(tmp_path / "results", f"base={BASE} tuned={tmp_path / 'out'}")
    path = put(tmp_path / "out", card(how="full")) / TUNED_CARD
    for text, said in (
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "not a card of this version"),
        (json.dumps(asdict(card(held_out={AGE: 3}))), "Expected `array`, got `int`"),
    ):
        path.write_text(text)
        made = read([tmp_path / "results"])
        (note,) = notes(made)
        assert paired(made) == {} and said in note and "copy it again" in note


# What changed.


def only(table, **wanted):
    """The row of a table with these values."""
    for name, value in wanted.items():
        table = table[table[name] == value]
    (row,) = table.itertuples(index=False)
    return row


def file_of(results, name):
    (path,) = (results / name).glob("results_*.json")
    return json.loads(path.read_text())


def drawn(results, name, tasks):
    """The mean of tasks at every replicate, from the draws in a result file."""
    kept = file_of(results, name)["epidemia"]["replicates"]
    return np.mean([np.array(kept[task]["score"].split(), float) for task in tasks], axis=0)


@pytest.fixture
def changed(results):
    """Of the second adapter: what changed, and the answers of its base and itself by task."""
    made = read([results])
    runs = [made.runs.index[made.runs["model"] == name][0] for name in ("small-1B", NAMES[1])]
    own, _ = answers(made)
    letters = {asked.task: asked for _, asked in own if asked.way == "letters"}
    sides = {task: [own[run, asked].q for run in runs] for task, asked in letters.items()}
    table = find("tuning")(made).table
    return table[table["model"] == NAMES[1]], sides


def moved(task, before, after, cells):
    """How much nearer the truth came at each replicate of the survey, in some cells."""
    truth = store.load(task)
    weights = truth.weights[cells] / truth.weights[cells].sum()
    nearer = np.abs(truth.replicates - after) - np.abs(truth.replicates - before)
    return nearer[:, cells].sum(axis=2) @ weights


def test_parts_of_a_group_are_means_over_their_tasks(changed, results):
    table, sides = changed
    low = table[(table.group == LOW) & ~table.part.str.contains("cells")]
    counts = {row.part: row.tasks for row in low[low.task == ""].itertuples()}
    assert counts == {"all": 4, "trained on": 2, "held out": 1, "not in training": 1}
    parts = {row.task: row.part for row in low[low.task != ""].itertuples()}
    seen = dict.fromkeys((AGE, RACE), "trained on")
    assert parts == {**seen, HEROIN: "held out", MARIJUANA: "not in training"}
    one = only(low, part="trained on", task="")
    for name, value, l1 in (("base", one.before, one.l1_before), ("1", one.after, one.l1_after)):
        rows = [file_of(results, name)["results"][task] for task in seen]
        assert value == pytest.approx(np.mean([row["score,none"] for row in rows]))
        assert l1 == pytest.approx(np.mean([row["l1,none"] for row in rows]))
    # Tasks share a sample. Kept answers have six digits.
    draws = drawn(results, "1", seen) - drawn(results, "base", seen)
    assert one.error == pytest.approx(draws.std(ddof=1))
    at = [moved(task, *sides[task], slice(None)) for task in seen]
    assert one.l1_error == pytest.approx(np.mean(at, axis=0).std(ddof=1), rel=1e-4)
    known = [(store.load(task).weights, store.load(task).p) for task in seen]
    averages = np.mean([w @ np.abs(p - w @ p).sum(axis=1) for w, p in known])
    assert one.averages_l1 == pytest.approx(averages)
    assert one.wins == 2 and one.verdict in ("better", "better here")
    chosen = only(table, task=f"{AGE}_likelihood", part="trained on")
    assert (chosen.as_trained, one.as_trained) == ("no", "yes")
    assert chosen.difference == pytest.approx(chosen.after - chosen.before)


def test_held_out_cells_stand_apart_on_their_own_scale(changed):
    """Everything worked out anew from the truth and from what was elicited."""
    table, sides = changed
    truth = store.load(AGE)
    seen = [cell for cell in range(len(truth.weights)) if cell not in LEFT_OUT]
    for part, cells in (("cells trained on", seen), ("held-out cells", LEFT_OUT)):
        one = only(table, group=LOW, part=part, task="")
        w, p = truth.weights[cells] / truth.weights[cells].sum(), truth.p[cells]
        none = np.array([[0.5, 0.5], np.eye(2)[(w @ p).argmax()]])
        zero = min(w @ np.abs(p - q).sum(axis=1) for q in none)
        perfect = np.quantile(distance(w, draw_truths(p, truth.n_eff[cells]), p), 0.95)
        average = truth.weights @ truth.p  # of everybody, not of these cells
        for q, value, l1 in (
            (sides[AGE][0][cells], one.before, one.l1_before),
            (sides[AGE][1][cells], one.after, one.l1_after),
            (average, one.averages, one.averages_l1),
        ):
            assert l1 == pytest.approx(float(w @ np.abs(p - q).sum(axis=1)))
            score = 100 * np.clip((zero - l1) / (zero - perfect), 0, 1)
            assert value == pytest.approx(score)
        assert one.l1_error == pytest.approx(moved(AGE, *sides[AGE], cells).std(ddof=1))
        assert one.people == pytest.approx(truth.weights[cells].sum())
    # Cocaine by race was trained on whole, heroin not at all.
    cells = table[table.part.str.contains("cells") & (table.task != "")]
    assert {*cells.task} == {AGE, f"{AGE}_likelihood"}


def test_cells_are_told_apart_by_both_answers_to_the_truth_that_training_data_came_from(results):
    put(results.parent / "run-1" / "adapter", card(fingerprint="0123456789ab"))
    finding = find("tuning")(read([results]))
    assert {*finding.table.model[finding.table.part == "held-out cells"]} == {NAMES[0]}
    assert "another truth (0123456789ab)" in "\n".join(finding.left_out)
    (path,) = (results / "base").glob("results_*.json")
    found = json.loads(path.read_text())
    del found["epidemia"]["said"]
    path.write_text(json.dumps(found))
    finding = find("tuning")(read([results]))
    table, left = finding.table, "\n".join(finding.left_out)
    assert not table.part.str.contains("cells").any()
    assert table.l1_error.isna().all() and table.error.notna().all()
    assert "needs the answers of both (lm_eval --log_samples)" in left
    assert f"{AGE}, {AGE}_likelihood" in left


# Several seeds.


def seeds(answered, folder, noises):
    """A base, and a model tuned with each seed: those of the training and of the dataset."""
    renamed(answered / "1.5", folder / "results" / "base", pretrained=BASE)
    for seed, noise in enumerate(noises):
        counts = {"people": 10, "dropped": 0, "sentence forms": 280 + seed}
        made = card(kind="notes", seed=seed, counts=counts, facts=["age"], held_out={})
        settings = {"epochs": 6.0, "lr": 5e-5, "r": 16, "seed": seed}
        adapter = put(folder / f"seed-{seed}", replace(made, settings=settings, best_step=seed))
        renamed(answered / noise, folder / "results" / str(seed), pretrained=BASE, peft=adapter)
    return folder / "results"


def whole(made):
    """The rows of the group's means: of every training, and of the mean over seeds."""
    table = find("tuning")(made).table
    table = table[(table.group == LOW) & (table.part == "all")]
    return table[table.seeds == 1], table[table.seeds > 1]


def test_runs_that_differ_in_their_seeds_alone_are_one_row_with_both_errors(answered, tmp_path):
    results = seeds(answered, tmp_path, ("0.6", "0.2", "0.2"))
    path = tmp_path / "seed-2" / TUNED_CARD
    text = path.read_text()
    path.write_text(text.replace('"lr": 5e-05', '"lr": 1e-04'))
    made = read([results])
    (low, high, _), (one,) = (table.to_dict("records") for table in whole(made))
    assert one["model"] == "small-1B +seed-0, 2 seeds"
    assert one["after"] == pytest.approx((low["after"] + high["after"]) / 2)
    # Of two, the standard deviation is their distance / sqrt 2, the mean's error that / sqrt 2.
    assert one["over_seeds"] == pytest.approx(abs(high["after"] - low["after"]) / 2)
    # The survey's error of the mean: the seeds share its replicates, which do not cancel.
    base, first, other = (drawn(results, name, ASKED) for name in ("base", "0", "1"))
    draws = (first + other) / 2 - base
    assert one["error"] == pytest.approx(draws.std(ddof=1), rel=1e-3)
    # Student's t at 97.5 %, one degree of freedom: 12.706, and the seeds differ by more than that:
    # their error is most of both, so that Satterthwaite's degrees are hardly more.
    assert one["difference"] < 12 * one["over_seeds"] and one["verdict"] == "not shown"
    # For programs there is every training, too.
    rows = find("tuning")(made).table
    assert (rows.seeds == 1).sum() == 3 * (rows.seeds == 2).sum()
    path.write_text(text.replace('"seed": 2', '"seed": 1'))
    made = read([results])
    assert whole(made)[1].empty
    (text,) = find("tuning")(made).left_out
    assert "no mean over seeds of small-1B +seed-0, small-1B +seed-1, small-1B +seed-2" in text


def test_a_verdict_on_seeds_needs_both_errors_l1_and_answers(answered, tmp_path):
    """All alike: no error over seeds, and beyond t of the survey's.

    Of errors 1.4 and 0.3, the second of 2 degrees, Satterthwaite: 1038 degrees, t 1.962.
    """
    single, several = whole(read([seeds(answered, tmp_path, ("0.6", "0.6", "0.6"))]))
    (one,) = several.itertuples()
    assert (one.over_seeds, one.seeds, one.verdict) == (0, 3, "better here")
    assert {*single.verdict} == {"better here"}

    def verdict(difference, trainings=(1, 2, 3), silent=(), nearer=0.1):
        row = {"group": LOW, "l1_before": 0.5, "l1_after": 0.5 - nearer, "seeds": len(trainings)}
        row |= {"difference": difference, "error": 1.4, "over_seeds": 0.3, "trainings": trainings}
        better = SimpleNamespace(verdict="better here")
        return tuning._verdict(SimpleNamespace(**row, compared=better), {*silent})

    both = (1.4**2 + 0.3**2) ** 0.5
    assert [verdict(x * both) for x in (1.95, 1.97)] == ["not shown", "better here"]
    assert verdict(-1.97 * both, nearer=-0.1) == "worse here"
    # Better by the score and not by l1 is neither, of one training as of several.
    for trainings in ((1,), (1, 2, 3)):
        assert verdict(9, trainings, nearer=-1e-3) == "not shown"
        assert verdict(9, trainings, silent=[(1, LOW)]) == "does not answer"


# What is shown.


def test_the_screen_names_adapters_and_describes_every_training(results):
    put(results.parent / "run-1" / "adapter", card(kind="notes"))
    made = read([results])
    assert {*made.runs["name"]} == {"small-1B", *NAMES} and notes(made) == []
    assert paired(made) == dict.fromkeys(NAMES, "small-1B") and find("versions")(made).table.empty
    table = find("tuning")(made).table
    table = table[(table.part == "all") & (table.task == "")]
    # Texts are asked in no way.
    assert [*zip(table.model, table.group, table.as_trained, strict=True)] == [
        *((NAMES[0], LOW, "yes"), (NAMES[1], LOW, "")),
        *((NAMES[0], f"{LOW}_likelihood", "no"), (NAMES[1], f"{LOW}_likelihood", "")),
    ]
    rows = find("trained")(made).table
    told = rows[["data", "rows", "tasks held out", "cells held out", "kept step"]]
    assert told.to_numpy().tolist() == [["answers", 100, 1, 3, 20], ["notes", 100, 1, 3, 20]]
    # The first screen says who was trained on what it is asked, and where its base is, more.
    shown, alone = (command("report", folder) for folder in (results, results / "0"))
    assert "--show tuning" in " ".join(shown.split()) and "--show tuning" not in alone
    assert all("after training on these" in " ".join(text.split()) for text in (shown, alone))
    assert AGE not in command("report", results, "--show", "tuning")
    with pytest.raises(EpidemiaError, match="tuned"):
        command("plot", "learning", results / "base", "--out", results / "x.svg")


def test_the_learning_curve_has_its_references(results, answered, tmp_path):
    soft = put(tmp_path / "soft", card(kind="distributions"))
    renamed(answered / "0.2", results / "soft", pretrained=BASE, peft=soft)
    # Who was shown everything is not on the line of those who were not.
    every = put(tmp_path / "every", card(rows=500, held_out={}))
    renamed(answered / "0.2", results / "every", pretrained=BASE, peft=every)
    low = find("learning")(read([results])).table.query("group == @LOW")
    assert [*low.trained_on] == [
        *("answers, lora", "answers, lora, part held out", "answers, lora, part held out"),
        *("base", "distributions, lora, part held out", "knows averages only"),
    ]
    assert [*low.rows[:3]] == [500, 100, 1000] and low.rows[3:].isna().all()
    assert low.value.iloc[1] < low.value.iloc[2] == low.value.iloc[4]
    assert {*low.tasks} == {4}


def test_figures_and_losses(results, tmp_path):
    losses = find("losses")(read([results])).table
    assert [*losses.step[losses.split == "kept"]] == [20, 20] and len(losses) == 2 * (5 + 1)
    for name in ("tuning", "losses", "learning"):
        command("plot", name, results, "--out", tmp_path / f"{name}.svg")
        drawn = (tmp_path / f"{name}.svg").read_text()
        assert drawn.startswith("<svg") and "NaN" not in drawn
    # One that is not finite leaves a gap.
    folder = put(tmp_path / "alone", card())
    (folder / LOSSES).write_text(LINES.replace("0.66", "nan"))
    losses = tuning.losses_of(folder)["loss"]
    assert [*losses[:4]] == [0.9, 0.6, 0.61, 0.4] and losses[4:].isna().all()
    shown = save_losses(folder).read_text()
    assert "validation" in shown and "NaN" not in shown
    (folder / "losses.svg").unlink()
    for text, said in (
        ("step,loss\n1,2\n", "expected columns step, epoch, split .train or"),
        ("step,epoch,split,loss\n1,1,train,much\n", "expected columns"),
        ("step,epoch,split,loss\n", "0 losses"),
        ("step,epoch,split,loss\n1,1,test,0.5\n", "1 losses of"),
        (None, "FileNotFoundError"),
    ):
        (folder / LOSSES).unlink() if text is None else (folder / LOSSES).write_text(text)
        with pytest.raises(EpidemiaError, match=said):
            save_losses(folder)
        assert not (folder / "losses.svg").exists()
