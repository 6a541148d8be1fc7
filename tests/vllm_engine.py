"""Run by test_choice_vllm.py in the environment that has vLLM: one engine, asked through lm-eval.

    python vllm_engine.py MODEL_FOLDER OUT.json LM TASKS [chat] [old] [include=FOLDER]
                          [cache=PATH] [submission=N] [log=FILE] [kill=N]
                          [limit=N] [orderings=DESIGN] [structured=FORM]

LM is ``vllm`` or ``choice-vllm``. Writes the answers of all samples, the results and the engine's
counters; in the log, the prompts the engine was given. ``kill=N`` kills the process before
submission N + 1.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

os.environ.update(
    VLLM_CPU_KVCACHE_SPACE="1",
    VLLM_ENABLE_V1_MULTIPROCESSING="0",
    HF_HUB_OFFLINE="1",
    TORCHDYNAMO_DISABLE="1",
    VLLM_NO_USAGE_STATS="1",
    TOKENIZERS_PARALLELISM="false",
)


def watch(lm: Any, log: Path, left: int) -> None:
    """Write down what the engine is given; end the process after some submissions."""
    honest = lm._model_generate

    def counted(requests: list[list[int]], **more: Any) -> Any:
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        found = honest(requests=requests, **more)
        with log.open("a") as file:
            file.writelines(f"{prompt}\n" for prompt in requests)
        return found

    lm._model_generate = counted


def main(model: str, out: str, name: str, tasks: str, *more: str) -> None:
    from lm_eval import simple_evaluate
    from lm_eval.api.registry import get_model

    import lm_eval_epidemia

    given = dict(part.split("=", 1) for part in more if "=" in part)
    metadata = {key: given[key] for key in ("orderings", "structured") if key in given}
    manager = lm_eval_epidemia.task_manager(
        include_path=given.get("include"), metadata=metadata or None
    )
    if "old" in more:  # a vLLM that cannot name tokens by their ids
        from vllm import SamplingParams

        SamplingParams.__annotations__.pop("logprob_token_ids")
    lm = get_model(name)(
        model,
        tokenizer=model,
        dtype="float32",
        enforce_eager=True,
        max_model_len=1024,
        batch_size="auto",
        disable_log_stats=False,
        block_size=32,
    )
    if "log" in given:
        watch(lm, Path(given["log"]), int(given.get("kill", -1)))
    if "submission" in given:
        from lm_eval_epidemia.models import choice_vllm

        choice_vllm.SUBMISSION = int(given["submission"])
    results = simple_evaluate(
        lm,
        tasks=tasks.split(","),
        task_manager=manager,
        log_samples=True,
        apply_chat_template="chat" in more,
        use_cache=given.get("cache"),
        limit=int(given["limit"]) if "limit" in given else None,
        gen_kwargs={"max_gen_toks": 200} if "structured" in given else None,
    )
    counters = {
        metric.name: metric.value
        for metric in lm.model.get_metrics()
        if metric.name.startswith("vllm:prefix_cache") and hasattr(metric, "value")
    }
    answers = {
        task: [
            [
                one if isinstance(one, str) else [float(one[0]), str(one[1]) == "True"]
                for one in sample["filtered_resps"]
            ]
            for sample in sorted(samples, key=lambda sample: sample["doc_id"])
        ]
        for task, samples in results["samples"].items()
    }
    found = {"answers": answers, "counters": counters, "results": results["results"]}
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
