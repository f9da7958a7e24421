"""Slow, obvious twins of the one-run audits."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate


def _pmf(n: int, k: int, rate: float) -> float:
    return math.comb(n, k) * rate**k * (1 - rate) ** (n - k)


def p_value(m: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """The sum over all counts, and the largest slope over all i, one at a time."""
    rate = 1 / (1 + math.exp(-epsilon))
    tail = sum(_pmf(guesses, k, rate) for k in range(correct, guesses + 1))
    sums = accumulate(_pmf(guesses, k, rate) for k in reversed(range(correct)))
    slopes = [total / i for i, total in enumerate(sums, start=1)]
    return min(1.0, tail + 2 * m * delta * max(slopes, default=0.0))


def refutes_curve(curve: Callable[[float], float], m: int, guesses: int, correct: int, level: float) -> bool:
    """Every step of the recursion, kept in two lists, with no early stop."""
    right, wrong = {correct: level * correct / m}, {correct: level * (guesses - correct) / m}
    for i in reversed(range(correct)):
        wrong[i] = max(wrong[i + 1], curve(1 - right[i + 1]))
        right[i] = right[i + 1] + i / (guesses - i) * (wrong[i] - wrong[i + 1])
    return right[0] + wrong[0] > guesses / m


def exact_tail_of_randomised_response(guesses: int, correct: int, odds: int) -> Fraction:
    """P(at least ``correct`` of ``guesses`` independent answers are right), each with odds to 1."""
    rate = Fraction(odds, odds + 1)
    return sum(
        (math.comb(guesses, k) * rate**k * (1 - rate) ** (guesses - k) for k in range(correct, guesses + 1)),
        Fraction(0),
    )


def correct_guesses(ranked_bits: Sequence[bool], k_in: int, k_out: int) -> int:
    """Right guesses on canaries ranked from the highest score to the lowest, one canary at a time."""
    m = len(ranked_bits)
    return sum(1 for i, bit in enumerate(ranked_bits) if (i < k_in and bit) or (i >= m - k_out and not bit))
