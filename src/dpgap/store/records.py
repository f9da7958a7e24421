"""What the store takes and gives back."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

STATISTIC, INCLUDED, REMOVED_AT, FINGERPRINT = "statistic", "included", "removed_at", "fingerprint"
REMOVED_BY_CLASS = "removed_by_class"
"""The arrays kept of a model: of each row scored what the attack saw and whether it counts as in; after which
step each canary left; a hash of the model's outputs; and of the training records, a row for each moment
at which some left, with the step, then how many of each class; the first has step 0 and the sizes."""


@dataclass(frozen=True, kw_only=True)
class Description:
    """An experiment as the store knows it, in plain values.

    ``inputs`` is a fingerprint of the data that ``specification`` only names; ``upper_bound`` is the record
    of the claimed eps_ub, or None.
    """

    key: str
    title: str
    specification: dict[str, Any]
    inputs: str
    upper_bound: dict[str, Any] | None


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelResult:
    """What is kept of one model; ``arrays`` holds its scores and what else the design asks for."""

    model: int
    seconds: float
    train_accuracy: float | None
    test_accuracy: float | None
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Mean and standard deviation over models.

    >>> Spread.of([0.5, 0.7])
    Spread(mean=0.6, sd=0.1414...)
    """

    mean: float
    sd: float

    @classmethod
    def of(cls, values: Sequence[float | None]) -> "Spread | None":
        """That of ``values``; None where a model has none."""
        known = np.array([value for value in values if value is not None])
        if len(known) < len(values) or not len(known):
            return None
        return cls(mean=float(known.mean()), sd=float(known.std(ddof=1)) if len(known) > 1 else 0.0)


@dataclass(frozen=True, kw_only=True)
class Removals:
    """Of the ``planted`` canaries that were in a model, over all models: how many left, and after which step.

    ``median`` is of those that left; it and the other fields are private (rule 4 of the privacy contract).
    """

    planted: int
    removed: int
    median: float | None
    steps_per_epoch: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Conclusion:
    """What followed from an experiment, for a reader who has only the store.

    ``audit`` is the record of the audit in plain values; ``inside`` and ``outside`` are the scores of the two
    worlds that it compared, which differ by ``compared`` records. ``independent``: each is of a model of its
    own, so that a band certifies.
    """

    audit: dict[str, Any]
    inside: NDArray[np.float64]
    outside: NDArray[np.float64]
    independent: bool
    compared: int = 1


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One line about an experiment; ``bounds`` says how many were computed from its scores so far."""

    key: str
    title: str
    models: int
    failures: int
    bounds: int
    device_kind: str | None
    created: str
