"""Mechanisms of known privacy, audited end to end: certified bounds hold, and are as strong as planned."""

import math
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

import dpgap
from dpgap.privacy.tradeoff import gaussian_epsilon
from tests.experiments.jobs import CANARY, RECORDS, noisy_sum

MODELS, DELTA, LEVEL = 100, 1e-5, 0.05
FALSE_ALARM = 1e-4
"""How probable it is that one of these tests fails although every bound keeps its level."""


def randomised_response(x, y, seed, epsilon):
    """Says truly with probability e^eps / (1 + e^eps) whether a row of 1 is there; noise breaks the ties."""
    draws = np.random.default_rng(seed)
    truth = float(x.sum() > 0)
    says = truth if draws.random() < 1 / (1 + math.exp(-epsilon)) else 1 - truth
    answer = says + 1e-9 * draws.random()
    return lambda rows, labels: np.full(len(rows), answer)


MECHANISMS = {
    "nothing is released": (partial(noisy_sum, scale=1e9), 0.0),
    "gaussian": (partial(noisy_sum, scale=2.0), float(gaussian_epsilon(0.5, DELTA))),
    "randomised response, 0.5": (partial(randomised_response, epsilon=0.5), 0.5),
    "randomised response, 2": (partial(randomised_response, epsilon=2.0), 2.0),
}


def certified(train, repetitions: int, models: int = MODELS) -> list[float]:
    """The certified bounds of independent audits, each of so many models."""
    design = dpgap.ShadowPairs(models=models)
    audits = (
        dpgap.audit(train, RECORDS, CANARY, design=design, store=":memory:", seed=seed)
        for seed in range(repetitions)
    )
    return [audit.headline.value for audit in audits]


def check_level(name: str, repetitions: int) -> None:
    train, epsilon = MECHANISMS[name]
    false = sum(bound > epsilon for bound in certified(train, repetitions))
    print(f"{name}: {false} of {repetitions} certified bounds exceed the true {epsilon:.2f}")
    assert false <= binom.isf(FALSE_ALARM, repetitions, LEVEL)


@pytest.mark.parametrize("name", MECHANISMS)
def test_certified_bounds_exceed_the_truth_no_more_often_than_stated(name):
    check_level(name, repetitions=12)


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_certified_bounds_of_200_audits_exceed_the_truth_no_more_often_than_stated(name):
    check_level(name, repetitions=200)


@pytest.mark.parametrize("scale", [1.0, 0.4])
def test_certified_bounds_reach_four_fifths_of_what_was_planned(scale):
    """The mean of 10 audits; a plan is a mean itself, and a bound's deviation is a tenth of it or so."""
    plans = {each.rule: each for each in dpgap.plan(models=400, separation=1 / scale)}
    reached = float(np.mean(certified(partial(noisy_sum, scale=scale), 10, models=400)))
    print(f"noise {scale}: {reached:.2f} certified on average, {plans['band'].expected:.2f} planned")
    assert reached >= 0.8 * plans["band"].expected > 0
