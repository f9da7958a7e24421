"""Hockey-stick divergences of a mechanism's first two outputs, exactly, on a grid.

Both outputs are numbers. Given everybody's coins each is Gaussian around a known sum, so their law is a
mixture of products of two Gaussians: a mapping from pairs of means to weights.
"""

from collections.abc import Mapping

import numpy as np
from scipy.stats import norm

Mixture = Mapping[tuple[float, float], float]
GRID = np.arange(-9, 9, 0.05)


def density(mixture: Mixture, noise: float) -> np.ndarray:
    """Probability of each cell of the grid."""
    cell = GRID[1] - GRID[0]
    one = {mean: norm.pdf(GRID, mean, noise) * cell for mean in {m for pair in mixture for m in pair}}
    return np.sum([weight * np.outer(one[a], one[b]) for (a, b), weight in mixture.items()], axis=0)


def unfiltered(rate: float, clip_norm: float) -> Mixture:
    """Two steps of one record that contributes ``clip_norm`` whenever it is drawn."""
    coin = {0.0: 1 - rate, clip_norm: rate}
    return {(a, b): coin[a] * coin[b] for a in coin for b in coin}


def hockey_stick(p: np.ndarray, q: np.ndarray, gamma: float) -> float:
    """``sup over events E of p(E) - gamma q(E)``."""
    return float(np.maximum(p - gamma * q, 0).sum())


def excess(here: Mixture, there: Mixture, *, rate: float, clip_norm: float, noise: float) -> float:
    """The most by which the divergence exceeds the unfiltered bound, over orders and in both directions."""
    p, q = density(there, noise), density(here, noise)
    upper, lower = density(unfiltered(rate, clip_norm), noise), density({(0.0, 0.0): 1.0}, noise)
    return max(
        hockey_stick(a, b, gamma) - hockey_stick(c, d, gamma)
        for gamma in np.exp(np.arange(0, 6, 0.25))
        for a, b, c, d in ((p, q, upper, lower), (q, p, lower, upper))
    )
