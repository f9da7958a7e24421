"""Colored-MNIST: a digit's parity is its class, and its colour goes with the class most of the time.

After Arjovsky et al. (2019), in the form of the paper's appendix on disparate impact: a share ``majority``
of the even digits is red and of the odd digits blue, so that each class has a majority and a minority.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from dpgap import _seeds
from dpgap.data.records import Records


def coloured(records: Records, majority: float, split: str) -> Records:
    """MNIST's records in colour, with groups 0 to 3: even red, even blue, odd red, odd blue.

    Even red and odd blue are the majorities. Who is in the minority is drawn once for all, for each record
    by itself: public, the same in every run, and a smaller share keeps the minority of a larger one.
    """
    drawn = _seeds.stream(0, "colored-mnist", split).random(len(records))
    minority = torch.from_numpy(drawn >= majority)
    odd = records.y % 2
    red = (odd == 0) ^ minority
    return Records(painted(records.x, red), odd, 2, 2 * odd + (~red).long())


def painted(x: Float[Tensor, "N 1 H W"], red: Bool[Tensor, " N"]) -> Float[Tensor, "N 3 H W"]:
    """Normalised grey images in red or blue: the other two of three channels become 0.

    >>> painted(torch.ones(2, 1, 1, 1), torch.tensor([True, False])).flatten(1).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    channels = torch.stack([red, torch.zeros_like(red), ~red], dim=1)
    return torch.where(channels[:, :, None, None], x, 0.0)
