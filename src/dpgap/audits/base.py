"""What every design is: who is in which model, and what the scores of those models certify."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from dpgap import _check
from dpgap._seeds import stream
from dpgap.attacks.base import Attack
from dpgap.privacy.counts import AuditScores
from dpgap.privacy.lower_bound import LowerBound
from dpgap.privacy.mechanism import Adjacency
from dpgap.privacy.sequential import Decision
from dpgap.privacy.table import Question


@dataclass(frozen=True, kw_only=True, eq=False)
class Assignment:
    """Who is in one model, and the seed of its training; ``records`` is None where all of them are in."""

    model: int
    seed: int
    canaries: Bool[np.ndarray, " K"]
    records: Bool[np.ndarray, " N"] | None = None

    @property
    def world(self) -> bytes:
        """Equal for two models with the same rows."""
        return self.canaries.tobytes() + (b"" if self.records is None else self.records.tobytes())


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """Of each attacked model a row: the scores of what is scored, and whether it was in."""

    models: Int[np.ndarray, " A"]
    scores: Float[np.ndarray, "A S"]
    included: Bool[np.ndarray, "A S"]


@dataclass(frozen=True, kw_only=True)
class Design(ABC):
    """Who is in which of ``models`` models, and how their scores become bounds.

    ``scored`` says whose scores are kept: the canaries' or the training records'. ``independent`` says that
    `worlds` has one score of each model, so that a band over its thresholds certifies. The in-world *adds*
    rows; so its neighbours are those of add/remove, or of zero-out where a public slot is switched on.

    **Guarantees**: an assignment is a function of its arguments alone, and which models exist never
    depends on a score; `headline` is named here, in advance, so that no bound is chosen by its value.
    `dpgap.testing.check_design` checks a design.
    """

    id: ClassVar[str]
    adjacencies: ClassVar[frozenset[Adjacency]] = frozenset({Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT})
    scored: ClassVar[Literal["canaries", "records"]] = "canaries"
    independent: ClassVar[bool] = False

    models: int

    def __post_init__(self) -> None:
        _check.count(models=self.models, hint="It is how many models are trained; write 400.")

    @property
    def sequential(self) -> bool:
        """Whether `decision` may stop the audit early."""
        return False

    @property
    def compared(self) -> int:
        """How many records the two worlds of `worlds` differ by."""
        return 1

    @property
    @abstractmethod
    def planted(self) -> int:
        """How many canary rows are planted."""

    @abstractmethod
    def assign(self, model: int, records: int, seed: int) -> Assignment:
        """Who is in model number ``model``, counted from 0, beside or among ``records`` training rows."""

    def told(self, assignment: Assignment) -> Bool[np.ndarray, " S"]:
        """Of everything scored, whether it counts as "in" for this model."""
        return assignment.canaries

    @abstractmethod
    def headline(self, evidence: Evidence, question: Question) -> LowerBound:
        """The certified bound that this audit is for."""

    def others(self, evidence: Evidence, question: Question) -> list[LowerBound]:
        """What else the same scores support, for comparison."""
        return []

    def worlds(self, evidence: Evidence) -> AuditScores:
        """The scores that a reader is shown: of everything in, and of everything out."""
        return AuditScores(evidence.scores[evidence.included], evidence.scores[~evidence.included])

    def decision(self, evidence: Evidence, question: Question) -> Decision | None:
        """Whether to stop early; None for a design that may not."""
        return None

    def ceiling(self, question: Question, attack: Attack) -> float:
        """The headline if ``attack`` were never wrong: about the most that this design can certify.

        **Edge cases**: a question or an attack that so many models cannot answer is refused, as it would be
        when all of them are trained.

        >>> from dpgap.attacks.lira import LiRA
        >>> from dpgap.attacks.loss import LossAttack
        >>> from dpgap.audits.shadow_pairs import ShadowPairs
        >>> [round(ShadowPairs().ceiling(Question(), attack), 2) for attack in (LossAttack(), LiRA())]
        [3.75, 3.02]
        """
        assignments = [self.assign(model, records=1, seed=0) for model in range(self.models)]
        included = np.stack([self.told(assignment) for assignment in assignments])
        scored = attack.scores(included.astype(np.float64), included)
        perfect = Evidence(models=scored.models, scores=scored.scores, included=included[scored.models])
        return self.headline(perfect, question).value


def model_seed(seed: int, *place: str | int) -> int:
    """The training seed of the model at ``place``, independent of every other model's.

    >>> model_seed(0, 1, 2) == model_seed(0, 1, 2) != model_seed(0, 2, 1)
    True
    """
    return int(stream(seed, "model", *place).integers(2**63))
