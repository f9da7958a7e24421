"""The idx format of MNIST: a header of big-endian sizes, then bytes; usually gzipped."""

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpgap.data.published import Arrays, Published

_UNSIGNED_BYTE = 8


def read_idx(published: Published, folder: Path) -> Arrays:
    """The four files of MNIST and of the datasets that replace it; images have one channel."""
    train, test = (
        (
            _read(published, folder, f"{split}-images-idx3-ubyte", 3),
            _read(published, folder, f"{split}-labels-idx1-ubyte", 1),
        )
        for split in ("train", "t10k")
    )
    return Arrays(train[0][:, None], train[1], test[0][:, None], test[1])


def _read(published: Published, folder: Path, name: str, dimensions: int) -> NDArray[np.uint8]:
    path = published.find(folder, f"{name}.gz", name)
    content = path.read_bytes()
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise published.wrong(path, f"it is not a whole gzip file ({error})") from error
    published.check(path, content)
    header = 4 + 4 * dimensions
    if len(content) < header or content[:4] != bytes((0, 0, _UNSIGNED_BYTE, dimensions)):
        raise published.wrong(path, f"it does not start with the header of {dimensions}-dimensional bytes")
    shape = np.frombuffer(content, ">u4", dimensions, 4).tolist()
    if len(content) != header + math.prod(shape):
        raise published.wrong(path, f"it has {len(content)} bytes, {header + math.prod(shape)} by its header")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
