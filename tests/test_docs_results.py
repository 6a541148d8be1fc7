"""Numbers of a real run that a page prints are those in docs/results."""

import csv
import json
import re
import runpy
import shlex
from functools import cache

import numpy as np
import pytest
from conftest import REPOSITORY
from lm_eval._cli import HarnessCLI
from scipy import special, stats

from lm_eval_epidemia.api import compare
from lm_eval_epidemia.benchmarks import in_way, leaves, members
from lm_eval_epidemia.benchmarks.prior import grid
from lm_eval_epidemia.benchmarks.prior import metrics as priors
from lm_eval_epidemia.benchmarks.prior.quantities import store
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.findings.mean import grouped, mean
from lm_eval_epidemia.findings.references import known_scores
from lm_eval_epidemia.results.card import TUNED_CARD
from lm_eval_epidemia.results.read import read_results

DOCS = REPOSITORY / "docs"
RESULTS = DOCS / "results"
SCRIPT = runpy.run_path(str(REPOSITORY / "benchmarks" / "real_model_results.py"))
RUNS = SCRIPT["RUNS"]
FOLDERS = sorted(
    folder
    for path in RESULTS.rglob("results_*.json")
    if not (folder := str(path.parent.relative_to(RESULTS))).startswith("finetuning")
)

#: Pages that name the small model: what holds their numbers, or why no file of docs/results does.
PAGES = {
    "README.md": "quotes the table of the next page, which README's own tests hold",
    "docs/start/reading-a-score.md": "test_one_question, test_scores_so_far",
    "benchmarks/README.md": "speeds, each measured by the script that is named there",
    "docs/start/comparing.md": "test_two_models; of sums, the random model is not kept",
    "docs/guides/finetuning-study.md": "test_fine_tuning, test_fine_tuning_over_seeds",
    "docs/guides/finetuning-writer.md": "no number of it: only commands",
    "docs/guides/fresh.md": "fresh slices of the GSS need its raw file: they are where it is",
    "docs/guides/interventional.md": "test_interventions",
    "docs/guides/people.md": "test_people",
    "docs/background/performance-measured.md": "speeds (benchmarks/throughput.py)",
    "docs/guides/priors-published.md": "test_priors",
    "docs/reference/stated.md": "what it writes when asked so: no run of that is kept",
    "docs/reference/variants.md": "test_wordings",
    "docs/guides/python.md": "an example that is run as a doctest",
    "docs/guides/ranks.md": "test_two_models",
    "docs/guides/report.md": "test_first_screen",
    "docs/guides/served-models.md": "speeds of llama.cpp and letters it shows: a server not here",
    "docs/background/validity-quick-look.md": "test_quick_look",
    "docs/guides/world.md": "test_countries",
    "docs/guides/year-lived.md": "test_the_year_a_model_lives_in",
    "docs/guides/years.md": "test_years",
    "docs/guides/your-own-survey.md": "a task of a reader's own survey, from its raw file",
}


@cache
def results(folder):
    (path,) = (RESULTS / folder).glob("results_*.json")
    return json.loads(path.read_text(encoding="utf-8"))


def metric(folder, task, name):
    return results(folder)["results"][task][f"{name},none"]


@cache
def read(*folders):
    return read_results([RESULTS / folder for folder in folders])


def table(name, *folders):
    return find(name)(read(*folders)).table


def section(page, heading):
    """What a page says under a heading, or from some words on, in one line."""
    text = (REPOSITORY / page).read_text(encoding="utf-8").split(heading, 1)[1]
    return " ".join(re.split(r"\n#+ ", text)[0].split())


def assert_printed(text, expected, whole=True):
    """Hold numbers of the small model against a text; none with decimals may be left over."""
    for pattern, values in expected:
        printed = re.search(pattern, text)
        assert printed, f"the page does not say {pattern} of {values}"
        for shown, value in zip(printed.groups(), values, strict=True):
            rounded = round(value, len(shown.partition(".")[2]))
            assert float(shown) == pytest.approx(rounded, abs=1e-9), (pattern, value)
        text = text.replace(printed[0], "")
    assert not (whole and re.findall(r"\d*\.\d+", text)), "numbers that no file was held against"


def test_interventions():
    group = "epidemia_intervention"
    names = "accuracy base_accuracy choice_mass kappa0_accuracy kappa1_accuracy margin"
    names = f"{names} post_accuracy seen yes_bias".split()
    found = {name: metric("interventions", group, name) for name in names}
    rows = [(rf"\|{name} *\|[↑↓ ]*\| *(-?[\d.]+)\|", [value]) for name, value in found.items()]
    error = metric("interventions", group, "accuracy_stderr")
    noticed = table("notices", "interventions").set_index("part")
    difference = noticed.loc["difference"]
    text = section("docs/guides/interventional.md", "## A real small model")
    assert_printed(
        text,
        [
            (r"± \|([\d.]+)\|", [error]),
            *rows,
            (r"probability of (\.\d+)", [found["choice_mass"]]),
            (
                r"rise by (\.\d+) where nothing changes and by (\.\d+) where",
                [*noticed["value"][["kappa = 0", "kappa = 1"]]],
            ),
            (
                r"difference of (\S+), with a 95 % interval from (\S+) to \+([\d.]+\d)",
                [difference["value"], difference["low"], difference["high"]],
            ),
        ],
    )
    # 5/22 of the effects and 8/14 of the relations, in every kind of names.
    assert "accuracy is 5/22, retrieval 8/14" in text
    for names in ("random", "tuebingen", "anticommonsense"):
        task = f"{group}_{names}"
        assert metric("interventions", task, "accuracy") == pytest.approx(5 / 22)
        assert metric("interventions", f"{task}_retrieval", "accuracy") == pytest.approx(8 / 14)


def correlations():
    """Of the grid's means with truths: over all, of the marginals, within variables."""
    truth = store.load("epidemia_prior_nhanes")
    (line,) = results("priors/grid")["epidemia"]["said"].values()
    at = np.array([grid.points(one) for one in truth.quantities], dtype=float)
    means = (special.softmax(priors.said(line, truth), axis=1) * at).sum(axis=1)
    true, marginal, spread = np.array(
        [(one.mean, one.marginal_mean, one.marginal_sd) for one in truth.quantities]
    ).T
    conditional = np.array([bool(one.conditions) for one in truth.quantities])
    within = stats.spearmanr(*(((one - marginal) / spread)[conditional] for one in (means, true)))
    overall, alone = (stats.spearmanr(one, true).statistic for one in (means, marginal))
    return overall, alone, conditional.sum(), within.statistic, within.pvalue


def test_priors():
    row = r"\| ([\d.]+) ± ([\d.]+)" + 4 * r" \| ([\d.]+)"
    columns = ["error_ratio", "error_ratio_stderr", "win_rate_5", "posterior_win_rate_5"]
    columns += ["crps_ratio", "ece"]

    def numbers(folder, task, last):
        return [metric(f"priors/{folder}", task, name) for name in [*columns, last]]

    all_, marginals, number, within, p = correlations()
    task, by_grid = "epidemia_prior_nhanes", "epidemia_prior_nhanes_grid"
    assert_printed(
        section("docs/guides/priors-published.md", "## A real small model"),
        [
            (rf"`direct`, [^|]* {row} \| ([\d.]+) \| \|", numbers("direct", task, "answered")),
            (rf"`grid`, [^|]* {row} \| \| ([\d.]+) \|", numbers("grid", by_grid, "end_mass")),
            (rf"`mean` [^|]* {row} \| \| ([\d.]+) \|", numbers("grid-mean", by_grid, "end_mass")),
            (r"truths by (\.\d+) \(Spearman\)", [all_]),
            (r"the marginals alone have (\.\d+)", [marginals]),
            (r"the (\d+) conditional quantities give (\.\d+) \(p = (\.\d+)\)", [number, within, p]),
        ],
    )


def scores_of(folder, group):
    """The scores in a group of the one run that a folder holds, of the task version of now."""
    results = read(folder)
    assert len(results.runs) == 1
    scores = grouped(results.scores)
    assert (scores[["task_version", "truth"]] == "").all(axis=None)
    return scores[scores["group"] == group]


def score_of(folder, group):
    (found,) = mean(scores_of(folder, group), ["group"])[["value", "error"]].to_numpy().tolist()
    return found


def mean_of(folder, group, name):
    return scores_of(folder, group)[name].mean()


PAIR = r" ([\d.]+) ± ([\d.]+) "


def row_of(name, cells):
    """A row of a table, and its numbers, of which a cell has two (± between) or none."""
    shown = "\\|".join(PAIR if cell else " " for cell in cells)
    return rf"\| {name} \|{shown}\|", [number for cell in cells for number in cell]


def test_one_question():
    (samples,) = (RESULTS / "one-question").glob("samples_*.jsonl")
    first, second = {}, {}  # the probability of "Yes" by age, where it stands first and second
    for line in samples.read_text(encoding="utf-8").splitlines():
        sample = json.loads(line)
        letters = np.exp([float(reply[0][0]) for reply in sample["resps"]])
        prompt = sample["doc"]["prompt"].splitlines()
        yes = prompt.index("A. Yes") if "A. Yes" in prompt else prompt.index("B. Yes")
        of_order = first if prompt[yes].startswith("A") else second
        of_order[prompt[0]] = 100 * letters[0 if of_order is first else 1] / letters.sum()
    (asked_age,) = (question for question in first if "30 to 34" in question)
    means = {question: (first[question] + second[question]) / 2 for question in first}
    assert len(means) == 11 and all(round(mean) == 50 for mean in means.values())
    score = results("one-question")["results"]["epidemia_low_nsduh_marijuana_ever_by_age"]
    text = section("docs/start/reading-a-score.md", "The survey (NSDUH 2022").partition("SmolLM2")[
        2
    ]
    assert_printed(
        text,
        [
            (r"says ([\d.]+) % when", [first[asked_age]]),
            (r"and ([\d.]+) % when", [second[asked_age]]),
            (r"both orders, ([\d.]+) %", [means[asked_age]]),
            (r"over all ages is ([\d.]+\d)", [score["score,none"]]),
        ],
    )


def test_scores_so_far():
    averages, small = [], []
    for group in ("epidemia_low", "epidemia_high"):
        averages.append(score_of("real-model/mean", group))
        small.append(score_of(f"real-model/{group.removeprefix('epidemia_')}", group))
    for group in ("low", "high"):
        of = f"epidemia_{group}_likelihood"
        averages.append(score_of("real-model/mean-likelihood", of))
        small.append(score_of(f"real-model/{group}-likelihood", of))
    diagnosed = [
        mean_of(f"real-model/{way}", f"epidemia_{way}", name)
        for way in ("low", "high")
        for name in ("l1", "choice_mass", "order_bias")
    ]
    three = r" (\.\d+), (\.\d+), (\.\d+) "
    assert_printed(
        section("docs/start/reading-a-score.md", "## Scores so far"),
        [
            row_of("knows averages only", averages),
            row_of("SmolLM2-135M-Instruct", small),
            (rf"its distance [^|]*\|{three}\|{three}\|", diagnosed),
        ],
        whole=False,  # published scores are beside them
    )


def test_first_screen(epidemia):
    shown = epidemia("report", RESULTS / "real-model").stdout
    text = (DOCS / "guides" / "report.md").read_text(encoding="utf-8")
    block = re.search(r"## The first screen\n\n((?:(?: {4}.*)?\n)+)", text)[1]
    assert [line[4:].rstrip() for line in block.strip("\n").split("\n")] == [
        line.rstrip() for line in shown.strip("\n").split("\n")
    ]


def test_two_models():
    compared = compare("SmolLM2-135M-Instruct", "knows averages only", RESULTS / "real-model")
    words = " ".join(str(compared).split())
    text = (DOCS / "start" / "comparing.md").read_text(encoding="utf-8")
    block = re.search(r"## Our tasks\n.*?```text\n(.*?)```", text, re.DOTALL)[1]
    for paragraph in block.split("\n\n"):
        assert " ".join(paragraph.split()) in words
    text = (DOCS / "guides" / "ranks.md").read_text(encoding="utf-8")
    rows = compared.table.set_index("group").loc[["epidemia_low", "epidemia_high"]]
    low, high = (row for _, row in rows.iterrows())
    # There the respondent is the first of the pair.
    for name, value, error in (
        ("difference", "difference", "error"),
        ("here, corrected", "corrected", "corrected_error"),
        ("here, population", "population", "population_error"),
    ):
        cells = (f"{-row[value]:+.1f} ± {row[error]:.1f}" for row in (low, high))
        assert f"| {name} | {' | '.join(cells)} |" in text
    counts = (f"{row.losses} / {row.ties} / {row.wins}" for row in (low, high))
    assert f"| win / tie / loss | {' | '.join(counts)} |" in text
    assert f"| tasks | {low.tasks} | {high.tasks} |" in text
    interval = f"{-low.high:.1f} to {-low.low:.1f} | ± {high.half_width:.1f}: too few outcomes"
    assert interval in text
    assert (low.verdict, high.verdict) == ("worse", "worse here")
    assert "| the first is | better | better here |" in text


def test_wordings():
    text = section("docs/reference/variants.md", "### Wordings of a small model")
    rows, names = [], []
    for title, group in (("`epidemia_low`", "low"), ("`epidemia_high` of NSDUH and SCF", "high")):
        others = [name for name in FOLDERS if re.match(rf"wording/{group}-(?!likelihood)", name)]
        folders = (f"real-model/{group}", *others)
        asked = table("wordings", *folders).set_index("wording")
        asked = asked[asked["group"] == f"epidemia_{group}"]
        together, scores = asked.loc["all"], asked.drop("all")[["score", "error"]]
        names = names or [*scores.index]
        assert f"| score | {' | '.join(names)} | between |" in text
        cells = [scores.loc[name].tolist() if name in scores.index else () for name in names]
        pattern, numbers = row_of(title, cells)
        flips, tasks = together["flips"], int(together["flips_tasks"])
        numbers += [together["between"], flips]
        pattern += rf" ([\d.]+) \| (\d+) % of {tasks} \|"
        if np.isnan(together["p"]):
            pattern += r" too few \|"
        else:
            pattern, numbers = pattern + r" ([\d.]+) \|", [*numbers, together["p"]]
        rows.append((pattern, numbers))
        pairs = table("wording", *folders)
        pairs = pairs[pairs["group"] == f"epidemia_{group}"]
        (bare,) = pairs[pairs["settings"].str.contains("bare wording")].to_dict("records")
        pattern = rf"\| {title}, score \| {tasks} \| ([+-]?[\d.]+) ± ([\d.]+) \|"
        numbers = [bare["difference"], bare["error"]]
        if np.isfinite(bare["low"]):
            pattern += r" (-[\d.]+) to ([\d.]+) \|"
            numbers += [bare["low"], bare["high"]]
        else:
            pattern += r" too few outcomes \(± ([\d.]+)\) \|"
            numbers.append(bare["half_width"])
        pattern += r" ([+-]?[\d.]+) ± ([\d.]+) \|"
        rows.append((pattern, [*numbers, bare["corrected"], bare["corrected_error"]]))
    bias = []
    for group, part in (("low", ""), ("high", ""), ("low", "nsduh"), ("high", "nsduh")):
        usual, bare = (
            results(folder)["results"]
            for folder in (f"real-model/{group}", f"wording/{group}-bare")
        )
        tasks = [name for name in bare if name in leaves() and part in name]
        bias.append(
            [np.mean([rows[task]["order_bias,none"] for task in tasks]) for rows in (usual, bare)]
        )
    assert np.round(bias[2], 2) == pytest.approx(np.round(bias[3], 2))
    of_both = r"`order_bias` from (\.\d+) to (\.\d+) \(`epidemia_low`\) and from (\.\d+) to (\.\d+)"
    of_drugs = r"in questions of NSDUH on drugs from (\.\d+) to (\.\d+) \(both groups\)"
    rows += [(of_both, [*bias[0], *bias[1]]), (of_drugs, bias[2])]
    assert_printed(text, rows)
    folders = ("wording/low-likelihood", "wording/low-likelihood-bare")
    usual, bare = (results(folder)["results"] for folder in folders)
    tasks = [name for name in bare if name in leaves()]
    scores = [[rows[task]["score,none"] for task in tasks] for rows in (usual, bare)]
    np.testing.assert_array_equal(*scores)


def test_quick_look():
    full = [score_of(f"real-model/{group}", f"epidemia_{group}")[0] for group in ("low", "high")]
    rows = []
    for title, group, value in (
        ("`epidemia_low`", "epidemia_quick_low", full[0]),
        ("`epidemia_high`", "epidemia_quick_high", full[1]),
        ("mean of both", "epidemia_quick", np.mean(full)),
    ):
        predicted = [metric("quick", group, name) for name in ("score", "score_stderr")]
        rows.append((rf"\| {title} \|{PAIR}\| ([\d.]+) \|", [*predicted, value]))
    assert_printed(
        section("docs/background/validity-quick-look.md", "\nReal answers: "), rows, whole=False
    )


def kept(folder, kind, group):
    """A table made from samples, as the script keeps it: values and errors, by model and metric."""
    (path,) = (RESULTS / folder).glob("*.csv")
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["kind"], row["name"]) == (kind, group)]
    model = {row["model"]: row["model"].split(" (")[0] for row in rows}
    return {
        (model[row["model"]], row["metric"]): (float(row["value"]), float(row["stderr"] or "nan"))
        for row in rows
    }


def test_countries():
    known = kept("world", "places", "epidemia_world")
    expected = []
    for name in ("SmolLM2-135M-Instruct", "knows averages only", "knows its region's average"):
        numbers = [known[name, metric][0] for metric in ("score", "score, places alike")]
        for gap in ("gap between regions", "gap between thirds of countries by income"):
            numbers += known[name, gap]
        row = rf"\| {re.escape(name)} \| ([\d.]+) \| ([\d.]+) \|{PAIR}\|{PAIR}\|"
        expected.append((row, numbers))
    assert known["SmolLM2-135M-Instruct", "score"][0] == pytest.approx(
        metric("world", "epidemia_world", "score")
    )
    uniform = r"\| guesses uniformly \| 0\.0 \| 0\.0 \| [\d.]+ ± [\d.]+ \| [\d.]+ ± [\d.]+ \|"
    text = re.sub(uniform, "", section("docs/guides/world.md", "## A small model"))
    assert_printed(text, expected)


def test_years():
    known = kept("years", "years", "epidemia_years")
    small = "SmolLM2-135M-Instruct"
    numbers = [
        *(metric("years", "epidemia_years", name) for name in ("score", "score_stderr")),
        *known[small, "slope over the years"],
        known[small, "rank agreement over the years"][0],
    ]
    expected = [(rf"\| {small} \|{PAIR}\|{PAIR}\| ([\d.]+) \|", numbers)]
    for name in ("knows the average over the years", "knows today's"):
        row = rf"\| {name} \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|"
        metrics = ("score", "slope over the years", "rank agreement over the years")
        expected.append((row, [known[name, metric][0] for metric in metrics]))
    assert_printed(section("docs/guides/years.md", "## A small model"), expected, whole=False)


def test_the_year_a_model_lives_in():
    found = table("year-lived", "years/undated")
    (cells,) = found[(found["kind"] == "run") & found["year"].isna()].to_dict("records")
    text = section("docs/guides/year-lived.md", "| | lives in | nearest year | misfit |")
    row = rf"\| SmolLM2-135M-Instruct \| {cells['lives_in']} \| (\d+) \| ([\d.]+) \|"
    assert_printed(text, [(row, [float(cells["nearest"]), cells["misfit"]])], whole=False)


def test_people():
    known = kept("people", "people", "epidemia_people")
    small, mean = (
        {name: value for (model, name), (value, _) in known.items() if model == one}
        for one in ("SmolLM2-135M-Instruct", "the average American of 2000")
    )
    off, further = "percentage points off", "people whose guess was further off"
    assert_printed(
        section("docs/guides/people.md", "## A small model"),
        [
            (
                r"it is (\d+) points off. The Americans were (\d+) points off, and (\d+) % of them",
                [small[off], mean[off], small[further]],
            ),
            (r"Its slope is (-?[\d.]+) \(people ([\d.]+)\)", [small["slope"], mean["slope"]]),
        ],
    )


def asked(command):
    """What a command of the script asks, as lm-eval reads it."""
    words = shlex.split(command)
    return HarnessCLI()._parser.parse_args(["run", *words[words.index("--model") :]])


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_run_is_asked_as_the_script_says(folder):
    run = results(folder)
    args = asked(RUNS[folder])
    tasks = {in_way(*one) for name in args.tasks for one in members(name)}
    assert set(run["n-samples"]) == tasks
    assert run["config"]["model_args"] == args.model_args
    assert run["config"]["limit"] == args.limit
    assert bool(run["chat_template"]) == getattr(args, "apply_chat_template", False)
    for task in tasks:
        kept = run["configs"][task]["metadata"]
        assert {name: kept.get(name) for name in args.metadata or {}} == (args.metadata or {})


def test_every_folder_of_results_is_a_run():
    assert set(FOLDERS) <= set(RUNS)
    assert SCRIPT["table"](RESULTS) in (RESULTS / "README.md").read_text(encoding="utf-8"), (
        "put what python benchmarks/real_model_results.py --table prints into the page"
    )


def test_no_file_names_a_folder_of_this_machine():
    machine = re.compile(r"[\"' ]/(?:home|root|tmp|work|Users|opt|mnt)/")
    for path in RESULTS.rglob("*.json*"):
        assert not machine.search(path.read_text(encoding="utf-8")), path


# Fine-tuning: the run of each row of the tables.

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
SEEDS = [f"notes-2500-seed-{seed}" for seed in (1, 2, 3)]


def printed(first):
    """Rows of the table whose head begins so, by their first cells: the others by column."""
    page = DOCS / "guides" / "finetuning-study.md"
    lines = page.read_text(encoding="utf-8").split(f"| {first} ")[1]
    head, _, *rows = (f"| {first} {lines}".split("\n\n")[0]).splitlines()
    names, *rows = (
        [cell.strip(" *").replace("`", "") for cell in row.split("|")[1:-1]]
        for row in (head, *rows)
    )
    return {row[0]: dict(zip(names[1:], row[1:], strict=True)) for row in rows}


def assert_rounded(shown, *values):
    """Hold "0.0 ± 0.0" or ".603" against values."""
    for text, value in zip(shown.split(" ± "), values, strict=True):
        digits = len(text.partition(".")[2])
        assert float(text) == pytest.approx(round(value, digits), abs=1e-9), (shown, values)


def tuned(name):
    return json.loads((RESULTS / "finetuning" / name / TUNED_CARD).read_text(encoding="utf-8"))


def test_fine_tuning():
    rows = printed("trained on | steps")
    averages = rows.pop("knows averages only")
    assert set(rows) == set(TUNED)
    for row, name in TUNED.items():
        shown, run = rows[row], f"finetuning/{name}"
        low, likelihood = "epidemia_low_nsduh", "epidemia_low_nsduh_likelihood"
        for column, task in {"score": low, "score as likelihood": likelihood}.items():
            values = (metric(run, task, of) for of in ("score", "score_stderr"))
            assert_rounded(shown[column], *values)
        for column in ("l1", "choice_mass", "order_bias"):
            assert_rounded(shown[column], metric(run, low, column))
        if high := shown["high: score"]:
            values = (metric(run, "epidemia_high_nsduh", of) for of in ("score", "score_stderr"))
            assert_rounded(high, *values)
        if name != "base":
            assert int(shown["steps"]) == tuned(name)["steps"]
            trained = tuned(name)["dataset"]["rows"]["train"]
            assert f"{trained:,} " in row
    base = read("finetuning/base")
    known = base.scores.join(known_scores(base.scores, base.runs).add_prefix("averages_"))
    known = known[known["task"].str.startswith("epidemia_low")]
    for column, way in {"score": "letters", "score as likelihood": "likelihood"}.items():
        knows = known[known["way"] == way]
        assert_rounded(averages[column], knows["averages_score"].mean())
        if way == "letters":
            assert_rounded(averages["l1"], knows["averages_l1"].mean())
    alone = known[known["way"] == "letters"].set_index("task")["averages_score"]
    for condition, cells in printed("10,800 answers (averages only)").items():
        for drug, shown in cells.items():
            task = f"epidemia_low_nsduh_{drug}_ever_{condition.replace(' ', '_')}"
            score = metric("finetuning/answers-12000-lora", task, "score")
            assert_rounded(shown.strip(")").replace(" (", " ± "), score, alone[task])


def test_fine_tuning_over_seeds():
    rows = printed("2,250 notes")
    letters, likelihood = "epidemia_low_nsduh", "epidemia_low_nsduh_likelihood"
    columns = {of: (letters, of) for of in ("score", "l1", "choice_mass", "order_bias")}
    columns |= {
        "score as likelihood": (likelihood, "score"),
        "choice_mass of it": (likelihood, "choice_mass"),
    }
    for column, of in columns.items():
        base, *values = (metric(f"finetuning/{run}", *of) for run in ("base", *SEEDS))
        assert_rounded(rows["nothing"][column], base)
        for seed, value in enumerate(values, 1):
            assert_rounded(rows[f"seed {seed}"][column], value)
        # The mean, and its standard error over seeds.
        mean, error = np.mean(values), np.std(values, ddof=1) / np.sqrt(3)
        assert_rounded(rows["mean ± over seeds"][column], mean, error)
    for seed, name in enumerate(SEEDS, 1):
        card = tuned(name)
        assert_rounded(rows[f"seed {seed}"]["validation loss"], card["last_loss"])
        assert rows[f"seed {seed}"]["forms"] == str(card["dataset"]["counts"]["sentence forms"])
        assert card["dataset"]["counts"]["people"] == 250 and card["settings"]["epochs"] == 1
        assert card["dataset"]["rows"]["train"] == 2250 and card["settings"]["lr"] == 5e-4
        assert card["steps"] == 141
        assert card["dataset"]["seed"] == card["settings"]["seed"] == seed


def test_every_page_with_the_small_model_is_held():
    pages = {REPOSITORY / "README.md", REPOSITORY / "benchmarks" / "README.md", *DOCS.rglob("*.md")}
    pages -= {RESULTS / "README.md"}  # says what the files are, and quotes none
    named = [page for page in pages if "SmolLM2" in page.read_text(encoding="utf-8")]
    assert {str(page.relative_to(REPOSITORY)) for page in named} == set(PAGES)
    tests = {test for held in PAGES.values() for test in re.findall(r"test_\w+", held)}
    assert tests <= set(globals())
