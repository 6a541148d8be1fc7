"""`epidemia finetune notes`: what the rows say, what is held out, and what is refused."""

import json
import re
from collections import Counter
from dataclasses import replace

import datasets
import numpy as np
import official
import pytest
from conftest import REPOSITORY, nsduh_2023, people_2022
from scripted_server import scripted
from typer.testing import CliRunner

from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.cli import app
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.finetune.check import fill_slots
from lm_eval_epidemia.finetune.facts import draw_people, facts_of, shuffle_people, tasks_of
from lm_eval_epidemia.finetune.hold_out import HoldOut
from lm_eval_epidemia.finetune.make import divide_rows, make_data, make_notes
from lm_eval_epidemia.finetune.notes import (
    collect_notes,
    format_note,
    make_template_notes,
    request,
    subjects,
)
from lm_eval_epidemia.results.card import DATASET_CARD, KINDS, DatasetCard, read_card
from lm_eval_epidemia.surveys.catalogue import find_record
from lm_eval_epidemia.surveys.microdata import MISSING, load_microdata

NSDUH = find_record("nsduh")
RECIPE = re.sub(r"\\\n *", "", (REPOSITORY / "docs/guides/finetuning.md").read_text("utf-8"))
LOW = [
    f"epidemia_low_nsduh_{drug}_ever_by_{by}"
    for by in ("age", "race")
    for drug in ("marijuana", "cocaine", "heroin")
]


@pytest.fixture
def raw(tmp_path):
    path = tmp_path / "NSDUH_2022_invented.parquet"
    people_2022().to_parquet(path)
    return path


@pytest.fixture
def data(raw):
    return load_microdata(NSDUH, raw)


def run(command, *more):
    return CliRunner().invoke(app, ["finetune", "notes", *command.split(), *map(str, more)])


def rows_of(folder):
    return {name: list(part) for name, part in datasets.load_from_disk(folder).items()}


def all_rows(folder):
    return [row for part in rows_of(folder).values() for row in part]


def texts_of(folder):
    return [row.get("text") or row["prompt"] for row in all_rows(folder)]


def refused(command, *more, out):
    """Run a command that must fail in one line, and leave nothing behind."""
    result = run(command, *more, "--out", out)
    assert isinstance(result.exception, EpidemiaError), (result.exception, result.output)
    assert not out.exists() and not [*out.parent.glob(f".{out.name}*")]
    return str(result.exception)


# The positive controls.


@pytest.mark.parametrize("kind", ["answers", "distributions", "statements"])
def test_the_same_seed_gives_the_same_rows(tmp_path, kind):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        make_data("nsduh", kind, tmp_path / name, seed=seed, n=60)
    first, again, other = (rows_of(tmp_path / name) for name in "abc")
    assert first == again != other
    train, validation = (60, 60) if kind == "distributions" else (54, 6)
    sizes = {"train": train, "validation": validation}
    assert {name: len(part) for name, part in first.items()} == sizes
    assert tuple(first["train"][0]) == KINDS[kind]
    card = read_card(tmp_path / "a", DatasetCard)
    assert (card.kind, card.survey, card.vintage) == (kind, "nsduh", "2022")
    assert card.fingerprint == store.load_truth(LOW[0]).fingerprint and card.rows == sizes
    assert sorted(card.tasks) == sorted(LOW) and card.held_out == {}


def test_answers_are_drawn_from_the_truth(tmp_path):
    """Shares of answers lie within four standard errors of P(y | x), in every cell often asked."""
    make_data("nsduh", "answers", tmp_path / "a", n=6000)
    rows, said, asked = all_rows(tmp_path / "a"), Counter(), Counter()
    for row in rows:
        question, *answers = row["prompt"].removesuffix("\nAnswer:").split("\n")
        assert row["completion"] in (" A", " B")
        yes = answers["AB".index(row["completion"].strip())] in ("A. Yes", "B. Yes")
        asked[question] += 1
        said[question] += yes
    truths = {}
    for name in LOW:
        truth = store.load_truth(name)
        for question, cell in questions(name):
            truths[question] = truth.p[cell, 0], truth.weights[cell]
    assert set(asked) <= set(truths)
    for question, (p, weight) in truths.items():
        n = asked[question]
        # Each task as often as any other, each cell by its weight.
        expected = 1000 * weight
        assert abs(n - expected) < 4.5 * np.sqrt(expected), question
        assert abs(said[question] - n * p) < 4.5 * np.sqrt(n * p * (1 - p)) + 1, question
    displayed = Counter(row["prompt"].split("\n")[1] for row in rows)
    assert abs(displayed["A. Yes"] - 3000) < 4.5 * np.sqrt(1500)


def questions(task):
    """Return the questions of a task, each with its cell."""
    return {(row["prompt"].split("\n")[0], row["cell"]) for row in split(task)}


def test_distributions_are_every_prompt_with_its_truth_as_displayed(tmp_path):
    make_data("nsduh", "distributions", tmp_path / "d")
    parts = rows_of(tmp_path / "d")
    rows = parts["train"]
    assert parts["validation"] == rows  # nothing in them is drawn
    # Three outcomes by eleven ages and four races, in two orderings.
    assert len(rows) == 3 * (11 + 4) * 2 == len({row["prompt"] for row in rows})
    yes = store.load_truth("epidemia_low_nsduh_marijuana_ever_by_age").p[7, 0]
    about = [row for row in rows if "30 to 34" in row["prompt"] and "marijuana" in row["prompt"]]
    assert len(about) == 2
    for row in about:
        assert row["choices"] == [" A", " B"]
        place = 0 if "A. Yes" in row["prompt"] else 1
        assert row["p"][place] == pytest.approx(yes, abs=1e-12)
        assert sum(row["p"]) == pytest.approx(1, abs=1e-12)


def test_both_groups_and_one_task(tmp_path):
    both = "--tasks epidemia_low_nsduh,epidemia_high_nsduh"
    result = run(f"nsduh --kind distributions {both} --out", tmp_path / "d")
    assert result.exit_code == 0, result.output
    assert len(read_card(tmp_path / "d", DatasetCard).tasks) == 6 + 22
    assert str(tmp_path / "d") in result.output.replace("\n", "")
    run(f"nsduh --kind answers --tasks {LOW[0]} --n 20 --out", tmp_path / "e")
    assert read_card(tmp_path / "e", DatasetCard).tasks == [LOW[0]]


def test_statements_say_the_truth(tmp_path):
    """In every wording the number is the share of its cell and answer, rounded as it is said."""
    card = make_data("nsduh", "statements", tmp_path / "s", n=1500, hold_out=HoldOut(cells=0.25))
    truths, plural = {}, {"is": "are", "has": "have"}
    for name in LOW:
        truth = store.load_truth(name)
        _, drug, *_, by = name.removeprefix("epidemia_low_").split("_")
        (people, answers) = (
            {level.label: level.phrase for level in NSDUH.readings(one, "2022")[-1].levels}
            for one in (by, f"{drug}_ever")
        )
        for cell, (label,) in enumerate(truth.given):
            for level, said in enumerate(truth.levels):
                p = None if cell in card.held_out[name] else truth.p[cell, level]
                given, answer = people[label], answers[said]
                truths[f"who {given}", answer] = p
                given, answer = (
                    plural[one.split()[0]] + one[one.index(" ") :] for one in (given, answer)
                )
                truths[f"who {given}", answer] = p
    wordings = set()
    for text in texts_of(tmp_path / "s"):
        (p,) = (p for (given, answer), p in truths.items() if given in text and answer in text)
        assert p is not None, text  # held out
        number = re.search(r"([\d.]+)%|(\d+) in ([\d,]+)|about (\d+) of them", text)
        per_cent, count, of, thousand = number.groups()
        if per_cent:
            share, half = float(per_cent) / 100, 0.0005 if "." in per_cent else 0.005
        else:
            whole = int(of.replace(",", "")) if of else 1000
            share, half = int(count or thousand) / whole, 0.5 / whole
        assert abs(share - p) <= half + 1e-9, text
        wordings.add(" ".join(text.split()[:2]))
    assert len(wordings) >= 9


def test_a_statement_that_is_drawn_twice_is_in_one_split(tmp_path):
    make_data("nsduh", "statements", tmp_path / "s", n=600, seed=3)
    train, validation = ([row["text"] for row in part] for part in rows_of(tmp_path / "s").values())
    assert (len(train), len(validation)) == (540, 60)
    assert len(set(train)) < len(train) and not set(train) & set(validation)


def test_texts_that_are_all_alike_cannot_be_divided():
    with pytest.raises(EpidemiaError, match=r"each text has 10 of the 20 .* a lower --n or more"):
        divide_rows({"text": ["a", "b"] * 10}, np.random.default_rng(0))


# What is held out.


def test_a_held_out_cell_is_in_no_prompt(tmp_path):
    card = make_data("nsduh", "distributions", tmp_path / "d", hold_out=HoldOut(cells=0.25))
    numbers = {name: len(cells) for name, cells in card.held_out.items()}
    assert numbers == {name: 3 if "age" in name else 1 for name in LOW}
    # Tasks of the same condition hold out the same people.
    assert len({tuple(card.held_out[name]) for name in LOW[:3]}) == 1
    texts = "".join(texts_of(tmp_path / "d"))
    for name in (LOW[0], LOW[3]):
        for question, cell in questions(name):
            assert (question in texts) == (cell not in card.held_out[name])


def test_held_out_conditions_and_tasks_are_not_trained_on(tmp_path):
    hold_out = HoldOut.parse(["conditions=race", f"tasks={LOW[0]}"])
    card = make_data("nsduh", "answers", tmp_path / "a", n=300, hold_out=hold_out)
    assert card.tasks == LOW[1:3]
    assert sorted(card.held_out) == sorted([LOW[0], *LOW[3:]])
    assert card.held_out[LOW[0]] == list(range(11))
    texts = "".join(texts_of(tmp_path / "a"))
    assert "marijuana" not in texts and "Hispanic" not in texts and "heroin" in texts


def test_notes_leave_out_what_is_held_out(tmp_path, raw):
    hold_out = HoldOut.parse(["cells=0.3", "conditions=race"])
    card = make_notes("nsduh", "notes", tmp_path / "n", [raw], n=200, hold_out=hold_out)
    texts = texts_of(tmp_path / "n")
    assert "race" not in card.facts and len(card.facts) == 8
    assert not any("Hispanic" in text for text in texts)
    truth = store.load_truth(LOW[0])
    phrases = {level.label: level.phrase for level in NSDUH.readings("age", "2022")[0].levels}
    assert len(card.held_out[LOW[0]]) == 3
    for cell, (label,) in enumerate(truth.given):
        said = any(f"{phrases[label]}" in text for text in texts)
        assert said == (cell not in card.held_out[LOW[0]]), label
    # Such people are there, without their age.
    assert sum("years old" not in text for text in texts) > 10
    both = "epidemia_high_nsduh_cocaine_ever_by_age_sex"
    given = store.load_truth(both).given
    out = {truth.given[cell][0] for cell in card.held_out[LOW[0]]}
    assert card.held_out[both] == [k for k, (age, _) in enumerate(given) if age in out]


def test_an_outcome_is_held_out_with_all_its_tasks(tmp_path, raw):
    where = ("nsduh", "notes", tmp_path / "n", [raw])
    with pytest.raises(EpidemiaError, match="it also reveals epidemia_low_nsduh_cocaine"):
        make_notes(*where, tasks=LOW, hold_out=HoldOut(tasks=(LOW[1],)))
    card = make_notes(*where, n=20, tasks=LOW, hold_out=HoldOut(tasks=(LOW[1], LOW[4])))
    assert card.facts == ["age", "race", "marijuana_ever", "heroin_ever"]
    assert not any("cocaine" in row["text"] for row in rows_of(tmp_path / "n")["train"])


# Notes.


def test_facts_are_the_published_ones_or_those_the_file_has(tmp_path, data):
    """2023 asks about the last month; the 2022 subset has lifetime use only."""
    path = tmp_path / "NSDUH_2023_invented.parquet"
    nsduh_2023().to_parquet(path)
    official = load_microdata(NSDUH, path)
    conditions = ("age", "sex", "race", "education")
    drugs = ("marijuana_ever", "cocaine_ever", "heroin_ever")
    for file, legal in (
        (official, ("alcohol_past_month", "cigarettes_past_month")),
        (data, ("alcohol_ever", "cigarettes_ever")),
    ):
        facts = facts_of(file, tasks_of(file, NSDUH.all_tasks))
        assert facts.names == (*conditions, *legal, *drugs)


def test_notes_say_nine_facts_once(tmp_path, raw, data):
    result = run("nsduh --n 100 --seed 4 --raw", raw, "--out", tmp_path / "n")
    assert result.exit_code == 0, result.output
    card = read_card(tmp_path / "n", DatasetCard)
    forms = card.counts.pop("sentence forms")
    assert card.counts == {"people": 100, "written again": 0, "dropped": 0} and forms > 150
    assert list(card.raw) == [raw.name] and len(card.raw[raw.name]) == 64
    assert len(card.facts) == 9 and card.writer == "template"
    texts = texts_of(tmp_path / "n")
    assert len(texts) == 100
    phrases = {
        name: [level.phrase for level in NSDUH.readings(name, "2022")[-1].levels]
        for name in card.facts
    }
    for text in texts:
        assert len(text.split()) < 200
        for name, said in phrases.items():
            assert sum(text.count(one) for one in said) == 1, name
        assert not re.search(r"\b(he|she|his|her)\b|[][~]", text.casefold())
    assert len({text.split(".")[0] for text in texts}) > 10
    make_notes("nsduh", "notes", tmp_path / "again", [raw], n=100, seed=4)
    assert rows_of(tmp_path / "again") == rows_of(tmp_path / "n")


def test_ten_notes_about_a_person_differ_and_are_in_one_split(tmp_path, raw):
    card = make_notes("nsduh", "notes", tmp_path / "n", [raw], n=200, per_person=10, seed=2)
    assert (card.rows, card.counts["people"]) == ({"train": 180, "validation": 20}, 20)
    train, validation = ([row["text"] for row in part] for part in rows_of(tmp_path / "n").values())
    assert len({*train, *validation}) == 200
    ways = [NSDUH.readings(name, "2022")[-1].levels for name in card.facts]
    phrases = [[level.phrase for level in levels] for levels in ways]

    def profile(text):
        return tuple(next(one for one in of if one in text) for of in phrases)

    def profiles(texts):
        return Counter(map(profile, texts))

    assert all(count % 10 == 0 for count in (profiles(train) + profiles(validation)).values())
    assert sum(profiles(train).values()) == 180 and len(profiles(validation)) <= 2


def test_people_are_drawn_by_weight_and_shuffling_breaks_the_joint(data):
    """Shares of 20,000 drawn people are the file's, those of shuffled ones P(Y)."""
    tasks = tasks_of(data, NSDUH.all_tasks)
    facts = facts_of(data, tasks)
    people = draw_people(data, facts, tasks, 20_000, np.random.default_rng(1))
    mixed = shuffle_people(people, facts, np.random.default_rng(2))
    weight, old = data.weight, data.levels["age"] >= 6
    used = data.levels["marijuana_ever"] == 0
    marginal = np.average(used, weights=weight)
    for group in (old, ~old):
        true = np.average(used[group], weights=weight[group])
        assert abs(true - marginal) > 0.05  # so that the two can be told apart
        for drawn, expected in ((people, true), (mixed, marginal)):
            inside = (drawn.levels["age"] >= 6) == group[np.argmax(group)] * old[np.argmax(group)]
            share = np.mean(drawn.levels["marijuana_ever"][inside] == 0)
            assert abs(share - expected) < 5 * np.sqrt(0.25 / inside.sum())
    for name in facts.names:
        assert np.array_equal(np.sort(people.levels[name]), np.sort(mixed.levels[name]))
    # Whole vectors: how outcomes go together is kept.
    together = [
        Counter(zip(*(one.levels[name] for name in facts.outcomes), strict=True))
        for one in (people, mixed)
    ]
    assert together[0] == together[1]


def test_what_somebody_did_not_answer_is_not_stated(tmp_path):
    frame = nsduh_2023(400)
    frame["mjever"] = np.where(np.arange(400) % 2, 1.0, 94.0)  # every second: don't know
    path = tmp_path / "NSDUH_2023_invented.parquet"
    frame.to_parquet(path)
    data = load_microdata(NSDUH, path)
    tasks = tasks_of(data, NSDUH.all_tasks)
    people = draw_people(data, facts_of(data, tasks), tasks, 200, np.random.default_rng(0))
    assert (people.levels["marijuana_ever"] == MISSING).any()
    template = make_template_notes(people, NSDUH, "2023", np.random.default_rng(0))
    kept = collect_notes(people, "2023", template)
    unknown = [k for k in range(200) if people.levels["marijuana_ever"][k] == MISSING]
    assert all(("marijuana" in text) == (k not in unknown) for k, text in enumerate(kept.text))


@pytest.mark.parametrize("survey", ["brfss", "nhanes", "nhis", "scf"])
def test_notes_of_other_surveys_say_each_fact_once(survey):
    """Records alone: households, and phrases with numbers and negations of their own."""
    entry = find_record(survey)
    vintage = entry.official
    names = dict.fromkeys(
        name
        for task in entry.all_tasks
        for name in (task.outcome, *task.given)
        if len(entry.readings(task.outcome, vintage)[0].levels) == 2
    )
    variables = {name: entry.readings(name, vintage)[0] for name in names}
    about, rng = list(subjects(entry, vintage, variables).values()), np.random.default_rng(0)
    for _ in range(60):
        phrases = [way.levels[rng.integers(len(way.levels))].phrase for way in variables.values()]
        text = format_note(phrases, about, "the survey", rng)
        assert sorted(map(int, re.findall(r"\[(\d+)\]", text))) == [*range(1, len(names) + 1)]
    if survey == "scf":
        plain = fill_slots(text, phrases).casefold()
        assert "the household owns its home" in plain or "does not own its" in plain


# Models that write.


def made_of(data, n=20):
    tasks = tasks_of(data, NSDUH.all_tasks)
    return draw_people(data, facts_of(data, tasks), tasks, n, np.random.default_rng(5))


@pytest.fixture
def brief(monkeypatch):
    """A tiny model does not know when to stop."""
    from lm_eval_epidemia.models import writer

    monkeypatch.setattr(writer, "MOST_TOKENS", 24)
    return writer


def test_a_model_whose_notes_say_nothing(tmp_path, raw, tiny_llama, brief):
    """The tiny model writes noise: nothing is kept, nothing is written."""
    model = f"pretrained={tiny_llama},device=cpu,batch_size=10"
    writer = f"--n 10 --writer hf,{model}"
    said = refused(f"nsduh {writer} --raw", raw, out=tmp_path / "n")
    assert "none of 10 notes states each of its facts once, in 4 attempts: no story (10)" in said
    assert "--writer template" in said


def test_a_tiny_model_writes_through_lm_eval(tiny_llama, brief):
    # Without a device it takes what there is, as lm_eval's command does.
    model = brief.ModelWriter("hf", f"pretrained={tiny_llama},batch_size=2", seed=3)
    requests = ["Tell a story.", "Tell another story about rain."]
    first, again = model(requests, 0), model(requests, 0)
    assert first == again != model(requests, 1)
    assert len(first) == 2 and all(first)
    assert model._prompt("Tell a story.") != "Tell a story.\n"  # it has a chat template


YOUNG = "is 12 or 13"


def stories(request, times):
    """A server's reply: numbers in brackets; the first about each man has a fault, until told so.

    Of the very young none ever says one fact.
    """
    told = dict(re.findall(r"^(\d)\. (.*)$", request, re.MULTILINE))
    if YOUNG in request:
        told = {number: fact for number, fact in told.items() if "heroin" not in fact}
    text = " ".join(f"This person [{number}]." for number in told)
    if times == 1 and "person is male" in request and "not accepted" not in request:
        text += " A friend of theirs never smokes."  # of a substance, outside of brackets
    story = f"<story>{text}</story>"
    return 200, json.dumps({"choices": [{"index": 0, "message": {"content": story}}]}).encode()


def test_the_recipe_with_a_served_model(tmp_path, raw):
    """The page's command, against a server: what is asked, how, and what is written again."""
    (line,) = re.findall(r"^    (epidemia finetune notes .*--writer \$WRITER.*)$", RECIPE, re.M)
    with scripted(fault=stories) as server:
        for own, here in {
            "nsduh_2022.parquet": raw,
            "$WRITER": "local-chat-completions,model=any",
            "http://HOST/v1/chat/completions": server.url(),
            "data/written": tmp_path / "written",
            "--n 2500": "--n 200",
        }.items():
            assert own in line
            line = line.replace(own, str(here))
        result = run(line.removeprefix("epidemia finetune notes "))
    assert result.exit_code == 0, (result.output, result.exception)
    card, texts = read_card(tmp_path / "written", DatasetCard), texts_of(tmp_path / "written")
    men, dropped = sum(" is male" in text for text in texts) / 10, card.counts["dropped"]
    assert sum(card.rows.values()) == len(texts) == 200 - dropped and 0 < men < 20
    assert 0 < dropped == card.counts["dropped: omitted"]
    assert card.counts["sentence forms"] == 1 and "model=any" in card.writer
    assert not any("[" in text or "friend" in text or YOUNG in text for text in texts)
    # Once for what is mended, three times for what is dropped.
    assert card.counts["written again"] == men + 3 * dropped
    asked = Counter((body["temperature"], body["max_tokens"]) for body in server.payloads)
    assert asked.keys() == {(heat, 400) for heat in (0.7, 0.8, 0.9, 1.0)}
    assert asked.total() - asked[0.7, 400] == card.counts["written again"]
    for body in server.payloads:
        again = "An earlier attempt was not accepted" in body["messages"][0]["content"]
        assert again == (body["temperature"] > 0.7)


def test_the_page_shows_the_prompt_as_it_is_sent(data):
    """The request for the page's person, word for word."""
    shown = re.search(r"^    Write a short, believable story.*?(?=^\S)", RECIPE, re.M | re.S)[0]
    facts = re.findall(r"^    \d\. (.*)$", shown, re.MULTILINE)
    people = made_of(data, 1)
    stated = {
        name: next(k for k, level in enumerate(way.levels) if f"the person {level.phrase}" == fact)
        for (name, way), fact in zip(people.variables.items(), facts, strict=True)
    }
    asked = replace(people, levels={name: np.array([k]) for name, k in stated.items()})
    about = subjects(NSDUH, "2022", people.variables)
    words = " ".join(request(asked, 0, about, NSDUH.vintages["2022"].said).split())
    assert " ".join(shown.split()) == words


# Bad input.


def test_a_file_without_any_of_the_facts(tmp_path):
    path = tmp_path / "NSDUH_2022_bare.parquet"
    people_2022()[["ANALWT2_C", "VESTR_C", "VEREP"]].to_parquet(path)
    assert "lacks columns of nsduh 2022" in refused("nsduh --raw", path, out=tmp_path / "out")


def test_a_file_of_another_vintage_than_the_truths(tmp_path):
    path = tmp_path / "NSDUH_2023_invented.parquet"
    nsduh_2023().to_parquet(path)
    said = refused("nsduh --raw", path, out=tmp_path / "out")
    assert "is nsduh 2023, but scores use the ground truth of 2022: give the file of 2" in said


def test_a_survey_that_asks_nothing_by_yes_or_no(tmp_path):
    path = official.save(official.people("gss", 60, "2018"), tmp_path / "GSS2018.parquet")
    said = refused("gss --vintage 2018 --raw", path, out=tmp_path / "out")
    assert "GSS2018.parquet answers no task of gss that asks yes or no" in said


def test_a_file_whose_truth_scores_would_not_use(tmp_path):
    """A truth of 2023-adults, once built, stands behind that of 2022-panel27."""
    path = tmp_path / "HC251_2023_adults.parquet"
    frame = official.people("meps", 60).rename(columns=lambda name: name.replace("22", "23"))
    frame.to_parquet(path)
    said = refused("meps --vintage 2023-adults --raw", path, out=tmp_path / "out")
    assert said.endswith("use the ground truth of 2022-panel27: give the file of 2022-panel27")


def test_a_folder_that_is_something_else(tmp_path):
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    for kind in ("answers", "distributions"):
        result = run(f"nsduh --kind {kind} --out", out)
        assert "holds thesis.txt: give a new folder" in str(result.exception)
    assert (out / "thesis.txt").read_text() == "years of work"
    (out / "thesis.txt").unlink()
    make_data("nsduh", "answers", out, n=20)
    before = rows_of(out)
    with pytest.raises(EpidemiaError, match=r"holds .*: give a new folder"):
        make_data("nsduh", "statements", out, n=20)
    assert rows_of(out) == before
    with pytest.raises(EpidemiaError, match="is a file"):
        make_data("nsduh", "answers", tmp_path / "mine" / DATASET_CARD, n=20)


def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    out = tmp_path / "d"

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(datasets.DatasetDict, "save_to_disk", full)
    with pytest.raises(EpidemiaError, match="free some space"):
        make_data("nsduh", "answers", out, n=30)
    assert {path.name for path in tmp_path.iterdir()} <= {"home"}
