"""Variants of the prompts by --metadata, and what is refused between lm-eval and a model."""

import json
import os

import numpy as np
import pytest
import yaml
from conftest import evaluate, in_a_process
from lm_eval.api.instance import Instance
from lm_eval.api.registry import get_model
from lm_eval.tasks.manager import TaskManager
from lm_eval.utils import apply_template

from lm_eval_epidemia.ask.fewshot import examples
from lm_eval_epidemia.ask.prompts import Wording
from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.ask.way import HEEDED
from lm_eval_epidemia.benchmarks import BENCHMARKS, WAYS
from lm_eval_epidemia.benchmarks.observation import OBSERVATION
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.harness import yamls
from lm_eval_epidemia.harness.guard import _Watched
from lm_eval_epidemia.surveys.catalogue import all_tasks

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
    before = examples(TASK, 4, WAYS["letters"])
    assert rows["prompt"][:] == [before + prompt for prompt in plain["prompt"]]
    blocks = [block.splitlines() for block in before.strip().split("\n\n")]
    assert len(blocks) == 4
    assert all(block[-1].removeprefix("Answer: ") in "ABCDEFGH" for block in blocks)
    # Each is a question of a task of another survey, word for word.
    wanted = {block[0] for block in blocks}
    for name in store.available():
        if all_tasks()[name].survey != "nsduh" and len(store.load(name).levels) <= 8 and wanted:
            wording = Wording(store.load(name))
            wanted -= {wording.question(cell) for cell in range(len(store.load(name).given))}
    assert not wanted and "cocaine" not in before
    # Other tasks get other examples; more examples begin with others, not with these.
    assert examples("epidemia_low_nsduh_heroin_ever_by_age", 4, WAYS["letters"]) != before
    assert examples(TASK, 4, WAYS["letters"]) == before and examples(TASK, 0, WAYS["letters"]) == ""


def test_examples_of_probabilities_answer_with_the_interval_of_the_truth():
    text = examples(TASK, 3, WAYS["likelihood"])
    assert split(TASK, "likelihood", Variant(fewshot=3))["prompt"][0].startswith(text)
    for block in text.strip().split("\n\n"):
        assert block.startswith("What is the probability that ")
        assert "\nV. 100%\nAnswer: " in block


def test_solved_examples_do_not_depend_on_what_was_built(nsduh_parquet):
    """The same prompts where NSDUH 2023 was built too, with more tasks and other truths."""
    from lm_eval_epidemia.estimate.build import build

    task, built = "epidemia_low_gss_party_by_race", "epidemia_low_nsduh_alcohol_past_month_by_race"

    def solved():
        return [examples(task, 30, WAYS[way]) for way in ("letters", "likelihood")]

    before = solved()
    build("nsduh", nsduh_parquet, replicates=8, progress=False, only=["low"])
    assert built in store.available()
    assert solved() == before


def cells_and_answers(number):
    """Of solved examples for many tasks: P(y | x) of the answers displayed, and which was given."""
    cells, solved = {}, []
    for name in store.available():
        truth = store.load(name)
        wording = Wording(truth)
        for cell, p in enumerate(truth.p):
            key = wording.question(cell), frozenset(truth.levels)
            cells[key] = dict(zip(truth.levels, p, strict=True))
    for name in [name for name in store.available() if "nsduh" not in name][:10]:
        for block in examples(name, number, WAYS["letters"]).strip().split("\n\n"):
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
    file = yamls._task(benchmark, entry, way, "base", None, variant).splitlines()
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
        for key, value in UNUSUAL._asdict().items():
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
    with pytest.raises(EpidemiaError, match="Use the start-up hook"):
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
    return _Watched(model, frozenset({TASK})).loglikelihood([request])


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


def test_a_tokenizer_without_merges_has_letters_of_several_tokens(tiny_llama):
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    from lm_eval_epidemia.harness.cost import letters_of_several_tokens

    whole = AutoTokenizer.from_pretrained(tiny_llama)
    assert letters_of_several_tokens(whole) == []
    described = json.loads(whole.backend_tokenizer.to_str())
    described["model"]["merges"] = []
    bare = Tokenizer.from_str(json.dumps(described))
    assert len(letters_of_several_tokens(PreTrainedTokenizerFast(tokenizer_object=bare))) == 26


@pytest.mark.slow
def test_epidemia_run_guards_without_the_start_up_hook(tiny_llama):
    model = f"--model hf --model_args pretrained={tiny_llama},dtype=float32,max_length=30"
    command = f"-m lm_eval_epidemia run {model} --tasks {TASK} --device cpu"
    environment = {**os.environ, "EPIDEMIA_AUTOLOAD": "0"}
    done = in_a_process(*command.split(), env=environment)
    assert done.returncode == 2 and "exceed the model's context of 30" in done.stderr
