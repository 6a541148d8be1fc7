"""Crude, standardised and weighted effects: by hand, by individuals, and from a run of lm-eval."""

import re
import shutil
from itertools import product

import numpy as np
import pandas as pd
import pytest
from conftest import REPOSITORY, raw_file
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from recorded_runs import copied_run

from lm_eval_epidemia.benchmarks.observation.standardised import (
    asking_error,
    crude,
    overlap,
    standardised,
    weighted,
)
from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import registry, store
from lm_eval_epidemia.estimate.check import check
from lm_eval_epidemia.findings import standardised as finding
from lm_eval_epidemia.findings.standardised import CONTRASTS, strata
from lm_eval_epidemia.report.render import render
from lm_eval_epidemia.results.decode import Asked
from lm_eval_epidemia.results.read import read_results
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
def runs(tmp_path_factory):
    factory, folder = tmp_path_factory, tmp_path_factory.mktemp("runs")
    tasks, one = [MARIJUANA, HOME, EDUCATION], {"orderings": 1}
    for kind in ("truth", "mean"):
        copied_run(factory, folder / kind, tasks, model_args=f"kind={kind}", metadata=one)
    copied_run(factory, folder / "drawn", [f"{HOME}_sampled"], metadata={"n_samples": 10})
    return folder


@pytest.fixture(scope="module")
def implied(runs):
    """What the surveys imply."""
    return finding.implied(read_results([runs / "drawn"]))


def first_of(found, task):
    return next(of for of in found.table.itertuples() if of.task == task)


def contrast(task, x):
    return next(one for one in CONTRASTS if (one.task, one.x) == (task, x))


def labels(truth, laid, x):
    """Return the two levels of X that are compared, and the levels of Z."""
    place = all_tasks()[truth.task].given.index(x)
    compared = [truth.given[cell][place] for cell in laid.cells[:, 0]]
    return compared, [truth.given[cell][1 - place] for cell in laid.cells[0]]


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
def test_effects_are_those_of_individuals(task, x, implied):
    """400,000 people, by pandas: means of groups, means of means, a weight for every person."""
    truth = store.counts_of(store.load(task))
    laid, people = strata(contrast(task, x)), people_of(truth, x)
    # The rule: the two commonest levels, in strata that have both.
    commonest = people.x.value_counts().index[:2].tolist()
    number = pd.crosstab(people.z, people.x)
    number = number[(number[commonest] > 0).all(axis=1)]
    assert number.sum().sum() / len(people) == pytest.approx(laid.everybody.sum(), abs=0.005)
    compared, levels = labels(truth, laid, x)
    assert compared == commonest and {*number.index} == {*levels}
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
    made = first_of(implied, task)
    # Two groups of more than 30,000: an error of 100 * sqrt(2 * 0.25 / 30,000) = 0.4 points.
    assert made.survey_crude == pytest.approx(effects["crude"], abs=1.2)
    assert made.survey_standardised == pytest.approx(effects["standardised"], abs=1.2)


def test_errors_are_those_of_the_replicates(implied):
    """Written out: the effect of every replicate anew, cell by cell, and its spread."""
    truth = store.counts_of(store.load(HOME))
    place = {labels: cell for cell, labels in enumerate(truth.given)}
    groups = ("White", "Black or African American")
    ages = [age for age, race in truth.given if race == groups[1] and (age, groups[0]) in place]
    size = dict.fromkeys(ages, 0.0)
    for (age, _), weight in zip(truth.given, truth.weights, strict=True):
        size[age] += weight
    at = {"crude": [], "standardised": []}
    for p in truth.replicates:
        plain, same = [], []
        for race in groups:
            mine = {age: truth.weights[place[age, race]] for age in ages}
            yes = {age: p[place[age, race], 0] for age in ages}
            plain.append(sum(mine[a] * yes[a] for a in ages) / sum(mine.values()))
            same.append(sum(size[a] * yes[a] for a in ages) / sum(size.values()))
        at["crude"].append(100 * (plain[1] - plain[0]))
        at["standardised"].append(100 * (same[1] - same[0]))
    made = first_of(implied, HOME)
    for name, values in at.items():
        error = getattr(made, f"survey_{name}_error")
        assert error == pytest.approx(np.std(values, ddof=1)) and error > 0.5
    # By the records, and by the trees behind scores -23.3 and -21.0.
    assert (round(made.survey_crude, 1), round(made.survey_standardised, 1)) == (-26.8, -23.6)


def test_only_what_was_answered_counts():
    truth, race = store.load(HOME), contrast(HOME, "race")
    whole = strata(race)
    # Without one cell of the two that are compared, its whole stratum is out.
    gone = int(whole.cells[1, 3])
    answered = [cell for cell in range(len(truth.given)) if cell != gone]
    part = strata(race, answered)
    assert part.cells.tolist() == np.delete(whole.cells, 3, axis=1).tolist()
    assert part.everybody == pytest.approx(np.delete(whole.everybody, 3))
    # Another group's cell is not needed.
    other = next(c for c in range(len(truth.given)) if c not in whole.cells)
    assert len(strata(race, {*answered, gone} - {other}).everybody) == 15
    assert strata(race, []) is None


def test_the_young_have_no_education_yet():
    """NSDUH codes people of 12 to 17 apart: no such stratum has both levels."""
    truth, laid = store.load(MARIJUANA), strata(contrast(MARIJUANA, "education"))
    compared, _ = labels(truth, laid, "education")
    assert compared == ["College graduate", "Some college or associate degree"]
    is_young = [age in ("12-13", "14-15", "16-17") for age, _ in truth.given]
    young = truth.weights[is_young].sum()
    assert laid.everybody.sum() == pytest.approx(1 - young) and 0.08 < young < 0.1


def test_propensities_of_the_other_survey_by_hand(implied):
    truth, other = store.load(OWNED), store.load(EDUCATION)
    asks = contrast(OWNED, "education")
    laid = strata(asks, None, range(len(other.given)))
    compared, ages = labels(truth, laid, "education")
    assert ages == [f"{a}-{a + 4}" for a in range(25, 65, 5)]
    # P(some college | 25 to 29), over five years of age.
    cells = [other.given.index((str(age),)) for age in range(25, 30)]
    some = [other.levels.index(answer) for answer in asks.education["Some college"]]
    people = other.weights[cells] @ other.p[np.ix_(cells, some)]
    place = compared.index("Some college")
    expected = people.sum() / other.weights[cells].sum()
    assert laid.propensity(other.p)[place, 0] == pytest.approx(expected)
    # Without one of the years the group is out.
    known = [cell for cell in range(len(other.given)) if cell != cells[2]]
    assert labels(truth, strata(asks, None, known), "education")[1][0] == "30-34"
    # Their own propensities are so alike that weights and strata agree to a point.
    table = implied.table[(implied.table.task == OWNED) & implied.table.survey_weighted.notna()]
    (made,) = table.itertuples()
    assert made.survey_weighted == pytest.approx(made.survey_standardised, abs=1)
    assert made.survey_weighted != made.survey_standardised
    assert "over age 25-29 to 60-64" in made.effect


def test_contrasts_are_of_declared_tasks():
    tasks, answers = all_tasks(), store.load(EDUCATION).levels
    assert tasks[EDUCATION].outcome == "education"
    assert len({(one.task, one.x) for one in CONTRASTS}) == len(CONTRASTS)
    left = {*contrast(OWNED, "education").education}
    for one in CONTRASTS:
        truth, conditions = store.load(one.task), tasks[one.task].given
        assert one.x in conditions and len(truth.levels) == 2
        if one.education:
            assert one.x == "education" and conditions[0] == "age"
            labels = {given[1] for given in truth.given} & {*one.education}
            assert len(labels) == 3
            left -= labels
            named = [answer for label in labels for answer in one.education[label]]
            assert {*named} <= {*answers} and len({*named}) == len(named)
    assert not left  # every level is one of some task


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


def test_the_command_makes_the_counts_that_ship(tmp_path, epidemia):
    raw = str(raw_file("scf", "scfp2022.parquet"))
    done = epidemia("groundtruth", "build", "scf", "--raw", raw, "--counted", "--out", tmp_path)
    assert "4 tasks of scf_2022 are in" in done.stdout, done.stderr
    assert "scores do not use them" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == [store.COUNTED]
    made, shipped = (
        registry.read_registry(folder / store.COUNTED)["scf_2022"]
        for folder in (tmp_path, paths.shipped_groundtruth())
    )
    assert made["files"]["cells"]["sha256"] == shipped["files"]["cells"]["sha256"]
    assert {entry["estimator"] for entry in made["tasks"].values()} == {"bins"}


# From a run of lm-eval.


def rows(runs, kind):
    found = finding.standardised(read_results([runs / kind]))
    assert found.left_out == []
    return found.table


def test_who_knows_the_truth_implies_what_the_survey_implies(runs, implied, monkeypatch):
    known = ["effect", "people", *(name for name in implied.table if name.startswith("survey_"))]
    surveys = implied.table.set_index("task")[known]
    for of in rows(runs, "truth").to_dict("records"):
        same = surveys.loc[[of["task"]]].set_index("effect", drop=False).loc[of["effect"]]
        assert of["survey_by"] == "counts" and pd.Series(of)[known].equals(same)
    # The truth behind scores is boosted: without counts it is that of the survey as well.
    monkeypatch.setattr(store, "counts_of", lambda truth: None)
    table = rows(runs, "truth")
    assert len(table) == 3 and {*table.survey_by} == {"trees"}
    for name in ("crude", "standardised", "weighted"):
        model, survey = (table[f"{side}_{name}"].dropna() for side in ("model", "survey"))
        assert model.to_numpy() == pytest.approx(survey.to_numpy(), abs=1e-3)
        assert len(model) == (1 if name == "weighted" else 3)
        assert (table[f"survey_{name}_error"].dropna() > 0).all()
        assert (table[f"model_{name}_error"].dropna() == 0).all()


def test_who_knows_only_how_common_it_is_implies_no_effect(runs):
    table = rows(runs, "mean")
    for name in ("crude", "standardised", "weighted"):
        assert table[f"model_{name}"].dropna().to_numpy() == pytest.approx(0, abs=1e-3)
    assert (table.survey_crude.abs() > 3).all()


def test_drawn_answers_have_an_error(runs):
    (one,) = rows(runs, "drawn").itertuples()
    laid, truth = strata(contrast(HOME, "race")), store.load(HOME)
    # Of 10 answers in each cell, weighted as the strata are.
    q = truth.p[laid.cells, 0]
    share = laid.everybody / laid.everybody.sum()
    expected = 100 * np.sqrt((share**2 * q * (1 - q) / 10).sum())
    assert one.model_standardised_error == pytest.approx(expected, rel=0.3)
    yes = standardised(q, laid.everybody)
    assert abs(one.model_standardised - 100 * (yes[1] - yes[0])) < 4 * expected


def test_impossible_people_have_no_weights(runs, monkeypatch):
    """A model that gives a level of X no probability."""
    truth, other = store.load(OWNED), store.load(EDUCATION)
    certain = np.zeros_like(other.p)
    certain[:, other.levels.index("Bachelor's degree")] = 1
    given = {
        (0, Asked(of.task, "letters")): TaskAnswers([*range(len(of.given))], q, None, 0.0)
        for of, q in ((truth, truth.p), (other, certain))
    }
    monkeypatch.setattr(finding, "answers", lambda results, wanted: (given, []))
    found = finding.standardised(read_results([runs / "mean"]))
    _whole, part = found.table.itertuples()
    assert part.survey_weighted < 0 and np.isnan(part.model_weighted)
    assert "nan" not in render(found, "text", whole=True)


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
    assert f"{40 / 55:.0%}".replace("%", " %") in page
    # The numbers of the site's page are checked in test_site.


def test_the_page_has_the_numbers_of_the_surveys(implied):
    page = (REPOSITORY / "docs" / "background" / "effects.md").read_text()
    for of in implied.table.to_dict("records"):
        effects = [
            "" if np.isnan(of[name]) else f"{of[name]:+.1f} ± {of[f'{name}_error']:.1f}"
            for name in (f"survey_{kind}" for kind in ("crude", "standardised", "weighted"))
        ]
        task, people = of["task"].removeprefix("epidemia_"), f"{of['people']:.1f} %"
        cells = [f"`{task}`", of["effect"], people, of["survey_by"], *effects]
        assert f"| {' | '.join(cells)} |".replace("|  |", "| |") in page
    assert len(implied.table) == len(re.findall(r"^\| `(?:high|extra)_", page, re.MULTILINE))


def test_counts_of_the_records_give_the_same(raw_nsduh, implied):
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
    made = first_of(implied, "epidemia_high_nsduh_cocaine_ever_by_age_education")
    assert made.survey_crude == pytest.approx(100 * (crude[1] - crude[0]))
    assert made.survey_standardised == pytest.approx(100 * (same[1] - same[0]))
    assert 100 * (same[1] - same[0]) > 100 * (crude[1] - crude[0]) + 0.5
