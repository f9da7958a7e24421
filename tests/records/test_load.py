"""Datasets by name: which are known, where they are looked for, and what a user's own must hold."""

import builtins
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from dpgap.data.catalogue import DATASETS
from dpgap.data.load import NAMES, load
from dpgap.errors import InvalidInput
from tests.records.writers import write_idx

DATA = Path(os.environ.get("DPGAP_DATA", "no-data-folder"))
OWN = {
    "x_train": np.arange(12, dtype=np.uint8).reshape(6, 2),
    "y_train": np.array([0, 1, 2, 0, 1, 2]),
    "x_test": np.ones((1, 2)),
    "y_test": np.array([2], dtype=np.uint8),
}


def _real(name: str) -> pytest.MarkDecorator:
    there = (DATA / name).exists()
    return pytest.mark.skipif(not there, reason=f"DPGAP_DATA names no folder with the real {name}")


@_real("mnist")
def test_the_real_mnist_has_the_statistics_it_is_normalised_by():
    train, test = load("mnist", DATA)
    assert (train.x.shape, test.x.shape) == ((60_000, 1, 28, 28), (10_000, 1, 28, 28))
    assert train.y[:5].tolist() == [5, 0, 4, 1, 9]
    assert abs(train.x.mean()) < 1e-3
    assert abs(train.x.std() - 1) < 1e-3


@_real("cifar10")
def test_the_real_cifar10_has_the_statistics_it_is_normalised_by():
    train, test = load("cifar10", DATA)
    assert (train.x.shape, test.x.shape) == ((50_000, 3, 32, 32), (10_000, 3, 32, 32))
    assert train.y.bincount().tolist() == [5000] * 10
    assert train.x.mean(dim=(0, 2, 3)).abs().max() < 1e-3
    assert train.y[:4].tolist() == [6, 9, 9, 4]


@_real("location30.npz")
def test_the_real_location30_is_binary():
    train, test = load("location30", DATA)
    assert (train.x.shape, test.x.shape) == ((4008, 446), (1002, 446))
    assert train.x.unique().tolist() == [0.0, 1.0]
    assert set(train.y.tolist()) == set(test.y.tolist()) == set(range(30))


@_real("mnist")
def test_one_changed_byte_of_the_real_mnist_is_caught(tmp_path):
    (tmp_path / "mnist").mkdir()
    for file in (DATA / "mnist").glob("*.gz"):
        (tmp_path / "mnist" / file.name).symlink_to(file.resolve())
    name = "train-labels-idx1-ubyte"
    labels = bytearray(np.zeros(60_008, np.uint8))
    labels[:8] = bytes([0, 0, 8, 1, 0, 0, 0xEA, 0x60])
    (tmp_path / "mnist" / f"{name}.gz").unlink()
    (tmp_path / "mnist" / name).write_bytes(labels)
    with pytest.raises(
        InvalidInput, match=rf"{name}: its content has the MD5 .* a25bea736e30d166cdddb491f175f624"
    ):
        load("mnist", tmp_path)


def test_digits_need_no_folder(monkeypatch):
    monkeypatch.delenv("DPGAP_DATA", raising=False)
    train, test = load("digits")
    assert (train.x.shape, test.x.shape) == ((1437, 1, 8, 8), (360, 1, 8, 8))
    assert (train.x.min(), train.x.max()) == (0, 1)
    assert set(train.y.tolist()) == set(test.y.tolist()) == set(range(10))


def test_digits_say_what_to_install(monkeypatch):
    found = builtins.__import__

    def missing(name: str, *rest: object) -> object:
        if name.startswith("sklearn"):
            raise ImportError(name)
        return found(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(InvalidInput, match=r"pip install dpgap\[train\]"):
        load("digits")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "digits"])
def test_without_a_folder_the_message_says_what_it_must_hold(monkeypatch, name):
    monkeypatch.delenv("DPGAP_DATA", raising=False)
    options = {"majority": 0.75} if name == "colored-mnist" else {}
    with pytest.raises(InvalidInput, match=r"DPGAP_DATA; it must hold .* from http"):
        load(name, **options)


@pytest.mark.parametrize("name", [name for name in DATASETS if name != "digits"])
def test_a_missing_file_is_named_with_its_home(tmp_path, name):
    with pytest.raises(InvalidInput, match=r"Cannot read .*: it is not there\. .* Get it from http"):
        load(name, tmp_path)


def test_the_folder_may_come_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("DPGAP_DATA", str(tmp_path))
    with pytest.raises(InvalidInput, match=str(tmp_path)):
        load("mnist")


def test_a_file_that_is_not_the_published_one_is_refused(tmp_path):
    write_idx(tmp_path / "mnist", np.zeros((10, 28, 28)), np.arange(10), zipped=False)
    with pytest.raises(InvalidInput, match=r"MD5 .*, where 6bbc9ace898e44ae57da46a324031adb was published"):
        load("mnist", tmp_path)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("minst", "mnist"),
        ("CIFAR10", "cifar10 or cifar100"),
        ("location", "location30"),
        ("fashion", "fashion-mnist"),
    ],
)
def test_an_unknown_name_gets_the_nearest(name, near):
    with pytest.raises(
        InvalidInput, match=f"no dataset '{name}'. Did you mean {near}.*\\? The names are digits, "
    ):
        load(name)


def test_a_name_like_no_other_gets_the_list():
    with pytest.raises(InvalidInput, match=r"no dataset 'zzz'\. The names are digits, mnist"):
        load("zzz")


@pytest.mark.parametrize("as_folder", [True, False])
@pytest.mark.parametrize("in_data_folder", [True, False])
def test_a_users_own_values_are_used_as_they_are(tmp_path, as_folder, in_data_folder):
    if as_folder:
        (tmp_path / "own").mkdir()
        for name, array in OWN.items():
            np.save(tmp_path / "own" / f"{name}.npy", array)
    else:
        np.savez(tmp_path / "own.npz", **OWN)
    name = "own" if as_folder else "own.npz"
    place = (name, tmp_path) if in_data_folder else (str(tmp_path / name), None)
    train, test = load(*place, num_classes=3)
    assert train.x.tolist() == OWN["x_train"].astype(float).tolist()
    assert (train.y.tolist(), test.y.tolist(), len(test)) == ([0, 1, 2, 0, 1, 2], [2], 1)
    assert (train.x.dtype, train.y.dtype, train.num_classes) == (torch.float32, torch.int64, 3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"y_train": np.array([0, 0, 2, 0, 0, 2])},
            r"No training record of .* has the label 1, one of 0\.\.2",
        ),
        ({"y_train": np.array([1, 2, 3, 1, 2, 3])}, r"Record 2 has the label 3, .* 0\.\.2"),
        ({"y_train": np.eye(3)[[0, 1, 2, 0, 1, 2]]}, "one list of whole numbers, got float64 .* one-hot"),
        ({"y_test": np.array([2, 2])}, r"x_test of shape \(1, 2\) and y_test of shape \(2,\)"),
        ({"x_test": np.ones(1)}, r"x_test of shape \(1,\)"),
        ({"x_test": np.array([["a", "b"]])}, "x_test of .* must hold numbers"),
        ({"x_test": np.array([[np.nan, 0]])}, "Record 0 holds a value that is not finite"),
        ({"x_test": np.array([[None, None]])}, "allow_pickle"),
        ({"x_test": None}, "x_test is not a file in the archive"),
    ],
)
def test_a_users_own_file_is_checked(tmp_path, change, words):
    arrays = {name: array for name, array in {**OWN, **change}.items() if array is not None}
    np.savez(tmp_path / "own.npz", **arrays)
    with pytest.raises(InvalidInput, match=words):
        load(str(tmp_path / "own.npz"), num_classes=3)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 half a file", b"no zip at all"])
def test_a_damaged_npz_is_named(tmp_path, content):
    (tmp_path / "own.npz").write_bytes(content)
    with pytest.raises(
        InvalidInput, match=r"Cannot read .*own\.npz: .* Expected the arrays x_train, y_train"
    ):
        load(str(tmp_path / "own.npz"), num_classes=3)


def test_a_missing_npy_is_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"x_train\.npy"):
        load(str(tmp_path), num_classes=3)


def test_a_missing_npz_is_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"There is no file gone\.npz nor .*gone\.npz"):
        load("gone.npz", tmp_path, num_classes=3)


def test_classes_are_never_counted_in_private_labels(tmp_path):
    np.savez(tmp_path / "own.npz", **OWN)
    with pytest.raises(
        InvalidInput, match=r"num_classes is missing for .*own\.npz\. The list of classes is public"
    ):
        load(str(tmp_path / "own.npz"))


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("mnist", {"num_classes": 10}, "num_classes is 10 for mnist, but it is for a user's own data only"),
        ("mnist", {"majority": 0.9}, "majority is 0.9 for mnist, but it is for colored-mnist only"),
        ("colored-mnist", {}, "majority must be at least 0.5 and below 1, got None"),
        ("colored-mnist", {"majority": 75.0}, "got 75.* write majority=0.75"),
    ],
)
def test_an_option_of_another_dataset_is_refused(tmp_path, name, options, words):
    with pytest.raises(InvalidInput, match=words):
        load(name, tmp_path, **options)
