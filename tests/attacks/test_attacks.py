"""Every attack keeps its contract and computes what its definition says."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from dpgap.attacks.base import Attack, Scored
from dpgap.attacks.lira import CERTAIN, LiRA
from dpgap.attacks.loss import LossAttack
from dpgap.errors import InvalidInput, NoAnswer
from dpgap.testing import check_attack

BUILT_IN = [LossAttack(), LiRA(), LiRA(learning=0.25)]


@pytest.mark.parametrize("attack", BUILT_IN, ids=repr)
def test_a_built_in_attack_keeps_its_contract(attack):
    check_attack(attack)


def test_every_built_in_attack_is_checked():
    built_in = {kind for kind in Attack.__subclasses__() if kind.__module__.startswith("dpgap.")}
    assert built_in == {type(attack) for attack in BUILT_IN}


class Peeking:
    """Scores each model by its own bit."""

    threat_model = "final"
    statistic = LossAttack().statistic

    def scores(self, statistics, included):
        return Scored(models=np.arange(len(statistics)), scores=included * 1.0)


class Ranking:
    """Scores each model by how it compares with all."""

    threat_model = "final"
    statistic = LossAttack().statistic

    def scores(self, statistics, included):
        return Scored(models=np.arange(len(statistics)), scores=statistics - statistics.mean(axis=0))


class Batched:
    """Scores a row by how it compares with its batch."""

    threat_model = "final"

    def statistic(self, logits, labels):
        kept = LossAttack().statistic(logits, labels)
        return np.exp(kept) / np.exp(kept).max(initial=1e-9)


@pytest.mark.parametrize(
    ("attack", "said"),
    [
        (Peeking(), "Peeking must never learn from the bits of a model that it attacks"),
        (Ranking(), "Ranking must score a model by its own statistic"),
        (Batched(), "Batched must keep of a row what it says alone"),
    ],
)
def test_the_kit_finds_an_attack_that_breaks_the_contract(attack, said):
    with pytest.raises(AssertionError, match=said):
        check_attack(attack)


LOGITS = np.array([[2.0, 0.0, -1.0], [0.5, 0.5, 3.0]])
LABELS = np.array([0, 1])


def _probabilities() -> np.ndarray:
    exponentials = np.exp(LOGITS)
    return (exponentials / exponentials.sum(axis=1, keepdims=True))[[0, 1], LABELS]


def test_the_loss_attack_is_the_log_of_the_labels_probability():
    np.testing.assert_allclose(LossAttack().statistic(LOGITS, LABELS), np.log(_probabilities()))


def test_liras_statistic_is_the_logit_of_the_labels_probability():
    p = _probabilities()
    np.testing.assert_allclose(LiRA().statistic(LOGITS, LABELS), np.log(p / (1 - p)))


def test_certainty_has_a_finite_logit_beyond_every_other():
    certain = np.log(np.array([[1.0, 1e-320], [1e-320, 1.0], [1.0 - 1e-16, 1e-16]]))
    with np.errstate(divide="ignore"):
        beyond = np.log(np.array([[1.0, 0.0], [0.0, 1.0]]))
    labels = np.zeros(3, np.int64)
    assert LiRA().statistic(beyond, labels[:2]).tolist() == [CERTAIN, -CERTAIN]
    assert (abs(LiRA().statistic(certain, labels)) < CERTAIN).all()


def test_lira_is_the_likelihood_ratio_of_two_fitted_gaussians():
    """The definition, one canary and one model at a time."""
    draws = np.random.default_rng(0)
    included = np.stack([draws.permutation(20) < 10 for _ in range(2)], axis=1)
    statistics = draws.standard_normal((20, 2)) + 2 * included
    scored = LiRA().scores(statistics, included)
    assert scored.models.tolist() == list(range(10, 20))
    for row, model in enumerate(scored.models):
        for canary in range(2):
            learnt, bits = statistics[:10, canary], included[:10, canary]
            inside, outside = learnt[bits], learnt[~bits]
            expected = norm.logpdf(statistics[model, canary], inside.mean(), inside.std(ddof=1))
            expected -= norm.logpdf(statistics[model, canary], outside.mean(), outside.std(ddof=1))
            assert scored.scores[row, canary] == pytest.approx(expected)


def test_statistics_without_any_spread_have_finite_scores():
    included = np.tile([True, False], 6)[:, None]
    assert np.isfinite(LiRA().scores(included * 1.0, included).scores).all()


def test_too_few_models_to_learn_from_are_refused():
    with pytest.raises(NoAnswer, match="LiRA has 1 models of one world to learn from"):
        LiRA().scores(np.zeros((4, 1)), np.array([[True], [False]] * 2))


@pytest.mark.parametrize("learning", [0.0, 1.0, math.nan])
def test_a_share_that_leaves_nothing_to_learn_or_to_attack_is_refused(learning):
    with pytest.raises(InvalidInput, match="learning must be strictly between 0 and 1"):
        replace(LiRA(), learning=learning)
