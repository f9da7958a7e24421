"""A filtered training run, the obvious way: Python loops and a microbatch of one.

Coins and noise are given, as lists over steps, so that the run has no randomness of its own.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy


def gradient_of_one(model: nn.Module, x: Tensor, y: Tensor) -> list[float]:
    """The gradient of one record's cross-entropy, as a flat list of Python floats."""
    model.zero_grad()
    cross_entropy(model(x[None]), y[None]).backward()
    return [float(g) for p in model.parameters() for g in p.grad.flatten()]


def clipped(gradient: list[float], clip_norm: float | None) -> list[float]:
    """``gradient`` scaled down to the norm; zeros if it is not finite."""
    if clip_norm is None:
        return gradient
    if not all(math.isfinite(g) for g in gradient):
        return [0.0] * len(gradient)
    norm = math.sqrt(math.fsum(g * g for g in gradient))
    return gradient if norm <= clip_norm else [g * clip_norm / norm for g in gradient]


def top(scores: Sequence[float], members: Sequence[int], k: int) -> list[int]:
    """The ``k`` highest of ``members``: not finite first, then by score, then the lower index."""

    def place(i: int) -> tuple[float, int]:
        return (-scores[i] if math.isfinite(scores[i]) else -math.inf, i)

    return sorted(members, key=place)[:k]


def run(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    coins: Sequence[Sequence[bool]],
    noises: Sequence[Sequence[float]],
    *,
    clip_norm: float | None,
    expected_batch: float,
    learning_rate: float,
    k: int,
    every: int,
) -> tuple[list[float], list[int]]:
    """Algorithm 2 with the L-inf norm of the unclipped gradient, k of each class, stale scores kept.

    Changes ``model``. Gives the final weights and the step after which each record left (0: it stayed).
    """
    scores, removed_at = [0.0] * len(x), [0] * len(x)
    for step, (drawn, noise) in enumerate(zip(coins, noises, strict=True), start=1):
        total = [0.0] * len(noise)
        for i in range(len(x)):
            if drawn[i] and not removed_at[i]:
                gradient = gradient_of_one(model, x[i], y[i])
                scores[i] = max(abs(g) for g in gradient)
                total = [a + b for a, b in zip(total, clipped(gradient, clip_norm), strict=True)]
        change = [learning_rate * (a + b) / expected_batch for a, b in zip(total, noise, strict=True)]
        weights = [float(w) for p in model.parameters() for w in p.detach().flatten()]
        moved = torch.tensor([w - c for w, c in zip(weights, change, strict=True)])
        nn.utils.vector_to_parameters(moved, model.parameters())
        if step % every == 0:
            for label in sorted(set(y.tolist())):
                members = [i for i in range(len(x)) if not removed_at[i] and y[i] == label]
                for i in top(scores, members, k):
                    removed_at[i] = step
    return [float(w) for p in model.parameters() for w in p.detach().flatten()], removed_at
