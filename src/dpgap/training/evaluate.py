"""What a model says of records, and how often it is right."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call

from dpgap.data.records import Records

_ROWS_AT_ONCE = 500


@torch.no_grad()
def predicted(
    model: nn.Module, weights: dict[str, Tensor], x: Float[Tensor, "N ..."]
) -> Float[Tensor, "N C"]:
    """The logits of ``model`` with ``weights`` for each row."""
    return torch.cat([functional_call(model, weights, (part,)) for part in x.split(_ROWS_AT_ONCE)])


def share_right(logits: Float[Tensor, "N C"], labels: Int[Tensor, " N"]) -> float:
    """The share of rows whose largest logit is their label's; not a number without rows.

    On training records it is private: no bound covers it (rule 4 of the privacy contract).

    >>> share_right(torch.eye(2), torch.tensor([0, 0]))
    0.5
    """
    return float((logits.argmax(dim=1) == labels).double().mean())


def accuracy(model: nn.Module, weights: dict[str, Tensor], records: Records) -> float:
    """The share of ``records`` that ``model`` with ``weights`` classifies rightly.

    >>> model = nn.Linear(2, 2)
    >>> accuracy(model, {"weight": torch.eye(2), "bias": torch.zeros(2)},
    ...          Records(torch.eye(2), torch.tensor([0, 0]), 2))
    0.5
    """
    return share_right(predicted(model, weights, records.x), records.y)
