"""Triton: per-sample gradients of convolutions, and their weighted sums.

A program belongs to one record, so its bits cannot depend on any other. It ends at
once, and writes nothing, where none was ``drawn``.
"""

import triton
import triton.language as tl

from dpgap.training.fleet.kernels.products import dot, patch_offsets


@triton.jit
def gradient_of_pooled(
    x,
    gradient,
    value,
    argmax,
    drawn,
    rows,
    statistics,
    stride_row,
    stride_y,
    stride_x,
    PH: tl.constexpr,
    PW: tl.constexpr,
    K: tl.constexpr,
    O: tl.constexpr,
    KW: tl.constexpr,
    C: tl.constexpr,
    SLOTS: tl.constexpr,
    BLOCK_L: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_O: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One record's gradient of a convolution under pool and tanh, packed, then the bias's; with statistics.

    Of the four places of a window one has the gradient; all four are multiplied, most by 0.
    """
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if tl.load(drawn + row) == 0:
        return
    k = part * BLOCK_K + tl.arange(0, BLOCK_K)
    dy, dx, c = patch_offsets(k, KW, C)
    offset = dy * stride_y + dx * stride_x + c
    o = tl.arange(0, BLOCK_O)
    acc = tl.zeros((BLOCK_O, BLOCK_K), tl.float32)
    sums = tl.zeros((BLOCK_O,), tl.float32)
    for start in range(0, 4 * PH * PW, BLOCK_L):
        i = start + tl.arange(0, BLOCK_L)
        place, j = i // 4, i % 4
        there = place < PH * PW
        pooled = (row * PH * PW + place)[:, None] * O + o[None, :]
        inside = there[:, None] & (o < O)[None, :]
        v = tl.load(value + pooled, mask=inside, other=0.0).to(tl.float32)
        g = tl.load(gradient + pooled, mask=inside, other=0.0).to(tl.float32)
        which = tl.load(argmax + pooled, mask=inside, other=-1)
        chosen = tl.where(which == j[:, None], g * (1.0 - v * v), 0.0)
        sums += tl.sum(chosen, axis=0)
        y, z = 2 * (place // PW) + j // 2, 2 * (place % PW) + j % 2
        at = x + (row * stride_row + y * stride_y + z * stride_x)[:, None] + offset[None, :]
        patches = tl.load(at, mask=there[:, None] & (k < K)[None, :], other=0.0)
        acc = dot(tl.trans(chosen.to(patches.dtype)), patches, acc, PRECISION)
    at = o[:, None] * K + k[None, :]
    _store(acc, rows, statistics, row, part, SLOTS, at, (o < O)[:, None] & (k < K)[None, :], O * K + O)
    if part == 0:
        _store(sums, rows, statistics, row, SLOTS - 1, SLOTS, O * K + o, o < O, O * K + O)


@triton.jit
def gradient_of_conv(
    x,
    gradient,
    drawn,
    rows,
    statistics,
    stride_row,
    stride_y,
    stride_x,
    H: tl.constexpr,
    W: tl.constexpr,
    OH: tl.constexpr,
    OW: tl.constexpr,
    K: tl.constexpr,
    O: tl.constexpr,
    P: tl.constexpr,
    PAD_Y: tl.constexpr,
    PAD_X: tl.constexpr,
    STEP_Y: tl.constexpr,
    STEP_X: tl.constexpr,
    KW: tl.constexpr,
    C: tl.constexpr,
    SLOTS: tl.constexpr,
    BLOCK_L: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_O: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One record's gradient of a convolution of any stride and padding, packed, then the bias's."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if tl.load(drawn + row) == 0:
        return
    k = part * BLOCK_K + tl.arange(0, BLOCK_K)
    dy, dx, c = patch_offsets(k, KW, C)
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
        acc = dot(tl.trans(g).to(patches.dtype), patches, acc, PRECISION)
    at = o[:, None] * K + k[None, :]
    _store(acc, rows, statistics, row, part, SLOTS, at, (o < O)[:, None] & (k < K)[None, :], P)
    if (part == 0) & (P > O * K):
        _store(sums, rows, statistics, row, SLOTS - 1, SLOTS, O * K + o, o < O, P)


@triton.jit
def gradient_of_taps(
    x,
    gradient,
    drawn,
    rows,
    statistics,
    stride_row,
    stride_y,
    stride_x,
    H: tl.constexpr,
    W: tl.constexpr,
    OH: tl.constexpr,
    OW: tl.constexpr,
    O: tl.constexpr,
    P: tl.constexpr,
    PAD_Y: tl.constexpr,
    PAD_X: tl.constexpr,
    STEP_Y: tl.constexpr,
    STEP_X: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    C: tl.constexpr,
    SLOTS: tl.constexpr,
    TAPS: tl.constexpr,
    BLOCK_L: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK_O: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """`gradient_of_conv` by places of the window, ``TAPS`` a program, 1 or 3; for 16 channels or more."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if tl.load(drawn + row) == 0:
        return
    dy, dx = part * TAPS // KW, part * TAPS % KW
    c, o, channels = tl.arange(0, BLOCK_C), tl.arange(0, BLOCK_O), (tl.arange(0, BLOCK_C) < C)[None, :]
    first = tl.zeros((BLOCK_O, BLOCK_C), tl.float32)
    second, third = first, first
    sums = tl.zeros((BLOCK_O,), tl.float32)
    for start in range(0, OH * OW, BLOCK_L):
        place = start + tl.arange(0, BLOCK_L)
        y, z = place // OW * STEP_Y - PAD_Y + dy, place % OW * STEP_X - PAD_X + dx
        there = (y >= 0) & (y < H) & (place < OH * OW)
        at = x + (row * stride_row + y * stride_y + z * stride_x)[:, None] + c[None, :]
        to = (row * OH * OW + place)[:, None] * O + o[None, :]
        g = tl.load(gradient + to, mask=(place < OH * OW)[:, None] & (o < O)[None, :], other=0.0)
        if part == 0:
            sums += tl.sum(g.to(tl.float32), axis=0)
        g = tl.trans(g)
        first = _add_place(first, g, at, there, z, W, channels, PRECISION)
        if TAPS == 3:
            second = _add_place(second, g, at + stride_x, there, z + 1, W, channels, PRECISION)
            third = _add_place(third, g, at + 2 * stride_x, there, z + 2, W, channels, PRECISION)
    at = (o[:, None] * KH * KW + part * TAPS) * C + c[None, :]
    inside = (o < O)[:, None] & channels
    _store(first, rows, statistics, row, part * TAPS, SLOTS, at, inside, P)
    if TAPS == 3:
        _store(second, rows, statistics, row, part * TAPS + 1, SLOTS, at + C, inside, P)
        _store(third, rows, statistics, row, part * TAPS + 2, SLOTS, at + 2 * C, inside, P)
    if (part == 0) & (P > O * KH * KW * C):
        _store(sums, rows, statistics, row, SLOTS - 1, SLOTS, O * KH * KW * C + o, o < O, P)


@triton.jit
def _add_place(acc, g, at, there, z, W: tl.constexpr, channels, PRECISION: tl.constexpr):
    """``acc`` and the products of ``g`` with what lies at ``at``, where column ``z`` is inside."""
    mask = (there & (z >= 0) & (z < W))[:, None] & channels
    return dot(g, tl.load(at, mask=mask, other=0.0), acc, PRECISION)


@triton.jit
def _store(tile, rows, statistics, row, slot, slots: tl.constexpr, at, inside, P: tl.constexpr):
    """Write a part of one record's gradient, and its statistics to a slot of their own.

    They are sum of squares, sum of absolute values and maximum of what is written, rounded as it is.
    """
    tile = tile.to(rows.dtype.element_ty)
    tl.store(rows + row * P + at, tile, mask=inside)
    written = tl.where(inside, tile.to(tl.float32), 0.0)
    squares, largest = tl.sum(written * written), tl.max(tl.abs(written))
    to = statistics + (row * slots + slot) * 3
    tl.store(to, squares)
    tl.store(to + 1, tl.sum(tl.abs(written)))
    # A maximum overlooks what is not a number; a sum does not.
    tl.store(to + 2, tl.where(squares - squares == 0.0, largest, squares))


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
        tile = tl.load(
            rows + (m * R + r)[:, None] * P + p[None, :], mask=p[None, :] < counted[:, None], other=0.0
        )
        acc += tl.sum(w[:, None] * tile.to(tl.float32), axis=0)
    tl.store(parts + (m * tl.num_programs(1) + share) * P + p, acc, mask=p < P)
