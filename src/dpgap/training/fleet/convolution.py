"""Convolutions of a fleet: forward, and per-sample gradients as products of matrices."""

from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float, Int8
from torch import Tensor, nn
from torch.nn import functional

from dpgap.training.fleet.gradients import Rows
from dpgap.training.fleet.kernels import launch
from dpgap.training.fleet.products import product

Pair = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Window:
    """What each place of the output sees of the input."""

    size: Pair
    stride: Pair
    padding: Pair

    @classmethod
    def of(cls, layer: nn.Conv2d) -> "Window":
        """That of ``layer``, whose padding is in numbers."""
        (high, wide), (down, right) = layer.kernel_size, layer.stride
        above, beside = map(int, layer.padding)
        return cls(size=(high, wide), stride=(down, right), padding=(above, beside))


@dataclass(frozen=True, kw_only=True)
class Activated:
    """A convolution of stride 1 with bias under ``tanh``, and under a 2 by 2 pool if there is one.

    ``at_once``: one kernel does it all, which pays where patches are small; elsewhere cuDNN convolves.
    """

    window: Window
    pool: bool
    at_once: bool
    products: str


@dataclass(kw_only=True, eq=False)
class Activation:
    """Channels-last input and output, where each maximum was, and, once known, the convolution's gradient."""

    x: Float[Tensor, "N H W I"]
    value: Float[Tensor, "N h w O"] = field(init=False)
    argmax: Int8[Tensor, "N h w O"] | None = None
    dense: Float[Tensor, "N y x O"] | None = None


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
            rows = self.rows.float().view(*shape, copies, -1).sum(dim=2)
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
    if x.is_cuda:
        x = x.contiguous(memory_format=torch.channels_last)
    biases = [None] * len(weight) if bias is None else list(bias.to(x.dtype))
    parts = [
        functional.conv2d(part, own, shift, window.stride, window.padding)
        for part, own, shift in zip(x.chunk(len(weight)), weight, biases, strict=True)
    ]
    return _joined(parts)


def gradient_rows(
    inputs: Float[Tensor, "MRK I H W"],
    outputs: Float[Tensor, "MRK O height width"],
    there: Bool[Tensor, " MRK"],
    window: Window,
    *,
    bias: bool,
    products: str,
) -> FlatRows:
    """``sum over places of output gradient times the patch it came from``, then the bias's.

    Of rows that are not ``there`` it may be anything.
    """
    if launch.usable(inputs):
        x, gradient = launch.channels_last(inputs), launch.channels_last(outputs)
        rows, statistics = launch.conv_rows(
            x, gradient, there, window.size, window.stride, window.padding, bias=bias, precision=products
        )
        packing = (outputs.shape[1], *window.size, inputs.shape[1])
        return FlatRows(rows=rows, statistics=statistics, packing=packing)
    by_place = outputs.float().flatten(2)
    weight = product(by_place, _patches(inputs.float(), window)).flatten(1)
    return FlatRows(rows=torch.cat([weight, by_place.sum(dim=2)], dim=1) if bias else weight)


def conv_tanh(
    x: Float[Tensor, "MRK I H W"],
    weight: Float[Tensor, "M O I h w"],
    bias: Float[Tensor, "M O"],
    how: Activated,
) -> tuple[Float[Tensor, "MRK O height width"], Activation]:
    """``tanh(conv(x) + bias)``, of the maxima of 2 by 2 places if pooled; and what its gradients need."""
    kept = Activation(x=launch.channels_last(x))
    value, kept.argmax = _ConvTanh.apply(kept.x, weight, bias, how, kept)
    kept.x, kept.value = kept.x.detach(), value.detach()
    return value.permute(0, 3, 1, 2), kept


def conv_tanh_rows(
    kept: Activation,
    outputs: Float[Tensor, "MRK O height width"],
    there: Bool[Tensor, " MRK"],
    how: Activated,
) -> FlatRows:
    """The rows of a convolution whose activation has the gradient ``outputs``."""
    gradient, window = launch.channels_last(outputs), how.window
    if how.at_once and kept.argmax is not None:
        rows, statistics = launch.pooled_rows(
            kept.x, gradient, kept.value, kept.argmax, there, window.size, how.products
        )
    else:
        dense = kept.dense if kept.dense is not None else _dense(kept, gradient, window)
        rows, statistics = launch.conv_rows(
            kept.x,
            dense,
            there,
            window.size,
            window.stride,
            window.padding,
            bias=True,
            precision=how.products,
        )
    packing = (outputs.shape[1], *window.size, kept.x.shape[3])
    return FlatRows(rows=rows, statistics=statistics, packing=packing)


class _ConvTanh(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, how: Activated, kept: Activation
    ) -> tuple[Tensor, Tensor | None]:
        argmax = None
        if how.at_once and how.pool:
            value, argmax = launch.conv_pool_tanh(x, weight, bias, how.products)
        elif how.at_once:
            value = launch.tanh_of_conv(x, weight, bias, how.window.padding, how.products)
        else:
            sums = convolved(x.permute(0, 3, 1, 2), weight, None, how.window)
            value, argmax = launch.activated(launch.channels_last(sums), bias, pool=how.pool)
        ctx.save_for_backward(weight)
        ctx.how, ctx.kept = how, kept
        if argmax is not None:
            ctx.mark_non_differentiable(argmax)
        return value, argmax

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, None, None, None, None]:
        if not ctx.needs_input_grad[0]:
            return None, None, None, None, None
        (weight,), how, kept = ctx.saved_tensors, ctx.how, ctx.kept
        dense = _dense(kept, gradients[0].contiguous(), how.window)
        if how.at_once:
            height, width = kept.x.shape[1:3]
            inputs = launch.input_gradient(dense, weight, height, width, how.products)
        else:
            kept.dense = dense
            inputs = _input_gradient(dense, weight, kept.x, how.window)
        return inputs, None, None, None, None


def _dense(kept: Activation, gradient: Float[Tensor, "N h w O"], window: Window) -> Float[Tensor, "N y x O"]:
    """The gradient of the convolution itself."""
    (high, wide), (down, right) = window.size, window.padding
    height, width = kept.x.shape[1] + 2 * down - high + 1, kept.x.shape[2] + 2 * right - wide + 1
    return launch.before_activation(gradient, kept.value, kept.argmax, height, width)


def _input_gradient(dense: Tensor, weight: Tensor, x: Tensor, window: Window) -> Tensor:
    """By cuDNN, model after model."""
    gradients, inputs = dense.permute(0, 3, 1, 2), x.permute(0, 3, 1, 2)
    weight = weight.to(x.dtype)
    parts = [
        torch.ops.aten.convolution_backward(
            g, i, w, None, window.stride, window.padding, (1, 1), False, (0, 0), 1, (True, False, False)
        )[0]
        for g, i, w in zip(gradients.chunk(len(weight)), inputs.chunk(len(weight)), weight, strict=True)
    ]
    return launch.channels_last(_joined(parts))


def _joined(parts: list[Tensor]) -> Tensor:
    """One after the other; a single one is not copied."""
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def _patches(x: Tensor, window: Window) -> Tensor:
    """``[rows, places, I h w]``: what each place of the output sees."""
    down, right = window.padding
    padded = functional.pad(x, (right, right, down, down))
    windows = padded.unfold(2, window.size[0], window.stride[0]).unfold(3, window.size[1], window.stride[1])
    return windows.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
