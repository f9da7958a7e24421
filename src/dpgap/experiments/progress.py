"""What a person sees of long work: models done, rate, time left, the bound so far; nothing elsewhere."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress

_LOG = logging.getLogger("dpgap")
_BETWEEN_LOOKS_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What the models that are there, at first one, say of all of them.

    >>> str(Forecast(seconds=40.0, done=1, models=400, at_once=1, ceiling=3.75))
    'One model takes 40 s; the other 399 take about 4.4 h. All 400 can certify at most 3.75.'
    """

    seconds: float
    done: int
    models: int
    at_once: int
    ceiling: float

    def __str__(self) -> str:
        left = self.models - self.done
        total = duration(left * self.seconds / self.at_once)
        return (
            f"One model takes {duration(self.seconds)}; the other {left} take about {total}. "
            f"All {self.models} can certify at most {self.ceiling:.2f}."
        )


class Watcher(Protocol):
    """Is told how a run goes on."""

    @property
    def wants_bounds(self) -> bool:
        """Whether somebody looks at the bound while it changes; each look is counted."""
        ...

    def forecast(self, forecast: Forecast) -> None:
        """Told once, after the trial model."""
        ...

    def advanced(self, done: int, planned: int, bound: float | None) -> None:
        """Told after each chunk; ``bound`` is that of the models so far, if one was computed."""
        ...


class Quiet:
    """Shows nothing; the forecast goes to the log of the name ``dpgap``."""

    wants_bounds = False

    def forecast(self, forecast: Forecast) -> None:
        """Log it."""
        _LOG.info("%s", forecast)

    def advanced(self, done: int, planned: int, bound: float | None) -> None:
        """Nothing."""


@contextmanager
def watched() -> Iterator[Watcher]:
    """A bar on a terminal's standard error, and `Quiet` anywhere else."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield Quiet()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("models"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[bound]}"),
    )
    with Progress(*columns, console=console, speed_estimate_period=600) as progress:
        yield _Bar(progress)


class _Bar:
    def __init__(self, progress: "Progress") -> None:
        self._progress = progress
        self._task = progress.add_task("models", total=None, rate="", bound="")
        self._looked = 0.0

    @property
    def wants_bounds(self) -> bool:
        """Every few seconds, as a bound takes longer than a glance."""
        now = time.monotonic()
        due = now - self._looked > _BETWEEN_LOOKS_S
        self._looked = now if due else self._looked
        return due

    def forecast(self, forecast: Forecast) -> None:
        self._progress.console.print(str(forecast), highlight=False)

    def advanced(self, done: int, planned: int, bound: float | None) -> None:
        speed = self._progress.tasks[0].speed
        self._progress.update(
            self._task,
            completed=done,
            total=planned,
            rate=f"{duration(1 / speed)} a model" if speed else "",
        )
        if bound is not None:
            self._progress.update(self._task, bound=f"eps_lb so far {bound:.2f}")


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(0.031), duration(40), duration(15960), duration(200000)
    ('0.031 s', '40 s', '4.4 h', '2.3 days')
    """
    for limit, unit, name in ((100, 1, "s"), (6000, 60, "min"), (48 * 3600, 3600, "h")):
        if seconds < limit:
            return f"{_two_digits(seconds / unit)} {name}"
    return f"{_two_digits(seconds / 86400)} days"


def _two_digits(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"
