"""What the charts show, as data: rates at every threshold, trade-off curves, histograms, removals."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpgap.privacy.accounting import tradeoff
from dpgap.privacy.estimators import ClopperPearson
from dpgap.privacy.rules import Band, at_equal_levels
from dpgap.privacy.tradeoff import EpsilonDelta, TradeOff
from dpgap.report.facts import Facts, Ints

Floats = NDArray[np.float64]
MOST_POINTS = 300
"""Of a curve, and of the slider: more than a screen can tell apart."""
BINS = 40
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

    ``band`` holds at all of them together, and is None where scores are not independent or more were drawn
    until a rule said stop. ``pointwise`` holds at one that was chosen without the scores: heuristic here.
    """

    at: Floats
    fpr: Floats
    fnr: Floats
    band: Limits | None
    pointwise: Limits


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """False-negative rates over false-positive rates."""

    name: str
    fpr: Floats
    fnr: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Histogram:
    """The share of each world's scores between two edges; infinite scores are in the outermost bins."""

    edges: Floats
    inside: Floats
    outside: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Removed:
    """The mean share of each class that had left by each epoch; ``names`` are of the columns."""

    epochs: Floats
    names: tuple[str, ...]
    shares: Floats


def thresholds_of(facts: Facts) -> Thresholds:
    """Every threshold that is somebody's best, or as many as can be told apart; the headline's among them."""
    bound = facts.headline
    level, estimator = 1 - bound.confidence, ClopperPearson()
    candidates = Band().candidates(facts.scores, level, lambda _: 0)
    seen = candidates.seen
    kept = _spaced(len(seen.thresholds))
    if bound.threshold is not None:
        kept = np.union1d(kept, np.flatnonzero(seen.thresholds == bound.threshold))

    def limits(fpr: Floats, fnr: Floats) -> Limits:
        epsilon = estimator.epsilon(estimator.strength(fpr, fnr, bound.delta), bound.delta)
        return Limits(fpr=fpr[kept], fnr=fnr[kept], epsilon=np.maximum(epsilon, 0.0)[kept])

    certified = facts.independent and bound.rule == "band"
    return Thresholds(
        at=seen.thresholds[kept],
        fpr=seen.false_positives[kept] / seen.n_outside,
        fnr=seen.false_negatives[kept] / seen.n_inside,
        band=limits(*estimator.limits(candidates)) if certified else None,
        pointwise=limits(*estimator.limits(at_equal_levels(seen, level))),
    )


def curves_of(facts: Facts, thresholds: Thresholds) -> list[Curve]:
    """The attack as it was seen, the band above it, and what the claim and the mechanism allow."""
    curves = [_closed("the attack, as seen", thresholds.fpr, thresholds.fnr)]
    if thresholds.band:
        curves.append(_closed("certified limit of the attack", thresholds.band.fpr, thresholds.band.fnr))
    if facts.upper_bound:
        claim = facts.upper_bound
        curves.append(_allowed("allowed by eps_ub and delta", EpsilonDelta(claim.value, claim.delta)))
    if facts.mechanism and facts.mechanism.noise_multiplier > 0:
        curves.append(_allowed("allowed by the mechanism itself", tradeoff(facts.mechanism)))
    return curves


def histogram_of(facts: Facts) -> Histogram:
    """Both worlds in the same bins, between the least and the largest finite score."""
    worlds = facts.scores.inside, facts.scores.outside
    pooled = np.concatenate(worlds)
    finite = pooled[np.isfinite(pooled)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (-1.0, 1.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, BINS + 1)
    inside, outside = (np.histogram(world.clip(low, high), edges)[0] / world.size for world in worlds)
    return Histogram(edges=edges, inside=inside, outside=outside)


def removed_of(facts: Facts) -> Removed | None:
    """How much of each class had left by when; of very many classes the least, mean and largest share."""
    tables = [table for table in facts.removed if len(table) > 1]
    if not tables or facts.canaries is None:
        return None
    steps = np.unique(np.concatenate([table[:, 0] for table in tables]))
    shares = np.mean([_share_gone(table, steps) for table in tables], axis=0)
    names = tuple(f"class {label}" for label in range(shares.shape[1]))
    if len(names) > MOST_CLASSES:
        names = ("least", "mean", "largest")
        shares = np.stack([shares.min(axis=1), shares.mean(axis=1), shares.max(axis=1)], axis=1)
    return Removed(epochs=steps / facts.canaries.steps_per_epoch, names=names, shares=shares)


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


def rounded(values: Sequence[float] | Floats, digits: int = 5) -> list[float | None]:
    """For JSON: a number that is not finite is None."""
    return [round(float(value), digits) if np.isfinite(value) else None for value in values]
