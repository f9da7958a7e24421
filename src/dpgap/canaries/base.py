"""What every canary is: a recipe for rows to plant, as a function of the data and the public start."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from dpgap.data.records import Canaries, Records
from dpgap.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Canary(ABC):
    """A recipe for rows that an auditor plants, to see whether a model betrays that they were there.

    ``final`` subclasses give it fields and an ``id``; `dpgap.testing.check_canary` checks one.

    **Guarantees**: `plant` depends on its arguments alone, so every model of an audit meets the same rows.
    """

    id: ClassVar[str]

    @abstractmethod
    def plant(self, records: Records, model: nn.Module | None, count: int) -> Canaries:
        """``count`` rows for ``records``; ``model`` is the public start of training, if there is one."""


def first_of_class(records: Records, label: int, count: int) -> Tensor:
    """The first ``count`` rows of a class.

    >>> first_of_class(Records(torch.eye(3), torch.tensor([0, 1, 1]), 2), 1, 1)
    tensor([[0., 1., 0.]])
    """
    rows = (records.y == label).nonzero().squeeze(1)[:count]
    if len(rows) < count:
        raise InvalidInput(
            f"image={label} has {len(rows)} training records and {count} canaries are wanted, each made "
            "from one of them. Name another class, or plan fewer canaries."
        )
    return records.x[rows]


def least_likely_label(rows: Tensor, model: nn.Module | None) -> Tensor:
    """For each row the class that the untrained model thinks least likely, which training must unlearn."""
    if model is None:
        raise InvalidInput(
            "label is missing: without a model to start from there is no least likely class. Write the "
            "canary's label, such as label=9."
        )
    with torch.no_grad():
        return torch.cat([model(row[None]).argmin(dim=1) for row in rows])
