"""What the report says of stated priors, from real runs of lm-eval and the published answers."""

import csv
import io
import json
import math
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import REPOSITORY, recorded
from lm_eval_epidemia.old.findings import (
    ablations,
    prior_reference,
    prior_rows,
    priors,
    published_priors,
)
from lm_eval_epidemia.old.findings.leaderboard import make_report
from lm_eval_epidemia.old.findings.quantities import title as title_of
from lm_eval_epidemia.old.findings.rows import ALIKE_NOTE
from lm_eval_epidemia.old.report import charts, figures, output
from lm_eval_epidemia.old.report.pages import figures as pages
from lm_eval_epidemia.old.report.sections import printed, tidy
from lm_eval_epidemia.results.results import Results, read_results
from recorded_runs import copied_run
from report_parts import command, kind_of, numbers, rewritten
from rich.cells import cell_len
from scipy import stats

from lm_eval_epidemia.benchmarks import WAYS
from lm_eval_epidemia.benchmarks.prior import judgements
from lm_eval_epidemia.benchmarks.prior.judged import Stated, judge, mean_of, part_of
from lm_eval_epidemia.benchmarks.prior.posterior import of_baseline
from lm_eval_epidemia.benchmarks.prior.quantities import families, store
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import SIZES
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.results.entry import Asked

NHANES = "epidemia_prior_nhanes"
GROUP = "epidemia_prior"
KINDS = ("truth", "calibrated,noise=1", "overconfident,noise=2")
CALIBRATED = KINDS[1]


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
def report(runs):
    return make_report(read_results([runs]), with_published=True)


@pytest.fixture(scope="module")
def seen(report):
    """Every number of the tables."""
    return numbers(priors.findings(report.entries))


@pytest.fixture(scope="module")
def truth():
    return store.load(NHANES)


def said_by(report, model, way="direct"):
    (entry,) = (entry for entry in report.entries if kind_of(entry.model) == model)
    return entry.scores[Asked(NHANES, way)]


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


# The numbers.


def test_ratios_and_wins_are_means_over_quantities_with_their_errors(report, seen, truth):
    known = said_by(report, CALIBRATED).said
    errors, samples, wins = loops(truth, known)
    ratios = errors / samples[:, 0]
    one = seen["priors", CALIBRATED, GROUP, "", "error ratio"]
    assert one.samples == 74 and one.freedom == 73
    assert one.value == pytest.approx(ratios.mean())
    assert one.error == pytest.approx(error_of(ratios))
    left_out = 0
    for place, size in enumerate(SIZES):
        # A tenth of what so many independent people are off by is about 0, and no win.
        kept = samples[:, place] > 0.1 * np.sqrt(2 / np.pi / size) * truth.column("sd")
        left_out += (~kept).sum()
        one = seen["wins", CALIBRATED, GROUP, "prior", f"N = {size}"]
        assert one.samples == kept.sum()
        assert one.value == pytest.approx(wins[kept, place].mean())
        assert one.error == pytest.approx(error_of(wins[kept, place]))
    assert left_out == 8
    assert seen["priors", CALIBRATED, GROUP, "", "beats 5"].value == wins[:, 0].mean()


def test_the_relative_error_is_a_ratio_of_means_with_the_error_of_one(report, seen, truth):
    errors, samples, _ = loops(truth, said_by(report, CALIBRATED).said)
    mine, theirs = (x / truth.column("marginal_sd") for x in (errors, samples[:, 0]))
    one = seen["priors", CALIBRATED, GROUP, "", "relative error"]
    assert one.value == pytest.approx(mine.mean() / theirs.mean())
    # The jackknife over quantities, to which the linearised error is the first order.
    left = (mine.sum() - mine) / (theirs.sum() - theirs)
    jackknife = math.sqrt(73 / 74 * ((left - left.mean()) ** 2).sum())
    assert one.error == pytest.approx(jackknife, rel=0.05)


def test_who_knows_the_population_stands_beside(report, seen):
    """An audit's independent simulation: error ratio .24, beats 5 to 30 in 97, 90, 81, 73 %."""
    assert seen["priors", "knows the population", GROUP, "", "error ratio"].value == pytest.approx(
        0.24, abs=0.01
    )
    known = prior_reference.reference(report.entries).scores[Asked(NHANES, "direct")].said
    wins = known.judged.wins.mean(axis=0)
    assert wins == pytest.approx([0.97, 0.90, 0.81, 0.73], abs=0.015)
    # Of one normal quantity: E |se z| = se sqrt(2 / pi), over 100 populations.
    place = known.truth.column("family").tolist().index("normal")
    expected = known.truth.column("se")[place] * math.sqrt(2 / math.pi)
    assert known.judged.error[place] == pytest.approx(expected, rel=0.3)
    (note,) = (one.note for one in priors.findings(report.entries) if one.kind == "wins")
    assert f"medium_11 of {NHANES} (N = 20, 30); " in note and "about 0" in note
    assert "hard_1 " not in note


def test_the_leaderboard_has_lm_evals_number_and_error(report, runs):
    (path,) = (runs / CALIBRATED).rglob("results_*.json")
    row = json.loads(path.read_text())["results"][NHANES]
    mean = report.standings[GROUP][f"epidemia-baseline kind={CALIBRATED}"].mean
    assert mean.value == pytest.approx(row["win_rate_5,none"])
    wins = said_by(report, CALIBRATED).said.judged.wins[:, 0]
    assert mean.error == pytest.approx(error_of(wins))
    (board,) = output.leaderboards(report).values()
    assert "stated priors beat five real" in board.title and "± standard error" in board.title
    assert "lower is better" not in board.title
    assert "scored here" in board.note
    rows = {kind_of(row[0]): row for row in board.rows}
    # Every quantity is won: that tells of no error.
    assert rows["truth"][2] == "1.000" and board.note.endswith(ALIKE_NOTE)
    # Who is known to be better stands first; published models have no rank.
    assert [rows[kind][3] for kind in KINDS] == ["1 of 3", "2 of 3", "3 of 3"]
    assert rows["o4-mini (published)"][3] == ""


def test_two_models_are_paired_over_quantities(report, truth):
    """Of one set the interval is Student's t over the differences of its 74 quantities."""
    first, second = (loops(truth, said_by(report, kind).said)[2][:, 0] for kind in KINDS[1:])
    d = first - second
    (one,) = (
        c
        for c in output.comparisons(report)
        if c.column == GROUP and c.one.endswith(KINDS[1]) and c.other.endswith(KINDS[2])
    )
    low, high = stats.t.interval(0.95, 73, d.mean(), error_of(d))
    assert one.across.difference == pytest.approx(d.mean())
    assert one.across.error == pytest.approx(error_of(d))
    assert (one.across.low, one.across.high) == pytest.approx((low, high))
    assert one.verdict == "better" and one.across.error < 2 * error_of(first)


def test_what_a_prior_is_worth(truth):
    """(.7, .6, .4, .3): half way between log 10 and log 20, the root of 200: 14.1.

    10 quantities leave most open. 0.9, 0.8 and 0.7 less 1.96 sqrt(p (1 - p) / 9): 0.704, 0.539,
    0.401, which fall to one half 28 % of the way from log 10 to log 20.
    """
    part = part_of(truth, np.arange(74) < 10)
    stated = Stated(np.zeros((10, 1), int), *np.ones((2, 10, 1)))
    judged = judge(part, stated)
    for rates, expected, least in (
        ((0.7, 0.6, 0.4, 0.3), "14.1", "<5"),
        ((0.4, 0.6, 0.4, 0.3), "<5", "<5"),
        ((0.9, 0.8, 0.7, 0.5), ">30", "12.1"),
        ((0.6, 0.4, 0.6, 0.4), "7.1", "<5"),
    ):
        wins = np.stack([np.arange(10) < 10 * rate for rate in rates], axis=1).astype(float)
        known = judgements.JudgedTask(
            part, stated, *[judged._replace(wins=wins)] * 2, np.ones(10, bool)
        )
        scores = {Asked(NHANES, "direct"): SimpleNamespace(said=known)}
        tables = map(printed, priors.findings([SimpleNamespace(name="m", scores=scores)]))
        (table,) = (table for table in tables if "N real answers" in table.title)
        row = dict(zip(table.columns, table.rows[0], strict=True))
        worth = (row["worth N"], row["at least"], row["at most"])
        assert worth == (expected, least, ">30"), rates


def test_calibration_is_that_of_the_repeats(report, seen):
    """Quarter by quarter, repeat by repeat; ECE is the mean over repeats, not of the means."""
    known = said_by(report, "gpt-4o").said
    position = families.cdf(*known.stated, np.array([[q.mean] for q in known.truth.quantities]))
    quarters = np.minimum(np.floor(4 * position), 3)
    eces = []
    for repeat in range(5):
        shares = [np.mean(quarters[:, repeat] == k) for k in range(4)]
        eces.append(100 * np.mean(np.abs(np.array(shares) - 0.25)))
    one = seen["calibration", "gpt-4o", GROUP, "", "ECE (points)"]
    assert one.value == pytest.approx(np.mean(eces))
    for k in range(4):
        share = (quarters == k).mean(axis=1)
        part = seen["calibration", "gpt-4o", GROUP, "", f"quarter {k + 1}"]
        assert [part.value, part.error] == pytest.approx([share.mean(), error_of(share)])
    below = seen["calibration", "gpt-4o", GROUP, "", "below median"]
    assert below.value == pytest.approx(np.mean(position < 0.5))

    def ece(chosen):
        return judgements.ece(known, chosen).value

    # The jackknife over quantities, to which the linearised error is the first order.
    left = np.array([ece(np.arange(74) != place) for place in range(74)])
    jackknife = math.sqrt(73 / 74 * ((left - left.mean()) ** 2).sum())
    assert one.error == pytest.approx(jackknife, rel=0.1)


def test_stated_uncertainty_goes_with_error_by_spearman(report, seen):
    known = said_by(report, "gpt-4o").said
    one = seen["uncertainty", "gpt-4o", GROUP, "", "Spearman"]
    r = stats.spearmanr(known.judged.uncertainty, known.judged.ratio).statistic
    assert one.value == pytest.approx(r)
    # (1 - r^2) sqrt((1 + r^2 / 2) / (n - 3))
    assert one.error == pytest.approx((1 - r * r) * math.sqrt((1 + r * r / 2) / 71))


def test_who_knows_the_population_has_no_rank_correlation(seen):
    """Its errors are means over many draws; in parts of a set as in all of it."""
    numbers_of = {key[-1] for key in seen if key[1] == "knows the population"}
    assert {"stated sd", "error ratio", "below median"} <= numbers_of
    assert "Spearman" not in numbers_of
    assert any(key[-1] == "Spearman" for key in seen)


def test_parts_add_up(report, seen):
    """14 marginals and 20 of each other difficulty; proportions and means."""
    whole = seen["priors", "gpt-4o", GROUP, "", "beats 5"]
    counts = {"base": 14, "easy": 20, "medium": 20, "hard": 20}
    parts = {label: seen["priors by part", "gpt-4o", GROUP, "", label] for label in counts}
    assert {label: one.samples for label, one in parts.items()} == counts
    total = sum(counts[label] * one.value for label, one in parts.items())
    assert total / 74 == pytest.approx(whole.value)
    kinds = [
        seen["priors by part", "gpt-4o", GROUP, "", label] for label in ("means", "proportions")
    ]
    assert sum(one.samples * one.value for one in kinds) / 74 == pytest.approx(whole.value)
    long = {key[3] for key in seen if key[:2] == ("part", "gpt-4o")}
    assert {"difficulty: base (14)", "family: means (42)", "family: proportions (32)"} <= long


def test_failures_count_as_the_flat_prior_beside_the_published_way(report, seen):
    """9 of 370 replies of o4-mini had no prior."""
    known = said_by(report, "o4-mini").said
    assert np.isnan(known.stated.a).sum() == 9
    assert seen["priors", "o4-mini", GROUP, "", "answered"].value == pytest.approx(1 - 9 / 370)
    scored = seen["priors", "o4-mini", GROUP, "", "error ratio"].value
    dropped = seen["priors", "o4-mini", GROUP, "", "error ratio, failures dropped"].value
    assert dropped == pytest.approx(0.974, abs=5e-4) and scored > dropped
    assert scored == judge(known.truth, known.stated).ratio.mean()


def test_grids_have_the_same_tables_but_for_what_is_written(seen):
    grid = f"{GROUP}_grid"
    parts = {key[-1] for key in seen if (key[0], key[2]) == ("priors", grid)}
    assert parts == {"beats 5", "relative error", "error ratio", "CRPS ratio"}
    written = seen["priors", CALIBRATED, GROUP, "", "error ratio"].value
    assert 0.5 < seen["priors", CALIBRATED, grid, "", "error ratio"].value / written < 2
    quarters = [f"quarter {k}" for k in range(1, 5)]
    shares = [seen["calibration", CALIBRATED, grid, "", name] for name in quarters]
    assert sum(share.value for share in shares) == pytest.approx(1)


def test_chosen_families_are_counted(seen):
    group = f"{GROUP}_direct_choice"
    known = {"proportions": (0, 1, 0), "means": (1, 0, 0), "all": (42 / 74, 32 / 74, 0)}
    for label, expected in known.items():
        shares = [seen["families", CALIBRATED, group, label, x] for x in families.FAMILIES]
        assert [share.value for share in shares] == pytest.approx(expected), label


# The published models.


def test_published_answers_come_to_the_published_numbers(seen):
    targets = {
        "gpt-4o": (1.854, 0.405, 13.0),
        "meta-llama-3-70b": (2.169, 0.324, 13.0),
        "o3-mini": (1.192, 0.595, 4.4),
        "qwen3-235b-a22b-fp8-tput": (1.249, None, None),
        "meta-llama-3-8b": (7.236, None, None),
        "o4-mini": (0.974, None, None),
    }
    for model, (ratio, wins, ece) in targets.items():
        part = "error ratio, failures dropped"
        assert seen["priors", model, GROUP, "", part].value == pytest.approx(ratio, abs=6e-4), model
        if wins is not None:
            one = seen["wins", model, GROUP, "prior", "N = 5"]
            assert one.value == pytest.approx(wins, abs=6e-4)
            one = seen["calibration", model, GROUP, "", "ECE (points)"]
            assert one.value == pytest.approx(ece, abs=0.06)


def claimed(entries):
    """What is printed, released and found here, by measure, set and model."""
    table = printed(published_priors.finding(entries), long=True)
    assert table.columns == ("measure", "set", "model", "printed", "released", "here")
    return {tuple(row[:3]): row[3:] for row in table.rows}


def test_what_the_paper_prints_stands_beside_and_is_labelled(report):
    rows = claimed(report.entries)
    assert rows["CRPS ratio", "nhanes", "gpt-4o"] == ["1.86", "1.977", ""]
    assert rows["prior beats 30", "glassdoor", "o4-mini"] == ["0.087", "0.022", ""]
    assert rows["posterior beats 5", "pitchbook", "o4-mini"] == ["0.696", "", ""]
    (model,) = (e.name for e in report.runs if kind_of(e.model) == CALIBRATED)
    ratio = mean_of(said_by(report, CALIBRATED).said.dropped.ratio)
    assert rows["error ratio", "nhanes", model] == ["", "", f"{ratio:.3f}"]
    assert ("error ratio", "nhanes", f"{model}, direct_choice") in rows
    without = make_report(Results(report.runs, []))
    assert published_priors.finding(without.entries).rows == []
    assert published_priors.runs(without.entries) == []


def test_the_table_of_claims_on_the_page_is_computed(report):
    """docs/guides/priors-published.md has these numbers as the report gives them."""
    page = (REPOSITORY / "docs" / "guides" / "priors-published.md").read_text()
    rows = claimed(report.entries)
    models = ["o4-mini", "o3-mini", "qwen3-235b-a22b-fp8-tput", "gpt-4o", "meta-llama-3-70b"]

    def given(measure, model="o4-mini", name="nhanes", place=1):
        return rows[measure, name, model][place]

    crps = ", ".join(f"{float(given('CRPS ratio', m)):.2f}" for m in models)
    assert f"| {crps} |" in page
    for place in (0, 1):
        wins = [f"{100 * float(given(f'prior beats {n}', place=place)):.1f}" for n in (5, 30)]
        assert f"{wins[0]} and {wins[1]} %" in page
        wins = [f"{100 * float(given(f'posterior beats {n}', place=place)):.1f}" for n in (5, 30)]
        assert f"{wins[0]} and {wins[1]} %" in page
    first = given("in the first quarter"), given("the same with failures counted")
    assert f"o4-mini {first[0][1:]}, or {first[1][1:]} with failures counted" in page
    llama = [f"{float(given(m, 'meta-llama-3-8b')):.1f}" for m in ("CRPS ratio", "error ratio")]
    assert f"CRPS ratio {llama[0]} (19.17 in the tables), error ratio {llama[1]}" in page
    worth = ", ".join(
        f"{m.removesuffix('-a22b-fp8-tput')} {given('worth answers', m)}"
        for m in (models[0], models[2], models[1])
    )
    assert f"| {worth}, the others <5 |" in page
    others = ("gpt-4o", "meta-llama-3-70b", "meta-llama-3-8b")
    assert {given("worth answers", m) for m in others} == {"<5"}


def test_published_wins_of_imported_sets_stand_beside_runs_of_them(home, tmp_path, epidemia):
    """As of Glassdoor; here five NHANES variables in the same form have its name."""
    files = [
        REPOSITORY / "tests" / "data" / f"sample_{kind}.json" for kind in ("variables", "baselines")
    ]
    assert epidemia("quantities", "import", *files, "--name", "glassdoor").returncode == 0
    recorded(tmp_path, ["epidemia_prior_glassdoor"], model_args="kind=calibrated")
    shown = make_report(read_results([tmp_path]), with_published=True)
    rows = claimed(shown.entries)
    (run,) = shown.runs
    known = run.scores[Asked("epidemia_prior_glassdoor", "direct")].said
    mine = rows["prior beats 5", "glassdoor", run.name]
    assert mine == ["", "", f"{mean_of(known.dropped.wins, axis=0)[0]:.3f}"]
    assert rows["prior beats 5", "glassdoor", "o4-mini"] == ["0.370", "0.348", ""]
    (board,) = output.leaderboards(shown).values()
    board = "\n".join(" ".join(row) for row in board.rows)
    assert "o4-mini (published)" in board and "0.348" in board


def test_published_answers_stand_beside_what_was_asked_only(report):
    (entry,) = (e for e in report.entries if e.model == "gpt-4o")
    assert {asked.way for asked in entry.scores} == {"direct", "mean_variance"}
    assert entry.reference and entry.name == "gpt-4o (published)"
    assert published_priors.entries([Asked("epidemia_low_gss_x", "letters")]) == []


def test_ablations_are_paired_over_quantities(report):
    listed = ablations.differences(published_priors.runs(report.entries))
    said = {(one.one.model, one.says): one for one in listed}
    assert len(listed) == len(said) == 12
    differs = {"protocol", "system prompt", "temperature", "reasoning effort"}
    assert {one.differs for one in listed} == differs
    one = said["o4-mini", "reasoning effort: medium -> high"]
    d = one.other.known.judged.ratio - one.one.known.judged.ratio
    assert one.change.value == pytest.approx(d.mean())
    assert one.change.error == pytest.approx(error_of(d))
    # 28 of the 370 replies at high effort cannot be read; without them the sign is another.
    assert one.unread == pytest.approx((0, 28 / 370))
    assert round(one.change.value, 3) == 0.206 and round(one.where_read.value, 3) == -0.037
    # Asked for quantiles four times: a repeat that was not asked is no failure.
    quantiles = said["o4-mini", "protocol: direct -> quantile"].other.known
    assert quantiles.stated.a.shape == (74, 4) and quantiles.judged.answered.min() == 1


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
    entries = read_results([tmp_path]).entries
    # They are no longer compared as if they had been asked alike.
    assert len(entries) == 3
    table = printed(ablations.finding(ablations.runs_of(entries)))
    rows = {row[2]: row for row in table.rows}
    others = {f"protocol: direct -> {way}" for way in ("mean_variance", "direct_choice", "grid")}
    assert rows.keys() == {
        "temperature: 0.5 -> 1",
        "system prompt: base -> conservative",
        *others,
    }
    usual, warm = (entry.scores[Asked(NHANES, "direct")].said for entry in entries[:2])
    (warmer_off, samples, _), (usual_off, *_) = (
        loops(store.load(NHANES), known) for known in (warm, usual)
    )
    d = (warmer_off - usual_off) / samples[:, 0]
    assert rows["temperature: 0.5 -> 1"][5] == f"{d.mean():+.3f} ± {error_of(d):.3f}"
    # What was asked alike is alike.
    assert rows["protocol: direct -> mean_variance"][5] == "+0.000"


# Figures.


def test_figures_of_a_single_quantity_are_drawn(tmp_path_factory, tmp_path):
    """One quantity has no error between quantities: its marks stand without a line."""
    copied_run(tmp_path_factory, tmp_path, [NHANES], limit=5)
    report = make_report(read_results([tmp_path]))
    for name in ("wins", "quartiles", "uncertainty"):
        rows = figures.FIGURES[name].rows(report, None)
        values = [value for row in rows for value in row.values() if isinstance(value, float)]
        assert values and all(map(math.isfinite, values)), name
    drawn = pages.priors(report, {})["found"]
    assert len(drawn) == 3 and all("</svg>" in panel[1] for one in drawn for panel in one["panels"])


def test_a_figure_that_cannot_be_drawn_costs_itself_alone(report, tmp_path, monkeypatch, capsys):
    def broken(data):
        raise ValueError("no such scale")

    monkeypatch.setitem(charts.CHARTS, "wins", broken)
    drawn = {one["name"]: one for one in pages.priors(report, {})["found"]}
    why = "not drawn: how often stated priors beat N real answers (ValueError: no such scale)"
    assert drawn["wins"]["panels"] == [] and drawn["wins"]["says"] == why
    assert all("</svg>" in drawn[name]["panels"][0][1] for name in ("quartiles", "uncertainty"))
    assert why in capsys.readouterr().err
    with pytest.raises(EpidemiaError, match=r"wins cannot be drawn .*: ValueError: no such scale"):
        figures.save("wins", lambda: report, tmp_path / "wins.svg")
    assert not list(tmp_path.glob("*.svg"))


def test_numbers_that_are_none_are_drawn_as_none():
    row = {"model": "m", "quantity": "q", "difficulty": "easy", "stated": 1.0}
    rows = [{**row, "error": error} for error in (2.0, math.nan, math.inf)]
    assert "</svg>" in pages.drawn("uncertainty", "says", rows)["panels"][0][1]


def test_quantities_have_titles_and_not_codes():
    for task in store.available():
        quantities = store.load(task).quantities
        titles = [title_of(one) for one in quantities]
        assert len(set(titles)) == len(titles)
        for one, title in zip(quantities, titles, strict=True):
            assert title.startswith("The ") and "according to" not in title
            assert not re.search(r"[a-z][A-Z][a-z]|_|\b(base|easy|medium|hard)\b", title)
            assert all(each.phrase in title for each in one.conditions)


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
    read = read_results([tmp_path])
    assert [e.model for e in read.entries] == ["knows the truth (kind=truth)"]
    assert len(read.notes) == len(messages) == 12 + 10
    for path, message in messages.items():
        (note,) = [note for note in read.notes if str(path) in note]
        assert NHANES in note and re.search(message, note), (message, note)


def test_grids_are_kept_so_that_the_tables_have_the_very_metrics(runs, report):
    (path,) = (runs / CALIBRATED).rglob("results_*.json")
    row = json.loads(path.read_text())["results"][NHANES + "_grid"]
    shown = {
        row["metric"]: row["value"]
        for one in priors.findings(report.entries)
        for row in tidy(one)
        if (one.kind, row["group"]) == ("wins", f"{GROUP}_grid")
        if row["metric"] != "worth_samples"
    }
    assert len(shown) == 2 * len(SIZES)
    # Against 20 and 30 answers the quantities are left out that nobody can win.
    counted = {f"{of}beats_{size}" for of in ("", "posterior_") for size in (5, 10)}
    names = {metric: metric.replace("beats", "win_rate") for metric in counted}
    assert {metric: shown[metric] for metric in counted} == pytest.approx(
        {metric: row[f"{name},none"] for metric, name in names.items()}, abs=1e-9
    )


def test_infinite_metrics_count_as_not_known_and_do_not_end_the_report(runs, tmp_path):
    """As another version wrote them, of a reply that is none any more."""
    ratio, error, other = "error_ratio", "error_ratio_stderr", "crps_ratio"
    cases = {"error": [error], "ratio": [ratio], "other": [other], "both": [ratio, error]}
    for name, metrics in cases.items():

        def absurd(results, name=name, metrics=metrics):
            results["config"] |= {"model": "hf", "model_args": {"pretrained": name}}
            results["results"][NHANES] |= {f"{metric},none": math.inf for metric in metrics}

        rewritten(runs / CALIBRATED, tmp_path / name, absurd)
    read = read_results([tmp_path])
    for entry in read.entries:
        metrics, score = cases.pop(entry.model), entry.scores[Asked(NHANES, "direct")]
        (note,) = [note for note in read.notes if str(tmp_path / entry.model) in note]
        assert f"{NHANES}: {', '.join(metrics)} is infinite" in note
        # The share of wins stands, with its error where what was said can be read.
        assert 0 < score.value < 1 and math.isnan(score.error) == (ratio in metrics)
    assert not cases
    report = make_report(read)
    assert output.sections(report) and output.as_csv(report) and output.as_json(report)


def test_results_about_quantities_that_are_not_here_are_named(runs, tmp_path):
    def renamed(results):
        for part in ("results", "configs", "versions", "n-shot", "group_subtasks"):
            known = results[part]
            known["epidemia_prior_scf_7"] = known.get(NHANES, [])
            known["epidemia_low_nowhere_x"] = known.get(NHANES, [])

    path = rewritten(runs / "truth", tmp_path / "renamed", renamed)
    notes = "\n".join(read_results([tmp_path]).notes)
    assert notes.count(str(path)) == 2
    assert "epidemia_prior_scf_7: their quantities are not here. Make the set again with" in notes
    assert "epidemia_low_nowhere_x: this version" in notes
    assert read_results([runs]).notes == []


def test_a_damaged_truth_is_what_is_blamed(runs, tmp_path, monkeypatch):
    monkeypatch.setenv("EPIDEMIA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("lm_eval_epidemia.core.paths.home", lambda: tmp_path / "home")
    folder = store.built()
    shutil.copytree(store.paths.shipped_groundtruth() / "quantities", folder)
    draws = folder / "nhanes.draws.parquet"
    draws.write_bytes(draws.read_bytes()[:1000])
    shutil.copytree(runs / "truth", tmp_path / "run")
    read = read_results([tmp_path / "run"])
    (entry,) = read.entries
    assert entry.scores[Asked(NHANES, "direct")].said is None
    notes = "\n".join(read.notes)
    assert f"{NHANES}: tables" in notes and "its truth on this machine cannot be used" in notes
    assert str(draws) in notes and "not a result file" not in notes
    assert "another truth than" not in notes
    assert output.sections(make_report(read))


def test_sets_of_one_name_that_differ_are_not_compared(runs, tmp_path):
    shutil.copytree(runs / "truth", tmp_path / "truth")

    def other(results):
        results["configs"][NHANES]["metadata"]["truth"] = "0123456789ab"
        results["epidemia"]["replicates"][NHANES]["sample"] = f"{NHANES} 0123456789ab"

    rewritten(runs / KINDS[2], tmp_path / "other", other)
    read = read_results([tmp_path])
    (note,) = read.notes
    assert f"1 task ({NHANES}), whose answers come from another truth than the installed" in note
    assert "0123456789ab" in note and len({entry.protocol for entry in read.entries}) == 2


def test_what_was_said_of_another_truth_is_left_out_with_a_note(runs, tmp_path):
    def other(results):
        results["configs"][NHANES]["metadata"]["truth"] = "0123456789ab"

    rewritten(runs / "truth", tmp_path / "other", other)
    read = read_results([tmp_path])
    (entry,) = read.entries
    assert entry.protocol.truth == "0123456789ab"
    assert entry.scores[Asked(NHANES, "direct")].said is None
    assert "from another truth than the installed one" in read.notes[0]
    report = make_report(read, with_published=False)
    assert priors.findings(report.entries) == []
    assert report.standings[GROUP][entry.name].mean.value == 1


def test_without_what_was_said_the_leaderboard_stands(runs, tmp_path):
    rewritten(runs / CALIBRATED, tmp_path / "silent", lambda r: r["epidemia"].pop("said"))
    read = read_results([tmp_path])
    assert "are not in the file" in read.notes[0] and "4 tasks" in read.notes[0]
    assert output.of_priors(make_report(read), long=True) == []


def test_a_part_of_a_task_is_said_of_the_quantities_that_were_asked(tmp_path_factory, tmp_path):
    copied_run(tmp_path_factory, tmp_path, [NHANES], model_args="kind=calibrated", limit=10)
    (entry,) = read_results([tmp_path]).entries
    known = entry.scores[Asked(NHANES, "direct")].said
    assert [one.name for one in known.truth.quantities] == [
        one.name for one in store.load(NHANES).quantities[:10]
    ]
    assert known.stated.a.shape == (10, 5)
    assert entry.protocol.incomplete and entry.protocol.limit == "10"
    seen = numbers(priors.findings([entry]))
    one = seen["priors", "calibrated", GROUP, "", "beats 5"]
    score = entry.scores[Asked(NHANES, "direct")]
    assert (one.samples, one.value) == (10, pytest.approx(score.value))
    assert one.error == pytest.approx(score.error, rel=1e-3)


# What is shown.


def test_the_terminal_has_the_short_tables_first_and_the_long_one_on_demand(runs, report):
    short, long = (
        output.sections(report),
        command("report", runs, "--published", "--effects", "--wide"),
    )
    titles = [one.title for one in short]
    expected = "Share of quantities on which|Priors: how often better than N|Priors: error compared"
    expected += "|Priors: where the truth lies|Priors: do wider priors have|Priors: chosen families"
    expected += "|Priors: how often better than 5 real answers, by part|Priors: what the asking"
    expected += "|Priors: published numbers"
    for title in expected.split("|"):
        assert any(one.startswith(title) for one in titles) and title in long, title
    assert not any(one.startswith("Priors by difficulty") for one in titles)
    assert "Priors by difficulty, family and survey" in long and "difficulty: hard (20)" in long


def test_a_narrow_terminal_has_whole_names_and_no_empty_rows(monkeypatch, capsys):
    from lm_eval_epidemia.old.report.sections import Section

    from lm_eval_epidemia.cli import printing

    monkeypatch.setattr(printing, "terminal_width", lambda: 100)
    wide = ["0.123 ± 0.045" + " " * 20] * 2
    columns = ("model", "asked", "who", "N = 5", "N = 10", "worth N", "at least")
    names = ["gpt-4o (published)", "plain"]
    worth = ["12.1" + " " * 26, ">30"]
    rows = [[*names, "prior", *wide, *worth], [*names, "posterior", *wide, "", ""]]
    printing.show_sections([Section("wins", columns, rows, "", 3)])
    shown = capsys.readouterr().out
    first, second = shown.partition("worth N")[::2]
    assert "posterior" in first and " prior " in second and "posterior" not in second

    columns = ("model", "task", "differs in", "error ratio", "then", "difference")
    model, differs = (
        "qwen3-235b-a22b-fp8-tput (published)",
        "system prompt: base -> superforecaster",
    )
    row = [model, NHANES, differs, *["1.249 ± 0.123"] * 3]
    printing.show_sections([Section("variants", columns, [row], "", 3)])
    shown = capsys.readouterr().out
    assert shown.count(NHANES) == shown.count(model) == 3
    assert shown.count("1.249 ± 0.123") == 3


def test_names_that_leave_no_room_fold_and_numbers_never(capsys):
    """Once the model, its base and the group took all of 100 columns, and no number was shown."""
    from lm_eval_epidemia.old.report.sections import Section

    from lm_eval_epidemia.cli import printing

    columns = ("model", "tuned from", "group", "before", "after", "difference")
    row = ["SmolLM2-135M-Instruct +answers-12000-lora", "SmolLM2-135M-Instruct (dtype=float32)"]
    row += ["epidemia_low_likelihood", "0.0", "55.7", "+55.7 ± 1.4"]
    for width in (100, 80):
        printing.show_sections([Section("tuning", columns, [row], "", 3)], width)
        shown = capsys.readouterr().out
        assert all(f" {number} " in shown for number in row[3:])
        assert max(map(len, shown.splitlines())) <= width


@pytest.mark.parametrize("model", ["\u6a21\u578b" * 9, "e\u0301" * 36])
def test_letters_of_two_columns_and_of_none_are_measured(model, capsys):
    """Nine times two Chinese letters are 36 columns, as are 36 letters with accents apart."""
    from lm_eval_epidemia.old.report.sections import Section

    from lm_eval_epidemia.cli import printing

    row = [model, *["1.249 ± 0.123"] * 3]
    section = Section("wide", ("model", "before", "after", "difference"), [row])
    # 36 and three times 13, 3 between any two and 4 around all.
    width = 36 + 3 * 13 + 3 * 3 + 4
    assert printing._widths(section, width) == [36, 13, 13, 13]
    printing.show_sections([section], width)
    shown = capsys.readouterr().out
    assert " ".join(shown.splitlines()[4].split()) == " ".join(row)
    printing.show_sections([section], width - 1)
    shown = capsys.readouterr().out
    assert max(map(cell_len, shown.splitlines())) <= width - 1


def test_columns_of_a_table_have_names_of_their_own(report):
    for section in output.of_priors(report, long=True):
        assert len(set(section.columns)) == len(section.columns), section.title


def test_programs_get_every_number(report):
    rows = list(csv.DictReader(io.StringIO(output.as_csv(report))))
    where = ("wins", "prior / N = 30", "gpt-4o (published)", GROUP)
    keys = ("kind", "name", "model", "group")
    (row,) = (row for row in rows if tuple(row[key] for key in keys) == where)
    # 10 of the 69 that 30 answers leave to be won.
    assert float(row["value"]) == pytest.approx(10 / 69) and row["metric"] == "beats_30"
    assert 0 < float(row["low"]) < 10 / 69 < float(row["high"])
    assert row["reference"] == "True"
    ablation = [row for row in rows if row["kind"] == "ablation"]
    assert len(ablation) == 3 + 12 and {row["metric"] for row in ablation} == {"error_ratio"}
    worth = [row for row in rows if row["metric"] == "worth_samples" and row["kind"] == "wins"]
    assert all(0 <= float(row["value"]) <= 31 for row in worth) and worth
    parsed = json.loads(output.as_json(report))
    assert len(parsed["rows"]) == len(rows)
    assert r"\caption{Priors: where the truth lies" in output.as_latex(output.sections(report))


def test_figures_are_drawn(report, tmp_path):
    pytest.importorskip("altair")
    for name in ("wins", "quartiles", "uncertainty", "leaderboard"):
        text = figures.save(name, lambda: report, tmp_path / f"{name}.svg").read_text()
        # In lists, what stands in brackets is below the name.
        assert "kind=calibrated" in text and "gpt-4o" in text and "(published)" in text, name


def test_rows_of_figures_are_those_of_the_tables(report, seen):
    rows = prior_rows.win_rows(report)
    where, keys = (
        ("gpt-4o (published)", 20, GROUP, "alone"),
        ("model", "size", "group", "what"),
    )
    (one,) = (row for row in rows if tuple(row[key] for key in keys) == where)
    assert one["score"] == seen["wins", "gpt-4o", GROUP, "prior", "N = 20"].value
    assert 0 <= one["low"] < one["score"] < one["high"] <= 1
    marks = prior_rows.uncertainty_rows(report)
    assert sum(row["model"] == "gpt-4o (published)" for row in marks) == 74
    assert min(row["error"] for row in marks) == 0.01
    quarters = [r for r in prior_rows.quartile_rows(report) if r["group"] == GROUP]
    for model in {row["model"] for row in quarters}:
        assert sum(r["score"] for r in quarters if r["model"] == model) == pytest.approx(1)


def test_figures_of_priors_say_what_they_need(report):
    nobody = report._replace(entries=[])
    for made in (prior_rows.win_rows, prior_rows.quartile_rows, prior_rows.uncertainty_rows):
        with pytest.raises(EpidemiaError, match="run epidemia_prior"):
            made(nobody)
    assert output.of_priors(nobody, long=True) == []


def test_system_prompts_matter_where_they_are_given():
    assert WAYS["direct"].system_prompts and not WAYS["grid"].system_prompts
