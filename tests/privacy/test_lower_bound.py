"""eps_lb: every estimator with every rule."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgap.errors import DpgapError, IncomparableBounds, InvalidInput
from dpgap.privacy.counts import AuditScores
from dpgap.privacy.estimators import ClopperPearson, Gaussian, Jeffreys, JointBeta, SubsampledGaussian
from dpgap.privacy.lower_bound import group_delta, lower_bound, one_record_bound
from dpgap.privacy.mechanism import Adjacency, Mechanism, Poisson
from dpgap.privacy.rules import AllThresholds, Band, Bonferroni, Fixed, HeldOut
from tests.reference.bounds import best_over_thresholds

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "vectors.json").read_text())
DPSGD = SubsampledGaussian(sample_rate=0.1, steps=100)
ESTIMATORS = (ClopperPearson(), Jeffreys(), JointBeta(), Gaussian(), DPSGD)
RULES = (Fixed(0.5), HeldOut(), Bonferroni((0.0, 0.5, 1.0)), Band(), AllThresholds())
WORLDS = st.tuples(*[st.lists(st.integers(-3, 3).map(float), min_size=2, max_size=25)] * 2)


def scores_with(true_positives, false_negatives, false_positives, true_negatives):
    return AuditScores(
        [1.0] * true_positives + [0.0] * false_negatives, [1.0] * false_positives + [0.0] * true_negatives
    )


def gaussian_scores(separation, size, seed=0):
    draws = np.random.default_rng(seed)
    return AuditScores(draws.normal(separation, 1, size), draws.normal(0, 1, size))


PUBLISHED = {
    "cp": (ClopperPearson(), 0.95, 5e-6),
    "jeffreys": (Jeffreys(), 0.95, 5e-6),
    "joint_beta": (JointBeta(), 0.95, VECTORS["eps_lb_one_threshold"]["joint_beta_tolerance"]),
    "gdp": (Gaussian(), 0.90, 5e-6),
}
"""Estimator, joint confidence and tolerance of each published column."""


@pytest.mark.parametrize(
    ("counts", "column", "value"),
    [
        (row["counts"], column, row[column])
        for row in VECTORS["eps_lb_one_threshold"]["rows"]
        for column in PUBLISHED
        if column in row
    ],
)
def test_published_bounds_at_one_threshold_are_reproduced(counts, column, value):
    estimator, confidence, tolerance = PUBLISHED[column]
    bound = lower_bound(scores_with(*counts), estimator=estimator, rule=Fixed(1.0), confidence=confidence)
    assert bound.value == pytest.approx(value, abs=tolerance)


@pytest.mark.parametrize(("n", "ceiling"), VECTORS["cp_ceiling_perfect_attack"].items())
def test_perfect_separation_reaches_the_published_ceiling(n, ceiling):
    bound = lower_bound(scores_with(int(n), 0, 0, int(n)), rule=Fixed(1.0))
    assert bound.value == pytest.approx(ceiling, abs=1e-3)


@pytest.mark.parametrize("row", VECTORS["cp_delta0"])
def test_pure_privacy_is_bounded_without_a_delta(row):
    bound = lower_bound(scores_with(*row["counts"]), delta=0.0, confidence=1 - row["level"], rule=Fixed(1.0))
    assert bound.value == pytest.approx(row["eps"], abs=1e-9)


@given(WORLDS)
@pytest.mark.parametrize("rule", [Band(), AllThresholds()], ids=lambda rule: rule.id)
def test_the_best_of_all_thresholds_equals_trying_each(rule, worlds):
    slow = best_over_thresholds(*worlds, delta=1e-5, confidence=0.95, band=rule.id == "band")
    assert lower_bound(AuditScores(*worlds), rule=rule).value == pytest.approx(slow, abs=1e-9)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: estimator.id)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
class TestEveryPair:
    def test_is_a_full_record(self, estimator, rule):
        bound = lower_bound(gaussian_scores(2.0, 60), estimator=estimator, rule=rule)
        share = 0.5 if rule.id == "held-out" else 1.0
        assert 0 < bound.value < 20
        assert (bound.estimator, bound.rule) == (estimator.id, rule.id)
        assert bound.n_inside == bound.n_outside == 60 * share
        assert 0 <= bound.fpr <= 1
        assert 0 <= bound.fnr <= 1
        assert bound.assumptions
        assert 0 <= bound.interval.low <= bound.interval.high
        assert bound.interval.descriptive == (rule.id not in ("fixed", "held-out"))

    def test_worlds_without_a_difference_refute_nothing(self, estimator, rule):
        same = AuditScores(np.repeat([0.0, 1.0], 30), np.repeat([0.0, 1.0], 30))
        assert lower_bound(same, estimator=estimator, rule=rule).value == 0

    def test_one_value_everywhere_refutes_nothing(self, estimator, rule):
        assert lower_bound(AuditScores([0.5] * 9, [0.5] * 9), estimator=estimator, rule=rule).value == 0

    def test_infinite_scores_separate_like_others(self, estimator, rule):
        finite = AuditScores([2.0] * 40, [-2.0] * 40)
        infinite = AuditScores([np.inf] * 40, [-np.inf] * 40)
        values = [lower_bound(s, estimator=estimator, rule=rule).value for s in (finite, infinite)]
        assert values[0] == values[1] > 0

    def test_reversed_worlds_are_not_rewarded(self, estimator, rule):
        # A test that flags the outside world proves no more than flagging at random.
        reversed_worlds = AuditScores(np.zeros(40), np.ones(40))
        assert lower_bound(reversed_worlds, estimator=estimator, rule=rule).value == 0


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: estimator.id)
def test_more_scores_at_equal_rates_never_lower_a_bound(estimator):
    values = [
        lower_bound(scores_with(9 * k, k, 2 * k, 8 * k), estimator=estimator, rule=Fixed(1.0)).value
        for k in (2, 5, 10, 50, 200)
    ]
    assert values == sorted(values)


@given(WORLDS)
@pytest.mark.parametrize("estimator", [ClopperPearson(), Jeffreys(), Gaussian()], ids=lambda e: e.id)
@pytest.mark.parametrize("rule", [Band(), AllThresholds()], ids=lambda rule: rule.id)
def test_exchanging_the_worlds_and_the_sign_changes_nothing(estimator, rule, worlds):
    inside, outside = (np.array(world) for world in worlds)
    # Half a step to the side, so that "score >= threshold" and "-score > -threshold" are the same test.
    there = lower_bound(AuditScores(inside, outside - 0.5), estimator=estimator, rule=rule)
    back = lower_bound(AuditScores(0.5 - outside, -inside), estimator=estimator, rule=rule)
    assert there.value == pytest.approx(back.value, abs=1e-9)


@given(WORLDS, st.floats(0.01, 0.2), st.floats(0.01, 0.2))
def test_more_confidence_never_raises_a_bound(worlds, one, other):
    low, high = sorted((one, other))
    scores = AuditScores(*worlds)
    values = [lower_bound(scores, confidence=1 - level).value for level in (low, high)]
    assert values[0] <= values[1] + 1e-9


def test_the_held_out_rule_depends_on_its_seed_and_not_on_when_it_runs():
    scores = gaussian_scores(1.5, 100)
    values = [lower_bound(scores, rule=HeldOut(seed=seed)).value for seed in (0, 0, 1, 2, 3)]
    assert values[0] == values[1]
    assert len(set(values)) > 2


@pytest.mark.parametrize("noise", [0.8, 2.0])
def test_the_subsampled_gaussian_recovers_the_noise_of_its_own_curve(noise):
    from dpgap.privacy.accounting import tradeoff

    run = Mechanism(
        sampling=Poisson(rate=0.1), clip_norm=1.0, noise_multiplier=noise, expected_batch=1.0, steps=100
    )
    fpr = np.array([0.05])
    found = DPSGD.quantile(fpr, tradeoff(run)(fpr), 1e-5, 1.0)
    assert found == pytest.approx(run.upper_bound(1e-5).value, rel=0.01)


def test_the_subsampled_gaussian_refuses_another_adjacency():
    with pytest.raises(IncomparableBounds, match=r"'replace-one'.*'add-remove'"):
        lower_bound(gaussian_scores(1, 9), estimator=DPSGD, adjacency=Adjacency.REPLACE_ONE)


def test_validity_is_the_weaker_of_estimator_and_rule():
    scores = gaussian_scores(1.0, 40)
    labels = {
        (e.id, r.id): lower_bound(scores, estimator=e, rule=r).validity
        for e in (ClopperPearson(), Gaussian())
        for r in (Band(), AllThresholds())
    }
    assert labels == {
        ("clopper-pearson", "band"): "certified",
        ("clopper-pearson", "all-thresholds"): "heuristic",
        ("gaussian", "band"): "model-based",
        ("gaussian", "all-thresholds"): "heuristic",
    }


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"delta": 1.0}, "delta must be at least 0 and below 1, got 1.0"),
        ({"delta": float("nan")}, "delta must be"),
        ({"confidence": 95}, "confidence must be strictly between 0 and 1, got 95"),
        ({"threat_model": "white-box"}, "threat_model must be one of final, full-state"),
        ({"group_size": 0}, "group_size must be a whole number, 1 or more, got 0"),
    ],
)
def test_a_request_that_cannot_be_right_is_refused_by_name(request_, words):
    with pytest.raises(InvalidInput, match=words):
        lower_bound(gaussian_scores(1.0, 9), **request_)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Fixed(float("nan")), "threshold must be a number, got nan"),
        (lambda: Bonferroni(()), "thresholds must hold at least one number"),
        (lambda: HeldOut(share=1.0), "share must be strictly between 0 and 1"),
        (lambda: SubsampledGaussian(sample_rate=1.5, steps=3), "rate must be above 0 and at most 1, got 1.5"),
    ],
)
def test_a_rule_or_estimator_that_cannot_be_right_is_refused_by_name(make, words):
    with pytest.raises(DpgapError, match=words):
        make()


class TestOneRecordFromAGroup:
    def test_of_one_is_the_bound_itself(self):
        scores = gaussian_scores(2.0, 200)
        assert one_record_bound(scores, group_size=1).value == pytest.approx(
            lower_bound(scores).value, abs=1e-9
        )

    @pytest.mark.parametrize("group_size", [2, 5, 20])
    def test_solves_the_group_privacy_rule(self, group_size):
        scores, delta = gaussian_scores(3.0, 500), 1e-3
        epsilon = one_record_bound(scores, group_size=group_size, delta=delta).value
        grown = group_delta(delta, epsilon, group_size)
        assert lower_bound(scores, delta=grown).value == pytest.approx(group_size * epsilon, rel=1e-6)
        assert 0 < epsilon < lower_bound(scores, delta=delta).value / group_size

    def test_the_group_delta_is_the_sum_of_a_geometric_series(self):
        for epsilon in (0.0, 1e-9, 0.3, 2.0):
            series = sum(1e-6 * np.exp(j * epsilon) for j in range(4))
            assert group_delta(1e-6, epsilon, 4) == pytest.approx(series, rel=1e-9)

    def test_a_delta_that_grows_beyond_one_leaves_nothing(self):
        assert one_record_bound(gaussian_scores(3.0, 100), group_size=500, delta=0.01).value == 0
