"""From coins to rows: who is drawn by each model, in tables of one fixed width."""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def drawn_rows(drawn: Bool[Tensor, "M N"], width: int) -> Int[Tensor, "M W"]:
    """The indices of each model's drawn rows, in their order, then N for nobody.

    **Edge cases**: indices beyond ``width`` are left out, so the caller must know that nobody drew more.

    >>> drawn_rows(torch.tensor([[True, False, True], [False, True, False]]), width=2).tolist()
    [[0, 2], [1, 3]]
    """
    models, n = drawn.shape
    place = drawn.cumsum(dim=1, dtype=torch.int32) - 1
    place = torch.where(drawn & (place < width), place, width).long()
    table = torch.full((models, width + 1), n, device=drawn.device)
    everyone = torch.arange(n, device=drawn.device).expand(models, -1)
    return table.scatter_(1, place, torch.where(place < width, everyone, n))[:, :width]


def passes(table: Int[Tensor, "M W"], rows: int) -> Iterator[Int[Tensor, "M R"]]:
    """The table in parts of exactly ``rows`` places, so that every product has the same shape."""
    yield from table.split(rows, dim=1)


def width_for(most: int, rows: int) -> int:
    """The least multiple of ``rows`` that holds ``most``; at least one."""
    return rows * max(1, math.ceil(most / rows))
