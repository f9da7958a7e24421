"""Calls of the Triton kernels with their block shapes, and whether they can be called at all.

Tensors are channels-last, ``[rows, height, width, channels]``. Block shapes were chosen by measurement on one
H200; they are functions of a layer's shape alone, so that the order of every sum is too.
"""

import logging
import math
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

_LOG = logging.getLogger("dpgap")
_FEW_CHANNELS = 16
_LARGEST_TILE = 16384
"""Sums that a program can hold: beyond, patches are cut along their coordinates."""
_LARGEST_SHARED = 8192
"""Sums for one place of a window up to which a program takes three places; with twice as many, three times
their number do not fit in registers, and compiled code was seen to be wrong."""
Pair = tuple[int, int]


def usable(x: Tensor) -> bool:
    """Whether kernels serve this tensor: it is on a GPU, and Triton is installed."""
    return x.is_cuda and _kernels() is not None


@cache
def _kernels() -> Any:
    try:
        from dpgap.training.fleet.kernels import draws, forward, rows
    except ImportError:
        _LOG.warning("Triton is not installed, so the fleet runs without its kernels, which is slower.")
        return None
    return SimpleNamespace(draws=draws, forward=forward, rows=rows)


def channels_last(x: Tensor) -> Tensor:
    """``[N, C, H, W]`` in memory as ``[N, H, W, C]``, whatever its strides said."""
    return x.permute(0, 2, 3, 1).contiguous()


def packed(weight: Tensor) -> Tensor:
    """``[M, O, C, h, w]`` as ``[M, O, h w C]``."""
    return weight.permute(0, 1, 3, 4, 2).flatten(2).contiguous()


def conv_pool_tanh(x: Tensor, weight: Tensor, bias: Tensor, precision: str) -> tuple[Tensor, Tensor]:
    """``tanh(maxpool2(conv(x) + bias))`` without padding, and the places of the maxima."""
    models, outs, channels, high, wide = weight.shape
    pooled = (x.shape[1] - high + 1) // 2, (x.shape[2] - wide + 1) // 2
    out = x.new_empty(len(x), *pooled, outs)
    argmax = torch.empty_like(out, dtype=torch.int8)
    size, rows, block = channels * high * wide, len(x) // models, 64
    _kernels().forward.conv_pool_tanh[_blocks(rows * pooled[0] * pooled[1], block), models](
        x,
        packed(weight).to(x.dtype),
        bias.contiguous(),
        out,
        argmax,
        rows,
        *x.stride()[:3],
        PH=pooled[0],
        PW=pooled[1],
        K=size,
        O=outs,
        KW=wide,
        C=channels,
        BLOCK_P=block,
        BLOCK_K=min(_power(size), 64),
        BLOCK_O=_power(outs),
        PRECISION=precision,
        num_warps=2,
    )
    return out, argmax


def tanh_of_conv(x: Tensor, weight: Tensor, bias: Tensor, padding: Pair, precision: str) -> Tensor:
    """``tanh(conv(x) + bias)`` for few channels."""
    models, outs, channels, high, wide = weight.shape
    height, width = x.shape[1] + 2 * padding[0] - high + 1, x.shape[2] + 2 * padding[1] - wide + 1
    out = x.new_empty(len(x), height, width, outs)
    size, rows, block = channels * high * wide, len(x) // models, 128
    _kernels().forward.tanh_of_conv[_blocks(rows * height * width, block), models](
        x,
        packed(weight).to(x.dtype),
        bias.contiguous(),
        out,
        rows,
        *x.stride()[:3],
        H=x.shape[1],
        W=x.shape[2],
        OH=height,
        OW=width,
        O=outs,
        K=size,
        PAD_Y=padding[0],
        PAD_X=padding[1],
        KW=wide,
        C=channels,
        BLOCK_P=block,
        BLOCK_K=_power(size),
        BLOCK_O=_power(outs),
        PRECISION=precision,
        num_warps=2,
    )
    return out


def activated(x: Tensor, bias: Tensor, *, pool: bool) -> tuple[Tensor, Tensor | None]:
    """``tanh(x + bias)``, of the maxima if there is a ``pool``, and these maxima's places."""
    models, outs = bias.shape
    bias, rows = bias.contiguous(), len(x) // models
    if not pool:
        out = torch.empty_like(x)
        places = x.numel() // (models * outs)
        _kernels().forward.tanh_of_sum[_blocks(x.numel(), 1024),](
            x, bias, out, x.numel(), places, O=outs, BLOCK=1024
        )
        return out, None
    height, width = x.shape[1], x.shape[2]
    out = x.new_empty(len(x), height // 2, width // 2, outs)
    argmax = torch.empty_like(out, dtype=torch.int8)
    _kernels().forward.tanh_of_pool[_blocks(out.numel(), 512),](
        x,
        bias,
        out,
        argmax,
        out.numel(),
        rows,
        H=height,
        W=width,
        PH=height // 2,
        PW=width // 2,
        O=outs,
        BLOCK=512,
    )
    return out, argmax


def before_activation(
    gradient: Tensor, value: Tensor, argmax: Tensor | None, height: int, width: int
) -> Tensor:
    """The gradient of what `activated` was given, ``[N, height, width, O]``."""
    if argmax is None:
        out = torch.empty_like(value)
        _kernels().forward.tanh_gradient[_blocks(out.numel(), 1024),](
            gradient, value, out, out.numel(), BLOCK=1024
        )
        return out
    out = value.new_empty(len(value), height, width, value.shape[3])
    cells = len(value) * _blocks(height, 2) * _blocks(width, 2) * value.shape[3]
    _kernels().forward.unpool[_blocks(cells, 1024),](
        gradient,
        value,
        argmax,
        out,
        cells,
        PH=value.shape[1],
        PW=value.shape[2],
        H=height,
        W=width,
        O=value.shape[3],
        BLOCK=1024,
    )
    return out


def input_gradient(gradient: Tensor, weight: Tensor, height: int, width: int, precision: str) -> Tensor:
    """Of ``gradient [N, OH, OW, O]`` of a convolution without padding: that of its input."""
    models, outs, channels, high, wide = weight.shape
    flipped = packed(weight.flip(3, 4).transpose(1, 2)).to(gradient.dtype)
    out = gradient.new_empty(len(gradient), height, width, channels)
    rows, block = len(gradient) // models, 128
    _kernels().forward.conv_by_taps[_blocks(rows * height * width, block), models](
        gradient,
        flipped,
        out,
        rows,
        *gradient.stride()[:3],
        H=gradient.shape[1],
        W=gradient.shape[2],
        OH=height,
        OW=width,
        O=channels,
        PAD_Y=high - 1,
        PAD_X=wide - 1,
        KH=high,
        KW=wide,
        C=outs,
        BLOCK_P=block,
        BLOCK_C=_power(outs),
        BLOCK_O=_power(channels),
        PRECISION=precision,
        num_warps=2,
    )
    return out


def pooled_rows(
    x: Tensor,
    gradient: Tensor,
    value: Tensor,
    argmax: Tensor,
    there: Tensor,
    size: Pair,
    precision: str,
) -> tuple[Tensor, Tensor]:
    """Packed gradients of a convolution under pool and tanh, ``[N, P]``, and their statistics ``[N, 3]``.

    Rows that are not ``there`` are left as they are, with statistics of 0.
    """
    outs, length = value.shape[3], size[0] * size[1] * x.shape[3]
    block_o, block_k, parts = _tiles(outs, length)
    rows, statistics = _empty(x, parts + 1, outs, length, bias=True)
    _kernels().rows.gradient_of_pooled[len(x), parts](
        x,
        gradient,
        value,
        argmax,
        there.view(torch.int8),
        rows,
        statistics,
        *x.stride()[:3],
        PH=value.shape[1],
        PW=value.shape[2],
        K=length,
        O=outs,
        KW=size[1],
        C=x.shape[3],
        SLOTS=parts + 1,
        BLOCK_L=64,
        BLOCK_K=block_k,
        BLOCK_O=block_o,
        PRECISION=precision,
        num_warps=min(_warps(block_o * block_k, precision, x), 2 if precision == "tf32" else 4),
        num_stages=1,
    )
    return rows, _together(statistics)


def conv_rows(
    x: Tensor,
    gradient: Tensor,
    there: Tensor,
    size: Pair,
    stride: Pair,
    padding: Pair,
    *,
    bias: bool,
    precision: str,
) -> tuple[Tensor, Tensor]:
    """The same of a convolution by itself."""
    (_, height, width, channels), outs = x.shape, gradient.shape[3]
    length = size[0] * size[1] * channels
    shape = {
        "H": height,
        "W": width,
        "OH": gradient.shape[1],
        "OW": gradient.shape[2],
        "O": outs,
        "P": length * outs + outs * bias,
        "PAD_Y": padding[0],
        "PAD_X": padding[1],
        "STEP_Y": stride[0],
        "STEP_X": stride[1],
        "KW": size[1],
        "C": channels,
        "PRECISION": precision,
    }
    block_o, block_c, slots = _power(outs), _power(channels), size[0] * size[1]
    if channels < _FEW_CHANNELS or block_o * block_c > _LARGEST_TILE:
        block_o, block_k, slots = _tiles(outs, length)
        kernel, tile, parts = _kernels().rows.gradient_of_conv, block_o * block_k, slots
        blocks = {"K": length, "BLOCK_K": block_k, "BLOCK_L": 64}
    else:
        kernel, tile = _kernels().rows.gradient_of_taps, block_o * block_c
        taps = 3 if size[1] == 3 and tile <= _LARGEST_SHARED else 1
        parts = slots // taps
        blocks = {"KH": size[0], "TAPS": taps, "BLOCK_C": block_c, "BLOCK_L": 64 if tile < 8192 else 32}
    rows, statistics = _empty(x, slots + bias, outs, length, bias=bias)
    blocks |= {"SLOTS": slots + bias, "BLOCK_O": block_o, "num_warps": _warps(tile, precision, x)}
    drawn = there.view(torch.int8)
    kernel[len(x), parts](x, gradient, drawn, rows, statistics, *x.stride()[:3], **shape, **blocks)
    return rows, _together(statistics)


def weighted_rows(weights: Tensor, rows: Tensor) -> Tensor:
    """``sum_r weights[m, r] rows[m, r]`` of ``rows [M, R, P]``; rows of weight 0 are not read."""
    models, count, size = rows.shape
    share, block = max(8, _blocks(count, 16)), min(1024, _power(size))
    shares = _blocks(count, share)
    parts = torch.empty(models, shares, size, device=rows.device)
    _kernels().rows.weighted_rows[_blocks(size, block), shares, models](
        weights.contiguous(), rows, parts, count, P=size, SHARE=share, BLOCK_R=8, BLOCK=block
    )
    return parts.sum(dim=1)


def fill_coins(coins: Tensor, keys: Tensor, step: int, rate: float) -> None:
    """True with probability ``rate``, rounded down to a multiple of 2^-32: to the private side."""
    models, n = coins.shape
    if rate >= 1:
        coins.fill_(value=True)
        return
    below = math.floor(rate * 2**32)
    _kernels().draws.coins[_blocks(n, 1024), models](keys, coins.view(torch.int8), step, below, n, BLOCK=1024)


def fill_noise(noise: Tensor, keys: Tensor, step: int, scale: float) -> None:
    """Independent draws of ``N(0, scale^2)``."""
    models, size = noise.shape
    _kernels().draws.noise[_blocks(size, 1024), models](keys, noise, step, scale, size, BLOCK=1024)


def _empty(x: Tensor, slots: int, outs: int, length: int, *, bias: bool) -> tuple[Tensor, Tensor]:
    """Room for rows, as precise as ``x`` where they are long and even, and for their statistics."""
    dtype = x.dtype if length % 16 == 0 else torch.float32
    rows = torch.empty(len(x), outs * length + outs * bias, device=x.device, dtype=dtype)
    return rows, torch.zeros(len(x), slots, 3, device=x.device)


def _tiles(outs: int, length: int) -> tuple[int, int, int]:
    """Block of channels, block of patch coordinates, and how many of these cover a patch."""
    block_o = _power(outs)
    block_k = min(_power(length), max(32, 8192 // block_o))
    return block_o, block_k, _blocks(length, block_k)


def _warps(tile: int, precision: str, x: Tensor) -> int:
    """One for small tiles of sums, and no fewer than four where float32 is multiplied in three parts."""
    least = 4 if precision == "tf32x3" and x.dtype == torch.float32 else 1
    return max(least, 1 if tile <= 1024 else 4 if tile <= 8192 else 8)


def _together(statistics: Tensor) -> Tensor:
    """Statistics of whole rows from those of their parts."""
    return torch.cat([statistics[..., :2].sum(dim=1), statistics[..., 2].amax(dim=1, keepdim=True)], dim=1)


def _blocks(size: int, block: int) -> int:
    return -(-size // block)


def _power(size: int) -> int:
    """The least power of two that holds ``size``; matrix units take no less than 16."""
    return max(16, 1 << (size - 1).bit_length())
