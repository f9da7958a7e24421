"""What charts and slider show is what the bounds are made of."""

from dataclasses import replace

import numpy as np
import pytest

from dpgap.privacy.counts import AuditScores
from dpgap.privacy.estimators import ClopperPearson
from dpgap.privacy.lower_bound import group_delta, lower_bound
from dpgap.privacy.rules import Fixed
from dpgap.privacy.table import Question, every_bound
from dpgap.privacy.tradeoff import EpsilonDelta
from dpgap.privacy.upper_bound import UpperBound
from dpgap.report.curves import MOST_POINTS, curves_of, histogram_of, removed_of, thresholds_of
from dpgap.report.facts import facts_of_scores
from dpgap.report.words import no_limits
from tests.report import cases


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("models", [5, 100, 2000])
def test_the_band_at_the_headline_s_threshold_refutes_the_headline(tmp_path, models, seed):
    found = cases.facts(tmp_path / "s.sqlite", cases.scores(models=models, seed=seed))
    thresholds = thresholds_of(found)
    (place,) = np.flatnonzero(thresholds.at == found.headline.threshold)
    assert thresholds.band is not None
    assert thresholds.band.epsilon[place] == pytest.approx(found.headline.value, abs=1e-9)
    assert thresholds.band.epsilon.max() == pytest.approx(found.headline.value, abs=1e-9)
    assert thresholds.fpr[place] == found.headline.fpr
    assert len(thresholds.at) <= MOST_POINTS + 1


def test_a_pointwise_limit_is_that_of_the_fixed_rule(tmp_path):
    worlds = cases.scores()
    thresholds = thresholds_of(cases.facts(tmp_path / "s.sqlite", worlds))
    for place in (0, len(thresholds.at) // 2, len(thresholds.at) - 1):
        fixed = lower_bound(worlds, estimator=ClopperPearson(), rule=Fixed(float(thresholds.at[place])))
        assert thresholds.pointwise.epsilon[place] == pytest.approx(fixed.value, abs=1e-9)


def test_the_threshold_of_the_headline_can_be_chosen_whatever_it_is(tmp_path):
    worlds = cases.scores()
    bounds = every_bound(worlds, Question(), thresholds=(0.777,))
    found = facts_of_scores(worlds, bounds, None, ("in.csv", "out.csv"))
    thresholds = thresholds_of(found)
    assert thresholds.at[thresholds.start] == 0.777
    assert thresholds.pointwise is not None
    assert thresholds.pointwise.epsilon[thresholds.start] == pytest.approx(found.headline.value)


def test_a_group_is_compared_with_what_is_allowed_of_a_group(tmp_path):
    claim = UpperBound.claimed(1.0, delta=1e-5)
    found = replace(cases.facts(tmp_path / "s.sqlite", claim=claim), compared=5)
    curves = {curve.name: curve for curve in curves_of(found, thresholds_of(found))}
    assert "allowed by the mechanism itself" not in curves
    expected = EpsilonDelta(5.0, group_delta(1e-5, 1.0, 5))
    allowed = curves["allowed by eps_ub and delta"]
    np.testing.assert_array_equal(allowed.fnr, expected(allowed.fpr))
    large = replace(found, upper_bound=UpperBound.claimed(10.0, delta=1e-5))
    assert [curve.name for curve in curves_of(large, thresholds_of(large))] == list(curves)[:2]


def test_an_audit_that_stopped_by_its_scores_has_no_limits_at_thresholds(tmp_path):
    found = cases.facts(tmp_path / "s.sqlite")
    stopped = replace(found, bounds=(replace(found.headline, rule="anytime", threshold=None),))
    thresholds = thresholds_of(stopped)
    assert thresholds.band is None
    assert thresholds.pointwise is None
    assert "when to stop was decided from the scores" in (no_limits(stopped) or "")


def test_limits_exceed_what_was_seen_and_the_band_exceeds_the_pointwise(tmp_path):
    thresholds = thresholds_of(cases.facts(tmp_path / "s.sqlite"))
    band, single = thresholds.band, thresholds.pointwise
    assert band is not None
    assert (single.fpr >= thresholds.fpr).all()
    assert (single.fnr >= thresholds.fnr).all()
    assert (band.fpr >= single.fpr).all()
    assert (band.fnr >= single.fnr).all()


def test_scores_that_are_not_independent_have_no_band(tmp_path):
    found = cases.facts(tmp_path / "s.sqlite", independent=False)
    thresholds = thresholds_of(found)
    assert thresholds.band is None
    assert "certified limit of the attack" not in [curve.name for curve in curves_of(found, thresholds)]


def test_curves_are_the_attack_its_limit_the_claim_and_the_mechanism(tmp_path):
    found = cases.facts(tmp_path / "s.sqlite")
    attack, limit, claim, own = curves_of(found, thresholds_of(found))
    assert (attack.fpr[0], attack.fnr[0], attack.fpr[-1], attack.fnr[-1]) == (1, 0, 0, 1)
    assert limit.name == "certified limit of the attack"
    assert found.upper_bound is not None
    expected = EpsilonDelta(found.upper_bound.value, 1e-5)(claim.fpr)
    np.testing.assert_array_equal(claim.fnr, expected)
    assert (own.fnr >= claim.fnr - 1e-3).all()
    assert (own.fnr <= 1 - own.fpr + 1e-9).all()


def test_without_a_mechanism_or_a_claim_their_curves_are_left_out(tmp_path):
    found = cases.facts(tmp_path / "s.sqlite", trained=False)
    assert len(curves_of(found, thresholds_of(found))) == 2


@pytest.mark.parametrize(
    "worlds",
    [
        AuditScores([1.0, 2.0, np.inf], [0.0, -np.inf, 1.0]),
        AuditScores([3.0], [3.0]),
        AuditScores([np.inf], [-np.inf]),
        AuditScores([1.7e308, -1.7e308], [0.0]),
        AuditScores([1e17, 1e17], [1e17]),
    ],
)
def test_histograms_hold_every_score_once_also_infinite_and_equal_ones(tmp_path, worlds):
    histogram = histogram_of(cases.facts(tmp_path / "s.sqlite", worlds))
    assert histogram.inside.sum() == pytest.approx(1)
    assert histogram.outside.sum() == pytest.approx(1)
    assert np.isfinite(histogram.edges).all()


def test_removals_add_up_class_by_class(tmp_path):
    removed = removed_of(cases.facts(tmp_path / "s.sqlite"))
    assert removed is not None
    assert removed.epochs.tolist() == [0, 1, 2]
    assert removed.names == ("class 0", "class 1")
    np.testing.assert_allclose(removed.shares, [[0, 0], [0.1, 0.05], [0.1, 0.1]])


def test_a_run_without_removals_has_no_such_chart(tmp_path):
    assert removed_of(cases.facts(tmp_path / "s.sqlite", trained=False)) is None
