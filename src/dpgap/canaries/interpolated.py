"""Interpolated canaries: between a blank row and a training record."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import nn

from dpgap import _check
from dpgap.canaries.base import Canary, first_of_class
from dpgap.data.records import Canaries, Records
from dpgap.errors import InvalidInput


@final
@dataclass(frozen=True, kw_only=True)
class Interpolated(Canary):
    """``alpha`` times the first training record of class ``image``, labelled ``label``.

    0 is blank and 1 the record itself: a duplicate where ``label`` equals ``image`` (as the paper's scripts
    have it), mislabelled where not (as the paper has it). Several are made from the first several records.

    >>> records = Records(torch.tensor([[2.0, 4.0]]), torch.tensor([0]), 2)
    >>> Interpolated(alpha=0.5, image=0, label=1).plant(records, None, 1).rows
    tensor([[1., 2.]])
    """

    id: ClassVar[str] = "interpolated"

    alpha: float
    image: int = 9
    label: int = 9

    def __post_init__(self) -> None:
        _check.non_negative(alpha=self.alpha, hint="0 is blank, 1 the record itself.")
        _check.count(image=self.image, label=self.label, at_least=0, hint="It is a class, such as 9.")
        if self.alpha > 1:
            raise InvalidInput(f"alpha must be at most 1, got {self.alpha!r}. 1 is the record itself.")

    def plant(self, records: Records, model: nn.Module | None, count: int) -> Canaries:
        """The first ``count`` records of the class, each faded."""
        rows = self.alpha * first_of_class(records, self.image, count)
        return Canaries(rows, torch.full((count,), self.label))
