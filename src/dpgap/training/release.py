"""What a run may publish, and what it may not: two objects, so that one cannot be taken for the other."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dpgap.errors import InvalidInput
from dpgap.training.files import write_whole
from dpgap.training.statement import Statement

WEIGHTS, STATEMENT = "weights.safetensors", "statement.json"


@dataclass(frozen=True, kw_only=True, eq=False)
class Release:
    """What may leave the building: the final model and its privacy statement.

    ``weights`` is a state dictionary; the model takes it by ``load_state_dict``.
    """

    weights: dict[str, Tensor]
    statement: Statement


@dataclass(frozen=True, kw_only=True, eq=False)
class Private:
    """What may not leave the building (rule 4 of the privacy contract): no bound covers any of it.

    ``removed_at`` is the step after which a record left, 0 for one that did not; ``batch_sizes``,
    ``losses`` and ``accuracies`` are of the records that each step drew, by the model before that step
    (not a number where it drew nobody).
    """

    removed_at: Int[Tensor, " N"]
    scores: Float[Tensor, " N"]
    batch_sizes: Int[Tensor, " T"]
    losses: Float[Tensor, " T"]
    accuracies: Float[Tensor, " T"]
    seed: int

    @property
    def removed(self) -> Int[Tensor, " R"]:
        """The rows that left, in the order of the rows."""
        return self.removed_at.nonzero().squeeze(1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """A finished run: what may be published, and what may not."""

    release: Release
    private: Private


def save_release(release: Release, folder: Path) -> None:
    """Write ``weights.safetensors`` and ``statement.json`` into ``folder``, and nothing else.

    **Guarantees**: the argument holds nothing private, so nothing private can be written. Each file is
    whole or absent; the statement comes first, so no weights ever lie there without one.

    **Edge cases**: a folder that is missing is made; files of those names are replaced.
    """
    from safetensors.torch import save

    weights = {name: value.detach().cpu().contiguous().clone() for name, value in release.weights.items()}
    statement = json.dumps(release.statement.to_dict(), indent=2, allow_nan=False) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InvalidInput(
            f"{folder} cannot be made: {problem.strerror}. Nothing was written; choose another folder."
        ) from problem
    write_whole(folder / STATEMENT, statement.encode())
    write_whole(folder / WEIGHTS, save(weights))


def tallied(tallies: Float[Tensor, "T 3"]) -> tuple[Tensor, Tensor, Tensor]:
    """Batch sizes, mean losses and accuracies from each step's sums; not a number for an empty batch."""
    drawn, loss, right = tallies.unbind(dim=1)
    return drawn.to(torch.int64), loss / drawn, right / drawn
