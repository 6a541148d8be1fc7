"""The World Factbook: what its texts say, and that the shipped truth says the same."""

import html
import json
import re
from functools import partial

import numpy as np
import pytest
import yaml
from conftest import REPOSITORY, raw_file

from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.surveys import factbook
from lm_eval_epidemia.surveys.catalogue import find_record
from lm_eval_epidemia.surveys.read import read_grids

#: Names of its tasks, without what all begin with.
WORLD = "epidemia_world_factbook_"


TABLES = yaml.safe_load((REPOSITORY / "tests/data/factbook.yaml").read_text())


def truth(name):
    return store.load_truth(WORLD + name)


@pytest.mark.parametrize(("text", "number", "year"), TABLES["texts"])
def test_a_text_is_a_number_and_a_year(text, number, year):
    assert factbook.read_number(text) == pytest.approx(number, nan_ok=True)
    assert factbook.year(text) == year


def profile(code="xx", **sections):
    people = {"Population": {"total": "10,000,000 (2025 est.)"}, **sections.pop("people", {})}
    return {"code": code, "region": "europe", "People and Society": people, **sections}


def sheet(tmp_path, profiles, which=0):
    path = tmp_path / "factbook_fields.json"
    path.write_text(json.dumps(profiles))
    head, *rows = read_grids(path)[which]
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_what_a_profile_does_not_list_is_none_only_where_the_rest_adds_up(tmp_path):
    def row(fuels):
        texts = {f"from {name}": f"{n} metric tonnes (2023 est.)" for name, n in fuels.items()}
        texts["total emissions"] = "1,000 metric tonnes (2023 est.)"
        field = {"Environment": {"Carbon dioxide emissions": texts}}
        (row,) = sheet(tmp_path, [profile(**field)])
        return [row[fuel] for fuel in ("Coal", "Oil", "Gas")]

    oil = "petroleum and other liquids"
    assert row({oil: 600, "consumed natural gas": 400}) == [0.0, 600.0, 400.0]
    assert row({oil: 600, "consumed natural gas": 386}) == [0.0, 600.0, 386.0]
    assert row({oil: 600, "consumed natural gas": 384}) == [None] * 3
    # A negative amount is no share; of a thousandth it is rounding.
    coal = "coal and metallurgical coke"
    assert row({oil: 1003, coal: -3}) == [0.0, 1003.0, 0.0]
    assert row({oil: 1007, coal: -7}) == [None] * 3


def test_a_country_without_a_field_has_no_figure_of_it(tmp_path):
    ages = {"0-14 years": "20% (male 1,000/female 1,100)"}
    (row,) = sheet(tmp_path, [profile(people={"Age structure": ages})])
    assert row["0-14"] == 2100
    assert (row["15-64"], row["Uses the internet"], row["Internet users, year"]) == (None,) * 3
    assert (row["Coal"], row["Forest"], row["Land use, sum"]) == (None,) * 3


# The route of its own: the raw texts, by other patterns and no code of the package.


def first(text):
    """The first number of a text, times its word."""
    match = re.search(r"(-?[0-9][0-9,]*\.?[0-9]*)\s*(million|billion|trillion)?", text)
    times = {"million": 10**6, "billion": 10**9, "trillion": 10**12}.get(match[2], 1)
    return float(match[1].replace(",", "")) * times


@pytest.fixture(scope="module")
def book():
    """Profiles by the names of countries; the European Union and Hong Kong are none."""
    profiles = json.loads(raw_file("factbook", "factbook_fields.json").read_text())
    levels = find_record("factbook").variables["country"][0].levels
    by_code = {profile["code"]: profile for profile in profiles}
    return {level.label: by_code[level.names[0]] for level in levels}


def people(country):
    return first(country["People and Society"]["Population"]["total"])


def counts(country, age):
    text = country["People and Society"]["Age structure"][age]
    return [float(n.replace(",", "")) for n in re.findall(r"(?:male|female) ([\d,]+)", text)]


ADULT = ("15-64 years", "65 years and over")


def grown(country, sex):
    return sum(counts(country, age)[sex == "Female"] for age in ADULT)


def share(section, field, name=None):
    def of(country):
        value = country[section][field]
        value = value.get(name or "text") if isinstance(value, dict) else value
        return first(value.split(": ")[-1]) / 100

    return of


SOCIETY = "People and Society"
TOWN = share(SOCIETY, "Urbanization", "urban population")


def women(country):
    return counts(country, "15-64 years")[1]


AGES = {"0 to 14": "0-14 years", "15 to 64": ADULT[0], "65 or older": ADULT[1]}
PLACES = {"In a town or city": "urban", "In the countryside": "rural"}


def of_age(country, age):
    return sum(counts(country, AGES[age]))


def amounts(section, field, names, country):
    texts = country[section][field]
    return [max(first(texts[name].split(": ")[-1]), 0) for name in names if name in texts]


def parts(section, field, some, every, country):
    every = [name for name in every or country[section][field] if name != "note"]
    return sum(amounts(section, field, some, country)) / sum(
        amounts(section, field, every, country)
    )


def weight_of(section, field, every, place, country):
    """Weigh a country by a text of another place, or by all the parts."""
    if place is None:
        return sum(amounts(section, field, every, country))
    return first(country[place[0]][place[1]][place[2]])


#: Of a task: the share of the first answer in a cell, and how much the cell weighs.
ROUTES = {
    **{
        name: (share(*place), {"people": people, "women": women}[weight])
        for name, (*place, weight) in TABLES["shares"].items()
    },
    "age_by_country": (lambda c: of_age(c, "0 to 14") / sum(of_age(c, a) for a in AGES), people),
    "sex_by_country_age": (lambda c, age: counts(c, AGES[age])[1] / of_age(c, age), of_age),
    "tobacco_by_country_sex": (lambda c, sex: share(SOCIETY, "Tobacco use", sex.lower())(c), grown),
    "literate_by_country_sex": (lambda c, sex: share(SOCIETY, "Literacy", sex.lower())(c), grown),
    "water_by_country_residence": (
        lambda c, at: share(SOCIETY, "Drinking water source", f"improved: {PLACES[at]}")(c),
        lambda c, at: people(c) * (TOWN(c) if PLACES[at] == "urban" else 1 - TOWN(c)),
    ),
    **{
        name: (partial(parts, *of[:3], of[3] or None), partial(weight_of, *of[:2], *of[3:]))
        for name, of in TABLES["parts"].items()
    },
}


@pytest.mark.parametrize("name", ROUTES)
def test_shipped_truth_is_what_the_raw_texts_say(book, name):
    first_share, weight = ROUTES[name]
    known = truth(name)
    cells = [(book[country], *rest) for country, *rest in known.given]
    shares = np.array([first_share(*cell) for cell in cells])
    assert known.p[:, 0] == pytest.approx(shares, abs=1e-12)
    weights = np.array([weight(*cell) for cell in cells])
    assert known.weights == pytest.approx(weights / weights.sum(), abs=1e-12)
    assert known.d_perfect() == 0 and known.replicates.shape[0] == 0


def test_every_task_has_its_route():
    tasks = [task.name.removeprefix(WORLD) for task in find_record("factbook").declared]
    assert sorted(ROUTES) == sorted(tasks)


def mean_of_all(share_of, code_left_out="ee"):
    """The population-weighted mean over all profiles that have a field, in per cent."""
    profiles = json.loads(raw_file("factbook", "factbook_fields.json").read_text())
    total = have = 0.0
    for country in profiles:
        try:
            value, number = share_of(country), people(country)
        except (KeyError, TypeError, AttributeError, ZeroDivisionError):
            continue  # the profile lacks one of them
        if country["code"] != code_left_out:
            have, total = have + number, total + value * number
    return 100 * total / have


@pytest.mark.parametrize(
    ("name", "world", "within"),
    [
        # The profile of the world in the same book (SOURCE.json has its rows).
        ("age_by_country", 24.5, 1),
        ("residence_by_country", 57.5, 1),
        ("electricity_by_country", 91.4, 1),
        ("internet_by_country", 74.0, 9),
    ],
)
def test_all_profiles_together_are_the_book_s_own_world(name, world, within):
    assert mean_of_all(ROUTES[name][0]) == pytest.approx(world, abs=within)


def test_regions_and_incomes_are_those_of_the_book(book):
    regions, heads = {}, {}
    for level in find_record("factbook").variables["country"][0].levels:
        country = book[level.label]
        regions.setdefault(country["region"], set()).add(level.within["region"])
        texts = country["Economy"]["Real GDP (purchasing power parity)"]
        newest = max(
            (text for name, text in texts.items() if name != "note"),
            key=lambda text: re.search(r"\((\d{4})", text)[1],
        )
        heads[level.label] = first(newest) / people(country), level.within["income"]
    assert all(len(names) == 1 for names in regions.values()) and len(regions) == 10
    ranked = [third for _, third in sorted(heads.values())]
    thirds = ["lower third"] * 42 + ["middle third"] * 42 + ["upper third"] * 41
    assert ranked == thirds


def test_every_large_country_is_there_under_a_name_that_says_which(book):
    profiles = json.loads(raw_file("factbook", "factbook_fields.json").read_text())
    large = set()
    for country in profiles:
        total = country["People and Society"].get("Population")
        if isinstance(total, dict) and re.match(r"\d", total.get("total") or ""):
            large |= {country["code"]} if people(country) >= 5e6 else set()
    assert large - {"ee", "hk"} == {country["code"] for country in book.values()}
    # Where it is not the book's short form, people know it by this name.
    own = {
        label: html.unescape(country["Government"]["Country name"]["conventional short form"])
        for label, country in book.items()
    }
    others = {label: name for label, name in own.items() if name != label}
    assert others == TABLES["names"]
    iso = {level.names[1] for level in find_record("factbook").variables["country"][0].levels}
    assert len(iso) == 125 and all(re.fullmatch("[A-Z]{3}", code) for code in iso)
