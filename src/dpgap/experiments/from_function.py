"""A training function as a job: any framework, one call a model."""

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpgap._digest import digest
from dpgap._plain import plain
from dpgap.attacks.base import Attack
from dpgap.attacks.loss import LossAttack
from dpgap.audits.base import Assignment, Design
from dpgap.canaries.base import Canary
from dpgap.data.records import Canaries
from dpgap.experiments.converter import variant_to_plain
from dpgap.experiments.identity import identity
from dpgap.experiments.job import Failure, Job, Outcome, Worker, checked, explained, fingerprint
from dpgap.experiments.outputs import Labels, Rows, TrainFunction, told_apart
from dpgap.experiments.provenance import cpu_kind
from dpgap.privacy.table import Question
from dpgap.privacy.upper_bound import UpperBound
from dpgap.store.records import FINGERPRINT, STATISTIC, Description, ModelResult

KEY_VERSION = 1
_SEEDS = 2**32
"""Every framework takes a seed below this; scikit-learn and NumPy's old generators take no larger one."""
_PROBED = 32
"""Training rows whose outputs tell whether two models are one."""

Arrays = tuple[Rows, Labels]


@dataclass(frozen=True, kw_only=True, eq=False)
class FunctionTraining(Worker):
    """Calls a training function for each model of a chunk, and asks what it returns."""

    train: TrainFunction
    records: Arrays
    canaries: Arrays | None
    test: Arrays | None
    attack: Attack | None
    design: Design

    def __call__(self, assignments: Sequence[Assignment]) -> list[Outcome]:
        """What came of each model."""
        return [self._outcome(assignment) for assignment in assignments]

    def device_kind(self) -> str:
        """The processor; what else the function uses is its own affair."""
        return cpu_kind()

    def data(self) -> str:
        """A digest of the rows, which travel with it."""
        return digest(*self.records, *(self.canaries or ()), *(self.test or ()))

    def _outcome(self, assignment: Assignment) -> Outcome:
        try:
            return self._trained(assignment)
        except Exception as problem:  # somebody else's code fails in any way it likes
            return Failure(model=assignment.model, message=explained(problem))

    def _trained(self, assignment: Assignment) -> ModelResult:
        began = time.perf_counter()
        x, y = self._members(assignment)
        trained = told_apart(self.train(x.copy(), y.copy(), assignment.seed % _SEEDS))
        scored = self.canaries if self.canaries and self.design.scored == "canaries" else self.records
        statistic = checked(trained.statistic(self.attack, *scored))
        probed = trained.outputs(x[:_PROBED], y[:_PROBED])
        return ModelResult(
            model=assignment.model,
            seconds=time.perf_counter() - began,
            train_accuracy=trained.share_right(x, y),
            test_accuracy=trained.share_right(*self.test) if self.test else None,
            arrays={STATISTIC: statistic, FINGERPRINT: fingerprint(statistic, probed)},
        )

    def _members(self, assignment: Assignment) -> Arrays:
        """The training rows that are in, then the canaries that are in."""
        x, y = self.records
        if assignment.records is not None:
            x, y = x[assignment.records], y[assignment.records]
        if self.canaries is None:
            return x, y
        rows, labels = self.canaries
        inside = assignment.canaries
        return np.concatenate([x, rows[inside]]), np.concatenate([y, labels[inside]])


def function_job(
    worker: FunctionTraining,
    canary: Canary | Canaries | None,
    question: Question,
    upper_bound: UpperBound | None,
    seed: int,
) -> Job:
    """The audit of ``worker.train``, named by everything that decides its result."""
    attack = worker.attack or LossAttack()
    specification: dict[str, Any] = {
        "version": KEY_VERSION,
        "function": identity(worker.train),
        "canary": variant_to_plain(canary, Canary) if isinstance(canary, Canary) else "given",
        "design": variant_to_plain(worker.design, Design),
        "attack": variant_to_plain(worker.attack, Attack) if worker.attack else None,
        "question": plain(question),
        "claim": plain(upper_bound),
        "seed": seed,
    }
    name = specification["function"][0].rsplit(".", 1)[-1]
    planted = (canary.id,) if isinstance(canary, Canary) else ()
    return Job(
        description=Description(
            key=hashlib.sha256(json.dumps(specification, sort_keys=True).encode()).hexdigest(),
            title=", ".join((name, *planted, worker.design.id)),
            specification=plain(specification),
            inputs=worker.data(),
            upper_bound=plain(upper_bound),
        ),
        design=worker.design,
        attack=attack,
        question=question,
        upper_bound=upper_bound,
        worker=worker,
        records=len(worker.records[0]),
        seed=seed,
    )
