"""Crude, standardised and weighted effects: by hand, by individuals, and from a run of lm-eval."""

import json
import re
import shutil
from io import StringIO
from itertools import product

import numpy as np
import pandas as pd
import pytest
from conftest import REPOSITORY, raw_file
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from lm_eval_epidemia.old.findings import standardised as report
from lm_eval_epidemia.old.findings.contrasts import CONTRASTS
from lm_eval_epidemia.old.findings.leaderboard import make_report
from lm_eval_epidemia.old.findings.strata import mixture, strata
from lm_eval_epidemia.old.report.pages.hierarchy import tutoring
from lm_eval_epidemia.old.report.sections import printed
from lm_eval_epidemia.results.results import Results, read_results
from recorded_runs import copied_run
from typer.testing import CliRunner

from lm_eval_epidemia.benchmarks.observation.standardised import (
    asking_error,
    crude,
    overlap,
    standardised,
    weighted,
)
from lm_eval_epidemia.cli import app
from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import registry, store
from lm_eval_epidemia.estimate.check import check
from lm_eval_epidemia.results.entry import Asked, Entry, TaskScore
from lm_eval_epidemia.results.samples import TaskAnswers
from lm_eval_epidemia.surveys.catalogue import all_tasks

MARIJUANA = "epidemia_high_nsduh_marijuana_ever_by_age_education"
HOME = "epidemia_high_scf_home_ownership_by_age_race"
OWNED = "epidemia_high_scf_home_ownership_by_age_education"
EDUCATION = "epidemia_low_acs_education_by_age"

# Simpson's reversal: x1 has a tenth more in both strata, and less in all. P(y | x, z), P(x, z):
P = np.array([[0.2, 0.6], [0.3, 0.7]])
JOINT = np.array([[0.1, 0.4], [0.4, 0.1]])


def test_simpsons_reversal_by_hand():
    # x0: (0.1 * 0.2 + 0.4 * 0.6) / 0.5 = 0.26 / 0.5; x1: (0.4 * 0.3 + 0.1 * 0.7) / 0.5.
    assert crude(P, JOINT) == pytest.approx([0.52, 0.38])
    # P(z) is 1/2 each: (0.2 + 0.6) / 2 and (0.3 + 0.7) / 2.
    assert standardised(P, JOINT.sum(axis=0)) == pytest.approx([0.4, 0.5])
    # P(x0 | z) is 0.2 and 0.8: each weight is 0.1 / 0.2 = 0.4 / 0.8 = 1/2, and so for x1.
    assert weighted(P, JOINT, JOINT / JOINT.sum(axis=0)) == pytest.approx([0.4, 0.5])


def test_weights_of_other_propensities_by_hand():
    own = np.array([[0.5, 0.75], [0.5, 0.25]])
    # x0: weights 0.1 / 0.5 = 0.2, 0.4 / 0.75 = 8/15: (0.04 + 0.32) / (11/15) = 5.4 / 11.
    # x1: 0.4 / 0.5 = 0.8, 0.1 / 0.25 = 0.4: (0.24 + 0.28) / 1.2 = 13 / 30.
    assert weighted(P, JOINT, own) == pytest.approx([5.4 / 11, 13 / 30])
    # Whoever thinks that X has nothing to do with Z weighs nobody: the crude shares.
    assert weighted(P, JOINT, np.full((2, 2), 0.3)) == pytest.approx(crude(P, JOINT))


def test_positivity_is_not_passed_over():
    # Somebody says that nobody of z1 has x1, but a tenth of all people do.
    never = np.array([[0.5, 1.0], [0.5, 0.0]])
    found = weighted(P, JOINT, never)
    assert found[0] == pytest.approx((0.04 + 0.24) / 0.6) and np.isnan(found[1])
    # Where there are no such people, nothing is missing: x1 is then 0.3, that of z0.
    nobody = np.array([[0.1, 0.4], [0.4, 0.0]])
    assert weighted(P, nobody, never)[1] == pytest.approx(0.3)
    assert overlap(nobody).tolist() == [True, False]


def sized(low, high, *shape):
    return arrays(float, shape, elements=st.floats(low, high))


@given(sized(0, 1, 2, 5), sized(0.01, 1, 2, 5), st.permutations(range(5)), sized(0.01, 1, 5))
def test_properties(p, joint, order, mix):
    everybody = joint.sum(axis=0)
    plain, same = crude(p, joint), standardised(p, everybody)
    # The propensities of the people themselves: weighting is standardisation.
    assert weighted(p, joint, joint / everybody) == pytest.approx(same)
    # Another name for each level of Z.
    assert crude(p[:, order], joint[:, order]) == pytest.approx(plain)
    assert standardised(p[:, order], everybody[order]) == pytest.approx(same)
    # A stratum in two equal halves.
    halved = np.column_stack([joint / 2, joint / 2])
    assert standardised(np.column_stack([p, p]), halved.sum(axis=0)) == pytest.approx(same)
    # X independent of Z: nothing to adjust.
    independent = np.outer([0.3, 0.7], mix)
    assert crude(p, independent) == pytest.approx(standardised(p, mix))
    # A mean over the strata lies among them, whatever the weights.
    for found in (plain, same, weighted(p, joint, p * 0.9 + 0.1)):
        assert (found >= p.min(axis=1) - 1e-9).all() and (found <= p.max(axis=1) + 1e-9).all()


@pytest.fixture(scope="module")
def alone():
    """What the surveys imply, by task and effect."""
    return {(one.task.task, one.says): one for one in report.of_surveys()}


def first_of(alone, task):
    return next(one for (name, _), one in alone.items() if name == task)


def people_of(truth, x, seed=4, size=400_000):
    """Draw people from the joint distribution of a truth: columns x, z and y."""
    rng = np.random.default_rng(seed)
    cell = rng.choice(len(truth.weights), size=size, p=truth.weights / truth.weights.sum())
    place = all_tasks()[truth.task].given.index(x)
    x_of = pd.Categorical([given[place] for given in truth.given])
    z_of = pd.Categorical([given[1 - place] for given in truth.given])
    yes = rng.random(size) < truth.p[cell, 0]
    return pd.DataFrame({"x": x_of[cell], "z": z_of[cell], "y": yes})


@pytest.mark.parametrize(("task", "x"), [(MARIJUANA, "education"), (HOME, "race")])
def test_effects_are_those_of_individuals(task, x, alone):
    """400,000 people, by pandas: means of groups, means of means, a weight for every person."""
    truth = store.counts_of(store.load(task))
    found = strata(truth, x)
    people = people_of(truth, x)
    # The rule: the two commonest levels, in strata that have both.
    commonest = people.x.value_counts().index[:2].tolist()
    assert list(found.compared) == commonest
    number = pd.crosstab(people.z, people.x)
    number = number[(number[commonest] > 0).all(axis=1)]
    assert number.sum().sum() / len(people) == pytest.approx(found.share, abs=0.005)
    assert set(number.index) == {z for (z,) in found.levels}
    size = number.sum(axis=1)
    kept = people[people.z.isin(number.index)]
    effects = {"crude": 0.0, "standardised": 0.0, "weighted": 0.0}
    for sign, level in ((-100, commonest[0]), (100, commonest[1])):
        mine = kept[kept.x == level]
        by_z = mine.groupby("z", observed=True).y.mean()
        weight = (size / number[level])[mine.z].to_numpy()
        effects["crude"] += sign * mine.y.mean()
        effects["standardised"] += sign * (by_z * size).sum() / size.sum()
        effects["weighted"] += sign * np.average(mine.y, weights=weight)
    assert effects["weighted"] == pytest.approx(effects["standardised"])
    made = first_of(alone, task)
    for name in ("crude", "standardised"):
        # Two groups of more than 30,000: an error of 100 * sqrt(2 * 0.25 / 30,000) = 0.4 points.
        assert made.survey[name].value == pytest.approx(effects[name], abs=1.2)
    # The first of the truths moves by less, so the second, where it is 2 points, is the test.
    if task == HOME:
        assert abs(made.survey["crude"].value - made.survey["standardised"].value) > 2


def test_errors_are_those_of_the_replicates(alone):
    """Written out: the effect of every replicate anew, cell by cell, and its spread."""
    truth = store.counts_of(store.load(HOME))
    made = first_of(alone, HOME)
    at = {"crude": [], "standardised": []}
    place = {labels: cell for cell, labels in enumerate(truth.given)}
    groups = ("White", "Black or African American")
    ages = [age for age, race in truth.given if race == groups[1] and (age, groups[0]) in place]
    size = dict.fromkeys(ages, 0.0)
    for (age, _), weight in zip(truth.given, truth.weights, strict=True):
        size[age] += weight
    for p in truth.replicates:
        plain, same = [], []
        for race in groups:
            mine = {age: truth.weights[place[age, race]] for age in ages}
            yes = {age: p[place[age, race], 0] for age in ages}
            plain.append(sum(mine[a] * yes[a] for a in ages) / sum(mine.values()))
            same.append(sum(size[a] * yes[a] for a in ages) / sum(size.values()))
        at["crude"].append(100 * (plain[1] - plain[0]))
        at["standardised"].append(100 * (same[1] - same[0]))
    for name, values in at.items():
        assert made.survey[name].error == pytest.approx(np.std(values, ddof=1))
        assert made.survey[name].error > 0.5


def test_only_what_was_answered_counts():
    truth = store.load(HOME)
    whole = strata(truth, "race")
    # Without one cell of the two that are compared, its whole stratum is out.
    gone = int(whole.cells[1, 3])
    answered = [cell for cell in range(len(truth.given)) if cell != gone]
    part = strata(truth, "race", answered)
    assert part.levels == [z for number, z in enumerate(whole.levels) if number != 3]
    assert part.share == pytest.approx(whole.share - whole.everybody[3])
    # Another group's cell is not needed.
    other = next(c for c in range(len(truth.given)) if c not in whole.cells)
    assert len(strata(truth, "race", {*answered, gone} - {other}).levels) == 15
    assert strata(truth, "race", []) is None


def test_the_young_have_no_education_yet():
    """NSDUH codes people of 12 to 17 apart: no such stratum has both levels."""
    truth = store.load(MARIJUANA)
    found = strata(truth, "education")
    assert found.compared == ("College graduate", "Some college or associate degree")
    is_young = [age in ("12-13", "14-15", "16-17") for age, _ in truth.given]
    young = truth.weights[is_young].sum()
    assert found.share == pytest.approx(1 - young) and 0.08 < young < 0.1


def test_propensities_of_the_other_survey_by_hand(alone):
    truth, other = store.load(OWNED), store.load(EDUCATION)
    asks = next(one.propensity for one in CONTRASTS if one.task == OWNED)
    found, mixed = mixture(asks, truth, "education")
    assert [age for (age,) in found.levels] == [f"{a}-{a + 4}" for a in range(25, 65, 5)]
    # P(some college | 25 to 29), over five years of age.
    cells = [other.given.index((str(age),)) for age in range(25, 30)]
    some = [other.levels.index(answer) for answer in asks.answers["Some college"]]
    people = other.weights[cells] @ other.p[np.ix_(cells, some)]
    place = found.compared.index("Some college")
    assert mixed.of(other.p)[place, 0] == pytest.approx(people.sum() / other.weights[cells].sum())
    # Without one of the years the group is out.
    known = [cell for cell in range(len(other.given)) if cell != cells[2]]
    fewer, _ = mixture(asks, truth, "education", None, known)
    assert fewer.levels[0] == ("30-34",)
    # Their own propensities are so alike that weights and strata agree to a point.
    (made,) = [
        one for (task, _), one in alone.items() if task == OWNED and "weighted" in one.survey
    ]
    assert made.survey["weighted"].value == pytest.approx(made.survey["standardised"].value, abs=1)
    assert made.survey["weighted"].value != made.survey["standardised"].value
    assert "over age 25-29 to 60-64" in made.says


def test_contrasts_are_of_declared_tasks():
    tasks = all_tasks()
    assert len({(one.task, one.x) for one in CONTRASTS}) == len(CONTRASTS)
    for one in CONTRASTS:
        truth = store.load(one.task)
        assert one.x in tasks[one.task].given and len(truth.levels) == 2
        if one.propensity is not None:
            assert tasks[one.propensity.task].outcome == one.x
            place = tasks[one.task].given.index(one.x)
            assert set(one.propensity.answers) <= {labels[place] for labels in truth.given}
            answers = [a for some in one.propensity.answers.values() for a in some]
            known = store.load(one.propensity.task).levels
            assert set(answers) <= set(known) and len(set(answers)) == len(answers)


def test_the_error_of_drawn_answers():
    """100 answers in each of two cells: sqrt(2 * 0.25 / 100) = 0.0707, from 200 draws."""
    counts = np.array([[50, 50, 0], [50, 50, 0]])
    found = asking_error(lambda q: q[:, 1, 0] - q[:, 0, 0], counts=counts)
    assert found == pytest.approx(0.0707, rel=0.15)
    # Answers that could not be read are an even share for each level, and certain.
    silent = np.array([[0, 0, 100], [0, 0, 100]])
    assert asking_error(lambda q: q[:, 0, 0], counts=silent) == 0


def test_the_error_of_sampled_orderings():
    """The jackknife of a mean of M is s / sqrt(M), here times sqrt(1 - 4 / 6)."""
    by_order = np.array([[[0.2, 0.5, 0.3], [0.4, 0.3, 0.3], [0.1, 0.8, 0.1], [0.5, 0.2, 0.3]]])
    expected = np.std([0.2, 0.4, 0.1, 0.5], ddof=1) / 2 * np.sqrt(1 - 4 / 6)
    assert asking_error(lambda q: q[:, 0, 0], by_order=by_order) == pytest.approx(expected)


def test_counts_are_of_the_same_file_and_cells(home):
    """The records of the SCF say -26.8 crude and -23.6 at equal ages; trees made -23.3, -21.0."""
    truth = store.load(HOME)
    counts = store.counts_of(truth)
    assert counts.given == truth.given and counts.weights == pytest.approx(truth.weights)
    assert (counts.n == truth.n).all() and len(counts.replicates) == len(truth.replicates)
    # Of one condition the published tasks are counts: what they say of the races.
    by_race = store.load("epidemia_low_scf_home_ownership_by_race")
    for (race,), p in zip(by_race.given, by_race.p, strict=True):
        own = [labels[1] == race for labels in counts.given]
        assert np.average(counts.p[own, 0], weights=counts.weights[own]) == pytest.approx(p[0])
    assert store.counts_of(by_race) is None
    # What was built here from another file has none until they are built too.
    built = store.built_groundtruth()
    shutil.copytree(paths.shipped_groundtruth(), built)
    assert store.counts_of(store.load(HOME)).state == "built here"
    truths = registry.read_registry(built / store.COUNTED)
    assert check(OWNED) == []
    damaged = built / store.COUNTED / truths["scf_2022"]["files"]["replicates"]["name"]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    (wrong,) = check(HOME)
    assert "was changed" in wrong
    truths["scf_2022"]["raw"][0]["sha256"] = "0" * 64
    registry.write_registry(built / store.COUNTED, truths)
    assert store.counts_of(store.load(HOME)) is None
    # An entry that cannot be read is named, with the command that makes these counts.
    registry.write_registry(built / store.COUNTED, {**truths, "scf_2022": {"tasks": {}}})
    with pytest.raises(EpidemiaError, match="the entry scf_2022 is damaged") as damage:
        store.counts_of(store.load(HOME))
    assert str(built / store.COUNTED / registry.REGISTRY) in str(damage.value)
    assert "--raw FILE --counted'" in str(damage.value)


def test_the_command_makes_the_counts_that_ship(tmp_path):
    raw = str(raw_file("scf", "scfp2022.parquet"))
    command = ["groundtruth", "build", "scf", "--raw", raw, "--counted", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, command)
    assert "4 tasks of scf_2022 are in" in done.stdout, done.output
    assert "scores do not use them" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == [store.COUNTED]
    made, shipped = (
        registry.read_registry(folder / store.COUNTED)["scf_2022"]
        for folder in (tmp_path, paths.shipped_groundtruth())
    )
    assert made["files"]["cells"]["sha256"] == shipped["files"]["cells"]["sha256"]
    assert {entry["estimator"] for entry in made["tasks"].values()} == {"bins"}


# From a run of lm-eval.


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    factory, folder = tmp_path_factory, tmp_path_factory.mktemp("runs")
    tasks, one = [MARIJUANA, HOME, EDUCATION], {"orderings": 1}
    for kind in ("truth", "mean"):
        copied_run(factory, folder / kind, tasks, model_args=f"kind={kind}", metadata=one)
    copied_run(factory, folder / "drawn", [f"{HOME}_sampled"], metadata={"n_samples": 10})
    return folder


def table(runs, *kinds):
    found, notes = report.read(make_report(read_results([runs / kind for kind in kinds])))
    assert notes == []
    return found


def test_who_knows_the_truth_implies_what_the_survey_implies(runs, alone, monkeypatch):
    for one in table(runs, "truth"):
        assert one.by == "counts"
        assert one.survey == alone[one.task.task, one.says].survey
        assert one.share == alone[one.task.task, one.says].share
    # The truth behind scores is boosted: without counts it is that of the survey as well.
    monkeypatch.setattr(store, "counts_of", lambda truth: None)
    found = table(runs, "truth")
    assert len(found) == 3
    for one in found:
        assert one.by == "trees"
        for name, effect in one.survey.items():
            assert one.own[name].value == pytest.approx(effect.value, abs=1e-6)
            assert one.own[name].error == 0 < effect.error
    both = ["crude", "standardised"]
    assert [sorted(one.own) for one in found] == [both, [*both, "weighted"], both]


def test_who_knows_only_how_common_it_is_implies_no_effect(runs):
    for one in table(runs, "mean"):
        assert all(effect.value == pytest.approx(0, abs=1e-9) for effect in one.own.values())
        assert abs(one.survey["crude"].value) > 3


def test_drawn_answers_have_an_error(runs):
    (one,) = table(runs, "drawn")
    found, truth = strata(store.load(HOME), "race"), store.load(HOME)
    # Of 10 answers in each cell, weighted as the strata are.
    q = truth.p[found.cells, 0]
    share = found.everybody / found.everybody.sum()
    expected = 100 * np.sqrt((share**2 * q * (1 - q) / 10).sum())
    assert one.own["standardised"].error == pytest.approx(expected, rel=0.3)
    yes = standardised(q, found.everybody)
    assert abs(one.own["standardised"].value - 100 * (yes[1] - yes[0])) < 4 * expected


def shown(*arguments):
    done = CliRunner().invoke(app, ["report", "--wide", *map(str, arguments)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_the_report_shows_it_where_it_is_asked_for(runs):
    text = shown(runs / "truth", "--standardised", "--wide")
    assert "What a model's own answers imply" in text and "only under the graph" in text
    line = next(line for line in text.splitlines() if HOME in line and "race:" in line)
    crude, same = re.findall(r"([+-][\d.]+) ± [\d.]+", line)
    # By the records; what the truth behind scores implies stands on the model's side, without ±.
    assert (crude, same) == ("-26.8", "-23.6") and " counts " in line
    boosted = re.findall(r"[+-][\d.]+", line)[-2:]
    assert "own answers" not in shown(runs / "truth")
    frame = pd.read_csv(StringIO(shown(runs / "truth", "--standardised", "--format", "csv")))
    rows = frame[frame.kind == "standardised"]
    # Of three contrasts the survey's and the model's side, and the share of people.
    assert len(rows) == 2 * (2 + 3 + 2) + 3 and set(rows.group) == {"epidemia_high"}
    assert rows[rows.metric == "people"].value.between(50, 100).all()
    mine = rows[(rows.name == HOME) if "name" not in rows else (rows["name"] == HOME)]
    values = mine.set_index("metric").value
    assert [f"{values[f'model, {name}']:+.1f}" for name in ("crude", "standardised")] == boosted
    assert -25 < values["model, crude"] < -22
    assert f"{values['survey, standardised']:+.1f}" == same
    told = json.loads(shown(runs / "truth", "--standardised", "--format", "json"))["rows"]
    assert sum(row["kind"] == "standardised" for row in told) == len(rows)
    assert len({tuple(row) for row in told}) == 1  # the same keys in every row
    latex = shown(runs / "truth", "--standardised", "--format", "latex")
    assert "What a model's own answers imply" in latex


def test_without_samples_it_says_what_to_do_and_prints_the_rest(runs, tmp_path):
    for path in (runs / "truth").rglob("results_*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(EpidemiaError, match="run lm_eval with --log_samples on a task such as"):
        report.read(make_report(read_results([tmp_path])))
    done = CliRunner().invoke(app, ["report", str(tmp_path), "--standardised", "--scales"])
    assert done.exit_code == 0 and "Score, 0 to 100 (as" in done.stdout, done.output
    for use in ("standardise", "compare with the truth"):
        assert done.stderr.count(f"note: no answers to {use}: run lm_eval") == 1
    assert done.stderr.count("so no cells; run with --log_samples") == 1


def test_impossible_people_are_named():
    """A model that gives a level of X no probability has no weights."""
    truth, other = store.load(OWNED), store.load(EDUCATION)
    certain = np.zeros_like(other.p)
    certain[:, other.levels.index("Bachelor's degree")] = 1
    everywhere = list(range(len(truth.given)))
    one = TaskAnswers(everywhere, truth.p, None, 0.0)
    two = TaskAnswers(list(range(len(other.given))), certain, None, 0.0)
    samples = {("m", Asked(OWNED, "letters")): one, ("m", Asked(EDUCATION, "letters")): two}
    scores = {asked: TaskScore(50.0) for _, asked in samples}
    asked = make_report(Results([Entry("m", scores=scores)], []))
    whole, part = report.implied(asked, samples)
    assert np.isnan(part.own["weighted"].value)
    line = printed(report.finding([whole, part])).rows[1]
    assert line[-1] == "P(x | z) = 0" and "nan" not in "".join(line)


# The page.


def test_the_two_models_of_the_page_agree_in_all_that_is_seen_and_not_under_do():
    """By enumeration. Fork: Z fair, X and Y copy it nine times and seven times of eight..."""
    page = (REPOSITORY / "docs" / "background" / "hierarchy.md").read_text()
    x_of, y_of = {0: 0.1, 1: 0.9}, {0: 0.125, 1: 0.875}

    def share(p, value):
        return p if value else 1 - p

    fork, chain = {}, {}
    for x, z, y in product((0, 1), repeat=3):
        # Fork, X <- Z -> Y; chain, X -> Z -> Y.
        fork[x, z, y] = 0.5 * share(x_of[z], x) * share(y_of[z], y)
        chain[x, z, y] = 0.5 * share(x_of[x], z) * share(y_of[z], y)
    assert fork == pytest.approx(chain)
    seen = [sum(fork[x, z, 1] for z in (0, 1)) / 0.5 for x in (0, 1)]
    under = {
        # do(x): Z keeps its own mechanism, which hears of X in the chain only.
        "fork": [sum(0.5 * y_of[z] for z in (0, 1)) for _ in (0, 1)],
        "chain": [sum(share(x_of[x], z) * y_of[z] for z in (0, 1)) for x in (0, 1)],
    }
    joint = np.array([[sum(fork[x, z, y] for y in (0, 1)) for z in (0, 1)] for x in (0, 1)])
    p = np.array([[fork[x, z, 1] / joint[x, z] for z in (0, 1)] for x in (0, 1)])
    adjusted = standardised(p, joint.sum(axis=0))
    assert adjusted == pytest.approx(under["fork"]) and seen == pytest.approx(under["chain"])
    for name, values in (("seen", seen), ("standardised", adjusted), *under.items()):
        (row,) = [line for line in page.splitlines() if line.startswith(f"| {name}")]
        assert re.findall(r"0\.\d+", row) == [f"{value:.2f}" for value in values], name
    # What is seen bounds do(X = 1): P(x, y) and 1 - P(x, not y).
    low, high = (sum(fork[1, z, y] for z in (0, 1)) for y in (1, 0))
    assert f"{low:.2f} to {1 - high:.2f} for do(X = 1)" in page


def test_the_tutoring_of_the_page_is_its_own_arithmetic():
    """Person by person: 1,000 pupils by kind, tutored or not, passed or not."""
    page = (REPOSITORY / "docs" / "background" / "hierarchy.md").read_text()
    table = {("struggle", 1): (400, 0.55), ("struggle", 0): (100, 0.4)}
    table |= {("not", 1): (100, 0.9), ("not", 0): (400, 0.8)}
    for tutored, name in ((1, "tutored"), (0, "not tutored")):
        pupils = [cell for (_, got), cell in table.items() if got == tutored]
        seen = sum(n * p for n, p in pupils) / sum(n for n, _ in pupils)
        (row,) = [line for line in page.splitlines() if line.startswith(f"| {name} |")]
        cells = [f"{100 * p:.0f} % of {n}" for n, p in pupils]
        assert row == f"| {name} | {' | '.join([*cells, f'{100 * seen:.0f} %'])} |"
        under_do = np.mean([table[kind, tutored][1] for kind in ("struggle", "not")])
        assert f"{100 * under_do:.1f} %" in page
    assert (
        tutoring()["seen_with"] == pytest.approx(62) and f"{40 / 55:.0%}".replace("%", " %") in page
    )


def test_the_page_has_the_numbers_of_the_surveys(alone):
    page = (REPOSITORY / "docs" / "background" / "effects.md").read_text()
    rows = printed(report.finding(list(alone.values()))).rows
    for task, says, _why, *numbers in rows:
        cells = [f"`{task.removeprefix('epidemia_')}`", says, *numbers]
        assert f"| {' | '.join(cells)} |".replace("|  |", "| |") in page
    assert len(rows) == len(re.findall(r"^\| `(?:high|extra)_", page, re.MULTILINE))


def test_counts_of_the_records_give_the_same(raw_nsduh, alone):
    """The survey's file itself, by pandas."""
    people = pd.read_parquet(raw_nsduh)
    people["yes"] = people.IRCOCAGE < 991
    people["weight"] = people.ANALWT2_C
    people = people[people.EDUHIGHCAT.isin([3, 4, 5])]
    everybody = pd.read_parquet(raw_nsduh, columns=["AGE3", "ANALWT2_C"])
    size = everybody[everybody.AGE3 >= 4].groupby("AGE3").ANALWT2_C.sum()
    crude, same = [], []
    for level in (4, 3):  # graduates, then some college
        mine = people[level == people.EDUHIGHCAT]
        crude.append(np.average(mine.yes, weights=mine.weight))
        yes = (mine.yes * mine.weight).groupby(mine.AGE3).sum()
        rate = yes / mine.groupby("AGE3").weight.sum()
        same.append((rate * size).sum() / size.sum())
    made = first_of(alone, "epidemia_high_nsduh_cocaine_ever_by_age_education")
    assert made.survey["crude"].value == pytest.approx(100 * (crude[1] - crude[0]))
    assert made.survey["standardised"].value == pytest.approx(100 * (same[1] - same[0]))
    assert 100 * (same[1] - same[0]) > 100 * (crude[1] - crude[0]) + 0.5
