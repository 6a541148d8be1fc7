"""Every run of a real model whose numbers the docs print: ask it again, each run into its folder.

    python benchmarks/real_model_results.py [RUN ...] [--out docs/results] [--work FOLDER]
    python benchmarks/real_model_results.py --list      # the runs and their commands
    python benchmarks/real_model_results.py --table     # the table of docs/results/README.md

Of what is there already nothing is asked again: remove a run's folder, and it is. An interrupted
run goes on where it stopped, since `choice-hf` keeps its answers (``--use_cache``). RUN is the
beginning of a name, such as ``wording``; all runs together take some three hours on two cores.

What is kept is the file that lm-eval wrote, without folders of this machine. Where the docs print
a table made of samples (tens of MB), the table is kept as csv and the samples stay in --work.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import platformdirs

REPOSITORY = Path(__file__).resolve().parents[1]

MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
_ASK = f"--model choice-hf --model_args pretrained={MODEL},dtype=%s --apply_chat_template"
BFLOAT16 = f"lm_eval {_ASK}" % "bfloat16"
FLOAT32 = f"lm_eval {_ASK} --batch_size 16" % "float32"
WRITING = (
    f"epidemia run --model vllm --model_args pretrained={MODEL},dtype=float32,max_model_len=2048,"
    "enforce_eager=True --apply_chat_template --batch_size auto --gen_kwargs max_gen_toks=512"
)
KNOWS_AVERAGES = "lm_eval --model epidemia-baseline --model_args kind=mean"
BALANCED = """--metadata '{"orderings": "balanced"}'"""


def _worded(wording: str) -> str:
    return BALANCED.replace("}", f', "wording": "{wording}"}}')


#: `epidemia_low` in parts, each named by its first survey: of long runs each part is kept.
PARTS = ("acs fbi ipeds brfss", "bls", "meps scf gss nhanes nsduh")


#: By folder below docs/results: the command, without where its results go. (A fine-tuned model is
#: one more row, with ``peft=`` its adapter.)
RUNS = {
    "real-model/low": f"{BFLOAT16} --tasks epidemia_low {BALANCED}",
    "real-model/high": f"{BFLOAT16} --tasks epidemia_high {BALANCED}",
    "real-model/mean": f"{KNOWS_AVERAGES} --tasks epidemia_low,epidemia_high {BALANCED}",
    **{
        f"real-model/low-likelihood/{surveys[0]}": f"{BFLOAT16} --tasks "
        + ",".join(f"epidemia_low_{survey}_likelihood" for survey in surveys)
        for surveys in map(str.split, PARTS)
    },
    "real-model/high-likelihood": f"{BFLOAT16} --tasks epidemia_high_likelihood",
    "real-model/mean-likelihood": f"{KNOWS_AVERAGES} --tasks "
    "epidemia_low_likelihood,epidemia_high_likelihood",
    **{
        f"wording/low-{wording}": f"{BFLOAT16} --tasks epidemia_low {_worded(wording)}"
        for wording in ("bare", "random", "majority", "item")
    },
    "wording/low-likelihood": f"{BFLOAT16} --tasks epidemia_low_likelihood --limit 10",
    "wording/low-likelihood-bare": f"{BFLOAT16} --tasks epidemia_low_likelihood --limit 10 "
    """--metadata '{"wording": "bare"}'""",
    "wording/high-bare": f"{BFLOAT16} --tasks epidemia_high_nsduh,epidemia_high_scf "
    + _worded("bare"),
    "world": f"{BFLOAT16} --tasks epidemia_world {BALANCED} --log_samples",
    "years": f"{BFLOAT16} --tasks epidemia_years {BALANCED} --log_samples",
    "years/undated": f"{BFLOAT16} --tasks epidemia_years_undated {BALANCED} --log_samples",
    "people": f"{BFLOAT16} --tasks epidemia_people {BALANCED} --log_samples",
    "one-question": f"{FLOAT32} --tasks epidemia_low_nsduh_marijuana_ever_by_age --log_samples",
    "quick": f"{FLOAT32} --tasks epidemia_quick",
    "interventions": f"{FLOAT32} --tasks epidemia_intervention,epidemia_intervention_retrieval",
    "priors/direct": f"{WRITING} --tasks epidemia_prior",
    "priors/grid": f"{FLOAT32} --tasks epidemia_prior_grid",
    "priors/grid-mean": f"{KNOWS_AVERAGES} --tasks epidemia_prior_grid",
}

#: Runs whose samples make a table of the docs, and the finding that it is.
TABLES = {"world": "places", "years": "years", "people": "people"}

#: Runs whose samples are few enough to be kept.
WITH_SAMPLES = ("years/undated", "one-question")


def results_of(name: str, out: Path) -> Path | None:
    """Return the result file of a run; None where it was not asked to its end."""
    return next(iter(sorted((out / name).glob("results_*.json"))), None)


def portable(text: str) -> str:
    """Cut the folders of this machine out of a result file.

    Raises
    ------
    ValueError
        If another folder, or the source text of a function, is left.
    """
    text = re.sub(r'"/[^"]*/(task_yamls/)', r'"\1', text)
    if left := re.search(r"[\"\' ](?:/(?:home|root|tmp|work|Users|opt|mnt)/|def \w+\()", text):
        raise ValueError(text[left.start() :][:80])
    return text


def ask(name: str, work: Path, out: Path, vllm: Path | None) -> str:
    """Ask one run and keep its results; return what became of it."""
    command, here = RUNS[name], Path(sys.executable).parent
    if "--model vllm" in command and vllm is None:
        return "not asked: it needs vLLM; name its virtual environment with --vllm"
    program, *options = shlex.split(command)
    programs = vllm / "bin" if vllm and "--model vllm" in command else here
    flat = name.replace("/", "-")
    there, log = work / "runs" / flat, work / f"{flat}.log"
    kept = ["--output_path", f"runs/{flat}/"]
    if "epidemia-baseline" not in command:
        kept += ["--use_cache", f"cache/{flat}"]
    start = time.monotonic()
    with log.open("w") as file:
        line = [programs / program, *options, *kept]
        done = subprocess.run(line, cwd=work, stdout=file, stderr=file, check=False)
    if done.returncode:
        return f"FAILED; see {log}"
    results = max(there.rglob("results_*.json"), key=lambda path: path.name)
    (out / name).mkdir(parents=True, exist_ok=True)
    if name in TABLES:
        report = [here / "epidemia", "report", there, "--show", TABLES[name], "--format", "csv"]
        table = subprocess.run(report, check=True, stdout=subprocess.PIPE, text=True).stdout
        (out / name / f"{TABLES[name]}.csv").write_text(table)
    if name in WITH_SAMPLES:
        stamp = results.stem.removeprefix("results")
        for samples in results.parent.glob(f"samples_*{stamp}.jsonl"):
            shutil.copy(samples, out / name)
    (out / name / results.name).write_text(portable(results.read_text()))
    return f"{(time.monotonic() - start) / 60:.0f} minutes"


def table(out: Path) -> str:
    """Return the table of runs for a page: how each was asked, how many prompts, how long."""
    shown = {BFLOAT16: "bfloat16", FLOAT32: "float32", WRITING: "float32, vLLM"}
    shown |= {KNOWS_AVERAGES: "knows averages only"}
    lines = ["| folder | model | asked | prompts | minutes |", "|---|---|---|--:|--:|"]
    for name, command in RUNS.items():
        (start,) = (start for start in shown if command.startswith(start))
        asked = command.removeprefix(start).removeprefix(" --tasks ").replace(" --log_samples", "")
        asked = asked.replace(",epidemia_", ", ")
        prompts, minutes = "not asked yet", ""
        if path := results_of(name, out):
            run = json.loads(path.read_text(encoding="utf-8"))
            prompts = f"{sum(tasks['effective'] for tasks in run['n-samples'].values()):,}"
            took = float(run["total_evaluation_time_seconds"]) / 60
            minutes = f"{took:.0f}" if took >= 0.5 else "< 1"
        lines.append(f"| {name} | {shown[start]} | `{asked}` | {prompts} | {minutes} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="*", metavar="RUN")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs" / "results")
    cache = platformdirs.user_cache_path("lm-eval-epidemia", appauthor=False) / "real-model-runs"
    parser.add_argument("--work", type=Path, default=cache, help="answers, samples and logs")
    parser.add_argument("--vllm", type=Path, help="virtual environment with vLLM")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    names = [name for name in RUNS if name.startswith(tuple(args.runs or [""]))]
    if not names:
        sys.exit(f"no run begins with {' or '.join(args.runs)}; there are {', '.join(RUNS)}")
    if args.table:
        print(table(args.out))
        return
    if args.list:
        print("\n".join(f"{name}: {RUNS[name]}" for name in names))
        return
    # The commands name the model as lm-eval's users do, relative to where they are.
    sys.path.insert(0, str(REPOSITORY / "tests"))
    from real_model import real_model

    link = args.work / MODEL
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.exists():
        link.symlink_to(real_model(), target_is_directory=True)
    for number, name in enumerate(names, start=1):
        is_there = results_of(name, args.out)
        print(f"{number} of {len(names)}  {name}: ", end="", flush=True)
        print("is there" if is_there else ask(name, args.work.resolve(), args.out, args.vllm))
    print(f"results: {args.out}; answers, samples and logs: {args.work}")
    if missing := [name for name in names if not results_of(name, args.out)]:
        sys.exit(f"no results of {', '.join(missing)}")


if __name__ == "__main__":
    main()
