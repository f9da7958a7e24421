"""Triton: coins and noise of M models from counters (Philox 4x32-10: Salmon et al. 2011).

The key is the model's, the counter is (index, step, purpose, 0): a draw is a function of these alone.
"""

import triton
import triton.language as tl

_COINS: tl.constexpr = tl.constexpr(1)
_NOISE: tl.constexpr = tl.constexpr(2)


@triton.jit
def _words(keys, m, index, step, purpose: tl.constexpr):
    zero = index * 0
    return tl.philox(tl.load(keys + m), index, zero + step, zero + purpose, zero)


@triton.jit(do_not_specialize=["step"])
def coins(keys, out, step, below, N, BLOCK: tl.constexpr):
    """1 with probability ``below / 2^32``, 0 otherwise."""
    m = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    word, _, _, _ = _words(keys, m, i.to(tl.uint32), step, _COINS)
    tl.store(out + m.to(tl.int64) * N + i, (word.to(tl.uint32, bitcast=True) < below).to(tl.int8), mask=i < N)


@triton.jit(do_not_specialize=["step"])
def noise(keys, out, step, scale, P, BLOCK: tl.constexpr):
    """Independent draws of ``N(0, scale^2)``, by Box and Muller's transform of two uniform words."""
    m = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first, second, _, _ = _words(keys, m, i.to(tl.uint32), step, _NOISE)
    # The open interval: half a step away from 0, whose logarithm is infinite.
    u = (first.to(tl.uint32, bitcast=True).to(tl.float32) + 0.5) * 2.3283064365386963e-10
    v = second.to(tl.uint32, bitcast=True).to(tl.float32) * 2.3283064365386963e-10
    draw = tl.sqrt(-2.0 * tl.log(u)) * tl.cos(6.283185307179586 * v)
    tl.store(out + m.to(tl.int64) * P + i, draw * scale, mask=i < P)
