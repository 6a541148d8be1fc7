"""Joint outcomes of two or three variables: what a record says of them, and their truth."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from conftest import REPOSITORY, evaluate
from typer.testing import CliRunner

from lm_eval_epidemia.benchmarks import WAYS, splits
from lm_eval_epidemia.benchmarks.observation import fresh
from lm_eval_epidemia.benchmarks.observation.fresh import plan_set
from lm_eval_epidemia.benchmarks.prior.quantities.generate import Slices
from lm_eval_epidemia.cli import app
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.store import look_at_disk
from lm_eval_epidemia.estimate import build as building
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.estimate.adjust import adjust
from lm_eval_epidemia.estimate.check import find_all_faults
from lm_eval_epidemia.estimate.prepare import prepare
from lm_eval_epidemia.report.cards import render_card
from lm_eval_epidemia.surveys import catalogue
from lm_eval_epidemia.surveys.catalogue import load_record
from lm_eval_epidemia.surveys.fresh import FreshTask
from lm_eval_epidemia.surveys.microdata import MISSING, check_files, load_microdata

RECORD = (REPOSITORY / "tests" / "data" / "duo.yaml").read_text()
TASK = "epidemia_extra_duo_both_well_by_region"
PLAIN = "epidemia_extra_duo_happy_by_region"
EVERYONE = "epidemia_marginal_duo_both_well"
LABELS = ["Both", "Happy only", "Healthy only", "Neither"]


def people(rows=1500):
    """The two go together, differently by region; some lack the one, some the other."""
    rng = np.random.default_rng(8)
    region = rng.integers(1, 4, rows)
    happy = rng.random(rows) < 0.2 * region
    healthy = rng.random(rows) < np.where(happy, 0.8, 0.4)
    frame = pd.DataFrame({"REGION": region, "W": rng.gamma(2, 10, rows)})
    frame["HAPPY"] = np.where(rng.random(rows) < 0.05, 9, happy)
    frame["Q & A"] = np.where(rng.random(rows) < 0.05, "refused", np.where(healthy, "well", "ill"))
    return frame


def write(folder, text=RECORD, name="duo.yaml"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    look_at_disk()
    return folder / name


@pytest.fixture
def raw(tmp_path):
    people().to_csv(tmp_path / "duo.csv", index=False)
    return tmp_path / "duo.csv"


@pytest.fixture
def data(home, raw):
    """The survey is declared, and its file read."""
    write(home / "surveys")
    return load_microdata(catalogue.find_record("duo"), raw, every=True)


def test_levels_are_the_products_in_their_order(tmp_path):
    record = load_record(write(tmp_path))
    (way,) = record.variables["both_well"]
    assert [(level.label, level.phrase) for level in way.levels] == [
        ("Both", "is happy and is healthy"),
        ("Happy only", "is happy and is ill"),
        ("Healthy only", "is not happy and is healthy"),
        ("Neither", "is not happy and is ill"),
    ]
    assert way.column == "HAPPY & Q & A" and way.both == ("happy", "healthy")
    assert list(record.variables) == ["region", "both_well", "happy", "healthy"]
    assert record.parts("both_well") == ("happy", "healthy") and record.parts("sex") == ("sex",)
    assert record.used_variables("2020") == {"region", "both_well", "happy", "healthy"}


def test_it_is_read_in_the_ways_of_its_variables(tmp_path):
    """The best way of the one with each of the other; in a vintage, only the ways it has."""
    frame = people().rename(columns={"Q & A": "HEALTH"})
    text = RECORD.replace(
        '    column: "Q & A"\n    question: Is this person healthy?\n',
        "  - column: HEALTH2\n"
        "    question: Is this person healthy?\n    levels: &levels\n"
        "      - {label: 'Yes', phrase: is very healthy, texts: [well]}\n"
        "      - {label: 'No', phrase: is quite ill, texts: [ill]}\n"
        "    missing_texts: [refused]\n  - column: HEALTH\n    vintages: ['2020']\n"
        "    question: Is this person healthy?\n",
    ).replace(
        "variables:\n",
        '  "2021": {year: 2021, files: [{name: d21.csv}], page: "https://example.org/d"}\n'
        "variables:\n",
    )
    record = load_record(write(tmp_path, text))
    ways = record.variables["both_well"]
    assert [(way.column, way.vintages) for way in ways] == [
        ("HAPPY & HEALTH2", ()),
        ("HAPPY & HEALTH", ("2020",)),
    ]
    assert ways[0].levels[0].phrase == "is happy and is very healthy"
    assert [way.column for way in record.readings("both_well", "2021")] == ["HAPPY & HEALTH2"]

    def way_in(people):
        people.to_csv(tmp_path / "duo.csv", index=False)
        return load_microdata(record, tmp_path / "duo.csv", "2020").variables["both_well"]

    assert way_in(frame) == record.reading("both_well", "HAPPY & HEALTH", "2020")
    assert way_in(frame.assign(HEALTH2=frame["HEALTH"])).column == "HAPPY & HEALTH2"
    with pytest.raises(EpidemiaError, match=r"lacks columns .*: healthy needs HEALTH2 or HEALTH"):
        way_in(frame.drop(columns="HEALTH"))


def counted(frame, by):
    """Shares of the four outcomes by pandas, of people with both answers."""
    known = frame[(frame["HAPPY"] != 9) & (frame["Q & A"] != "refused")].reset_index(drop=True)
    said = {("1", "well"): 0, ("1", "ill"): 1, ("0", "well"): 2, ("0", "ill"): 3}
    outcome = [said[str(h), a] for h, a in zip(known["HAPPY"], known["Q & A"], strict=True)]
    table = pd.crosstab(by(known), outcome, values=known["W"], aggfunc="sum", normalize="index")
    return known, table.to_numpy()


def test_truth_is_what_pandas_counts(data, raw):
    built = building.build_survey("duo", raw, replicates=20, progress=False)
    assert built.tasks == [TASK, PLAIN, EVERYONE, "epidemia_marginal_duo_happy"]
    frame, truth = people(), store.load_truth(TASK)
    known, table = counted(frame, lambda rows: rows["REGION"])
    assert list(truth.levels) == LABELS and truth.columns["both_well"] == "HAPPY & Q & A"
    assert np.abs(truth.p - table).max() < 1e-12
    assert truth.n.sum() == len(known) < len(frame) - 100
    # Summed over the one answer: the marginal of the other, of the same people.
    weight = known.groupby("REGION")["W"].sum().to_numpy()
    for first, column, yes in (([0, 1], "HAPPY", 1), ([0, 2], "Q & A", "well")):
        shares = known.assign(yes=known["W"] * (known[column].astype(str) == str(yes)))
        alone = shares.groupby("REGION")["yes"].sum().to_numpy() / weight
        assert truth.p[:, first].sum(axis=1) == pytest.approx(alone, abs=1e-12)
    everyone = store.load_truth(EVERYONE)
    assert np.abs(everyone.p - counted(frame, lambda rows: np.ones(len(rows)))[1]).max() < 1e-12
    checked = find_all_faults()
    assert TASK in checked and EVERYONE in checked and not any(checked.values())


def test_who_lacks_one_answer_is_dropped(data, raw):
    frame = people()
    missing = (frame["HAPPY"] == 9) | (frame["Q & A"] == "refused")
    assert ((data.levels["both_well"] == MISSING) == missing.to_numpy()).all()
    either = (frame["HAPPY"] == 9).sum(), (frame["Q & A"] == "refused").sum()
    assert missing.sum() > max(either) > 0
    dropped = prepare(data, catalogue.find_task(TASK)).dropped
    assert dropped == {"both_well missing": int(missing.sum())}
    checked = {seen.variable: seen for seen in check_files(data.record, [raw]).variables}
    seen = checked["both_well"]
    assert (seen.column, seen.missing) == ("HAPPY & Q & A", int(missing.sum()))


def test_lm_eval_asks_it():
    """One that ships, whose task files need not be rendered."""
    task = "epidemia_joint_nsduh_marijuana_and_cocaine_by_age"
    wide = "epidemia_joint_gss_sex_and_party_by_race"
    asked = evaluate([task, wide, f"{task}_likelihood"])
    assert {asked["results"][name]["score,none"] for name in (task, wide)} == {100}
    assert asked["results"][f"{task}_likelihood"]["score,none"] > 80
    ignorant = evaluate([task, wide], model_args="kind=uniform")["results"]
    assert max(ignorant[name]["score,none"] for name in (task, wide)) < 1e-9
    prompt = asked["samples"][task][0]["doc"]["prompt"]
    assert "is 12 or 13 years old. " in prompt and "\nA. Both marijuana and cocaine\n" in prompt


REPLACING = (
    RECORD.replace("survey: duo", "survey: gss\nreplaces: gss")
    .replace("  extra:\n    - {outcome: both_well", "  joint:\n    - {outcome: both_well")
    .replace("    - {outcome: happy, given", "  low:\n    - {outcome: happy, given")
)


def test_the_kind_has_a_folder_of_its_own(home, raw):
    """What is built of it later leaves the fingerprints of other truths alone."""
    write(home / "surveys", REPLACING, "gss.yaml")
    kinds = ("joint_gss_both_well_by_region", "low_gss_happy_by_region", "marginal_gss_both_well")
    names = [f"epidemia_{kind}" for kind in kinds]
    building.build_survey("gss", raw, replicates=8, progress=False)
    folders = [
        store.load_truth(name).place.folder.relative_to(home / "groundtruth") for name in names
    ]
    assert list(map(str, folders)) == ["joint", ".", "marginal"]
    before = [store.load_truth(name).fingerprint for name in names]
    # Where they are found by default; said so, task files are not rendered in between.
    command = ["groundtruth", "build", "gss", "--raw", str(raw), "--replicates", "8"]
    command += ["--out", str(store.built_groundtruth())]
    people(1200).to_csv(raw, index=False)
    done = CliRunner().invoke(app, [*command, "--joint"])
    assert done.exit_code == 0 and "1 task of gss_2020" in done.output
    after = [store.load_truth(name).fingerprint for name in names]
    assert [one != other for one, other in zip(before, after, strict=True)] == [True, False, False]
    done = CliRunner().invoke(app, [*command, "--joint", "--marginal"])
    assert "3 tasks of gss_2020" in done.output


def test_a_record_without_such_tasks_says_so(data, raw):
    done = CliRunner().invoke(app, ["groundtruth", "build", "duo", "--raw", str(raw), "--joint"])
    assert done.exit_code and "no tasks of the kind joint" in str(done.exception)


def test_several_conditions_are_counted():
    """Boosting, which smooths, is of two answers."""
    found = store.load_truth("epidemia_joint_nsduh_marijuana_and_cocaine_by_age_sex")
    one = store.load_truth("epidemia_joint_nsduh_marijuana_and_cocaine_by_age")
    assert len(found.given) == 2 * len(one.given) == 22
    pooled = (found.weights[:, None] * found.p).reshape(11, 2, 4).sum(axis=1)
    assert pooled == pytest.approx(one.weights[:, None] * one.p, abs=1e-12)


SHIPPED = [name for name in catalogue.all_tasks() if name.startswith("epidemia_joint_")]


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_ones_agree_with_the_tasks_of_their_variables(name):
    """Where a published task asks for one of the two alone, of (nearly) the same people."""
    task, joint = catalogue.find_task(name), store.load_truth(name)
    survey = catalogue.find_record(task.survey)
    parts = survey.parts(task.outcome)
    sizes = [len(survey.variables[part][0].levels) for part in parts]
    p = joint.p.reshape(-1, *sizes)
    # NSDUH's are imputed; elsewhere some lack another answer (in NHANES a tenth).
    near = {"nhanes": 0.03, "gss": 0.01}.get(task.survey, 1e-9)
    # NHIS as it ships has no weight: P(Y) of all its people is another mix of ages.
    kinds = ("low", "extra") if task.survey == "nhis" else ("low", "extra", "marginal")
    compared = 0
    for (place, part), kind in product(enumerate(parts, 1), kinds):
        other = f"epidemia_{kind}_{task.survey}_{part}"
        other += "" if kind == "marginal" else f"_by_{'_'.join(task.given)}"
        if other not in store.list_available() or catalogue.find_task(other).given[1:]:
            continue  # with several conditions it is a boosted estimate
        rest = tuple(axis for axis in range(1, p.ndim) if axis != place)
        alone, ours = store.load_truth(other).p[:, 0], p.sum(axis=rest)[:, 0]
        ours = ours if kind != "marginal" else joint.weights @ ours
        assert ours == pytest.approx(alone, abs=near), other
        compared += 1
    assert compared or task.survey == "nhis"


def test_fresh_tasks_are_of_the_two_variables(data, raw):
    space = fresh.space_of(data, (1, 2))
    assert space.outcomes == ("happy", "healthy")
    assert space.conditions == ("region", "happy", "healthy")

    def refused(outcome, *given):
        task = FreshTask(title="", outcome=outcome, given=given, survey="duo", seed=1, number=1)
        return fresh.refusal(data, task, fresh.cache_information(data), 20)

    # P(A and B | X) is asked, so P(A | B, X) is no news; nor is P(A | B), of everybody's.
    assert refused("happy", "region", "healthy") == "declared"
    assert refused("happy", "healthy") == refused("healthy", "happy") == "declared"
    assert refused("healthy", "region") != "declared"
    with pytest.raises(EpidemiaError, match=r"give its two variables: happy,healthy"):
        plan_set("duo", [raw], outcomes=["both_well"], n=1)


def test_few_shot_examples_are_as_before(monkeypatch):
    seen, load = [], store.load_truth
    monkeypatch.setattr(
        store, "load_truth", lambda name, **said: seen.append(name) or load(name, **said)
    )
    assert splits.draw_examples("epidemia_low_gss_party_by_age", 2, WAYS["letters"])
    assert any("_nsduh_" in name for name in seen)
    assert not any("_joint_" in name or "_marginal_" in name for name in seen)


def test_quantities_are_of_the_two_variables(data):
    assert "both_well" in data.variables
    slices_of = Slices.__new__(Slices)
    slices_of.record, slices_of.data = data.record, data
    assert set(slices_of.variables) == {"region", "happy", "healthy"}


def test_a_rake_of_one_variable_is_one_of_the_two(home, raw):
    rake = (
        '"https://example.org/duo", adjustments: [{method: rake, reason: some, '
        "outcomes: [OUTCOME], margins: [{variables: [region], shares: [0.6, 0.2, 0.2]}]}]}"
    )
    for outcome, applies in (("happy", True), ("region", False)):
        text = RECORD.replace('"https://example.org/duo"}', rake.replace("OUTCOME", outcome))
        write(home / "surveys", text)
        data = load_microdata(catalogue.find_record("duo"), raw)
        rules = data.record.vintages["2020"].adjustments
        found = adjust(data, rules, catalogue.find_task(TASK))
        assert bool(found.notes) == applies == (not np.array_equal(found.weight, data.weight))


def test_the_card_shows_it(tmp_path):
    said = render_card(load_record(write(tmp_path)))
    row = next(line for line in said.splitlines() if line.startswith("| both_well"))
    assert "`HAPPY & Q & A` | 4 | Both; Happy only; Healthy only; Neither" in row
    nsduh = render_card(catalogue.find_record("nsduh"))
    assert "| `epidemia_joint_nsduh_marijuana_and_cocaine_by_age` | 11 |" in nsduh
