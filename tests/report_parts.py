"""What tests of reports share: result files, tables of findings, scores, and the command."""

import json

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from lm_eval_epidemia.benchmarks import WAYS, in_way, list_leaves
from lm_eval_epidemia.benchmarks.observation import TASK_VERSION
from lm_eval_epidemia.cli import app
from lm_eval_epidemia.cli.report import read_runs
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.findings.compare import Pool
from lm_eval_epidemia.score.joint import Draws
from lm_eval_epidemia.score.score import Anchors

COCAINE = "epidemia_low_nsduh_cocaine_ever_by_age"
HEROIN = "epidemia_low_nsduh_heroin_ever_by_age"
RACE = "epidemia_low_nsduh_heroin_ever_by_race"
EMPLOYER = "epidemia_low_acs_employer_by_race"
SALARY = "epidemia_low_acs_salary_by_age"
AGE_SEX = "epidemia_high_nsduh_cocaine_ever_by_age_sex"

#: Eight outcomes, with which others may be spoken of.
EIGHT = [
    *(COCAINE, HEROIN, EMPLOYER, SALARY, "epidemia_low_acs_education_by_sex"),
    *(f"epidemia_low_scf_{outcome}_by_age" for outcome in ("assets", "debt", "net_worth")),
]

METRICS = {"l1": 0.1, "seen": 1.0, "choice_mass": 0.9, "order_bias": 0.05}

SMALL = {"model": "hf", "model_args": {"pretrained": "x/small"}}
MMLU = {"mmlu": {"acc,none": 0.65}}


def run_as(config=None, **arguments):
    """What lm-eval writes of a run of the model "small"."""
    return {**SMALL, "model_args": {**SMALL["model_args"], **arguments}, **(config or {})}


def write(folder, tasks, model="/x/some-model", stamp="2026-01-01", **more):
    """A result file as lm-eval 0.4.13 writes it; `tasks` are (score, error) or whole rows.

    Errors are written as if they came from the asking alone, so that they are independent.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows, configs, versions, drawn = {}, {}, {}, {}
    for name, row in tasks.items():
        if isinstance(row, tuple):
            asking = dict.fromkeys(("score", "score_population"), row[1])
            drawn[name] = {"sample": "", **dict.fromkeys(asking, ""), "asking": asking}
            row = {
                "alias": name,
                "score,none": row[0],
                "score_stderr,none": row[1],
                "score_stderr_stderr,none": "N/A",
                "score_population,none": row[0],
                **{f"{metric},none": value for metric, value in METRICS.items()},
            }
        rows[name] = row
        task = list_leaves()[name].entry.name if name in list_leaves() else name
        if "score_stderr_stderr,none" in row and task in store.list_available():
            # The distance that has the score; 0 has any from D_zero on.
            anchors = Anchors.of(store.load_truth(task))
            far = anchors.zero - row["score,none"] / 100 * (anchors.zero - anchors.perfect)
            row["l1,none"] = far if row["score,none"] else 1.9
        truth = store.load_truth(task).fingerprint if task in store.list_available() else "x"
        configs[name] = {"metadata": {"truth": truth, **more.get("metadata", {})}}
        revision = WAYS[list_leaves()[name].way].revision if task in store.list_available() else 0
        versions[name] = TASK_VERSION + revision
    results = {
        "results": rows,
        "configs": configs,
        "versions": versions,
        "n-shot": dict.fromkeys(rows, 0),
        "config": {"model": "hf", "model_args": {"pretrained": model}, **more.pop("config", {})},
        "date": 1.0,
        "epidemia": {"group_stderr": "joint replicates", "replicates": drawn},
        **{key: value for key, value in more.items() if key != "metadata"},
    }
    path = folder / f"results_{stamp}.json"
    path.write_text(json.dumps(results))
    return path


def table(name, *folders, **options):
    """The table of a finding, of result folders read with options of `epidemia report`."""
    return find(name)(read_runs([*folders], **options)).table


def by(table, *names, of="value"):
    """A column of a table as a dictionary, by one or several others."""
    keys = table[names[0]] if len(names) == 1 else zip(*(table[n] for n in names), strict=True)
    return dict(zip(keys, table[of], strict=True))


def scored(values, draws=None, run=0, way="letters", model="", **more):
    """Scores of one run as `Results.scores` has them; `values` and `draws` by task.

    The scores against the population are the same. `draws` is one for all tasks, or several.
    """
    drawn = [draws] * len(values) if draws is None or isinstance(draws, Draws) else [*draws]
    return pd.DataFrame(
        {
            **{"run": run, "task": [*values], "way": way, "asked_as": "", "value": values.values()},
            "group": [list_leaves()[in_way(task, way)].group for task in values],
            "draws": pd.Series(drawn, dtype=object),
            "population": pd.Series(drawn, dtype=object),
            **{"score_population": values.values(), "said": None, "l1": 0.1, "seen": 1.0},
            **{"model": model or f"m{run}", "file": "", "truth": "", "task_version": ""},
            **more,
        }
    ).astype({"value": float, "score_population": float})


def asked(error):
    """Draws of an exact table, with an error from asking."""
    return Draws("", np.empty(0), error)


#: Nobody by whom differences in log `l1` are judged.
NOBODY = Pool(scored({COCAINE: 1.0}, model="nobody"), {})


def command(*arguments):
    """Run `epidemia` in this process; return what it prints."""
    return said(*arguments).stdout


def said(*arguments):
    """Run `epidemia` in this process; return what it prints, and on stderr."""
    done = CliRunner().invoke(app, list(map(str, arguments)))
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def rewritten(runs, folder, change):
    """Put the only result file of a folder into another, changed; return its path."""
    (path,) = runs.rglob("results_*.json")
    results = json.loads(path.read_text())
    change(results)
    folder.mkdir(parents=True)
    (folder / path.name).write_text(json.dumps(results))
    return folder / path.name
