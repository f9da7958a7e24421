"""Philox 4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"), in whole numbers."""

_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_INCREMENTS = 0x9E3779B9, 0xBB67AE85
_MASK = 2**32 - 1


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Four words of 32 bits; both arguments are such words, the low ones first."""
    a, b, c, d = counter
    for turn in range(10):
        first, second = ((k + turn * i) & _MASK for k, i in zip(key, _INCREMENTS, strict=True))
        left, right = _MULTIPLIERS[0] * a, _MULTIPLIERS[1] * c
        a, b, c, d = (right >> 32) ^ b ^ first, right & _MASK, (left >> 32) ^ d ^ second, left & _MASK
    return a, b, c, d
