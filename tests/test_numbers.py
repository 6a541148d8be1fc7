"""The numbers in the last tag of a reply: what each text is read as, and that nothing is raised."""

# ruff: noqa: RUF001 (characters that look like others are what is tested)
import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_epidemia.elicit.numbers import LONGEST, numbers, tagged

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
    "standard normal scale aside, mean: 55; standard deviation: 3": (55, 3),
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
    "1.7 m, 3 kg": (1.7, 3),
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
}  # fmt: skip

UNREAD = (
    "", "mean, standard deviation", "55", "55, 3, 1", "fifty-five, three",
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
)  # fmt: skip


@pytest.mark.parametrize(("inside", "expected"), READ.items())
def test_what_a_tag_is_read_as(inside, expected):
    found = numbers(tagged(f"So be it.\n<prior>{inside}</prior>"), 2, percent=0.01)
    assert found == pytest.approx(expected, rel=1e-15)


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
    ],
)
def test_five_quantiles(inside):
    assert numbers(inside, 5) == pytest.approx((1000, 1200, 1400, 1600, 1800))


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
        # Not closed: generation stopped there, or before.
        ("So <prior>55, 3", (55, 3)),
        ("So <prior>55, 3</pri", (55, 3)),
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
