"""The report on one screen: verdict first, ten models in 25 lines, the rest on demand."""

import csv
import io
import json
import re
import shutil

import pytest
from conftest import REPOSITORY
from rich.cells import cell_len
from test_report import AGE_SEX, COCAINE, HEROIN, write
from test_runs import MMLU, SMALL, run_as
from typer.testing import CliRunner

from lm_eval_epidemia.benchmarks import members
from lm_eval_epidemia.cli import app
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.old.findings.leaderboard import headline, make_report
from lm_eval_epidemia.old.findings.summary import summary
from lm_eval_epidemia.old.report import output
from lm_eval_epidemia.old.report.screen import cut_names, lines
from lm_eval_epidemia.results.results import read_results

LOW, RESULTS = [COCAINE, HEROIN], REPOSITORY / "docs" / "results"


def run(*arguments):
    done = CliRunner().invoke(app, ["report", *map(str, arguments)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def a_row(score, mass=0.9, seen=1.0):
    metrics = {"score": score, "score_stderr": 2.0, "score_population": score}
    metrics |= {"choice_mass": mass, "seen": seen}
    return {f"{metric},none": value for metric, value in metrics.items()}


def many(folder, number, length=20, tasks=(*LOW, AGE_SEX, f"{COCAINE}_likelihood")):
    """Models of which each is a little better than the next, with MMLU."""
    for place in range(number):
        name = f"org/Model-{place:02d}-{'x' * (length - 9)}"
        rows = {task: a_row(90.0 - place) for task in tasks}
        config = {"model": "choice-hf", "model_args": {"pretrained": name, "dtype": "bfloat16"}}
        balanced = {"chat_template": "{{ x }}", "metadata": {"orderings": "balanced"}}
        write(folder / f"{place}", {**rows, **MMLU}, config=config, **balanced)


def rows_of(text):
    """The rows of the table, under its rule."""
    _, _, below = text.partition("───\n")
    return re.findall(r"^  (\S+.*)$", below, flags=re.MULTILINE)


def test_one_model_is_a_sentence_and_a_table(tmp_path):
    for name, row in (("low", {COCAINE: a_row(3.1), HEROIN: a_row(3.3)}), ("mmlu", MMLU)):
        write(tmp_path / name, row, config=SMALL)
    said = run(tmp_path)
    sentence, table = said.stdout.split("\n\n")
    lines = table.splitlines()
    start = next(place for place, line in enumerate(lines) if line.lstrip().startswith("model"))
    title, (head, _, model, averages, guesses, *more) = lines[0], lines[start:]
    assert re.fullmatch(
        r"small: 3\.2 of 100 on single conditions \(2 of 63 tasks\); knowing only averages scores "
        r"[\d.]+, guessing 0\.",
        " ".join(sentence.splitlines()),
    )
    assert title.startswith("Score, 0 to 100 (as close as another sample of the survey) ± standard")
    assert head.split() == ["model", "epidemia_low", "choice_mass", "mmlu", "(acc)"]
    assert re.fullmatch(r"  small +3\.2 +0\.90 +0\.6500", model)
    assert averages.startswith("  knows averages only (kind=mean) ")
    assert guesses.startswith("  guesses uniformly (kind=uniform) ") and guesses.endswith(" 0.0")
    assert more[0].startswith("choice_mass: mean total probability of the answer letters")
    assert more[-1].startswith("Next: ") and len(more) <= 3
    # What stands in its row is what is said in the sentence.
    assert f"scores {averages.split()[-1]}, guessing" in sentence


@pytest.mark.parametrize(("number", "length"), [(1, 12), (3, 60), (10, 12), (10, 60)])
def test_ten_models_are_at_most_25_lines_of_100_columns(tmp_path, number, length):
    many(tmp_path, number, length)
    # Another run of each, and respondents that were run.
    for place in range(number):
        name = f"org/Model-{place:02d}-{'x' * (length - 9)}"
        write(tmp_path / f"more{place}", {COCAINE: a_row(1.0, seen=0.1)}, model=name)
    for kind in ("mean", "truth", "uniform"):
        config = {"model": "epidemia-baseline", "model_args": {"kind": kind}}
        write(tmp_path / kind, {COCAINE: a_row(50.0)}, config=config)
    said = run(tmp_path).stdout
    printed = said.splitlines()
    assert len(printed) <= 25, said
    assert max(map(len, printed)) <= 100, said
    assert printed[-1].startswith("Next: ") or printed[-2].startswith("Next: ")
    assert sum("Model-" in row or "…" in row[:40] for row in rows_of(said)) >= number
    assert f"{number} more run" in said
    assert said.count(" of 100 on single conditions (2 of") == (number if number <= 3 else 1)


@pytest.mark.parametrize("width", [60, 100])
def test_several_benchmarks_and_ten_long_names_fit_in_25_lines_too(tmp_path, width):
    many(tmp_path, 10, 60)
    folders = [tmp_path, *(RESULTS / name for name in ("interventions", "priors/grid"))]
    report = make_report(read_results(folders))
    printed = [line.text for line in lines(summary(report), width)]
    assert len(printed) <= 25 and max(map(len, printed)) <= width
    said = "\n".join(printed)
    assert "More tables (" in said and "--section leaderboard" in said
    alone = lines(summary(make_report(read_results([tmp_path]))), width)
    assert len(alone) <= 25 and max(len(line.text) for line in alone) <= width
    assert sum("Model-" in line.text for line in alone) >= 10


def test_a_sentence_on_priors_says_what_they_are_held_against():
    """Among all results there is no room for their table, which is named."""
    said = run(RESULTS).stdout
    assert "More tables (quick, intervention, prior)" in said and len(said.splitlines()) <= 25
    assert (
        "stated priors beat five real answers 0.15 (epidemia_prior_grid); knows averages only: "
        "0.68."
    ) in " ".join(said.split())


def test_long_settings_are_folded_while_there_are_lines(tmp_path):
    config = {"model_args": {"pretrained": "x/small", "dtype": "bfloat16", "revision": "r" * 30}}
    more = {"chat_template": "{{ x }}", "metadata": {"orderings": "balanced", "wording": "bare"}}
    write(tmp_path, dict.fromkeys(LOW, a_row(3.0)), config={"model": "choice-hf", **config}, **more)
    said = run(tmp_path).stdout
    assert "…" not in said and "bfloat16" in said and len(said.splitlines()) <= 25


def test_wide_letters_take_two_columns(tmp_path):
    for name in ("模型甲", "plain"):
        write(tmp_path / name, dict.fromkeys(LOW, a_row(3.0)), model=f"x/{name}")
    rows = [row for row in rows_of(run(tmp_path).stdout) if row.split()[0] in ("模型甲", "plain")]
    assert len({cell_len(row) for row in rows}) == 1 and len({len(row) for row in rows}) == 2


def test_a_union_stands_before_its_parts_and_in_the_sentence(tmp_path):
    union, parts = "epidemia_high_standin", ["epidemia_high", "epidemia_extra"]
    tasks = [task for task, _ in members(union)]
    write(tmp_path, dict.fromkeys(tasks, a_row(3.0)), model="x/small")
    report = make_report(read_results([tmp_path]))
    assert report.columns == [union, *parts]
    (sentence,) = summary(report).sentences
    assert sentence.startswith("small: 3 of 100 on two to five conditions, with stand-ins; knowing")
    write(tmp_path / "low", dict.fromkeys(LOW, a_row(3.0)), model="x/small")
    report = make_report(read_results([tmp_path]))
    assert report.columns == ["epidemia_low", union, *parts]
    assert headline(report.columns) == ["epidemia_low", union]
    assert headline(parts[1:]) == parts[1:]


def test_names_are_cut_where_they_are_alike():
    names = ["Base-7B-Instruct", *(f"Base-7B-Instruct +{x}-lora" for x in ("answers", "notes"))]
    assert cut_names(names, 20) == [
        "Base-7B-Instruct",
        "Base-7B…answers-lora",
        "Base-7B-I…notes-lora",
    ]
    assert cut_names(["a-long-name-of-one", "other"], 10) == ["a-long-na…", "other"]


def test_files_and_models_without_scores_are_named(tmp_path):
    write(tmp_path / "good", {COCAINE: a_row(3.0)}, model="x/good")
    write(tmp_path / "none", {COCAINE: {"score,none": "N/A"}}, model="x/none")
    broken = tmp_path / "results_broken.json"
    broken.write_text("{")
    said = run(tmp_path).stdout
    assert "1 file could not be read: results_broken.json (" in said
    assert "without a score (NaN): none" in " ".join(said.split())
    broken.unlink()
    shutil.rmtree(tmp_path / "good")
    assert "without a score (NaN): none" in run(tmp_path).stdout


def test_of_forty_models_the_ten_best_stand_and_the_rest_are_counted(tmp_path):
    many(tmp_path, 40, tasks=LOW)
    report = make_report(read_results([tmp_path]))
    printed = [line.text for line in lines(summary(report))]
    assert len(printed) <= 25 and max(map(len, printed)) <= 100
    said, names = "\n".join(printed), [f"Model-{place:02d}" for place in range(40)]
    assert [name for name in names if name in said] == names[:10]
    assert "30 more models: --full" in said
    (whole,) = output.leaderboards(report).values()
    assert [row[0][:8] for row in whole.rows] == names


def test_a_pipe_is_as_wide_as_a_screen_unless_it_is_told_otherwise(tmp_path):
    many(tmp_path, 2, length=60)
    assert max(map(len, run(tmp_path, "--full").stdout.splitlines())) <= 100
    assert max(map(len, run(tmp_path, "--full", "--wide").stdout.splitlines())) > 100
    assert "No room for" in run(tmp_path).stdout and "No room" not in run(tmp_path, "--wide").stdout


def test_parts_of_the_report_are_printed_alone(tmp_path):
    write(tmp_path, {COCAINE: a_row(3.0), "epidemia_low_zzz": {"score,none": 1.0}}, config=SMALL)
    said = run(tmp_path)
    notes = run(tmp_path, "--section", "notes").stdout.splitlines()
    assert f"{len(notes)} notes: --section notes" in said.stdout and said.stderr == ""
    assert any("epidemia_low_zzz" in note for note in notes)
    assert run(tmp_path, "--full").stderr.splitlines() == [f"note: {note}" for note in notes]
    part = run(tmp_path, "--section", "population").stdout
    assert part.startswith("Score against the population") and "Score, 0 to 100 (" not in part
    with pytest.raises(EpidemiaError, match=r"expected leaderboard, population, .*notes"):
        run(tmp_path, "--section", "slices")


def test_who_does_not_answer_is_marked_last_and_unranked(tmp_path):
    masses = {"good": 0.9, "mute": 0.05, "bad": 0.8}
    for model, mass in masses.items():
        score = {"good": 60.0, "mute": 99.0, "bad": 10.0}[model]
        tasks = {task: a_row(score, mass) for task in LOW}
        write(tmp_path / model, tasks, model=f"x/{model}")
    said = run(tmp_path).stdout
    models = [row for row in rows_of(said) if row.split()[0] in masses]
    assert [row.split()[0] for row in models] == ["good", "bad", "mute"]
    assert "does not answer" in models[-1] and "0.05" in models[-1]
    assert "does not answer" not in models[0] and "mute does not answer" in said
    report = make_report(read_results([tmp_path]))
    standings = report.standings["epidemia_low"]
    assert standings["mute"].best is None and standings["good"].among == 2
    (board,) = summary(report).boards
    assert [row.muted for row in board.finding.rows][:3] == [False, False, True]
    (greyed,) = [line for line in lines(summary(report)) if line.muted]
    assert greyed.text.split()[0] == "mute"
    assert "does not answer" in run(tmp_path, "--full").stdout


def test_of_runs_in_several_wordings_the_usual_stands_for_the_model(tmp_path):
    for wording, score, stamp in (("", 30.0, "2026-01-01"), ("item", 5.0, "2026-02-01")):
        metadata = {"wording": wording} if wording else {}
        rows = {task: a_row(score) for task in LOW}
        write(tmp_path / f"of{wording}", rows, config=SMALL, stamp=stamp, metadata=metadata)
    assert ": 30 of 100 on" in run(tmp_path).stdout


def test_who_writes_nothing_that_can_be_read_does_not_answer_either(tmp_path):
    for model, score, read in (("good", 60.0, 0.9), ("fair", 20.0, 0.8), ("mute", 99.0, 0.04)):
        rows = {
            f"{task}_stated": {
                key: value for key, value in a_row(score).items() if "choice_mass" not in key
            }
            | {"answered,none": read}
            for task in LOW
        }
        write(tmp_path / model, rows, model=f"x/{model}")
    said = run(tmp_path).stdout
    assert "mute does not answer: only 4% of its replies can be read." in said
    assert "Next: read mute's replies in its samples (--log_samples)." in said
    ranked = make_report(read_results([tmp_path])).standings["epidemia_low_stated"]
    assert {name.split()[0] for name, of in ranked.items() if of.best} == {"good", "fair"}


@pytest.mark.parametrize("template", ["", "{{ messages }}"])
def test_whether_a_model_answers_is_judged_in_each_group(tmp_path, template):
    """Together the letters have .08 and .5 on average, which would be no cause for a word."""
    rows = {COCAINE: a_row(30.0, mass=0.5), AGE_SEX: a_row(20.0, mass=0.08)}
    write(tmp_path, rows, config=SMALL, **({"chat_template": template} if template else {}))
    said = " ".join(run(tmp_path).stdout.split())
    assert "it does not answer on two to five conditions (choice_mass 0.08)." in said
    assert re.search(r" 30\.0 20\.0 † 0\.08", said)
    _, _, advice = said.partition("Next: small does not answer with letters: ")
    tried = "" if template else "--apply_chat_template if it is an instruct model, or "
    assert advice == f"{tried}ask epidemia_high_stated."


def test_every_group_says_of_how_many_tasks_and_choice_mass_is_of_letters(tmp_path):
    likelihood = {f"{task}_likelihood": a_row(20.0, mass=0.5) for task in LOW}
    write(tmp_path, {COCAINE: a_row(30.0, mass=0.9), HEROIN: a_row(30.0, mass=0.7), **likelihood})
    said = " ".join(run(tmp_path, "--wide").stdout.split())
    assert "epidemia_low: single condition (such as age) (2 of 63 tasks)" in said
    assert "epidemia_low_likelihood: single condition, likelihood (2 of 63 tasks)" in said
    assert re.search(r"some-model 30\.0 20\.0 0\.80", said)


def test_a_setting_has_one_value(tmp_path):
    write(tmp_path, {COCAINE: a_row(30.0)})
    with pytest.raises(EpidemiaError, match="limit=none,limit=10: a run has one value"):
        run(tmp_path, "--where", "limit=none,limit=10")


def test_a_reference_is_asked_what_the_run_was_asked(tmp_path):
    """Beside a run cut otherwise stands what the respondent gets on those prompts."""
    write(tmp_path / "whole", {task: a_row(30.0) for task in LOW}, model="x/whole")
    limited = {"model_args": {"pretrained": "x/cut"}, "limit": 2.0}
    weights = store.load(COCAINE).weights
    cut = {COCAINE: a_row(20.0, seen=float(weights[:2].sum()))}
    write(tmp_path / "cut", cut, config=limited)
    both = run(tmp_path).stdout
    (row,) = [row for row in rows_of(both) if row.startswith("cut ")]
    beside = re.search(r"20\.0 \(1 of 2 tasks\) vs (\d+) ", row)
    assert beside and "vs n: the score for knowing" in " ".join(both.split())
    # Alone, it stands in the row of the respondent.
    alone = run(tmp_path / "cut").stdout
    (averages,) = [row for row in rows_of(alone) if row.startswith("knows averages only")]
    assert f"{float(averages.split()[-1]):.0f}" == beside[1] and " vs " not in alone
    (whole,) = [row for row in rows_of(both) if row.startswith("knows averages only")]
    assert whole.split()[-1] != averages.split()[-1]


def test_who_was_asked_most_leads_and_only_who_was_asked_alike_is_ranked(tmp_path):
    tasks = {"whole": LOW, "few": [HEROIN], "better": LOW, "limited": LOW}
    limited = {"model_args": {"pretrained": "x/limited"}, "limit": 2.0}
    scores = {"whole": 20.0, "few": 100.0, "better": 30.0, "limited": 90.0}
    for model, several in tasks.items():
        cut = model == "limited"
        config = limited if cut else {"model_args": {"pretrained": f"x/{model}"}}
        rows = {task: a_row(scores[model], seen=0.5 if cut else 1.0) for task in several}
        write(tmp_path / model, rows, config=config)
    said = run(tmp_path).stdout
    rows = [row.split()[0] for row in rows_of(said) if row.split()[0] in tasks]
    assert rows == ["better", "whole", "few", "limited"]
    assert said.startswith("better: 30 of 100") and "(1 of 2 tasks)" in said
    verdicts = [line.split("  ")[-1].strip() for line in rows_of(said)[:4]]
    assert verdicts[2] == "not compared"
    assert "Only runs with the same prompts and task version are ranked together." in said


def test_runs_are_chosen_and_those_left_out_are_counted(tmp_path):
    for dtype, score in (("float32", 10.0), ("bfloat16", 30.0)):
        write(tmp_path / dtype, {COCAINE: a_row(score)}, config=run_as(dtype=dtype))
    assert "1 more run with other settings: --full" in run(tmp_path).stdout
    said = run(tmp_path, "--where", "dtype=bfloat16").stdout
    assert "30.0" in said and "10.0" not in said and "more run" not in said
    assert "1 of 2" in run(tmp_path, "--where", "dtype=bfloat16", "--section", "notes").stdout


def test_neighbours_are_said_to_be_better_or_not(tmp_path):
    for model, score in (("good", (90.0, 1.0)), ("bad", (10.0, 1.0)), ("worst", (10.0, 1.0))):
        write(tmp_path / model, dict.fromkeys(LOW, score), model=f"x/{model}")
    said = run(tmp_path).stdout
    assert (
        "good is shown better in these tasks than bad; bad is not shown better than worst" in said
    )
    write(tmp_path / "fourth", dict.fromkeys(LOW, (5.0, 1.0)), model="x/fourth")
    said = run(tmp_path).stdout
    assert [row.split("  ")[-1].strip() for row in rows_of(said)][:3] == [
        "better here",
        "not shown",
        "better here",
    ]


def test_what_was_asked_in_another_way_is_said_with_what_differs(tmp_path):
    write(tmp_path / "cut", {COCAINE: a_row(20.0, seen=0.2)}, config={**SMALL, "limit": 10.0})
    first = run(tmp_path).stdout.partition("\n")[0]
    assert first == "small: 20 of 100 on single conditions (1 of 63 tasks), under --limit 10."
    write(tmp_path / "whole", {COCAINE: a_row(30.0)}, model="x/whole")
    said = " ".join(run(tmp_path).stdout.split())
    assert "whole was asked in another way than small (the default, not limit 10)" in said
    write(tmp_path / "other", {HEROIN: a_row(30.0)}, model="x/other")
    shutil.rmtree(tmp_path / "cut")
    said = " ".join(run(tmp_path).stdout.split())
    assert "other and whole were asked no common task" in said
    # As another way, whatever else differs.
    shutil.rmtree(tmp_path / "other")
    way = {f"{COCAINE}_likelihood": a_row(30.0)}
    write(tmp_path / "way", way, model="x/way", metadata={"wording": "bare"})
    assert "were asked no common task" in run(tmp_path).stdout


def test_respondents_have_no_rank_among_models_and_say_only_what_differs(tmp_path):
    balanced = {"metadata": {"orderings": "balanced"}}
    write(tmp_path / "model", dict.fromkeys(LOW, a_row(10.0)), config=SMALL, **balanced)
    for kind, more in (("mean", balanced), ("truth", {})):
        config = {"model": "epidemia-baseline", "model_args": {"kind": kind}}
        write(tmp_path / kind, dict.fromkeys(LOW, a_row(50.0)), config=config, **more)
    report = make_report(read_results([tmp_path]))
    # One that was asked only what no model was has no row.
    config["model_args"] = {"kind": "zero_one"}
    write(tmp_path / "other", {f"{COCAINE}_likelihood": a_row(5.0)}, config=config)
    assert "commoner answer" not in run(tmp_path).stdout
    standings = report.standings["epidemia_low"].values()
    assert {(place.best, place.among) for place in standings} == {(None, 1)}
    (board,) = summary(report).boards
    settings = {row.cells["model"]: row.cells.get("settings", "") for row in board.finding.rows}
    assert settings["small"] == "balanced orderings"
    assert settings["knows averages only (kind=mean)"] == ""
    # Alone, they are ranked.
    shutil.rmtree(tmp_path / "model")
    noisy = {"model": "epidemia-baseline", "model_args": {"kind": "noisy"}}
    write(tmp_path / "noisy", dict.fromkeys(LOW, a_row(9.0)), config=noisy)
    report = make_report(read_results([tmp_path]))
    assert any(place.best for place in report.standings["epidemia_low"].values())


def test_means_over_a_part_of_a_group_say_so_though_all_are_over_the_same(tmp_path):
    for name, score in (("one", 40.0), ("two", 30.0)):
        write(tmp_path / name, {COCAINE: a_row(score)}, model=f"x/{name}")
    said = " ".join(run(tmp_path).stdout.split())
    assert "one: 40 of 100 on single conditions (1 of 63 tasks);" in said
    assert "epidemia_low: single condition (such as age) (1 of 63 tasks) model" in said


def test_published_scores_do_not_lead_respondents_that_were_run(tmp_path):
    config = {"model": "epidemia-baseline", "model_args": {"kind": "noisy", "noise": 0.3}}
    write(tmp_path, {COCAINE: a_row(5.0)}, config=config)
    said = run(tmp_path, "--published").stdout
    assert said.startswith("knows the truth with noise (kind=noisy, noise=0.3): 5 of 100"), said
    assert rows_of(said)[0].startswith("knows the truth with noise")


def test_runs_that_have_no_row_are_counted_for_those_whose_they_are(tmp_path):
    write(tmp_path / "model", {COCAINE: a_row(5.0)}, config=SMALL)
    for seen, limit in ((1.0, {}), (0.1, {"limit": 10.0})):
        config = {"model": "epidemia-baseline", "model_args": {"kind": "mean"}, **limit}
        write(tmp_path / f"{seen}", {COCAINE: a_row(5.0, seen=seen)}, config=config)
    assert "1 more run with other settings (knows averages only" in run(tmp_path).stdout


def test_published_scores_say_what_they_were_asked(tmp_path):
    write(tmp_path, dict.fromkeys(LOW, a_row(10.0)), config=SMALL)
    said = " ".join(run(tmp_path, "--published").stdout.split())
    assert "Published: reference implementation; other wording and vintages." in said


def test_a_file_that_lacks_versions_or_settings_is_said(tmp_path):
    write(tmp_path, {COCAINE: (40.0, 3.0)}, versions={}, config=SMALL)
    (note,) = read_results([tmp_path]).notes
    assert "the file lacks the version or settings of 1 task (" in note and COCAINE in note


@pytest.mark.parametrize("format", ["csv", "json"])
def test_a_part_is_of_tables_alone(tmp_path, format):
    says = f"--section pair selects tables, and --format {format} prints every part"
    with pytest.raises(EpidemiaError, match=says):
        run(tmp_path / "nowhere", "--section", "pair", "--format", format)


def test_of_more_than_20_runs_asked_alike_csv_and_json_pair_neighbours(tmp_path):
    """Of 20 runs 20 * 19 / 2 pairs; of 21 the 20 neighbours, which a note says."""
    says = "21 runs were asked in the same way: ranks use all pairs of them, but only neigh"
    for number, pairs in ((20, 190), (21, 20)):
        many(tmp_path / f"{number}", number, tasks=[COCAINE])
        done = run(tmp_path / f"{number}", "--format", "csv")
        rows = [row for row in csv.DictReader(io.StringIO(done.stdout)) if row["kind"] == "pair"]
        assert len(rows) == pairs and (says in done.stderr) == (number > 20)
    data = json.loads(run(tmp_path / "21", "--format", "json").stdout)
    assert any(says in note for note in data["notes"])
    assert sum(row["kind"] == "pair" for row in data["rows"]) == 20


def test_results_with_the_same_settings_that_differ_are_marked(tmp_path):
    write(tmp_path, dict.fromkeys(LOW, (40.0, 1.0)), stamp="2026-01-01", date=1.0)
    write(tmp_path, dict.fromkeys(LOW, (43.1, 1.0)), stamp="2026-01-02", date=2.0)
    said = " ".join(run(tmp_path).stdout.split())
    assert "43.1 ± 0.7 *" in said
    assert "*: 2 results with the same settings differ by 3.1: the newest one counts." in said
    # The same file twice is no other result.
    write(tmp_path, dict.fromkeys(LOW, (43.1, 1.0)), stamp="2026-01-03", date=3.0)
    write(tmp_path, dict.fromkeys(LOW, (43.1, 1.0)), stamp="2026-01-01", date=1.0)
    assert "differ by" not in run(tmp_path).stdout


def test_scores_that_are_not_those_of_their_distances_are_marked(tmp_path):
    write(tmp_path / "edited", {COCAINE: {**a_row(95.0), "l1,none": 0.3}}, model="x/edited")
    said = " ".join(run(tmp_path).stdout.split())
    assert "edited: 95 of 100 on single conditions (1 of 63 tasks), which do not match" in said
    assert "edited 95.0 ‡ " in said and "‡: scores that do not match their distances" in said
    notes = run(tmp_path, "--section", "notes").stdout
    assert "1 task do not match" in notes and f"({COCAINE}; in results_2026-01-01.json)" in notes
    # In other orderings, and of the first prompts of a task, as well; nobody is better by them.
    seen = float(store.load(COCAINE).weights[:2].sum())
    edited = {COCAINE: {**a_row(95.0), "l1,none": 0.3}}
    limited = {COCAINE: {**a_row(95.0, seen=seen), "l1,none": 0.3}}
    config = {"model_args": {"pretrained": "x/few"}, "limit": 2.0}
    write(tmp_path / "few", limited, config=config)
    balanced = {"metadata": {"orderings": "balanced"}}
    for name, row in (("balanced", edited), ("honest", {COCAINE: a_row(10.0)})):
        write(tmp_path / name, row, model=f"x/{name}", **balanced)
    said = run(tmp_path).stdout
    assert sum(" 95.0 ‡" in row for row in rows_of(said)) == 3 and "better" not in said
    assert run(tmp_path, "--full").stdout.count("95.0 ‡") >= 3
    done = CliRunner().invoke(app, ["compare", "balanced", "honest", str(tmp_path)])
    assert "balanced (orderings=balanced): the scores of 1 task do not match" in done.stderr
