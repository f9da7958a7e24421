"""Records, the private data of a run, and canaries, the rows that an auditor plants among them."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dpgap import _check
from dpgap.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Records:
    """``N`` labelled rows: the list that differential privacy speaks of, one person a row.

    ``x`` is float32 and finite, ``y`` int64 in ``[0, num_classes)``. ``num_classes`` is public: it is
    declared, never computed from the records. ``groups`` names the subgroup of each record for reports
    (which part of the data a filter removes); no filter reads it.

    **Edge cases**: a class without records, and no records at all, are allowed. The neighbour of a dataset
    may hold the only record of a class, so a check that depends on it would itself tell the two apart.
    (``load`` refuses a user's file that lacks a class, where a slip in the labels is the likely cause.)

    >>> records = Records(torch.zeros(3, 2), torch.tensor([0, 1, 1]), 2)
    >>> len(records)
    3
    >>> Records(torch.zeros(2, 2), torch.tensor([0, 7]), 2)
    Traceback (most recent call last):
    dpgap.errors.InvalidInput: Record 1 has the label 7, but labels must lie in 0..1 (num_classes is 2). ...
    """

    x: Float[Tensor, "N ..."]
    y: Int[Tensor, " N"]
    num_classes: int
    groups: Int[Tensor, " N"] | None = None

    def __post_init__(self) -> None:
        _check.count(num_classes=self.num_classes, hint="Write the number of classes, such as 10.")
        _check_rows(self.x, self.y, "record")
        _check_labels(self.y, self.num_classes, "record")
        if self.groups is not None:
            _check_whole(self.groups, len(self.x), "groups", "record")

    def __len__(self) -> int:
        return len(self.x)

    def with_canaries(self, canaries: "Canaries") -> "Records":
        """These records followed by the canaries' rows, in new tensors; a canary's group is -1.

        >>> planted = Records(torch.zeros(3, 2), torch.tensor([0, 1, 1]), 2).with_canaries(
        ...     Canaries(torch.ones(1, 2), torch.tensor([0])))
        >>> planted.x.tolist()[-1], planted.y.tolist()
        ([1.0, 1.0], [0, 1, 1, 0])
        """
        if canaries.rows.shape[1:] != self.x.shape[1:]:
            raise InvalidInput(
                f"A canary has shape {tuple(canaries.rows.shape[1:])}, a record {tuple(self.x.shape[1:])}. "
                "One model trains on both; reshape the canaries' rows."
            )
        _check_labels(canaries.labels, self.num_classes, "canary")
        groups = self.groups
        if groups is not None:
            groups = torch.cat([groups, groups.new_full((len(canaries),), -1)])
        x, y = torch.cat([self.x, canaries.rows]), torch.cat([self.y, canaries.labels])
        return Records(x, y, self.num_classes, groups)


@dataclass(frozen=True, eq=False)
class Canaries:
    """``K`` planted rows with their labels; given ``gradients`` stand in for the rows' own.

    **Edge cases**: a given gradient may be as large as one likes, or not finite: it is clipped like any
    other, and contributes exactly 0 if not finite. Rows must be finite, as records must.

    >>> len(Canaries(torch.zeros(2, 1, 28, 28), torch.tensor([9, 9])))
    2
    """

    rows: Float[Tensor, "K ..."]
    labels: Int[Tensor, " K"]
    gradients: Float[Tensor, "K P"] | None = None

    def __post_init__(self) -> None:
        _check_rows(self.rows, self.labels, "canary")
        if self.gradients is None:
            return
        _check_tensor(self.gradients, "the canaries' gradients")
        if self.gradients.ndim != 2 or len(self.gradients) != len(self.rows):
            raise InvalidInput(
                f"gradients has shape {tuple(self.gradients.shape)} for {len(self.rows)} canaries. Each "
                "needs one flat gradient of the model; write a tensor of shape (canaries, parameters)."
            )

    def __len__(self) -> int:
        return len(self.rows)


def _check_rows(x: Tensor, y: Tensor, what: str) -> None:
    _check_tensor(x, f"the rows of a {what}")
    if x.ndim < 2:
        raise InvalidInput(
            f"The rows have shape {tuple(x.shape)}: one number for each {what}, without a feature dimension. "
            "Write x[:, None] for one feature, x[None] for a single row."
        )
    _check_whole(y, len(x), "labels", what)
    finite = x.isfinite().flatten(1).all(dim=1)
    if not finite.all():
        first = int((~finite).nonzero()[0])
        raise InvalidInput(
            f"{what.capitalize()} {first} holds a value that is not finite. It would make its own gradient "
            "meaningless; repair or drop such rows before training."
        )


def _check_tensor(x: Tensor, name: str) -> None:
    if not isinstance(x, Tensor) or x.dtype != torch.float32:
        got = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise InvalidInput(
            f"{name[0].upper()}{name[1:]} must be a float32 tensor, got {got}. Models compute in it; "
            "write torch.as_tensor(x, dtype=torch.float32)."
        )


def _check_whole(y: Tensor, n: int, name: str, what: str) -> None:
    if not isinstance(y, Tensor) or y.dtype != torch.int64:
        got = y.dtype if isinstance(y, Tensor) else type(y).__name__
        raise InvalidInput(
            f"{name} must be an int64 tensor, got {got}. Anything else could be rounded; "
            f"write torch.as_tensor({name}, dtype=torch.int64)."
        )
    if y.shape != (n,):
        raise InvalidInput(
            f"{name} has shape {tuple(y.shape)} for {n} rows. Each {what} needs exactly one; "
            f"write a tensor of shape ({n},)."
        )


def _check_labels(y: Tensor, num_classes: int, what: str) -> None:
    outside = (y < 0) | (y >= num_classes)
    if outside.any():
        first = int(outside.nonzero()[0])
        raise InvalidInput(
            f"{what.capitalize()} {first} has the label {int(y[first])}, but labels must lie in "
            f"0..{num_classes - 1} (num_classes is {num_classes}). Count labels from 0, or raise num_classes."
        )
