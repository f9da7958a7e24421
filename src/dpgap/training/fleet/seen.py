"""What a fleet knows of the rows it has just looked at, given gradients in the place of their own."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.func import vmap

from dpgap.signatures.base import Record, Signature
from dpgap.signatures.gradient import GradientNorm
from dpgap.training.dpsgd import shrinking
from dpgap.training.fleet.device import arithmetic
from dpgap.training.fleet.network import Look


@dataclass(frozen=True, kw_only=True, eq=False)
class Given:
    """Gradients given with the canaries, with their norms; ``first`` is the index of the first canary.

    Norms are computed in float64, as a given gradient may be as large as one likes.
    """

    gradients: Float[Tensor, "K P"]
    first: int

    def norm(self, p: float) -> Float[Tensor, " K"]:
        """The norm of each, not finite if the gradient is not."""
        return torch.linalg.vector_norm(self.gradients, p, dim=1, dtype=torch.float64).float()


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """R drawn rows of each of M models: ``table`` has the record of each place, ``there`` whether any is."""

    look: Look
    table: Int[Tensor, "M R"]
    there: Bool[Tensor, "M R"]
    labels: Int[Tensor, "M R"]
    weights: Float[Tensor, "M P"]
    start: Float[Tensor, " P"]
    clip_norm: float | None
    given: Given | None

    def norm(self, p: float) -> Float[Tensor, "M R"]:
        """The p-norm of each row's unclipped gradient, from the layers' own statistics."""
        layers = self.look.gradients
        if p == 2:
            return self.length
        if p == 1:
            own = torch.stack([layer.absolute() for layer in layers]).sum(dim=0)
        else:
            own = torch.stack([layer.largest() for layer in layers]).amax(dim=0)
        return self._or_given(own, p)

    @cached_property
    def length(self) -> Float[Tensor, "M R"]:
        """The L2 norm."""
        squares = torch.stack([layer.squares() for layer in self.look.gradients]).sum(dim=0)
        return self._or_given(squares.sqrt(), 2)

    @cached_property
    def factors(self) -> Float[Tensor, "M R"]:
        """What each row is multiplied by: ``min(1, C / |g|)``; 0 where nobody is or ``|g|`` is not finite.

        **Guarantees**: a row times its factor has norm at most ``C (1 + ETA)``: what is normed is, bit for
        bit, what is summed, whatever precision it was computed in.
        """
        if self.clip_norm is None:
            return self.there.to(torch.float32)
        return torch.where(self.there, shrinking(self.length, self.clip_norm), 0.0)

    def total(self) -> Float[Tensor, "M P"]:
        """The sum of the rows, each times its factor."""
        if self.given is None:
            return self._summed(self.factors)
        own = torch.where(self._is_given, 0.0, self.factors)
        theirs = (self.factors - own).double()
        counts = theirs.new_zeros(len(own), len(self.given.gradients)).scatter_add_(1, self._which, theirs)
        finite = torch.where(self.given.norm(2).isfinite()[:, None], self.given.gradients, 0.0)
        return self._summed(own) + (counts @ finite.double()).float()

    def _summed(self, factors: Float[Tensor, "M R"]) -> Float[Tensor, "M P"]:
        # On a GPU the answer would have to be waited for.
        finite = not factors.is_cuda and self.clip_norm is not None and bool(self.length.isfinite().all())
        with arithmetic("fp32"):  # also where the process multiplies in TF32 elsewhere
            sums = [layer.weighted_sum(factors, finite=finite) for layer in self.look.gradients]
        return torch.cat(sums, dim=1)

    def dense(self) -> Float[Tensor, "M R P"]:
        """All gradients, formed: a row of P numbers each."""
        own = torch.cat([layer.dense() for layer in self.look.gradients], dim=2)
        if self.given is None:
            return own
        return torch.where(self._is_given[..., None], self.given.gradients[self._which], own)

    def _or_given(self, own: Float[Tensor, "M R"], p: float) -> Float[Tensor, "M R"]:
        if self.given is None:
            return own
        return torch.where(self._is_given, self.given.norm(p)[self._which], own)

    @cached_property
    def _is_given(self) -> Bool[Tensor, "M R"]:
        assert self.given is not None
        return (self.table >= self.given.first) & self.there

    @cached_property
    def _which(self) -> Int[Tensor, "M R"]:
        assert self.given is not None
        return torch.where(self._is_given, self.table - self.given.first, 0)


def scored(
    signature: Signature, seen: Seen, memory: Float[Tensor, "M R ..."]
) -> tuple[Float[Tensor, "M R"], Float[Tensor, "M R ..."]]:
    """Each row's score, and its memory after this draw.

    Norms come from the layers' statistics. Any other signature is its own definition, `Signature.score`,
    mapped over the rows; gradients are formed only for one that says it needs them.
    """
    if isinstance(signature, GradientNorm):
        return signature.of(seen.norm(signature.p), seen.length, seen.clip_norm), memory
    models, rows = seen.table.shape
    look, nothing = seen.look, seen.look.logits.new_zeros(models, rows, 0)
    gradients = nothing if signature.needs == "output" else seen.dense()

    def one(
        logits: Tensor, label: Tensor, loss: Tensor, gradient: Tensor, path: Tensor, past: Tensor
    ) -> tuple[Tensor, Tensor]:
        record = Record(
            logits=logits,
            label=label,
            loss=loss,
            gradient=gradient,
            clip_norm=seen.clip_norm,
            displacement=path,
        )
        score, after = signature.score(record, past)
        return score.float(), after

    paths = (seen.weights - seen.start)[:, : gradients.shape[2]]
    each = vmap(vmap(one, in_dims=(0, 0, 0, 0, None, 0)))
    return each(look.logits, seen.labels, look.losses, gradients, paths, memory)
