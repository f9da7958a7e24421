"""Certified bounds exceed the truth no more often than they say; heuristic ones do.

A test of a certified rule fails wrongly with probability at most 1e-4 (a binomial test, over the draw of its
fixed seed); the tests of the heuristics demand an excess that chance would give with probability below 1e-9.
"""

import numpy as np
import pytest

from dpgap.privacy.counts import AuditScores
from dpgap.privacy.estimators import ClopperPearson, Gaussian, Jeffreys, JointBeta, SubsampledGaussian
from dpgap.privacy.every_record import bound_every_record
from dpgap.privacy.lower_bound import lower_bound
from dpgap.privacy.paper import paper_bound
from dpgap.privacy.rules import AllThresholds, Band, Bonferroni, Fixed, HeldOut
from tests.statistical.mechanisms import (
    GAUSSIAN,
    KNOWN,
    LAPLACE,
    NOTHING,
    RANDOMISED_RESPONSE,
    probability_of_as_many,
)

LEVEL = 0.05
PER_WORLD = 200
REPETITIONS = [400, pytest.param(20_000, marks=pytest.mark.slow)]
IN_ADVANCE = (Fixed(0.5), HeldOut(), Bonferroni((-0.5, 0.0, 0.5, 1.0, 1.5)))


def false_claims_one_by_one(known, repetitions, bound, per_world=PER_WORLD):
    """How many audits of ``known`` claim more than its loss."""
    scores, included = known.audits(repetitions, per_world, seed=20)
    return sum(
        bound(AuditScores(row[bits], row[~bits])).value > known.epsilon
        for row, bits in zip(scores, included, strict=True)
    )


def false_claims_together(known, repetitions, estimator, rule, per_world=PER_WORLD):
    """The same through the tables by count, which give every record the bound it gets alone."""
    claims = 0
    for block in range(0, repetitions, 500):
        scores, included = known.audits(min(500, repetitions - block), per_world, seed=block)
        found = bound_every_record(
            scores, included, delta=known.delta, estimator=estimator, rule=rule, together=False
        )
        claims += int(np.sum(found.values > known.epsilon))
    return claims


@pytest.mark.parametrize("repetitions", REPETITIONS)
@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
@pytest.mark.parametrize("rule", IN_ADVANCE, ids=lambda rule: rule.id)
def test_rules_fixed_in_advance_claim_too_much_no_more_often_than_they_say(rule, known, repetitions):
    claims = false_claims_one_by_one(
        known, repetitions, lambda scores: lower_bound(scores, delta=known.delta, rule=rule)
    )
    assert probability_of_as_many(claims, repetitions, LEVEL) > 1e-4


@pytest.mark.parametrize("repetitions", [2000, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
def test_the_band_claims_too_much_no_more_often_than_it_says(known, repetitions):
    claims = false_claims_together(known, repetitions, ClopperPearson(), Band())
    assert probability_of_as_many(claims, repetitions, LEVEL) > 1e-4


@pytest.mark.parametrize(
    ("estimator", "known", "per_world"),
    [(ClopperPearson(), LAPLACE, 5000), (Jeffreys(), LAPLACE, 200), (Gaussian(), NOTHING, 5000)],
    ids=["clopper-pearson", "jeffreys", "gaussian"],
)
def test_the_best_of_all_thresholds_claims_too_much_more_often_than_it_says(estimator, known, per_world):
    claims = false_claims_together(known, 2000, estimator, AllThresholds(), per_world)
    assert probability_of_as_many(claims, 2000, LEVEL) < 1e-9


def test_so_does_the_joint_posterior():
    claims = false_claims_one_by_one(
        NOTHING, 60, lambda scores: lower_bound(scores, estimator=JointBeta(), rule=AllThresholds())
    )
    assert probability_of_as_many(claims, 60, LEVEL) < 1e-9


def test_so_does_the_curve_of_dpsgd_also_where_it_is_the_true_one():
    curve = SubsampledGaussian(sample_rate=1, steps=1)
    claims = false_claims_one_by_one(
        GAUSSIAN,
        600,
        lambda scores: lower_bound(scores, delta=GAUSSIAN.delta, estimator=curve, rule=AllThresholds()),
        per_world=5000,
    )
    assert probability_of_as_many(claims, 600, LEVEL) < 1e-9


@pytest.mark.parametrize(
    ("estimator", "level"), [(Gaussian(), 0.2), (ClopperPearson(), 0.1)], ids=["gdp", "cp"]
)
def test_so_does_the_papers_rule(estimator, level):
    claims = false_claims_one_by_one(NOTHING, 300, lambda scores: paper_bound(scores, estimator))
    assert probability_of_as_many(claims, 300, level) < 1e-9


@pytest.mark.parametrize("repetitions", [200, pytest.param(20_000, marks=pytest.mark.slow)])
def test_the_strongest_of_many_records_claims_too_much_no_more_often_than_it_says(repetitions):
    records, claims, models = 20, 0, 100
    for seed in range(repetitions):
        scores, included = LAPLACE.audits(records, models // 2, seed)
        claims += bool(np.max(bound_every_record(scores, included).values) > LAPLACE.epsilon)
    assert probability_of_as_many(claims, repetitions, LEVEL) > 1e-4


def test_extrapolating_along_a_gaussian_curve_claims_too_much_where_the_curve_is_another():
    # Limits that hold, at one threshold fixed in advance, and yet nearly every claim is false.
    claims = false_claims_one_by_one(
        RANDOMISED_RESPONSE,
        200,
        lambda scores: lower_bound(scores, estimator=Gaussian(), rule=Fixed(0.5)),
    )
    assert claims > 190
