"""Limits of error rates, alone and as a band."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgap.privacy.intervals import (
    band_levels,
    clopper_pearson_lower,
    clopper_pearson_upper,
    crossing_probability,
    jeffreys_upper,
)
from tests.reference.band import crossing_probability_by_recursion, crossing_share_by_simulation
from tests.reference.bounds import clopper_pearson

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "vectors.json").read_text())


def band_limits(trials, level):
    band = band_levels(trials, level)
    return clopper_pearson_upper(band.counts[:-1], trials, band.levels[:-1])


@pytest.mark.parametrize("row", VECTORS["clopper_pearson_upper"])
def test_published_clopper_pearson_limits_are_reproduced(row):
    limit = clopper_pearson_upper(row["k"], row["n"], row["tail"])
    assert limit == pytest.approx(row["upper"], abs=5e-8 if row["k"] else 5e-7)


@given(st.integers(1, 60), st.floats(1e-6, 0.5), st.data())
def test_clopper_pearson_inverts_the_binomial_tail(trials, level, data):
    errors = data.draw(st.integers(0, trials))
    assert clopper_pearson_upper(errors, trials, level) == pytest.approx(
        clopper_pearson(errors, trials, level), abs=1e-12
    )


def test_the_lower_limit_mirrors_the_upper():
    errors = np.arange(11)
    lower = clopper_pearson_lower(errors, 10, 0.05)
    assert lower[0] == 0
    assert (lower < errors / 10 + 1e-12).all()
    np.testing.assert_allclose(lower, 1 - clopper_pearson_upper(10 - errors, 10, 0.05))


def test_all_errors_leave_no_limit():
    assert clopper_pearson_upper(7, 7, 0.05) == 1
    assert jeffreys_upper(7, 7, 0.05) == 1


@pytest.mark.parametrize("trials", [1, 2, 5, 12])
def test_the_crossing_probability_equals_an_exact_recursion(trials):
    limits = np.sort(np.random.default_rng(trials).uniform(0.3, 1.0, trials))
    exact = crossing_probability_by_recursion([Fraction(limit) for limit in limits.tolist()])
    computed = crossing_probability(trials, np.arange(1, trials + 1), limits)
    assert computed == pytest.approx(float(exact), rel=1e-10)


@pytest.mark.parametrize("trials", [1, 3, 10, 25])
@pytest.mark.parametrize("level", [0.2, 0.025, 1e-7])
def test_the_band_spends_its_level_and_no_more(trials, level):
    exact = crossing_probability_by_recursion([Fraction(x) for x in band_limits(trials, level).tolist()])
    assert level * (1 - 1e-6) <= float(exact) <= level * (1 + 1e-9)


@pytest.mark.parametrize(("trials", "repetitions"), [(200, 40_000), (3000, 3_000)])
def test_the_band_fails_as_often_as_its_level_says(trials, repetitions):
    # Two-sided at 4.5 standard errors: a right calibration fails this with probability 7e-6.
    share = crossing_share_by_simulation(band_limits(trials, 0.05), repetitions, seed=7)
    assert abs(share - 0.05) < 4.5 * np.sqrt(0.05 * 0.95 / repetitions)


def test_equal_limits_cross_as_a_binomial_says():
    # Every limit at x: no crossing means that all variables lie below x.
    assert crossing_probability(5, np.arange(1, 6), np.full(5, 0.7)) == pytest.approx(1 - 0.7**5)


def test_few_order_statistics_carry_the_limits_of_many_trials():
    limits = band_limits(100_000, 0.025)
    assert len(np.unique(limits)) <= 2000
    assert (np.diff(limits) >= 0).all()
    assert (limits > np.arange(1, 100_001) / 100_000 - 1e-3).all()


@given(st.integers(1, 300))
def test_limits_of_the_band_increase_with_the_count_and_exceed_the_rate(trials):
    limits = band_limits(trials, 0.025)
    assert (np.diff(limits) > 0).all()
    assert (limits >= np.arange(trials) / trials).all()
