"""Signatures of the gradient: its norm, its direction, its tails."""

import math
import warnings
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from dpgap.errors import InvalidInput
from dpgap.signatures.base import Needs, Record, Signature
from dpgap.signatures.projection import project

CLAMP = 100.0
"""Largest z-score that counts in the kurtosis."""


@final
@dataclass(frozen=True, kw_only=True)
class GradientNorm(Signature):
    """The norm ``|g|_p`` of the record's gradient, or of its clipped gradient ``g min(1, C / |g|_2)``.

    Computed in float64, so that no square of a finite gradient overflows (Appendix D of the paper,
    signatures 2 and 3).

    **Edge cases**: a gradient that is not finite has no finite norm, clipped or not. The clipped L2 norm
    is C for every record that was clipped at all, and ties are broken by index: a warning says so.

    >>> record = Record(logits=torch.zeros(2), label=torch.tensor(0), loss=torch.tensor(1.0), clip_norm=1.0,
    ...                 gradient=torch.tensor([3.0, -4.0]), displacement=torch.zeros(2))
    >>> [GradientNorm(p=p, clipped=c).score(record, torch.zeros(()))[0].item()
    ...  for p, c in ((1, False), (2, False), (math.inf, False), (math.inf, True))]
    [7.0, 5.0, 4.0, 0.8]
    """

    id: ClassVar[str] = "gradient-norm"
    needs: ClassVar[Needs] = "statistics"

    p: int | float = math.inf
    clipped: bool = False

    def __post_init__(self) -> None:
        if self.p not in (1, 2, math.inf):
            raise InvalidInput(f"p must be 1, 2 or math.inf, got {self.p!r}. The paper uses math.inf.")
        if self.clipped and self.p == 2:
            warnings.warn(
                "The clipped L2 norm of every record that was clipped is the clip norm itself, so the filter "
                "removes those by index, not by how far they stand out. Write p=math.inf or clipped=False.",
                stacklevel=3,
            )

    @property
    def name(self) -> str:
        """As the command line has it: linf, l2-clipped.

        >>> GradientNorm().name, GradientNorm(p=1, clipped=True).name
        ('linf', 'l1-clipped')
        """
        return f"l{self.p:g}{'-clipped' if self.clipped else ''}"

    def score(self, record: Record, memory: Float[Tensor, ""]) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """The norm of one record's gradient."""
        gradient = record.gradient.double()
        norm = torch.linalg.vector_norm(gradient, self.p)
        return self.of(norm, torch.linalg.vector_norm(gradient), record.clip_norm), memory

    def of(self, norm: Tensor, length: Tensor, clip_norm: float | None) -> Tensor:
        """The score of gradients whose unclipped p-norm and L2 norm are known."""
        if not self.clipped:
            return norm
        if clip_norm is None:
            raise InvalidInput("clipped must be False where nothing is clipped, as in plain SGD; got True.")
        if self.p == 2:
            # Exactly C for all that were clipped: the order of ties is not left to rounding.
            return torch.where(length.isfinite(), length.clamp(max=clip_norm), length)
        return torch.where(length.isfinite(), norm * (clip_norm / length.clamp(min=clip_norm)), length)


@final
@dataclass(frozen=True, kw_only=True)
class CosineToUpdate(Signature):
    """How far the record pulls along the path of training: ``|cos(g, theta_t - theta_0)|``.

    Appendix D of the paper, signature 1, of the unclipped gradient.

    **Edge cases**: 0 if the model has not moved yet or the gradient is zero.
    """

    id: ClassVar[str] = "cosine-to-update"
    needs: ClassVar[Needs] = "gradient"

    def score(self, record: Record, memory: Float[Tensor, ""]) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """The cosine of one record's gradient."""
        gradient, path = record.gradient.double(), record.displacement.double()
        lengths = torch.linalg.vector_norm(gradient) * torch.linalg.vector_norm(path)
        product = (gradient * path).sum().abs()
        return torch.where(lengths == 0, 0.0, product / lengths), memory


@final
@dataclass(frozen=True, kw_only=True)
class Kurtosis(Signature):
    """The fourth moment of the gradient's z-scores, ``mean(clamp(z, -100, 100)^4)``.

    ``z = (g - mean(g)) / sd(g)`` over the P coordinates; 3 for a Gaussian (Appendix D of the paper,
    signature 4, of the unclipped gradient).

    **Edge cases**: 0 if the gradient is constant.

    >>> record = Record(logits=torch.zeros(2), label=torch.tensor(0), loss=torch.tensor(1.0), clip_norm=1.0,
    ...                 gradient=torch.tensor([1.0, -1.0, 1.0, -1.0]), displacement=torch.zeros(4))
    >>> Kurtosis().score(record, torch.zeros(()))[0].item()
    1.0
    """

    id: ClassVar[str] = "kurtosis"
    needs: ClassVar[Needs] = "statistics"

    def score(self, record: Record, memory: Float[Tensor, ""]) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """The kurtosis of one record's gradient."""
        gradient = record.gradient.double()
        centred = gradient - gradient.mean()
        z = centred / centred.square().mean().sqrt()
        constant = gradient.amax() == gradient.amin()
        return torch.where(constant, 0.0, z.clamp(-CLAMP, CLAMP).pow(4).mean()), memory


@final
@dataclass(frozen=True, kw_only=True)
class ProjectionVariability(Signature):
    """``mean |p| * sd(p)`` of the gradient's projections p on a few fixed random unit directions.

    The directions come from ``public_seed`` and the number of parameters alone, the standard deviation
    is that of a sample (Appendix D of the paper, signature 8, with ten directions).
    """

    id: ClassVar[str] = "projection-variability"
    needs: ClassVar[Needs] = "gradient"

    public_seed: int = 0

    def score(self, record: Record, memory: Float[Tensor, ""]) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """The variability of one record's projections."""
        lengths = project(record.gradient, dimensions=10, purpose=self.id, public_seed=self.public_seed)
        return lengths.abs().mean() * lengths.std(), memory
