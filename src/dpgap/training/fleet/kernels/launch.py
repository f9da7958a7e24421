"""Calls of the Triton kernels, with their block shapes; and whether they can be called at all."""

import logging
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from dpgap.training.fleet.kernels import convolve

_LOG = logging.getLogger("dpgap")


def usable(x: Tensor) -> bool:
    """Whether kernels serve this tensor: it is on a GPU, and Triton is installed."""
    return x.is_cuda and _kernels() is not None


@cache
def _kernels() -> Any:
    try:
        from dpgap.training.fleet.kernels import convolve
    except ImportError:
        _LOG.warning("Triton is not installed, so the fleet runs without its kernels, which is slower.")
        return None
    return convolve


def channels_last(x: Tensor) -> Tensor:
    """``[N, C, H, W]`` in memory as ``[N, H, W, C]``, whatever its strides said."""
    return x.permute(0, 2, 3, 1).contiguous()


def packed(weight: Tensor) -> Tensor:
    """``[M, O, C, h, w]`` as ``[M, O, h w C]``."""
    return weight.permute(0, 1, 3, 4, 2).flatten(2).contiguous()


def conv_pool_tanh(x: Tensor, weight: Tensor, bias: Tensor, precision: str) -> tuple[Tensor, Tensor]:
    """``tanh(maxpool2(conv))`` of ``x [M R, H, W, C]``, and the places of the maxima; both channels-last."""
    models, outs, _, high, wide = weight.shape
    _, height, width, channels = x.shape
    pooled = (height - high + 1) // 2, (width - wide + 1) // 2
    out = x.new_empty(len(x), *pooled, outs)
    argmax = torch.empty_like(out, dtype=torch.int8)
    size = channels * high * wide
    block_p = 64
    rows = len(x) // models
    _kernels().conv_pool_tanh[_blocks(rows * pooled[0] * pooled[1], block_p), models](
        x,
        packed(weight).to(x.dtype),
        bias,
        out,
        argmax,
        rows,
        *pooled,
        *x.stride()[:3],
        size,
        outs,
        KW=wide,
        C=channels,
        BLOCK_P=block_p,
        BLOCK_K=min(_power(size), 64),
        BLOCK_O=_power(outs),
        PRECISION=precision,
    )
    return out, argmax


def unpooled(gradient: Tensor, value: Tensor, argmax: Tensor, height: int, width: int) -> Tensor:
    """The gradient of the convolution's output, ``[N, height, width, O]``."""
    out = value.new_empty(len(value), height, width, value.shape[3])
    _kernels().unpool[_blocks(out.numel(), 1024),](
        gradient, value, argmax, out, out.numel(), *value.shape[1:3], height, width, value.shape[3], BLOCK=1024
    )
    return out


def input_gradient(gradient: Tensor, weight: Tensor, height: int, width: int, precision: str) -> Tensor:
    """Of ``gradient [M R, OH, OW, O]`` of a convolution without padding: that of its input."""
    models, outs, channels, high, wide = weight.shape
    flipped = packed(weight.flip(3, 4).transpose(1, 2)).to(gradient.dtype)
    out = gradient.new_empty(len(gradient), height, width, channels)
    rows, block_p = len(gradient) // models, 128
    _kernels().conv[_blocks(rows * height * width, block_p), models](
        gradient,
        flipped,
        out,
        rows,
        *gradient.shape[1:3],
        height,
        width,
        *gradient.stride()[:3],
        outs * high * wide,
        channels,
        high - 1,
        wide - 1,
        KW=wide,
        C=outs,
        BLOCK_P=block_p,
        BLOCK_K=64,
        BLOCK_O=_power(channels),
        PRECISION=precision,
    )
    return out


def pooled_rows(
    x: Tensor, gradient: Tensor, value: Tensor, argmax: Tensor, size: tuple[int, int], precision: str
) -> tuple[Tensor, Tensor]:
    """Packed gradients of a convolution under pool and tanh, ``[M R, P]``, and their statistics ``[M R, 3]``."""
    outs, length = value.shape[3], size[0] * size[1] * x.shape[3]
    block_o, block_k, parts = _tiles(outs, length)
    rows = torch.empty(len(x), outs * length + outs, device=x.device)
    statistics = torch.empty(len(x), parts, 3, device=x.device)
    _kernels().gradient_of_pooled[len(x), parts](
        x,
        gradient,
        value,
        argmax,
        rows,
        statistics,
        *value.shape[1:3],
        *x.stride()[:3],
        length,
        outs,
        rows.shape[1],
        KW=size[1],
        C=x.shape[3],
        BLOCK_L=16 if value.shape[1] * value.shape[2] <= 16 else 32,
        BLOCK_K=block_k,
        BLOCK_O=block_o,
        PRECISION=precision,
    )
    return rows, _together(statistics)


def conv_rows(
    x: Tensor,
    gradient: Tensor,
    size: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    *,
    bias: bool,
    precision: str,
) -> tuple[Tensor, Tensor]:
    """Packed gradients of a convolution, ``[M R, P]``, and their statistics; ``x``, ``gradient`` channels-last."""
    outs, length = gradient.shape[3], size[0] * size[1] * x.shape[3]
    block_o, block_k, parts = _tiles(outs, length)
    rows = torch.empty(len(x), outs * length + outs * bias, device=x.device)
    statistics = torch.empty(len(x), parts, 3, device=x.device)
    _kernels().gradient_of_conv[len(x), parts](
        x,
        gradient,
        rows,
        statistics,
        *x.shape[1:3],
        *gradient.shape[1:3],
        *x.stride()[:3],
        length,
        outs,
        rows.shape[1],
        *padding,
        *stride,
        KW=size[1],
        C=x.shape[3],
        BLOCK_L=32,
        BLOCK_K=block_k,
        BLOCK_O=block_o,
        PRECISION=precision,
    )
    return rows, _together(statistics)


def weighted_rows(weights: Tensor, rows: Tensor) -> Tensor:
    """``sum_r weights[m, r] rows[m, r]`` of ``rows [M, R, P]``; rows of weight 0 are not read."""
    models, count, size = rows.shape
    share, block = max(8, _blocks(count, 16)), min(512, _power(size))
    shares = _blocks(count, share)
    parts = torch.empty(models, shares, size, device=rows.device)
    _kernels().weighted_rows[_blocks(size, block), shares, models](
        weights.contiguous(), rows, parts, count, P=size, SHARE=share, BLOCK_R=8, BLOCK=block
    )
    return parts.sum(dim=1)


def _tiles(outs: int, length: int) -> tuple[int, int, int]:
    """Block of channels, block of patch coordinates, and how many of these cover a patch."""
    block_o = _power(outs)
    block_k = min(_power(length), max(32, 8192 // block_o))
    return block_o, block_k, -(-length // block_k)


def _together(statistics: Tensor) -> Tensor:
    """Statistics of whole rows from those of their tiles."""
    if statistics.shape[1] == 1:
        return statistics[:, 0]
    return torch.cat([statistics[..., :2].sum(dim=1), statistics[..., 2:].amax(dim=1)], dim=1)


def _blocks(size: int, block: int) -> int:
    return -(-size // block)


def _power(size: int) -> int:
    """The least power of two that holds ``size``; matrix units take no less than 16."""
    return max(16, 1 << (size - 1).bit_length())
