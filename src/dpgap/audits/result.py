"""What an audit found, in one record."""

from dataclasses import dataclass
from typing import Literal

from dpgap.privacy.lower_bound import LowerBound
from dpgap.privacy.table import refutes
from dpgap.privacy.upper_bound import UpperBound
from dpgap.store.records import Removals, Spread

Status = Literal["finished", "certified", "futile", "incomplete"]


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
        return refutes(self.headline, self.upper_bound)
