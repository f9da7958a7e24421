"""What every signature is: a score of one record, computed from that record alone."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

Needs = Literal["output", "statistics", "gradient", "history"]


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a signature sees of one drawn record: its own row of a `RecordView`, in buffers of its own."""

    logits: Float[Tensor, " C"]
    label: Int[Tensor, ""]
    loss: Float[Tensor, ""]
    gradient: Float[Tensor, " P"]
    clip_norm: float | None
    displacement: Float[Tensor, " P"]


@dataclass(frozen=True, kw_only=True)
class RecordView:
    """What is known of the drawn records, one row each.

    ``logits`` and ``losses`` are means over augmented copies, and so are the unclipped ``gradients``
    (in the order of ``model.named_parameters()``). ``displacement`` is the released model less the
    initial one. ``clip_norm`` is None in plain SGD.
    """

    logits: Float[Tensor, "B C"]
    labels: Int[Tensor, " B"]
    losses: Float[Tensor, " B"]
    gradients: Float[Tensor, "B P"]
    clip_norm: float | None
    displacement: Float[Tensor, " P"]

    def record(self, row: int) -> Record:
        """One row, copied: a view into the batch would be aligned by its place, and BLAS looks at that."""
        return Record(
            logits=self.logits[row].clone(),
            label=self.labels[row],
            loss=self.losses[row].clone(),
            gradient=self.gradients[row].clone(),
            clip_norm=self.clip_norm,
            displacement=self.displacement,
        )


@dataclass(frozen=True, kw_only=True)
class Signature(ABC):
    """A per-record score by which the filter chooses who leaves; the highest leave first.

    ``needs`` says what it reads: the output, statistics of the gradient (its norms and moments), the
    whole gradient, or its own history as well. ``memory_shape`` is the shape of what it keeps for each
    record between that record's own draws; ``()`` keeps nothing.

    **Guarantees** (rule 1 of the privacy contract): `score` is given one record, so it knows nothing of
    any other; `scores` gives it buffers of the same shape and alignment each time, so its bits do not
    depend on the batch, on the record's place in it or on its size. `dpgap.testing.check_signature`
    checks both.

    **Edge cases**: a score that is not finite counts as the highest.
    """

    id: ClassVar[str]
    needs: ClassVar[Needs]

    @property
    def name(self) -> str:
        """What it is called in a title."""
        return self.id

    @property
    def memory_shape(self) -> tuple[int, ...]:
        """Shape of one record's memory, which starts as zeros; ``()`` if there is none."""
        return ()

    @final
    def fresh_memory(self, records: int) -> Float[Tensor, "N ..."]:
        """Memory of records that were never drawn: zeros, ``[records, *memory_shape]``."""
        return torch.zeros(records, *self.memory_shape)

    @abstractmethod
    def score(
        self, record: Record, memory: Float[Tensor, "..."]
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "..."]]:
        """The score of one record, and its memory after this draw (``memory`` itself if it keeps nothing).

        It must be a function of its arguments and of public randomness: no state, no private draw.
        """

    @final
    def scores(
        self, view: RecordView, memory: Float[Tensor, "B ..."]
    ) -> tuple[Float[Tensor, " B"], Float[Tensor, "B ..."]]:
        """The score of each row, and each row's memory after this draw.

        ``memory`` holds the rows of `fresh_memory` that belong to the drawn records, in their order; the
        caller puts the second result back.
        """
        scores, kept = view.losses.new_zeros(len(view.labels)), memory.clone()
        for row in range(len(view.labels)):
            scores[row], kept[row] = self.score(view.record(row), memory[row].clone())
        return scores, kept
