"""Mislabelled canaries: training records with a wrong label."""

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
class Mislabelled(Canary):
    """The first training record of class ``image`` once more, labelled ``label``.

    The record itself stays where it is. Several are the first several of the class.

    >>> records = Records(torch.tensor([[2.0, 4.0]]), torch.tensor([0]), 2)
    >>> Mislabelled(image=0, label=1).plant(records, None, 1).labels.tolist()
    [1]
    """

    id: ClassVar[str] = "mislabelled"

    image: int = 0
    label: int = 1

    def __post_init__(self) -> None:
        _check.count(image=self.image, label=self.label, at_least=0, hint="It is a class, such as 9.")
        if self.image == self.label:
            raise InvalidInput(
                f"label must differ from image={self.image}, or the record is not mislabelled. Write "
                f"label={self.image + 1}, or Interpolated(alpha=1.0, ...) for a duplicate."
            )

    def plant(self, records: Records, model: nn.Module | None, count: int) -> Canaries:
        """The first ``count`` records of the class, mislabelled."""
        rows = first_of_class(records, self.image, count)
        return Canaries(rows.clone(), torch.full((count,), self.label))
