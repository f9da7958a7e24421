"""Groups: several canaries that are in together, or out together."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, final

import numpy as np

from dpgap import _check
from dpgap.audits.base import Assignment, Design, Evidence, model_seed
from dpgap.audits.shadow_pairs import ShadowPairs
from dpgap.privacy.counts import AuditScores
from dpgap.privacy.lower_bound import LowerBound, lower_bound, one_record_bound
from dpgap.privacy.mechanism import Adjacency
from dpgap.privacy.table import Question


@final
@dataclass(frozen=True, kw_only=True)
class Group(Design):
    """``size`` canaries, all in half of the models and all out of the other half.

    A model's score is that of its ``highest`` canary, as in the paper's scripts, or of its ``lowest``, as in
    the paper's text (the largest loss). The headline is what follows for *one* record by group privacy;
    the bound on the group itself stands beside it.

    >>> Group(size=2, models=4).assign(1, records=0, seed=0).canaries.tolist()
    [False, False]
    """

    id: ClassVar[str] = "group"
    independent: ClassVar[bool] = True
    adjacencies: ClassVar[frozenset[Adjacency]] = frozenset({Adjacency.ADD_REMOVE})

    size: int
    models: int = 400
    score: Literal["highest", "lowest"] = "highest"

    def __post_init__(self) -> None:
        ShadowPairs(models=self.models)
        _check.count(size=self.size, hint="It is how many canaries are in together; write 10.")
        _check.one_of(("highest", "lowest"), score=self.score)

    @property
    def compared(self) -> int:
        """The whole group."""
        return self.size

    @property
    def planted(self) -> int:
        """The whole group."""
        return self.size

    def assign(self, model: int, records: int, seed: int) -> Assignment:
        """Model 2r is the r-th with the group, model 2r + 1 the r-th without."""
        replicate, world = divmod(model, 2)
        inside = np.full(self.size, world == 0)
        return Assignment(model=model, seed=model_seed(seed, world, replicate), canaries=inside)

    def headline(self, evidence: Evidence, question: Question) -> LowerBound:
        """The bound on one record that the group's scores imply."""
        bound = one_record_bound(
            self.worlds(evidence),
            group_size=self.size,
            delta=question.delta,
            confidence=question.confidence,
        )
        return replace(bound, threat_model=question.threat_model)

    def others(self, evidence: Evidence, question: Question) -> list[LowerBound]:
        """The bound on the loss of the whole group together."""
        return [
            lower_bound(
                self.worlds(evidence),
                group_size=self.size,
                delta=question.delta,
                confidence=question.confidence,
                adjacency=question.adjacency,
                threat_model=question.threat_model,
            )
        ]

    def worlds(self, evidence: Evidence) -> AuditScores:
        """The score of each model: that of its chosen canary."""
        chosen = evidence.scores.max(axis=1) if self.score == "highest" else evidence.scores.min(axis=1)
        return super().worlds(replace(evidence, scores=chosen[:, None], included=evidence.included[:, :1]))
