"""What can be run: who is in which model, who trains it, and what its scores are asked."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpgap._digest import digest
from dpgap.attacks.base import Attack
from dpgap.audits.base import Assignment, Design
from dpgap.errors import DpgapError, InvalidInput
from dpgap.privacy.table import Question
from dpgap.privacy.upper_bound import UpperBound
from dpgap.store.records import Description, ModelResult
from dpgap.training.execution import Execution

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A model that could not be trained or scored, and why; the others are kept."""

    model: int
    message: str


Outcome = ModelResult | Failure


@dataclass(frozen=True, kw_only=True, eq=False)
class Worker(ABC):
    """Trains and scores the models of a chunk wherever it is sent, on the device that ``execution`` names.

    **Guarantees**: what comes of a chunk is a function of its assignments alone.
    """

    execution: Execution = field(default_factory=Execution)

    @abstractmethod
    def __call__(self, assignments: Sequence[Assignment]) -> list[Outcome]:
        """What came of each model."""

    @abstractmethod
    def device_kind(self) -> str:
        """The kind of device that it trains on, on the machine that asks."""

    @abstractmethod
    def data(self) -> str:
        """A digest of the rows that it trains and scores on, as the machine that asks has them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """An audit, ready to run.

    ``records`` training rows are there for the design to assign, ``usual_chunks`` says how many models a
    "cpu" or a "cuda" trains at once unless the backend says otherwise (1, unless given), ``steps_per_epoch``
    tells when a record left, and ``notes`` are what a reader of the result should know.
    """

    description: Description
    design: Design
    attack: Attack
    question: Question
    upper_bound: UpperBound | None
    worker: Worker
    records: int
    seed: int
    usual_chunks: Mapping[str, int] = field(default_factory=dict[str, int])
    steps_per_epoch: float = 1.0
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name of this audit in every store."""
        return self.description.key

    def assignment(self, model: int) -> Assignment:
        """Who is in model number ``model``, and its seed."""
        return self.design.assign(model, self.records, self.seed)


def checked(statistic: Floats) -> Floats:
    """What an attack made of one model, without NaN."""
    if np.isnan(statistic).any():
        raise InvalidInput(
            f"The attack's statistic holds NaN (of row {int(np.isnan(statistic).argmax())}). A model whose "
            "outputs are no numbers has no score, which is not a low score; look at how it was trained."
        )
    return statistic


def fingerprint(*outputs: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Sixteen bytes by which models that are the same are known."""
    return np.frombuffer(bytes.fromhex(digest(*outputs))[:16], np.uint8)


def explained(problem: Exception) -> str:
    """A failure in one line: its type, its message, and where it happened; of our own errors the message.

    >>> explained(ValueError("no such layer"))
    'ValueError: no such layer'
    """
    if isinstance(problem, DpgapError):
        return str(problem)
    place = problem.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f" ({place.tb_frame.f_code.co_filename}:{place.tb_lineno})" if place else ""
    return f"{type(problem).__name__}: {problem}{where}"
