"""CIFAR-10 and CIFAR-100, as published: the binary version, or the Python batches."""

import io
import pickle
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpgap.data.published import Arrays, Published

Images = tuple[NDArray[np.uint8], NDArray[np.uint8]]

_PIXELS = 3 * 32 * 32


def read_cifar10(published: Published, folder: Path) -> Arrays:
    """Five training batches and a test batch; a row of the binary version is a label and an image."""
    names = [f"data_batch_{number}" for number in range(1, 6)]
    batches = [_read(published, folder, name, labels=1) for name in [*names, "test_batch"]]
    x_train, y_train = (np.concatenate(parts) for parts in zip(*batches[:-1], strict=True))
    return Arrays(x_train, y_train, *batches[-1])


def read_cifar100(published: Published, folder: Path) -> Arrays:
    """One training file and one test file; a row has a coarse label, a fine label and an image."""
    return Arrays(
        *_read(published, folder, "train", labels=2),
        *_read(published, folder, "test", labels=2),
    )


def _read(published: Published, folder: Path, name: str, labels: int) -> Images:
    path = published.find(folder, f"{name}.bin", name)
    content = path.read_bytes()
    published.check(path, content)
    read = _from_binary if path.suffix == ".bin" else _from_python
    return read(published, path, content, labels)


def _from_binary(published: Published, path: Path, content: bytes, labels: int) -> Images:
    row = labels + _PIXELS
    if not content or len(content) % row:
        raise published.wrong(path, f"its {len(content)} bytes are no whole number of rows of {row}")
    rows = np.frombuffer(content, np.uint8).reshape(-1, row)
    return rows[:, labels:].reshape(-1, 3, 32, 32), rows[:, labels - 1]


def _from_python(published: Published, path: Path, content: bytes, labels: int) -> Images:
    key = b"labels" if labels == 1 else b"fine_labels"
    try:
        batch = _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
        x = batch[b"data"].values.reshape(-1, 3, 32, 32)
        y = np.asarray(batch[key], dtype=np.uint8)
    except Exception as error:  # a damaged pickle fails in any way it likes
        raise published.wrong(path, f"it is no batch of images ({type(error).__name__}: {error})") from error
    if len(x) != len(y):
        raise published.wrong(path, f"it has {len(x)} images and {len(y)} labels")
    return x, y


class _Array:
    """Stands in for ``numpy.ndarray`` in a pickle, so that NumPy's own unpickling never runs."""

    def __init__(self, *_: object) -> None:
        self.values = np.empty(0, np.uint8)

    def __setstate__(self, state: "tuple[int, tuple[int, ...], _Kind, bool, bytes]") -> None:
        _, shape, kind, columns_first, content = state
        if kind.code not in (b"u1", b"|u1"):
            raise pickle.UnpicklingError(f"an array of {kind.code!r}, where bytes (u1) are expected")
        order = "F" if columns_first else "C"
        self.values = np.frombuffer(content, np.uint8).reshape(shape, order=order)


class _Kind:
    """Stands in for ``numpy.dtype`` in a pickle."""

    def __init__(self, code: bytes, *_: object) -> None:
        self.code = code

    def __setstate__(self, state: object) -> None:
        """Byte order and alignment, which a byte does not have."""


class _ArraysOnly(pickle.Unpickler):
    """Reads dictionaries, lists, numbers, strings and arrays; any other name in the file is refused."""

    _STAND_INS = {  # noqa: RUF012 a constant
        ("numpy.core.multiarray", "_reconstruct"): _Array,
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _Kind,
    }

    def find_class(self, module_name: str, global_name: str) -> type:
        if (module_name, global_name) not in self._STAND_INS:
            raise pickle.UnpicklingError(
                f"the file asks to run {module_name}.{global_name}, which is refused"
            )
        return self._STAND_INS[module_name, global_name]
