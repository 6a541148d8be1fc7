"""How fast the score of sampled answers comes to the score of the log-probabilities.

    python benchmarks/convergence.py

`epidemia-baseline` answers by log-probabilities, then by writing n letters per cell. For each n:
the mean score over the tasks and its standard error as lm-eval pools it, the score when the shares
of the answers are taken as they are ("plain"), and per task the root mean square of
(sampled - log-probability score), and of the same divided by the sampled score's standard error.
"""

from __future__ import annotations

import os
from collections import defaultdict

import numpy as np

os.environ.setdefault("LMEVAL_LOG_LEVEL", "ERROR")
os.environ.setdefault("TQDM_DISABLE", "1")

#: 31 tasks: one condition and two to eight answers, and the subset for retrieval.
GROUPS = ("epidemia_low_nsduh", "epidemia_low_scf", "epidemia_high_rag")
RESPONDENTS = ("kind=truth", "kind=noisy,noise=0.3", "kind=noisy,noise=1", "kind=mean")
NUMBERS = (25, 100, 400)


def plain_score(samples: list[dict]) -> float:
    """Score of the answers' shares, without the package's estimate of the distance."""
    from lm_eval_epidemia.estimate import store
    from lm_eval_epidemia.score import score as scoring

    truth = store.load_truth(samples[0]["doc"]["task"])
    counts = defaultdict(lambda: np.zeros(len(truth.levels)))
    for sample in samples:
        position = "ABCDEFGHIJKLMNOPQRSTUVWXYZ".index(sample["filtered_resps"][0])
        counts[sample["doc"]["cell"]][sample["doc"]["order"][position]] += 1
    q = np.array([counts[c] / counts[c].sum() for c in range(len(truth.weights))])
    found = scoring.Anchors.of(truth)
    distance = float(truth.weights @ abs(truth.p - q).sum(axis=1))
    return float(scoring.scale_distance(distance, found.zero, found.perfect))


def main() -> None:
    from lm_eval import simple_evaluate

    import lm_eval_epidemia
    from lm_eval_epidemia.benchmarks import find_tasks, in_way

    tasks = [task for group in GROUPS for task, _ in find_tasks(group)]

    def run(respondent: str, groups: list[str], n: int | None = None) -> dict:
        manager = lm_eval_epidemia.task_manager(metadata={"n_samples": n} if n else None)
        return simple_evaluate(
            "epidemia-baseline", respondent, groups, task_manager=manager, log_samples=n is not None
        )

    print("| respondent | asked by | score | plain | rms difference | in standard errors |")
    print("|---|---|--:|--:|--:|--:|")
    for respondent in RESPONDENTS:
        found = run(respondent, tasks)["results"]
        exact = {name: found[name]["score,none"] for name in tasks}
        score = np.mean(list(exact.values()))
        print(f"| {respondent} | log-probabilities | {score:.1f} | | | |", flush=True)
        for n in NUMBERS:
            asked = [in_way(name, "sampled") for name in tasks]
            results = run(respondent, asked, n)
            rows = [results["results"][name] for name in asked]
            scores = np.array([row["score,none"] for row in rows])
            errors = np.array([row["score_stderr,none"] for row in rows])
            plain = np.mean([plain_score(results["samples"][name]) for name in asked])
            off = scores - np.array(list(exact.values()))
            pooled = np.sqrt((errors**2).sum()) / len(errors)
            known = errors > 0
            print(
                f"| {respondent} | {n} answers | {scores.mean():.1f} ± {pooled:.1f} | "
                f"{plain:.1f} | {np.sqrt((off**2).mean()):.1f} | "
                f"{np.sqrt(((off[known] / errors[known]) ** 2).mean()):.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
