"""Mechanisms whose privacy loss is known, and audits of them drawn many at a time."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from dpgap.privacy.mechanism import Mechanism, Poisson
from dpgap.privacy.tradeoff import gaussian_epsilon

Draw = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class Known:
    """Scores of both worlds, and the privacy loss at ``delta`` that no attack on them exceeds."""

    name: str
    inside: Draw
    outside: Draw
    delta: float
    epsilon: float

    def audits(self, repetitions: int, per_world: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores and inclusion bits, one audit a row."""
        draws = np.random.default_rng(seed)
        included = np.tile(np.arange(2 * per_world) < per_world, (repetitions, 1))
        worlds = [draw(draws, repetitions * per_world) for draw in (self.inside, self.outside)]
        return np.hstack([world.reshape(repetitions, per_world) for world in worlds]), included


def normal(mean: float) -> Draw:
    return lambda draws, size: draws.normal(mean, 1, size)


def laplace(mean: float) -> Draw:
    return lambda draws, size: draws.laplace(mean, 1, size)


def coin(probability: float) -> Draw:
    return lambda draws, size: (draws.random(size) < probability).astype(float)


def sampled(rate: float, mean: float) -> Draw:
    return lambda draws, size: draws.normal(0, 1, size) + mean * (draws.random(size) < rate)


def subsampled_gaussian(rate: float, noise: float, delta: float) -> Known:
    run = Mechanism(
        sampling=Poisson(rate=rate), clip_norm=1.0, noise_multiplier=noise, expected_batch=1.0, steps=1
    )
    loss = run.upper_bound(delta).value
    return Known("subsampled-gaussian", sampled(rate, 1 / noise), normal(0), delta, loss)


NOTHING = Known("null", normal(0), normal(0), 1e-5, 0.0)
GAUSSIAN = Known("gaussian", normal(1), normal(0), 0.1, float(gaussian_epsilon(1.0, 0.1)))
LAPLACE = Known("laplace", laplace(1), laplace(0), 1e-5, 1.0)
"""Every threshold above 1 has the same ratio e: looking at all of them has as many chances to err."""
RANDOMISED_RESPONSE = Known("randomised-response", coin(np.e / (1 + np.e)), coin(1 / (1 + np.e)), 1e-5, 1.0)
SAMPLED = subsampled_gaussian(0.5, 0.5, 0.1)
KNOWN = (NOTHING, GAUSSIAN, LAPLACE, RANDOMISED_RESPONSE, SAMPLED)


def probability_of_as_many(claims: int, repetitions: int, level: float) -> float:
    """How likely at least so many false claims are when each is made with probability ``level``."""
    return float(stats.binom.sf(claims - 1, repetitions, level))
