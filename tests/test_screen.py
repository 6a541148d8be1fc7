"""The report on one screen: verdict first, ten models in 25 lines, the rest on demand."""

import json
import re
import shutil

import pandas as pd
import pytest
from conftest import REPOSITORY
from report_parts import AGE_SEX, COCAINE, HEROIN, MMLU, SMALL, command, run_as, said, table, write
from rich.cells import cell_len

from lm_eval_epidemia.benchmarks import members
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.headline import headline, headline_groups
from lm_eval_epidemia.findings.leaderboard import leaderboard_table
from lm_eval_epidemia.report.screen import screen
from lm_eval_epidemia.results.read import read_results

LOW, RESULTS = [COCAINE, HEROIN], REPOSITORY / "docs" / "results"


def run(*arguments):
    return command("report", *arguments)


def flat(*arguments):
    """The screen as one line."""
    return " ".join(run(*arguments).split())


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


def ranks(folder):
    found = table("leaderboard", folder)
    return dict(zip(found["model"], found["rank"].fillna(""), strict=True))


def test_one_model_is_a_sentence_and_a_table(tmp_path):
    write(tmp_path, {COCAINE: a_row(3.1), HEROIN: a_row(3.3)}, config=SMALL)
    sentence, shown = run(tmp_path).split("\n\n")
    assert re.fullmatch(
        r"small: 3\.2 of 100 on single conditions \(2 of 63 tasks\); knowing only averages scores "
        r"[\d.]+, guessing 0\.",
        " ".join(sentence.split()),
    )
    assert shown.startswith("Score, 0 to 100 (as close as another sample of the survey) ± standard")
    model, averages, guesses, *_ = rows_of(shown)
    assert re.fullmatch(r"small +3\.2 +0\.90", model)
    assert averages.startswith("knows averages only (kind=mean) ")
    assert re.fullmatch(r"guesses uniformly \(kind=uniform\) +0\.0", guesses)
    assert "choice mass: mean total probability of the answer letters" in shown
    assert shown.splitlines()[-1].startswith("Next: ")
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
    shown = run(tmp_path)
    printed = shown.splitlines()
    assert len(printed) <= 25 and max(map(cell_len, printed)) <= 100, shown
    assert "Next: " in "".join(printed[-2:])
    assert len({*re.findall(r"Model-\d\d", shown)}) >= min(number, 10)
    assert f"{number} more run" in shown
    assert shown.count(" of 100 on single conditions (2 of") == (number if number <= 3 else 1)


@pytest.mark.parametrize("width", [60, 100])
def test_several_benchmarks_and_ten_long_names_fit_in_25_lines_too(tmp_path, width):
    many(tmp_path, 10, 60)
    folders = [tmp_path, *(RESULTS / name for name in ("interventions", "priors/grid"))]
    for several in (folders, folders[:1]):
        shown = screen(headline(read_results(several)), width)
        assert len(shown.splitlines()) <= 25 and max(map(cell_len, shown.splitlines())) <= width
        assert ("More tables (" in shown) == (several == folders)


def test_a_sentence_on_priors_says_what_they_are_held_against():
    """Among all results there is no room for their table, which is named."""
    shown = run(RESULTS)
    assert "More tables (quick, intervention, prior)" in shown and len(shown.splitlines()) <= 25
    told = "stated priors beat five real answers 0.15 (epidemia_prior_grid); knows averages only: "
    assert f"{told}0.68." in flat(RESULTS / "priors")


def test_wide_letters_take_two_columns(tmp_path):
    for name in ("模型甲", "plain"):
        write(tmp_path / name, dict.fromkeys(LOW, a_row(3.0)), model=f"x/{name}")
    rows = [row for row in rows_of(run(tmp_path)) if row.split()[0] in ("模型甲", "plain")]
    assert len({cell_len(row) for row in rows}) == 1 and len({len(row) for row in rows}) == 2


def test_a_union_stands_before_its_parts_and_in_the_sentence(tmp_path):
    union, parts = "epidemia_high_standin", ["epidemia_high", "epidemia_extra"]
    write(tmp_path, dict.fromkeys([task for task, _ in members(union)], a_row(3.0)), model="small")
    assert [*dict.fromkeys(leaderboard_table(read_results([tmp_path]))["group"])] == [union, *parts]
    said_so = "small: 3 of 100 on two to five conditions, with stand-ins; knowing"
    assert flat(tmp_path).startswith(said_so)
    assert headline_groups(["epidemia_low", union, *parts]) == ["epidemia_low", union]
    assert headline_groups(parts[1:]) == parts[1:]


def test_files_and_models_without_scores_are_named(tmp_path):
    write(tmp_path / "good", {COCAINE: a_row(3.0), "epidemia_low_zzz": {"score,none": 1.0}})
    write(tmp_path / "none", {COCAINE: {"score,none": "N/A"}}, model="x/none")
    (tmp_path / "results_broken.json").write_text("{")
    notes = json.loads(run(tmp_path, "--show", "notes", "--format", "json"))["notes"]
    told = " ".join(f"{note['run']}: {note['text']}" for note in notes)
    assert "results_broken.json is not a result file" in told and "epidemia_low_zzz" in told
    assert "none: no score (NaN) in 1 task" in told
    assert f"{len(notes)} notes: --show notes" in run(tmp_path)
    # Beside a table they go to stderr.
    assert "results_broken.json" in said("report", tmp_path, "--show", "leaderboard").stderr
    shutil.rmtree(tmp_path / "good")
    assert "Next: --show notes" in run(tmp_path)
    write(tmp_path / "alone", MMLU)
    assert run(tmp_path / "alone").startswith("No epidemia task is in these results. Next: --show")


def test_of_forty_models_the_ten_best_stand_and_the_rest_are_counted(tmp_path):
    many(tmp_path, 40, tasks=LOW)
    shown, names = run(tmp_path), [f"Model-{place:02d}" for place in range(40)]
    assert len(shown.splitlines()) <= 25 and max(map(len, shown.splitlines())) <= 100
    assert [name for name in names if name in shown] == names[:10]
    assert "30 more models: --show leaderboard" in shown
    found = table("leaderboard", tmp_path)
    assert [model[:8] for model in found[found["kind"] == "run"]["model"]] == names


def test_a_pipe_is_as_wide_as_a_screen_unless_it_is_told_otherwise(tmp_path):
    many(tmp_path, 2, length=90)
    shown, wide = (run(tmp_path, "--show", "leaderboard", *more) for more in ([], ["--wide"]))
    assert max(map(len, shown.splitlines())) <= 100 < max(map(len, wide.splitlines()))
    assert "No room for" not in wide


def test_who_does_not_answer_is_marked_last_and_unranked(tmp_path):
    masses = {"good": 0.9, "mute": 0.05, "bad": 0.8}
    for model, mass in masses.items():
        score = {"good": 60.0, "mute": 99.0, "bad": 10.0}[model]
        write(tmp_path / model, {task: a_row(score, mass) for task in LOW}, model=f"x/{model}")
    rows = [row for row in rows_of(run(tmp_path)) if row.split()[0] in masses]
    assert [row.split()[0] for row in rows] == ["good", "bad", "mute"]
    assert ["†" in row for row in rows] == [False, False, True] and "0.05" in rows[-1]
    assert "mute does not answer" in flat(tmp_path)
    found = ranks(tmp_path)
    assert found["mute"] == "does not answer" and found["good"].endswith("of 2")


def test_of_runs_in_several_wordings_the_usual_stands_for_the_model(tmp_path):
    for wording, score, date in (("", 30.0, 1.0), ("item", 5.0, 2.0)):
        metadata = {"wording": wording} if wording else {}
        rows = {task: a_row(score) for task in LOW}
        write(tmp_path / f"of{wording}", rows, config=SMALL, date=date, metadata=metadata)
    assert ": 30 of 100 on" in run(tmp_path)


def test_who_writes_nothing_that_can_be_read_does_not_answer_either(tmp_path):
    for model, score, read in (("good", 60.0, 0.9), ("fair", 20.0, 0.8), ("mute", 99.0, 0.04)):
        row = {key: x for key, x in a_row(score).items() if "choice_mass" not in key}
        rows = {f"{task}_stated": {**row, "answered,none": read} for task in LOW}
        write(tmp_path / model, rows, model=f"x/{model}")
    shown = flat(tmp_path)
    # Of three models each has a sentence.
    assert "mute does not answer: only 4% of its replies can be read." in shown
    assert "Next: read mute's replies in its samples (--log_samples)." in shown
    ranked = {model for model, rank in ranks(tmp_path).items() if rank.endswith("of 2")}
    assert ranked == {"good", "fair"}


@pytest.mark.parametrize("template", ["", "{{ messages }}"])
def test_whether_a_model_answers_is_judged_in_each_group(tmp_path, template):
    """Together the letters have .08 and .5 on average, which would be no cause for a word."""
    rows = {COCAINE: a_row(30.0, mass=0.5), AGE_SEX: a_row(20.0, mass=0.08)}
    write(tmp_path, rows, config=SMALL, **({"chat_template": template} if template else {}))
    shown = flat(tmp_path)
    assert "it does not answer on two to five conditions (choice_mass 0.08)." in shown
    assert re.search(r" 30\.0 (0\.08 )?20\.0 † ?(0\.08)?", shown)
    _, _, advice = shown.partition("Next: small does not answer with letters: ")
    tried = "" if template else "--apply_chat_template if it is an instruct model, or "
    assert advice == f"{tried}ask epidemia_high_stated."


def test_every_group_says_of_how_many_tasks_and_choice_mass_is_of_letters(tmp_path):
    likelihood = {f"{task}_likelihood": a_row(20.0, mass=0.5) for task in LOW}
    write(tmp_path, {COCAINE: a_row(30.0, mass=0.9), HEROIN: a_row(30.0, mass=0.7), **likelihood})
    shown = flat(tmp_path, "--wide")
    assert "epidemia_low: single condition (such as age) (2 of 63 tasks)" in shown
    assert "epidemia_low_likelihood: single condition, likelihood (2 of 63 tasks)" in shown
    assert re.search(r"some-model 30\.0 (0\.80 20\.0|20\.0 0\.80)", shown)


def test_a_reference_is_asked_what_the_run_was_asked(tmp_path):
    """Beside a run cut otherwise stands what the respondent gets on those prompts."""
    write(tmp_path / "whole", {task: a_row(30.0) for task in LOW}, model="x/whole")
    limited = {"model_args": {"pretrained": "x/cut"}, "limit": 2.0}
    weights = store.load(COCAINE).weights
    cut = {COCAINE: a_row(20.0, seen=float(weights[:2].sum()))}
    write(tmp_path / "cut", cut, config=limited)
    (row,) = [row for row in rows_of(run(tmp_path)) if row.startswith("cut ")]
    beside = re.search(r"20\.0 +1 of 2 tasks +(\d+) ", row)
    assert beside and "vs: the score for knowing averages only, on the same" in flat(tmp_path)
    # Alone, it stands in the row of the respondent.
    alone, whole = (
        next(row for row in rows_of(run(folder)) if row.startswith("knows averages only"))
        for folder in (tmp_path / "cut", tmp_path)
    )
    assert f"{float(alone.split()[-1]):.0f}" == beside[1] and " vs " not in run(tmp_path / "cut")
    assert whole.split()[-1] != alone.split()[-1]


def test_who_was_asked_most_leads_and_only_who_was_asked_alike_is_ranked(tmp_path):
    tasks = {"whole": LOW, "few": [HEROIN], "better": LOW, "limited": LOW}
    scores = {"whole": 20.0, "few": 100.0, "better": 30.0, "limited": 90.0}
    for model, several in tasks.items():
        config = {"model_args": {"pretrained": f"x/{model}"}}
        config |= {"limit": 2.0} if model == "limited" else {}
        seen = 0.5 if model == "limited" else 1.0
        rows = {task: a_row(scores[model], seen=seen) for task in several}
        write(tmp_path / model, rows, config=config)
    shown = run(tmp_path)
    rows = [row for row in rows_of(shown) if row.split()[0] in tasks]
    assert [row.split()[0] for row in rows] == ["better", "whole", "few", "limited"]
    assert shown.startswith("better: 30 of 100") and "1 of 2 tasks" in shown
    assert rows[2].split("  ")[-1].strip() == "not compared" and ranks(tmp_path)["limited"] == ""


def test_runs_are_chosen_and_those_left_out_are_counted(tmp_path):
    for dtype, score in (("float32", 10.0), ("bfloat16", 30.0)):
        write(tmp_path / dtype, {COCAINE: a_row(score)}, config=run_as(dtype=dtype))
    assert "1 more run with other settings (small): --show leaderboard" in flat(tmp_path)
    shown = run(tmp_path, "--where", "dtype=bfloat16")
    assert "30.0" in shown and "10.0" not in shown and "more run" not in shown
    assert "1 run of 2" in run(tmp_path, "--where", "dtype=bfloat16", "--show", "notes")


def test_neighbours_are_said_to_be_better_or_not(tmp_path):
    for model, score in (("good", 90.0), ("bad", 10.0), ("worst", 10.0)):
        write(tmp_path / model, dict.fromkeys(LOW, (score, 1.0)), model=f"x/{model}")
    verdicts = "good is shown better in these tasks than bad; bad is not shown better than worst"
    assert verdicts in flat(tmp_path)
    write(tmp_path / "fourth", dict.fromkeys(LOW, (5.0, 1.0)), model="x/fourth")
    than_next = [row.split("  ")[-1].strip() for row in rows_of(run(tmp_path))][:3]
    assert than_next == ["better here", "not shown", "better here"]


def test_what_was_asked_in_another_way_is_said_with_what_differs(tmp_path):
    write(tmp_path / "cut", {COCAINE: a_row(20.0, seen=0.2)}, config={**SMALL, "limit": 10.0})
    first = run(tmp_path).partition("\n")[0]
    assert first == "small: 20 of 100 on single conditions (1 of 63 tasks), under --limit 10."
    write(tmp_path / "whole", {COCAINE: a_row(30.0)}, model="x/whole")
    told = "whole was asked in another way than small (the default, not limit 10)"
    assert told in flat(tmp_path)


def test_respondents_have_no_rank_among_models(tmp_path):
    balanced = {"metadata": {"orderings": "balanced"}}
    write(tmp_path / "model", dict.fromkeys(LOW, a_row(10.0)), config=SMALL, **balanced)
    for kind, more in (("mean", balanced), ("truth", {})):
        config = {"model": "epidemia-baseline", "model_args": {"kind": kind}}
        write(tmp_path / kind, dict.fromkeys(LOW, a_row(50.0)), config=config, **more)
    # One that was asked only what no model was has no row.
    config = {"model": "epidemia-baseline", "model_args": {"kind": "zero_one"}}
    write(tmp_path / "other", {f"{COCAINE}_likelihood": a_row(5.0)}, config=config)
    assert "commoner answer" not in run(tmp_path)
    assert {rank for rank in ranks(tmp_path).values() if " of " in rank} == set()
    # Alone, they are ranked, lead, and are compared.
    shutil.rmtree(tmp_path / "model")
    noisy = {"model": "epidemia-baseline", "model_args": {"kind": "noisy"}}
    write(tmp_path / "noisy", dict.fromkeys(LOW, a_row(9.0)), config=noisy)
    assert any(" of 2" in rank for rank in ranks(tmp_path).values())
    assert flat(tmp_path).startswith("knows")


def test_published_scores_do_not_lead_and_say_what_they_were_asked(tmp_path):
    config = {"model": "epidemia-baseline", "model_args": {"kind": "noisy", "noise": 0.3}}
    write(tmp_path / "noisy", {COCAINE: a_row(5.0)}, config=config)
    for _ in range(2):
        shown = run(tmp_path, "--published")
        assert shown.startswith("knows the truth with noise (kind=noisy, noise=0.3): 5 of 100")
        assert rows_of(shown)[0].startswith("knows the truth with noise")
        assert "published" in rows_of(shown)[1] and "tuned" not in shown
    notes = run(tmp_path, "--published", "--show", "notes", "--format", "json")
    assert "reference implementation; other wording and vintages" in notes


def test_a_file_that_lacks_versions_or_settings_is_said(tmp_path):
    write(tmp_path, {COCAINE: (40.0, 3.0)}, versions={}, config=SMALL)
    (note,) = read_results([tmp_path]).notes["text"]
    assert "the file lacks the version or settings of 1 task (" in note and COCAINE in note


@pytest.mark.parametrize(("number", "pairs"), [(20, 190), (21, 20)])
def test_of_more_than_20_runs_asked_alike_neighbours_are_paired(tmp_path, number, pairs):
    many(tmp_path, number, tasks=[COCAINE])
    assert len(table("pairs", tmp_path)) == pairs


def test_results_with_the_same_settings_that_differ_are_marked(tmp_path):
    for stamp, score in (("1", 40.0), ("2", 43.1)):
        write(tmp_path, dict.fromkeys(LOW, (score, 1.0)), stamp=stamp, date=float(stamp))
    shown = flat(tmp_path)
    assert "43.1 ± 0.7 *" in shown
    assert "*: other results with the same settings differ: the newest one counts." in shown
    assert table("leaderboard", tmp_path)["differ"].iloc[0] == pytest.approx(3.1)
    # The same file twice is no other result.
    write(tmp_path, dict.fromkeys(LOW, (43.1, 1.0)), stamp="1", date=1.0)
    assert " *" not in run(tmp_path)


def test_scores_that_are_not_those_of_their_distances_are_marked(tmp_path):
    edited = {COCAINE: {**a_row(95.0), "l1,none": 0.3}}
    write(tmp_path / "edited", edited, model="x/edited")
    shown = flat(tmp_path)
    assert "edited: 95 of 100 on single conditions (1 of 63 tasks), which do not match" in shown
    assert "edited 95.0 ‡ " in shown and "‡: scores that do not match their distances" in shown
    notes = " ".join(run(tmp_path, "--show", "notes").split())
    assert "1 task do not match" in notes and f"({COCAINE}; in results_2026-01-01.json)" in notes
    # In other orderings, and of the first prompts of a task, as well; nobody is better by them.
    seen = float(store.load(COCAINE).weights[:2].sum())
    limited = {COCAINE: {**a_row(95.0, seen=seen), "l1,none": 0.3}}
    config = {"model_args": {"pretrained": "x/few"}, "limit": 2.0}
    write(tmp_path / "few", limited, config=config)
    balanced = {"metadata": {"orderings": "balanced"}}
    for name, row in (("balanced", edited), ("honest", {COCAINE: a_row(10.0)})):
        write(tmp_path / name, row, model=f"x/{name}", **balanced)
    shown = run(tmp_path)
    assert sum(" ‡" in row for row in rows_of(shown)) == 3 and "better" not in shown
    found = table("leaderboard", tmp_path)
    assert pd.Series(found["changed"]).fillna(False).sum() == 3
    told = said("compare", "balanced", "honest", tmp_path).stderr
    assert "balanced" in told and "the scores of 1 task do not match" in told


def test_an_unknown_finding_is_answered_with_those_that_are(tmp_path):
    with pytest.raises(EpidemiaError, match=r"no finding 'surve' \(nearest: survey"):
        run(tmp_path, "--show", "surve")
    assert "survey: Score by survey." in run(tmp_path, "--show", "help")
