"""Products of matrices whose bits do not depend on a row's place, or on how many models there are."""

import torch
from jaxtyping import Float
from torch import Tensor

_ALIGNED = 16
"""Rows of whole multiples of 64 bytes: on a CPU products of others may depend on a row's place."""


def product(a: Float[Tensor, "M A K"], b: Float[Tensor, "M K B"]) -> Float[Tensor, "M A B"]:
    """``torch.bmm(a, b)``, on a CPU with all rows filled up with zeros to whole multiples of 64 bytes.

    >>> product(torch.ones(1, 2, 3), torch.ones(1, 3, 1)).tolist()
    [[[3.0], [3.0]]]
    """
    if a.is_cuda:
        return torch.bmm(a, b)
    full = torch.bmm(filled(filled(a, 1), 2), filled(filled(b, 1), 2))
    return full[:, : a.shape[1], : b.shape[2]]


def filled(x: Tensor, dim: int) -> Tensor:
    """With zeros up to a multiple of 16 along ``dim``."""
    missing = -x.shape[dim] % _ALIGNED
    if not missing:
        return x
    return torch.cat([x, x.new_zeros(*x.shape[:dim], missing, *x.shape[dim + 1 :])], dim=dim)
