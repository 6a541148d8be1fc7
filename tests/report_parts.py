"""What tests of the report share: numbers of findings, the command, changed result files."""

import json

from typer.testing import CliRunner

from lm_eval_epidemia.cli import app
from lm_eval_epidemia.score.estimates import Estimate


def kind_of(model):
    """Return the kind of a reference respondent, as it is given to lm-eval; else the model."""
    kind = model.split("kind=")[-1]
    return kind.removesuffix(")").replace(", ", ",") if "kind=" in model else model


def numbers(findings):
    """Return all numbers of findings by kind, model (its kind alone), group, row and column."""
    return {
        (
            one.kind,
            kind_of(row.entry.model),
            row.group,
            row.name,
            part,
        ): cell
        for one in findings
        for row in one.rows
        for part, cell in row.cells.items()
        if isinstance(cell, Estimate)
    }


def command(*arguments):
    """Run `epidemia` in this process; return what it prints."""
    done = CliRunner().invoke(app, list(map(str, arguments)))
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


def rewritten(runs, folder, change):
    """Put the only result file of a folder into another, changed; return its path."""
    (path,) = runs.rglob("results_*.json")
    results = json.loads(path.read_text())
    change(results)
    folder.mkdir(parents=True)
    (folder / path.name).write_text(json.dumps(results))
    return folder / path.name
