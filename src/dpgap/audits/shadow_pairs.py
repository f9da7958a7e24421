"""Shadow pairs: one canary, in one model of each pair and absent from the other."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from dpgap import _check
from dpgap.audits.base import Assignment, Design, Evidence, model_seed
from dpgap.errors import InvalidInput
from dpgap.privacy.estimators import Gaussian
from dpgap.privacy.lower_bound import LowerBound, lower_bound
from dpgap.privacy.paper import paper_bound
from dpgap.privacy.sequential import Decision, SequentialAudit
from dpgap.privacy.table import Question, every_bound


@final
@dataclass(frozen=True, kw_only=True)
class ShadowPairs(Design):
    """Half of the models have the canary, half do not: the paper's design, with 200 of each.

    Given a ``target`` the audit may stop at any pair, as soon as that eps_lb is certified or out of reach,
    by `SequentialAudit`, whose bound holds at every look; without one all models are trained.

    >>> [ShadowPairs().assign(model, records=0, seed=0).canaries.tolist() for model in range(3)]
    [[True], [False], [True]]
    """

    id: ClassVar[str] = "shadow-pairs"
    independent: ClassVar[bool] = True

    models: int = 400
    target: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.models % 2:
            raise InvalidInput(
                f"models must be even, got {self.models}: half have the canary. Write {self.models + 1}."
            )
        if self.target is not None:
            _check.positive(target=self.target, hint="It is the eps_lb to certify; write 1.0.")

    @property
    def sequential(self) -> bool:
        """With a target."""
        return self.target is not None

    @property
    def planted(self) -> int:
        """One canary."""
        return 1

    def assign(self, model: int, records: int, seed: int) -> Assignment:
        """Model 2r is the r-th with the canary, model 2r + 1 the r-th without."""
        replicate, world = divmod(model, 2)
        inside = np.array([world == 0])
        return Assignment(model=model, seed=model_seed(seed, world, replicate), canaries=inside)

    def headline(self, evidence: Evidence, question: Question) -> LowerBound:
        """The band's bound; with a target the anytime-valid one."""
        if self.target is not None:
            audit = self._replayed(evidence, question)
            return audit.record(adjacency=question.adjacency, threat_model=question.threat_model)
        return lower_bound(
            self.worlds(evidence),
            delta=question.delta,
            confidence=question.confidence,
            adjacency=question.adjacency,
            threat_model=question.threat_model,
        )

    def others(self, evidence: Evidence, question: Question) -> list[LowerBound]:
        """Every other estimator and rule, then the paper's headline, which is all that stopping leaves."""
        scores = self.worlds(evidence)
        paper = paper_bound(
            scores,
            Gaussian(),
            delta=question.delta,
            adjacency=question.adjacency,
            threat_model=question.threat_model,
        )
        return [paper] if self.target is not None else [*every_bound(scores, question)[1:], paper]

    def decision(self, evidence: Evidence, question: Question) -> Decision | None:
        """Certified, futile or neither, after the pairs that are complete from the first one on."""
        return None if self.target is None else self._replayed(evidence, question).decision()

    def _replayed(self, evidence: Evidence, question: Question) -> SequentialAudit:
        audit = SequentialAudit(
            target=self.target or 0.0,
            max_pairs=self.models // 2,
            delta=question.delta,
            confidence=question.confidence,
        )
        score_of = dict(zip(evidence.models.tolist(), evidence.scores[:, 0].tolist(), strict=True))
        for inside in range(0, self.models, 2):
            if inside not in score_of or inside + 1 not in score_of:
                break  # a later pair must not be seen before an earlier one, whoever finished first
            if audit.update(score_of[inside], score_of[inside + 1]).status != "continue":
                break
        return audit
