"""Triton: convolutions of M models with tanh and pool, and the way back to their inputs."""

import triton
import triton.language as tl

from dpgap.training.fleet.kernels.products import dot, patch_offsets


@triton.jit
def _tanh(x):
    """Right to 1e-7 of 1 everywhere; float32 has no better near 1."""
    shrunk = tl.exp(-2.0 * tl.abs(x))
    value = (1.0 - shrunk) / (1.0 + shrunk)
    return tl.where(x < 0, -value, value)


@triton.jit
def _largest_of_four(first, second, third, fourth):
    """The maximum and its place, the first of equals; not a number if one of them is not, as in PyTorch."""
    best, which = first, tl.zeros_like(first).to(tl.int32)
    take = (second > best) | (second != second)
    best, which = tl.where(take, second, best), tl.where(take, 1, which)
    take = (third > best) | (third != third)
    best, which = tl.where(take, third, best), tl.where(take, 2, which)
    take = (fourth > best) | (fourth != fourth)
    return tl.where(take, fourth, best), tl.where(take, 3, which)


@triton.jit
def conv_pool_tanh(
    x,
    weight,
    bias,
    out,
    argmax,
    R,
    stride_row,
    stride_y,
    stride_x,
    PH: tl.constexpr,
    PW: tl.constexpr,
    K: tl.constexpr,
    O: tl.constexpr,
    KW: tl.constexpr,
    C: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_O: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """``tanh(maxpool2(conv(x) + bias))``, and which of the four places each maximum came from.

    A program has ``BLOCK_P`` pooled places of one model; it convolves the four places of each window.
    """
    m = tl.program_id(1).to(tl.int64)
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    there = p < R * PH * PW
    row, place = p // (PH * PW), p % (PH * PW)
    y, z = 2 * (place // PW), 2 * (place % PW)
    base = (m * R + row) * stride_row + y * stride_y + z * stride_x
    o = tl.arange(0, BLOCK_O)
    acc0 = tl.zeros((BLOCK_P, BLOCK_O), tl.float32)
    acc1 = tl.zeros((BLOCK_P, BLOCK_O), tl.float32)
    acc2 = tl.zeros((BLOCK_P, BLOCK_O), tl.float32)
    acc3 = tl.zeros((BLOCK_P, BLOCK_O), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        dy, dx, c = patch_offsets(k, KW, C)
        at = x + base[:, None] + (dy * stride_y + dx * stride_x + c)[None, :]
        mask = there[:, None] & (k < K)[None, :]
        w = tl.load(
            weight + m * O * K + o[None, :] * K + k[:, None],
            mask=(o < O)[None, :] & (k < K)[:, None],
            other=0.0,
        )
        acc0 = dot(tl.load(at, mask=mask, other=0.0), w, acc0, PRECISION)
        acc1 = dot(tl.load(at + stride_x, mask=mask, other=0.0), w, acc1, PRECISION)
        acc2 = dot(tl.load(at + stride_y, mask=mask, other=0.0), w, acc2, PRECISION)
        acc3 = dot(tl.load(at + stride_y + stride_x, mask=mask, other=0.0), w, acc3, PRECISION)
    best, which = _largest_of_four(acc0, acc1, acc2, acc3)
    value = _tanh(best + tl.load(bias + m * O + o, mask=o < O, other=0.0)[None, :])
    to = ((m * R + row) * PH * PW + place)[:, None] * O + o[None, :]
    mask = there[:, None] & (o < O)[None, :]
    tl.store(out + to, value.to(out.dtype.element_ty), mask=mask)
    tl.store(argmax + to, which.to(tl.int8), mask=mask)


@triton.jit
def unpool(
    gradient,
    value,
    argmax,
    out,
    total,
    PH: tl.constexpr,
    PW: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    O: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The gradient of the convolution's output from that of the pooled tanh: one place in four, else 0.

    Each of the ``total`` cells of 2 by 2 places is written as a whole, also those that no pool has seen.
    """
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there, wide, high = i < total, (W + 1) // 2, (H + 1) // 2
    o, z, y, row = i % O, (i // O) % wide, (i // (O * wide)) % high, i // (O * wide * high)
    inside = there & (y < PH) & (z < PW)
    pooled = ((row * PH + y) * PW + z) * O + o
    chosen = tl.load(argmax + pooled, mask=inside, other=-1)
    v = tl.load(value + pooled, mask=inside, other=0.0).to(tl.float32)
    g = tl.load(gradient + pooled, mask=inside, other=0.0).to(tl.float32)
    slope = g * (1.0 - v * v)
    for j in tl.static_range(4):
        at_y, at_z = 2 * y + j // 2, 2 * z + j % 2
        to = out + ((row * H + at_y) * W + at_z) * O + o
        tl.store(
            to,
            tl.where(chosen == j, slope, 0.0).to(out.dtype.element_ty),
            mask=there & (at_y < H) & (at_z < W),
        )


@triton.jit
def conv_by_taps(
    x,
    weight,
    out,
    R,
    stride_row,
    stride_y,
    stride_x,
    H: tl.constexpr,
    W: tl.constexpr,
    OH: tl.constexpr,
    OW: tl.constexpr,
    O: tl.constexpr,
    PAD_Y: tl.constexpr,
    PAD_X: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    C: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK_O: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """A convolution of stride 1 without bias; with flipped weights and full padding, its input gradient."""
    m = tl.program_id(1).to(tl.int64)
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    row, place = p // (OH * OW), p % (OH * OW)
    y, z = place // OW - PAD_Y, place % OW - PAD_X
    base = (m * R + row) * stride_row + y * stride_y + z * stride_x
    o, c = tl.arange(0, BLOCK_O), tl.arange(0, BLOCK_C)
    acc = tl.zeros((BLOCK_P, BLOCK_O), tl.float32)
    for tap in range(KH * KW):
        dy, dx = tap // KW, tap % KW
        inside = (y + dy >= 0) & (y + dy < H) & (z + dx >= 0) & (z + dx < W) & (row < R)
        at = x + (base + dy * stride_y + dx * stride_x)[:, None] + c[None, :]
        patch = tl.load(at, mask=inside[:, None] & (c < C)[None, :], other=0.0)
        w = weight + ((m * O + o[None, :]) * KH * KW + tap) * C + c[:, None]
        acc = dot(patch, tl.load(w, mask=(o < O)[None, :] & (c < C)[:, None], other=0.0), acc, PRECISION)
    to = ((m * R + row) * OH * OW + place)[:, None] * O + o[None, :]
    tl.store(out + to, acc.to(out.dtype.element_ty), mask=(row < R)[:, None] & (o < O)[None, :])


@triton.jit
def tanh_of_conv(
    x,
    weight,
    bias,
    out,
    R,
    stride_row,
    stride_y,
    stride_x,
    H: tl.constexpr,
    W: tl.constexpr,
    OH: tl.constexpr,
    OW: tl.constexpr,
    O: tl.constexpr,
    K: tl.constexpr,
    PAD_Y: tl.constexpr,
    PAD_X: tl.constexpr,
    KW: tl.constexpr,
    C: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_O: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """``tanh(conv(x) + bias)`` of stride 1 for few channels: a whole patch is one block."""
    m = tl.program_id(1).to(tl.int64)
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    row, place = p // (OH * OW), p % (OH * OW)
    k, o = tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_O)
    dy, dx, c = patch_offsets(k, KW, C)
    y, z = (place // OW - PAD_Y)[:, None] + dy[None, :], (place % OW - PAD_X)[:, None] + dx[None, :]
    inside = (y >= 0) & (y < H) & (z >= 0) & (z < W) & (row < R)[:, None] & (k < K)[None, :]
    at = x + ((m * R + row) * stride_row)[:, None] + y * stride_y + z * stride_x + c[None, :]
    w = weight + (m * O + o[None, :]) * K + k[:, None]
    acc = tl.zeros((BLOCK_P, BLOCK_O), tl.float32)
    w = tl.load(w, mask=(o < O)[None, :] & (k < K)[:, None], other=0.0)
    acc = dot(tl.load(at, mask=inside, other=0.0), w, acc, PRECISION)
    acc = _tanh(acc + tl.load(bias + m * O + o, mask=o < O, other=0.0)[None, :])
    to = ((m * R + row) * OH * OW + place)[:, None] * O + o[None, :]
    tl.store(out + to, acc.to(out.dtype.element_ty), mask=(row < R)[:, None] & (o < O)[None, :])


@triton.jit
def tanh_of_sum(x, bias, out, TOTAL, PLACES, O: tl.constexpr, BLOCK: tl.constexpr):
    """``tanh(x + bias)``; ``PLACES`` rows of O channels belong to one model."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = i < TOTAL
    b = tl.load(bias + (i // (PLACES * O)) * O + i % O, mask=there, other=0.0)
    value = _tanh(tl.load(x + i, mask=there, other=0.0).to(tl.float32) + b)
    tl.store(out + i, value.to(out.dtype.element_ty), mask=there)


@triton.jit
def tanh_of_pool(
    x,
    bias,
    out,
    argmax,
    TOTAL,
    R,
    H: tl.constexpr,
    W: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    O: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """``tanh(maxpool2(x) + bias)`` and which of the four places each maximum came from."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = i < TOTAL
    o, z, y, row = i % O, (i // O) % PW, (i // (O * PW)) % PH, i // (O * PW * PH)
    at = x + ((row * H + 2 * y) * W + 2 * z) * O + o
    first = tl.load(at, mask=there, other=0.0).to(tl.float32)
    second = tl.load(at + O, mask=there, other=0.0).to(tl.float32)
    third = tl.load(at + W * O, mask=there, other=0.0).to(tl.float32)
    fourth = tl.load(at + (W + 1) * O, mask=there, other=0.0).to(tl.float32)
    best, which = _largest_of_four(first, second, third, fourth)
    value = _tanh(best + tl.load(bias + (row // R) * O + o, mask=there, other=0.0))
    tl.store(out + i, value.to(out.dtype.element_ty), mask=there)
    tl.store(argmax + i, which.to(tl.int8), mask=there)


@triton.jit
def tanh_gradient(gradient, value, out, TOTAL, BLOCK: tl.constexpr):
    """``gradient (1 - value^2)``."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = i < TOTAL
    v = tl.load(value + i, mask=there, other=0.0).to(tl.float32)
    g = tl.load(gradient + i, mask=there, other=0.0).to(tl.float32)
    tl.store(out + i, (g * (1.0 - v * v)).to(out.dtype.element_ty), mask=there)
