"""Small files in the formats in which datasets are published."""

import gzip
import io
import struct
import tarfile
from pathlib import Path

import numpy as np


def idx(array: np.ndarray) -> bytes:
    """A header of big-endian sizes, then the bytes."""
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_idx(folder: Path, images: np.ndarray, labels: np.ndarray, *, zipped: bool) -> None:
    """The four files of MNIST, train and test the same."""
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "t10k"):
        for name, array in (("images-idx3", images), ("labels-idx1", labels)):
            path, content = folder / f"{split}-{name}-ubyte", idx(array)
            if zipped:
                path, content = path.with_name(f"{path.name}.gz"), gzip.compress(content)
            path.write_bytes(content)


def cifar_rows(images: np.ndarray, *labels: np.ndarray) -> bytes:
    """The binary version: each row its labels, then its pixels."""
    columns = [label.astype(np.uint8)[:, None] for label in labels]
    return np.concatenate([*columns, images.reshape(len(images), -1)], axis=1).tobytes()


def cifar_pickle(images: np.ndarray, key: str, labels: np.ndarray) -> bytes:
    """The Python version: what Python 2 wrote with protocol 2, opcode by opcode."""
    rows, pixels = images.reshape(len(images), -1).shape
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01"
        + b"J" + struct.pack("<i", rows) + b"J" + struct.pack("<i", pixels) + b"\x86"
        + b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        + b"\x89T" + struct.pack("<i", images.size) + images.astype(np.uint8).tobytes() + b"tb"
    )  # fmt: skip
    numbers = b"".join(b"K" + bytes([label]) for label in labels)
    return b"\x80\x02}(" + _string("data") + array + _string(key) + b"](" + numbers + b"eu."


def _string(text: str) -> bytes:
    return b"U" + bytes([len(text)]) + text.encode()


def table(*columns: np.ndarray, quoted: bool = False) -> str:
    """Comma-separated whole numbers, the first one perhaps in quotes."""
    rows = np.column_stack(columns).tolist()
    mark = '"' if quoted else ""
    return "".join(f"{mark}{row[0]}{mark}" + "".join(f",{n}" for n in row[1:]) + "\n" for row in rows)


def write_tgz(path: Path, members: dict[str, str]) -> None:
    """A gzipped tar archive of these files."""
    with tarfile.open(path, "w:gz") as archive:
        for name, text in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
