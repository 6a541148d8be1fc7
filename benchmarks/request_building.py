"""How fast lm-eval builds requests from our columns, beside the same prompts as a template.

    python benchmarks/request_building.py

Both tasks have the same 1,000 rows and send the same requests.
"""

from __future__ import annotations

import contextlib
import io
import time

import datasets
from lm_eval.api.task import ConfigurableTask

from lm_eval_epidemia.ask.orderings import LETTERS
from lm_eval_epidemia.benchmarks.splits import split

ROWS = 1000
TEMPLATE = (
    "{{question}}\n"
    "{% for answer in answers %}{{'ABCD'[loop.index0]}}. {{answer}}\n{% endfor %}"
    "Answer:"
)


def rows() -> datasets.Dataset:
    """Real questions, four answers each, with the prompt both ready and in parts."""
    prompts = split("epidemia_high_nsduh_cocaine_ever_by_age_education_sex_race")["prompt"]
    questions = [prompt.split("\n")[0] for prompt in prompts]
    answers = ["Never", "Once", "Twice", "More often"]
    listed = "\n".join(f"{letter}. {a}" for letter, a in zip(LETTERS, answers, strict=False))
    chosen = [questions[i % len(questions)] + f" (#{i})" for i in range(ROWS)]
    return datasets.Dataset.from_dict(
        {
            "prompt": [f"{question}\n{listed}\nAnswer:" for question in chosen],
            "choices": [list(LETTERS[:4])] * ROWS,
            "question": chosen,
            "answers": [answers] * ROWS,
        }
    )


def build(doc_to_text: str, doc_to_choice: str) -> tuple[float, list]:
    data = rows()
    task = ConfigurableTask(
        config={
            "task": "requests",
            "custom_dataset": lambda **_: {"test": data},
            "test_split": "test",
            "output_type": "multiple_choice",
            "doc_to_text": doc_to_text,
            "doc_to_choice": doc_to_choice,
            "doc_to_target": 0,
            "num_fewshot": 0,
            "fewshot_config": {"samples": []},
        }
    )
    task.set_fewshot_seed(0)
    with contextlib.redirect_stderr(io.StringIO()):
        start = time.perf_counter()
        task.build_all_requests()
        seconds = time.perf_counter() - start
    return seconds, [instance.args for instance in task.instances]


def main() -> None:
    columns, ours = min((build("prompt", "choices") for _ in range(5)), key=lambda r: r[0])
    template, theirs = min(
        (build(TEMPLATE, "{{['A', 'B', 'C', 'D']}}") for _ in range(3)), key=lambda r: r[0]
    )
    assert ours == theirs, "the two must send the same requests"
    print(f"columns    {ROWS / columns:10,.0f} documents/s")
    print(f"templates  {ROWS / template:10,.0f} documents/s")
    print(f"columns / templates = {template / columns:.1f}")


if __name__ == "__main__":
    main()
