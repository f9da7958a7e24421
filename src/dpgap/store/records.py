"""What the store takes and gives back."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
