"""Tasks for lm-eval whose rows are made here: a group by size, and one of equal weights."""

import json

#: Documents of the tasks of a group, none like another, and of two tasks that count alike.
SIZES = {f"sums_{n}": 6 + n for n in range(8)}
EVEN = {"even_small": 5, "even_large": 15}


def documents(start, number):
    """Sums of which two at a time are of one passage; the third is the second once more."""
    rows = []
    for n in range(start, start + number):
        question = f"{n} plus {n % 7} is"
        right = n % 4
        choices = [str(n + n % 7 + d - right) for d in range(4)]
        rows.append(
            {"question": question, "choices": choices, "answer": right, "passage": f"p{n // 2}"}
        )
    return [*rows[:2], rows[1], *rows[3:]]


def write_tasks(folder):
    """Write task files and their rows into an empty folder; return it."""
    start = 0
    for name, number in {**SIZES, **EVEN}.items():
        (folder / f"{name}.json").write_text(json.dumps(documents(start, number)))
        start += number
        (folder / f"{name}.yaml").write_text(
            f"task: {name}\ndataset_path: json\ndataset_kwargs:\n  data_files:\n"
            f"    test: {folder}/{name}.json\ntest_split: test\nfewshot_split: test\n"
            "output_type: multiple_choice\ndoc_to_text: question\ndoc_to_choice: choices\n"
            "doc_to_target: answer\nmetadata:\n  version: 1\n"
            "metric_list:\n  - metric: acc\n  - metric: acc_norm\n  - metric: brier_score\n"
        )
    for name, members, by_size in (("sums", SIZES, "true"), ("even", EVEN, "false")):
        (folder / f"_{name}.yaml").write_text(
            f"group: {name}\ntask: [{', '.join(members)}]\naggregate_metric_list:\n"
            f"  - metric: acc\n    weight_by_size: {by_size}\n"
        )
    return folder
