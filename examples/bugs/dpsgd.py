"""DP-SGD for logistic regression in NumPy, done right; each file beside it departs in one line.

The claim is that one record more or less changes little: eps_ub 1.0 at delta 1e-5. The dataset is the first
100 digits, and the canary a digit with ink in a corner where no other has any, so that only it moves the
weights there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

import dpgap

RATE, STEPS, CLIP_NORM, LEARNING_RATE, EXPECTED_BATCH = 0.5, 20, 1.0, 4.0, 50.0
RUN = dpgap.calibrate(
    1.0,
    1e-5,
    sampling=dpgap.Poisson(rate=RATE),
    clip_norm=CLIP_NORM,
    expected_batch=EXPECTED_BATCH,
    steps=STEPS,
)
SIGMA = RUN.noise_multiplier


@dataclass
class Linear:
    """One layer: what `train` returns."""

    weights: np.ndarray

    def logits(self, x):
        return x.reshape(len(x), -1) @ self.weights


def clipped(gradients):
    """Each row with norm at most CLIP_NORM."""
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    return gradients * np.minimum(1, CLIP_NORM / np.maximum(norms, 1e-12))


def right_mean(gradients, rng):
    """The sum of clipped gradients with noise of that sum's sensitivity, over a public number."""
    noise = SIGMA * CLIP_NORM * rng.standard_normal(gradients.shape[1])
    return (clipped(gradients).sum(axis=0) + noise) / EXPECTED_BATCH


def train(x, y, seed, private_mean=right_mean):
    """DP-SGD with Poisson sampling; ``private_mean`` is the step that must be private."""
    rng, flat = np.random.default_rng(seed), x.reshape(len(x), -1)
    weights, truth = np.zeros((flat.shape[1], 10)), np.eye(10)[y]
    for _ in range(STEPS):
        drawn = rng.random(len(flat)) < RATE
        logits = flat[drawn] @ weights
        likely = np.exp(logits - logits.max(axis=1, keepdims=True))
        error = likely / likely.sum(axis=1, keepdims=True) - truth[drawn]
        gradients = flat[drawn][:, :, None] * error[:, None, :]
        mean = private_mean(gradients.reshape(drawn.sum(), -1), rng)
        weights -= LEARNING_RATE * mean.reshape(weights.shape)
    return Linear(weights)


def audit(private_mean: Callable) -> dpgap.Audit:
    """Test the claim on 200 models, half of them trained with the canary."""
    digits, _ = dpgap.load("digits")
    row = torch.zeros(1, 1, 8, 8)
    row[0, 0, 0, 0] = 100.0
    return dpgap.audit(
        partial(train, private_mean=private_mean),
        dpgap.Records(digits.x[:100], digits.y[:100], 10),
        dpgap.Canaries(row, torch.tensor([3])),
        design=dpgap.ShadowPairs(models=200),
        upper_bound=dpgap.UpperBound.claimed(1.0, delta=1e-5),
        store=":memory:",
    )


def report(private_mean: Callable) -> None:
    """Print what the audit found."""
    found = audit(private_mean)
    verdict = "refuted" if found.refuted else "not refuted"
    print(f"claimed eps_ub 1.00, certified eps_lb {found.headline.value:.2f}: the claim is {verdict}")


if __name__ == "__main__":
    report(right_mean)
