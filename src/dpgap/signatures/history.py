"""Signatures that remember a record's own past draws."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from dpgap.signatures.base import Needs, Record, Signature
from dpgap.signatures.projection import project


@final
@dataclass(frozen=True, kw_only=True)
class DirectionalUniqueness(Signature):
    """``|g|_inf`` times the standard deviation of the cosines between g and the record's own last five.

    Gradients are compared in a fixed random projection to 64 dimensions, from ``public_seed``; the
    memory holds the directions of the last five draws, the newest first, and zeros where there is none
    yet. The standard deviation is that of a sample (Appendix D of the paper, signature 5).

    **Edge cases**: 0 with fewer than two past draws. A gradient that is zero or not finite has no
    direction and is not remembered; one that is not finite has no finite score.
    """

    id: ClassVar[str] = "directional-uniqueness"
    needs: ClassVar[Needs] = "history"

    public_seed: int = 0

    @property
    def memory_shape(self) -> tuple[int, ...]:
        """Five past directions of 64 dimensions."""
        return (5, 64)

    def score(
        self, record: Record, memory: Float[Tensor, "5 64"]
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "5 64"]]:
        """The score of one record, and its past with this draw in front."""
        past, known = memory.double(), memory.any(dim=1)
        point = project(record.gradient, dimensions=64, purpose=self.id, public_seed=self.public_seed)
        direction = torch.nan_to_num(point / torch.linalg.vector_norm(point), nan=0.0, posinf=0.0, neginf=0.0)
        cosines, count = (past * direction).sum(dim=1), known.sum()
        centred = torch.where(known, cosines - torch.where(known, cosines, 0.0).sum() / count, 0.0)
        spread = torch.where(count >= 2, (centred.square().sum() / (count - 1)).sqrt(), 0.0)
        score = record.gradient.abs().amax().double() * spread
        after = torch.cat([direction[None].to(memory.dtype), memory[:-1]])
        return score, torch.where(direction.any(), after, memory)
