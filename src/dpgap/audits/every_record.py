"""Every record: each training record is in or out of each model by a coin of its own."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, final

import numpy as np
from jaxtyping import Bool

from dpgap._seeds import stream
from dpgap.audits.base import Assignment, Design, Evidence, model_seed
from dpgap.audits.shadow_pairs import ShadowPairs
from dpgap.privacy.every_record import bound_every_record, strongest_record
from dpgap.privacy.lower_bound import LowerBound
from dpgap.privacy.table import Question


@final
@dataclass(frozen=True, kw_only=True)
class EveryRecord(Design):
    """Is any training record exposed? Each is in a model with probability 1/2, so all are audited at once.

    The headline is of the record that looks most exposed in half of the models, bounded in the other half:
    the search over all records is paid for.

    >>> EveryRecord(models=2).assign(1, records=4, seed=0).records.tolist()
    [True, False, False, True]
    """

    id: ClassVar[str] = "every-record"
    scored: ClassVar[Literal["canaries", "records"]] = "records"

    models: int = 256

    @property
    def planted(self) -> int:
        """Nothing: the training records are their own canaries."""
        return 0

    def assign(self, model: int, records: int, seed: int) -> Assignment:
        """The coins of this model."""
        coins = stream(seed, "coins", model).random(records) < 0.5
        nobody = np.zeros(0, dtype=np.bool_)
        return Assignment(model=model, seed=model_seed(seed, model), canaries=nobody, records=coins)

    def told(self, assignment: Assignment) -> Bool[np.ndarray, " N"]:
        """Which records were in."""
        return np.asarray(assignment.records)

    def headline(self, evidence: Evidence, question: Question) -> LowerBound:
        """The most exposed record's bound."""
        return strongest(evidence, question)

    def others(self, evidence: Evidence, question: Question) -> list[LowerBound]:
        """The largest of all records' bounds, each at its share of the level."""
        return [largest_of_all(evidence, question)]


@final
@dataclass(frozen=True, kw_only=True)
class CanaryThroughOthers(Design):
    """Do the training records' losses betray the *canary*? It is in half of the models, they are in all.

    The paper's Appendix G. It says nothing of the records' own exposure, which `EveryRecord` asks for.

    >>> CanaryThroughOthers(models=4).assign(0, records=2, seed=0).canaries.tolist()
    [True]
    """

    id: ClassVar[str] = "canary-through-others"
    scored: ClassVar[Literal["canaries", "records"]] = "records"

    models: int = 400

    @property
    def planted(self) -> int:
        """The canary."""
        return 1

    def assign(self, model: int, records: int, seed: int) -> Assignment:
        """As in `ShadowPairs`, with all records named."""
        pair = ShadowPairs(models=self.models).assign(model, records, seed)
        return replace(pair, records=np.ones(records, dtype=np.bool_))

    def told(self, assignment: Assignment) -> Bool[np.ndarray, " N"]:
        """The canary's bit, asked of every record."""
        return np.broadcast_to(assignment.canaries, np.asarray(assignment.records).shape)

    def headline(self, evidence: Evidence, question: Question) -> LowerBound:
        """The bound through the record that betrays most."""
        return strongest(evidence, question)

    def others(self, evidence: Evidence, question: Question) -> list[LowerBound]:
        """The largest of the bounds through each record, each at its share of the level."""
        return [largest_of_all(evidence, question)]


def strongest(evidence: Evidence, question: Question) -> LowerBound:
    """Of the record that looks strongest in half of the models, the bound in the others."""
    record, bound = strongest_record(
        evidence.scores.T, evidence.included.T, delta=question.delta, confidence=question.confidence
    )
    found = f"record {record} looked strongest in the models that had no part in the bound"
    return replace(
        bound,
        adjacency=question.adjacency,
        threat_model=question.threat_model,
        assumptions=(*bound.assumptions, found),
    )


def largest_of_all(evidence: Evidence, question: Question) -> LowerBound:
    """The largest bound of any record, which all hold together."""
    bounds = bound_every_record(
        evidence.scores.T, evidence.included.T, delta=question.delta, confidence=question.confidence
    )
    record = bounds.strongest
    inside = int(bounds.n_inside[record])
    return LowerBound(
        value=float(bounds.values[record]),
        delta=bounds.delta,
        confidence=bounds.confidence,
        estimator=bounds.estimator,
        rule=bounds.rule,
        validity="certified",
        adjacency=question.adjacency,
        threat_model=question.threat_model,
        n_inside=inside,
        n_outside=len(evidence.models) - inside,
        threshold=float(bounds.thresholds[record]),
        fpr=None,
        fnr=None,
        interval=None,
        assumptions=(
            "the scores of each world are independent",
            f"record {record} has the largest of {len(bounds.values)} bounds, which hold together",
        ),
    )
