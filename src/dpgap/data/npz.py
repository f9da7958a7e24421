"""NumPy's own files: a user's .npz or folder of .npy, and bit-packed binary records."""

import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpgap.data.published import Arrays, Published, first_rows_train
from dpgap.errors import InvalidInput

_DAMAGE = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error)


def read_user(path: Path) -> Arrays:
    """``x_train``, ``y_train``, ``x_test`` and ``y_test``: in one .npz, or as .npy files of a folder.

    Nothing is unpickled, and values are kept as they are.
    """
    try:
        if path.is_dir():
            found = {name: np.load(path / f"{name}.npy", allow_pickle=False) for name in Arrays._fields}
        else:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                found = {name: archive[name] for name in Arrays._fields}
    except _DAMAGE as error:
        raise InvalidInput(
            f"Cannot read {path}: {error}. Expected the arrays {', '.join(Arrays._fields)} in one .npz, "
            "or as .npy files of a folder; write numpy.savez(path, x_train=..., y_train=..., x_test=..., "
            "y_test=...)."
        ) from error
    for split in ("train", "test"):
        _check(path, split, found[f"x_{split}"], found[f"y_{split}"])
    return Arrays(**found)


def _check(path: Path, split: str, x: NDArray[np.generic], y: NDArray[np.generic]) -> None:
    if x.dtype.kind not in "biuf":
        raise InvalidInput(
            f"x_{split} of {path} must hold numbers, got {x.dtype}. A model computes with them."
        )
    if y.dtype.kind not in "iu" or y.ndim != 1:
        raise InvalidInput(
            f"y_{split} of {path} must be one list of whole numbers, got {y.dtype} of shape {y.shape}. A "
            "label is a class counted from 0; write y.astype(numpy.int64), or y.argmax(axis=1) if one-hot."
        )
    if x.ndim < 2 or len(x) != len(y):
        raise InvalidInput(
            f"{path} has x_{split} of shape {x.shape} and y_{split} of shape {y.shape}. Each row of x is a "
            "record (of shape (channels, height, width) for an image) and needs one label."
        )


def read_packed(published: Published, path: Path) -> Arrays:
    """Binary records packed by ``numpy.packbits`` in ``x_train``, with ``y_train`` and ``n_features``."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            x, y = archive["x_train"], archive["y_train"]
            x = np.unpackbits(x, axis=1, count=int(archive["n_features"]))
    except (*_DAMAGE, TypeError) as error:
        raise published.wrong(path, f"it holds no packed records ({error})") from error
    return first_rows_train(x, y)
