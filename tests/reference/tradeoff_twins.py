"""Slow, obvious twins of trade-off curves: straight from the definitions, on grids."""

import numpy as np


def profile_of(curve, epsilon, points=200_001):
    """max over alpha of 1 - f(alpha) - e^epsilon alpha, on a grid that is fine near 0."""
    alpha = np.concatenate(([0.0], np.geomspace(1e-9, 1.0, points), np.linspace(0, 1, points)))
    return max(0.0, float(np.max(1 - curve(alpha) - np.exp(epsilon) * alpha)))


def curve_of(epsilons, deltas, alpha):
    """max over the guarantees of their two lines and 0, one guarantee at a time."""
    beta = np.zeros_like(alpha)
    for epsilon, delta in zip(epsilons, deltas, strict=True):
        beta = np.maximum(beta, 1 - delta - np.exp(epsilon) * alpha)
        beta = np.maximum(beta, np.exp(-epsilon) * (1 - delta - alpha))
    return beta


def envelope_of(alpha, beta, x):
    """The lower convex envelope at x: the least chord over all pairs of points around it."""
    best = np.full_like(x, np.inf)
    for a, b in zip(alpha, beta, strict=True):
        for c, d in zip(alpha, beta, strict=True):
            if a < c:
                inside = (x >= a) & (x <= c)
                chord = b + (d - b) * (x[inside] - a) / (c - a)
                best[inside] = np.minimum(best[inside], chord)
    return best


def disclosed_mixture_of(first, second, weight, alpha, points=20_001):
    """The least error of two tests, one for each disclosed component, that share one false-positive rate."""
    share = np.linspace(0, 1, points)
    best = np.inf
    for a in share[weight * share <= alpha]:
        rest = (alpha - weight * a) / (1 - weight)
        if rest <= 1:
            best = min(best, weight * float(first(a)) + (1 - weight) * float(second(rest)))
    return best
