"""What an audit found, in one record."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpgap.privacy.lower_bound import LowerBound
from dpgap.privacy.upper_bound import UpperBound

Status = Literal["finished", "certified", "futile", "incomplete"]


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


@dataclass(frozen=True, kw_only=True)
class Audit:
    """eps_lb beside eps_ub, and what it cost.

    ``bounds`` begins with the headline, which the design named in advance. ``status``: all planned models
    were trained (``finished``), the sequential test stopped (``certified``, ``futile``), or some are missing
    (``incomplete``). ``looks`` counts the bounds computed from this experiment's scores so far; those a
    reader compares should be few.
    """

    key: str
    title: str
    design: str
    status: Status
    models: int
    planned: int
    upper_bound: UpperBound | None
    bounds: tuple[LowerBound, ...]
    train_accuracy: Spread | None
    test_accuracy: Spread | None
    removals: Removals | None
    seconds_per_model: float
    looks: int
    notes: tuple[str, ...]

    @property
    def headline(self) -> LowerBound:
        """The certified bound that the audit was for."""
        return self.bounds[0]

    @property
    def saved(self) -> int:
        """Models that an early stop made unnecessary."""
        return self.planned - self.models if self.status in ("certified", "futile") else 0

    @property
    def refuted(self) -> bool:
        """Whether the headline exceeds eps_ub: one of them is wrong, and the headline seldom is."""
        return self.upper_bound is not None and self.headline.value > self.upper_bound.value
