"""What the findings say of stated priors, from real runs of lm-eval and the published answers."""

import json
import math
import re
import shutil

import numpy as np
import pytest
from conftest import REPOSITORY, recorded
from recorded_runs import copied_run
from report_parts import by, command, rewritten
from scipy import stats

from lm_eval_epidemia.benchmarks import WAYS
from lm_eval_epidemia.benchmarks.prior import judgements
from lm_eval_epidemia.benchmarks.prior.judged import Stated, judge, mean_of, part_of
from lm_eval_epidemia.benchmarks.prior.posterior import of_baseline
from lm_eval_epidemia.benchmarks.prior.quantities import families, store
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import SIZES
from lm_eval_epidemia.cli.report import read
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.findings import find, priors
from lm_eval_epidemia.findings.compare import compare
from lm_eval_epidemia.findings.quantities import title
from lm_eval_epidemia.report.charts import prepared
from lm_eval_epidemia.report.figures import CHARTS, save
from lm_eval_epidemia.results.read import read_results

NHANES = "epidemia_prior_nhanes"
GROUP = "epidemia_prior"
KINDS = ("truth", "calibrated,noise=1", "overconfident,noise=2")
CALIBRATED = KINDS[1]
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
def tables(results):
    return {name: find(name)(results) for name in priors.MEASURES if name != "posterior"}


@pytest.fixture(scope="module")
def seen(tables):
    """Return a row by finding, model (its end), what it is about, part, and group."""

    def one(finding, model, part, about="", group=GROUP):
        rows = tables[finding].table
        rows = rows[rows["model"].str.endswith(model) & (rows["group"] == group)]
        (row,) = rows[(rows["asked"] == about) & (rows["part"] == part)].itertuples()
        return row

    return one


@pytest.fixture(scope="module")
def truth():
    return store.load(NHANES)


def said_by(results, model, way="direct"):
    scores = results.scores[results.scores["way"] == way]
    is_here = scores["run"].map(results.runs["model"]).str.contains(model, regex=False)
    (said,) = scores["said"][is_here & (scores["task"] == NHANES)]
    return said


def loops(truth, known):
    """The error of every quantity and of samples of each size, and wins over these: plain loops."""
    is_share = np.array([one.family == "beta" for one in truth.quantities])
    told = families.mean(*of_baseline(is_share, truth.baseline))
    errors, samples, wins = [], [], []
    for place, one in enumerate(truth.quantities):
        centre = [
            float(families.mean(*(each[place, repeat] for each in known.stated)))
            for repeat in range(known.stated.a.shape[1])
        ]
        error = np.mean([abs(x - one.mean) for x in centre])
        others = [np.mean(np.abs(told[place, size] - one.mean)) for size in range(len(SIZES))]
        errors.append(error)
        samples.append(others)
        wins.append([error < other for other in others])
    return np.array(errors), np.array(samples), np.array(wins, dtype=float)


def error_of(values):
    return np.std(values, ddof=1) / math.sqrt(len(values))


def jackknife(left):
    """The jackknife over quantities, to which the linearised error is the first order."""
    return math.sqrt((1 - 1 / len(left)) * ((left - left.mean()) ** 2).sum())


# The numbers.


def test_ratios_and_wins_are_means_over_quantities_with_their_errors(results, seen, truth):
    errors, samples, wins = loops(truth, said_by(results, CALIBRATED))
    ratios = errors / samples[:, 0]
    one = seen("priors", CALIBRATED, "mean of error ratios")
    reach = stats.t.ppf(0.975, 73) * error_of(ratios)
    assert (one.samples, one.value) == (74, pytest.approx(ratios.mean()))
    assert one.error == pytest.approx(error_of(ratios))
    assert one.high == pytest.approx(one.value + reach)
    left_out = 0
    for place, size in enumerate(SIZES):
        # A tenth of what so many independent people are off by is about 0, and no win.
        kept = samples[:, place] > 0.1 * np.sqrt(2 / np.pi / size) * truth.column("sd")
        left_out += (~kept).sum()
        one = seen("wins", CALIBRATED, f"N = {size}")
        assert one.samples == kept.sum()
        assert one.value == pytest.approx(wins[kept, place].mean())
        assert one.error == pytest.approx(error_of(wins[kept, place]))
    assert left_out == 8
    assert seen("priors", CALIBRATED, "beats 5").value == wins[:, 0].mean()


def test_the_relative_error_is_a_ratio_of_means_with_the_error_of_one(results, seen, truth):
    errors, samples, _ = loops(truth, said_by(results, CALIBRATED))
    mine, theirs = (x / truth.column("marginal_sd") for x in (errors, samples[:, 0]))
    one = seen("priors", CALIBRATED, "relative error")
    assert one.value == pytest.approx(mine.mean() / theirs.mean())
    left = (mine.sum() - mine) / (theirs.sum() - theirs)
    assert one.error == pytest.approx(jackknife(left), rel=0.05)


def test_who_knows_the_population_stands_beside(results, tables, seen):
    """An audit's independent simulation: error ratio .24, beats 5 to 30 in 97, 90, 81, 73 %."""
    ratio = seen("priors", KNOWER, "mean of error ratios").value
    assert ratio == pytest.approx(0.24, abs=0.01)
    (known,) = priors.knowers(results)["said"]
    wins = known.judged.wins.mean(axis=0)
    assert wins == pytest.approx([0.97, 0.90, 0.81, 0.73], abs=0.015)
    # Of one normal quantity: E |se z| = se sqrt(2 / pi), over 100 populations.
    place = known.truth.column("family").tolist().index("normal")
    expected = known.truth.column("se")[place] * math.sqrt(2 / math.pi)
    assert known.judged.error[place] == pytest.approx(expected, rel=0.3)
    (note,) = tables["wins"].left_out
    assert f"medium_11 of {NHANES} (N = 20, 30); " in note and "about 0" in note
    assert "hard_1 " not in note
    # Its errors are means over many draws: they have no ranks, in parts of a set as in all of it.
    rows = tables["uncertainty"].table
    parts = {known: {*rows["part"][(rows["model"] == KNOWER) == known]} for known in (True, False)}
    assert parts[False] - parts[True] == {"Spearman"}


def test_the_leaderboard_has_lm_evals_number_and_error(results, runs):
    (path,) = (runs / CALIBRATED).rglob("results_*.json")
    row = json.loads(path.read_text())["results"][NHANES]
    board = find("leaderboard")(results).table.query("group == @GROUP")
    (one,) = board[board["model"].str.endswith(CALIBRATED)].itertuples()
    assert one.value == pytest.approx(row["win_rate_5,none"])
    wins = said_by(results, CALIBRATED).judged.wins[:, 0]
    assert one.error == pytest.approx(error_of(wins))
    # Every quantity is won; who is known to be better stands first; published ones have no rank.
    own = board[board["kind"] != "published"]
    assert own["value"].iloc[0] == 1 and [
        own["model"].str.contains(kind, regex=False).tolist().index(True) for kind in KINDS
    ] == [0, 1, 2]
    assert {*board["rank"][board["kind"] == "published"]} == {""}
    screen = " ".join(command("report", runs, "--published").split())
    assert "stated priors beat five" in screen and "lower is better" not in screen
    assert "scored here" in "\n".join(results.notes["text"])


def test_two_models_are_paired_over_quantities(results, truth):
    """Of one set the interval is Student's t over the differences of its 74 quantities."""
    first, second = (loops(truth, said_by(results, kind))[2][:, 0] for kind in KINDS[1:])
    d = first - second
    sides = [
        results.scores[
            results.scores["run"].map(results.runs["model"]).str.contains(kind, regex=False)
            & (results.scores["way"] == "direct")
        ]
        for kind in KINDS[1:]
    ]
    one = compare(*sides)
    assert one.difference == pytest.approx(d.mean())
    assert (one.low, one.high) == pytest.approx(stats.t.interval(0.95, 73, d.mean(), error_of(d)))
    assert one.verdict == "better"


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ((0.7, 0.6, 0.4, 0.3), (14.1, 0, 31)),
        ((0.4, 0.6, 0.4, 0.3), (0, 0, 31)),
        ((0.9, 0.8, 0.7, 0.5), (31, 12.1, 31)),
        ((0.6, 0.4, 0.6, 0.4), (7.1, 0, 31)),
    ],
)
def test_what_a_prior_is_worth(results, truth, monkeypatch, rates, expected):
    """(.7, .6, .4, .3): half way between log 10 and log 20, the root of 200: 14.1.

    10 quantities leave most open. 0.9, 0.8 and 0.7 less 1.96 sqrt(p (1 - p) / 9): 0.704, 0.539,
    0.401, which fall to one half 28 % of the way from log 10 to log 20.
    """
    part = part_of(truth, np.arange(74) < 10)
    stated = Stated(np.zeros((10, 1), int), *np.ones((2, 10, 1)))
    judged = judge(part, stated)
    wins = np.stack([np.arange(10) < 10 * rate for rate in rates], axis=1).astype(float)
    known = judgements.JudgedTask(
        part, stated, *[judged._replace(wins=wins)] * 2, np.ones(10, bool)
    )
    asked = {"run": 0, "group": GROUP}, "direct", [known]
    monkeypatch.setattr(priors, "_asked", lambda results: [asked])
    rows = by(priors.wins(results).table.query("asked == ''"), "part")
    worth = tuple(round(rows[name], 1) for name in ("worth N", "at least", "at most"))
    assert worth == expected


def test_calibration_is_that_of_the_repeats(results, seen):
    """Quarter by quarter, repeat by repeat; ECE is the mean over repeats, not of the means."""
    known = said_by(results, "gpt-4o")
    position = families.cdf(*known.stated, np.array([[q.mean] for q in known.truth.quantities]))
    quarters = np.minimum(np.floor(4 * position), 3)
    eces = []
    for repeat in range(5):
        shares = [np.mean(quarters[:, repeat] == k) for k in range(4)]
        eces.append(100 * np.mean(np.abs(np.array(shares) - 0.25)))
    one = seen("quartiles", "gpt-4o", "ECE (points)")
    assert one.value == pytest.approx(np.mean(eces))
    for k in range(4):
        share = (quarters == k).mean(axis=1)
        part = seen("quartiles", "gpt-4o", f"quarter {k + 1}")
        assert [part.value, part.error] == pytest.approx([share.mean(), error_of(share)])
    below = seen("quartiles", "gpt-4o", "below median")
    assert below.value == pytest.approx(np.mean(position < 0.5))
    left = [judgements.ece(known, np.arange(74) != place).value for place in range(74)]
    assert one.error == pytest.approx(jackknife(np.array(left)), rel=0.1)


def test_stated_uncertainty_goes_with_error_by_spearman(results, seen):
    known = said_by(results, "gpt-4o")
    one = seen("uncertainty", "gpt-4o", "Spearman")
    r = stats.spearmanr(known.judged.uncertainty, known.judged.ratio).statistic
    assert one.value == pytest.approx(r)
    # (1 - r^2) sqrt((1 + r^2 / 2) / (n - 3))
    assert one.error == pytest.approx((1 - r * r) * math.sqrt((1 + r * r / 2) / 71))


def test_parts_add_up(tables, seen):
    """14 marginals and 20 of each other difficulty; proportions and means."""
    whole = seen("priors", "gpt-4o", "beats 5").value
    for facet, counts in (
        ("difficulty", {"base": 14, "easy": 20, "medium": 20, "hard": 20}),
        ("family", {"means": 42, "proportions": 32}),
    ):
        parts = {
            label: seen("priors", "gpt-4o", "beats 5", f"{facet}: {label} ({number})")
            for label, number in counts.items()
        }
        assert {label: one.samples for label, one in parts.items()} == counts
        total = sum(counts[label] * one.value for label, one in parts.items())
        assert total / 74 == pytest.approx(whole)


def test_failures_count_as_the_flat_prior_beside_the_published_way(results, seen):
    """9 of 370 replies of o4-mini had no prior."""
    known = said_by(results, "o4-mini")
    assert np.isnan(known.stated.a).sum() == 9
    assert seen("priors", "o4-mini", "answered").value == pytest.approx(1 - 9 / 370)
    scored = seen("priors", "o4-mini", "mean of error ratios").value
    dropped = seen("priors", "o4-mini", "ratios, dropped").value
    assert dropped == pytest.approx(0.974, abs=5e-4) and scored > dropped
    assert scored == judge(known.truth, known.stated).ratio.mean()


def test_grids_have_the_same_tables_but_for_what_is_written(runs, tables, seen):
    grid = f"{GROUP}_grid"
    rows = tables["priors"].table
    parts = {*rows["part"][(rows["group"] == grid) & (rows["asked"] == "")]}
    assert {"beats 5", "relative error", "mean of error ratios", "CRPS ratio"} <= parts
    written = seen("priors", CALIBRATED, "mean of error ratios").value
    told = seen("priors", CALIBRATED, "mean of error ratios", group=grid).value
    assert 0.5 < told / written < 2
    quarters = [f"quarter {k}" for k in range(1, 5)]
    shares = [seen("quartiles", CALIBRATED, name, group=grid).value for name in quarters]
    assert sum(shares) == pytest.approx(1)
    # Grids are kept so that the tables have the very metrics. Against 20 and 30 answers the
    # quantities are left out that nobody can win.
    (path,) = (runs / CALIBRATED).rglob("results_*.json")
    row = json.loads(path.read_text())["results"][f"{NHANES}_grid"]
    for about, name in (("", "win_rate"), ("posterior", "posterior_win_rate")):
        for size in (5, 10):
            value = seen("wins", CALIBRATED, f"N = {size}", about, grid).value
            assert value == pytest.approx(row[f"{name}_{size},none"], abs=1e-9)


def test_chosen_families_are_counted(seen):
    group = f"{GROUP}_direct_choice"
    known = {
        "family: proportions (32)": (0, 1, 0),
        "family: means (42)": (1, 0, 0),
        "": (42 / 74, 32 / 74, 0),
    }
    for about, expected in known.items():
        shares = [
            seen("priors", CALIBRATED, f"chose {x}", about, group).value for x in families.FAMILIES
        ]
        assert shares == pytest.approx(expected), about


# The published models.


def claimed(results):
    """What is printed, released and found here, by measure, set, model and way."""
    rows = find("published-priors")(results).table
    return {
        (row.measure, row.set, row.model, row.asked): (row.printed, row.released, row.here)
        for row in rows.itertuples()
    }


def test_what_the_paper_prints_stands_beside_and_is_labelled(results, runs):
    rows = claimed(results)
    printed, released, here = rows["CRPS ratio", "nhanes", "gpt-4o", ""]
    assert (printed, round(released, 3)) == ("1.86", 1.977) and math.isnan(here)
    printed, released, _ = rows["prior beats 30", "glassdoor", "o4-mini", ""]
    assert (printed, released) == ("0.087", 0.022)
    printed, released, _ = rows["posterior beats 5", "pitchbook", "o4-mini", ""]
    assert printed == "0.696" and math.isnan(released)
    model = f"epidemia-baseline kind={CALIBRATED}"
    ratio = mean_of(said_by(results, CALIBRATED).dropped.ratio)
    assert rows["error ratio", "nhanes", model, "direct"][2] == pytest.approx(ratio)
    assert ("error ratio", "nhanes", model, "direct_choice") in rows
    assert claimed(read_results([runs])) == {}
    # Published answers stand beside what was asked only.
    published = results.scores["run"].map(results.runs["kind"]) == "published"
    assert {*results.scores["way"][published]} == {"direct", "mean_variance"}


def test_the_table_of_claims_on_the_page_is_computed(results):
    """docs/guides/priors-published.md has these numbers as the findings give them."""
    page = (REPOSITORY / "docs" / "guides" / "priors-published.md").read_text()
    rows = claimed(results)
    models = ["o4-mini", "o3-mini", "qwen3-235b-a22b-fp8-tput", "gpt-4o", "meta-llama-3-70b"]

    def given(measure, model="o4-mini", place=1):
        return float(rows[measure, "nhanes", model, ""][place])

    crps = ", ".join(f"{given('CRPS ratio', m):.2f}" for m in models)
    assert f"| {crps} |" in page
    for of in ("prior", "posterior"):
        for place in (0, 1):
            wins = [f"{100 * given(f'{of} beats {n}', place=place):.1f}" for n in (5, 30)]
            assert f"{wins[0]} and {wins[1]} %" in page
    first = [given(m) for m in ("in the first quarter", "the same with failures counted")]
    said = [f"{x:.3f}"[1:] for x in first]
    assert f"o4-mini {said[0]}, or {said[1]} with failures counted" in page
    llama = [f"{given(m, 'meta-llama-3-8b'):.1f}" for m in ("CRPS ratio", "error ratio")]
    assert f"CRPS ratio {llama[0]} (19.17 in the tables), error ratio {llama[1]}" in page
    worth = ", ".join(
        f"{m.removesuffix('-a22b-fp8-tput')} {given('worth answers', m):.1f}"
        for m in (models[0], models[2], models[1])
    )
    assert f"| {worth}, the others <5 |" in page
    others = ("gpt-4o", "meta-llama-3-70b", "meta-llama-3-8b")
    assert {given("worth answers", m) for m in others} == {0}


def test_published_wins_of_imported_sets_stand_beside_runs_of_them(tmp_path, epidemia):
    """As of Glassdoor; here five NHANES variables in the same form have its name."""
    files = [
        REPOSITORY / "tests" / "data" / f"sample_{kind}.json" for kind in ("variables", "baselines")
    ]
    assert epidemia("quantities", "import", *files, "--name", "glassdoor").returncode == 0
    recorded(tmp_path, ["epidemia_prior_glassdoor"], model_args="kind=calibrated")
    results = read([tmp_path], published=True)
    rows = claimed(results)
    (known,) = (said for said in results.scores["said"] if said is not None)
    mine = rows["prior beats 5", "glassdoor", results.runs["model"][0], "direct"]
    assert mine[2] == pytest.approx(mean_of(known.dropped.wins, axis=0)[0])
    assert rows["prior beats 5", "glassdoor", "o4-mini", ""][:2] == ("0.370", 0.348)
    board = find("leaderboard")(results).table
    assert board["value"][board["model"] == "o4-mini"].tolist() == [0.348]


def test_ablations_are_paired_over_quantities(results):
    rows = find("ablations")(results).table
    rows = rows[rows["kind"] == "published"]
    said = {(row["model"], row["differs in"]): row for row in rows.to_dict("records")}
    assert len(rows) == len(said) == 12
    differs = {key.partition(":")[0] for _, key in said}
    assert differs == {"protocol", "system prompt", "temperature", "reasoning effort"}
    runs = {
        (of.model, *of.settings.values()): of.known
        for of in priors.stating()
        if of.experiment != priors.COMPARED
    }
    usual, high = (runs["o4-mini", "direct", "base", "", effort] for effort in ("medium", "high"))
    d = high.judged.ratio - usual.judged.ratio
    one = said["o4-mini", "reasoning effort: medium -> high"]
    assert one["difference"] == pytest.approx(d.mean())
    assert one["difference_error"] == pytest.approx(error_of(d))
    # 28 of the 370 replies at high effort cannot be read; without them the sign is another.
    assert (one["unread"], one["unread_then"]) == pytest.approx((0, 28 / 370))
    assert round(one["difference"], 3) == 0.206 and round(one["where_read"], 3) == -0.037
    # Asked for quantiles four times: a repeat that was not asked is no failure.
    (quantiles,) = (known for key, known in runs.items() if key[:2] == ("o4-mini", "quantile"))
    assert quantiles.stated.a.shape == (74, 4) and quantiles.judged.answered.min() == 1
    assert ("o4-mini", "protocol: direct -> quantile") in said


def test_a_users_own_runs_that_differ_in_one_thing_are_an_ablation(runs, tmp_path):
    arguments = json.loads(next((runs / CALIBRATED).rglob("results_*.json")).read_text())["config"]

    def warmer(results):
        results["config"] |= {"model_args": arguments["model_args"]}
        results["config"]["gen_kwargs"] = {"temperature": 1.0}

    def careful(results):
        results["config"] |= {"model_args": arguments["model_args"]}
        results["configs"][NHANES]["metadata"]["system_prompt"] = "conservative"

    shutil.copytree(runs / CALIBRATED, tmp_path / "usual")
    rewritten(runs / KINDS[2], tmp_path / "warmer", warmer)
    rewritten(runs / KINDS[2], tmp_path / "careful", careful)
    results = read_results([tmp_path])
    # They are no longer compared as if they had been asked alike.
    assert len(results.runs) == 3
    rows = {row["differs in"]: row for row in find("ablations")(results).table.to_dict("records")}
    others = {f"protocol: direct -> {way}" for way in ("mean_variance", "direct_choice", "grid")}
    changed = {"temperature: 0.5 -> 1", "system prompt: base -> conservative"}
    assert rows.keys() == others | changed
    scores = results.scores[results.scores["way"] == "direct"]
    usual, warm = (
        scores["said"][scores["file"].map(str).str.contains(name)].iloc[0]
        for name in ("/usual/", "/warmer/")
    )
    (warmer_off, samples, _), (usual_off, *_) = (
        loops(store.load(NHANES), known) for known in (warm, usual)
    )
    d, one = (warmer_off - usual_off) / samples[:, 0], rows["temperature: 0.5 -> 1"]
    assert (one["difference"], one["difference_error"]) == pytest.approx((d.mean(), error_of(d)))
    # What was asked alike is alike.
    alike = rows["protocol: direct -> mean_variance"]
    assert alike["difference"] == pytest.approx(0, abs=1e-12) and math.isnan(
        alike["difference_error"]
    )


# What is read.


#: What is done to the line of what was said, and what the note of its file says.
DAMAGES = [
    (lambda line: line.replace(" | ", " ; ", 1), "have 73 quantities, but the task has 74"),
    (lambda line: line.replace("n:", "x:", 1), "cannot be read"),
    (lambda line: line.replace("n:", "n:one", 1), "cannot be read"),
    (lambda line: "?", f"[(]{NHANES}: the results have 1 quantities"),
    (lambda line: "", "the stored answers are empty"),
    (lambda line: re.sub("n:([^,]*),", r"n:\1,-", line, count=1), "-.* is not a distribution"),
    (lambda line: re.sub("n:([^,]*),", "n:1e999,", line, count=1), "is not a distribution"),
    (lambda line: " | ".join(["n:1,2"] * 74), "1 estimates of each quantity, expected 5"),
    (lambda line: " | ".join(["-1.0,-2.0"] * 74), "got log-probabilities, expected pr"),
    (lambda line: line.replace("n:", "n:9", 1), "but the recorded answers give"),
    (lambda line: line.replace("n:", "n:nan;", 1), "cannot be read"),
    (lambda line: " | ".join([";".join("?" * 5)] * 74), "but the recorded answers give"),
]

#: Numbers of a task's row that follow from what was said: none may be another.
FOLLOW = [
    *[("", metric) for metric in ("error_ratio", "win_rate_5", "ece", "worth_samples")],
    *[("", metric) for metric in ("crps_ratio", "answered", "error_ratio_stderr", "seen")],
    *[("_grid", metric) for metric in ("win_rate_30", "end_mass")],
]


def test_damaged_lines_and_metrics_that_are_not_theirs_leave_their_file_out(runs, tmp_path):
    shutil.copytree(runs / "truth", tmp_path / "truth")
    messages = {}

    def put(change, message):
        path = rewritten(runs / CALIBRATED, tmp_path / str(len(messages)), change)
        messages[path] = message

    for damage, message in DAMAGES:

        def damaged(results, damage=damage):
            lines = results["epidemia"]["said"]
            lines[NHANES] = damage(lines[NHANES])

        put(damaged, message)
    for suffix, metric in FOLLOW:

        def edited(results, task=NHANES + suffix, key=f"{metric},none"):
            row = results["results"][task]
            row[key] = abs(row[key] - 0.013)

        message = rf"{NHANES + suffix}: the {metric} is [.\d]+, but the recorded answers give"
        put(edited, message)
    results = read_results([tmp_path])
    assert [*results.runs["model"]] == ["knows the truth (kind=truth)"]
    notes = [*results.notes["text"]]
    assert len(notes) == len(messages) == 12 + 10
    for path, message in messages.items():
        (note,) = [note for note in notes if str(path) in note]
        assert NHANES in note and re.search(message, note), (message, note)


def test_infinite_metrics_count_as_not_known_and_do_not_end_the_report(runs, tmp_path):
    """As another version wrote them, of a reply that is none any more."""
    ratio, error, other = "error_ratio", "error_ratio_stderr", "crps_ratio"
    cases = {"error": [error], "ratio": [ratio], "other": [other], "both": [ratio, error]}
    for name, metrics in cases.items():

        def absurd(results, name=name, metrics=metrics):
            results["config"] |= {"model": "hf", "model_args": {"pretrained": name}}
            results["results"][NHANES] |= {f"{metric},none": math.inf for metric in metrics}

        rewritten(runs / CALIBRATED, tmp_path / name, absurd)
    results = read_results([tmp_path])
    scores = results.scores[results.scores["way"] == "direct"]
    for run, of in scores.set_index("run").iterrows():
        model = results.runs["model"][run]
        metrics = cases.pop(model)
        (note,) = [note for note in results.notes["text"] if str(tmp_path / model) in note]
        assert f"{NHANES}: {', '.join(metrics)} is infinite" in note
        # The share of wins stands, with its error where what was said can be read.
        assert 0 < of["value"] < 1 and (of["draws"] is None) == (ratio in metrics)
    assert not cases
    for form in ("table", "csv", "json"):
        assert command("report", tmp_path, "--format", form)


def test_results_about_quantities_that_are_not_here_are_named(runs, tmp_path):
    def renamed(results):
        for part in ("results", "configs", "versions", "n-shot", "group_subtasks"):
            known = results[part]
            known["epidemia_prior_scf_7"] = known.get(NHANES, [])
            known["epidemia_low_nowhere_x"] = known.get(NHANES, [])

    path = rewritten(runs / "truth", tmp_path / "renamed", renamed)
    notes = "\n".join(read_results([tmp_path]).notes["text"])
    assert notes.count(str(path)) == 2
    assert "epidemia_prior_scf_7: their quantities are not here. Make the set again with" in notes
    assert "epidemia_low_nowhere_x: this version" in notes
    assert read_results([runs]).notes.empty


def test_a_damaged_truth_is_what_is_blamed(runs, tmp_path, monkeypatch):
    monkeypatch.setenv("EPIDEMIA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("lm_eval_epidemia.core.paths.home", lambda: tmp_path / "home")
    folder = store.built()
    shutil.copytree(store.paths.shipped_groundtruth() / "quantities", folder)
    draws = folder / "nhanes.draws.parquet"
    draws.write_bytes(draws.read_bytes()[:1000])
    shutil.copytree(runs / "truth", tmp_path / "run")
    results = read_results([tmp_path / "run"])
    assert [*results.scores["said"]] == [None]
    notes = "\n".join(results.notes["text"])
    assert f"{NHANES}: tables" in notes and "its truth on this machine cannot be used" in notes
    assert str(draws) in notes and "not a result file" not in notes
    assert "another truth than" not in notes
    assert command("report", tmp_path / "run")


def test_what_was_said_of_another_truth_is_left_out_and_not_compared(runs, tmp_path):
    shutil.copytree(runs / "truth", tmp_path / "truth")

    def other(results):
        results["configs"][NHANES]["metadata"]["truth"] = "0123456789ab"
        results["epidemia"]["replicates"][NHANES]["sample"] = f"{NHANES} 0123456789ab"

    rewritten(runs / KINDS[2], tmp_path / "other", other)
    results = read_results([tmp_path])
    (note,) = results.notes["text"]
    assert f"1 task ({NHANES}), whose answers come from another truth than the installed" in note
    assert "0123456789ab" in results.notes["run"][0] and sorted(results.runs["truth"] != "") == [
        False,
        True,
    ]
    (said,) = results.scores["said"][results.scores["truth"] != ""]
    assert said is None and find("pairs")(results).table.empty
    # Alone it has a mean, and nothing else.
    alone = read_results([tmp_path / "other"])
    assert find("leaderboard")(alone).table["value"].notna().any()
    assert all(find(name)(alone).table.empty for name in ("priors", "wins", "quartiles"))


def test_without_what_was_said_the_leaderboard_stands(runs, tmp_path):
    rewritten(runs / CALIBRATED, tmp_path / "silent", lambda r: r["epidemia"].pop("said"))
    results = read_results([tmp_path])
    note = results.notes["text"][0]
    assert "are not in the file" in note and "4 tasks" in note
    for name in ("priors", "wins", "quartiles", "uncertainty", "quantities", "ablations"):
        finding = find(name)(results)
        assert finding.table.empty and "run lm_eval on epidemia_prior" in finding.left_out[0]


def test_a_part_of_a_task_is_said_of_the_quantities_that_were_asked(tmp_path_factory, tmp_path):
    copied_run(tmp_path_factory, tmp_path, [NHANES], model_args="kind=calibrated", limit=10)
    results = read_results([tmp_path])
    (known,) = results.scores["said"]
    assert [one.name for one in known.truth.quantities] == [
        one.name for one in store.load(NHANES).quantities[:10]
    ]
    assert known.stated.a.shape == (10, 5) and results.runs["limit"][0] == "10"
    one = find("priors")(results).table.query("asked == '' and part == 'beats 5'").iloc[0]
    board = find("leaderboard")(results).table.iloc[0]
    assert (one["samples"], one["value"]) == (10, pytest.approx(board["value"]))
    assert one["error"] == pytest.approx(board["error"], rel=1e-3)


# What is shown.


def test_people_see_all_quantities_first_and_parts_on_demand(runs):
    names = "wins,priors,quartiles,uncertainty,ablations,published-priors"
    show = ("report", runs, "--published", "--show", names)
    short, long = command(*show), command(*show, "--wide")
    titles = "Priors: how often better than N|Priors: error compared|Priors: where the truth lies"
    titles += "|Priors: do wider priors have|Priors: what the asking|Priors: published numbers"
    for said in titles.split("|"):
        assert said in short and said in long, said
    assert "difficulty: hard (20)" in long and "difficulty: hard" not in short


def test_figures_have_the_rows_of_their_tables(results, tables, seen, tmp_path):
    names = ("wins", "quartiles", "uncertainty")
    for name in (*names, "leaderboard"):
        text = save(name, lambda: results, tmp_path / f"{name}.svg").read_text()
        # Respondents are no rivals of models.
        assert ("kind=calibrated" in text) == (name != "leaderboard") and "gpt-4o" in text, name
    drawn = {
        name: prepared(CHARTS[name], find(CHARTS[name].finding)(results).table) for name in names
    }
    wins = by(drawn["wins"].query("group == @GROUP"), "model", "part")
    assert wins["gpt-4o", "N = 20"] == seen("wins", "gpt-4o", "N = 20").value
    assert (drawn["uncertainty"]["model"] == "gpt-4o").sum() == 74 * 2
    quarters = drawn["quartiles"].query("group == @GROUP").groupby("model")["value"].sum()
    assert quarters.to_numpy() == pytest.approx(1)
    nobody = results._replace(scores=results.scores[:0])
    for name in names:
        with pytest.raises(EpidemiaError, match="run lm_eval on epidemia_prior"):
            save(name, lambda: nobody, tmp_path / "none.svg")


def test_figures_of_a_single_quantity_are_drawn(tmp_path_factory, tmp_path):
    """One quantity has no error between quantities: its marks stand without a line."""
    copied_run(tmp_path_factory, tmp_path, [NHANES], limit=5)
    results = read_results([tmp_path])
    for name in ("wins", "quartiles"):
        text = save(name, lambda: results, tmp_path / f"{name}.svg").read_text()
        assert text.startswith("<svg") and "NaN" not in text, name


def test_quantities_have_titles_and_not_codes():
    for task in store.available():
        quantities = store.load(task).quantities
        titles = [title(one) for one in quantities]
        assert len({*titles}) == len(titles)
        for one, said in zip(quantities, titles, strict=True):
            assert said.startswith("The ") and "according to" not in said
            assert not re.search(r"[a-z][A-Z][a-z]|_|\b(base|easy|medium|hard)\b", said)
            assert all(each.phrase in said for each in one.conditions)


def test_system_prompts_matter_where_they_are_given():
    assert WAYS["direct"].system_prompts and not WAYS["grid"].system_prompts
