"""Triton: what the kernels of convolutions share.

Activations are channels-last, ``[M * R, H, W, C]``; a patch's coordinates are ordered (dy, dx, c), and so are
packed weights ``[M, O, h w C]``.
"""

import triton
import triton.language as tl


@triton.jit
def dot(a, b, acc, PRECISION: tl.constexpr):
    """``acc + a b``: bf16 as it is; float32 by one TF32 product, or by three, which are right to 1e-6."""
    return tl.dot(a, b, acc, input_precision=PRECISION)


@triton.jit
def patch_offsets(k, KW: tl.constexpr, C: tl.constexpr):
    """Row, column and channel of the patch coordinates ``k``."""
    return k // (KW * C), (k // C) % KW, k % C
