"""The true-positive rate at a low false-positive rate."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgap.errors import InvalidInput
from dpgap.privacy.low_fpr import true_positive_rate


def by_definition(scores, included, at_most):
    """The best of all thresholds that name few enough."""
    inside, outside = scores[included], scores[~included]
    rates = [np.mean(inside >= t) for t in np.unique(scores) if np.mean(outside >= t) <= at_most]
    return max(rates, default=0.0)


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(2, 8), st.sampled_from([0.05, 0.2, 0.5]))
def test_it_equals_trying_every_threshold(seed, canaries, models, at_most):
    draws = np.random.default_rng(seed)
    scores = np.round(draws.standard_normal((canaries, models)), 1)
    scores[draws.random(scores.shape) < 0.1] = np.inf
    included = draws.random(scores.shape) < 0.5
    included[0, :2] = True, False
    found = true_positive_rate(scores, included, at_most=at_most)
    assert found.value == by_definition(scores, included, at_most)
    assert (found.threshold is None) == (np.mean(scores[~included] == scores.max()) > at_most)
    if found.threshold is not None:
        assert found.value == np.mean(scores[included] >= found.threshold)
        assert found.fpr == np.mean(scores[~included] >= found.threshold) <= at_most
    assert 0 <= found.low <= found.high <= 1


def test_a_rate_of_whole_pairs_allows_exactly_so_many():
    included = np.tile([True, False], (3000, 1))
    scores = np.arange(6000.0).reshape(3000, 2)
    assert true_positive_rate(scores, included, at_most=0.001).fpr == 0.001


def test_perfect_separation_names_all_and_chance_names_few():
    included = np.random.default_rng(0).random((50, 40)) < 0.5
    assert true_positive_rate(1.0 * included, included).value == 1.0
    assert true_positive_rate(np.zeros((50, 40)), included).value == 0.0
    assert true_positive_rate(np.zeros((50, 40)), included).threshold is None


def test_the_interval_covers_the_rate_though_scores_of_a_model_move_together():
    """Each model shifts all its scores: pairs are far from independent."""

    def audit(seed, models=40, canaries=30):
        draws = np.random.default_rng(seed)
        included = draws.random((canaries, models)) < 0.5
        return draws.normal(2.0 * included) + draws.normal(size=models), included

    truth = true_positive_rate(*audit(0, models=20_000, canaries=2), at_most=0.1).value
    intervals = [true_positive_rate(*audit(seed), at_most=0.1) for seed in range(1, 61)]
    assert sum(found.low <= truth <= found.high for found in intervals) >= 51


@pytest.mark.parametrize(
    ("scores", "included", "words"),
    [
        (np.zeros(4), np.zeros(4), r"scores of shape \(4,\)"),
        (np.zeros((2, 1)), [[True], [False]], "the interval needs two or more"),
        (np.full((1, 2), np.nan), [[True, False]], "the first of canary 0 in model 0"),
        (np.zeros((2, 2)), np.ones((2, 2)), "4 of 4 pairs are in"),
    ],
)
def test_tables_without_a_rate_are_refused(scores, included, words):
    with pytest.raises(InvalidInput, match=words):
        true_positive_rate(scores, included)


@pytest.mark.parametrize("at_most", [0.0, 1.0, float("nan")])
def test_a_rate_that_cannot_be_asked_for_is_named(at_most):
    with pytest.raises(InvalidInput, match="at_most must be strictly between 0 and 1"):
        true_positive_rate(np.zeros((2, 2)), np.eye(2), at_most=at_most)
