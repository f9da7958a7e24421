"""How training is carried out: what changes its speed, and never its results."""

from dataclasses import dataclass
from typing import Literal, get_args

from dpgap import _check

Device = Literal["auto", "cpu", "cuda"]


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Where and how much at once; two runs that differ in this alone have the same scores.

    ``device`` is a GPU where there is one, unless told otherwise; the models of one audit stay on one kind of
    device. ``models_at_once`` models make a chunk: they are trained together and kept together, so that
    whatever ends a run loses one chunk. ``compile`` captures a GPU's step once and replays it. With
    ``processes`` of 0 chunks are trained one by one in this process; with more, that many at a time, each in
    a process of its own that ends with it, so that no global random state passes from one to the next.
    """

    device: Device = "auto"
    models_at_once: int | None = None
    compile: bool = True
    processes: int = 0

    def __post_init__(self) -> None:
        _check.one_of(get_args(Device), device=self.device)
        if self.models_at_once is not None:
            _check.count(models_at_once=self.models_at_once, hint="Leave it out for the usual number.")
        _check.count(
            processes=self.processes, at_least=0, hint="Write 0 for this process, 2 for two of them."
        )
