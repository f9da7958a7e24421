"""What every backend is: it has chunks of models trained somewhere, and gives back what came of them."""

import pickle
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

from dpgap import _check
from dpgap.audits.base import Assignment
from dpgap.experiments.job import Failure, Outcome, Worker, explained

Chunk = Sequence[Assignment]


class Crew(ABC):
    """Whoever trains the chunks of one audit, for as long as it is open.

    ``device_kind`` is that of the device on which every one of them trains, and ``provenance`` what a reader
    of the store is told of the machines.
    """

    device_kind: str
    provenance: dict[str, Any]

    @property
    @abstractmethod
    def at_once(self) -> int:
        """How many chunks are trained at a time, as things are now."""

    @abstractmethod
    def train(self, chunks: Iterator[Chunk]) -> Generator[list[Outcome]]:
        """The outcomes of each chunk, in the order they are done; a chunk is asked for when there is room.

        **Guarantees**: every chunk that is asked for comes back once, bit for bit as the worker made it; what
        the worker raises, or loses by dying, comes back as failures of that chunk. A generator that is closed
        leaves nothing running.
        """


@dataclass(frozen=True, kw_only=True)
class Backend(ABC):
    """Where an audit's models are trained, and how many together: what changes its speed, never its scores.

    ``models_at_once`` models make a chunk, as many as usual unless given: they are trained and kept together,
    so that whatever ends a run loses the chunks that were being trained and no other.

    **Guarantees**: nothing but this process writes the store. `dpgap.testing.check_backend` checks a backend.
    """

    id: ClassVar[str]

    models_at_once: int | None = None

    def __post_init__(self) -> None:
        if self.models_at_once is not None:
            _check.count(models_at_once=self.models_at_once, hint="Leave it out for the usual number.")

    @abstractmethod
    def opened(self, worker: Worker) -> AbstractContextManager[Crew]:
        """Those who train with ``worker``, for the time of a ``with``."""


def trained(worker: Worker, chunk: Chunk) -> list[Outcome]:
    """What ``worker`` makes of ``chunk``; what it raises is the failure of all its models."""
    try:
        return worker(chunk)
    except Exception as problem:  # of whatever kind: a chunk that fails must not end the others
        return failed(chunk, explained(problem))


def failed(chunk: Chunk, message: str) -> list[Outcome]:
    """The failure of every model of ``chunk``, for the same reason."""
    return [Failure(model=each.model, message=message) for each in chunk]


UNPICKLABLE = (pickle.PicklingError, AttributeError, TypeError)
"""What pickle raises for a worker that cannot be sent to another process."""
