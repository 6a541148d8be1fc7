"""Is the year that a model lives in told right? Respondents whose year is known, surveys redrawn.

    python benchmarks/year_lived.py [--times 500] [--interpolated] [--shared]

Of every outcome of epidemia_years_undated, the shipped truth, smoothed over the years by half of
what the finding smooths by, is taken for the population. A respondent knows it as it was in a year,
with the noise of ``epidemia-baseline kind=noisy``; the survey of every year is drawn anew: to the
population comes the deviation of a joint replicate, another one for each year. --interpolated draws
straight lines between surveys instead of smoothing, for comparison; --shared gives men and women
the same noise.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple
from unittest import mock

import numpy as np

from lm_eval_epidemia.benchmarks.observation import undated
from lm_eval_epidemia.benchmarks.observation.undated import Lived, Series, smoother

YEARS = (1990, 2005, 2018)
NOISES = (0.0, 0.1, 0.3)

#: Of the population, in years.
WIDTH = undated.BANDWIDTH / 2


class Population(NamedTuple):
    """What is true of an outcome, and how its survey errs.

    Attributes
    ----------
    series : Series
        As it ships.
    p : ndarray, shape (Y, C, K)
    deviations : ndarray, shape (B, Y, C, K)
    """

    series: Series
    p: np.ndarray
    deviations: np.ndarray

    def at(self, year: int) -> np.ndarray:
        """Return what is true in a year, shape (C, K)."""
        weights = smoother(self.series.years, np.array([year]), WIDTH)
        return undated.smoothed(weights, self.series.p)[0]


def populations() -> list[Population]:
    """Return what is taken for true of every outcome that is asked without a year."""
    made = []
    for task in undated.list_declared():
        series = undated.load_undated(task).series
        weights = smoother(series.years, series.years, WIDTH)
        p = undated.smoothed(weights, series.p)
        made.append(Population(series, p, series.replicates - series.replicates.mean(axis=0)))
    return made


def redrawn(of: Population, draw: dict[int, int]) -> Series:
    """Return the survey of other samples: by year, the number of the replicate that it errs as."""
    drawn = [draw[int(year)] for year in of.series.years]
    seen = of.p + of.deviations[drawn, np.arange(len(drawn))]
    return of.series._replace(p=seen, replicates=seen + of.deviations)


def noisy(
    p: np.ndarray, noise: float, rng: np.random.Generator, shared: bool = False
) -> np.ndarray:
    """Answer as ``kind=noisy`` does, or with the same noise for men and women."""
    q = p * np.exp(noise * rng.standard_normal(p[:1].shape if shared else p.shape))
    return q / q.sum(axis=-1, keepdims=True)


def simulated(
    of: list[Population],
    year: int | None,
    noise: float,
    times: int,
    shared: bool = False,
    seed: int = 35,
) -> list[Lived]:
    """Tell the year of a respondent over and over; of who guesses uniformly, where it is None."""
    rng = np.random.default_rng(seed)
    results = []
    replicates = len(of[0].deviations)
    every = sorted({int(y) for each in of for y in each.series.years})
    for _ in range(times):
        draw = dict(zip(every, rng.integers(0, replicates, len(every)).tolist(), strict=True))
        course = undated.course_of([redrawn(each, draw) for each in of])
        truths = [np.ones_like(each.p[0]) if year is None else each.at(year) for each in of]
        answer = [undated.log_ratios(noisy(p, noise, rng, shared)) for p in truths]
        results.append(undated.find_years_lived(course, np.concatenate(answer)))
    return results


def interpolated(years: np.ndarray, at: np.ndarray, width: float = 0.0) -> np.ndarray:
    """Return the weights of straight lines between surveys; as `lived.smoother`."""
    return np.stack([np.interp(at, years, row) for row in np.eye(len(years))], axis=1)


class Line(NamedTuple):
    """What came of many respondents.

    Attributes
    ----------
    given : float
        Share to whom a set of years is given.
    covers : float
        Share of these sets that have the respondent's year.
    width : float
        Median number of years in them.
    """

    given: float
    covers: float
    width: float


def line(results: list[Lived], year: int | None) -> Line:
    """Count over many respondents of one year."""
    told = [result for result in results if not result.untold]
    covers = [bool(result.fits[result.course.years == year].any()) for result in told]
    widths = [int(result.fits.sum()) for result in told]
    nothing = float("nan")
    return Line(
        len(told) / len(results),
        float(np.mean(covers)) if told else nothing,
        float(np.median(widths)) if told else nothing,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=500)
    parser.add_argument("--interpolated", action="store_true")
    parser.add_argument("--shared", action="store_true")
    options = parser.parse_args()
    of = populations()
    settings = [*((year, noise) for year in YEARS for noise in NOISES), (None, 0.0)]
    print("| knows | noise | a set is given | it has the year | median years in it |")
    print("|---|--:|--:|--:|--:|")
    for year, noise in settings:
        with mock.patch.object(
            undated, "smoother", interpolated if options.interpolated else smoother
        ):
            given, covers, width = line(
                simulated(of, year, noise, options.times, options.shared), year
            )
        numbers = f"{given:.0%} | {covers:.1%} | {width:g}" if given else "0% | | "
        print(f"| {year or 'nothing (uniform)'} | {noise:g} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
