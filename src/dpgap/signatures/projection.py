"""Random directions that everybody knows: drawn from a public seed, independent of the data."""

from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from dpgap._seeds import stream


def project(
    gradient: Float[Tensor, " P"], *, dimensions: int, purpose: str, public_seed: int
) -> Float[Tensor, " D"]:
    """The gradient along ``dimensions`` random unit directions.

    The gradient is divided by its largest coordinate first, so that no finite product overflows, and the
    result multiplied by it in float64.
    """
    directions = _unit_directions(public_seed, purpose, dimensions, len(gradient), gradient.device)
    largest = gradient.abs().amax()
    scale = torch.where(largest > 0, largest, 1.0)
    return torch.mv(directions, gradient / scale).double() * largest.double()


@lru_cache(maxsize=2)
def _unit_directions(
    public_seed: int, purpose: str, dimensions: int, parameters: int, device: torch.device
) -> Tensor:
    """Rows uniform on the unit sphere: Gaussian vectors, normalised."""
    draws = stream(public_seed, purpose, dimensions, parameters).standard_normal((dimensions, parameters))
    directions = torch.from_numpy(draws)
    return (directions / torch.linalg.vector_norm(directions, dim=1, keepdim=True)).float().to(device)
