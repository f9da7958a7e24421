"""The archives of binary records published with the membership-inference attack of Shokri et al. (2017)."""

import tarfile
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpgap.data.npz import read_packed
from dpgap.data.published import Arrays, Published, first_rows_train


def read_purchase(published: Published, folder: Path) -> Arrays:
    """One table of comma-separated numbers: a label counted from 1, then 600 purchases."""
    path = published.find(folder, "dataset_purchase.tgz")
    return _label_first(_table(published, path, "dataset_purchase"))


def read_location(published: Published, folder: Path) -> Arrays:
    """One table in the same layout with 446 places, or the same records in a packed .npz."""
    path = published.find(folder, "location30.npz", "dataset_location.tgz")
    if path.suffix == ".npz":
        return read_packed(published, path)
    return _label_first(_table(published, path, "bangkok"))


def read_texas(published: Published, folder: Path) -> Arrays:
    """A table of 6169 features and a list of labels counted from 1."""
    path = published.find(folder, "dataset_texas.tgz")
    features = _table(published, path, "texas/100/feats")
    labels = _table(published, path, "texas/100/labels")[:, 0]
    if len(features) != len(labels):
        raise published.wrong(path, f"it has {len(features)} records and {len(labels)} labels")
    return first_rows_train(features, _from_zero(labels))


def _label_first(table: NDArray[np.uint8]) -> Arrays:
    return first_rows_train(table[:, 1:], _from_zero(table[:, 0]))


def _from_zero(labels: NDArray[np.uint8]) -> NDArray[np.int64]:
    return labels.astype(np.int64) - 1


def _table(published: Published, path: Path, member: str) -> NDArray[np.uint8]:
    """The numbers of one member, read in place: nothing is extracted."""
    try:
        with tarfile.open(path) as archive:
            found = (entry for entry in archive if entry.isfile() and entry.name.removeprefix("./") == member)
            content = archive.extractfile(next(found))
            assert content is not None
            return np.loadtxt(content, dtype=np.uint8, delimiter=",", quotechar='"', ndmin=2)
    except StopIteration:
        raise published.wrong(path, f"the archive has no file {member}") from None
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError) as error:
        raise published.wrong(path, f"{member} is no table of whole numbers ({error})") from error
