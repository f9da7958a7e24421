"""An audit whose worker loads neither torch nor SciPy, so that many processes begin it quickly."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpgap.audits.base import Assignment
from dpgap.experiments.job import Outcome, Worker, fingerprint
from dpgap.store.records import FINGERPRINT, STATISTIC, ModelResult


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


def killed_once(model, folder: Path):
    if model in (3, 9, 16) and not (folder / str(model)).exists():
        (folder / str(model)).touch()
        os.kill(os.getpid(), signal.SIGKILL)


def dies_or_raises(model, log: Path):
    with log.open("a") as file:
        file.write(f"{model}\n")
    if model == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    if model == 14:
        raise RuntimeError("out of luck")


def moved(model, folder: Path):
    """Never ends on the node that will be removed; afterwards waits for the one that is added."""
    here = os.environ.get("ROLE", "base")
    (folder / f"began on {here}").touch()
    if here == "doomed":
        time.sleep(600)
    if (folder / "trial is over").exists():
        _wait_for(folder / "began on doomed")
    if (folder / "removed").exists():
        _wait_for(folder / "began on late")


def _wait_for(file: Path) -> None:
    until = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < until, f"{file.name} never came"
        time.sleep(0.02)
