"""The scores of an audit, the errors they make at every threshold, and the files they are kept in."""

import csv
import json
import tokenize
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpgap.errors import InvalidInput

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_NO_NUMBERS = (
    TypeError,
    ValueError,
    EOFError,
    OverflowError,
    MemoryError,
    RuntimeError,
    csv.Error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What the readers raise of a file that is broken, or of another kind than its name says."""


@dataclass(frozen=True, kw_only=True)
class ErrorCounts:
    """Errors of the tests "inside if score >= threshold", one per threshold.

    ``false_positives`` of the ``n_outside`` outside scores reach the threshold, ``false_negatives``
    of the ``n_inside`` inside scores do not.
    """

    thresholds: Floats
    false_positives: Ints
    false_negatives: Ints
    n_outside: int
    n_inside: int


class AuditScores:
    """Membership scores of the models trained with the canary (inside) and without it (outside).

    Higher means "inside". Scores of one world are independent draws of one law.

    **Edge cases**: infinite scores are ordinary values; ties are counted as such; NaN and an empty
    world are refused by name.

    >>> scores = AuditScores([2.0, 3.0], [1.0, 2.0])
    >>> counts = scores.errors_at([2.0])
    >>> int(counts.false_positives[0]), int(counts.false_negatives[0])
    (1, 0)
    """

    def __init__(self, inside: ArrayLike, outside: ArrayLike) -> None:
        self.inside = _world("inside", inside)
        self.outside = _world("outside", outside)
        self._ascending = np.sort(self.inside), np.sort(self.outside)

    def __repr__(self) -> str:
        return f"AuditScores(inside=<{self.inside.size} scores>, outside=<{self.outside.size} scores>)"

    def errors_at(self, thresholds: ArrayLike) -> ErrorCounts:
        """The errors made at each of ``thresholds``."""
        at = np.asarray(thresholds, dtype=np.float64)
        inside, outside = self._ascending
        return ErrorCounts(
            thresholds=at,
            false_positives=outside.size - np.searchsorted(outside, at, side="left"),
            false_negatives=np.searchsorted(inside, at, side="left"),
            n_outside=self.outside.size,
            n_inside=self.inside.size,
        )

    def errors(self) -> ErrorCounts:
        """The errors at every score that is the best threshold for somebody.

        A score is left out when its neighbour makes fewer errors of one kind and no more of the other.
        """
        every = self.errors_at(np.unique(np.concatenate(self._ascending)))
        worth = np.ones(every.thresholds.size, dtype=np.bool_)
        worth[:-1] &= np.diff(every.false_negatives) > 0
        worth[1:] &= np.diff(every.false_positives) < 0
        return ErrorCounts(
            thresholds=every.thresholds[worth],
            false_positives=every.false_positives[worth],
            false_negatives=every.false_negatives[worth],
            n_outside=every.n_outside,
            n_inside=every.n_inside,
        )

    def split(self, share: float, generator: np.random.Generator) -> tuple["AuditScores", "AuditScores"]:
        """Two disjoint parts of each world at random; the second holds about ``share`` of it."""
        inside = _cut("inside", self.inside, share, generator)
        outside = _cut("outside", self.outside, share, generator)
        return AuditScores(inside[0], outside[0]), AuditScores(inside[1], outside[1])


def _world(name: str, scores: ArrayLike) -> Floats:
    try:
        world = _numbers(scores)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"{name} scores must be numbers: {error}. Write one number per model.") from error
    if world.ndim != 1:
        raise InvalidInput(
            f"{name} scores must be one list of numbers, got an array of shape {world.shape}. "
            "An audit has one score per model: pass one column."
        )
    if world.size == 0:
        raise InvalidInput(
            f"{name} scores are empty. A bound compares two worlds: pass at least one score of each."
        )
    missing = int(np.isnan(world).sum())
    if missing:
        first = int(np.flatnonzero(np.isnan(world))[0])
        raise InvalidInput(
            f"{name} scores hold {missing} NaN, the first at position {first}. A missing score is not a low "
            "score: train that model again, or drop it before looking at the scores."
        )
    return world


def _numbers(values: ArrayLike) -> Floats:
    """As floats, but for kinds of which numpy would drop a part: complex numbers, dates, durations."""
    array = np.asarray(values)
    if array.dtype.kind in "cmM":
        raise TypeError(f"they are of type {array.dtype}")
    return array.astype(np.float64)


def _cut(name: str, world: Floats, share: float, generator: np.random.Generator) -> tuple[Floats, Floats]:
    second = round(world.size * share)
    if not 0 < second < world.size:
        raise InvalidInput(
            f"{name} has {world.size} scores, too few to hold out a share of {share}: each part needs one. "
            "Use the band rule, which needs no split."
        )
    order = generator.permutation(world.size)
    return world[order[second:]], world[order[:second]]


def read_scores(path: str | Path) -> Floats:
    """Scores from a .npy, .npz, .csv, .txt or .json file: one number per model.

    A .csv may have a header; then its only column, or its column ``score``, is read. A .txt has one
    number a line, or all on one line. A .npz holds one array, or one named ``score``; a .json file is a
    list, or an object with a list named ``score``. Nothing is unpickled.
    """
    file = Path(path)
    readers = {
        ".npy": _read_numpy,
        ".npz": _read_numpy,
        ".csv": _read_csv,
        ".txt": _read_txt,
        ".json": _read_json,
    }
    kind = file.suffix.lower()
    if kind not in readers:
        raise InvalidInput(
            f"{file}: unknown kind of file {file.suffix!r}. Write one of {', '.join(readers)}."
        )
    try:
        scores = _numbers(readers[kind](file))
    except InvalidInput:
        raise
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be read ({error.strerror or error}). Check the path.") from error
    except _NO_NUMBERS as error:
        raise InvalidInput(f"{file}: not a file of numbers ({error}). Write one number per model.") from error
    if scores.ndim != 1:
        raise InvalidInput(f"{file}: holds an array of shape {scores.shape}. Write one number per model.")
    return scores


def _only(file: Path, fields: list[str]) -> str:
    """The name of the field that holds the scores: the only one, or ``score``."""
    if len(fields) == 1:
        return fields[0]
    if fields.count("score") == 1:
        return "score"
    found = ", ".join(repr(field) for field in fields) or "nothing"
    raise InvalidInput(f"{file}: holds {found}. Which one is the score? Name it 'score', or keep it alone.")


def _read_numpy(file: Path) -> ArrayLike:
    with file.open("rb") as stream:
        loaded: Any = np.load(stream, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            return loaded
        return cast("Floats", loaded[_only(file, list(loaded.files))])


def _read_csv(file: Path) -> ArrayLike:
    rows = _lines(file)
    head, first = _cells(rows[:1]), _cells(rows[1:2])
    column = None
    if not all(map(_is_number, head)):
        column, rows = head.index(_only(file, head)), rows[1:]
        if rows and len(first) != len(head):
            raise InvalidInput(
                f"{file}: its header names {len(head)} columns and its first row has {len(first)}. "
                "Write one name per column."
            )
    return _table(rows, delimiter=",", quotechar='"', usecols=column)


def _lines(file: Path) -> list[str]:
    return [line for line in file.read_text(encoding="utf-8-sig").splitlines() if line.strip()]


def _cells(rows: list[str]) -> list[str]:
    return [cell.strip() for line in csv.reader(rows) for cell in line]


def _table(rows: list[str], **format_: Any) -> Floats:
    """Rows of numbers, of which none is a comment; a single row or column has one dimension."""
    return np.loadtxt(rows, comments=None, ndmin=1, **format_) if rows else np.empty(0)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_txt(file: Path) -> ArrayLike:
    return _table(_lines(file))


def _read_json(file: Path) -> ArrayLike:
    content = json.loads(file.read_text(encoding="utf-8-sig"))
    if isinstance(content, dict):
        fields = cast("dict[str, Any]", content)
        return fields[_only(file, [*fields])]
    return content
