"""Errors from joint replicates: of tasks, of groups in lm-eval's results and tables, in Python."""

import json
import math
from shutil import copy, copytree

import numpy as np
import pytest
from conftest import REPOSITORY, evaluate, recorded
from lm_eval import simple_evaluate
from lm_eval.utils import make_table
from lm_evals import environment
from processes import python
from replicates import NUMBER

import lm_eval_epidemia
from lm_eval_epidemia import api
from lm_eval_epidemia.benchmarks import find_tasks, in_way
from lm_eval_epidemia.benchmarks.observation import metrics
from lm_eval_epidemia.benchmarks.observation.respondents import simulate_answers
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.harness import group_errors, hooks
from lm_eval_epidemia.score.joint import Draws, joint_error

GROUP = "epidemia_low_nsduh"
BY_AGE = "epidemia_low_nsduh_cocaine_ever_by_age"
BY_RACE = "epidemia_low_nsduh_cocaine_ever_by_race"
GSS = "epidemia_low_gss_political_view_by_age"
EXACT = "epidemia_low_bls_sex_by_occupation"
NOISY = "kind=noisy,noise=0.5,seed=3"


def by_hand(name, q, cells=slice(None), perfect=None):
    """Scores of a binary task at its replicates, in plain loops: the score's, the population's."""
    truth = store.load_truth(name)
    w, p = truth.weights[cells] / truth.weights[cells].sum(), truth.p[cells]
    perfect = truth.d_perfect() if perfect is None else perfect

    def distance(p, q):
        return sum(w[c] * abs(p[c, k] - q[c][k]) for c in range(len(w)) for k in (0, 1))

    def zero(p):
        commoner = [1, 0] if w @ p[:, 0] >= 0.5 else [0, 1]
        return min(distance(p, [one] * len(w)) for one in ([0.5, 0.5], commoner))

    def root(d, again):
        x = 2 * d**2 - again**2
        return math.copysign(abs(x) ** 0.5, x)

    replicates = truth.replicates[:, cells]
    at = np.array([[distance(other, q), zero(other)] for other in replicates])
    scores = 100 * np.clip((at[:, 1] - at[:, 0]) / (at[:, 1] - perfect), 0, 1)

    noise, d = replicates - replicates.mean(axis=0), distance(p, q)
    l1 = root(d, np.mean([distance(p + e, q) for e in noise]))
    scale = 2 * zero(p) - np.mean([zero(p + e) for e in noise])
    # What was estimated is taken for the population: so far from q, in the direction of p.
    shrunk = q + min(max(l1 / d, 0), 1) * (p - q)
    at = np.array([[distance(shrunk + e, q), zero(p + e)] for e in noise])
    population = np.empty(len(at))
    for b in range(len(at)):
        # Each replicate is corrected as the survey is, by samples drawn from it.
        twice = [(noise[b] + noise[b - j], at[b - j]) for j in (1, 3, 8, 21)]
        far = np.mean([distance(shrunk + e, q) - old[0] for e, old in twice]) + at[:, 0].mean()
        wide = np.mean([zero(p + e) - old[1] for e, old in twice]) + at[:, 1].mean()
        population[b] = 100 * (1 - root(at[b, 0], far) / (2 * at[b, 1] - wide))
    uncut = 100 * (1 - l1 / scale)
    return scores, population if 0 < uncut < 200 else np.clip(population, 0, 200), l1, uncut


def run(tasks, folder):
    """Run lm-eval with our tasks and those in a folder."""
    manager = lm_eval_epidemia.task_manager(include_path=str(folder))
    return simple_evaluate(model="hashing", tasks=tasks, task_manager=manager, log_samples=False)


def test_tasks_and_groups_have_the_spread_of_their_mean_over_the_replicates(replicated, tmp_path):
    folder = recorded(tmp_path, [GROUP], model_args=NOISY)
    (file,) = folder.rglob("results_*.json")
    results = json.loads(file.read_text())
    names = results["group_subtasks"][GROUP]
    assert len(names) == 6
    drawn = []
    for name in names:
        q = simulate_answers(store.load_truth(name), "noisy", noise=0.5, seed=3)
        scores, unclipped, l1, uncut = by_hand(name, q)
        drawn.append((scores, unclipped))
        row = results["results"][name]
        assert row["score_stderr,none"] == pytest.approx(scores.std(ddof=1), abs=1e-9)
        assert row["l1_population,none"] == pytest.approx(l1, abs=1e-9)
        assert row["score_population,none"] == pytest.approx(np.clip(uncut, 0, 100), abs=1e-9)
        error = row["score_population_stderr,none"]
        assert error == pytest.approx(unclipped.std(ddof=1), abs=1e-9)
        said = results["epidemia"]["replicates"][name]
        assert said["sample"] == "nsduh_2022 invented"
        assert np.allclose(draws_of(said), scores, atol=6e-5)
        assert np.allclose(draws_of(said, "score_population"), unclipped, atol=6e-5)
        assert said["asking"] == {"score": 0, "score_population": 0}
        assert said["uncut"] == {"score_population": pytest.approx(np.clip(uncut, 0, 200))}
    of_mean = np.mean(drawn, axis=0).std(axis=1, ddof=1)
    rows = [results["results"][name] for name in names]
    pooled = math.hypot(*(row["score_stderr,none"] for row in rows)) / len(rows)
    assert of_mean[0] != pytest.approx(pooled, rel=0.03)  # what lm-eval would have written
    for column in ("results", "groups"):
        row = results[column][GROUP]
        assert row["score_stderr,none"] == pytest.approx(of_mean[0], abs=1e-9)
        assert row["score_population_stderr,none"] == pytest.approx(of_mean[1], abs=1e-9)
        line = next(line for line in make_table(results, column).splitlines() if "|score " in line)
        assert f"|±  |{of_mean[0]:.4f}" in line, line
    assert "joint replicates" in results["epidemia"]["group_stderr"]


def test_a_mean_is_cut_off_after_it_is_taken(replicated):
    """Of who knows the survey's own truth, each task is above 100 by what its noise takes off."""
    found = evaluate([GROUP], model_args="kind=truth", log_samples=False)
    said = found["epidemia"]["replicates"]
    uncut = [one["uncut"]["score_population"] for one in said.values()]
    assert all(100 < value <= 200 for value in uncut)
    noisy = evaluate([GROUP], model_args="kind=noisy,noise=0.04,seed=3", log_samples=False)
    said = noisy["epidemia"]["replicates"]
    uncut = [one["uncut"]["score_population"] for one in said.values()]
    cut = [noisy["results"][name]["score_population,none"] for name in said]
    assert cut == pytest.approx(np.clip(uncut, 0, 100)) and max(uncut) > 100 > np.mean(uncut)
    for column in ("results", "groups"):
        assert found[column][GROUP]["score_population,none"] == 100
        mean = noisy[column][GROUP]["score_population,none"]
        assert mean == pytest.approx(min(np.mean(uncut), 100)) and mean > np.mean(cut)
        assert noisy[column][GROUP]["score,none"] == pytest.approx(
            np.mean([noisy["results"][name]["score,none"] for name in said])
        )


def draws_of(said, score="score"):
    return np.array([float(value) for value in said[score].split()])


def test_groups_of_several_surveys_and_of_all_levels(replicated):
    """Surveys are independent of one another; an exact table adds nothing."""
    found = evaluate(["epidemia_low"], model_args=NOISY, log_samples=False)
    said, names = found["epidemia"]["replicates"], list(found["epidemia"]["replicates"])
    assert len(names) == 63
    for group in ("epidemia_low", "epidemia_low_nsduh", "epidemia_low_gss"):
        under = [one for name, one in said.items() if name.startswith(group)]
        sums = {}
        for one in under:
            at = draws_of(one)
            assert len(at) in (0, NUMBER)
            if len(at):
                sums[one["sample"]] = sums.get(one["sample"], 0) + at / len(under)
        assert (len(sums) > 4) if group == "epidemia_low" else (len(sums) == 1)
        asking = [one["asking"]["score"] / len(under) for one in under]
        error = math.hypot(*(at.std(ddof=1) for at in sums.values()), *asking)
        assert found["groups"][group]["score_stderr,none"] == pytest.approx(error, abs=1e-6)
    # Draws have the digits for it: who reads them has the errors of lm-eval's table.
    for name, one in said.items():
        at = draws_of(one)
        error = math.hypot(at.std(ddof=1) if len(at) else 0, one["asking"]["score"])
        assert found["results"][name]["score_stderr,none"] == pytest.approx(error, abs=1e-6)
    row = found["results"][EXACT]
    assert said[EXACT]["sample"] == ""
    assert row["score_stderr,none"] == row["score_population_stderr,none"] == 0
    assert row["score_population,none"] == pytest.approx(100 * (1 - row["l1,none"] / 0.4855), abs=1)
    assert row["l1_population,none"] == row["l1,none"]


def test_a_users_group_weights_as_it_says_and_a_mixed_one_has_no_error(
    replicated, tmp_path, mmlu_style
):
    theirs = copytree(mmlu_style, tmp_path / "theirs")
    for group, tasks, sized, *averaged in (
        ("sized", [BY_AGE, EXACT], "true", "score", "l1"),
        ("mixed", [BY_RACE, "lettered"], "false", "score", "acc"),
        ("whole", ["continued"], "true", "acc"),
        ("both", [GSS, "mine"], "false", "score"),
    ):
        metric = "  - {{metric: {}, aggregation: mean, weight_by_size: {}}}\n"
        listed = "".join(metric.format(name, sized) for name in averaged)
        text = f"group: {group}\ntask: [{', '.join(tasks)}]\naggregate_metric_list:\n{listed}"
        (theirs / f"{group}.yaml").write_text(text)
    # A task of somebody else with a score of its own, whose error lm-eval knows.
    (theirs / "mine.yaml").write_text(
        (theirs / "lettered.yaml")
        .read_text()
        .replace("task: lettered", "task: mine")
        .replace("metric: acc", "metric: score\n    aggregation: mean\n    higher_is_better: true")
        + "process_results: !function mine.process\n"
    )
    (theirs / "mine.py").write_text(
        "def process(doc, results):\n    return {'score': float(doc['question'][0])}\n"
    )
    results = run(["sized", "mixed", "whole", "both"], theirs)["results"]
    ours, exact = results[BY_AGE], results[EXACT]
    share = ours["sample_len"] / (ours["sample_len"] + exact["sample_len"])
    row = results["sized"]
    assert row["score,none"] == pytest.approx(
        share * ours["score,none"] + (1 - share) * exact["score,none"]
    )
    assert row["score_stderr,none"] == pytest.approx(share * ours["score_stderr,none"])
    # Of one task of ours, beside one without a score: that one's.
    assert results["mixed"]["score_stderr,none"] == pytest.approx(
        results[BY_RACE]["score_stderr,none"]
    )
    assert results["both"]["score_stderr,none"] == "N/A"
    for name, only in (("mixed", "lettered"), ("whole", "continued")):
        error = results[only]["acc_stderr,none"]
        assert results[name]["acc_stderr,none"] == pytest.approx(error, abs=1e-12)
    assert results["mine"]["score_stderr,none"] > 0


OFF = """
import json, sys
sys.path.insert(0, {tests!r})
import replicates
replicates.install(setattr)
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager
from lm_eval.utils import make_table
manager = TaskManager(include_path={tasks!r}, include_defaults=False)
found = simple_evaluate("hashing", tasks=[{group!r}], task_manager=manager, log_samples=False)
json.dump([found["results"], found["groups"], "epidemia" in found, make_table(found)], sys.stdout)
"""


@pytest.mark.slow
def test_without_the_hook_a_group_has_lm_evals_error_and_its_tasks_keep_theirs():
    places = {"tests": str(REPOSITORY / "tests"), "tasks": str(REPOSITORY / "task_yamls")}
    off = {**environment(), "EPIDEMIA_AUTOLOAD": "0"}
    printed = python(OFF.format(group=GROUP, **places), env=off)
    results, groups, hooked, table = json.loads(printed.splitlines()[-1])
    assert not hooked
    for row in (results[GROUP], groups[GROUP]):
        assert row["score_stderr,none"] >= 0 and row["score,none"] >= 0
        assert row["score_population_stderr,none"] >= 0
    task = results[BY_RACE]
    assert task["score_population_stderr,none"] >= 0
    assert f"|±  |{task['score_population_stderr,none']:.4f}" in table


def test_a_part_of_a_task_has_the_errors_of_its_cells(replicated):
    results = evaluate([BY_AGE], model_args=NOISY, limit=8)["results"][BY_AGE]
    truth = store.load_truth(BY_AGE)
    q = simulate_answers(truth, "noisy", noise=0.5, seed=3)[:8]
    # What scores 100 of a part is drawn; the score says where it is: S = 100 (z - d) / (z - perf).
    w, p = truth.weights[:8] / truth.weights[:8].sum(), truth.p[:8]
    zero = min((w[:, None] * abs(p - other)).sum() for other in ([0.5, 0.5], [0, 1]))
    share = results["score,none"] / 100
    assert 0 < share < 1
    perfect = zero - (zero - results["l1,none"]) / share
    scores, unclipped, l1, uncut = by_hand(BY_AGE, q, slice(8), perfect)
    assert results["score_stderr,none"] == pytest.approx(scores.std(ddof=1), rel=1e-6)
    assert results["score_population_stderr,none"] == pytest.approx(unclipped.std(ddof=1))
    assert results["l1_population,none"] == pytest.approx(l1)
    assert results["score_population,none"] == pytest.approx(np.clip(uncut, 0, 100))


def test_answers_that_were_drawn_lose_their_excess_at_every_replicate(replicated):
    truth, rng = store.load_truth(BY_AGE), np.random.default_rng(4)
    said = rng.random(len(truth.given))
    replies = [
        hooks.process_sampled(
            doc, [doc["choices"][doc["order"].index(int(rng.random() > said[doc["cell"]]))]]
        )["score"]
        for doc in split(BY_AGE, "sampled")
    ]
    found = metrics.compare_task(replies)
    shares = found.elicited.counts[:, :2] / found.elicited.counts.sum(axis=1, keepdims=True)
    plain = (truth.weights[:, None] * abs(shares - truth.p)).sum()
    numbers = metrics.measure(replies).numbers
    excess = plain - numbers["l1"]
    assert abs(excess) > 1e-4
    at = [
        (truth.weights[:, None] * abs(shares - other)).sum() - excess for other in truth.replicates
    ]
    assert found.l1_at == pytest.approx(at)
    l1, again = numbers["l1"], truth.p + truth.replicates - truth.replicates.mean(axis=0)
    at = [(truth.weights[:, None] * abs(shares - other)).sum() - excess for other in again]
    assert 2 * l1**2 > np.mean(at) ** 2
    population = math.sqrt(2 * l1**2 - np.mean(at) ** 2)
    assert numbers["l1_population"] == pytest.approx(population)
    draws = found.score_population_draws
    assert draws.asking > 0
    error = math.hypot(draws.at.std(ddof=1), draws.asking)
    assert numbers["score_population_stderr"] == pytest.approx(error)


def test_orderings_that_were_sampled_add_their_error(replicated):
    """Ten of 24, and a reader with a favourite letter."""
    name = "epidemia_low_acs_employer_by_race"
    results = evaluate(
        [name], model_args="kind=truth,position_bias=1", metadata={"orderings": "random:10"}
    )
    said = results["epidemia"]["replicates"][name]
    for metric in ("score", "score_population"):
        asking = said["asking"][metric]
        assert asking > 0
        error = math.hypot(np.std(draws_of(said, metric), ddof=1), asking)
        row = results["results"][name]
        assert row[f"{metric}_stderr,none"] == pytest.approx(error, abs=1e-3)


def test_python_has_the_numbers_of_lm_eval(replicated):
    ran = evaluate([BY_AGE, GSS, EXACT], model_args=NOISY, log_samples=False)
    for name in (BY_AGE, GSS, EXACT):
        found = api.score(
            name, simulate_answers(store.load_truth(name), "noisy", noise=0.5, seed=3)
        )
        row = ran["results"][name]
        asking = ran["epidemia"]["replicates"][name]["asking"]["score"]
        assert math.hypot(found.error, asking) == pytest.approx(row["score_stderr,none"])
        assert found.population == pytest.approx(row["score_population,none"])
        assert found.l1_population == pytest.approx(row["l1_population,none"])
        low, high = found.interval
        assert 0 <= low <= found.population <= high <= 100
        if name != EXACT:
            expected = found.population + 1.96 * found.population_error
            assert high == pytest.approx(min(100, expected)) and low < high


def test_errors_of_means_and_differences_in_python(replicated):
    tasks = (BY_AGE, BY_RACE)
    one, other = ([api.score(task, lambda _, p=p: p) for task in tasks] for p in (0.1, 0.2))
    at = np.array([[found.draws.at for found in side] for side in (one, other)])
    mean = api.joint_error([found.draws for found in one])
    assert mean == pytest.approx(at[0].mean(axis=0).std(ddof=1))
    pairs = [api.difference(a.draws, b.draws) for a, b in zip(one, other, strict=True)]
    between = api.joint_error(pairs)
    assert between == pytest.approx((at[0] - at[1]).mean(axis=0).std(ddof=1))
    again = [api.score(task, lambda _: 0.1) for task in tasks]
    assert one == again and len({*one, *again}) == 2  # arrays stay out of it


def test_what_goes_wrong_with_our_errors_leaves_the_results(replicated, caplog, monkeypatch):
    def broken(*_):
        raise KeyError("another layout")

    monkeypatch.setattr(group_errors, "_groups", broken)
    results = evaluate([GROUP])
    assert results["results"][BY_AGE]["score,none"] == 100
    for table in ("results", "groups"):
        assert results[table][GROUP]["score_stderr,none"] == "N/A"  # not a wrong number
    assert "another layout" in caplog.text and "epidemia" not in results


def test_processes_without_results_and_runs_without_scores_are_left_alone(replicated):
    nothing = evaluate(
        [GROUP], samples={in_way(*m): [0] for m in find_tasks(GROUP)}
    )  # no whole cell
    assert nothing["epidemia"]["replicates"] == {}
    assert nothing["results"][GROUP]["score_stderr,none"] == "N/A"
    noted = group_errors.Noted({BY_AGE: {"score": Draws("a", np.array([1.0, 2.0]))}}, {}, {}, {})
    group_errors.write_errors(None, noted, {})
    found = evaluate([BY_AGE], predict_only=True)
    assert "epidemia" not in found and "samples" in found
    assert math.isnan(joint_error([]))


def test_a_task_is_as_it_was_after_a_run(replicated):
    manager = lm_eval_epidemia.task_manager()
    loaded = manager.load([BY_AGE])
    task = loaded["tasks"][BY_AGE]
    simple_evaluate(model="epidemia-baseline", model_args=NOISY, tasks=[task], task_manager=manager)
    assert "aggregation" not in vars(task) and "build_all_requests" not in vars(task)


def test_task_files_of_another_version_are_refused_before_the_model_is_asked(tmp_path):
    other = in_way(BY_AGE, "likelihood")
    files = f"nsduh/{BY_AGE}.yaml", f"likelihood/nsduh/{other}.yaml"
    for name in ("_epidemia", "_epidemia_likelihood", *files):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        copy(REPOSITORY / "task_yamls" / name, tmp_path / name)
    base = tmp_path / "_epidemia"
    text = base.read_text()
    start = text.index("  - metric: score_population\n")
    base.write_text(text[:start] + text[text.index("  - metric: seen\n") :])
    with pytest.raises(EpidemiaError, match="without score_population, score_population_stderr"):
        run([BY_AGE], tmp_path)
    assert other in run([other], tmp_path)["results"]
