"""The private state of a run, on disk until its result is kept."""

import io
import zipfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from dpgap._digest import digest
from dpgap.errors import InvalidInput
from dpgap.training.files import PRIVATE, write_whole
from dpgap.training.step import State, Task

_VERSION = 1


class Checkpoint:
    """A run's state and seed in one file, readable by its owner only; to be deleted once the result is kept.

    **Guarantees**: a resumed run equals an uninterrupted one bit for bit: all randomness is keyed by the
    seed and the step, and the file holds everything else. Nothing in it is unpickled.

    **Edge cases**: a file of another run (other data, model, mechanism, filter, options or seed) is refused.
    """

    def __init__(self, path: Path, task: Task, membership: Bool[Tensor, " N"], seed: int | None) -> None:
        self._path = path
        self._run = _fingerprint(task, membership, seed)

    def save(self, state: State, seed: int) -> None:
        """Put ``state`` in the place of what was saved before."""
        content = io.BytesIO()
        arrays: dict[str, Any] = {name: np.asarray(value) for name, value in vars(state).items()}
        np.savez(content, run=self._run, seed=str(seed), **arrays)
        write_whole(self._path, content.getvalue(), PRIVATE)

    def load(self) -> tuple[State, int] | None:
        """The saved state and seed, or None if nothing was saved."""
        if not self._path.exists():
            return None
        saved = self._read()
        if str(saved.get("run")) != self._run:
            raise InvalidInput(
                f"{self._path} is a checkpoint of another run: data, membership, model, mechanism, filter, "
                "options or seed differ. Resuming would mix two runs; name another file, or delete this one."
            )
        tensors = {
            field.name: torch.from_numpy(saved[field.name]) for field in fields(State) if field.name != "step"
        }
        return State(step=int(saved["step"]), **tensors), int(str(saved["seed"]))

    def _read(self) -> dict[str, np.ndarray]:
        try:
            with self._path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                return dict(archive)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as problem:
            raise InvalidInput(
                f"{self._path} is no checkpoint of dpgap: {problem}. The run cannot go on from it; delete "
                "the file to begin again."
            ) from problem


def _fingerprint(task: Task, membership: Bool[Tensor, " N"], seed: int | None) -> str:
    """A hash of everything that decides the run, but a seed from the system."""
    described = (_VERSION, seed, task.model, task.mechanism, task.filter, task.options)
    tensors = [*task.model.state_dict().values(), task.records.x, task.records.y, membership, task.gradients]
    return digest(repr(described), *(each.detach().numpy() for each in tensors if each is not None))
