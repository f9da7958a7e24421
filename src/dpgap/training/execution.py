"""How training is carried out: what changes its speed, and never its results."""

from dataclasses import dataclass

from dpgap import _check


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Where and how much at once; two runs that differ in this alone have the same scores.

    ``models_at_once`` models make a chunk: they are trained together and kept together, so that whatever
    ends a run loses one chunk. With ``processes`` of 0 chunks are trained one by one in this process; with
    more, that many at a time, each in a process of its own that ends with it, so that no global random
    state passes from one to the next.
    """

    models_at_once: int | None = None
    processes: int = 0

    def __post_init__(self) -> None:
        if self.models_at_once is not None:
            _check.count(models_at_once=self.models_at_once, hint="Leave it out for the usual number.")
        _check.count(
            processes=self.processes, at_least=0, hint="Write 0 for this process, 2 for two of them."
        )
