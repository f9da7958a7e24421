"""Datasets by name, read from a folder of published files, or from a user's own."""

import difflib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from dpgap.data.catalogue import DATASETS
from dpgap.data.coloured import coloured
from dpgap.data.npz import read_user
from dpgap.data.published import Arrays
from dpgap.data.records import Records
from dpgap.errors import InvalidInput

NAMES = (*DATASETS, "colored-mnist")


class Splits(NamedTuple):
    """Records to train on, and records to test with."""

    train: Records
    test: Records


def load(
    name: str,
    folder: str | Path | None = None,
    *,
    majority: float | None = None,
    num_classes: int | None = None,
) -> Splits:
    """A dataset by its name, or a user's own by its path.

    Pixels are scaled to [0, 1], then normalised by public constants (``digits`` are scaled only); tables
    keep their 0 and 1. Datasets published without a test set (``digits`` and those of Shokri et al.) are
    split by row: the first 80 % train.

    Args:
        name: One of ``NAMES``; or the path of a .npz with x_train, y_train, x_test and y_test, or of a
            folder with these four as .npy (looked for as given, then in the data folder), whose values
            are used as they are, in float32.
        folder: The data folder, with the files as they were published; else the one DPGAP_DATA names.
        majority: For ``colored-mnist`` only: the share of each class in its own colour.
        num_classes: For a user's own data only: how many classes there are. It is public, so it is
            declared and never counted in the private labels.

    >>> train, test = load("digits")
    >>> train.x.shape, len(test), train.num_classes
    (torch.Size([1437, 1, 8, 8]), 360, 10)
    >>> load("cifar1O")
    Traceback (most recent call last):
    dpgap.errors.InvalidInput: There is no dataset 'cifar1O'. Did you mean cifar10 or cifar100? ...
    """
    named = folder or os.environ.get("DPGAP_DATA")
    root = Path(named) if named else None
    for option, value, applies, owner in (
        ("majority", majority, name == "colored-mnist", "colored-mnist"),
        ("num_classes", num_classes, name not in NAMES, "a user's own data"),
    ):
        if value is not None and not applies:
            raise InvalidInput(f"{option} is {value!r} for {name}, but it is for {owner} only. Leave it out.")
    if name == "colored-mnist":
        return _in_colour(root, majority)
    if name in DATASETS:
        return _published(name, root)
    return _users(_users_path(name, root), num_classes)


def _in_colour(root: Path | None, majority: float | None) -> Splits:
    if majority is None or not 0.5 <= majority < 1:
        raise InvalidInput(
            f"majority must be at least 0.5 and below 1, got {majority!r}. It is the share of each class "
            "that has the class's own colour; write majority=0.75."
        )
    mnist = _published("mnist", root)
    return Splits(coloured(mnist.train, majority, "train"), coloured(mnist.test, majority, "test"))


def _published(name: str, root: Path | None) -> Splits:
    published = DATASETS[name]
    if root is None and name != "digits":
        raise InvalidInput(
            f"Where is {name}? No data folder was named, and nothing is downloaded. Pass the folder (--data) "
            f"or set DPGAP_DATA; it must hold {published.files}, from {published.home}."
        )
    return _splits(published.read(published, root or Path()), published.num_classes, published.normalised)


def _users_path(name: str, root: Path | None) -> Path:
    places = [Path(name), *([root / name] if root else [])]
    for path in places:
        if path.is_dir() or (path.suffix == ".npz" and path.is_file()):
            return path
    if Path(name).suffix == ".npz":
        raise InvalidInput(f"There is no file {' nor '.join(map(str, places))}. Check the path of the .npz.")
    near = difflib.get_close_matches(name.lower(), NAMES, n=3)
    guess = f"Did you mean {' or '.join(near)}? " if near else ""
    raise InvalidInput(
        f"There is no dataset {name!r}. {guess}The names are {', '.join(NAMES)}; a user's own data "
        "are named by the path of a .npz, or of a folder of .npy."
    )


def _users(path: Path, num_classes: int | None) -> Splits:
    if num_classes is None:
        raise InvalidInput(
            f"num_classes is missing for {path}. The list of classes is public: counted in the private "
            "labels, it would tell who is in them. Write how many classes there are, such as num_classes=10."
        )
    splits = _splits(read_user(path), num_classes, _as_is)
    missing = set(range(num_classes)) - set(splits.train.y.tolist())
    if missing:
        raise InvalidInput(
            f"No training record of {path} has the label {min(missing)}, one of 0..{num_classes - 1}. Labels "
            "are counted from 0 and without gaps; if the class is empty on purpose, build Records(x, y, "
            "num_classes) yourself."
        )
    return splits


def _as_is(x: NDArray[np.generic]) -> NDArray[np.float32]:
    return x.astype(np.float32)


def _splits(
    arrays: Arrays, num_classes: int, normalised: Callable[[NDArray[np.generic]], NDArray[np.float32]]
) -> Splits:
    train, test = (
        Records(torch.from_numpy(normalised(x)), torch.from_numpy(y.astype(np.int64)), num_classes)
        for x, y in ((arrays.x_train, arrays.y_train), (arrays.x_test, arrays.y_test))
    )
    return Splits(train, test)
