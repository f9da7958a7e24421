"""Random binary canaries: coin flips in every feature."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import nn

from dpgap import _check
from dpgap._seeds import stream
from dpgap.canaries.base import Canary, least_likely_label
from dpgap.data.records import Canaries, Records


@final
@dataclass(frozen=True, kw_only=True)
class RandomBinary(Canary):
    """Every feature 0 or 1 by a fair coin, from a public seed; the paper's canary for Purchase100.

    The label is the class that the model to start from thinks least likely, unless given.

    >>> records = Records(torch.ones(2, 4), torch.tensor([0, 1]), 2)
    >>> RandomBinary(label=0).plant(records, None, 2).rows
    tensor([[0., 0., 0., 1.],
            [1., 0., 0., 1.]])
    """

    id: ClassVar[str] = "random-binary"

    label: int | None = None
    public_seed: int = 42

    def __post_init__(self) -> None:
        if self.label is not None:
            _check.count(label=self.label, at_least=0, hint="It is a class, such as 9.")

    def plant(self, records: Records, model: nn.Module | None, count: int) -> Canaries:
        """``count`` rows of coin flips, each its own."""
        flips = stream(self.public_seed, self.id).integers(2, size=(count, *records.x.shape[1:]))
        rows = torch.from_numpy(flips).float()
        labels = least_likely_label(rows, model) if self.label is None else torch.full((count,), self.label)
        return Canaries(rows, labels)
