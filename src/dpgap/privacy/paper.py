"""The paper's own eps_lb, reproduced so that its tables can be compared digit by digit."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from dpgap import _check
from dpgap._seeds import stream
from dpgap.privacy.counts import AuditScores
from dpgap.privacy.estimators import ClopperPearson, Gaussian
from dpgap.privacy.lower_bound import LowerBound, ThreatModel, lower_bound
from dpgap.privacy.mechanism import Adjacency
from dpgap.privacy.rules import Candidates, Choose, Rule, Validity, at_equal_levels

_THRESHOLDS = 200
_TAIL = {Gaussian.id: 0.10, ClopperPearson.id: 0.05}
"""The paper's one-sided level of each rate's limit; the joint confidence is 1 minus twice that."""


@final
@dataclass(frozen=True, kw_only=True)
class Paper(Rule):
    """The paper's rule: the best of 200 percentiles of the pooled scores, the sign flipped if need be.

    With ``evaluating`` below 1 the threshold is chosen on the other scores: the paper's "holdout", which
    its tables name by the share that evaluates.

    **Guarantees**: none: the sign is chosen on all scores, and without a split the threshold too.
    """

    evaluating: float = 1.0

    id: ClassVar[str] = "paper"
    validity: ClassVar[Validity] = "heuristic"
    chosen_in_advance: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.evaluating != 1:
            _check.probability(
                evaluating=self.evaluating, hint="Write 0.25, 0.5 or 0.75, or 1 for no holdout."
            )

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What must hold."""
        chosen = "sign" if self.evaluating < 1 else "sign and threshold"
        return (f"the {chosen} would have been chosen without seeing the scores (not so: heuristic)",)

    def candidates(self, scores: AuditScores, level: float, choose: Choose) -> Candidates:
        """The percentiles, or with a holdout the one that the selecting scores chose."""
        with np.errstate(invalid="ignore"):
            flipped = np.mean(scores.inside) < np.mean(scores.outside)
        if flipped:
            scores = AuditScores(-scores.inside, -scores.outside)
        if self.evaluating == 1:
            return at_equal_levels(scores.errors_at(_percentiles(scores)), level)
        selecting, evaluating = scores.split(self.evaluating, stream(0, "paper"))
        options = at_equal_levels(selecting.errors_at(_percentiles(selecting)), level)
        threshold = options.seen.thresholds[choose(options)]
        return at_equal_levels(evaluating.errors_at([threshold]), level)


def _percentiles(scores: AuditScores) -> NDArray[np.float64]:
    pooled, shares = np.concatenate([scores.inside, scores.outside]), np.linspace(0, 100, _THRESHOLDS)
    with np.errstate(invalid="ignore"):
        thresholds = np.percentile(pooled, shares)
    # Nothing lies between two infinities: there the next score itself is the threshold.
    return np.where(np.isnan(thresholds), np.percentile(pooled, shares, method="higher"), thresholds)


def paper_bound(
    scores: AuditScores,
    estimator: ClopperPearson | Gaussian,
    *,
    evaluating: float = 1.0,
    delta: float = 1e-5,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    threat_model: ThreatModel = "final",
) -> LowerBound:
    """One column of the paper's tables, with the paper's levels and its 90 % interval.

    Its headline, wherever one number is quoted, is ``paper_bound(scores, Gaussian())``.

    >>> separated = AuditScores(range(200, 400), range(200))
    >>> round(paper_bound(separated, ClopperPearson()).value, 3)
    4.185
    """
    return lower_bound(
        scores,
        delta=delta,
        confidence=1 - 2 * _TAIL[estimator.id],
        estimator=estimator,
        rule=Paper(evaluating=evaluating),
        adjacency=adjacency,
        threat_model=threat_model,
        interval_confidence=0.90,
    )
