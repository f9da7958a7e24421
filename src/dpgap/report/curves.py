"""What the charts show, as data: rates at every threshold, trade-off curves, histograms, removals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpgap.privacy.accounting import tradeoff
from dpgap.privacy.estimators import ClopperPearson
from dpgap.privacy.lower_bound import group_delta
from dpgap.privacy.rules import Candidates, at_equal_levels, in_band
from dpgap.privacy.tradeoff import EpsilonDelta, TradeOff
from dpgap.report.facts import Facts, Ints

Floats = NDArray[np.float64]
MOST_POINTS = 300
"""Of a curve, and of the slider: more than a screen can tell apart."""
BINS = 40
LARGEST = 1e300
"""Of a score on an axis; beyond, the width of the axis would overflow."""
MOST_CLASSES = 20


@dataclass(frozen=True, kw_only=True, eq=False)
class Limits:
    """Upper limits of both error rates, and the epsilon that they refute, at each threshold."""

    fpr: Floats
    fnr: Floats
    epsilon: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Thresholds:
    """The test "inside if score >= threshold" at each of some thresholds, which rise.

    ``band`` holds at all of them together, ``pointwise`` at one that was chosen without the scores. Both are
    None where the scores support no limits. ``start`` is the place of the headline's threshold.
    """

    at: Floats
    fpr: Floats
    fnr: Floats
    band: Limits | None
    pointwise: Limits | None
    start: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """False-negative rates over false-positive rates."""

    name: str
    fpr: Floats
    fnr: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Histogram:
    """The share of each world's scores between two edges; ``infinite`` scores are in the outermost bins."""

    edges: Floats
    inside: Floats
    outside: Floats
    infinite: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Removed:
    """The mean share of each class that had left by each epoch; ``names`` are of the columns."""

    epochs: Floats
    names: tuple[str, ...]
    shares: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Shown:
    """All that a run's charts and slider show, computed once."""

    thresholds: Thresholds
    curves: list[Curve]
    histogram: Histogram
    removed: Removed | None


def shown_of(facts: Facts) -> Shown:
    """What there is to be shown of a run."""
    thresholds = thresholds_of(facts)
    return Shown(
        thresholds=thresholds,
        curves=curves_of(facts, thresholds),
        histogram=histogram_of(facts),
        removed=removed_of(facts),
    )


def thresholds_of(facts: Facts) -> Thresholds:
    """Every threshold that is somebody's best, or as many as can be told apart, and the headline's."""
    bound, best = facts.headline, facts.scores.errors().thresholds
    at = best[_spaced(len(best))]
    if bound.threshold is not None:
        at = np.union1d(at, [bound.threshold])
    seen, level = facts.scores.errors_at(at), 1 - bound.confidence
    certifies = facts.certifies
    return Thresholds(
        at=at,
        fpr=seen.false_positives / seen.n_outside,
        fnr=seen.false_negatives / seen.n_inside,
        band=_limits(in_band(seen, level), bound.delta) if certifies else None,
        pointwise=_limits(at_equal_levels(seen, level), bound.delta) if certifies else None,
        start=len(at) // 2 if bound.threshold is None else int(np.searchsorted(at, bound.threshold)),
    )


def _limits(candidates: Candidates, delta: float) -> Limits:
    estimator = ClopperPearson()
    fpr, fnr = estimator.limits(candidates)
    epsilon = estimator.epsilon(estimator.strength(fpr, fnr, delta), delta)
    return Limits(fpr=fpr, fnr=fnr, epsilon=np.maximum(epsilon, 0.0))


def curves_of(facts: Facts, thresholds: Thresholds) -> list[Curve]:
    """The attack as it was seen, the band above it, and what the claim and the mechanism allow.

    What is allowed of one record becomes what follows for as many as the worlds differ by.
    """
    curves = [_closed("the attack, as seen", thresholds.fpr, thresholds.fnr)]
    if thresholds.band:
        curves.append(_closed("certified limit of the attack", thresholds.band.fpr, thresholds.band.fnr))
    claim, count = facts.upper_bound, facts.compared
    delta = group_delta(claim.delta, claim.value, count) if claim and math.isfinite(claim.value) else 1.0
    if claim and delta < 1:
        curves.append(_allowed("allowed by eps_ub and delta", EpsilonDelta(count * claim.value, delta)))
    if facts.mechanism and facts.mechanism.noise_multiplier > 0 and count == 1:
        curves.append(_allowed("allowed by the mechanism itself", tradeoff(facts.mechanism)))
    return curves


def histogram_of(facts: Facts) -> Histogram:
    """Both worlds in the same bins, between the least and the largest finite score."""
    worlds = facts.scores.inside, facts.scores.outside
    pooled = np.concatenate(worlds)
    finite = np.clip(pooled[np.isfinite(pooled)], -LARGEST, LARGEST)
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (-1.0, 1.0)
    if high - low <= 1e-9 * abs(high):
        margin = max(0.5, 1e-6 * abs(low))
        low, high = low - margin, high + margin
    edges = np.linspace(low, high, BINS + 1)
    inside, outside = (np.histogram(world.clip(low, high), edges)[0] / world.size for world in worlds)
    infinite = int(np.isinf(pooled).sum())
    return Histogram(edges=edges, inside=inside, outside=outside, infinite=infinite)


def removed_of(facts: Facts) -> Removed | None:
    """How much of each class had left by when; of very many classes the least, mean and largest share."""
    tables = [table for table in facts.removed if len(table) > 1]
    if not tables or facts.steps_per_epoch is None:
        return None
    steps = np.unique(np.concatenate([table[:, 0] for table in tables]))
    shares = np.mean([_share_gone(table, steps) for table in tables], axis=0)
    names = tuple(f"class {label}" for label in range(shares.shape[1]))
    if len(names) > MOST_CLASSES:
        names = ("least", "mean", "largest")
        shares = np.stack([shares.min(axis=1), shares.mean(axis=1), shares.max(axis=1)], axis=1)
    return Removed(epochs=steps / facts.steps_per_epoch, names=names, shares=shares)


def _share_gone(table: Ints, steps: Ints) -> Floats:
    sizes = np.maximum(table[0, 1:], 1)
    gone = np.concatenate([np.zeros_like(table[:1, 1:]), table[1:, 1:].cumsum(axis=0)])
    return gone[np.searchsorted(table[:, 0], steps, side="right") - 1] / sizes


def _closed(name: str, fpr: Floats, fnr: Floats) -> Curve:
    """From accepting everybody to accepting nobody."""
    return Curve(name=name, fpr=np.concatenate([[1.0], fpr, [0.0]]), fnr=np.concatenate([[0.0], fnr, [1.0]]))


def _allowed(name: str, curve: TradeOff) -> Curve:
    low = np.geomspace(1e-7, 0.5, MOST_POINTS // 2 - 1)
    rates = np.concatenate([[0.0], low, 1 - low[::-1], [1.0]])
    return Curve(name=name, fpr=rates, fnr=curve(rates))


def _spaced(count: int) -> Ints:
    """The places of at most `MOST_POINTS` among ``count``, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).round().astype(np.int64))


def rounded(values: Sequence[float] | Floats, digits: int = 6) -> list[float | None]:
    """For JSON: as many digits that count; a number that is not finite is None."""
    return [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in values]
