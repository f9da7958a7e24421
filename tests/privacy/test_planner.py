"""Plans: ceilings, expectations and the models that a wanted bound needs."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from dpgap.errors import InvalidInput
from dpgap.privacy.counts import AuditScores
from dpgap.privacy.lower_bound import lower_bound
from dpgap.privacy.planner import PLANNED_RULES, ceiling, expected_bound, models_needed, plan, separation_of
from dpgap.privacy.rules import AllThresholds, Band, HeldOut
from dpgap.privacy.tradeoff import gaussian_epsilon

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "vectors.json").read_text())


@pytest.mark.parametrize(("per_world", "published"), VECTORS["cp_ceiling_perfect_attack"].items())
def test_the_ceiling_of_a_fixed_threshold_is_the_published_one(per_world, published):
    assert ceiling(int(per_world), "fixed", 1e-5, 0.95) == pytest.approx(published, abs=1e-3)


def test_no_audit_exceeds_its_ceiling():
    perfect = AuditScores(np.arange(100.0) + 1000, np.arange(100.0))
    for rule, made in (("band", Band()), ("held-out", HeldOut()), ("all-thresholds", AllThresholds())):
        assert lower_bound(perfect, rule=made).value <= ceiling(100, rule, 1e-5, 0.95) + 1e-9


@pytest.mark.parametrize(
    ("rule", "made"), [("band", Band()), ("held-out", HeldOut()), ("all-thresholds", AllThresholds())]
)
def test_the_expected_bound_is_the_mean_of_audits_that_are_made(rule, made):
    draws = np.random.default_rng(5)
    values = [
        lower_bound(AuditScores(draws.normal(2, 1, 100), draws.normal(0, 1, 100)), rule=made).value
        for _ in range(300)
    ]
    # 4 standard errors of both means: fails by chance with probability below 1e-4.
    error = 4 * np.std(values) * math.sqrt(1 / 300 + 1 / 2000)
    assert expected_bound(100, 2.0, rule, 1e-5, 0.95) == pytest.approx(np.mean(values), abs=error)


@pytest.mark.parametrize("rule", PLANNED_RULES)
def test_more_models_are_expected_to_certify_more(rule):
    values = [expected_bound(n, 2.0, rule, 1e-5, 0.95) for n in (50, 200, 1000)]
    assert values == sorted(values)
    assert values[-1] < gaussian_epsilon(2.0, 1e-5)


@pytest.mark.parametrize("rule", PLANNED_RULES)
def test_the_models_needed_are_enough_and_not_many_too_many(rule):
    needed = models_needed(1.5, 2.0, rule, 1e-5, 0.95)
    per_world = int(needed) // 2
    assert expected_bound(per_world, 2.0, rule, 1e-5, 0.95) >= 1.5
    assert expected_bound(int(per_world * 0.95), 2.0, rule, 1e-5, 0.95) < 1.5


def test_a_target_beyond_the_true_loss_needs_infinitely_many():
    assert models_needed(4.4, 1.0, "band", 1e-5, 0.95) == math.inf


def test_separation_and_privacy_loss_are_two_names_of_one_thing():
    for epsilon in (1e-3, 1.0, 8.0, 500.0):
        assert gaussian_epsilon(separation_of(epsilon, 1e-5), 1e-5) == pytest.approx(epsilon, rel=1e-9)


def test_a_plan_has_a_row_per_rule_and_marks_the_heuristic():
    rows = plan(models=400, target_epsilon=1.0, separation=2.0)
    assert [row.rule for row in rows] == list(PLANNED_RULES)
    assert [row.rule for row in rows if row.heuristic] == ["all-thresholds"]
    assert all(row.expected < row.ceiling and row.models_needed < math.inf for row in rows)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({}, "models and target_epsilon are both missing"),
        ({"models": 3}, "models must be a whole number, 4 or more, got 3"),
        ({"target_epsilon": -1.0}, "target_epsilon must be a finite number above 0"),
        ({"models": 10, "separation": 0.0}, "separation must be a finite number above 0"),
        ({"models": 10, "delta": 2.0}, "delta must be"),
    ],
)
def test_a_plan_that_cannot_be_made_is_refused_by_name(request_, words):
    with pytest.raises(InvalidInput, match=words):
        plan(**request_)
