"""One row per model, its settings as chips, and runs chosen by their settings."""

import hashlib

import pytest
from test_report import AGE_SEX, COCAINE, HEROIN, write
from test_runs import MMLU, SMALL, run_as

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.results.entry import Asked
from lm_eval_epidemia.results.models import chips, chosen, conditions_of, fields, models_of
from lm_eval_epidemia.results.results import read_results

WHOLE, CUT = (
    {"score,none": 50.0, "score_stderr,none": 1.0, "l1,none": 0.1, "seen,none": seen}
    for seen in (1.0, 0.4)
)


def models(folder):
    return models_of(read_results([folder]).entries)


def test_the_run_that_answered_most_stands_for_its_model_then_the_newest(tmp_path):
    write(tmp_path / "a", {COCAINE: (40.0, 3.0)}, date=1.0, config=run_as(dtype="bfloat16"))
    write(tmp_path / "b", {COCAINE: (60.0, 3.0)}, date=2.0, config=run_as(dtype="float32"))
    (model,) = models(tmp_path)
    assert [chips(run) for run in model.runs] == [("float32",), ("bfloat16",)]
    write(
        tmp_path / "a", {COCAINE: (40.0, 3.0), AGE_SEX: (1.0, 1.0)}, config=run_as(dtype="bfloat16")
    )
    (model,) = models(tmp_path)
    assert len(model.shown.scores) == 2 and chips(model.shown) == ("bfloat16",)
    # A tenth of two tasks is less than one.
    cut = {"config": {**run_as(dtype="bfloat16"), "limit": 10.0}}
    write(tmp_path / "a", {COCAINE: {**CUT}, AGE_SEX: {**CUT}}, **cut)
    (model,) = models(tmp_path)
    assert [chips(run) for run in model.runs] == [("float32",), ("limit 10", "bfloat16")]


def test_what_a_file_holds_is_one_run_though_a_limit_reached_some_tasks_alone(tmp_path):
    limited = {"config": {**SMALL, "limit": 10.0}}
    write(tmp_path / "ten", {COCAINE: CUT, HEROIN: WHOLE, AGE_SEX: CUT}, date=2.0, **limited)
    (model,) = models(tmp_path)
    (run,) = model.runs
    assert (len(run.scores), run.parts, chips(run)) == (3, (), ("limit 10",))
    # Never with a run that had no limit.
    write(tmp_path / "all", {COCAINE: WHOLE, AGE_SEX: WHOLE}, date=1.0, config=SMALL)
    (model,) = models(tmp_path)
    runs = {chips(run): len(run.scores) for run in model.runs}
    assert runs == {(): 2, ("limit 10",): 3}


def test_a_task_that_heeds_no_orderings_is_of_the_run_that_had_them(tmp_path):
    balanced = {"config": SMALL, "metadata": {"orderings": "balanced"}}
    write(tmp_path / "letters", {COCAINE: (40.0, 3.0)}, **balanced)
    write(tmp_path / "likelihood", {f"{COCAINE}_likelihood": (30.0, 3.0)}, config=SMALL)
    (model,) = models(tmp_path)
    assert [len(run.scores) for run in model.runs] == [2]
    assert chips(model.shown) == ("balanced orderings",)
    # Letters in the usual orderings are another run, which nobody can tell it from.
    write(tmp_path / "usual", {COCAINE: (41.0, 3.0)}, config=SMALL)
    (model,) = models(tmp_path)
    assert sorted(len(run.scores) for run in model.runs) == [1, 2]


@pytest.mark.parametrize("ours", [{"limit": 10.0}, {}])
def test_mmlu_alone_joins_the_row_of_its_model_revision_and_dtype(tmp_path, ours):
    config = run_as({"model_dtype": "torch.bfloat16", **ours}, revision="v1")
    write(tmp_path / "ours", {COCAINE: CUT}, config=config, chat_template="{{ x }}")
    alone = run_as({"model": "hf", "model_dtype": "torch.bfloat16"}, revision="v1", max_length=9)
    write(tmp_path / "mmlu", MMLU, config=alone)
    (model,) = models(tmp_path)
    assert model.others == {"mmlu (acc)": 0.65} and Asked(COCAINE, "letters") in model.shown.scores
    # Of another dtype it is a run of the model's and no part of the row; of another revision a row.
    write(tmp_path / "mmlu", MMLU, config={**alone, "model_dtype": "torch.float32"})
    (model,) = models(tmp_path)
    assert model.others == {} and len(model.runs) == 2
    alone["model_args"]["revision"] = "v2"
    write(tmp_path / "mmlu", MMLU, config=alone)
    assert len(models(tmp_path)) == 2


def test_settings_read_in_words(tmp_path):
    write(
        tmp_path,
        {COCAINE: CUT},
        config={
            "model": "choice-hf",
            "model_args": {"pretrained": "x/small", "dtype": "bfloat16"},
            "limit": 10.0,
        },
        metadata={"orderings": "balanced"},
        chat_template="{{ x }}",
        system_instruction="Be brief.",
        **{"n-shot": {COCAINE: 5}},
    )
    (model,) = models(tmp_path)
    assert chips(model.shown) == (
        "limit 10",
        "chat template",
        "balanced orderings",
        "few-shot 5",
        f"system prompt {hashlib.sha256(b'Be brief.').hexdigest()[:4]}",
        "bfloat16",
        "choice-hf",
    )
    known = fields(model.shown)
    assert known["limit"] == "10" and known["dtype"] == "bfloat16" and known["wording"] == "none"


def test_runs_are_chosen_by_their_settings(tmp_path):
    for dtype in ("float32", "bfloat16"):
        for limit, row in ((None, WHOLE), (10.0, CUT)):
            config = {**run_as(dtype=dtype), "limit": limit}
            write(tmp_path / f"{dtype}-{limit}", {COCAINE: row}, config=config)
    entries = read_results([tmp_path]).entries
    assert len(chosen(entries, conditions_of(["limit=none"]))) == 2
    for given in (["limit=none,dtype=bfloat16"], ["limit=none", " dtype = bfloat16 "]):
        (entry,) = chosen(entries, conditions_of(given))
        assert fields(entry)["dtype"] == "bfloat16" and not entry.protocol.incomplete
    with pytest.raises(EpidemiaError, match=r"no run has this setting; expected model,"):
        chosen(entries, {"precision": "x"})
    with pytest.raises(EpidemiaError, match=r"leaves no run: in these results dtype is bfloat16, "):
        chosen(entries, {"dtype": "int8"})
    with pytest.raises(EpidemiaError, match=r"expected SETTING=VALUE"):
        conditions_of(["limit"])
