"""The numbers in the last tag of a reply: what each text is read as, and that nothing is raised."""

# ruff: noqa: RUF001 (characters that look like others are what is tested)
import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_epidemia.elicit.replies.numbers import LONGEST, numbers, tagged

#: What stands in a tag, and which two numbers that is; `h` where a per cent sign means hundredths.
READ = {
    "55, 3": (55, 3),
    "55,3": (55, 3),
    " 55 ; 3 ": (55, 3),
    "55\n3": (55, 3),
    "55 3": (55, 3),
    "55 ± 3": (55, 3),
    "55 +/- 3": (55, 3),
    "55 (3)": (55, 3),
    "55 | 3": (55, 3),
    "(55, 3)": (55, 3),
    "N(55, 3)": (55, 3),
    "Normal(55, 3)": (55, 3),
    "55., 3.": (55, 3),
    ".5, .25": (0.5, 0.25),
    "+55, 3": (55, 3),
    "-5, 3": (-5, 3),
    "55, -3": (55, -3),
    "~55, ≈3": (55, 3),
    # Labels, units, markup
    "mean=55, std=3": (55, 3),
    "mean: 55; sd: 3": (55, 3),
    "μ = 55, σ = 3": (55, 3),
    "mean = 55 cm\nstandard deviation = 3 cm": (55, 3),
    '{"mean": 55, "std": 3}': (55, 3),
    "55 mg/dL, 3 mg/dL": (55, 3),
    "28 kg/m², 0.3 kg/m^2": (28, 0.3),
    "55cm, 3cm": (55, 3),
    "**55**, **3**": (55, 3),
    "`55`, `3`": (55, 3),
    "_55_, _3_": (55, 3),
    "- 55\n- 3": (55, 3),
    "<55>, <3>": (55, 3),
    "<mean>55</mean><sd>3</sd>": (55, 3),
    "mean => 55, sd -> 3": (55, 3),
    "a normal with mean: 55; standard deviation: 3": (55, 3),
    "Beta(alpha=55, beta=3)": (55, 3),
    "\\(55\\), \\(3\\)": (55, 3),
    "q5 = 40, q25 = 50": (40, 50),
    "5%: 40, 25%: 50": (40, 50),
    "5th percentile: 40; 25th percentile: 50": (40, 50),
    # Thousands
    "1,200, 50": (1200, 50),
    "1,200,50": (1200, 50),
    "1,200, 1,150": (1200, 1150),
    "1,234,567.5, 10,000": (1234567.5, 10000),
    "1 200; 50": (1200, 50),
    "1\u202f200; 50": (1200, 50),
    "1\u00a0200\u00a0000, 50": (1200000, 50),
    "1'200, 50": (1200, 50),
    "1’200, 50": (1200, 50),
    "1_200, 50": (1200, 50),
    "1200,50": (1200, 50),
    "1200,500": (1200, 500),
    # The count that was asked for decides
    "100,150": (100, 150),
    "100 150": (100, 150),
    "1,200": (1, 200),
    # Money and magnitudes
    "$55, $3": (55, 3),
    "US$1,200, US$50": (1200, 50),
    "1,200 USD, 50 USD": (1200, 50),
    "-$5, $3": (-5, 3),
    "$1.2 million, $50,000": (1.2e6, 5e4),
    "$1.2M, 50k": (1.2e6, 5e4),
    "1.2 Billion, 3 thousand": (1.2e9, 3e3),
    "1.5 hundred, 2 thousands": (150, 2000),
    "5 thousand, 1 hundred": (5000, 100),
    # Scientific notation
    "1.2e5, 3E-2": (1.2e5, 0.03),
    "1e+05, 1e3": (1e5, 1e3),
    "1.2 x 10^5, 3*10**3": (1.2e5, 3e3),
    "1.2 × 10⁵, 3 × 10⁻²": (1.2e5, 0.03),
    "$1.2 \\times 10^2$, 5": (120, 5),
    "1.2 \\cdot 10^{2}, 5": (120, 5),
    # Characters
    "５５，３": (55, 3),
    "５５．５，３": (55.5, 3),
    "−5, 3": (-5, 3),
    "55, –3": (55, -3),
    "٥٥, ٣": (55, 3),
    # Per cent: of proportions, in this table
    "55%, 3%": (0.55, 0.03),
    "55 %, 0.03": (0.55, 0.03),
    "55 percent, 3 per cent": (0.55, 0.03),
    "55%, 3 percentage points": (0.55, 0.03),
    "55％, 3％": (0.55, 0.03),
    "1.200, 50": (1.2, 50),
    # Names that belong to the first and to the second number
    "M = 55, SD = 3": (55, 3),
    "m=55, s=3": (55, 3),
    "norm(loc=55, scale=3)": (55, 3),
    "a=55, b=3": (55, 3),
    "beta: alpha=55, beta=3": (55, 3),
    "mean, standard deviation: 55, 3": (55, 3),
    "55, 3 (mean, sd)": (55, 3),
    "55 (mean), 3 (sd)": (55, 3),
    "55, 3 sd": (55, 3),
    "first parameter: 55, second parameter: 3": (55, 3),
    "mean is about 55, with an sd of 3": (55, 3),
    "55 plus or minus 3": (55, 3),
    "q0.05=40, q0.25=50": (40, 50),
    # LaTeX
    "$\\mu = 55$, $\\sigma = 3$": (55, 3),
    "\\mathcal{N}(55, 3)": (55, 3),
    "55\\%, 3\\%": (0.55, 0.03),
    # A dash, an arrow or a sign of equality beside a label
    "mean 170 cm - sd 5 cm": (170, 5),
    "mean - 55, sd - 3": (55, 3),
    "mean (kg) - 55 kg, sd (kg) - 3 kg": (55, 3),
    "55 (mean) - 3 (sd)": (55, 3),
    "55 kg - with sd 3 kg": (55, 3),
    "mean 70 kg -> sd 5 kg": (70, 5),
    "55 kg = mean, 3 kg = sd": (55, 3),
    "mean := 55, sd := 3": (55, 3),
    "mean ~ 55, sd ~ 3": (55, 3),
    "x ~ N(55, 3)": (55, 3),
    "mean 0.55. sd 0.03.": (0.55, 0.03),
    "55, 3 .": (55, 3),
    "55, 3 - normal": (55, 3),
    # Magnitudes of one number, where the other is written out
    "50000, 3k": (50000, 3000),
    "$1,200, $1.3k": (1200, 1300),
    "50k, 500": (50000, 500),
    "0, 3k": (0, 3000),
    "50000 ± 3 x 10^3": (50000, 3000),
    "0.02 ± 3 × 10⁻³": (0.02, 0.003),
    "0.55, 3%": (0.55, 0.03),
    "120 ± 30e3": (120, 30000),
    # Words and brackets between two numbers
    "55 (about 3)": (55, 3),
    "70 kg (~3 kg)": (70, 3),
    "~70 kg and ~3 kg": (70, 3),
    "mean (55), sd (3)": (55, 3),
    "(-5), 3": (-5, 3),
    "55 cm (3)": (55, 3),
    "55 units, 3 units": (55, 3),
    "best guess 55, with an uncertainty of 3": (55, 3),
    "point estimate 55, sd 3": (55, 3),
    "mean and sd are 55 and 3": (55, 3),
    "5 times, 1 times": (5, 1),
    "3 hours 1 hour": (3, 1),
    "\"55\", '3'": (55, 3),
    "q₅=40, q₂₅=50": (40, 50),
    "1、200": (1, 200),
}  # fmt: skip

#: The same by the unit of the quantity.
READ_IN = {
    "dollars": {
        "$1.2m, $300k": (1.2e6, 3e5),
        "$1.2M, $300K": (1.2e6, 3e5),
        "1.2m, 0.3m": (1.2e6, 3e5),
        "US$1.2b, US$300m": (1.2e9, 3e8),
        "$1.2 million, 300 thousand dollars": (1.2e6, 3e5),
        "55,000 USD, 300 US dollars": (55000, 300),
        "$-5,000, $300": (-5000, 300),
        "55$, 3$": (55, 3),
    },
    "m": {"1.7 m, 0.3 m": (1.7, 0.3), "1.7m, 0.3 meters": (1.7, 0.3)},
    "cm": {"in cm: 55, 3": (55, 3), "55 centimetres, 3 cm": (55, 3)},
    "ug/dL": {
        "1.2 µg/dL, 0.1 μg / dl": (1.2, 0.1),
        "1.2 mcg/dL ± 0.1": (1.2, 0.1),
        "1.2 micrograms per deciliter, 0.1": (1.2, 0.1),
    },
    "kg/m2": {"28 kg/m², 0.3 kg/m^2": (28, 0.3)},
    "years": {"45 years old, 1 yr": (45, 1)},
    "drinks per week": {"5 drinks per week, 1 drink/week": (5, 1)},
    "": {"3.2 visits, 0.4 visits per person": (3.2, 0.4), "1.2M, 300k": (1.2e6, 3e5)},
}

UNREAD = (
    "", "mean, standard deviation", "55", "55, 3, 1", "fifty-five, three",
    # Words that nobody knows here may change what a number means.
    "between 5 and 6", "5 or 6", "either 5, 6", "from 5 to 6", "55, not 3", "twice 55, 3",
    "at least 5, 1", "at most 5, 1", "over 5, 1", "under 5, 1", "less than 5, 1", "more than 5, 1",
    "no more than 5, 1", "up to 5, 1", "max 5, 1", "5 or more, 1", "5+, 1", "5, 1+", "nearly 5, 1",
    "5?, 1", "55 / 3", "5:1", "55 @ 3", "e^5, 1", "log 55, 3", "5!, 3",
    "half-normal(55, 3)", "truncated normal(55, 3)", "logit-normal(5, 3)",
    "standard normal scale aside, mean: 55; standard deviation: 3",
    # No standard deviation
    "55, IQR 3", "55, IQR=3", "IQR=3, 55", "55, CI 3", "55, 95% CI 3", "55, MAD 3", "55, CV 0.1",
    "55, range 3", "55, half-width 3", "55, margin of error 3", "55, n=3", "median 55, IQR 3",
    # Names of the other number
    "scale=1, loc=5", "b=5, a=2", "Beta(b=5, a=2)", "beta, alpha: 5, 3", "beta=5, 3", "sd=3, m=55",
    "s=3, m=55", "sd: 5, 1", "5 sd, 1", "5 (sd), 1", "3, mean 55", "3 mean 55", "q25=50, q5=40",
    "second parameter: 3, first parameter: 55", "median=55, q75=60",
    # Exponents, decimal commas
    "1e99999, 1", "1e999999999999, 1", "5x10^99999, 1", "5 e3, 1 e2", "5 E3, 1", "5e 3, 1",
    "5k6, 1", "0x10, 3", "12,5; 3,1", "1,250; 0,050", "0,05", "55..3", "- 55, 3",
    # Magnitudes that are not read, or of which numbers they are not clear
    "5 mil, 1 mil", "5mil, 1mil", "$1.2mn, $3mn", "5万, 1万", "5T, 1T",
    "5 pairs, 1", "55, 3 thousand", "55, 3k", "1.2 million, 0.3", "(5, 1) million",
    "5, 1 (in thousands)",
    # Which is which cannot be told
    "1,200,500", "1.200.000, 50", "50-60, 3", "50–60, 3", "50 - 60", "50 to 60", "50% to 60%",
    "50~60", "50 -60", "std=3, mean=55", "sigma = 0.3, mu = 10", "beta=5, alpha=3",
    "standard deviation: 3; mean: 55", "std. dev. 3, mean 55", '{"sd": 3, "mean": 55}',
    "<sd>3</sd><mean>55</mean>", "3 (sd), 55 (mean)", "Beta(beta=5, alpha=3)", "se=3, mean=55",
    "sd and mean: 3, 55",
    # Families that nobody asks for
    "cauchy, 1, 1", "Gamma(2, 5)", "t(55, 3)", "log-beta: 3, 5",
    # Bounds, halves of numbers, magnitudes
    "<5, 2", ">5, 2", "≥ 5, 2", "5, <= 2", "5e, 2", "5, 2e",
    "5 dozen, 2", "3 score, 2", "5 lakh, 2", "5 crores, 2", "1.2 mn, 3 mn",
    "5 hundred thousand, 2", "in thousands: 5, 2", "2 \\times 3",
    # Not computed
    "1/2, 3", "½, 3", "5½, 3", "2 * 3", "2x3", "ln(50000), 0.5", "exp(10.5), 0.3", "sqrt(9), 1",
    "√9, 1", "10^5, 3",
    # No standard deviation
    "mean 55, variance 9", "55, var=9", "55, σ² = 9", "N(55, 3^2)",
    "nan, 3", "nan, 1, 2", "inf, 3", "-inf, 3", "∞, 3", "1e999, 3", "infinity, 1, 2",
    "2017-2018", "1.2.3, 4",
    # Ranges, with units or in brackets
    "170 cm - 180 cm", "170 cm – 180 cm", "170 cm — 180 cm", "(170) - (180)", "(170)-180",
    "$50k - $60k", "50K - 60K", "$1.2m – $1.4m", "50 years – 60 years", "50 percent - 60 percent",
    "70 kg -> 80 kg", "70 kg → 80 kg", "70 kg = 80 kg", "70 kg: 80 kg", "70 kg ~ 80 kg",
    "70 kg ≈ 80 kg", "70 kg \\sim 80 kg", "$70 . $80", "70 kg -80 kg", "70kg-80kg",
    "55 - about 60", "170 kg - kg 180", "50 kg a 60 kg",
    "170 (mean) - 180", "mean - sd: 160, 5", "170 cm - 180 cm (mean, sd)",
    "mean 170 cm - 180 cm sd",
    # Part of one, one in two units, products
    "55 of 100", "55 (of 100)", "55, of 100", "3 of 5", "5 hours of 8 hours", "5% of 100",
    "1 hour 30",
    "1h 30", "1h30", "1 hour and 30", "1 m 70", "5 hours 30 minutes", "$5 30", "2 thousand and 50",
    "5 million 200 thousand", "5 million and 200 thousand", "5 point 3", "5 . 3", "5. 3",
    "5 times 3",
    "5 times (3)", "5 times about 3", "5 x ~3", "5 people 3 times", "170.5(3)", "0.3 (30%)",
    "50k (50,000)",
    "1,20,000", "12,34,567", "1、200、50", "5'10\"", "5' 10\"", "70\", 3\"",
    # A sign that a dash or brackets may be
    "mean is - 5, sd 3", "mean - 5, sd 3", "mean-5, sd 3", "mean: -about 5, sd: 3",
    "lognormal - 2.3, 0.4",
    "USD - 5, 3", "-USD 5, 3", "($5,000), $300", "(5,000 USD), 300 USD", "(5) ± 3",
    # Whose the magnitude is
    "120 ± 30 thousand", "500 ± 100k", "500k ± 100", "$120 ± $30 thousand", "$55, $3 thousand",
    "$1.2, $.3 million", "$1.2 million, $.3", "$1.2 million, $0.3", "$55k, $3",
    "5 kg, 3 thousand kg",
    "1000, 5000k", "mean 120, sd 30k", "1.2 ± 0.3 × 10^5", "1.2 x 10^5 ± 0.3",
    "1.2 ± 0.3 × 10⁻³", "1.2 × 10⁻³ ± 0.3", "0.5 ± 0.3%", "20%, 0.3",
    # Figures that are no digits: circled, Roman, below the line
    "① 170, 3", "①, 3", "⑴ 170, 3", "⒈ 170, 3", "❶ 170, 3", "5₃, 2", "55¹, 3", "5 Ⅿ, 3", "Ⅼ, 3",
)  # fmt: skip

UNREAD_IN = {
    "dollars": (
        "€5, €1",
        "$5MM, $1MM",
        "5%, 1%",
        "5 mil, 1 mil",
        "2022 dollars: 5, 1",
        "55, 3 thousand dollars",
    ),
    "cm": ("1.7 m, 0.1 m", "55 mm, 3 mm", "55 in, 3 in", "$55, $3", "55, 3 kg", "1.7m, 0.3m"),
    "ug/dL": ("1.2 mg/dL, 0.1 mg/dL", "1.2 ug/L, 0.1", "0.06 umol/L, 0.01"),
    "years": ("540 months, 12 months", "45 years and 6 months"),
    "": ("$1.2m, $300k", "1.2m, 300k", "55 cm, 3 cm"),
}


@pytest.mark.parametrize(("inside", "expected"), READ.items())
def test_what_a_tag_is_read_as(inside, expected):
    found = numbers(tagged(f"So be it.\n<prior>{inside}</prior>"), 2, percent=0.01)
    assert found == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(
    ("unit", "inside", "expected"),
    [(unit, *item) for unit, table in READ_IN.items() for item in table.items()]
    + [(unit, inside, None) for unit, insides in UNREAD_IN.items() for inside in insides],
)
def test_only_the_unit_of_the_quantity_may_stand_in_a_tag(unit, inside, expected):
    found = numbers(tagged(f"<prior>{inside}</prior>"), 2, math.nan, unit)
    assert found == (expected and pytest.approx(expected, rel=1e-15))


@pytest.mark.parametrize("inside", UNREAD)
def test_what_is_not_read(inside):
    assert numbers(tagged(f"<prior>{inside}</prior>"), 2, percent=0.01) is None


@pytest.mark.parametrize(
    ("inside", "percent", "expected"),
    [
        ("55%, 3%", 0.01, (0.55, 0.03)),
        ("55%, 3%", 1.0, (55, 3)),
        ("55, 3", 0.01, (55, 3)),
        # Of parameters, a per cent sign says nothing that could be meant.
        ("55%, 45%", math.nan, None),
        ("55, 45%", math.nan, None),
        ("55, 45", math.nan, (55, 45)),
    ],
)
def test_what_a_per_cent_sign_means_depends_on_the_quantity(inside, percent, expected):
    assert numbers(inside, 2, percent) == (expected and pytest.approx(expected))


@pytest.mark.parametrize(
    "inside",
    [
        "1,000, 1,200, 1,400, 1,600, 1,800",
        "1,000,1,200,1,400,1,600,1,800",
        "1000 1200 1400 1600 1800",
        "5%: $1,000; 25%: $1,200; 50%: $1,400; 75%: $1,600; 95%: $1,800",
        '{"5%": 1000, "25%": 1200, "50%": 1400, "75%": 1600, "95%": 1800}',
        "q5=1000, q25=1200, q50=1400, q75=1600, q95=1800",
        "1k, 1.2k, 1.4k, 1.6k, 1.8k",
        "5th: 1000, 25th: 1200, 50th: 1400, 75th: 1600, 95th: 1800",
        "q5, q25, median, q75, q95: 1000, 1200, 1400, 1600, 1800",
    ],
)
def test_five_quantiles(inside):
    assert numbers(inside, 5) == pytest.approx((1000, 1200, 1400, 1600, 1800))


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("100, 200, 300, 400, 500k", None),
        ("$10, $20, $30, $40, $50k", None),
        ("1000, 2000, 3000, 4000, 5000k", None),
        ("800k, 900k, 1M, 1.1M, 1.2M", (8e5, 9e5, 1e6, 1.1e6, 1.2e6)),
        ("9000, 9500, 10k, 11k, 12k", (9e3, 9.5e3, 1e4, 1.1e4, 1.2e4)),
        ("10 kg - 20 kg - 30 kg - 40 kg - 50 kg", None),
        ("q5 - 10, q25 - 20, median - 30, q75 - 40, q95 - 50", None),
        ("($5,000), ($3,000), $0, $1,000, $2,000", None),
        ("-10 kg, -5 kg, 0 kg, 5 kg, 10 kg", (-10, -5, 0, 5, 10)),
    ],
)
def test_five_with_units_and_magnitudes(inside, expected):
    assert numbers(tagged(f"<prior>{inside}</prior>"), 5) == expected


def test_five_numbers_of_three_digits():
    assert numbers("100,120,140,160,180", 5) == (100, 120, 140, 160, 180)
    assert numbers("100 120 140 160 180", 5) == (100, 120, 140, 160, 180)
    assert numbers("900,1,000,1,100,1,200,1,300", 5) == (900, 1000, 1100, 1200, 1300)


@pytest.mark.parametrize(
    ("inside", "allowed", "expected"),
    [
        ("55, 3", (), (55, 3)),
        ("mean=55, sd=3", {"mean", "sd"}, (55, 3)),
        ("mean=55, sd=3", {"alpha", "beta"}, None),
        ("mean=55, sd=3", {"mean"}, None),
        ("beta(55, 3)", {"alpha", "beta"}, (55, 3)),
        ("beta(55, 3)", {"normal", "mean", "sd"}, None),
        ("5%: 55, 25%: 3", {"mean", "sd"}, None),
        # The unit of a concentration is no mu.
        ("55 μg/dL, 3 µg/dL", (), (55, 3)),
    ],
)
def test_which_labels_may_stand_in_a_tag(inside, allowed, expected):
    assert numbers(tagged(f"<prior>{inside}</prior>"), 2, allowed=allowed) == expected


def test_a_number_in_the_unit_is_none_of_the_answer():
    assert numbers("55 per 1,000 people, 3 per 1,000 people", 2) is None
    assert numbers("55 per 1,000 people, 3 per 1,000 people", 2, unit="per 1,000 people") == (55, 3)
    # A unit is taken out where it holds a digit only: "m" is part of "million".
    assert numbers("1.2 million m, 3 m", 2, unit="m") == (1.2e6, 3)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("<prior>55, 3</prior>", (55, 3)),
        ("<PRIOR>55, 3</Prior>", (55, 3)),
        ("< prior >55, 3</ prior >", (55, 3)),
        ("＜prior＞55, 3＜/prior＞", (55, 3)),
        # The last one counts, whatever is in it.
        ("<prior>1, 2</prior> No: <prior>55, 3</prior>", (55, 3)),
        ("<prior>55, 3</prior> No: <prior>I do not know</prior>", None),
        ("<prior>55, 3</prior><prior></prior>", None),
        # Reasoning is no answer.
        ("<think><prior>1, 2</prior></think><prior>55, 3</prior>", (55, 3)),
        ("<prior>55, 3</prior><think><prior>1, 2</prior></think>", (55, 3)),
        ("<think>so <prior>55, 3</prior>", None),
        ("<think><prior>55, 3</prior></think>", None),
        ("<prior>1, 2</prior></think><prior>55, 3</prior>", (55, 3)),
        ("<|channel|>analysis<|message|><prior>1, 2</prior><|channel|>final<|message|>"
         "<prior>55, 3</prior>", (55, 3)),
        ("◁think▷<prior>1, 2</prior>◁/think▷<prior>55, 3</prior>", (55, 3)),
        ("◁think▷<prior>1, 2</prior>◁/think▷ none", None),
        ("◁think▷<prior>1, 2</prior>", None),
        ("<|channel|>analysis<prior>1, 1</prior><|channel|>final none", None),
        ("<|channel|>analysis<prior>1, 1</prior><|channel|>final<prior>55, 3</prior>", (55, 3)),
        ("<|channel|>analysis<|message|><prior>1, 1</prior>", None),
        # Not closed: generation stopped there or before, "55, 3" may be the beginning of "55, 30".
        ("So <prior>55, 3", None),
        ("<prior>1, 2</prior> or rather <prior>55, 3\n", None),
        ("So <prior>55, 3</pri", (55, 3)),
        ("So <prior>55, 3<", (55, 3)),
        ("So <prior>55, 3<prior>", (55, 3)),
        ("<prior>55, 3</prior> That is my <prior>", (55, 3)),
        ("<prior>55, 3</prior> That is my <prior> tag.", (55, 3)),
        ("I end with a <prior> tag: <prior>55, 3</prior>", (55, 3)),
        ("<prior>1, 2</prior> or rather <prior>55,", None),
        # No tag
        ("", None),
        ("55, 3", None),
        ("<answer>55, 3</answer>", None),
        ("</prior>55, 3</prior>", None),
        ("I cannot know that.", None),
        ("<prior>" + "55, 3 " + "x" * LONGEST + "</prior>", None),
    ],
)  # fmt: skip
def test_the_last_tag_outside_of_reasoning(reply, expected):
    assert numbers(tagged(reply), 2) == expected


_FINITE = st.floats(allow_nan=False, allow_infinity=False)
_HOW = st.sampled_from(["{!r}", "{:.17g}", "{:.17e}", "{:+.17g}"])


@given(st.lists(_FINITE, min_size=2, max_size=5), _HOW, st.sampled_from([", ", "; ", "\n"]))
def test_numbers_come_back_as_they_were_written(values, how, between):
    text = between.join(map(how.format, values))
    assert numbers(tagged(f"<prior>{text}</prior>"), len(values)) == tuple(values)


@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=5))
def test_thousands_come_back_too(values):
    text = ", ".join(f"{value:,}" for value in values)
    assert numbers(text, len(values)) == tuple(values)


@given(st.text(), st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=2), st.text())
def test_the_last_tag_wins(before, values, after):
    """Whatever stands around it, unless that is a tag or reasoning itself."""
    if any(sign in before + after for sign in "<[＜﹤"):
        return
    said = ", ".join(map(repr, values))
    assert numbers(tagged(f"<prior>1, 2</prior>{before}<prior>{said}</prior>{after}"), 2) == tuple(
        values
    )


_PIECES = st.lists(
    st.sampled_from(["<prior>", "</prior>", "<think>", "</think>", "55", ", ", "%", "-", ".", "e",
                     "million", "$", "mean=", "±", "1,200", "10^", "nan", "²", "½", "\n"])
    | st.text(max_size=5),
    max_size=40,
)  # fmt: skip


@settings(max_examples=500)
@given(_PIECES, st.sampled_from([2, 5]), st.sampled_from([0.01, 1.0, math.nan]), st.text())
def test_nothing_is_raised(pieces, count, percent, unit):
    found = numbers(tagged("".join(pieces)), count, percent, unit)
    assert found is None or (len(found) == count and all(map(math.isfinite, found)))


@pytest.mark.parametrize(
    "piece",
    ["<prior>", "<prior", "1,234", "1 234", "9", "<prior>1", "1-", "5% ", "x 10^5 ", "sd=3 ",
     "²", "1.", "<", "e", "k ", " ", "<a", "<5>", "standard ", "log ", "hundred ", "\\times"],
)  # fmt: skip
def test_long_replies_are_read_in_linear_time(piece):
    """A hundred times the length takes about as many times as long, not ten thousand times."""
    reply = piece * 200_000
    began = time.process_time()
    numbers(tagged(f"<prior>{reply}"), 2)
    numbers(tagged(f"{reply}<prior>{reply[:LONGEST]}</prior>"), 5)
    assert time.process_time() - began < 5
