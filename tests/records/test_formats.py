"""Every published format, on small files written as the publishers write them."""

import gzip
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dpgap.data.catalogue import DATASETS
from dpgap.data.load import load
from dpgap.errors import InvalidInput
from tests.records.writers import cifar_pickle, cifar_rows, table, write_idx, write_tgz

RANDOM = np.random.default_rng(0)
PIXELS = RANDOM.integers(256, size=(10, 3, 32, 32), dtype=np.uint8)
LABELS = np.arange(10)
BITS = RANDOM.integers(2, size=(10, 20))


@pytest.fixture(autouse=True)
def _no_checksums(monkeypatch):
    """Small files are not the published ones."""
    for name, published in DATASETS.items():
        monkeypatch.setitem(DATASETS, name, replace(published, checksums={}))


def _normalised(pixels: np.ndarray, mean: list[float], deviation: list[float]) -> torch.Tensor:
    channels = torch.from_numpy(pixels).double().div(255).unbind(1)
    parts = [(x - m) / d for x, m, d in zip(channels, mean, deviation, strict=True)]
    return torch.stack(parts, dim=1).float()


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(
    ("name", "mean", "deviation"), [("mnist", 0.1307, 0.3081), ("fashion-mnist", 0.2860, 0.3530)]
)
def test_idx_files_are_read_and_normalised(tmp_path, name, mean, deviation, zipped):
    images = RANDOM.integers(256, size=(10, 28, 28), dtype=np.uint8)
    write_idx(tmp_path / name, images, LABELS, zipped=zipped)
    for records in load(name, tmp_path):
        torch.testing.assert_close(records.x, _normalised(images[:, None], [mean], [deviation]))
        assert records.y.tolist() == LABELS.tolist()
        assert (records.x.shape, records.num_classes) == ((10, 1, 28, 28), 10)


def _write_cifar10(folder: Path, suffix: str) -> None:
    folder.mkdir()
    for number, name in enumerate([f"data_batch_{n}" for n in range(1, 6)] + ["test_batch"]):
        pixels, labels = np.roll(PIXELS, number, axis=0), np.roll(LABELS, number)
        python = cifar_pickle(pixels, "labels", labels)
        (folder / f"{name}{suffix}").write_bytes(python if not suffix else cifar_rows(pixels, labels))


@pytest.mark.parametrize(
    ("place", "suffix"),
    [("cifar10", ".bin"), ("cifar10", ""), ("cifar-10-batches-bin", ".bin"), ("cifar-10-batches-py", "")],
)
def test_cifar10_is_five_batches_in_order_and_one_to_test(tmp_path, place, suffix):
    _write_cifar10(tmp_path / place, suffix)
    train, test = load("cifar10", tmp_path)
    expected = _normalised(PIXELS, [0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010])
    rolled = torch.cat([expected.roll(number, 0) for number in range(5)])
    torch.testing.assert_close(train.x, rolled, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(test.x, expected.roll(5, 0), rtol=1e-4, atol=1e-5)
    assert train.y.tolist() == [label for n in range(5) for label in np.roll(LABELS, n)]
    assert test.y.tolist() == np.roll(LABELS, 5).tolist()


@pytest.mark.parametrize(("place", "suffix"), [("cifar100", ".bin"), ("cifar-100-python", "")])
def test_cifar100_takes_the_fine_label(tmp_path, place, suffix):
    (tmp_path / place).mkdir()
    fine = 9 * LABELS + 3
    python = cifar_pickle(PIXELS, "fine_labels", fine)
    for split in ("train", "test"):
        content = python if not suffix else cifar_rows(PIXELS, LABELS, fine)
        (tmp_path / place / f"{split}{suffix}").write_bytes(content)
    train, test = load("cifar100", tmp_path)
    expected = _normalised(PIXELS, [0.5071, 0.4865, 0.4409], [0.2673, 0.2564, 0.2762])
    torch.testing.assert_close(train.x, expected, rtol=1e-4, atol=1e-5)
    assert (train.y.tolist(), test.num_classes) == (fine.tolist(), 100)


class _Attack:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.target,)


def test_a_python_batch_cannot_run_anything(tmp_path):
    _write_cifar10(tmp_path / "cifar10", "")
    content = pickle.dumps({"data": _Attack(tmp_path / "owned")}, protocol=2)
    (tmp_path / "cifar10/data_batch_3").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"data_batch_3: it is no batch .* asks to run .* refused"):
        load("cifar10", tmp_path)
    assert not (tmp_path / "owned").exists()
    pickle.loads(content)
    assert (tmp_path / "owned").exists(), "the attack is none, so that the test proves nothing"


def _write_shokri(folder: Path, name: str) -> None:
    if name == "purchase100":
        write_tgz(folder / "dataset_purchase.tgz", {"dataset_purchase": table(LABELS + 1, BITS)})
    elif name == "location30":
        rows = table(LABELS + 1, BITS, quoted=True)
        write_tgz(folder / "dataset_location.tgz", {"readme.txt": "", "./bangkok": rows})
    else:
        members = {"texas/100/feats": table(BITS), "texas/100/labels": table(LABELS + 1)}
        write_tgz(folder / "dataset_texas.tgz", members)


@pytest.mark.parametrize(("name", "classes"), [("purchase100", 100), ("location30", 30), ("texas100", 100)])
def test_tables_keep_their_bits_and_the_first_four_fifths_train(tmp_path, name, classes):
    _write_shokri(tmp_path, name)
    train, test = load(name, tmp_path)
    assert torch.cat([train.x, test.x]).tolist() == BITS.astype(float).tolist()
    assert (train.y.tolist(), test.y.tolist()) == (list(range(8)), [8, 9])
    assert (train.num_classes, train.x.dtype, train.y.dtype) == (classes, torch.float32, torch.int64)


def test_location30_may_be_packed_in_bits(tmp_path):
    packed = {"x_train": np.packbits(BITS.astype(np.uint8), axis=1), "y_train": LABELS.astype(np.uint8)}
    np.savez(tmp_path / "location30.npz", n_features=20, **packed)
    train, test = load("location30", tmp_path)
    assert torch.cat([train.x, test.x]).tolist() == BITS.astype(float).tolist()
    assert (train.y.tolist(), test.y.tolist()) == (list(range(8)), [8, 9])


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


@pytest.mark.parametrize("name", ["purchase100", "location30", "texas100"])
def test_a_cut_archive_is_named(tmp_path, name):
    _write_shokri(tmp_path, name)
    (archive,) = tmp_path.iterdir()
    _cut(archive)
    with pytest.raises(InvalidInput, match=rf"{archive.name}.*expected as the archive .*privacytrustlab"):
        load(name, tmp_path)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"purchase": "1,0\n"}, "has no file dataset_purchase"),
        ({"dataset_purchase": "1,0\n2,x\n"}, "no table of whole numbers"),
        ({"dataset_purchase": "1,0\n2\n"}, "no table of whole numbers"),
    ],
)
def test_an_archive_of_something_else_is_named(tmp_path, members, words):
    write_tgz(tmp_path / "dataset_purchase.tgz", members)
    with pytest.raises(InvalidInput, match=words):
        load("purchase100", tmp_path)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda content: content[:-1], "it has 7855 bytes, 7856 by its header"),
        (lambda content: content[:10], "does not start with the header"),
        (lambda content: b"<!DOCTYPE html>" + content, "does not start with the header"),
    ],
)
def test_a_damaged_idx_file_is_named(tmp_path, damage, words):
    write_idx(tmp_path / "mnist", np.zeros((10, 28, 28)), LABELS, zipped=True)
    path = tmp_path / "mnist/t10k-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(damage(gzip.decompress(path.read_bytes()))))
    with pytest.raises(InvalidInput, match=rf"t10k-images-idx3-ubyte\.gz: it .*{words.removeprefix('it ')}"):
        load("mnist", tmp_path)


def test_a_cut_gzip_file_is_named(tmp_path):
    write_idx(tmp_path / "mnist", RANDOM.integers(256, size=(10, 28, 28)), LABELS, zipped=True)
    _cut(tmp_path / "mnist/train-images-idx3-ubyte.gz")
    with pytest.raises(InvalidInput, match=r"train-images-idx3-ubyte\.gz: it is not a whole gzip file"):
        load("mnist", tmp_path)


@pytest.mark.parametrize("suffix", [".bin", ""])
def test_a_cut_cifar_batch_is_named(tmp_path, suffix):
    _write_cifar10(tmp_path / "cifar10", suffix)
    _cut(tmp_path / f"cifar10/test_batch{suffix}")
    with pytest.raises(InvalidInput, match=rf"test_batch{suffix}: it.*six batches.*cs\.toronto\.edu"):
        load("cifar10", tmp_path)


def test_a_python_batch_with_too_few_labels_is_named(tmp_path):
    _write_cifar10(tmp_path / "cifar10", "")
    content = cifar_pickle(PIXELS, "labels", LABELS[:4])
    (tmp_path / "cifar10/data_batch_1").write_bytes(content)
    with pytest.raises(InvalidInput, match="data_batch_1: it has 10 images and 4 labels"):
        load("cifar10", tmp_path)
