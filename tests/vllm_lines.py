"""Run by test_commands.py in the environment that has vLLM: command lines of lm-eval, one by one.

    python vllm_lines.py LINES.json

Prints what each prints, after a line of its own number. Lines that want the same engine share it.
"""

import json
import sys
from pathlib import Path
from typing import Any

import vllm_engine  # noqa: F401 (the environment that vLLM starts in)


def main(lines: str) -> None:
    from lm_eval.models import vllm_causallms

    from lm_eval_epidemia.harness import run

    engines: dict[str, Any] = {}
    start = vllm_causallms.LLM

    def engine(**arguments: Any) -> Any:
        """Start an engine, which takes a minute, or hand on one that was started so."""
        key = repr(sorted(arguments.items()))
        if key not in engines:
            engines[key] = start(**arguments)
        return engines[key]

    vllm_causallms.LLM = engine
    run.has_only_ours = lambda tasks: True  # as the other lines are run
    for number, words in enumerate(json.loads(Path(lines).read_text())):
        print(f"== line {number}", flush=True)
        run.run_lm_eval(words[2:] if words[0] == "epidemia" else words[1:])


if __name__ == "__main__":
    main(sys.argv[1])
