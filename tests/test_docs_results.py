"""Numbers of a real run that a page prints are those in docs/results."""

import json
import re
import runpy
import shlex
from functools import cache

import numpy as np
import pandas as pd
import pytest
from conftest import REPOSITORY
from lm_eval._cli import HarnessCLI
from report_parts import command
from scipy import special

from lm_eval_epidemia.benchmarks import find_tasks, in_way, list_leaves
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.findings.mean import average, group_scores
from lm_eval_epidemia.findings.references import score_known
from lm_eval_epidemia.results.card import TUNED_CARD
from lm_eval_epidemia.results.read import read_results

RESULTS = REPOSITORY / "docs" / "results"
SCRIPT = runpy.run_path(str(REPOSITORY / "benchmarks" / "real_model_results.py"))
FOLDERS = sorted(
    folder
    for path in RESULTS.rglob("results_*.json")
    if not (folder := str(path.parent.relative_to(RESULTS))).startswith("finetuning")
)
SMALL, AVERAGES = "SmolLM2-135M-Instruct", "knows averages only"

#: By page and some words on it: what makes the numbers that follow, and whether it makes all.
HELD = {}

#: Other pages that name the small model. README has tests of its own, two pages have one below. The
#: others have speeds, each measured by the script that is named there, commands, an example run as
#: a doctest, replies of a server or of a run that is not kept, or need raw files.
ELSEWHERE = """
README.md docs/index.md docs/start/comparing.md docs/guides/report.md docs/guides/fresh.md
benchmarks/README.md docs/evidence/measurements.md docs/guides/python.md
docs/guides/served-models.md docs/guides/your-own-survey.md
"""


def held(page, words, whole=True):
    """Hold a page, after these words, against pairs of a template and the numbers at its #."""

    def of(numbers):
        HELD[page, words] = numbers, whole
        return numbers

    return of


def row(*cells):
    """A row of a table: a cell is a text, a number, or two with ± between them."""
    shown = [one if isinstance(one, str) else " ± ".join("#" * np.size(one)) for one in cells]
    numbers = [x for one in cells if not isinstance(one, str) for x in np.ravel(one)]
    return f"| {' | '.join(shown)} |", numbers


def plain(text):
    """Text in one line, without marks and the padding of tables."""
    return re.sub(r" *\| *", "|", " ".join(re.sub("[`*]", "", text).split()))


def page(path):
    return (REPOSITORY / path).read_text(encoding="utf-8")


@cache
def results(folder):
    (path,) = (RESULTS / folder).glob("results_*.json")
    return json.loads(path.read_text(encoding="utf-8"))


def metric(folder, task, name):
    return results(folder)["results"][task][f"{name},none"]


def numbers(folder, task, names="score score_stderr"):
    return [metric(folder, task, name) for name in names.split()]


@cache
def read(*folders):
    return read_results([RESULTS / folder for folder in folders])


def table(name, *folders):
    return find(name)(read(*folders)).table


def scores_of(folder, group):
    """The scores in a group of the one run that a folder holds, of the task version of now."""
    assert len(read(folder).runs) == 1
    scores = group_scores(read(folder).scores)
    assert (scores[["task_version", "truth"]] == "").all(axis=None)
    return scores[scores["group"] == group]


def score_of(folder, group):
    return average(scores_of(folder, group), ["group"])[["value", "error"]].to_numpy()[0]


def kept(folder, kind, group):
    """A table made from samples, as the script keeps it: values and errors, by model and metric."""
    (path,) = (RESULTS / folder).glob("*.csv")
    rows = pd.read_csv(path)
    rows = rows[(rows["kind"] == kind) & (rows["name"] == group)]
    names = zip(rows["model"].str.split(" (", regex=False).str[0], rows["metric"], strict=True)
    return dict(zip(names, rows[["value", "stderr"]].to_numpy(), strict=True))


@held("docs/guides/interventional.md", "## A real small model")
def interventions():
    group = "epidemia_intervention"
    names = "kappa0_accuracy yes_bias choice_mass"
    said = "kappa0_accuracy is #, its yes_bias #, and Yes and No together have a probability of #"
    yield said, numbers("interventions", group, names)
    noticed = table("notices", "interventions").set_index("part")
    kappas = noticed["value"][["kappa = 0", "kappa = 1"]]
    yield "yes rise by # where nothing changes and by # where", kappas
    apart = noticed.loc["difference", ["value", "low", "high"]]
    yield "difference of #, with a 95 % interval from # to #", apart
    # In every kind of names.
    yield "accuracy is 5/22, retrieval 8/14", []
    for task in (f"{group}_{names}" for names in ("random", "tuebingen", "anticommonsense")):
        assert metric("interventions", task, "accuracy") == pytest.approx(5 / 22)
        assert metric("interventions", f"{task}_retrieval", "accuracy") == pytest.approx(8 / 14)


@held("docs/guides/priors-metrics.md", "## A real small model")
def of_priors():
    task, names = "epidemia_prior_nhanes", "win_rate_5 posterior_win_rate_5 crps_ratio ece"
    for title, folder in (("direct, …", "direct"), ("grid, …", "grid"), ("mean …", "grid-mean")):
        of = f"priors/{folder}", f"{task}_grid" if "grid" in folder else task
        last = ["", metric(*of, "end_mass")] if "grid" in folder else [metric(*of, "answered"), ""]
        ratio = numbers(*of, "error_ratio error_ratio_stderr")
        yield row(title, ratio, *numbers(*of, names), *last)


@held("docs/start/reading-a-score.md", "SmolLM2-135M-Instruct](../results/README.md), in float32,")
def one_question():
    (samples,) = (RESULTS / "one-question").glob("samples_*.jsonl")
    yes = {}  # the probability of "Yes" by question, where it stands first and second
    for sample in map(json.loads, samples.read_text(encoding="utf-8").splitlines()):
        letters = special.softmax([float(reply[0][0]) for reply in sample["resps"]])
        question, *lines = sample["doc"]["prompt"].splitlines()
        place = int("A. Yes" not in lines)
        yes.setdefault(question, [0, 0])[place] = 100 * letters[place]
    assert len(yes) == 11 and all(round(np.mean(of)) == 50 for of in yes.values())
    (asked,) = (of for question, of in yes.items() if "30 to 34" in question)
    yield "says # % when", asked[:1]
    yield "and # % when", asked[1:]
    yield "both orders, # %", [np.mean(asked)]
    task = "epidemia_low_nsduh_marijuana_ever_by_age"
    yield "over all ages is #", numbers("one-question", task, "score")


# Published scores are beside them.
@held("docs/start/reading-a-score.md", "## Scores so far", whole=False)
def scores_so_far():
    ways = ("low", "high", "low-likelihood", "high-likelihood")
    groups = {way: f"epidemia_{way.replace('-', '_')}" for way in ways}
    means = ["real-model/mean", "real-model/mean-likelihood"]
    yield row(AVERAGES, *(score_of(means["like" in way], group) for way, group in groups.items()))
    yield row(SMALL, *(score_of(f"real-model/{way}", group) for way, group in groups.items()))
    small = (scores_of(f"real-model/{way}", groups[way])[DIAGNOSED.split()] for way in ways[:2])
    yield "|its distance …|#, #, #|#, #, #|", np.ravel([of.mean() for of in small])


@held("docs/reference/variants.md", "### Wordings of a small model")
def wordings():
    names = ["usual", "bare", "random", "majority", "item"]
    yield f"| score | {' | '.join(names)} | between |", []
    for title, group in (("epidemia_low", "low"), ("epidemia_high of NSDUH and SCF", "high")):
        others = [name for name in FOLDERS if re.match(rf"wording/{group}-(?!likelihood)", name)]
        asked = table("wordings", f"real-model/{group}", *others)
        asked = asked[asked["group"] == f"epidemia_{group}"].set_index("wording")
        together, known = asked.loc["all"], {*asked.index}
        cells = [asked.loc[name, ["score", "error"]] if name in known else "" for name in names]
        line, values = row(title, *cells, together["between"])
        p = ("#", [together["p"]]) if together["p"] > 0 else ("too few", [])
        tasks = int(together["flips_tasks"])
        yield f"{line}# % of {tasks}|{p[0]}|", [*values, together["flips"], *p[1]]
    folders = "wording/low-likelihood", "wording/low-likelihood-bare"
    tasks = list_leaves().keys() & results(folders[1])["results"].keys()
    np.testing.assert_array_equal(*([metric(of, x, "score") for x in tasks] for of in folders))


@held("docs/evidence/quick-look.md", "\nReal answers: ", whole=False)
def quick_look():
    full = {of: score_of(f"real-model/{of}", f"epidemia_{of}")[0] for of in ("low", "high")}
    for of, score in full.items():
        yield row(f"epidemia_{of}", numbers("quick", f"epidemia_quick_{of}"), score)
    yield row("mean of both", numbers("quick", "epidemia_quick"), np.mean([*full.values()]))


@held("docs/guides/world.md", "## A small model")
def countries():
    known = kept("world", "places", "epidemia_world")
    assert known[SMALL, "score"][0] == pytest.approx(metric("world", "epidemia_world", "score"))
    gaps = "gap between regions", "gap between thirds of countries by income"
    for name in (SMALL, AVERAGES, "knows its region's average"):
        means = (known[name, of][0] for of in ("score", "score, places alike"))
        yield row(name, *means, *(known[name, gap] for gap in gaps))
    yield row("guesses uniformly", 0.0, 0.0, [None] * 2, [None] * 2)


@held("docs/guides/years.md", "## A small model", whole=False)
def years():
    known = kept("years", "years", "epidemia_years")
    slope, agreement = "slope over the years", "rank agreement over the years"
    cells = numbers("years", "epidemia_years"), known[SMALL, slope], known[SMALL, agreement][0]
    yield row(SMALL, *cells)
    for name in ("knows the average over the years", "knows today's"):
        yield row(name, *(known[name, of][0] for of in ("score", slope, agreement)))


@held("docs/guides/years.md", "| | lives in | nearest year | misfit |", whole=False)
def the_year_a_model_lives_in():
    found = table("year-lived", "years/undated")
    (cells,) = found[(found["kind"] == "run") & found["year"].isna()].to_dict("records")
    yield row(SMALL, cells["lives_in"], float(cells["nearest"]), cells["misfit"])


@held("docs/guides/world.md", "### The small model")
def people():
    known = kept("people", "people", "epidemia_people")
    both = SMALL, "the average American of 2000"
    off = [known[of, "percentage points off"][0] for of in both]
    further = known[SMALL, "people whose guess was further off"][0]
    said = "it is # points off. The Americans were # points off, and # % of them"
    yield said, [*off, further]
    yield "Its slope is # (people #)", [known[of, "slope"][0] for of in both]


# Fine-tuning.
STUDY = "docs/evidence/finetuning-study.md"
NSDUH, HIGH = "epidemia_low_nsduh", "epidemia_high_nsduh"
LIKELIHOOD = f"{NSDUH}_likelihood"
DIAGNOSED = "l1 choice_mass order_bias"
#: The run of each row of the table.
TUNED = {
    "nothing": "base",
    "864 answers": "answers-960-lora",
    "3,600 answers": "answers-4000-lora",
    "10,800 answers": "answers-12000-lora",
    "90 distributions, bfloat16": "distributions-lora",
    "90 distributions, float32": "distributions-float32-lora",
    "3,600 answers, cells held out": "answers-4000-heldout-lora",
    "66 distributions, float32, cells held out": "distributions-heldout-lora",
    "270 statements, LoRA": "statements-300-lora",
    "270 shuffled notes, LoRA": "shuffled-300-lora",
    "270 notes, LoRA": "notes-300-lora",
    "270 notes, all weights": "notes-300-full",
}


def tuned(name):
    return json.loads((RESULTS / "finetuning" / name / TUNED_CARD).read_text(encoding="utf-8"))


def averages_only():
    """Scores and distances of who knows averages only, by task: letters, and likelihoods."""
    base = read("finetuning/base")
    known = base.scores[["task", "way"]].join(score_known(base.scores, base.runs))
    known = known[known["task"].str.startswith("epidemia_low")].set_index("task")
    return (known[known["way"] == way] for way in ("letters", "likelihood"))


@held(STUDY, "| trained on ")
def fine_tuning():
    for title, name in TUNED.items():
        run, steps = f"finetuning/{name}", ["", ""]
        if name != "base":
            steps = [tuned(name)["steps"], "…"]
            assert f"{tuned(name)['dataset']['rows']['train']:,} " in title
        last = numbers(run, HIGH) if HIGH in results(run)["results"] else ""
        letters = numbers(run, NSDUH), *numbers(run, NSDUH, DIAGNOSED)
        yield row(title, *steps, *letters, numbers(run, LIKELIHOOD), last)
    knows, likely = (of[["score", "l1"]].mean() for of in averages_only())
    yield row(AVERAGES, "", "", *knows, "", "", likely["score"], "")


@held(STUDY, "| 2,250 notes ")
def seeds():
    base, *runs = (
        numbers(f"finetuning/{run}", NSDUH, f"score {DIAGNOSED}")
        + numbers(f"finetuning/{run}", LIKELIHOOD, "score choice_mass")
        for run in ("base", *(f"notes-2500-seed-{seed}" for seed in (1, 2, 3)))
    )
    yield row("nothing", "", "", *base)
    for seed, values in enumerate(runs, 1):
        card = tuned(f"notes-2500-seed-{seed}")
        dataset, settings = card["dataset"], card["settings"]
        counts, asked = dataset["counts"], (settings["epochs"], settings["lr"], card["steps"])
        yield row(f"seed {seed}", counts["sentence forms"], card["last_loss"], *values)
        assert (dataset["rows"]["train"], counts["people"], *asked) == (2250, 250, 1, 5e-4, 141)
        assert dataset["seed"] == settings["seed"] == seed
    # The mean, and its standard error over seeds.
    errors = np.std(runs, axis=0, ddof=1) / np.sqrt(3)
    yield row("mean ± over seeds", "", "", *zip(np.mean(runs, axis=0), errors, strict=True))


@pytest.mark.parametrize("place", HELD, ids=lambda place: HELD[place][0].__name__)
def test_numbers_on_a_page_are_those_of_its_files(place):
    """None with decimals may be left over where all are held."""
    made, whole = HELD[place]
    text = page(place[0]).split(place[1], 1)[1]
    text = plain(re.split(r"\n\n" if place[1].startswith("|") else r"\n#+ ", text)[0])
    for template, values in made():
        pattern = re.escape(plain(template)).replace(r"\#", r"([+-]?\d*\.?\d+)")
        printed = re.search(pattern.replace("…", "[^|]*"), text)
        assert printed, f"the page does not say {template} of {values}"
        for shown, value in zip(printed.groups(), values, strict=True):
            if value is not None:
                rounded = round(value, len(shown.partition(".")[2]))
                assert float(shown) == pytest.approx(rounded, abs=1e-9), (template, value)
        text = text.replace(printed[0], "")
    assert not (whole and re.findall(r"\d*\.\d+", text)), "numbers that no file was held against"


def test_pages_show_what_commands_print():
    shown = command("report", RESULTS / "real-model")
    block = re.search(r"## The first screen\n\n((?:(?: {4}.*)?\n)+)", page("docs/guides/report.md"))
    assert block[1].split() == shown.split(), "the page wraps lines earlier"
    words = " ".join(command("compare", SMALL, AVERAGES, RESULTS / "real-model").split())
    block = re.search(r"## Our tasks\n.*?```text\n(.*?)```", page("docs/start/comparing.md"), re.S)
    assert all(" ".join(part.split()) in words for part in block[1].split("\n\n"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_run_is_asked_as_the_script_says(folder):
    run, words = results(folder), shlex.split(SCRIPT["RUNS"][folder])
    args = HarnessCLI()._parser.parse_args(["run", *words[words.index("--model") :]])
    tasks = {in_way(*one) for name in args.tasks for one in find_tasks(name)}
    assert set(run["n-samples"]) == tasks
    kept_args = run["config"]["model_args"], run["config"]["limit"], bool(run["chat_template"])
    assert kept_args == (args.model_args, args.limit, getattr(args, "apply_chat_template", False))
    for task in tasks:
        assert {*(args.metadata or {}).items()} <= {*run["configs"][task]["metadata"].items()}


def test_results_are_of_the_script_without_folders_of_this_machine_and_pages_with_any_are_held():
    assert set(FOLDERS) <= set(SCRIPT["RUNS"])
    assert SCRIPT["table"](RESULTS) in page("docs/results/README.md"), (
        "put what python benchmarks/real_model_results.py --table prints into the page"
    )
    machine = re.compile(r"[\"' ]/(?:home|root|tmp|work|Users|opt|mnt)/")
    for path in RESULTS.rglob("*.json*"):
        assert not machine.search(path.read_text(encoding="utf-8")), path
    pages = ["README.md", "benchmarks/README.md"]
    pages += [str(path.relative_to(REPOSITORY)) for path in REPOSITORY.glob("docs/**/*.md")]
    pages.remove("docs/results/README.md")  # says what the files are, and quotes none
    known = {*ELSEWHERE.split(), *(path for path, _ in HELD)}
    assert {path for path in pages if "SmolLM2" in page(path)} == known
