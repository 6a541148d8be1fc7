"""What the findings say of stated priors, from real runs of lm-eval and the published answers."""

import functools
import json
import math
import re
import shutil

import numpy as np
import pytest
from conftest import REPOSITORY
from recorded_runs import copied_run
from report_parts import command, rewritten
from scipy import stats

from lm_eval_epidemia.benchmarks.prior import judgements
from lm_eval_epidemia.benchmarks.prior.judged import judge, mean_of
from lm_eval_epidemia.benchmarks.prior.metrics import worth
from lm_eval_epidemia.benchmarks.prior.posterior import of_baseline
from lm_eval_epidemia.benchmarks.prior.quantities import families, store
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import SIZES
from lm_eval_epidemia.cli.report import read
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.findings import find, priors
from lm_eval_epidemia.findings.compare import compare
from lm_eval_epidemia.findings.quantities import title
from lm_eval_epidemia.report.figures import save
from lm_eval_epidemia.results.published import SETS
from lm_eval_epidemia.results.read import read_results

NHANES = "epidemia_prior_nhanes"
GROUP = "epidemia_prior"
TRUTH, CALIBRATED, SURE = KINDS = ("truth", "calibrated,noise=1", "overconfident,noise=2")
KNOWER = "knows the population (baseline)"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for kind in KINDS:
        # What was asked of one alone need not be asked of all.
        more = ("_mean_variance", "_direct_choice", "_grid") if kind == CALIBRATED else ()
        tasks = [NHANES, *(NHANES + suffix for suffix in more)]
        copied_run(tmp_path_factory, folder / kind, tasks, model_args=f"kind={kind}")
    return folder


@pytest.fixture(scope="module")
def results(runs):
    return read([runs], published=True)


@pytest.fixture(scope="module")
def seen(results):
    """Return a row by finding, model (its end), part, what it is about, and group."""
    table = functools.cache(lambda name: find(name)(results).table)

    def one(finding, model, part, about="", group=GROUP):
        rows = table(finding)
        rows = rows[rows["model"].str.endswith(model) & (rows["group"] == group)]
        (row,) = rows[(rows["asked"] == about) & (rows["part"] == part)].itertuples()
        return row

    return one


def scores_of(results, model):
    is_here = results.scores["run"].map(results.runs["model"]).str.contains(model, regex=False)
    return results.scores[is_here & (results.scores["way"] == "direct")]


def said_by(results, model=""):
    (said,) = scores_of(results, model)["said"]
    return said


def loops(known):
    """The error of every quantity and of samples of each size, and wins over these: plain loops."""
    truth = store.load(NHANES)
    is_share = np.array([one.family == "beta" for one in truth.quantities])
    told = families.mean(*of_baseline(is_share, truth.baseline))
    errors, samples, wins = [], [], []
    for place, one in enumerate(truth.quantities):
        repeats = range(known.stated.a.shape[1])
        priors_of = [[each[place, repeat] for each in known.stated] for repeat in repeats]
        errors.append(np.mean([abs(float(families.mean(*of)) - one.mean) for of in priors_of]))
        samples.append([np.mean(abs(told[place, n] - one.mean)) for n in range(len(SIZES))])
        wins.append([errors[-1] < other for other in samples[-1]])
    return np.array(errors), np.array(samples), np.array(wins, dtype=float)


def of_mean(values):
    """A mean and its error."""
    return pytest.approx((np.mean(values), np.std(values, ddof=1) / math.sqrt(len(values))))


def jackknife(left):
    """The jackknife over quantities, to which the linearised error is the first order."""
    return math.sqrt((1 - 1 / len(left)) * ((left - left.mean()) ** 2).sum())


# The numbers.


def test_errors_and_wins_are_means_over_quantities(results, seen):
    truth, (errors, samples, wins) = store.load(NHANES), loops(said_by(results, CALIBRATED))
    one = seen("priors", CALIBRATED, "mean of error ratios")
    assert (one.value, one.error) == of_mean(errors / samples[:, 0])
    assert one.samples == 74
    assert one.high == pytest.approx(one.value + stats.t.ppf(0.975, 73) * one.error)
    left_out = 0
    for place, size in enumerate(SIZES):
        # A tenth of what so many independent people are off by is about 0, and no win.
        kept = samples[:, place] > 0.1 * np.sqrt(2 / np.pi / size) * truth.column("sd")
        left_out += (~kept).sum()
        one = seen("wins", CALIBRATED, f"N = {size}")
        assert (one.value, one.error) == of_mean(wins[kept, place]) and one.samples == kept.sum()
    assert left_out == 8
    assert seen("priors", CALIBRATED, "beats 5").value == wins[:, 0].mean()
    # A ratio of means, with the error of one.
    mine, theirs = (x / truth.column("marginal_sd") for x in (errors, samples[:, 0]))
    one = seen("priors", CALIBRATED, "relative error")
    assert one.value == pytest.approx(mine.mean() / theirs.mean())
    left = (mine.sum() - mine) / (theirs.sum() - theirs)
    assert one.error == pytest.approx(jackknife(left), rel=0.05)
    # What they are worth, from the ends of the rates' intervals.
    rates = [seen("wins", "o4-mini", f"N = {size}") for size in SIZES]
    for name, side in (("worth N", 0), ("at least", -1.96), ("at most", 1.96)):
        expected = worth(np.array([rate.value + side * rate.error for rate in rates]))
        assert seen("wins", "o4-mini", name).value == expected, name


def test_who_knows_the_population_stands_beside(results, seen):
    """An audit's independent simulation: error ratio .24, beats 5 to 30 in 97, 90, 81, 73 %."""
    ratio = seen("priors", KNOWER, "mean of error ratios").value
    assert ratio == pytest.approx(0.24, abs=0.01)
    (known,) = priors.knowers(results)["said"]
    wins = known.judged.wins.mean(axis=0)
    assert wins == pytest.approx([0.97, 0.90, 0.81, 0.73], abs=0.015)
    (note,) = find("wins")(results).left_out
    assert f"medium_11 of {NHANES} (N = 20, 30); " in note and "hard_1 " not in note
    # Its errors are means over many draws: they have no ranks, in parts of a set as in all of it.
    rows = find("uncertainty")(results).table
    assert "Spearman" not in {*rows["part"][rows["model"] == KNOWER]}


def test_the_leaderboard_has_lm_evals_number_and_error(results, runs):
    """Who is known to be better stands first; published ones have no rank."""
    (path,) = (runs / CALIBRATED).rglob("results_*.json")
    row = json.loads(path.read_text())["results"][NHANES]
    board = find("leaderboard")(results).table.query("group == @GROUP").set_index("model")
    own, others = (
        board[(board["kind"] == "published") == published] for published in (False, True)
    )
    places = [own.index.str.contains(kind).argmax() for kind in KINDS]
    assert places == [0, 1, 2] and {*others["rank"]} == {""}
    assert own["value"].iloc[1] == pytest.approx(row["win_rate_5,none"])
    wins = said_by(results, CALIBRATED).judged.wins[:, 0]
    assert (own["value"].iloc[1], own["error"].iloc[1]) == of_mean(wins)


def test_two_models_are_paired_over_quantities(results):
    """Of one set the interval is Student's t over the differences of its 74 quantities."""
    one = compare(*(scores_of(results, kind) for kind in (CALIBRATED, SURE)))
    first, second = (loops(said_by(results, kind))[2][:, 0] for kind in (CALIBRATED, SURE))
    assert (one.difference, one.error) == of_mean(first - second)
    t = stats.t.interval(0.95, 73, one.difference, one.error)
    assert (one.low, one.high) == pytest.approx(t) and one.verdict == "better"


def test_calibration_is_that_of_the_repeats(results, seen):
    """Quarter by quarter, repeat by repeat; ECE is the mean over repeats, not of the means."""
    known = said_by(results, "gpt-4o")
    position = families.cdf(*known.stated, np.array([[q.mean] for q in known.truth.quantities]))
    quarters = np.minimum(np.floor(4 * position), 3)
    shares = np.array([[np.mean(quarters[:, r] == k) for k in range(4)] for r in range(5)])
    one = seen("quartiles", "gpt-4o", "ECE (points)")
    assert one.value == pytest.approx(100 * abs(shares - 0.25).mean())
    left = [judgements.ece(known, np.arange(74) != place).value for place in range(74)]
    assert one.error == pytest.approx(jackknife(np.array(left)), rel=0.1)
    for k in range(4):
        part = seen("quartiles", "gpt-4o", f"quarter {k + 1}")
        assert (part.value, part.error) == of_mean((quarters == k).mean(axis=1))
    below = seen("quartiles", "gpt-4o", "below median")
    assert below.value == pytest.approx(np.mean(position < 0.5))
    # Stated uncertainty and errors by ranks: (1 - r^2) sqrt((1 + r^2 / 2) / (n - 3)).
    one = seen("uncertainty", "gpt-4o", "Spearman")
    r = stats.spearmanr(known.judged.uncertainty, known.judged.ratio).statistic
    assert (one.value, one.error) == pytest.approx(
        (r, (1 - r * r) * math.sqrt((1 + r * r / 2) / 71))
    )


def test_parts_add_up_and_failures_count_as_the_flat_prior(results, seen):
    """9 of 370 replies of o4-mini had no prior; the published way dropped them."""
    facets = {"difficulty": {"base": 14, "easy": 20, "medium": 20, "hard": 20}}
    for facet, counts in (facets | {"family": {"means": 42, "proportions": 32}}).items():
        total = 0
        for label, number in counts.items():
            one = seen("priors", "o4-mini", "beats 5", f"{facet}: {label} ({number})")
            total += number * one.value
            assert one.samples == number
        assert total / 74 == pytest.approx(seen("priors", "o4-mini", "beats 5").value)
    known = said_by(results, "o4-mini")
    assert seen("priors", "o4-mini", "answered").value == pytest.approx(1 - 9 / 370)
    dropped = seen("priors", "o4-mini", "ratios, dropped").value
    assert dropped == pytest.approx(0.974, abs=5e-4)
    scored = seen("priors", "o4-mini", "mean of error ratios").value
    assert scored == judge(known.truth, known.stated).ratio.mean() > dropped


def test_other_ways_have_the_same_tables(runs, seen):
    """Grids are kept so that the tables have the very metrics; chosen families are counted."""
    (path,) = (runs / CALIBRATED).rglob("results_*.json")
    row, grid = json.loads(path.read_text())["results"][f"{NHANES}_grid"], f"{GROUP}_grid"
    for finding, part, about, metric in (
        *(("priors", "CRPS ratio", "", "crps_ratio"), ("wins", "N = 10", "", "win_rate_10")),
        ("wins", "N = 5", "posterior", "posterior_win_rate_5"),
    ):
        value = seen(finding, CALIBRATED, part, about, grid).value
        assert value == pytest.approx(row[f"{metric},none"], abs=1e-9), metric
    for about, shares in {"family: means (42)": (1, 0, 0), "": (42 / 74, 32 / 74, 0)}.items():
        for family, share in zip(families.FAMILIES, shares, strict=True):
            asked = about, f"{GROUP}_direct_choice"
            one = seen("priors", CALIBRATED, f"chose {family}", *asked)
            assert one.value == pytest.approx(share), family


# The published models.


def claimed(results):
    """What is printed, released and found here, by measure, set, model and way."""
    rows = find("published-priors")(results).table
    return {
        (row.measure, row.set, row.model, row.asked): (row.printed, row.released, row.here)
        for row in rows.itertuples()
    }


def test_what_the_paper_prints_stands_beside_what_was_asked(results, runs, monkeypatch):
    rows = claimed(results)
    printed, released, here = rows["CRPS ratio", "nhanes", "gpt-4o", ""]
    assert (printed, round(released, 3)) == ("1.86", 1.977) and math.isnan(here)
    assert rows["prior beats 30", "glassdoor", "o4-mini", ""][:2] == ("0.087", 0.022)
    model, known = f"epidemia-baseline kind={CALIBRATED}", said_by(results, CALIBRATED).dropped
    here = rows["error ratio", "nhanes", model, "direct"][2]
    assert here == pytest.approx(mean_of(known.ratio))
    assert ("error ratio", "nhanes", model, "direct_choice") in rows
    assert claimed(read_results([runs])) == {}
    published = results.scores["run"].map(results.runs["kind"]) == "published"
    assert {*results.scores["way"][published]} == {"direct", "mean_variance"}
    # As if imported, with the name of a set that does not ship.
    monkeypatch.setitem(SETS, "glassdoor", NHANES)
    results = read([runs / CALIBRATED], published=True)
    here = claimed(results)["prior beats 5", "glassdoor", model, "direct"][2]
    assert here == pytest.approx(mean_of(known.wins, axis=0)[0])
    assert 0.348 in {*scores_of(results, "o4-mini")["value"]}


def test_the_table_of_claims_on_the_page_is_computed(results):
    """docs/guides/priors-published.md has these numbers as the findings give them."""
    page = (REPOSITORY / "docs" / "guides" / "priors-published.md").read_text()
    rows, o4, llama = claimed(results), "o4-mini", "meta-llama-3-8b"

    def given(measure, model=o4, digits=1, place=1, times=1):
        return f"{times * float(rows[measure, 'nhanes', model, ''][place]):.{digits}f}"

    models = [o4, "o3-mini", "qwen3-235b-a22b-fp8-tput", "gpt-4o", "meta-llama-3-70b", llama]
    said = [", ".join(given("CRPS ratio", model, 2) for model in models[:5])]
    for of, place in ((of, place) for of in ("prior", "posterior") for place in (0, 1)):
        few, many = (given(f"{of} beats {n}", place=place, times=100) for n in (5, 30))
        said.append(f"{few} and {many} %")
    first, all_said = "in the first quarter", "the same with failures counted"
    first, all_said = (given(of, digits=3)[1:] for of in (first, all_said))
    said.append(f"o4-mini {first}, or {all_said} with failures counted")
    crps, ratio = (given(of, llama) for of in ("CRPS ratio", "error ratio"))
    said.append(f"CRPS ratio {crps} (19.17 in the tables), error ratio {ratio}")
    best, other, worst, *others = (given("worth answers", model) for model in models)
    said.append(f"| o4-mini {best}, qwen3-235b {worst}, o3-mini {other}, the others <5 |")
    assert {*others} == {"0.0"} and [text for text in said if text not in page] == []


def test_published_ablations_are_paired_over_quantities(results):
    rows = find("ablations")(results).table.query("kind == 'published'").to_dict("records")
    said = {(row["model"], row["differs in"]): row for row in rows}
    assert len(rows) == len(said) == 12
    differs = {key.partition(":")[0] for _, key in said}
    assert differs == {"protocol", "system prompt", "temperature", "reasoning effort"}
    stating = [of for of in priors.stating() if of.experiment != priors.COMPARED]
    known = {(of.model, *of.settings.values()): of.known for of in stating}
    usual, high = (known["o4-mini", "direct", "base", "", effort] for effort in ("medium", "high"))
    one = said["o4-mini", "reasoning effort: medium -> high"]
    assert (one["difference"], one["difference_error"]) == of_mean(
        high.judged.ratio - usual.judged.ratio
    )
    # 28 of the 370 replies at high effort cannot be read; without them the sign is another.
    assert (one["unread"], one["unread_then"]) == pytest.approx((0, 28 / 370))
    assert round(one["difference"], 3) == 0.206 and round(one["where_read"], 3) == -0.037
    # Asked for quantiles four times: a repeat that was not asked is no failure.
    (quantiles,) = (of for key, of in known.items() if key[:2] == ("o4-mini", "quantile"))
    assert quantiles.stated.a.shape == (74, 4) and quantiles.judged.answered.min() == 1


def test_a_users_own_runs_that_differ_in_one_thing_are_an_ablation(runs, tmp_path):
    """They are no longer compared as if they had been asked alike."""
    config = json.loads(next((runs / CALIBRATED).rglob("results_*.json")).read_text())["config"]

    def warmer(file):
        file["config"] |= {"model_args": config["model_args"], "gen_kwargs": {"temperature": 1.0}}

    def careful(file):
        file["config"] |= {"model_args": config["model_args"]}
        file["configs"][NHANES]["metadata"]["system_prompt"] = "conservative"

    paths = [runs / CALIBRATED]
    paths += [rewritten(runs / SURE, tmp_path / f.__name__, f) for f in (warmer, careful)]
    rows = find("ablations")(read_results(paths)).table.to_dict("records")
    rows = {row["differs in"]: row for row in rows}
    others = {f"protocol: direct -> {way}" for way in ("mean_variance", "direct_choice", "grid")}
    assert rows.keys() == others | {"temperature: 0.5 -> 1", "system prompt: base -> conservative"}
    usual, warm = (said_by(read_results([path])).judged.ratio for path in paths[:2])
    one, alike = rows["temperature: 0.5 -> 1"], rows["protocol: direct -> mean_variance"]
    assert (one["difference"], one["difference_error"]) == of_mean(warm - usual)
    # What was asked alike is alike.
    assert alike["difference"] == pytest.approx(0, abs=1e-12)


# What is read.


def edited(task, line=None, **numbers):
    """Return a change of what was said, or of numbers (all by as much), in a result file."""

    def change(file):
        said, row = file["epidemia"]["said"], file["results"][task]
        said[task] = line(said[task]) if line else said[task]
        row |= {f"{name},none": abs(row[f"{name},none"] - by) for name, by in numbers.items()}

    return change


#: What is done to the line of what was said, and what the note of its file says.
DAMAGES = [
    (lambda line: line.replace(" | ", " ; ", 1), "have 73 quantities, but the task has 74"),
    (lambda line: line.replace("n:", "x:", 1), "cannot be read"),
    (lambda line: line.replace("n:", "n:one", 1), "cannot be read"),
    (lambda line: line.replace("n:", "n:nan;", 1), "cannot be read"),
    (lambda line: "", "the stored answers are empty"),
    (lambda line: re.sub("n:([^,]*),", r"n:\1,-", line, count=1), "-.* is not a distribution"),
    (lambda line: re.sub("n:([^,]*),", "n:1e999,", line, count=1), "is not a distribution"),
    (lambda line: " | ".join(["n:1,2"] * 74), "1 estimates of each quantity, expected 5"),
    (lambda line: " | ".join(["-1.0,-2.0"] * 74), "got log-probabilities, expected pr"),
    (lambda line: line.replace("n:", "n:9", 1), "but the recorded answers give"),
]

#: Numbers of a task's row that follow from what was said: none may be another.
FOLLOW = [(NHANES, name) for name in ("error_ratio", "win_rate_5", "ece", "answered")]
FOLLOW += [(f"{NHANES}_grid", name) for name in ("win_rate_30", "end_mass")]


def test_damaged_lines_and_metrics_that_are_not_theirs_leave_their_file_out(runs, tmp_path):
    cases = [(edited(NHANES, line), says) for line, says in DAMAGES]
    for task, metric in FOLLOW:
        says = rf"{task}: the {metric} is [.\d]+, but the recorded answers give"
        cases.append((edited(task, **{metric: 0.013}), says))
    messages = {
        str(rewritten(runs / CALIBRATED, tmp_path / str(n), change)): says
        for n, (change, says) in enumerate(cases)
    }
    results = read_results([runs / TRUTH, tmp_path])
    assert [*results.runs["model"]] == ["knows the truth (kind=truth)"]
    assert len(results.notes) == len(messages)
    for path, message in messages.items():
        (note,) = [note for note in results.notes["text"] if path in note]
        assert NHANES in note and re.search(message, note), (message, note)


@pytest.mark.parametrize("metric", ["error_ratio_stderr", "error_ratio", "crps_ratio"])
def test_infinite_metrics_count_as_not_known_and_do_not_end_the_report(runs, tmp_path, metric):
    """The share of wins stands, with its error where what was said can be read."""
    change = edited(NHANES, **{metric: math.inf})
    path = rewritten(runs / CALIBRATED, tmp_path / "absurd", change)
    results = read_results([tmp_path])
    assert f"{path}: {NHANES}: {metric} is infinite" in results.notes["text"][0]
    (of,) = scores_of(results, "").to_dict("records")
    assert 0 < of["value"] < 1 and (of["draws"] is None) == (metric == "error_ratio")
    assert json.loads(command("report", tmp_path, "--format", "json"))


def test_results_about_quantities_that_are_not_here_are_named(runs, tmp_path):
    def renamed(file):
        for part in ("results", "configs", "versions", "n-shot", "group_subtasks"):
            for name in ("epidemia_prior_scf_7", "epidemia_low_nowhere_x"):
                file[part][name] = file[part].get(NHANES, [])

    rewritten(runs / TRUTH, tmp_path / "renamed", renamed)
    quantities, nowhere = read_results([tmp_path]).notes["text"]
    assert "epidemia_prior_scf_7: their quantities are not here. Make the set again" in quantities
    assert "epidemia_low_nowhere_x: this version" in nowhere
    assert read_results([runs]).notes.empty


def test_a_damaged_truth_is_what_is_blamed(runs, home):
    shutil.copytree(store.paths.shipped_groundtruth() / "quantities", store.built())
    draws = store.built() / "nhanes.draws.parquet"
    draws.write_bytes(draws.read_bytes()[:1000])
    results = read_results([runs / TRUTH])
    assert [*results.scores["said"]] == [None]
    notes = "\n".join(results.notes["text"])
    assert f"{NHANES}: tables" in notes and "its truth on this machine cannot be used" in notes
    assert str(draws) in notes and "not a result file" not in notes
    assert "another truth than" not in notes and command("report", runs / TRUTH)


def test_what_was_said_of_another_truth_is_left_out_and_not_compared(runs, tmp_path):
    def other(file):
        file["configs"][NHANES]["metadata"]["truth"] = "0123456789ab"
        file["epidemia"]["replicates"][NHANES]["sample"] = f"{NHANES} 0123456789ab"

    rewritten(runs / SURE, tmp_path / "other", other)
    results = read_results([runs / TRUTH, tmp_path])
    (note,) = results.notes["text"]
    assert f"1 task ({NHANES}), whose answers come from another truth than the installed" in note
    assert "0123456789ab" in results.notes["run"][0] and find("pairs")(results).table.empty
    # Alone it has a mean, and nothing else.
    alone = read_results([tmp_path])
    assert find("leaderboard")(alone).table["value"].notna().any()
    assert all(find(name)(alone).table.empty for name in ("priors", "wins", "quartiles"))


def test_without_what_was_said_there_is_the_leaderboard_only(runs, tmp_path):
    rewritten(runs / CALIBRATED, tmp_path / "silent", lambda file: file["epidemia"].pop("said"))
    results = read_results([tmp_path])
    assert re.search("4 tasks .*are not in the file", results.notes["text"][0])
    assert len(find("leaderboard")(results).table)
    for name in ("priors", "wins", "quartiles", "uncertainty", "quantities", "ablations"):
        finding = find(name)(results)
        assert finding.table.empty and "run lm_eval on epidemia_prior" in finding.left_out[0]
    with pytest.raises(EpidemiaError, match="run lm_eval on epidemia_prior"):
        save("wins", lambda: results, tmp_path / "none.svg")


def test_a_part_of_a_task_is_said_of_the_quantities_that_were_asked(tmp_path_factory, tmp_path):
    copied_run(tmp_path_factory, tmp_path, [NHANES], model_args="kind=calibrated", limit=10)
    results = read_results([tmp_path])
    known = said_by(results)
    assert [*known.truth.column("name")] == [*store.load(NHANES).column("name")[:10]]
    assert known.stated.a.shape == (10, 5) and results.runs["limit"][0] == "10"
    one = find("priors")(results).table.query("asked == '' and part == 'beats 5'").iloc[0]
    board = find("leaderboard")(results).table.iloc[0]
    assert (one["value"], one["error"]) == pytest.approx((board["value"], board["error"]), rel=1e-3)
    assert one["samples"] == 10


def test_quantities_have_titles_and_not_codes():
    quantities = [one for task in store.available() for one in store.load(task).quantities]
    assert len({(one.wording, title(one)) for one in quantities}) == len(quantities)
    for one in quantities:
        assert title(one).startswith("The ") and "according to" not in title(one)
        assert not re.search(r"[a-z][A-Z][a-z]|_|\b(base|easy|medium|hard)\b", title(one))
        assert all(each.phrase in title(one) for each in one.conditions)
