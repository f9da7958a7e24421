"""``dpgap runs`` and ``dpgap export``: what a store holds, for people and for other programs."""

import csv
import json as json_format
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from dpgap._plain import plain
from dpgap.cli._print import print_json, print_table
from dpgap.errors import InvalidInput

if TYPE_CHECKING:
    from dpgap.store.store import Store

_COLUMNS: tuple[str, ...] = (
    "model",
    "row",
    "inside",
    "statistic",
    "seconds",
    "train_accuracy",
    "test_accuracy",
    "removed_at",
)


def runs(*, store: Path = Path("dpgap.sqlite"), json: bool = False) -> None:
    """The runs that a store holds, the oldest first.

    Args:
        store: The store's file.
        json: Print JSON.
    """
    from dpgap.store.store import Store

    summaries = Store(store, read_only=True).experiments()
    if json:
        print_json({"runs": summaries})
        return
    print_table(
        f"{store}: {len(summaries)} runs",
        ("key", "audit", "models", "failed", "bounds", "device", "begun"),
        [
            (
                run.key[:12],
                run.title,
                str(run.models),
                str(run.failures),
                str(run.bounds),
                run.device_kind or "-",
                run.created,
            )
            for run in summaries
        ],
    )


def export(
    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    *,
    store: Path = Path("dpgap.sqlite"),
) -> None:
    """Write a run to a file: .csv has a row for each model and row scored, .json everything else as well.

    The file holds private state: who was in, and what each model betrayed.

    Args:
        run: The run's key, or how it begins.
        out: The file to write: .csv or .json.
        store: The store's file.
    """
    from dpgap.store.store import Store

    opened = Store(store, read_only=True)
    key = opened.find(run)
    writers = {".csv": _write_csv, ".json": _write_json}
    if out.suffix not in writers:
        raise InvalidInput(f"FILE must end in .csv or .json, got {str(out)!r}.")
    try:
        writers[out.suffix](out, opened, key)
    except OSError as problem:
        raise InvalidInput(
            f"{out} could not be written: {problem.strerror}. Choose another file."
        ) from problem
    print(f"Wrote {out}. It holds private state: who was in, and what each model betrayed.")


def _write_csv(out: Path, store: "Store", key: str) -> None:
    with out.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, _COLUMNS)
        table.writeheader()
        table.writerows(_rows(store, key))


def _write_json(out: Path, store: "Store", key: str) -> None:
    content = {
        "run": store.description(key),
        "rows": list(_rows(store, key)),
        "bounds": store.bounds(key),
        "failures": store.failures(key),
        "provenance": store.provenance(key),
    }
    out.write_text(json_format.dumps(plain(content), indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _rows(store: "Store", key: str) -> Iterator[dict[str, Any]]:
    """One for each model and each row scored in it; ``removed_at`` is None unless that row is a canary."""
    from dpgap.store.records import INCLUDED, REMOVED_AT, STATISTIC

    included, statistics, removed_at = (store.arrays(key, name) for name in (INCLUDED, STATISTIC, REMOVED_AT))
    for place, result in enumerate(store.results(key)):
        left = removed_at[place] if removed_at and len(removed_at[place]) == len(statistics[place]) else None
        for row, (told, statistic) in enumerate(zip(included[place], statistics[place], strict=True)):
            yield {
                "model": result.model,
                "row": row,
                "inside": bool(told),
                "statistic": float(statistic),
                "seconds": result.seconds,
                "train_accuracy": result.train_accuracy,
                "test_accuracy": result.test_accuracy,
                "removed_at": None if left is None else int(left[row]),
            }
