"""Variants of the prompts by --metadata, and what is refused between lm-eval and a model."""

import os
import re

import numpy as np
import pytest
import yaml
from conftest import evaluate, in_a_process
from lm_eval.api.instance import Instance
from lm_eval.api.registry import get_model
from lm_eval.tasks.manager import TaskManager
from lm_eval.utils import apply_template
from report_parts import HEROIN, by, table, write
from test_approved import approved

from lm_eval_epidemia.ask.prompts import WORDINGS, Wording
from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.ask.way import HEEDED
from lm_eval_epidemia.benchmarks import BENCHMARKS, WAYS
from lm_eval_epidemia.benchmarks.observation import OBSERVATION
from lm_eval_epidemia.benchmarks.splits import draw_examples, split
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.findings.pairs import PERMUTATIONS, permutation_p
from lm_eval_epidemia.findings.references import score_known
from lm_eval_epidemia.harness import yamls
from lm_eval_epidemia.harness.guard import _Watched
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.surveys.catalogue import all_tasks, find_record

TASK = "epidemia_low_nsduh_cocaine_ever_by_age"


@pytest.fixture(scope="module")
def lm(tiny_llama):
    """Loaded once: simple_evaluate takes a model that is there."""
    import lm_eval.models  # noqa: F401  (before a model is looked up)

    arguments = f"pretrained={tiny_llama},dtype=float32"
    return get_model("hf").create_from_arg_string(arguments, {"device": "cpu", "batch_size": 22})


def asked(model, metadata, chat=False):
    """What lm-eval puts to the model first: the context and the continuation; and the results."""
    how = {"metadata": metadata, "apply_chat_template": chat, "log_samples": True, "limit": 2}
    results = evaluate([TASK], model=model, model_args=None, **how)
    context, continuation = results["samples"][TASK][0]["arguments"][0]
    return context, continuation, results


def test_where_the_letter_stands(lm):
    own, template = {"gen_prefix": "{{ 7*7 }} \U0001f600 is"}, "<|assistant|>\n"
    for metadata, chat, end, letter in (
        ({}, False, "\nAnswer:", " A"),
        ({}, True, f"\nAnswer:</s>\n{template}", "A"),
        ({"leading_space": False}, False, "\nAnswer:", "A"),
        ({"leading_space": True}, False, "\nAnswer:", " A"),
        ({"leading_space": False}, True, template, "A"),
        ({"leading_space": True}, True, template, " A"),
        (own, False, "\nAnswer: {{ 7*7 }} \U0001f600 is", " A"),
        (own, True, f"{template}{{{{ 7*7 }}}} \U0001f600 is", " A"),
    ):
        context, continuation, results = asked(lm, metadata, chat)
        assert context.endswith(end) and continuation == letter, (metadata, context[-80:])
        config = results["configs"][TASK]
        # The text, not a template of it
        assert config.get("gen_prefix") == metadata.get("gen_prefix")
        assert {key: config["metadata"][key] for key in metadata} == metadata
        assert results["results"][TASK]["choice_mass,none"] > 0
    # The shipped files stay as they are for the next run.
    assert evaluate([TASK], limit=2)["configs"][TASK]["target_delimiter"] == " "


def test_the_variant_changes_nothing_for_a_respondent_that_does_not_read():
    plain = evaluate([TASK], model_args="kind=noisy")["results"]
    for metadata in ({"leading_space": True}, {"fewshot": 2}):
        assert evaluate([TASK], model_args="kind=noisy", metadata=metadata)["results"] == plain


def test_solved_examples_come_from_other_surveys_and_are_the_same_for_every_question():
    rows, plain = split(TASK, variant=Variant(fewshot=4)), split(TASK)
    before = draw_examples(TASK, 4, WAYS["letters"])
    assert rows["prompt"][:] == [before + prompt for prompt in plain["prompt"]]
    blocks = [block.splitlines() for block in before.strip().split("\n\n")]
    assert len(blocks) == 4
    assert all(block[-1].removeprefix("Answer: ") in "ABCDEFGH" for block in blocks)
    # Each is a question of a task of another survey, word for word.
    wanted = {block[0] for block in blocks}
    for name in store.list_available():
        if (
            all_tasks()[name].survey != "nsduh"
            and len(store.load_truth(name).levels) <= 8
            and wanted
        ):
            wording = Wording(store.load_truth(name))
            wanted -= {wording.question(cell) for cell in range(len(store.load_truth(name).given))}
    assert not wanted and "cocaine" not in before
    # Other tasks get other examples; more examples begin with others, not with these.
    assert draw_examples("epidemia_low_nsduh_heroin_ever_by_age", 4, WAYS["letters"]) != before
    assert (
        draw_examples(TASK, 4, WAYS["letters"]) == before
        and draw_examples(TASK, 0, WAYS["letters"]) == ""
    )


def test_examples_of_probabilities_answer_with_the_interval_of_the_truth():
    text = draw_examples(TASK, 3, WAYS["likelihood"])
    assert split(TASK, "likelihood", Variant(fewshot=3))["prompt"][0].startswith(text)
    for block in text.strip().split("\n\n"):
        assert block.startswith("What is the probability that ")
        assert "\nV. 100%\nAnswer: " in block


def test_solved_examples_do_not_depend_on_what_was_built(nsduh_parquet):
    """The same prompts where NSDUH 2023 was built too, with more tasks and other truths."""
    from lm_eval_epidemia.estimate.build import build_survey

    task, built = "epidemia_low_gss_party_by_race", "epidemia_low_nsduh_alcohol_past_month_by_race"

    def solved():
        return [draw_examples(task, 30, WAYS[way]) for way in ("letters", "likelihood")]

    before = solved()
    build_survey("nsduh", nsduh_parquet, replicates=8, progress=False, only=["low"])
    assert built in store.list_available()
    assert solved() == before


def cells_and_answers(number):
    """Of solved examples for many tasks: P(y | x) of the answers displayed, and which was given."""
    cells, solved = {}, []
    for name in store.list_available():
        truth = store.load_truth(name)
        wording = Wording(truth)
        for cell, p in enumerate(truth.p):
            key = wording.question(cell), frozenset(truth.levels)
            cells[key] = dict(zip(truth.levels, p, strict=True))
    for name in [name for name in store.list_available() if "nsduh" not in name][:10]:
        for block in draw_examples(name, number, WAYS["letters"]).strip().split("\n\n"):
            question, *shown, answer = block.splitlines()
            displayed = [text.split(". ", 1)[1] for text in shown]
            p = cells[question, frozenset(displayed)]
            given = "ABCDEFGH".index(answer[-1])
            solved.append((np.array([p[level] for level in displayed]), given))
    return solved


def test_the_answers_of_examples_are_drawn_from_the_truth():
    """400 examples: the commonest answer is given as often as its probability says, and so is the
    one displayed first: the number of examples whose answer it is has the mean sum of p and the
    variance sum of p (1 - p)."""
    solved = cells_and_answers(40)
    assert len(solved) == 400
    for place in (np.argmax, lambda p: 0):
        p = np.array([shown[place(shown)] for shown, _ in solved])
        hits = sum(answer == place(shown) for shown, answer in solved)
        assert abs(hits - p.sum()) < 3 * np.sqrt((p * (1 - p)).sum())


#: A value of each key that asks for something else than usual.
UNUSUAL = Variant(1, 9, 1, "So", True, "letters", "conservative", "regex", 3, "bare")
SMALL = [
    TASK,
    "epidemia_high_nsduh_marijuana_ever_by_sex_race",
    "epidemia_intervention_random",
    "epidemia_intervention_tuebingen",
    "epidemia_prior_gss",
    "epidemia_quick_high",
    "epidemia_years_undated_gsstrend_religion",
]


def put_to_a_model(benchmark, entry, way, variant):
    """What lm-eval reads of a task: its rows and its file, but for the note of the variant."""
    file = yamls._format_task(benchmark, entry, way, "base", None, variant).splitlines()
    return (
        split(entry.name, way.name, variant).to_dict(),
        yamls._base(benchmark, way, None, variant),
        [line for line in file if "epidemia_variant" not in line],
    )


@pytest.mark.parametrize("name", WAYS)
def test_a_key_of_the_metadata_has_an_effect_where_it_is_heeded_and_nowhere_else(name):
    assert HEEDED.keys() == set(Variant._fields)
    way, usual = WAYS[name], Variant(n_samples=8)
    (benchmark,) = (one for one in BENCHMARKS.values() if name in one.ways)
    entries = [entry for entry in benchmark.asked(name) if entry.name in SMALL]
    assert entries
    for entry in entries:
        before = put_to_a_model(benchmark, entry, way, usual)
        # `typed` is for the model, which asks the same prompts by another type of question.
        for key, value in list(UNUSUAL._asdict().items())[:-1]:
            changed = usual._replace(**{key: value})
            is_heeded = put_to_a_model(benchmark, entry, way, changed) != before
            assert is_heeded == HEEDED[key](way, entry.declared), (entry.name, key)


TEXTS = 'The answer|{{ 7*7 }}|{% raw %}|{# x #}|prompt|task|{|it\'s "q" }}|a\nb: c|\\n|\'{{"%}'


def test_a_gen_prefix_is_text():
    """lm-eval would take it for the name of a column, or for a Jinja template."""
    rows = split(TASK)
    for text in (*TEXTS.split("|"), "na\u00efve \U0001f600 \u2028 x"):
        base = yamls._base(OBSERVATION, WAYS["letters"], None, Variant(gen_prefix=text))
        (line,) = (line for line in base.splitlines() if line.startswith("gen_prefix"))
        prefix = yaml.safe_load(line)["gen_prefix"]
        assert prefix not in rows.column_names
        assert apply_template(prefix, rows[0]) == text


def test_a_variant_that_the_task_file_does_not_follow_is_refused():
    """Our files named by --include_path, without the hook: nothing is silently left out."""
    how = {"include_defaults": False, "metadata": {"gen_prefix": "So"}}
    manager = TaskManager(include_path=str(yamls.task_path()), **how)
    with pytest.raises(EpidemiaError, match="use the start-up hook"):
        manager.load([TASK])


# The model's context and tokenizer.


def hf(model, tasks, more="", **arguments):
    model_args = f"pretrained={model},dtype=float32{more}"
    return evaluate(
        tasks, model="hf", model_args=model_args, device="cpu", batch_size=22, **arguments
    )


def test_a_prompt_that_does_not_fit_is_refused_and_not_shortened(lm, tiny_llama):
    with pytest.raises(
        EpidemiaError, match=r"max_gen_toks=1024 exceed the model.*lower --gen_kwargs"
    ):
        evaluate([f"{TASK}_sampled"], model=lm, model_args=None, limit=2)
    with pytest.raises(EpidemiaError, match="fewer 'fewshot' examples"):
        evaluate([TASK], model=lm, model_args=None, limit=2, metadata={"fewshot": 50})
    with pytest.raises(EpidemiaError, match=rf"{TASK}: a prompt of \d+ tokens .*context of 40"):
        hf(tiny_llama, [TASK], more=",max_length=40")
    assert hf(tiny_llama, [TASK], more=",max_length=200")["results"][TASK]["seen,none"] == 1


def guarded(model, asked):
    request = Instance("loglikelihood", {}, asked, 0, (TASK, 0, 1))
    return _Watched(model, frozenset({TASK}), {}).loglikelihood([request])


@pytest.mark.parametrize("kind", ["hf", "choice-hf"])
def test_what_just_fits_is_asked_and_not_shortened(tiny_llama, kind):
    """`hf` feeds all but the last token: 64 tokens and the answer's last fit into 64."""
    arguments = f"pretrained={tiny_llama},dtype=float32"
    own = get_model(kind).create_from_arg_string(arguments, {"device": "cpu", "batch_size": 1})
    enough = own._max_length
    for answer in (" A", " employed full-time"):
        asked, own._max_length = (split(TASK, "letters")["prompt"][0], answer), enough
        size = sum(map(len, own._encode_pair(*asked)))
        ((whole, _),) = guarded(own, asked)
        own._max_length = size - 1
        ((just, _),) = guarded(own, asked)
        assert just == pytest.approx(whole, abs=1e-5)
        own._max_length = size - 2
        with pytest.raises(EpidemiaError, match=f"exceed the model's context of {size - 2}"):
            guarded(own, asked)


@pytest.mark.parametrize(("kind", "beyond"), [("VLLM", -1), ("SGLangLM", -1), ("TemplateAPI", 0)])
def test_other_models_want_room_for_a_token(kind, beyond):
    """As lm-eval's classes of these names cut what they are asked."""
    parts = {
        "tokenizer": "words",
        "tok_encode": lambda self, text: text.split(),
        "max_length": 10,
        "_encode_pair": lambda self, prompt, answer: (prompt.split(), answer.split()),
        "loglikelihood": lambda self, requests: [(0.0, True)] * len(requests),
    }
    lm = type("Mine", (type(kind, (), parts),), {})()
    assert guarded(lm, ("word " * (9 + beyond), " answered"))
    with pytest.raises(EpidemiaError, match="context of 10"):
        guarded(lm, ("word " * (10 + beyond), " answered"))


@pytest.mark.slow
def test_epidemia_run_guards_without_the_start_up_hook(tiny_llama):
    model = f"--model hf --model_args pretrained={tiny_llama},dtype=float32,max_length=30"
    command = f"-m lm_eval_epidemia run {model} --tasks {TASK} --device cpu"
    environment = {**os.environ, "EPIDEMIA_AUTOLOAD": "0"}
    done = in_a_process(*command.split(), env=environment)
    assert done.returncode == 2 and "exceed the model's context of 30" in done.stderr


# Other wordings of every question, made from the records.


MARIJUANA = "epidemia_low_nsduh_marijuana_ever_by_age"


def test_questions_in_every_wording():
    """People, states, households, the book's countries and things, and a trend; approved."""
    lines = []
    for task in (
        *(MARIJUANA, HEROIN, "epidemia_low_brfss_diabetes_by_state"),
        "epidemia_high_scf_home_ownership_by_age_sex",
        *(f"epidemia_world_factbook_{of}_by_country" for of in ("fuel", "married_by_18")),
        "epidemia_years_gsstrend_degree_by_year_sex",
    ):
        for name in WORDINGS:
            words = Wording(store.load_truth(task), name)
            lines += [f"{task}, {name or 'usual'}: {words.question(0)}"]
            if name in ("bare", "random"):
                lines += [words.probability(0, 0)]
    approved("wordings.txt", "\n".join(lines) + "\n")


def test_what_no_question_of_any_task_may_say():
    """Of every task, in the first cell. Bare: where, when, of whom; an item: of somebody else."""
    for entry in OBSERVATION.asked("letters"):
        truth, given = store.load_truth(entry.name), all_tasks()[entry.name].given
        vintage = find_record(truth.survey).vintages[truth.vintage]
        words = {name: Wording(truth, name) for name in WORDINGS}
        texts = {name: of.question(0) for name, of in words.items()}
        assert len(set(texts.values())) >= len(WORDINGS) - 1, texts  # bare may have nothing to drop
        assert all(text.count("{") == 0 and "  " not in text for text in texts.values()), texts
        for text in (texts["bare"], words["bare"].probability(0, 0)):
            assert not re.search("United States|years? or older living|that year", text), text
            assert "year" in given or not re.search(r"\b(19|20)\d\d\b|\{|  ", text), text
            # Who is counted there is those whom such an institution gave a degree.
            assert ("by a US college" in text) == (truth.survey == "ipeds"), text
            assert text.count("US ") == (truth.survey == "ipeds"), text
            assert text.startswith("Consider") or not re.search("this (person|household)", text)
        # With its context it does. The book's figures are each of their own year, trends of many.
        many = truth.survey in ("factbook", "gsstrend", "brfsstrend", "blstrend")
        assert re.search(r"\b(19|20)\d\d\b" if many else re.escape(vintage.said), texts[""])
        assert given == () or texts["bare"] != words["bare"].question(1)
        if not vintage.tables:  # somebody was a respondent
            item = texts["item"].split("] ", 1)[1]
            others = r"\bthis (person|adult|woman|household)\b|\bthey\b|\btheir\b"
            assert not re.search(others, item), item
            assert not re.search(r"\b(has|is|was|does) you\b", item, re.IGNORECASE), item


@pytest.mark.parametrize("way", ["letters", "likelihood", "sampled", "stated"])
def test_every_way_heeds_it_and_changes_nothing_else(way):
    usual, bare = split(MARIJUANA, way), split(MARIJUANA, way, Variant(wording="bare"))
    assert usual.num_rows == bare.num_rows
    (was, *first), (said, *other) = (of[0].pop("prompt").splitlines() for of in (usual, bare))
    assert "living in the United States" in was and "living in" not in said and "12 or 13" in said
    assert first == other
    assert usual.remove_columns("prompt")[0] == bare.remove_columns("prompt")[0]


def test_a_permutation_test_by_hand():
    """Differences 1, 2 and 4 of three outcomes: of 8 signs, 2 give as large a sum (all or none)."""
    scores = np.array([[1.0, 2.0, 4.0], [0.0, 0.0, 0.0]])
    error = (0.25 * 0.75 / PERMUTATIONS) ** 0.5
    assert permutation_p(scores, "abc") == pytest.approx(0.25, abs=5 * error)
    # Two tasks of one outcome are permuted together: of 4 signs, 2 give as large a sum.
    error = (0.5 * 0.5 / PERMUTATIONS) ** 0.5
    assert permutation_p(scores, "aab") == pytest.approx(0.5, abs=5 * error)
    assert permutation_p(np.ones((3, 4)), "abcd") == 1.0


def worded(folder, wording, values):
    """A run of one model in a wording."""
    metadata = {"wording": wording} if wording else {}
    scores = {task: (float(value), 1.0) for task, value in values.items()}
    write(folder / f"{wording}-{len(values)}", scores, metadata=metadata)


def test_one_model_in_several_wordings(tmp_path):
    """Means 40, 60 and 50; who knows averages only has 49.8 of one task, 74.1 of the other."""
    for wording, first in (("bare", 50), ("random", 40), ("", 30)):
        worded(tmp_path, wording, {MARIJUANA: first, HEROIN: first + 20})
    made = read_results([tmp_path])
    found = find("wordings")(made)
    scores = found.table.set_index("wording")["score"].dropna().to_dict()
    assert scores == {"usual": 40.0, "bare": 60.0, "random": 50.0}
    together = found.table.set_index("wording").loc["all"]
    assert together["between"] == pytest.approx(10.0)
    scores = made.scores.assign(known=score_known(made.scores, made.runs)["score"])
    known = by(scores, "task", of="known")
    flips = sum(low < known[task] < low + 20 for task, low in ((MARIJUANA, 30), (HEROIN, 50)))
    assert (together["flips"], together["flips_tasks"]) == (50 * flips, 2)
    # Two outcomes in three wordings differ in 6 ways: no p-value is as small as .05.
    assert np.isnan(together["p"])
    (said,) = find("wordings")(read_results([tmp_path / "-2"])).left_out
    assert "in two wordings: run lm_eval again with --metadata" in said
    # They are not ranked against each other.
    ranks = by(table("leaderboard", tmp_path), "kind", "settings", of="rank")
    assert {ranks["run", words] for words in ("", "bare wording", "random wording")} == {""}
    # A group that was asked in two of the three is compared between these.
    for wording in ("", "bare"):
        worded(tmp_path, wording, {"epidemia_high_nsduh_marijuana_ever_by_age_sex": 20})
    found = table("wordings", tmp_path)
    asked = found["wording"][found["group"] == "epidemia_high"]
    assert [*asked] == ["usual", "bare", "all"]
