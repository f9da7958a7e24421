"""How good a model is on records that it was not trained on."""

import torch
from torch import Tensor, nn
from torch.func import functional_call

from dpgap.data.records import Records

_ROWS_AT_ONCE = 500


@torch.no_grad()
def accuracy(model: nn.Module, weights: dict[str, Tensor], records: Records) -> float:
    """The share of ``records`` that ``model`` with ``weights`` classifies rightly.

    On training records it is private: no bound covers it (rule 4 of the privacy contract).

    **Edge cases**: not a number without records.

    >>> model = nn.Linear(2, 2)
    >>> accuracy(model, {"weight": torch.eye(2), "bias": torch.zeros(2)},
    ...          Records(torch.eye(2), torch.tensor([0, 0]), 2))
    0.5
    """
    parts = zip(records.x.split(_ROWS_AT_ONCE), records.y.split(_ROWS_AT_ONCE), strict=True)
    right = [(functional_call(model, weights, (x,)).argmax(dim=1) == y) for x, y in parts]
    return float(torch.cat(right).double().mean())
