"""Threshold rules: which thresholds an audit may choose among, and what looking at each one costs."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, final, get_args

import numpy as np
from numpy.typing import NDArray

from dpgap import _check
from dpgap._seeds import stream
from dpgap.errors import InvalidInput
from dpgap.privacy.counts import AuditScores, ErrorCounts
from dpgap.privacy.intervals import band_levels

Validity = Literal["certified", "model-based", "heuristic"]
VALIDITIES: tuple[Validity, ...] = get_args(Validity)
"""From the strongest to the weakest."""


def weaker(one: Validity, other: Validity) -> Validity:
    """The weaker of two.

    >>> weaker("heuristic", "certified")
    'heuristic'
    """
    return one if VALIDITIES.index(one) > VALIDITIES.index(other) else other


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Thresholds to choose among; at each, the errors seen, the errors charged for and the levels spent.

    A limit for the false-positive rate is computed from ``charged.false_positives`` at ``fpr_level``,
    likewise for the false-negative rate.
    """

    seen: ErrorCounts
    charged: ErrorCounts
    fpr_level: NDArray[np.float64]
    fnr_level: NDArray[np.float64]


Choose = Callable[[Candidates], int]


class Rule(ABC):
    """How a threshold is found and what finding it costs.

    ``candidates`` returns limits of which all hold at once with probability ``1 - level`` if the rule is
    certified. ``choose`` gives the index of an estimator's best candidate, for rules that spend some
    scores on choosing.
    """

    id: ClassVar[str]
    validity: ClassVar[Validity]
    chosen_in_advance: ClassVar[bool]

    @property
    @abstractmethod
    def assumptions(self) -> tuple[str, ...]:
        """What must hold for the rule to be what it says."""

    @abstractmethod
    def candidates(self, scores: AuditScores, level: float, choose: Choose) -> Candidates:
        """The candidates, whose limits fail with probability at most ``level`` in all."""


def at_equal_levels(errors: ErrorCounts, level: float) -> Candidates:
    """Every threshold of ``errors``, with half of ``level`` spent on each of its error rates."""
    each = np.full(errors.thresholds.size, level / 2)
    return Candidates(seen=errors, charged=errors, fpr_level=each, fnr_level=each)


def in_band(errors: ErrorCounts, level: float) -> Candidates:
    """Every threshold of ``errors``, at the levels of a band that holds at all thresholds together."""
    fpr, fnr = band_levels(errors.n_outside, level / 2), band_levels(errors.n_inside, level / 2)
    charged = ErrorCounts(
        thresholds=errors.thresholds,
        false_positives=fpr.counts[errors.false_positives],
        false_negatives=fnr.counts[errors.false_negatives],
        n_outside=errors.n_outside,
        n_inside=errors.n_inside,
    )
    return Candidates(
        seen=errors,
        charged=charged,
        fpr_level=fpr.levels[errors.false_positives],
        fnr_level=fnr.levels[errors.false_negatives],
    )


@final
@dataclass(frozen=True)
class Fixed(Rule):
    """One threshold, fixed before the scores were seen.

    **Guarantees**: certified; half of the level is spent on each error rate.
    """

    threshold: float

    id: ClassVar[str] = "fixed"
    validity: ClassVar[Validity] = "certified"
    chosen_in_advance: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _refuse_nan(self.threshold)

    def candidates(self, scores: AuditScores, level: float, choose: Choose) -> Candidates:
        """The one threshold."""
        return at_equal_levels(scores.errors_at([self.threshold]), level)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What must hold."""
        return ("the threshold was fixed before the scores were seen",)


@final
@dataclass(frozen=True, kw_only=True)
class HeldOut(Rule):
    """The threshold that is best on some of the scores, evaluated on the others, a ``share`` of each world.

    **Guarantees**: certified, as the evaluating scores had no part in the choice.
    """

    share: float = 0.5
    seed: int = 0

    id: ClassVar[str] = "held-out"
    validity: ClassVar[Validity] = "certified"
    chosen_in_advance: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check.probability(share=self.share, hint="It is the share of scores that evaluates; write 0.5.")

    def candidates(self, scores: AuditScores, level: float, choose: Choose) -> Candidates:
        """The one threshold that the selecting scores chose, with the evaluating scores' errors."""
        selecting, evaluating = scores.split(self.share, stream(self.seed, "held-out"))
        options = at_equal_levels(selecting.errors(), level)
        threshold = options.seen.thresholds[choose(options)]
        return at_equal_levels(evaluating.errors_at([threshold]), level)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What must hold."""
        return (f"the split was not chosen by its result (share {self.share}, seed {self.seed})",)


@final
@dataclass(frozen=True)
class Bonferroni(Rule):
    """Several thresholds fixed before the scores were seen, which share the level equally.

    **Guarantees**: certified.
    """

    thresholds: tuple[float, ...]

    id: ClassVar[str] = "bonferroni"
    validity: ClassVar[Validity] = "certified"
    chosen_in_advance: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.thresholds:
            raise InvalidInput(
                "thresholds must hold at least one number, got (). Write Bonferroni((0.0, 1.0))."
            )
        for threshold in self.thresholds:
            _refuse_nan(threshold)

    def candidates(self, scores: AuditScores, level: float, choose: Choose) -> Candidates:
        """Every threshold, at its share of the level."""
        return at_equal_levels(scores.errors_at(self.thresholds), level / len(self.thresholds))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What must hold."""
        return (f"the {len(self.thresholds)} thresholds were fixed before the scores were seen",)


@final
@dataclass(frozen=True)
class Band(Rule):
    """Every threshold, with limits that hold at all of them at once.

    Half of the level is spent on the false-positive curve, half on the false-negative curve; see
    ``intervals.band_levels`` for the levels and their exact calibration.

    **Guarantees**: certified whatever the law of the scores; nothing needs to be fixed in advance.
    """

    id: ClassVar[str] = "band"
    validity: ClassVar[Validity] = "certified"
    chosen_in_advance: ClassVar[bool] = False

    def candidates(self, scores: AuditScores, level: float, choose: Choose) -> Candidates:
        """Every threshold, each at the levels that the band allots to its counts."""
        return in_band(scores.errors(), level)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What must hold."""
        return ()


@final
@dataclass(frozen=True)
class AllThresholds(Rule):
    """The best of all thresholds, with limits that hold at one threshold only: what is mostly published.

    **Guarantees**: none. It claims too much far more often than the level says.
    """

    id: ClassVar[str] = "all-thresholds"
    validity: ClassVar[Validity] = "heuristic"
    chosen_in_advance: ClassVar[bool] = False

    def candidates(self, scores: AuditScores, level: float, choose: Choose) -> Candidates:
        """Every threshold, each at the full level."""
        return at_equal_levels(scores.errors(), level)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What must hold."""
        return ("the best threshold would have been chosen without seeing the scores (not so: heuristic)",)


def _refuse_nan(threshold: float) -> None:
    if math.isnan(threshold):
        raise InvalidInput(
            f"threshold must be a number, got {threshold!r}. Write the score that means 'inside'."
        )
