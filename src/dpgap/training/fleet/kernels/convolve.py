"""Triton: convolutions of M models by products of matrices, with pool and tanh, and per-sample gradients.

Activations are channels-last, ``[M * R, H, W, C]``; a patch's coordinates are ordered (dy, dx, c), and so are
packed weights ``[M, O, h w C]``. One program of a gradient belongs to one record, so its bits cannot depend on
any other.
"""

import triton
import triton.language as tl


@triton.jit
def _dot(a, b, acc, PRECISION: tl.constexpr):
    if PRECISION == "ieee":
        return tl.dot(a, b, acc, input_precision="ieee")
    return tl.dot(a, b, acc, input_precision="tf32")


@triton.jit
def _patch_offsets(k, KW: tl.constexpr, C: tl.constexpr):
    """Row, column and channel of the patch coordinates ``k``."""
    return k // (KW * C), (k // C) % KW, k % C


@triton.jit
def conv_pool_tanh(
    x,
    weight,
    bias,
    out,
    argmax,
    R,
    PH: tl.constexpr,
    PW: tl.constexpr,
    stride_row,
    stride_y,
    stride_x,
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
        dy, dx, c = _patch_offsets(k, KW, C)
        at = x + base[:, None] + (dy * stride_y + dx * stride_x + c)[None, :]
        mask = there[:, None] & (k < K)[None, :]
        w = tl.load(
            weight + m * O * K + o[None, :] * K + k[:, None], mask=(o < O)[None, :] & (k < K)[:, None], other=0.0
        )
        acc0 = _dot(tl.load(at, mask=mask, other=0.0), w, acc0, PRECISION)
        acc1 = _dot(tl.load(at + stride_x, mask=mask, other=0.0), w, acc1, PRECISION)
        acc2 = _dot(tl.load(at + stride_y, mask=mask, other=0.0), w, acc2, PRECISION)
        acc3 = _dot(tl.load(at + stride_y + stride_x, mask=mask, other=0.0), w, acc3, PRECISION)
    best, which = acc0, tl.zeros((BLOCK_P, BLOCK_O), tl.int8)
    take = (acc1 > best) | (acc1 != acc1)
    best, which = tl.where(take, acc1, best), tl.where(take, 1, which)
    take = (acc2 > best) | (acc2 != acc2)
    best, which = tl.where(take, acc2, best), tl.where(take, 2, which)
    take = (acc3 > best) | (acc3 != acc3)
    best, which = tl.where(take, acc3, best), tl.where(take, 3, which)
    best += tl.load(bias + m * O + o, mask=o < O, other=0.0)[None, :]
    shrunk = tl.exp(-2.0 * tl.abs(best))
    value = (1.0 - shrunk) / (1.0 + shrunk)
    value = tl.where(best < 0, -value, value)
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
    """The gradient of the convolution's output from that of the pooled tanh: one place in four, else 0."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = i < total
    o, z, y, row = i % O, (i // O) % W, (i // (O * W)) % H, i // (O * W * H)
    inside = there & (y < 2 * PH) & (z < 2 * PW)
    pooled = ((row * PH + y // 2) * PW + z // 2) * O + o
    chosen = tl.load(argmax + pooled, mask=inside, other=-1) == (y % 2) * 2 + z % 2
    v = tl.load(value + pooled, mask=inside & chosen, other=0.0).to(tl.float32)
    g = tl.load(gradient + pooled, mask=inside & chosen, other=0.0).to(tl.float32)
    tl.store(out + i, (g * (1.0 - v * v)).to(out.dtype.element_ty), mask=there)


@triton.jit
def conv(
    x,
    weight,
    out,
    R,
    H: tl.constexpr,
    W: tl.constexpr,
    OH: tl.constexpr,
    OW: tl.constexpr,
    stride_row,
    stride_y,
    stride_x,
    K: tl.constexpr,
    O: tl.constexpr,
    PAD_Y: tl.constexpr,
    PAD_X: tl.constexpr,
    KW: tl.constexpr,
    C: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_O: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """A convolution of stride 1 without bias; with flipped weights and full padding, its input gradient."""
    m = tl.program_id(1).to(tl.int64)
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    there = p < R * OH * OW
    row, place = p // (OH * OW), p % (OH * OW)
    y, z = place // OW - PAD_Y, place % OW - PAD_X
    base = (m * R + row) * stride_row
    o = tl.arange(0, BLOCK_O)
    acc = tl.zeros((BLOCK_P, BLOCK_O), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        dy, dx, c = _patch_offsets(k, KW, C)
        at_y, at_x = y[:, None] + dy[None, :], z[:, None] + dx[None, :]
        inside = (at_y >= 0) & (at_y < H) & (at_x >= 0) & (at_x < W) & there[:, None] & (k < K)[None, :]
        at = x + base[:, None] + at_y * stride_y + at_x * stride_x + c[None, :]
        w = tl.load(
            weight + m * O * K + o[None, :] * K + k[:, None], mask=(o < O)[None, :] & (k < K)[:, None], other=0.0
        )
        acc = _dot(tl.load(at, mask=inside, other=0.0), w, acc, PRECISION)
    to = ((m * R + row) * OH * OW + place)[:, None] * O + o[None, :]
    tl.store(out + to, acc.to(out.dtype.element_ty), mask=there[:, None] & (o < O)[None, :])


@triton.jit
def gradient_of_pooled(
    x,
    gradient,
    value,
    argmax,
    rows,
    statistics,
    PH: tl.constexpr,
    PW: tl.constexpr,
    stride_row,
    stride_y,
    stride_x,
    K: tl.constexpr,
    O: tl.constexpr,
    P: tl.constexpr,
    KW: tl.constexpr,
    C: tl.constexpr,
    BLOCK_L: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_O: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One record's gradient of a convolution under pool and tanh, packed, then the bias's; with statistics.

    ``statistics`` has a row of (sum of squares, sum of absolute values, maximum) for each program.
    """
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    k = part * BLOCK_K + tl.arange(0, BLOCK_K)
    dy, dx, c = _patch_offsets(k, KW, C)
    offset = dy * stride_y + dx * stride_x + c
    o = tl.arange(0, BLOCK_O)
    acc = tl.zeros((BLOCK_O, BLOCK_K), tl.float32)
    sums = tl.zeros((BLOCK_O,), tl.float32)
    for start in range(0, PH * PW, BLOCK_L):
        place = start + tl.arange(0, BLOCK_L)
        there = place < PH * PW
        base = row * stride_row + 2 * (place // PW) * stride_y + 2 * (place % PW) * stride_x
        pooled = (row * PH * PW + place)[:, None] * O + o[None, :]
        inside = there[:, None] & (o < O)[None, :]
        v = tl.load(value + pooled, mask=inside, other=0.0).to(tl.float32)
        g = tl.load(gradient + pooled, mask=inside, other=0.0).to(tl.float32) * (1.0 - v * v)
        which = tl.load(argmax + pooled, mask=inside, other=-1)
        sums += tl.sum(g, axis=0)
        at = x + base[:, None] + offset[None, :]
        mask = there[:, None] & (k < K)[None, :]
        for j in tl.static_range(4):
            patches = tl.load(at + (j // 2) * stride_y + (j % 2) * stride_x, mask=mask, other=0.0)
            chosen = tl.where(which == j, g, 0.0).to(patches.dtype)
            acc = _dot(tl.trans(chosen), patches, acc, PRECISION)
    _finish(acc, sums, rows, statistics, row, part, k, o, K, O, P)


@triton.jit
def gradient_of_conv(
    x,
    gradient,
    rows,
    statistics,
    H: tl.constexpr,
    W: tl.constexpr,
    OH: tl.constexpr,
    OW: tl.constexpr,
    stride_row,
    stride_y,
    stride_x,
    K: tl.constexpr,
    O: tl.constexpr,
    P: tl.constexpr,
    PAD_Y: tl.constexpr,
    PAD_X: tl.constexpr,
    STEP_Y: tl.constexpr,
    STEP_X: tl.constexpr,
    KW: tl.constexpr,
    C: tl.constexpr,
    BLOCK_L: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_O: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One record's gradient of a convolution of any stride and padding, packed, then the bias's."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    k = part * BLOCK_K + tl.arange(0, BLOCK_K)
    dy, dx, c = _patch_offsets(k, KW, C)
    o = tl.arange(0, BLOCK_O)
    acc = tl.zeros((BLOCK_O, BLOCK_K), tl.float32)
    sums = tl.zeros((BLOCK_O,), tl.float32)
    for start in range(0, OH * OW, BLOCK_L):
        place = start + tl.arange(0, BLOCK_L)
        there = place < OH * OW
        at_y = (place // OW * STEP_Y - PAD_Y)[:, None] + dy[None, :]
        at_x = (place % OW * STEP_X - PAD_X)[:, None] + dx[None, :]
        inside = (at_y >= 0) & (at_y < H) & (at_x >= 0) & (at_x < W) & there[:, None] & (k < K)[None, :]
        at = x + row * stride_row + at_y * stride_y + at_x * stride_x + c[None, :]
        patches = tl.load(at, mask=inside, other=0.0)
        to = (row * OH * OW + place)[:, None] * O + o[None, :]
        g = tl.load(gradient + to, mask=there[:, None] & (o < O)[None, :], other=0.0)
        sums += tl.sum(g.to(tl.float32), axis=0)
        acc = _dot(tl.trans(g).to(patches.dtype), patches, acc, PRECISION)
    _finish(acc, sums, rows, statistics, row, part, k, o, K, O, P)


@triton.jit
def _finish(acc, sums, rows, statistics, row, part, k, o, K: tl.constexpr, O: tl.constexpr, P: tl.constexpr):
    """Write a tile of one record's gradient, and its statistics; the first tile has the bias's too."""
    inside = (o < O)[:, None] & (k < K)[None, :]
    tl.store(rows + row * P + o[:, None] * K + k[None, :], acc, mask=inside)
    squares, absolute, largest = tl.sum(acc * acc), tl.sum(tl.abs(acc)), tl.max(tl.abs(acc))
    if part == 0:
        if P > O * K:
            tl.store(rows + row * P + O * K + o, sums, mask=o < O)
            squares += tl.sum(sums * sums)
            absolute += tl.sum(tl.abs(sums))
            largest = tl.maximum(largest, tl.max(tl.abs(sums)))
    largest = tl.where(squares - squares == 0.0, largest, squares)  # a maximum overlooks what is not a number
    to = statistics + (row * tl.num_programs(1) + part) * 3
    tl.store(to, squares)
    tl.store(to + 1, absolute)
    tl.store(to + 2, largest)


@triton.jit
def weighted_rows(
    weights,
    rows,
    parts,
    R,
    P: tl.constexpr,
    SHARE: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A share of ``sum_r weights[m, r] rows[m, r]``; rows of weight 0 are not read."""
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    share, m = tl.program_id(1), tl.program_id(2).to(tl.int64)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, SHARE, BLOCK_R):
        i = start + tl.arange(0, BLOCK_R)
        r = share * SHARE + i
        w = tl.load(weights + m * R + r, mask=(r < R) & (i < SHARE), other=0.0)
        counted = tl.where(w != 0, P, 0)
        tile = tl.load(rows + (m * R + r)[:, None] * P + p[None, :], mask=p[None, :] < counted[:, None], other=0.0)
        acc += tl.sum(w[:, None] * tile, axis=0)
    tl.store(parts + (m * tl.num_programs(1) + share) * P + p, acc, mask=p < P)
