"""Convolutions of a fleet: forward model by model, per-sample gradients as products of matrices."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

Pair = tuple[int, int]


def convolved(
    x: Float[Tensor, "MRK I H W"],
    weight: Float[Tensor, "M O I h w"],
    bias: Float[Tensor, "M O"] | None,
    stride: Pair,
    padding: Pair,
) -> Float[Tensor, "MRK O height width"]:
    """The rows of each model, convolved with its own weights.

    Grouped convolutions would do it in one call and are far slower.
    """
    biases = [None] * len(weight) if bias is None else list(bias)
    parts = [
        functional.conv2d(part, *own, stride, padding)
        for part, *own in zip(x.chunk(len(weight)), weight, biases, strict=True)
    ]
    return torch.cat(parts)


def gradient_rows(
    inputs: Float[Tensor, "MRK I H W"],
    outputs: Float[Tensor, "MRK O height width"],
    size: Pair,
    stride: Pair,
    padding: Pair,
    *,
    copies: int,
    bias: bool,
) -> Float[Tensor, "MR P"]:
    """``sum over copies and places of output gradient times the patch it came from``, then the bias's."""
    patches = _patches(inputs, size, stride, padding)
    rows = len(inputs) // copies
    patches = patches.reshape(rows, -1, patches.shape[-1])
    by_row = outputs.flatten(2).mT.reshape(rows, -1, outputs.shape[1])
    weight = torch.bmm(by_row.mT, patches).flatten(1)
    return torch.cat([weight, by_row.sum(dim=1)], dim=1) if bias else weight


def _patches(x: Tensor, size: Pair, stride: Pair, padding: Pair) -> Tensor:
    """``[rows, places, I h w]``: what each place of the output sees."""
    padded = functional.pad(x, (padding[1], padding[1], padding[0], padding[0]))
    windows = padded.unfold(2, size[0], stride[0]).unfold(3, size[1], stride[1])
    return windows.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
