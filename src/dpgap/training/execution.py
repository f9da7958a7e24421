"""On what training is carried out: what changes its speed, and never its results."""

from dataclasses import dataclass
from typing import Literal, get_args

from dpgap import _check

Device = Literal["auto", "cpu", "cuda"]


@dataclass(frozen=True, kw_only=True)
class Execution:
    """On which device; two runs that differ in this alone have the same scores.

    ``device`` is a GPU where there is one, unless told otherwise; the models of one audit stay on one kind of
    device. ``compile`` captures a GPU's step once and replays it.
    """

    device: Device = "auto"
    compile: bool = True

    def __post_init__(self) -> None:
        _check.one_of(get_args(Device), device=self.device)
