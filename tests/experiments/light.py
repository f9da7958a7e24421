"""An audit whose worker loads neither torch nor SciPy, so that many processes begin it quickly."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpgap.audits.base import Assignment
from dpgap.experiments.job import FINGERPRINT, STATISTIC, Outcome, Worker, fingerprint
from dpgap.store.records import ModelResult


def nothing(model: int) -> None:
    """What usually happens before a model."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Light(Worker):
    """The Gaussian mechanism on one row, after what ``first`` does; a node may say what it finds there."""

    first: Callable[[int], None] = nothing

    def __call__(self, assignments: Sequence[Assignment]) -> list[Outcome]:
        return [self._made(each) for each in assignments]

    def _made(self, assignment: Assignment) -> Outcome:
        self.first(assignment.model)
        value = assignment.canaries + np.random.default_rng(assignment.seed).standard_normal(1)
        arrays = {STATISTIC: value, FINGERPRINT: fingerprint(value)}
        accuracy = {"train_accuracy": None, "test_accuracy": None}
        return ModelResult(model=assignment.model, seconds=0.1, arrays=arrays, **accuracy)

    def device_kind(self) -> str:
        return os.environ.get("KIND", "cpu x")

    def data(self) -> str:
        return os.environ.get("ROWS", "rows")


def wait_for(file: Path) -> None:
    until = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < until, f"{file.name} never came"
        time.sleep(0.02)
