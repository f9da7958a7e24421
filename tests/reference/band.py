"""The band's calibration the slow way: Noe's recursion in exact arithmetic, and simulation."""

from fractions import Fraction
from math import comb

import numpy as np


def crossing_probability_by_recursion(limits: list[Fraction]) -> Fraction:
    """P(V_(j) > limits[j - 1] for some j), by the first j at which it happens.

    At the first crossing exactly j - 1 of the n variables lie below limits[j - 1], and those have not
    crossed among themselves: the same question for j - 1 variables on a shorter interval.
    """
    n = len(limits)
    quiet: list[Fraction] = []
    for j, limit in enumerate(limits):
        crossed = Fraction(0)
        for i in range(j):
            share = limits[i] / limit
            crossed += comb(j, i) * share**i * (1 - share) ** (j - i) * quiet[i]
        quiet.append(1 - crossed)
    return sum(
        (comb(n, j) * limits[j] ** j * (1 - limits[j]) ** (n - j) * quiet[j] for j in range(n)), Fraction(0)
    )


def crossing_share_by_simulation(limits: np.ndarray, repetitions: int, seed: int) -> float:
    """The share of simulated samples of which some order statistic exceeds its limit."""
    draws = np.random.default_rng(seed).random((repetitions, len(limits)))
    return float((np.sort(draws, axis=1) > limits).any(axis=1).mean())
