"""Real lm-eval runs of respondents whose answers are known."""

import json
import logging
import math

import lm_eval.caching.cache as cache
import numpy as np
import pytest
from conftest import evaluate, nsduh_2023
from lm_eval import simple_evaluate
from lm_eval.api.model import LM

import lm_eval_epidemia
from lm_eval_epidemia.benchmarks.observation import TASK_VERSION
from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import boosted, store
from lm_eval_epidemia.estimate.build import build_survey
from lm_eval_epidemia.estimate.check import find_faults
from lm_eval_epidemia.findings.mean import average
from lm_eval_epidemia.harness import hooks
from lm_eval_epidemia.harness.yamls import task_path
from lm_eval_epidemia.models.baseline import Baseline
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.score import collect
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.surveys.catalogue import find_record

GROUPS = ["epidemia_low", "epidemia_high"]
#: One survey's part of them, for what does not need all 107 tasks.
NSDUH = ["epidemia_low_nsduh", "epidemia_high_nsduh"]
TASK, OTHER = (f"epidemia_low_nsduh_{drug}_ever_by_age" for drug in ("cocaine", "marijuana"))


def tasks_of(results):
    return {name: row for name, row in results["results"].items() if "_by_" in name}


@pytest.mark.parametrize(
    ("kind", "groups", "tasks"),
    [
        ("truth", GROUPS, 63 + 44),
        ("mean", ["epidemia_low_nsduh", "epidemia_low_gss"], 6 + 10),
        ("uniform", ["epidemia_low_nsduh", "epidemia_low_gss"], 6 + 10),
        ("zero_one", NSDUH, 6 + 22),
    ],
)
def test_known_respondents_get_the_scores_the_anchors_predict(kind, groups, tasks):
    results = evaluate(groups, model_args=f"kind={kind}", log_samples=False)
    rows = tasks_of(results)
    assert len(rows) == tasks
    for name, row in rows.items():
        truth = store.load_truth(name)
        anchors = scoring.Anchors.of(truth)
        assert row["seen,none"] == 1
        assert row["choice_mass,none"] == pytest.approx(1)
        # Under all orderings of a fair reader no position is preferred; a sample of them is
        # not perfectly balanced.
        balanced = 1e-9 if len(truth.levels) <= 5 else 0.1
        assert row["order_bias,none"] == pytest.approx(0, abs=balanced)
        distance = 0 if kind == "truth" else getattr(anchors, kind)
        assert row["l1,none"] == pytest.approx(distance, abs=1e-9)
        assert row["score,none"] == pytest.approx(float(anchors.score(distance)), abs=1e-6)
        ends = {"truth": 100, "uniform": 0, "zero_one": 0}
        assert row["score,none"] == pytest.approx(ends.get(kind, row["score,none"]), abs=1e-6)
    # lm-eval averages over the tasks of a group, whatever survey they come from.
    for group in groups:
        scores = [row["score,none"] for name, row in rows.items() if name.startswith(group)]
        assert results["groups"][group]["score,none"] == pytest.approx(np.mean(scores))


def test_a_noisy_reader_with_a_favourite_letter(replicated):
    fair, again, other, biased = (
        evaluate([TASK], model_args=f"kind={kind}", log_samples=True)
        for kind in (
            *["noisy,noise=0.5,seed=3"] * 2,
            "noisy,noise=0.5,seed=4",
            "truth,position_bias=2",
        )
    )
    row = fair["results"][TASK]
    assert row == again["results"][TASK]
    assert 0 < row["score,none"] < 100 and row["score_stderr,none"] > 0
    assert other["results"][TASK]["score,none"] != row["score,none"]
    assert biased["results"][TASK]["order_bias,none"] > 0.1
    # Averaging over both orders takes most of a favourite letter's effect out, not all.
    assert biased["results"][TASK]["score,none"] < 100
    # What was logged is enough to score it anew.
    recomputed = recompute(fair["samples"][TASK], store.load_truth(TASK))
    assert row["score,none"] == pytest.approx(recomputed, abs=1e-9)
    # A chat template changes nothing for it.
    chat = "kind=noisy,noise=0.5,seed=3"
    chat = evaluate([TASK], model_args=chat, apply_chat_template=True, num_fewshot=0)
    assert row == chat["results"][TASK]
    metadata = fair["configs"][TASK]["metadata"]
    assert metadata["vintage"] == "2022"
    assert metadata["truth"] == store.load_truth(TASK).fingerprint
    assert fair["versions"][TASK] == TASK_VERSION
    assert fair["higher_is_better"][TASK]["score"] is True


def recompute(samples, truth):
    """The score from logged samples alone, without the package's scoring code."""
    cells = {}
    for sample in samples:
        letters = np.exp([float(response[0]) for response in sample["filtered_resps"]])
        answer = np.empty(len(letters))
        answer[sample["doc"]["order"]] = letters / letters.sum()
        cells.setdefault(sample["doc"]["cell"], []).append(answer)
    q = np.array([np.mean(cells[c], axis=0) for c in range(len(cells))])
    w, p = truth.weights, truth.p
    d = (w[:, None] * abs(p - q)).sum()
    yes = (w @ p)[0] > 0.5
    ignorant = min((w[:, None] * abs(p - 0.5)).sum(), (w[:, None] * abs(p - [yes, not yes])).sum())
    return 100 * np.clip((ignorant - d) / (ignorant - truth.d_perfect()), 0, 1)


def test_a_limit_scores_complete_cells_and_says_so(caplog):
    # 11 cells in 2 orders: a limit counts cells, or below 1 is the share of them (.2 of 11: 3).
    mean, truthful = (
        evaluate([TASK], model_args=f"kind={kind}", limit=limit)["results"][TASK]
        for kind, limit in (("mean", 3), ("truth", 0.2))
    )
    truth = store.load_truth(TASK)
    weights, p = truth.weights[:3] / truth.weights[:3].sum(), truth.p[:3]
    d = (weights[:, None] * abs(p - truth.weights @ truth.p)).sum()
    assert mean["seen,none"] == pytest.approx(truth.weights[:3].sum())
    assert mean["l1,none"] == pytest.approx(d)
    # The young hardly use cocaine: the marginal answer is worse than "no".
    assert scoring.anchors(weights, p, 0.0).zero < d and mean["score,none"] == 0
    assert "3 of 11 cells are complete" in caplog.text
    assert truthful["score,none"] == 100


def test_a_group_is_the_mean_of_the_tasks_that_have_a_score(caplog, tmp_path):
    """Said in few lines, anew in each run of a process, and the same mean in the report."""
    for _ in range(2):
        caplog.clear()
        run = evaluate(NSDUH, samples={TASK: [0], OTHER: [3, 4, 5]})
        results = run["results"]
        assert math.isnan(results[TASK]["score,none"]) and results[TASK]["seen,none"] == 0
        assert results[OTHER]["seen,none"] == pytest.approx(store.load_truth(OTHER).weights[2])
        # What lm-eval informs of is seen where another test has set its level.
        warned = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
        ours = [text for text in warned if "epidemia" in text]
        assert 1 <= len(ours) <= 5, ours
    for group in NSDUH:
        rows = [row for name, row in results.items() if name.startswith(f"{group}_")]
        for metric in ("score", "l1"):
            known = [x for row in rows if not math.isnan(x := row[f"{metric},none"])]
            assert results[group][f"{metric},none"] == pytest.approx(sum(known) / len(known))
        assert results[group]["score_stderr,none"] > 0
    assert "the score of epidemia_low_nsduh is the mean of 5 of 6 tasks" in caplog.text
    path = tmp_path / "results_1.json"
    path.write_text(json.dumps(run, default=str))
    low = average(read_results([path]).scores, ["group"]).set_index("group").loc["epidemia_low"]
    assert low["tasks"] == 5
    assert low["value"] == pytest.approx(results["epidemia_low_nsduh"]["score,none"])


def test_log_probabilities_that_are_not_finite_give_no_number(monkeypatch, caplog):
    honest = Baseline._letters
    for bad in (math.nan, -math.inf):
        caplog.clear()
        monkeypatch.setattr(
            Baseline,
            "_letters",
            lambda self, r, bad=bad: [bad, 0.0] if r.doc["cell"] == 4 else honest(self, r),
        )
        for name, row in evaluate(["epidemia_low_nsduh"])["results"].items():
            if name.endswith("by_age"):
                assert math.isnan(row["score,none"]) and math.isnan(row["l1,none"]), name
        assert "first in cell 4 (21-23)" in caplog.text


def test_orderings_are_chosen_by_metadata(replicated):
    """One task with four answers: the design decides the prompts, and the metrics know it."""
    name = "epidemia_low_acs_employer_by_race"
    truth, fair = store.load_truth(name), "kind=noisy,noise=0.3"
    plain = evaluate([name], model_args=fair)["results"][name]
    for asked, prompts in (("all", 24), ("random:10", 10), ("balanced", 4), (1, 1)):
        metadata = {"orderings": asked}
        found = evaluate([name], model_args=fair, metadata=metadata, log_samples=True)
        assert len(found["samples"][name]) == prompts * len(truth.given)
        assert found["configs"][name]["metadata"]["orderings"] == asked
        row = found["results"][name]
        assert row["seen,none"] == 1
        # A reader without a favourite letter answers alike in every order.
        assert row["score,none"] == pytest.approx(plain["score,none"], abs=1e-9)
        biased = evaluate([name], model_args="kind=truth,position_bias=1", metadata=metadata)
        assert biased["results"][name]["order_bias,none"] > 0.2
        if asked == "random:10":
            error = biased["results"][name]["score_stderr,none"]
            assert error > plain["score_stderr,none"]


def test_low_choice_mass_is_warned_of(caplog, monkeypatch):
    honest = Baseline._letters
    monkeypatch.setattr(Baseline, "_letters", lambda s, d: [v - 5 for v in honest(s, d)])
    results = evaluate([TASK])["results"][TASK]
    assert results["choice_mass,none"] == pytest.approx(math.exp(-5))
    assert results["score,none"] == 100
    assert "letters together have a probability of only 0.00674" in caplog.text


def test_the_cache_of_requests_and_of_responses(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "PATH", str(tmp_path / "requests"))
    other = "epidemia_low_nsduh_heroin_ever_by_age"
    noisy = {"model_args": "kind=noisy"}
    plain = evaluate([TASK, other], **noisy)["results"]
    caches = {"cache_requests": True, "use_cache": str(tmp_path / "responses")}
    for _ in range(2):
        assert evaluate([TASK, other], **noisy, **caches)["results"] == plain


def test_the_baseline_refuses_what_it_cannot_do(mmlu_style):
    manager = lm_eval_epidemia.task_manager(include_path=str(mmlu_style))
    with pytest.raises(EpidemiaError, match="only the tasks of this package, not 'lettered'"):
        simple_evaluate("epidemia-baseline", "kind=truth", ["lettered"], task_manager=manager)


def test_task_files_of_the_first_version_are_told_from_new_ones():
    with pytest.raises(EpidemiaError, match=r"are from version 0\.1\.0: write them again"):
        hooks.process_results  # noqa: B018
    with pytest.raises(AttributeError):
        hooks.process_nothing  # noqa: B018


def test_the_answers_of_a_task_are_put_together_once(monkeypatch):
    """Not once for each of its metrics; and anew for other answers, also to the same prompts."""
    collected, put_together = collect.collect_answers, []

    def counted(ways, answers):
        put_together.append(answers[0].task)
        return collected(ways, answers)

    monkeypatch.setattr(collect, "collect_answers", counted)
    other = "epidemia_low_nsduh_heroin_ever_by_age"
    first = evaluate([TASK, other, f"{TASK}_likelihood"])["results"]
    assert sorted(put_together) == sorted([TASK, other, TASK])
    second = evaluate([TASK], model_args="kind=uniform")["results"]
    assert len(put_together) == 4
    assert (first[TASK]["score,none"], second[TASK]["score,none"]) == (100, 0)


def test_built_ground_truth_wins_and_makes_tasks_runnable(tmp_path, monkeypatch):
    monkeypatch.setattr(boosted, "ROUNDS", 2)
    assert task_path() == paths.shipped_task_yamls()
    path = tmp_path / "NSDUH_2023.parquet"
    nsduh_2023(600).to_parquet(path)
    made = build_survey("nsduh", path, vintage="2023", replicates=4, progress=False)
    assert made.left_out == []
    assert set(made.tasks) == {task.name for task in find_record("nsduh").all_tasks}
    assert {store.list_available()[name].state for name in made.tasks} == {"built here"}
    assert all(find_faults(name) == [] for name in made.tasks)
    # One of them by hand.
    truth, frame = (
        store.load_truth("epidemia_low_nsduh_alcohol_past_month_by_race"),
        nsduh_2023(600),
    )
    assert truth.vintage == "2023" and len(truth.given) == 7
    asked = frame[~frame["alcrec"].isin([85, 94, 97, 98])]
    white = asked[asked["NEWRACE2"] == 1]
    share = np.average(white["alcrec"] == 1, weights=white["ANALWT2_C"])
    assert truth.p[0, 0] == pytest.approx(share)
    registered = store.read_registry(store.built_groundtruth())["nsduh_2023"]["tasks"]
    lost = {"alcohol_past_month missing": len(frame) - len(asked)}
    assert registered[truth.task]["dropped"] == lost
    results = evaluate(NSDUH, model_args="kind=truth", log_samples=False)
    rows = tasks_of(results)
    assert len(rows) == 10 + 33
    assert truth.task in rows
    for name, row in rows.items():
        informative = scoring.Anchors.of(store.load_truth(name)).informative
        assert row["score,none"] == 100 or not informative
    config = results["configs"]["epidemia_low_nsduh_heroin_ever_by_age"]
    assert config["metadata"]["vintage"] == "2023"


def test_answers_of_another_shape_are_said_in_a_line():
    """A model of somebody's own: nothing at all, or log-probabilities without `is_greedy`."""

    class Odd(LM):
        answered = loglikelihood_rolling = generate_until = None

        def loglikelihood(self, requests):
            return self.answered and self.answered * (len(requests) // 2)

    Odd.__abstractmethods__ = frozenset()
    for Odd.answered in (None, [-1.0, -2.0], [None, None]):
        with pytest.raises(EpidemiaError, match=r"but got 0|the model answered"):
            evaluate([TASK], model=Odd(), model_args=None)


def test_what_a_respondent_cannot_answer_is_refused_before_the_first_request(monkeypatch):
    asked = []
    monkeypatch.setattr(Baseline, "loglikelihood", lambda self, requests: asked.append(requests))
    tasks = ["epidemia_low_nsduh_heroin_ever_by_race", "epidemia_prior_nhanes"]
    with pytest.raises(EpidemiaError, match="kind=uniform cannot answer epidemia_prior_nhanes"):
        evaluate(tasks, model_args="kind=uniform")
    assert not asked
