"""eps_lb: from the scores of two worlds to the privacy loss that an attack was shown to cause."""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dpgap import _check
from dpgap._seeds import stream
from dpgap.errors import IncomparableBounds
from dpgap.privacy.counts import AuditScores, ErrorCounts
from dpgap.privacy.estimators import ClopperPearson, Estimator, SubsampledGaussian
from dpgap.privacy.intervals import clopper_pearson_lower, clopper_pearson_upper
from dpgap.privacy.mechanism import Adjacency
from dpgap.privacy.rules import Band, Candidates, Rule, Validity, weaker

Floats = NDArray[np.float64]
IntervalMethod = Literal["clopper-pearson", "posterior", "bootstrap"]
ThreatModel = Literal["final", "full-state", "final-gradient", "full-state-gradient"]
"""What the attacker saw (the final model, or every model) and made (an input, or a gradient)."""

_DRAWS = 1000


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A two-sided interval that goes with a bound.

    - ``clopper-pearson``: covers the epsilon that the threshold's true error rates refute.
    - ``posterior``: the central part of that epsilon's posterior, for `JointBeta`.
    - ``bootstrap``: how far the bound moves when the errors at its threshold are drawn again.

    ``descriptive``: the same scores chose the threshold, so that the interval certifies nothing.
    """

    low: float
    high: float
    confidence: float
    method: IntervalMethod
    descriptive: bool


@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """What an audit showed: "the privacy loss at ``delta`` exceeds ``value``", and how far to believe it.

    ``validity`` is the weaker of the estimator's and the rule's: ``certified`` (wrong with probability
    at most ``1 - confidence``), ``model-based`` (so if the assumptions hold) or ``heuristic``. ``fpr``
    and ``fnr`` are the rates seen at ``threshold``. With ``group_size`` k the bound is on the loss of k
    records added together.
    """

    value: float
    delta: float
    confidence: float
    estimator: str
    rule: str
    validity: Validity
    adjacency: Adjacency
    threat_model: ThreatModel
    n_inside: int
    n_outside: int
    threshold: float | None
    fpr: float | None
    fnr: float | None
    interval: Interval | None
    assumptions: tuple[str, ...]
    group_size: int = 1


def lower_bound(
    scores: AuditScores,
    *,
    delta: float = 1e-5,
    confidence: float = 0.95,
    estimator: Estimator | None = None,
    rule: Rule | None = None,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    threat_model: ThreatModel = "final",
    group_size: int = 1,
    interval_confidence: float | None = None,
) -> LowerBound:
    """The largest epsilon that the scores refute: by default, Clopper-Pearson limits in a band.

    With ``group_size`` k the inside models hold k records more, and the bound is on the privacy loss of
    all k together: `one_record_bound` says what follows for one. The two-sided interval has the bound's
    confidence unless given its own.

    **Guarantees**: for a certified estimator and rule, and independent scores, the true privacy loss at
    ``delta`` is at least ``value``, except with probability ``1 - confidence`` over the scores of both
    worlds together. **Edge cases**: 0 when nothing is refuted; finite under perfect separation.

    >>> bound = lower_bound(AuditScores(range(100, 200), range(100)))
    >>> round(bound.value, 2), bound.validity, bound.threshold
    (3.02, 'certified', 100.0)
    """
    estimator, rule = estimator or ClopperPearson(), rule or Band()
    _check_request(delta, confidence, estimator, adjacency, threat_model)
    _check.count(group_size=group_size)
    candidates = rule.candidates(scores, 1 - confidence, lambda options: estimator.best(options, delta)[0])
    index, value = estimator.best(candidates, delta)
    seen = candidates.seen
    return LowerBound(
        value=max(value, 0.0),
        delta=delta,
        confidence=confidence,
        estimator=estimator.id,
        rule=rule.id,
        validity=weaker(estimator.validity, rule.validity),
        adjacency=adjacency,
        threat_model=threat_model,
        n_inside=seen.n_inside,
        n_outside=seen.n_outside,
        threshold=float(seen.thresholds[index]),
        fpr=float(seen.false_positives[index] / seen.n_outside),
        fnr=float(seen.false_negatives[index] / seen.n_inside),
        interval=_interval(candidates, index, estimator, rule, delta, interval_confidence or confidence),
        assumptions=("the scores of each world are independent", *estimator.assumptions, *rule.assumptions),
        group_size=group_size,
    )


def one_record_bound(
    scores: AuditScores,
    *,
    group_size: int,
    delta: float = 1e-5,
    confidence: float = 0.95,
    estimator: Estimator | None = None,
    rule: Rule | None = None,
) -> LowerBound:
    """What an audit of ``group_size`` records added together certifies of the privacy loss of one.

    If one record's loss were (eps, delta)-DP, that of k would be (k eps, delta_k)-DP with
    ``delta_k = delta (e^(k eps) - 1)/(e^eps - 1)``; the bound is the largest eps for which the group's own
    bound at delta_k exceeds k eps. Division by k alone is not a theorem and is not offered.

    **Guarantees**: those of `lower_bound`, for the adjacency "add-remove" by induction over the group.
    **Edge cases**: ``group_size`` 1 is `lower_bound`.
    """
    estimator, rule = estimator or ClopperPearson(), rule or Band()
    bound = lower_bound(
        scores, delta=delta, confidence=confidence, estimator=estimator, rule=rule, group_size=group_size
    )
    candidates = rule.candidates(scores, 1 - confidence, lambda options: estimator.best(options, delta)[0])

    def refuted(epsilon: float) -> bool:
        loosened = group_delta(delta, epsilon, group_size)
        return loosened < 1 and estimator.best(candidates, loosened)[1] > group_size * epsilon

    low, high = 0.0, bound.value / group_size
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    conversion = f"converted from the loss of {group_size} records together by group privacy"
    return replace(
        bound, value=low, interval=None, group_size=1, assumptions=(*bound.assumptions, conversion)
    )


def group_delta(delta: float, epsilon: float, group_size: int) -> float:
    """The delta at which k records together are (k epsilon, .)-DP if one is (epsilon, delta)-DP.

    >>> round(group_delta(0.001, 1.0, 3), 6)
    0.011107
    """
    if epsilon == 0:
        return delta * group_size
    ratio = (group_size - 1) * epsilon + np.log(-np.expm1(-group_size * epsilon) / -np.expm1(-epsilon))
    return float(delta * np.exp(np.minimum(ratio, 700.0)))


def _interval(
    candidates: Candidates, index: int, estimator: Estimator, rule: Rule, delta: float, confidence: float
) -> Interval:
    tail = (1 - confidence) / 2
    method: IntervalMethod = "bootstrap"
    limits = estimator.interval(candidates, index, delta, confidence)
    if limits is not None:
        method = "posterior"
    elif rule.chosen_in_advance:
        method = "clopper-pearson"
        rates = _two_sided_limits(candidates.seen, index, tail / 2)
        limits = estimator.quantile(*rates, delta, 0.0), estimator.quantile(*rates, delta, 1.0)
    else:
        rates = _redrawn_limits(candidates, index, estimator)
        limits = estimator.quantile(*rates, delta, tail), estimator.quantile(*rates, delta, 1 - tail)
    return Interval(
        low=max(limits[0], 0.0),
        high=max(limits[1], 0.0),
        confidence=confidence,
        method=method,
        descriptive=not rule.chosen_in_advance,
    )


def _two_sided_limits(seen: ErrorCounts, index: int, level: float) -> tuple[Floats, Floats]:
    """The lower, then the upper limit of each error rate."""
    counts = (seen.false_positives[index], seen.n_outside), (seen.false_negatives[index], seen.n_inside)
    sides = (clopper_pearson_lower, clopper_pearson_upper)
    fpr, fnr = (np.array([limit(errors, trials, level) for limit in sides]) for errors, trials in counts)
    return fpr, fnr


def _redrawn_limits(candidates: Candidates, index: int, estimator: Estimator) -> tuple[Floats, Floats]:
    """The limits of 1,000 audits whose errors are drawn at the rates seen, at the same levels."""
    seen = candidates.seen
    errors = np.array([seen.false_positives[index], seen.false_negatives[index]])
    trials = np.array([seen.n_outside, seen.n_inside])
    draws = stream(0, "interval", *errors.tolist(), *trials.tolist())
    redrawn = draws.binomial(trials, errors / trials, size=(_DRAWS, 2))
    return (
        estimator.upper(redrawn[:, 0], seen.n_outside, candidates.fpr_level[index]),
        estimator.upper(redrawn[:, 1], seen.n_inside, candidates.fnr_level[index]),
    )


def _check_request(
    delta: float, confidence: float, estimator: Estimator, adjacency: Adjacency, threat_model: str
) -> None:
    _check.delta(delta)
    _check.probability(confidence=confidence, hint="Write 0.95 for a claim that is wrong one time in twenty.")
    _check.one_of(get_args(ThreatModel), threat_model=threat_model)
    if isinstance(estimator, SubsampledGaussian) and estimator.adjacency != adjacency:
        raise IncomparableBounds(
            f"the audit's adjacency is {adjacency.value!r}, the curve's {estimator.adjacency.value!r}: the "
            "bound would answer another question. Give both the adjacency of the audited worlds."
        )
