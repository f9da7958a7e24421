"""Bounds of many records at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgap.errors import InvalidInput
from dpgap.privacy.counts import AuditScores
from dpgap.privacy.estimators import ClopperPearson, Gaussian, Jeffreys
from dpgap.privacy.every_record import bound_every_record, strongest_record
from dpgap.privacy.lower_bound import lower_bound
from dpgap.privacy.rules import AllThresholds, Band


def audit_of(records, models, seed, exposed=()):
    """Scores with ties and infinities; the exposed records' scores rise by 4 when they are in."""
    draws = np.random.default_rng(seed)
    included = draws.random((records, models)) < 0.5
    included[:, :2] = True, False
    scores = np.round(draws.standard_normal((records, models)), 1)
    scores[list(exposed)] += 4 * included[list(exposed)]
    scores[draws.random(scores.shape) < 0.02] = np.inf
    return scores, included


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), records=st.integers(1, 5), models=st.integers(4, 40))
@pytest.mark.parametrize("estimator", [ClopperPearson(), Jeffreys(), Gaussian()], ids=lambda e: e.id)
@pytest.mark.parametrize("rule", [Band(), AllThresholds()], ids=lambda rule: rule.id)
def test_each_record_gets_the_bound_that_it_gets_alone(estimator, rule, seed, records, models):
    scores, included = audit_of(records, models, seed, exposed=(0,))
    together = bound_every_record(scores, included, estimator=estimator, rule=rule, together=False)
    for record, (mine, bits) in enumerate(zip(scores, included, strict=True)):
        alone = lower_bound(AuditScores(mine[bits], mine[~bits]), estimator=estimator, rule=rule)
        assert together.values[record] == pytest.approx(alone.value, abs=1e-9)
        assert together.n_inside[record] == alone.n_inside


def test_bounds_do_not_depend_on_how_many_records_share_a_chunk(monkeypatch):
    scores, included = audit_of(30, 50, seed=1)
    whole = bound_every_record(scores, included).values
    monkeypatch.setattr("dpgap.privacy.every_record._CELLS", 200)
    np.testing.assert_array_equal(bound_every_record(scores, included).values, whole)


def test_together_pays_for_the_search():
    scores, included = audit_of(50, 200, seed=2, exposed=(17,))
    paid = bound_every_record(scores, included)
    alone = AuditScores(scores[17][included[17]], scores[17][~included[17]])
    assert paid.strongest == 17
    assert paid.values[17] == pytest.approx(lower_bound(alone, confidence=1 - 0.05 / 50).value, abs=1e-9)
    assert 0 < paid.values[17] < lower_bound(alone).value


def test_the_strongest_record_is_found_in_some_models_and_bounded_in_the_others():
    scores, included = audit_of(50, 400, seed=3, exposed=(8,))
    record, bound = strongest_record(scores, included)
    assert record == 8
    assert bound.validity == "certified"
    assert bound.value > 1
    assert bound.n_inside + bound.n_outside == 200


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s, i: (s[0], i[0]), r"scores of shape \(6,\)"),
        (lambda s, i: (s, i[:, :5]), r"included of shape \(3, 5\)"),
        (lambda s, i: (np.where(np.arange(3)[:, None] == 1, np.nan, s), i), "scores of record 1 hold NaN"),
        (lambda s, i: (s, i | (np.arange(3)[:, None] == 2)), "record 2 in 6 of 6 models"),
    ],
)
def test_tables_that_hold_no_audit_are_refused_by_name(change, words):
    scores = np.arange(18.0).reshape(3, 6)
    included = np.tile([True, False], (3, 3))
    with pytest.raises(InvalidInput, match=words):
        bound_every_record(*change(scores, included))
