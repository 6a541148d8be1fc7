"""What fewer orderings cost, on a respondent with a known favourite letter.

    python benchmarks/orderings.py

`epidemia-baseline` answers with a noisy truth and prefers letters near the top (`position_bias`,
in log-odds per place). For each design: prompts per cell and, for three strengths of the
preference, the mean over the tasks of |score - score under all K! orderings|.
"""

from __future__ import annotations

import os

import numpy as np

os.environ.setdefault("LMEVAL_LOG_LEVEL", "ERROR")
os.environ.setdefault("TQDM_DISABLE", "1")

#: Tasks by their number of answers.
TASKS = {
    2: ["epidemia_low_nsduh_marijuana_ever_by_age", "epidemia_low_scf_home_ownership_by_age"],
    3: ["epidemia_low_gss_party_by_income", "epidemia_low_gss_political_view_by_education"],
    4: ["epidemia_low_acs_employer_by_race", "epidemia_low_acs_employment_status_by_race"],
    5: ["epidemia_low_fbi_race_by_offense"],
    6: ["epidemia_low_nhanes_age_by_bmi", "epidemia_low_meps_inpatient_visits_by_race"],
}
DESIGNS = ("all", "random:120", "random:24", "balanced", 1)
BIASES = (0.2, 0.5, 1.0)


def main() -> None:
    from lm_eval import simple_evaluate

    import lm_eval_epidemia
    from lm_eval_epidemia.ask.orderings import orderings

    print("| K | orderings | prompts per cell | " + " | ".join(f"bias {b}" for b in BIASES) + " |")
    print("|--:|---|--:|" + "--:|" * len(BIASES))
    for levels, tasks in TASKS.items():
        scores: dict[object, list[np.ndarray]] = {}
        for design in DESIGNS:
            for bias in BIASES:
                results = simple_evaluate(
                    "epidemia-baseline",
                    f"kind=noisy,noise=0.3,position_bias={bias}",
                    tasks,
                    task_manager=lm_eval_epidemia.task_manager(metadata={"orderings": design}),
                    log_samples=False,
                )["results"]
                found = np.array([results[task]["score,none"] for task in tasks])
                scores.setdefault(design, []).append(found)
        for design in DESIGNS:
            gaps = [abs(s - a).mean() for s, a in zip(scores[design], scores["all"], strict=True)]
            prompts = len(orderings(levels, design))
            print(
                f"| {levels} | {design} | {prompts} | "
                + " | ".join(f"{gap:.1f}" for gap in gaps)
                + " |",
                flush=True,
            )


if __name__ == "__main__":
    main()
