"""Per-sample gradients of one layer for a whole fleet, in the cheapest form that has exact norms."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from dpgap.training.fleet.kernels import launch
from dpgap.training.fleet.products import product


@dataclass(frozen=True, kw_only=True, eq=False)
class LayerGradient(ABC):
    """The gradients of one layer's parameters for each of R rows of each of M models."""

    @abstractmethod
    def squares(self) -> Float[Tensor, "M R"]:
        """The sum of squares of each gradient."""

    @abstractmethod
    def absolute(self) -> Float[Tensor, "M R"]:
        """The sum of absolute values of each gradient."""

    @abstractmethod
    def largest(self) -> Float[Tensor, "M R"]:
        """The largest absolute value of each gradient."""

    @abstractmethod
    def weighted_sum(self, weights: Float[Tensor, "M R"], *, finite: bool) -> Float[Tensor, "M P"]:
        """``sum_r weights[m, r] g[m, r]``; unless all is ``finite``, rows of weight 0 are taken for zeros."""

    @abstractmethod
    def dense(self) -> Float[Tensor, "M R P"]:
        """The gradients themselves, one flat row each."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class RankOne(LayerGradient):
    """Of a linear layer that sees a record once: ``g = outputs inputs^T``, then ``outputs`` for the bias.

    Its norms are products of the factors' norms, exactly, so it is never formed.

    >>> g = RankOne(inputs=torch.tensor([[[3.0, 4.0]]]), outputs=torch.tensor([[[2.0]]]), bias=True)
    >>> g.squares().item(), g.largest().item(), g.absolute().item(), g.dense().tolist()
    (104.0, 8.0, 16.0, [[[6.0, 8.0, 2.0]]])
    """

    inputs: Float[Tensor, "M R I"]
    outputs: Float[Tensor, "M R O"]
    bias: bool

    def squares(self) -> Float[Tensor, "M R"]:
        """``|b|^2 (|a|^2 + 1)``, the 1 for the bias."""
        return self.outputs.square().sum(dim=2) * (self.inputs.square().sum(dim=2) + self.bias)

    def absolute(self) -> Float[Tensor, "M R"]:
        """``|b|_1 (|a|_1 + 1)``."""
        return self.outputs.abs().sum(dim=2) * (self.inputs.abs().sum(dim=2) + self.bias)

    def largest(self) -> Float[Tensor, "M R"]:
        """``max |b| max(max |a|, 1)``."""
        inputs = self.inputs.abs().amax(dim=2)
        return self.outputs.abs().amax(dim=2) * (inputs.clamp(min=1.0) if self.bias else inputs)

    def weighted_sum(self, weights: Float[Tensor, "M R"], *, finite: bool) -> Float[Tensor, "M P"]:
        """One product of matrices a model: ``(weights outputs)^T inputs``."""
        outputs, inputs = self.outputs * weights[..., None], self.inputs
        if not finite:
            counted = weights[..., None] != 0
            outputs, inputs = torch.where(counted, outputs, 0.0), torch.where(counted, inputs, 0.0)
        total = product(outputs.mT, inputs).flatten(1)
        return torch.cat([total, outputs.sum(dim=1)], dim=1) if self.bias else total

    def dense(self) -> Float[Tensor, "M R P"]:
        """The outer products."""
        formed = (self.outputs[..., :, None] * self.inputs[..., None, :]).flatten(2)
        return torch.cat([formed, self.outputs], dim=2) if self.bias else formed


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Rows(LayerGradient):
    """Gradients that were formed, one flat row each: convolutions, sequences, copies, normalisations.

    A kernel that forms them gives ``statistics`` with them (sum of squares, sum of absolute values, maximum)
    and may leave the weight's coordinates in the order of ``packing``: output, row, column, input.
    """

    rows: Float[Tensor, "M R P"]
    statistics: Float[Tensor, "M R 3"] | None = None
    packing: tuple[int, int, int, int] | None = None

    def squares(self) -> Float[Tensor, "M R"]:
        """Row by row."""
        return self.rows.square().sum(dim=2) if self.statistics is None else self.statistics[..., 0]

    def absolute(self) -> Float[Tensor, "M R"]:
        """Row by row."""
        return self.rows.abs().sum(dim=2) if self.statistics is None else self.statistics[..., 1]

    def largest(self) -> Float[Tensor, "M R"]:
        """Row by row."""
        return self.rows.abs().amax(dim=2) if self.statistics is None else self.statistics[..., 2]

    def weighted_sum(self, weights: Float[Tensor, "M R"], *, finite: bool) -> Float[Tensor, "M P"]:
        """One read of the rows."""
        if launch.usable(self.rows):
            return self._unpacked(launch.weighted_rows(weights, self.rows))
        rows = self.rows if finite else torch.where(weights[..., None] != 0, self.rows, 0.0)
        return self._unpacked(product(weights[:, None], rows)[:, 0])

    def dense(self) -> Float[Tensor, "M R P"]:
        """The rows themselves, in the order of the parameters."""
        return self._unpacked(self.rows.float())

    def _unpacked(self, packed: Float[Tensor, "*R P"]) -> Float[Tensor, "*R P"]:
        if self.packing is None:
            return packed
        size = math.prod(self.packing)
        weight = packed[..., :size].unflatten(-1, self.packing).movedim(-1, -3).flatten(-4)
        return torch.cat([weight, packed[..., size:]], dim=-1)
