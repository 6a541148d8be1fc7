"""Real lm-eval runs of respondents whose answers are known."""

import json
import logging
import math

import numpy as np
import pytest
from conftest import evaluate

from lm_eval_epidemia.benchmarks.observation import metrics
from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.harness import hooks
from lm_eval_epidemia.harness.discovery import forget_cached_requests
from lm_eval_epidemia.score import collect
from lm_eval_epidemia.score import score as scoring

GROUPS = ["epidemia_low", "epidemia_high"]
#: One survey's part of them, for what does not need all 107 tasks.
NSDUH = ["epidemia_low_nsduh", "epidemia_high_nsduh"]
TASK = "epidemia_low_nsduh_cocaine_ever_by_age"


def tasks_of(results):
    return {name: row for name, row in results["results"].items() if "_by_" in name}


@pytest.mark.parametrize(
    ("kind", "groups", "tasks"),
    [
        ("truth", GROUPS, 63 + 44),
        ("mean", GROUPS, 63 + 44),
        ("uniform", NSDUH, 6 + 22),
        ("zero_one", NSDUH, 6 + 22),
    ],
)
def test_known_respondents_get_the_scores_the_anchors_predict(kind, groups, tasks):
    results = evaluate(groups, model_args=f"kind={kind}", log_samples=False)
    rows = tasks_of(results)
    assert len(rows) == tasks
    for name, row in rows.items():
        found = scoring.Anchors.of(store.load(name))
        assert row["seen,none"] == 1
        assert row["choice_mass,none"] == pytest.approx(1)
        # Under all orderings of a fair reader no position is preferred; a sample of them is
        # not perfectly balanced.
        complete = len(store.load(name).levels) <= 5
        assert row["order_bias,none"] == pytest.approx(0, abs=1e-9 if complete else 0.1)
        if kind == "truth":
            assert row["score,none"] == 100
            assert row["l1,none"] == pytest.approx(0, abs=1e-12)
        else:
            distance = getattr(found, kind)
            assert row["l1,none"] == pytest.approx(distance, abs=1e-9)
            predicted = float(scoring.scale(distance, found.zero, found.perfect))
            assert row["score,none"] == pytest.approx(predicted, abs=1e-6)
            if kind in {"uniform", "zero_one"}:
                assert row["score,none"] == pytest.approx(0, abs=1e-6)
    for group in groups if groups == NSDUH else []:
        leaves = [row for name, row in rows.items() if name.startswith(group)]
        group_row = results["groups"][group]
        scores = [row["score,none"] for row in leaves]
        assert group_row["score,none"] == pytest.approx(np.mean(scores))
    # lm-eval averages over the tasks of a group, whatever survey they come from.
    for group in GROUPS if groups == GROUPS else []:
        scores = [row["score,none"] for name, row in rows.items() if name.startswith(group)]
        assert results["groups"][group]["score,none"] == pytest.approx(np.mean(scores))


def test_a_noisy_reader_with_a_favourite_letter(replicated):
    fair = evaluate([TASK], model_args="kind=noisy,noise=0.5,seed=3")["results"][TASK]
    again = evaluate([TASK], model_args="kind=noisy,noise=0.5,seed=3")["results"][TASK]
    assert fair == again
    assert 0 < fair["score,none"] < 100
    assert fair["score_stderr,none"] > 0
    other = evaluate([TASK], model_args="kind=noisy,noise=0.5,seed=4")["results"][TASK]
    assert other["score,none"] != fair["score,none"]
    biased = evaluate([TASK], model_args="kind=truth,position_bias=2")["results"][TASK]
    assert biased["order_bias,none"] > 0.1
    # Averaging over both orders takes most of a favourite letter's effect out, not all.
    assert biased["score,none"] < 100


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


def test_scores_can_be_recomputed_from_logged_samples():
    results = evaluate([TASK], model_args="kind=noisy,noise=0.4", log_samples=True)
    recomputed = recompute(results["samples"][TASK], store.load(TASK))
    assert results["results"][TASK]["score,none"] == pytest.approx(recomputed, abs=1e-9)


def test_a_limit_scores_complete_cells_and_says_so(caplog):
    # 11 cells in 2 orders; 7 prompts are 3 complete cells and half a fourth.
    results = evaluate([TASK], model_args="kind=mean", limit=7)["results"][TASK]
    truth = store.load(TASK)
    weights = truth.weights[:3] / truth.weights[:3].sum()
    mean = truth.weights @ truth.p
    d = (weights[:, None] * abs(truth.p[:3] - mean)).sum()
    assert results["seen,none"] == pytest.approx(truth.weights[:3].sum())
    assert results["l1,none"] == pytest.approx(d)
    found = scoring.anchors(weights, truth.p[:3], 0.0)
    assert found.zero < d  # the young hardly use cocaine: the marginal answer is worse than "no"
    assert results["score,none"] == 0
    assert "3 of 11 cells are complete" in caplog.text
    truthful = evaluate([TASK], limit=7)["results"][TASK]
    assert truthful["score,none"] == 100


def test_a_limit_below_one_cell_gives_no_score(caplog):
    results = evaluate([TASK], limit=1)["results"][TASK]
    assert math.isnan(results["score,none"])
    assert results["seen,none"] == 0
    assert "raise --limit to at least 2" in caplog.text


def test_chosen_samples_are_scored_as_what_they_are():
    results = evaluate([TASK], samples={TASK: [4, 5, 6]})["results"][TASK]
    assert results["seen,none"] == pytest.approx(store.load(TASK).weights[2])


@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_log_probabilities_that_are_not_finite_give_no_number(monkeypatch, caplog, bad):
    from lm_eval_epidemia.models.baseline import Baseline

    honest = Baseline._letters

    def sick(self, request):
        return [bad, 0.0] if request.doc["cell"] == 4 else honest(self, request)

    monkeypatch.setattr(Baseline, "_letters", sick)
    results = evaluate(["epidemia_low_nsduh"])["results"]
    for name, row in results.items():
        if name.endswith("by_age") or not name.startswith("epidemia_low_nsduh_"):
            assert math.isnan(row["score,none"]), name
            assert math.isnan(row["l1,none"])
    assert "first in cell 4 (21-23)" in caplog.text


@pytest.mark.parametrize(
    ("asked", "prompts"), [("all", 24), ("random:10", 10), ("balanced", 4), (1, 1)]
)
def test_orderings_are_chosen_by_metadata(replicated, asked, prompts):
    """One task with four answers: the design decides the prompts, and the metrics know it."""
    name = "epidemia_low_acs_employer_by_race"
    found = evaluate(
        [name], model_args="kind=noisy,noise=0.3", metadata={"orderings": asked}, log_samples=True
    )
    truth, row = store.load(name), found["results"][name]
    samples = found["samples"][name]
    assert len(samples) == prompts * len(truth.given)
    assert row["seen,none"] == 1
    assert found["configs"][name]["metadata"]["orderings"] == asked
    # A reader without a favourite letter answers alike in every order.
    plain = evaluate([name], model_args="kind=noisy,noise=0.3")["results"][name]
    assert row["score,none"] == pytest.approx(plain["score,none"], abs=1e-9)
    biased = evaluate(
        [name], model_args="kind=truth,position_bias=1", metadata={"orderings": asked}
    )["results"][name]
    assert biased["order_bias,none"] > 0.2
    if asked == "random:10":
        assert biased["score_stderr,none"] > plain["score_stderr,none"]


def test_an_unknown_design_of_orderings():
    with pytest.raises(EpidemiaError, match="expected 'all', 'random:N'"):
        evaluate([TASK], metadata={"orderings": "shuffled"})


def test_few_lines_of_ours_whatever_the_number_of_tasks(caplog):
    with caplog.at_level(logging.WARNING):
        evaluate(NSDUH, limit=1)
    ours = [r for r in caplog.records if "epidemia" in r.getMessage()]
    assert 1 <= len(ours) <= 5, [r.getMessage() for r in ours]


def test_a_second_run_in_one_process_has_its_own_warnings(caplog):
    for _ in range(2):
        caplog.clear()
        evaluate(NSDUH, limit=1)
        assert caplog.text.count("raise --limit to at least 2") == 2


def test_low_choice_mass_is_warned_of(caplog, monkeypatch):
    from lm_eval_epidemia.models.baseline import Baseline

    honest = Baseline._letters
    monkeypatch.setattr(Baseline, "_letters", lambda s, d: [v - 5 for v in honest(s, d)])
    results = evaluate([TASK])["results"][TASK]
    assert results["choice_mass,none"] == pytest.approx(math.exp(-5))
    assert results["score,none"] == 100
    assert "letters together carry a probability of 0.00674" in caplog.text


def test_the_cache_of_requests_and_of_responses(tmp_path, monkeypatch):
    import lm_eval.caching.cache as cache

    monkeypatch.setattr(cache, "PATH", str(tmp_path / "requests"))
    plain = evaluate([TASK], model_args="kind=noisy")["results"]
    arguments = {
        "model_args": "kind=noisy",
        "cache_requests": True,
        "use_cache": str(tmp_path / "responses"),
    }
    first = evaluate([TASK], **arguments)["results"]
    second = evaluate([TASK], **arguments)["results"]
    assert plain == first == second
    assert list((tmp_path / "requests").iterdir())


def test_cached_requests_are_forgotten_when_the_truth_changes(tmp_path, monkeypatch):
    import lm_eval.caching.cache as cache

    monkeypatch.setattr(cache, "PATH", str(tmp_path / "requests"))
    other = "epidemia_low_nsduh_heroin_ever_by_age"
    evaluate([TASK, other], cache_requests=True)
    forget_cached_requests([TASK])
    (left,) = (tmp_path / "requests").iterdir()
    assert other in left.name


def test_questions_exported_from_another_truth_are_refused():
    row = dict(hooks.load(epidemia_task=TASK)[TASK][0], truth="0123456789ab")
    answer = hooks.process_letters(row, [(-1.0, True), (-2.0, False)])["score"]
    with pytest.raises(EpidemiaError, match="made from ground truth 0123456789ab"):
        metrics.score([answer])


def test_chat_template_few_shot_and_fixed_metadata():
    plain = evaluate([TASK], model_args="kind=noisy")
    chat = evaluate([TASK], model_args="kind=noisy", apply_chat_template=True, num_fewshot=0)
    assert plain["results"][TASK] == chat["results"][TASK]
    metadata = plain["configs"][TASK]["metadata"]
    assert metadata["vintage"] == "2022"
    assert metadata["truth"] == store.load(TASK).fingerprint
    assert plain["versions"][TASK] == 2
    assert plain["higher_is_better"][TASK]["score"] is True


def test_the_baseline_refuses_what_it_cannot_do():
    with pytest.raises(EpidemiaError, match="nearest: truth"):
        evaluate([TASK], model_args="kind=truht")
    with pytest.raises(EpidemiaError, match="noise=-1: expected a number from 0"):
        evaluate([TASK], model_args="kind=noisy,noise=-1")


def test_the_baseline_refuses_other_tasks(tmp_path):
    from lm_eval import simple_evaluate

    import lm_eval_epidemia

    (tmp_path / "rows.json").write_text(json.dumps([{"q": "2 + 2 =", "c": ["4", "5"], "a": 0}]))
    (tmp_path / "sums.yaml").write_text(
        "task: sums\ndataset_path: json\ndataset_kwargs:\n  data_files:\n"
        f"    test: {tmp_path / 'rows.json'}\ntest_split: test\noutput_type: multiple_choice\n"
        "doc_to_text: q\ndoc_to_choice: c\ndoc_to_target: a\nmetric_list:\n  - metric: acc\n"
    )
    manager = lm_eval_epidemia.task_manager(include_path=str(tmp_path))
    with pytest.raises(EpidemiaError, match="tasks of this package only, not 'sums'"):
        simple_evaluate("epidemia-baseline", "kind=truth", ["sums"], task_manager=manager)


def test_metrics_do_not_depend_on_the_order_of_answers():
    """Several processes deliver answers interleaved."""
    truth = store.load(TASK)
    rng = np.random.default_rng(0)
    docs = list(hooks.load(epidemia_task=TASK)[TASK])
    answers = [
        hooks.process_letters(doc, [(float(np.log(x)), False) for x in rng.dirichlet([1, 1])])
        for doc in docs
    ]
    items = [answer["score"] for answer in answers]
    shuffled = [items[i] for i in rng.permutation(len(items))]
    for metric in (metrics.score, metrics.score_stderr, metrics.l1, metrics.seen):
        assert metric(items) == metric(shuffled)
    assert len(items) == 2 * len(truth.given)


def test_task_files_of_the_first_version_are_told_from_new_ones():
    with pytest.raises(EpidemiaError, match=r"written by version 0\.1\.0: write them anew"):
        hooks.process_results  # noqa: B018
    with pytest.raises(AttributeError):
        hooks.process_nothing  # noqa: B018


def test_the_answers_of_a_task_are_put_together_once(monkeypatch):
    """Not once for each of its metrics; and anew for other answers, also to the same prompts."""
    laid_out, put_together = collect.laid_out, []

    def counted(answers, shape):
        put_together.append(answers[0].task)
        return laid_out(answers, shape)

    monkeypatch.setattr(collect, "laid_out", counted)
    other = "epidemia_low_nsduh_heroin_ever_by_age"
    first = evaluate([TASK, other, f"{TASK}_likelihood"])["results"]
    assert sorted(put_together) == sorted([TASK, other, TASK])
    second = evaluate([TASK], model_args="kind=uniform")["results"]
    assert len(put_together) == 4
    assert (first[TASK]["score,none"], second[TASK]["score,none"]) == (100, 0)


def test_built_ground_truth_wins_and_makes_tasks_runnable(nsduh_parquet):
    from lm_eval_epidemia.estimate.build import build
    from lm_eval_epidemia.harness.yamls import task_path

    assert task_path() == paths.shipped_task_yamls()
    build("nsduh", nsduh_parquet, replicates=8, progress=False)
    results = evaluate(NSDUH, model_args="kind=truth", log_samples=False)
    rows = tasks_of(results)
    assert len(rows) == 10 + 33
    assert "epidemia_low_nsduh_alcohol_past_month_by_race" in rows
    for name, row in rows.items():
        informative = scoring.Anchors.of(store.load(name)).informative
        assert row["score,none"] == 100 or not informative
    config = results["configs"]["epidemia_low_nsduh_heroin_ever_by_age"]
    assert config["metadata"]["vintage"] == "2023"


@pytest.mark.parametrize("answered", [None, [-1.0, -2.0], [None, None]])
def test_answers_of_another_shape_are_said_in_a_line(answered):
    """A model of somebody's own: nothing at all, or log-probabilities without `is_greedy`."""
    from lm_eval.api.model import LM

    class Odd(LM):
        def loglikelihood(self, requests):
            return answered and answered * (len(requests) // 2)

        loglikelihood_rolling = generate_until = None

    Odd.__abstractmethods__ = frozenset()
    with pytest.raises(EpidemiaError, match=r"the model (gave None|answered)"):
        evaluate([TASK], model=Odd(), model_args=None)
