"""What every attack is: a statistic of one model, and scores made of the statistics of all models."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from dpgap.privacy.lower_bound import ThreatModel


@dataclass(frozen=True, kw_only=True)
class Scored:
    """Scores of the models that were attacked; an attack may spend the others on learning."""

    models: Int[np.ndarray, " A"]
    scores: Float[np.ndarray, "A K"]


@dataclass(frozen=True, kw_only=True)
class Attack(ABC):
    """How one tells from a model whether it was trained with a canary.

    ``threat_model`` is what it sees; an audit refuses an attack that sees more than eps_ub covers.
    ``learns`` says that `scores` learns from some of the models, and so has to wait for all of them.

    **Guarantees**: `statistic` knows nothing of any other model or of who was in. `scores` may learn from
    models whose bits it is told, but never scores one of those: scores then are independent given what was
    learnt, as every certified bound assumes. `dpgap.testing.check_attack` checks both.
    """

    id: ClassVar[str]
    threat_model: ClassVar[ThreatModel]
    learns: ClassVar[bool] = False

    @abstractmethod
    def statistic(
        self, logits: Float[np.ndarray, "K C"], labels: Int[np.ndarray, " K"]
    ) -> Float[np.ndarray, " K"]:
        """What is kept of one model about each row; higher for rows it was trained with."""

    def scores(self, statistics: Float[np.ndarray, "M K"], included: Bool[np.ndarray, "M K"]) -> Scored:
        """The membership scores of the attacked models, in order: unless overridden, all statistics."""
        return Scored(models=np.arange(len(statistics)), scores=statistics)


def log_likelihood(
    logits: Float[np.ndarray, "K C"], labels: Int[np.ndarray, " K"]
) -> Float[np.ndarray, " K"]:
    """``log p(label)`` of each row, without overflow, in float64.

    >>> log_likelihood(np.array([[0.0, 1000.0]]), np.array([1])).tolist()
    [0.0]
    """
    shifted = np.asarray(logits, dtype=np.float64)
    shifted = shifted - shifted.max(axis=1, keepdims=True)
    own = np.take_along_axis(shifted, labels[:, None], axis=1)[:, 0]
    return own - np.log(np.exp(shifted).sum(axis=1))
