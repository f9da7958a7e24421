"""The blank canary: a row of zeros."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import nn

from dpgap import _check
from dpgap.canaries.base import Canary
from dpgap.data.records import Canaries, Records


@final
@dataclass(frozen=True, kw_only=True)
class Blank(Canary):
    """Zeros in the space that models see, with a label of their own: the paper's main canary.

    Several are copies of one row.

    >>> Blank(label=1).plant(Records(torch.ones(2, 3), torch.tensor([0, 1]), 2), None, 1).rows
    tensor([[0., 0., 0.]])
    """

    id: ClassVar[str] = "blank"

    label: int = 9

    def __post_init__(self) -> None:
        _check.count(label=self.label, at_least=0, hint="It is a class, such as 9.")

    def plant(self, records: Records, model: nn.Module | None, count: int) -> Canaries:
        """``count`` rows of zeros."""
        return Canaries(records.x.new_zeros(count, *records.x.shape[1:]), torch.full((count,), self.label))
