"""What an audit of n models can certify, at best and on average, before they are trained."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from dpgap import _check
from dpgap._seeds import stream
from dpgap.errors import InvalidInput
from dpgap.privacy.counts import AuditScores
from dpgap.privacy.estimators import ClopperPearson
from dpgap.privacy.every_record import bound_every_record
from dpgap.privacy.intervals import clopper_pearson_upper
from dpgap.privacy.lower_bound import lower_bound
from dpgap.privacy.rules import AllThresholds, Band, Fixed
from dpgap.privacy.tradeoff import gaussian_epsilon

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
PlannedRule = Literal["fixed", "held-out", "band", "all-thresholds"]
PLANNED_RULES: tuple[PlannedRule, ...] = ("fixed", "held-out", "band", "all-thresholds")

_MOST_MODELS = 1_000_000
_SIMULATED_SCORES = 400_000
"""Scores drawn for one expectation: 1,000 audits of 400 models, fewer of larger ones, at least 20."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What one threshold rule can do with Clopper-Pearson limits.

    ``ceiling`` is the bound under perfect separation, ``expected`` the mean bound at the planned
    separation, ``models_needed`` the least number of models, both worlds together, at which the target is
    certified: on average at the planned separation, or at best if none was given. None where it was not
    asked for; infinity where no number of models up to a million is enough.
    """

    rule: PlannedRule
    heuristic: bool
    ceiling: float | None
    expected: float | None
    models_needed: float | None


def plan(
    *,
    models: int | None = None,
    target_epsilon: float | None = None,
    separation: float | None = None,
    delta: float = 1e-5,
    confidence: float = 0.95,
) -> list[Plan]:
    """A `Plan` per threshold rule, for ``models`` in all or for a wanted ``target_epsilon``, or both.

    ``separation`` is the distance between the worlds' mean scores in standard deviations, the scores
    being Gaussian; `separation_of` gives that of a true privacy loss.

    **Guarantees**: expectations are means over at least 20 simulated audits at a fixed seed.
    **Edge cases**: a target at or above the true privacy loss needs infinitely many models.

    >>> [band] = [row for row in plan(models=400) if row.rule == "band"]
    >>> round(band.ceiling, 2)
    3.75
    """
    _check_plan(models, target_epsilon, separation)
    _check.delta(delta)
    _check.probability(confidence=confidence, hint="Write 0.95 for a claim that is wrong one time in twenty.")
    return [
        Plan(
            rule=rule,
            heuristic=rule == "all-thresholds",
            ceiling=None if models is None else ceiling(models // 2, rule, delta, confidence),
            expected=None
            if models is None or separation is None
            else expected_bound(models // 2, separation, rule, delta, confidence),
            models_needed=None
            if target_epsilon is None
            else models_needed(target_epsilon, separation, rule, delta, confidence),
        )
        for rule in PLANNED_RULES
    ]


def separation_of(epsilon: float, delta: float) -> float:
    """The distance between two unit Gaussians whose privacy loss at ``delta`` is ``epsilon``.

    >>> round(separation_of(4.3771781, 1e-5), 6)
    1.0
    """
    _check.positive(true_epsilon=epsilon)
    _check.probability(delta=delta)
    highest = 1.0
    while gaussian_epsilon(highest, delta) < epsilon:
        highest *= 2
    return float(brentq(lambda mu: float(gaussian_epsilon(mu, delta)) - epsilon, 0.0, highest, xtol=1e-12))


def ceiling(per_world: int, rule: PlannedRule, delta: float, confidence: float) -> float:
    """The bound under perfect separation, which no attack exceeds."""
    n = round(per_world / 2) if rule == "held-out" else per_world
    scores = AuditScores(np.ones(n), np.zeros(n))
    evaluate = Band() if rule == "band" else Fixed(1.0)
    return lower_bound(scores, delta=delta, confidence=confidence, rule=evaluate).value


def expected_bound(
    per_world: int, separation: float, rule: PlannedRule, delta: float, confidence: float
) -> float:
    """The mean bound over simulated audits whose scores are N(separation, 1) inside and N(0, 1) outside."""
    audits = max(_SIMULATED_SCORES // (2 * per_world), 20)
    draws = stream(0, "planner")
    bound = partial(bound_every_record, delta=delta, confidence=confidence, together=False)
    if rule in ("band", "all-thresholds"):
        scores, included = _simulated(audits, per_world, separation, draws)
        evaluate = Band() if rule == "band" else AllThresholds()
        return float(bound(scores, included, rule=evaluate).values.mean())
    if rule == "held-out":
        evaluating = round(per_world / 2)
        scores, included = _simulated(audits, per_world - evaluating, separation, draws)
        thresholds = bound(scores, included, rule=AllThresholds()).thresholds
    else:
        evaluating = per_world
        thresholds = np.full(audits, _best_threshold(per_world, separation, delta, confidence))
    fpr = draws.binomial(evaluating, ndtr(-thresholds))
    fnr = draws.binomial(evaluating, ndtr(thresholds - separation))
    return float(_fixed_bounds(fpr, fnr, evaluating, delta, confidence).mean())


def models_needed(
    target_epsilon: float, separation: float | None, rule: PlannedRule, delta: float, confidence: float
) -> float:
    """The least number of models whose expected bound, or ceiling without a separation, is the target.

    It is found to 1 %, on the side of more models.
    """
    if separation is not None and target_epsilon >= gaussian_epsilon(separation, delta):
        return math.inf

    def reached(per_world: int) -> bool:
        if separation is None:
            return ceiling(per_world, rule, delta, confidence) >= target_epsilon
        return expected_bound(per_world, separation, rule, delta, confidence) >= target_epsilon

    low, high = 2, 4
    while not reached(high):
        low, high = high, 2 * high
        if 2 * high > _MOST_MODELS:
            return math.inf
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return 2.0 * high


def _simulated(
    audits: int, per_world: int, separation: float, draws: np.random.Generator
) -> tuple[Floats, NDArray[np.bool_]]:
    included = np.broadcast_to(np.arange(2 * per_world) < per_world, (audits, 2 * per_world))
    return draws.standard_normal(included.shape) + separation * included, included


def _best_threshold(per_world: int, separation: float, delta: float, confidence: float) -> float:
    """The threshold whose bound is best when both error counts are what is expected of them."""
    thresholds = np.linspace(-6.0, separation + 6.0, 2001)
    false_positives, false_negatives = (
        per_world * ndtr(-thresholds),
        per_world * ndtr(thresholds - separation),
    )
    strength = _fixed_bounds(false_positives, false_negatives, per_world, delta, confidence)
    return float(thresholds[np.argmax(strength)])


def _fixed_bounds(
    false_positives: Floats | Ints,
    false_negatives: Floats | Ints,
    per_world: int,
    delta: float,
    confidence: float,
) -> Floats:
    level = (1 - confidence) / 2
    fpr = clopper_pearson_upper(false_positives, per_world, level)
    fnr = clopper_pearson_upper(false_negatives, per_world, level)
    return np.maximum(ClopperPearson().strength(fpr, fnr, delta), 0.0)


def _check_plan(models: int | None, target_epsilon: float | None, separation: float | None) -> None:
    if models is None and target_epsilon is None:
        raise InvalidInput(
            "models and target_epsilon are both missing. Give the models you can train, or the bound that "
            "you want."
        )
    if models is not None:
        _check.count(models=models, at_least=4, hint="Half are trained with the canary; write 400.")
        if models > _MOST_MODELS:
            raise InvalidInput(
                f"models must be at most {_MOST_MODELS}, got {models!r}. A plan simulates so many scores; a "
                "million models certify little less."
            )
    if target_epsilon is not None:
        _check.positive(target_epsilon=target_epsilon)
    if separation is not None:
        _check.positive(separation=separation)
