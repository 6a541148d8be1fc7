"""Inspect: its tasks beside lm-eval's `choice-api` on a server, its logs."""

import math
import os
import re
from functools import cache

import numpy as np
import pytest
import scripted_server
from conftest import REPOSITORY, answers_to, evaluate, in_a_process
from scripted_server import VOCABULARY, scripted

from lm_eval_epidemia.benchmarks.observation import OBSERVATION

pytest.importorskip("inspect_ai")

import inspect_ai
from inspect_ai.log import read_eval_log, recompute_metrics
from inspect_ai.model import Logprob, Logprobs, ModelOutput, ModelUsage, TopLogprob, get_model

from lm_eval_epidemia.inspect_ai.tasks import epidemia_low, iterate_questions

#: Of few tasks and cells, one of them with more than two answers.
SURVEY = "nhanes"


def asked(way="letters", survey=SURVEY, group="epidemia_low"):
    return list(iterate_questions(group, way, [survey], "balanced"))


def believed(row):
    """What somebody who knows something says, by displayed position."""
    return 0.8 * np.array(row["p"])[row["order"]] + 0.2 / len(row["p"])


def knowing(sharpness):
    """A server's log-probabilities: letters in three spellings above its words; sharp, not all."""
    of = {row["prompt"]: believed(row) for row in asked()}

    @cache
    def logprobs(text):
        logits = np.random.default_rng(len(text)).normal(-12, 1, len(VOCABULARY))
        for place, p in enumerate(of.get(text, ())):
            for spelling, less in enumerate((0, 1, 3)):
                logits[24 * spelling + place] = sharpness * np.log(p) - less
        return logits - np.log(np.exp(logits).sum())

    return logprobs


def run(task, model="mockllm/model", **arguments):
    log = inspect_ai.eval(task, model=model, display="none", **arguments)[0]
    assert log.status == "success", log.error
    return log


def numbers_of(log):
    return {name: metric.value for name, metric in log.results.scores[0].metrics.items()}


def answering(reply):
    """A model of Inspect's that answers a prompt, without tokens counted by a tokenizer."""

    def output(messages, *_):
        content, logprobs = reply(messages[0].text)
        made = ModelOutput.from_content("mockllm/model", content)
        made.choices[0].logprobs = logprobs
        made.usage = ModelUsage()
        return made

    return get_model("mockllm/model", custom_outputs=output)


def first_token(top):
    """Log-probabilities as Inspect has them, from probabilities by token."""
    shown = [TopLogprob(token=token, logprob=math.log(p)) for token, p in top.items()]
    first = Logprob(token=shown[0].token, logprob=shown[0].logprob, top_logprobs=shown)
    return Logprobs(content=[first])


@pytest.mark.parametrize("sharpness", [1, 5])
def test_scores_are_those_of_choice_api_in_the_same_chat(sharpness, monkeypatch, tmp_path):
    monkeypatch.setattr(scripted_server, "logprobs", knowing(sharpness))
    with scripted() as server:
        group = f"epidemia_low_{SURVEY}"
        found = evaluate(
            [group],
            model="choice-api",
            model_args=f"base_url={server.url()},model=any",
            apply_chat_template=True,
            metadata={"orderings": "balanced"},
        )["results"]
        theirs, server.payloads = server.payloads, []
        model = get_model(
            "openai-api/loop/any",
            base_url=server.url().removesuffix("/chat/completions"),
            api_key="none",
        )
        log = run(epidemia_low(survey=SURVEY), model, log_dir=str(tmp_path))
        ours = server.payloads
    # The same is sent, once each.
    both = [{sent["messages"][0]["content"]: sent for sent in each} for each in (theirs, ours)]
    assert both[0] == both[1] and len(theirs) == len(ours) == len(both[0]) == len(asked())
    numbers, expected = numbers_of(log), found[group]
    assert next(iter(numbers)) == "score"
    for name in ("score", "score_stderr", "choice_mass", "seen"):
        assert numbers[name] == pytest.approx(expected[f"{name},none"], abs=1e-6), name
    assert 0 < numbers["score"] < 100 and numbers["score_stderr"] > 0
    tasks = {row["task"] for row in asked()}
    for name in ("unseen_mass", "unseen_effect"):
        mean = sum(found[task].get(f"{name},none", 0.0) for task in tasks) / len(tasks)
        assert numbers[name] == pytest.approx(mean, abs=1e-6)
    assert (numbers["unseen_mass"] > 0) == (sharpness > 1)
    assert numbers["tasks"] == len(tasks)
    assert numbers[SURVEY] == numbers["score"]
    assert numbers[f"{SURVEY}_stderr"] == numbers["score_stderr"]
    # From the log alone the same comes out, and it says what was asked, true and answered.
    again = read_eval_log(log.location)
    recompute_metrics(again)
    assert numbers_of(again) == pytest.approx(numbers, abs=1e-9)
    sample = again.samples[0]
    assert sample.input == asked()[0]["prompt"]
    assert sample.metadata["given"] == asked()[0]["given"]
    score = sample.scores["letters"]
    for text in (sample.target, score.answer):
        assert sum(float(part.split()[-1].rstrip("%")) for part in text.split(", ")) == (
            pytest.approx(100, abs=0.2)
        )
    assert "together" in score.explanation and "Distance from the truth" in score.explanation


def test_letters_by_themselves_or_missing(tmp_path, caplog):
    """Of nine prompts in ten the letters are shown; else nothing, or other tokens than letters."""
    rows = asked()
    of = {row["prompt"]: (number, row) for number, row in enumerate(rows)}

    def reply(prompt):
        number, row = of[prompt]
        if number == 0:
            return "Well", None
        if number == 7:
            return "Well", first_token({"Well": 0.9, ",": 0.05})
        letters = zip("ABCDEFGH", believed(row), strict=False)
        return "A", first_token({letter: 0.9 * float(p) for letter, p in letters})

    log = run(epidemia_low(survey=SURVEY), answering(reply), log_dir=str(tmp_path))
    numbers, results = numbers_of(log), log.results.scores[0]
    assert (results.scored_samples, results.unscored_samples) == (len(rows) - 1, 1)
    first, other, shown = (log.samples[number].scores["letters"] for number in (0, 7, 8))
    assert math.isnan(first.value) and "log-probabilities" in first.explanation
    assert other.answer is None and "not shown: at most 0.05" in other.explanation
    assert shown.answer and "not shown" not in shown.explanation
    # A cell without all of its orderings does not count; what was not shown is shared out.
    weights = OBSERVATION.ways["letters"].load(rows[0]["task"]).weights
    tasks = len({row["task"] for row in rows})
    assert numbers["seen"] == pytest.approx(1 - weights[0] / tasks)
    per_task = sum(row["task"] == rows[7]["task"] for row in rows) - 1
    assert numbers["unseen_mass"] == pytest.approx(0.05 / per_task / tasks)
    assert 0.85 < numbers["choice_mass"] < 0.9
    said = " ".join(record.getMessage() for record in caplog.records)
    assert "without log-probabilities" in said and "begins with 'Well'" in said
    assert "cells are complete" not in said  # as it is said of every part while answers come in


@pytest.mark.parametrize("logprobs", [None, first_token({"Well": 0.9, ",": 0.05})])
def test_without_any_letters_there_is_no_score(logprobs, tmp_path):
    model = answering(lambda prompt: ("Well", logprobs))
    log = run(epidemia_low(survey=SURVEY), model, log_dir=str(tmp_path), limit=12)
    numbers = numbers_of(log)
    assert numbers.pop("tasks") == numbers.pop("seen") == 0
    assert set(numbers) == {
        *("score", "score_stderr", "choice_mass", "unseen_mass", "unseen_effect")
    }
    assert all(map(math.isnan, numbers.values()))
    reasons = {sample.scores["letters"].reason for sample in log.samples}
    assert reasons == {None if logprobs else "scoring_failed"}


def test_a_task_that_was_not_reached_is_not_seen(tmp_path):
    """The first cell's questions, of one of several tasks, are all that is asked."""
    rows = asked()
    first = [row for row in rows if (row["task"], row["cell"]) == (rows[0]["task"], 0)]
    of = {row["prompt"]: row for row in rows}

    def reply(prompt):
        believes = zip("ABCDEFGH", believed(of[prompt]), strict=False)
        # In one spelling each: of the others only a bound is known.
        return "A", first_token({letter: 0.9 * float(p) for letter, p in believes})

    model = answering(reply)
    log = run(epidemia_low(survey=SURVEY), model, log_dir=str(tmp_path), limit=len(first))
    numbers = numbers_of(log)
    weight = OBSERVATION.ways["letters"].load(rows[0]["task"]).weights[0]
    assert numbers["tasks"] == 1
    assert numbers["seen"] == pytest.approx(weight / len({row["task"] for row in rows}))
    assert numbers[SURVEY] == numbers["score"] > 0
    assert numbers["unseen_mass"] == 0 < 1 < numbers["unseen_effect"]
    # A cell asked in part is no cell.
    log = run(epidemia_low(survey=SURVEY), model, log_dir=str(tmp_path), limit=len(first) - 1)
    numbers = numbers_of(log)
    assert numbers["tasks"] == numbers["seen"] == 0 and math.isnan(numbers["score"])
    assert SURVEY not in numbers


def test_the_python_of_the_page_runs(tmp_path, monkeypatch, capsys):
    page = (REPOSITORY / "docs" / "guides" / "inspect.md").read_text()
    code, scripted_code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    code = code.replace('"openai/gpt-4o-mini"', "model").replace("limit=100", "limit=2")
    exec(code, {"model": answering(lambda prompt: ("Well", None))})
    printed = dict(line.split() for line in capsys.readouterr().out.splitlines()[-7:])
    assert printed["tasks"] == printed["seen"] == "0.000" and printed["score"] == "nan"
    exec(scripted_code, {})
    score = capsys.readouterr().out.splitlines()[-1].strip()
    assert score == "20.119 ± 0.417" and score in page


def test_the_page_says_how_many_samples_other_orderings_have():
    page = (REPOSITORY / "docs" / "guides" / "inspect.md").read_text()
    for surveys, orderings in (([], "random:120"), (["gss"], "all"), (["gss"], "balanced")):
        samples = iterate_questions("epidemia_low", "letters", surveys, orderings)
        assert f" {sum(1 for _ in samples):,}" in page


def test_stated_answers_score_as_under_lm_eval(tmp_path):
    """Every ninth reply cannot be read."""
    way, rows = OBSERVATION.ways["stated"], asked("stated")
    of = {row["prompt"]: (number, row) for number, row in enumerate(rows)}

    def reply(prompt):
        number, row = of[prompt]
        mixed = 0.8 * np.array(row["p"]) + 0.2 / len(row["p"])
        return "I cannot say." if number % 9 == 0 else way.writes(mixed, way.of_row(row))

    task = epidemia_low(way="stated", survey=[SURVEY])
    log = run(task, answering(lambda prompt: (reply(prompt), None)), log_dir=str(tmp_path))
    numbers = numbers_of(log)
    tasks = dict.fromkeys(row["task"] for row in rows)
    answers = [answers_to(name, "stated", lambda row: [reply(row["prompt"])]) for name in tasks]
    measured = [OBSERVATION.measure(of_task).numbers for of_task in answers]
    for name in ("score", "seen"):
        mean = np.mean([of_task[name] for of_task in measured])
        assert numbers[name] == pytest.approx(mean, abs=1e-9), name
    mean = np.mean([way.diagnostics["answered"].of(of_task) for of_task in answers])
    assert numbers["answered"] == pytest.approx(mean, abs=1e-9)
    assert 0.8 < numbers["answered"] < 0.95 and 5 < numbers["score"] < 95
    first, other = (log.samples[number].scores["stated"] for number in (0, 1))
    assert first.answer is None and "equally likely" in first.explanation
    assert other.answer and "as written" in other.explanation


def test_the_command_line_without_lm_eval(tmp_path):
    """By the entry point, in a folder that is no checkout."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['lm_eval'] = None\n")
    with scripted() as server:
        base_url = server.url().removesuffix("/chat/completions")
        arguments = ["lm_eval_epidemia/epidemia_high", "--model", "openai-api/loop/any"]
        arguments += ["-T", "survey=nsduh", "--limit", "4", "--display", "plain", "--log-dir", "."]
        alone = {"PYTHONPATH": str(tmp_path), "LOOP_API_KEY": "none"}
        done = command(tmp_path, "eval", *arguments, "--model-base-url", base_url, **alone)
        assert done.returncode == 0, done.stdout + done.stderr
        assert len(server.payloads) == 4
    (path,) = tmp_path.glob("*.eval")
    log = read_eval_log(str(path))
    assert log.eval.task == "lm_eval_epidemia/epidemia_high" and log.status == "success"
    assert numbers_of(log)["tasks"] == 1


def command(folder, *arguments, **variables):
    """Run Inspect's command line in a folder."""
    environment = {**os.environ, "COLUMNS": "400", **variables}
    return in_a_process("-m", "inspect_ai", *arguments, cwd=folder, env=environment)


def test_a_wrong_argument_is_told_in_a_line(tmp_path):
    arguments = "lm_eval_epidemia/epidemia_low --model mockllm/model -T orderings=[some]"
    done = command(tmp_path, "eval", *arguments.split())
    assert done.returncode != 0
    (line,) = (done.stdout + done.stderr).split("\n\n")[0].strip().splitlines()
    assert "['some']" in line and "Traceback" not in done.stdout + done.stderr


def test_a_log_is_scored_again_as_the_page_says(tmp_path):
    run(
        epidemia_low(way="stated", survey=SURVEY),
        answering(lambda _: ("no", None)),
        limit=3,
        log_dir=str(tmp_path),
    )
    (path,) = tmp_path.glob("*.eval")
    before = numbers_of(read_eval_log(str(path)))
    page = (REPOSITORY / "docs" / "guides" / "inspect.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"inspect (score LOG .*)", page)
    typed = line.replace("LOG", path.name).replace("/letters", "/stated").split()
    done = command(tmp_path, *typed, "--overwrite", "--display", "plain")
    assert done.returncode == 0, done.stdout + done.stderr
    assert numbers_of(read_eval_log(str(path))) == pytest.approx(before, nan_ok=True)
