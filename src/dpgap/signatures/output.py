"""Signatures of what the model predicts for the record."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from dpgap.signatures.base import Needs, Record, Signature


def _probabilities(record: Record) -> Float[Tensor, " C"]:
    return torch.softmax(record.logits.double(), dim=0)


@final
@dataclass(frozen=True, kw_only=True)
class Loss(Signature):
    """The record's cross-entropy, averaged over its augmented copies."""

    id: ClassVar[str] = "loss"
    needs: ClassVar[Needs] = "output"

    def score(self, record: Record, memory: Float[Tensor, ""]) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """The loss of one record."""
        return record.loss, memory


@final
@dataclass(frozen=True, kw_only=True)
class Entropy(Signature):
    """The entropy ``-sum_c p_c log p_c`` of the prediction, in nats.

    Appendix D of the paper, signature 6.
    """

    id: ClassVar[str] = "entropy"
    needs: ClassVar[Needs] = "output"

    def score(self, record: Record, memory: Float[Tensor, ""]) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """The entropy of one record's prediction."""
        return torch.special.entr(_probabilities(record)).sum(), memory


@final
@dataclass(frozen=True, kw_only=True)
class Margin(Signature):
    """``-(p_y - max_{c != y} p_c)``: how far the label is behind the best other class.

    Section 3 and Appendix D of the paper, signature 7.

    >>> record = Record(logits=torch.tensor([0.75, 0.25]).log(), label=torch.tensor(1),
    ...                 loss=torch.tensor(1.0), gradient=torch.zeros(2), clip_norm=1.0,
    ...                 displacement=torch.zeros(2))
    >>> round(Margin().score(record, torch.zeros(()))[0].item(), 6)
    0.5
    """

    id: ClassVar[str] = "margin"
    needs: ClassVar[Needs] = "output"

    def score(self, record: Record, memory: Float[Tensor, ""]) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """The margin of one record."""
        probabilities = _probabilities(record)
        is_label = torch.arange(len(probabilities), device=probabilities.device) == record.label
        own = torch.where(is_label, probabilities, 0.0).sum()
        return torch.where(is_label, -torch.inf, probabilities).amax() - own, memory


@final
@dataclass(frozen=True, kw_only=True)
class InverseConfidence(Signature):
    """``1 / max_c p_c``: 1 for a certain prediction, right or wrong, and C for a uniform one."""

    id: ClassVar[str] = "inverse-confidence"
    needs: ClassVar[Needs] = "output"

    def score(self, record: Record, memory: Float[Tensor, ""]) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """The inverse confidence of one record's prediction."""
        return 1 / _probabilities(record).amax(), memory
