"""Every bound that two worlds of scores support, in an order that no result decides."""

from dataclasses import dataclass
from typing import Protocol

from dpgap.errors import IncomparableBounds
from dpgap.privacy.counts import AuditScores
from dpgap.privacy.estimators import (
    ClopperPearson,
    Estimator,
    Gaussian,
    Jeffreys,
    JointBeta,
    SubsampledGaussian,
)
from dpgap.privacy.lower_bound import LowerBound, ThreatModel, lower_bound
from dpgap.privacy.mechanism import Adjacency, Poisson, Sampling
from dpgap.privacy.paper import paper_bound
from dpgap.privacy.rules import VALIDITIES, AllThresholds, Band, Bonferroni, Fixed, HeldOut, Rule
from dpgap.privacy.upper_bound import UpperBound

_EVALUATING_SHARES = (1.0, 0.25, 0.5, 0.75)


@dataclass(frozen=True, kw_only=True)
class Question:
    """What an audit asks of its scores: at which delta, how surely, of which neighbours and attacker.

    ``curve`` is DP-SGD's (sample rate, steps), for the estimator that uses its exact trade-off.
    """

    delta: float = 1e-5
    confidence: float = 0.95
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    threat_model: ThreatModel = "final"
    curve: tuple[float, int] | None = None


COVERED: dict[str, tuple[ThreatModel, ...]] = {
    "full-state": ("final", "full-state", "final-gradient", "full-state-gradient"),
    "final": ("final",),
}
"""What an attacker may see, and make, under each kind of upper bound."""


class Asked(Protocol):
    """What has a delta and neighbours: a question, or an answer to one."""

    @property
    def delta(self) -> float:
        """At which delta."""
        ...

    @property
    def adjacency(self) -> Adjacency:
        """Of which neighbours."""
        ...


def check_same(one: Asked, other: Asked, told: tuple[str, str]) -> None:
    """Refuse to set side by side what was asked of other neighbours or at another delta."""
    for name, ours, theirs in (
        ("delta", one.delta, other.delta),
        ("adjacency", one.adjacency.value, other.adjacency.value),
    ):
        if ours != theirs:
            raise IncomparableBounds(
                f"{told[0]}'s {name} is {ours!r}, {told[1]}'s {theirs!r}: neither says anything of the "
                f"other. Ask both for the same {name}."
            )


def check_answers(question: Question, bound: UpperBound) -> None:
    """Refuse an upper bound that does not speak of what is asked."""
    check_same(question, bound, ("The audit", "the upper bound"))
    if question.threat_model not in COVERED[bound.covers]:
        raise IncomparableBounds(
            f"The attack works with {question.threat_model!r} access, and the upper bound covers the release "
            f"of {bound.covers!r} only. Success would refute nothing; choose an attack on what is released."
        )


def refutes(shown: LowerBound, allowed: UpperBound | None) -> bool:
    """Whether a certified bound exceeds what is allowed: one of them is wrong, and the first seldom is."""
    return allowed is not None and shown.validity == "certified" and shown.value > allowed.value


def curve_of(sampling: Sampling, steps: int) -> tuple[float, int] | None:
    """Sample rate and steps of a run with Poisson sampling; no other has a curve of this kind."""
    return (sampling.rate, steps) if isinstance(sampling, Poisson) else None


def every_bound(
    scores: AuditScores, question: Question, *, thresholds: tuple[float, ...] = (), seed: int = 0
) -> list[LowerBound]:
    """Every estimator with every rule: certified ones first, never ordered by their value.

    The first is the headline. It is named in advance, as the largest of several is certified by none: the
    given ``thresholds``, fixed before the scores were seen, if there are any, else the band. ``seed`` is of
    the random split of the held-out rule, which a world of one score cannot have.

    >>> table = every_bound(AuditScores(range(100, 200), range(100)), Question())
    >>> [(row.estimator, row.rule) for row in table if row.validity == "certified"]
    [('clopper-pearson', 'band'), ('clopper-pearson', 'held-out')]
    """
    bounds = [
        lower_bound(
            scores,
            delta=question.delta,
            confidence=question.confidence,
            estimator=estimator,
            rule=rule,
            adjacency=question.adjacency,
            threat_model=question.threat_model,
        )
        for estimator in _estimators(question)
        for rule in _rules(scores, thresholds, seed)
    ]
    return sorted(bounds, key=lambda found: VALIDITIES.index(found.validity))


def paper_columns(scores: AuditScores, question: Question) -> list[LowerBound]:
    """GDP without holdout (the headline), then the columns of the paper's Appendix I, in its order.

    Columns whose holdout would leave a part of a small world without a score are left out.
    """
    estimators = (Gaussian(), ClopperPearson())
    smaller = min(scores.inside.size, scores.outside.size)
    return [
        paper_bound(
            scores,
            estimator,
            evaluating=share,
            delta=question.delta,
            adjacency=question.adjacency,
            threat_model=question.threat_model,
        )
        for estimator in estimators
        for share in _EVALUATING_SHARES
        if share == 1 or 0 < round(smaller * share) < smaller
    ]


def _estimators(question: Question) -> list[Estimator]:
    estimators: list[Estimator] = [ClopperPearson(), Jeffreys(), JointBeta(), Gaussian()]
    if question.curve:
        rate, steps = question.curve
        estimators.append(SubsampledGaussian(sample_rate=rate, steps=steps, adjacency=question.adjacency))
    return estimators


def _rules(scores: AuditScores, thresholds: tuple[float, ...], seed: int) -> list[Rule]:
    rules: list[Rule] = [Band(), AllThresholds()]
    if min(scores.inside.size, scores.outside.size) > 1:
        rules.insert(1, HeldOut(seed=seed))
    match thresholds:
        case ():
            return rules
        case (threshold,):
            return [Fixed(threshold), *rules]
        case several:
            return [Bonferroni(several), *rules]
