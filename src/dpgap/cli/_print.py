"""What every verb prints with: JSON whose infinities are strings, and tables for people."""

import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from dpgap._plain import plain

if TYPE_CHECKING:
    from dpgap.privacy.lower_bound import Interval, LowerBound

AdjacencyName = Literal["add-remove", "replace-one", "zero-out"]
ThreatModelName = Literal["final", "full-state", "final-gradient", "full-state-gradient"]
CHOOSE_ONE = (
    "Choose one row before looking: the largest of several proves nothing, and neither do\n"
    "heuristic and model-based rows. Intervals marked * only describe how a bound varies."
)


def print_json(content: Any) -> None:
    """Print ``content`` as JSON: records as objects, infinities as the strings "inf" and "-inf"."""
    print(json.dumps(plain(content), indent=2, allow_nan=False))


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; wider than the screen it wraps within cells, and nothing is cut off.

    A pipe or a file has no width: there the table takes what it needs, up to 100 columns.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=title,
        box=SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
        padding=0,
        pad_edge=False,
        show_edge=False,
    )
    for column, name in enumerate(header):
        numeric = all(row[column][:1] in "-0123456789i" for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    Console(highlight=False, width=None if has_width else 100).print(table)


def print_bounds(title: str, bounds: "Sequence[LowerBound]") -> None:
    """Print a table of lower bounds, a row each, in the order given."""
    print_table(
        title,
        ("eps_lb", "validity", "estimator", "rule", "interval", "at score", "FPR, FNR"),
        [
            (
                shown(found.value),
                found.validity,
                found.estimator,
                found.rule,
                _shown_interval(found.interval),
                shown(found.threshold),
                f"{shown(found.fpr)} {shown(found.fnr)}",
            )
            for found in bounds
        ],
    )


def _shown_interval(interval: "Interval | None") -> str:
    if interval is None:
        return "-"
    return f"{interval.low:.1f}-{interval.high:.1f}{'*' if interval.descriptive else ''}"


def shown(value: float | None, digits: int = 2) -> str:
    """A number for a table: "-" for None, "inf" for infinity.

    >>> shown(1.005, 3), shown(float("inf")), shown(None)
    ('1.005', 'inf', '-')
    """
    return "-" if value is None else f"{value:.{digits}f}"
