"""Convolutions of a fleet: forward, and per-sample gradients as products of matrices."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int8
from torch import Tensor
from torch.nn import functional

from dpgap.training.fleet.gradients import Rows
from dpgap.training.fleet.kernels import launch

Pair = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Window:
    """What each place of the output sees of the input."""

    size: Pair
    stride: Pair
    padding: Pair


@dataclass(frozen=True, kw_only=True, eq=False)
class Pooled:
    """Channels-last input and output of a convolution with pool and tanh, and where each maximum was."""

    x: Float[Tensor, "N H W I"]
    value: Float[Tensor, "N h w O"]
    argmax: Int8[Tensor, "N h w O"]


@dataclass(frozen=True, kw_only=True, eq=False)
class FlatRows:
    """`Rows` of all models and copies, one after the other."""

    rows: Float[Tensor, "MRK P"]
    statistics: Float[Tensor, "MRK 3"] | None = None
    packing: tuple[int, int, int, int] | None = None

    def by_model(self, models: int, copies: int) -> Rows:
        """The same by model and row, summed over copies."""
        shape = (models, len(self.rows) // (models * copies))
        if copies > 1:
            rows = self.rows.view(*shape, copies, -1).sum(dim=2)
            return Rows(rows=rows, packing=self.packing)
        statistics = None if self.statistics is None else self.statistics.view(*shape, 3)
        return Rows(rows=self.rows.view(*shape, -1), statistics=statistics, packing=self.packing)


def convolved(
    x: Float[Tensor, "MRK I H W"],
    weight: Float[Tensor, "M O I h w"],
    bias: Float[Tensor, "M O"] | None,
    window: Window,
) -> Float[Tensor, "MRK O height width"]:
    """The rows of each model, convolved with its own weights.

    Grouped convolutions would do it in one call and are far slower.
    """
    weight = weight.to(x.dtype)
    biases = [None] * len(weight) if bias is None else list(bias.to(x.dtype))
    parts = [
        functional.conv2d(part, *own, window.stride, window.padding)
        for part, *own in zip(x.chunk(len(weight)), weight, biases, strict=True)
    ]
    return torch.cat(parts)


def gradient_rows(
    inputs: Float[Tensor, "MRK I H W"],
    outputs: Float[Tensor, "MRK O height width"],
    window: Window,
    *,
    bias: bool,
    products: str,
) -> FlatRows:
    """``sum over places of output gradient times the patch it came from``, then the bias's."""
    if launch.usable(inputs):
        x, gradient = launch.channels_last(inputs), launch.channels_last(outputs)
        rows, statistics = launch.conv_rows(
            x, gradient, window.size, window.stride, window.padding, bias=bias, precision=products
        )
        packing = (outputs.shape[1], *window.size, inputs.shape[1])
        return FlatRows(rows=rows, statistics=statistics, packing=packing)
    by_place = outputs.float().flatten(2)
    weight = torch.bmm(by_place, _patches(inputs.float(), window)).flatten(1)
    return FlatRows(rows=torch.cat([weight, by_place.sum(dim=2)], dim=1) if bias else weight)


def conv_pool_tanh(
    x: Float[Tensor, "MRK I H W"],
    weight: Float[Tensor, "M O I h w"],
    bias: Float[Tensor, "M O"],
    products: str,
) -> tuple[Float[Tensor, "MRK O height width"], Pooled]:
    """``tanh(maxpool2(conv(x) + bias))``, differentiable in ``x``, and what its gradients need."""
    last = launch.channels_last(x)
    value, argmax = _ConvPoolTanh.apply(last, weight, bias, products)
    return value.permute(0, 3, 1, 2), Pooled(x=last.detach(), value=value.detach(), argmax=argmax)


def pooled_gradient_rows(
    kept: Pooled, outputs: Float[Tensor, "MRK O height width"], size: Pair, products: str
) -> FlatRows:
    """The rows of a convolution whose pooled tanh has the gradient ``outputs``."""
    gradient = launch.channels_last(outputs)
    rows, statistics = launch.pooled_rows(kept.x, gradient, kept.value, kept.argmax, size, products)
    return FlatRows(rows=rows, statistics=statistics, packing=(outputs.shape[1], *size, kept.x.shape[3]))


class _ConvPoolTanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, products: str) -> tuple[Tensor, Tensor]:
        value, argmax = launch.conv_pool_tanh(x, weight, bias, products)
        ctx.save_for_backward(weight, value, argmax)
        ctx.mark_non_differentiable(argmax)
        ctx.shape, ctx.products = x.shape, products
        return value, argmax

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Any) -> tuple[Tensor | None, None, None, None]:
        if not ctx.needs_input_grad[0]:
            return None, None, None, None
        weight, value, argmax = ctx.saved_tensors
        height, width = ctx.shape[1] - weight.shape[3] + 1, ctx.shape[2] - weight.shape[4] + 1
        dense = launch.unpooled(gradient.contiguous(), value, argmax, height, width)
        inputs = launch.input_gradient(dense, weight, *ctx.shape[1:3], ctx.products)
        return inputs, None, None, None


def _patches(x: Tensor, window: Window) -> Tensor:
    """``[rows, places, I h w]``: what each place of the output sees."""
    down, right = window.padding
    padded = functional.pad(x, (right, right, down, down))
    windows = padded.unfold(2, window.size[0], window.stride[0]).unfold(3, window.size[1], window.stride[1])
    return windows.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
