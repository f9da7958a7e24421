"""The step of DP-SGD: clip, sum, noise, divide, update."""

import torch
from jaxtyping import Float
from torch import Tensor

from dpgap._seeds import stream

# Squares and products are in float64: the relative error of a norm of P terms is below P 2^-53, so a
# clipped norm is at most C (1 + ETA) for models of up to 2^22 parameters.
ETA = 2.0**-30


def clip_factors(gradients: Float[Tensor, "B P"], clip_norm: float) -> Float[Tensor, " B"]:
    """What each row is multiplied by: ``min(1, C / ||g||)``, in float64.

    **Guarantees**: a row times its factor has norm at most ``C (1 + ETA)``, and the factor is a function of
    that row alone.

    **Edge cases**: 0 for a row that is not finite; a row of zeros, or within the norm, keeps factor 1.

    Abadi et al. 2016, Algorithm 1, "Clip gradient".

    >>> clip_factors(torch.tensor([[3.0, 4.0], [0.3, 0.4], [float("nan"), 0.0]]), 1.0).tolist()
    [0.2, 1.0, 0.0]
    """
    return shrinking(torch.linalg.vector_norm(gradients, dim=1, dtype=torch.float64), clip_norm)


def shrinking(norms: Float[Tensor, "*B"], clip_norm: float) -> Float[Tensor, "*B"]:
    """The same of rows whose L2 norms are known: ``min(1, C / norm)``, and 0 where that is not finite.

    >>> shrinking(torch.tensor([4.0, 0.5, float("inf")]), 1.0).tolist()
    [0.25, 1.0, 0.0]
    """
    return torch.where(norms.isfinite(), clip_norm / norms.clamp(min=clip_norm), 0.0)


def clipped_sum(gradients: Float[Tensor, "B P"], clip_norm: float) -> Float[Tensor, " P"]:
    """The sum of the rows, each clipped to ``clip_norm``, in float64.

    **Guarantees** (rule 0 of the privacy contract): one row more or less moves the sum by at most
    ``C (1 + ETA)`` in L2.

    **Edge cases**: a row that is not finite contributes exactly 0; no rows give zeros.

    Abadi et al. 2016, Algorithm 1.

    >>> clipped_sum(torch.tensor([[3.0, 4.0], [0.0, 0.5], [float("inf"), 0.0]]), 1.0).tolist()
    [0.6..., 1.3...]
    """
    factors = clip_factors(gradients, clip_norm)
    finite = torch.where(factors[:, None] > 0, gradients, 0.0)
    return factors @ finite.double()


def gaussian_noise(size: int, scale: float, step: int, seed: int) -> Float[Tensor, " P"]:
    """The noise of step ``step``: ``size`` independent draws of ``N(0, scale^2)``, in float64.

    **Guarantees**: keyed by seed and step alone; every step has noise, also one that drew nobody.

    >>> gaussian_noise(3, 0.0, step=1, seed=0).tolist()
    [0.0, 0.0, 0.0]
    """
    return torch.from_numpy(stream(seed, "noise", step).standard_normal(size) * scale)


def updated(
    weights: Float[Tensor, " P"],
    total: Float[Tensor, " P"],
    noise: Float[Tensor, " P"],
    *,
    expected_batch: float,
    learning_rate: float,
) -> Float[Tensor, " P"]:
    """``weights - learning_rate (total + noise) / expected_batch``, rounded once to the weights' type.

    **Guarantees**: ``expected_batch`` is the mechanism's public constant; the number of records drawn or
    active is no argument, so it cannot become the denominator.

    Abadi et al. 2016, Algorithm 1, "Descent"; the paper's Algorithm 2 with ``q n`` read as a public constant.

    >>> updated(torch.tensor([1.0]), torch.tensor([4.0]), torch.tensor([2.0]),
    ...         expected_batch=3.0, learning_rate=0.5).tolist()
    [0.0]
    """
    mean = (total.double() + noise.double()) / expected_batch
    return (weights.double() - learning_rate * mean).to(weights.dtype)
