"""What the readers share: where a published dataset lies, what its files must hold, and who to tell."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpgap.errors import InvalidInput


class Arrays(NamedTuple):
    """Inputs and labels as the files hold them, labels counted from 0."""

    x_train: NDArray[np.generic]
    y_train: NDArray[np.generic]
    x_test: NDArray[np.generic]
    y_test: NDArray[np.generic]


@dataclass(frozen=True, kw_only=True)
class Published:
    """A published dataset: how to read it, and how to say that a file is missing or damaged.

    ``places`` are folders within the data folder, the first that holds the file wins. ``checksums`` are
    MD5 sums of the files' content (after gunzip): against damage, not against an adversary. ``mean`` and
    ``deviation``, one per channel, are public constants that the literature uses, after values are divided
    by the ``largest``; without them, values are divided only.
    """

    title: str
    places: tuple[str, ...]
    files: str
    home: str
    read: "Callable[[Published, Path], Arrays]"
    num_classes: int
    largest: int = 1
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    checksums: Mapping[str, str] = field(default_factory=dict)

    def find(self, folder: Path, *names: str) -> Path:
        """The first file that exists under one of ``names``, in one of the places."""
        for place in self.places:
            for name in names:
                if (folder / place / name).is_file():
                    return folder / place / name
        raise self.wrong(folder / self.places[0] / names[0], "it is not there")

    def check(self, path: Path, content: bytes) -> None:
        """The content has the published checksum, if one is known."""
        name = path.name.removesuffix(".gz")
        found = hashlib.md5(content, usedforsecurity=False).hexdigest()
        expected = self.checksums.get(name, found)
        if found != expected:
            raise self.wrong(path, f"its content has the MD5 {found}, where {expected} was published")

    def normalised(self, x: NDArray[np.generic]) -> NDArray[np.float32]:
        """The values as a model takes them."""
        values = x.astype(np.float32) / np.float32(self.largest)
        if self.mean:
            values -= np.array(self.mean, np.float32)[:, None, None]
            values /= np.array(self.deviation, np.float32)[:, None, None]
        return values

    def wrong(self, path: Path, why: str) -> InvalidInput:
        """What to raise when ``path`` cannot be used."""
        return InvalidInput(
            f"Cannot read {path}: {why}. {self.title} is expected as {self.files}. Get it from {self.home}, "
            f"or name another data folder (--data, or DPGAP_DATA)."
        )


def first_rows_train(x: NDArray[np.generic], y: NDArray[np.generic]) -> Arrays:
    """The split of datasets published without one: the first 80 % of the rows train, the others test."""
    train = 4 * len(x) // 5
    return Arrays(x[:train], y[:train], x[train:], y[train:])
