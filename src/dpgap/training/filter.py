"""Who stays: the ``k`` highest scores of each group leave, at moments that are public."""

import re
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dpgap import _check
from dpgap.errors import InvalidInput
from dpgap.privacy.mechanism import Poisson, Sampling
from dpgap.signatures.base import Signature
from dpgap.signatures.parse import parse_signature

Scope = Literal["class", "global"]
Stale = Literal["keep", "reset"]


@dataclass(frozen=True, kw_only=True)
class SelectTop:
    """The ``k`` highest-scoring active records leave, of each class or of everything (Algorithm 3).

    **Guarantees** (rules 2 and 3 of the privacy contract): exactly ``min(k, active)`` records leave each
    group, also when this empties it, and none comes back. The order is total: scores that are not finite
    tie as the highest, then the higher score, then the lower index; so two records compare the same way
    whoever else is present, and whatever is inserted before, between or after them.

    **Edge cases**: a group without active records loses nobody. ``k`` is a count, never a share: a share
    of a class would tell the class's size.

    >>> scores, labels = torch.tensor([5.0, 4.0, 3.0, 9.0]), torch.tensor([0, 0, 0, 1])
    >>> SelectTop(k=1).keep(scores, labels, torch.ones(4, dtype=torch.bool)).tolist()
    [False, True, True, False]
    >>> SelectTop(k=1, scope="global").keep(scores, labels, torch.ones(4, dtype=torch.bool)).tolist()
    [True, True, True, False]
    """

    k: int
    scope: Scope = "class"

    def __post_init__(self) -> None:
        _check.count(k=self.k, hint="It is how many records leave a group each time; write 5, never a share.")
        _check.one_of(get_args(Scope), scope=self.scope)

    def keep(
        self, scores: Float[Tensor, "*M N"], labels: Int[Tensor, " N"], active: Bool[Tensor, "*M N"]
    ) -> Bool[Tensor, "*M N"]:
        """Which records are active afterwards; leading axes are models, each by itself."""
        groups = labels if self.scope == "class" else torch.zeros_like(labels)
        ranked = torch.where(scores.isfinite(), scores, torch.inf)
        order = ranked.argsort(dim=-1, descending=True, stable=True)
        nobody = groups.max() + 1 if len(groups) else 0
        group = torch.where(active, groups, nobody).gather(-1, order)
        group, by_group = group.sort(dim=-1, stable=True)
        order = order.gather(-1, by_group)
        first = torch.searchsorted(group, group)
        place = torch.arange(len(groups), device=groups.device) - first
        return active & torch.zeros_like(active).scatter(-1, order, place >= self.k)


@dataclass(frozen=True, kw_only=True)
class Filter:
    """What scores a record, who is selected, and after which steps (Algorithm 2).

    ``signature`` scores a record whenever it is drawn, by the model before that step's update; the score
    stands until its next draw and is 0 before the first. After the update of step ``t`` with
    ``t mod every = offset`` the selected records leave, at once and for good. ``stale="reset"`` then sets
    every score back to 0; ``"keep"`` is the paper's pseudocode.

    **Guarantees**: the moments depend on ``every`` and ``offset`` alone. With `SelectTop` and a `Signature`
    that keeps its contract, every bound of the unfiltered run by per-step domination and adaptive
    composition (RDP, PLD) holds unchanged for the release of all models (paper, Corollary 1; proof in the
    documentation, "Why filtering costs no provable privacy").

    **Edge cases**: a filter due after the last step acts, though no released model shows it.

    >>> from dpgap.signatures.parse import parse_signature
    >>> paper = Filter(signature=parse_signature("linf"), select=SelectTop(k=5), every=15)
    >>> [step for step in range(1, 46) if paper.due(step)], paper.planned_maximum(45, num_classes=10)
    ([15, 30, 45], 150)
    """

    signature: Signature
    select: SelectTop
    every: int
    offset: int = 0
    stale: Stale = "keep"

    def __post_init__(self) -> None:
        _check.count(every=self.every, hint="It is in steps; for epochs write Filter.in_epochs(...).")
        _check.count(offset=self.offset, at_least=0, hint="It is in steps; write 0 for every, 2 every, ...")
        _check.one_of(get_args(Stale), stale=self.stale)
        if self.offset >= self.every:
            raise InvalidInput(
                f"offset must be below every={self.every}, got {self.offset}. The filter acts after the "
                f"steps whose remainder modulo every is offset; write {self.offset % self.every}."
            )

    @classmethod
    def in_epochs(
        cls,
        steps_per_epoch: int,
        *,
        signature: Signature,
        select: SelectTop,
        every: int = 1,
        offset: int = 0,
        stale: Stale = "keep",
    ) -> "Filter":
        """The same with ``every`` and ``offset`` in epochs of ``steps_per_epoch`` steps, which is public."""
        _check.count(steps_per_epoch=steps_per_epoch)
        return cls(
            signature=signature,
            select=select,
            every=every * steps_per_epoch,
            offset=offset * steps_per_epoch,
            stale=stale,
        )

    def due(self, step: int) -> bool:
        """Whether records leave after step ``step``; steps count from 1."""
        return step % self.every == self.offset

    def planned_maximum(self, steps: int, num_classes: int) -> int:
        """The most records that can leave in ``steps`` steps: k x groups x moments, a public number."""
        groups = num_classes if self.select.scope == "class" else 1
        return self.select.k * groups * sum(map(self.due, range(1, steps + 1)))

    def after(
        self,
        step: int,
        scores: Float[Tensor, "*M N"],
        labels: Int[Tensor, " N"],
        active: Bool[Tensor, "*M N"],
    ) -> tuple[Bool[Tensor, "*M N"], Float[Tensor, "*M N"]]:
        """Who is active after step ``step``, and the scores to go on with."""
        if not self.due(step):
            return active, scores
        kept = self.select.keep(scores, labels, active)
        return kept, torch.zeros_like(scores) if self.stale == "reset" else scores

    def check_moments(self, sampling: Sampling) -> None:
        """Refuse moments inside an epoch or round, where the proof for ``sampling`` needs its end.

        Inside a round the extra record could be ``z`` in one batch and, ``z`` removed in its stead, ``y``
        in a later one: two contributions where the bound counts one.
        """
        if isinstance(sampling, Poisson):
            return
        length = sampling.steps_per_round
        if self.every % length or self.offset % length:
            raise InvalidInput(
                f"every={self.every} and offset={self.offset} filter inside a round of {length} steps. A "
                "record contributes once a round; who takes a removed record's place in it would contribute "
                f"again, which the bound does not cover. Write multiples of {length}, or "
                f"Filter.in_epochs({length}, ...)."
            )


def parse_filter(text: str, steps_per_epoch: int) -> Filter:
    """The filter that the command line calls ``linf:5/class``: signature, k and scope (class unless named).

    It acts after every epoch of ``steps_per_epoch`` steps.

    >>> parse_filter("linf:5/class", steps_per_epoch=15).select
    SelectTop(k=5, scope='class')
    """
    parts = re.fullmatch(r"(?P<name>.+):(?P<k>\d+)(/(?P<scope>class|global))?", text)
    if not parts:
        raise InvalidInput(
            f"filter must look like linf:5/class, got {text!r}. It names a signature, how many records leave "
            "each group every epoch, and the groups: class or global."
        )
    scope: Scope = "global" if parts["scope"] == "global" else "class"
    return Filter.in_epochs(
        steps_per_epoch,
        signature=parse_signature(parts["name"]),
        select=SelectTop(k=int(parts["k"]), scope=scope),
    )
