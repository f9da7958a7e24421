"""An interrupted run, resumed, is the run that was never interrupted; and files are whole or absent."""

import errno
import os
import stat

import numpy as np
import pytest
import torch
from torch import nn

from dpgap.data.augmentation import CropFlip
from dpgap.data.records import Records
from dpgap.errors import InvalidInput
from dpgap.privacy.mechanism import Mechanism, Poisson
from dpgap.signatures.parse import parse_signature
from dpgap.training.files import write_whole
from dpgap.training.filter import Filter, SelectTop
from dpgap.training.options import TrainingOptions
from dpgap.training.trainer import train

RUN = Mechanism(
    sampling=Poisson(rate=0.25), clip_norm=1.0, noise_multiplier=1.0, expected_batch=10.0, steps=12
)
OPTIONS = TrainingOptions(learning_rate=0.3, augmentation=CropFlip(padding=1), copies=2)


@pytest.fixture
def task():
    draws = np.random.default_rng(2)
    x = torch.from_numpy(draws.normal(size=(80, 1, 4, 4)).astype(np.float32))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    # Directional uniqueness remembers a record's last gradients, so this state is as rich as it gets.
    signature = parse_signature("uniqueness")
    rule = Filter(signature=signature, select=SelectTop(k=1), every=4)
    return {
        "records": Records(x, torch.arange(80) % 2, 2),
        "model": model,
        "mechanism": RUN,
        "filter": rule,
        "options": OPTIONS,
    }


class Interrupt(Exception):
    """Ctrl-C, at a step of our choice."""


def interrupted(task, path, at, **options):
    """The steps that were seen until the run stopped after step ``at``."""
    seen = []

    def observer(step, _):
        seen.append(step)
        if step == at:
            raise Interrupt

    with pytest.raises(Interrupt):
        train(**task, observer=observer, checkpoint=path, **options)
    return seen


def assert_same(first, second):
    for name, value in first.release.weights.items():
        assert torch.equal(value, second.release.weights[name])
    for name, value in vars(first.private).items():
        other = getattr(second.private, name)
        assert value == other if name == "seed" else torch.equal(value.nan_to_num(-1), other.nan_to_num(-1))


@pytest.mark.parametrize("given", [7, None])
def test_interrupted_and_resumed_equals_uninterrupted_bit_for_bit(task, tmp_path, given):
    path = tmp_path / "run.npz"
    assert interrupted(task, path, at=6, seed=given) == [1, 2, 3, 4, 5, 6]
    assert interrupted(task, path, at=10, seed=given) == [5, 6, 7, 8, 9, 10]
    resumed = train(**task, checkpoint=path, seed=given)
    assert_same(resumed, train(**task, seed=resumed.private.seed))
    assert (resumed.private.removed_at > 0).sum() == 6
    assert list(tmp_path.iterdir()) == [path]


def test_a_finished_run_is_kept_until_its_caller_has_kept_the_result(task, tmp_path, monkeypatch):
    first = train(**task, checkpoint=tmp_path / "run.npz", seed=3)
    monkeypatch.setattr("dpgap.training.trainer.advance", None)
    assert_same(train(**task, checkpoint=tmp_path / "run.npz", seed=3), first)


def test_a_checkpoint_is_for_its_owner_only_and_holds_no_pickle(task, tmp_path):
    path = tmp_path / "run.npz"
    interrupted(task, path, at=5)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with np.load(path, allow_pickle=False) as archive:
        assert int(archive["step"]) == 4
        assert all(archive[name].dtype != object for name in archive)


@pytest.mark.parametrize(
    "changed", ["records", "model", "mechanism", "filter", "options", "seed", "membership"]
)
def test_a_checkpoint_of_another_run_is_refused(task, tmp_path, changed):
    path = tmp_path / "run.npz"
    interrupted(task, path, at=5, seed=7)
    records = task["records"]
    other = {
        "records": Records(records.x + 1, records.y, 2),
        "model": nn.Sequential(nn.Flatten(), nn.Linear(16, 2)),
        "mechanism": Mechanism(**vars(RUN) | {"steps": 13}),
        "filter": None,
        "options": TrainingOptions(learning_rate=0.2, augmentation=CropFlip(padding=1), copies=2),
        "seed": None,
        "membership": torch.arange(80) > 0,
    }
    with pytest.raises(InvalidInput, match="checkpoint of another run"):
        train(**task | {"seed": 7, "checkpoint": path} | {changed: other[changed]})


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut off"])
def test_a_damaged_checkpoint_is_named(task, tmp_path, content):
    path = tmp_path / "run.npz"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"run\.npz is no checkpoint of dpgap"):
        train(**task, checkpoint=path)


def test_an_archive_of_something_else_is_refused(task, tmp_path):
    path = tmp_path / "run.npz"
    np.savez(path, x=np.zeros(3))
    with pytest.raises(InvalidInput, match="checkpoint of another run"):
        train(**task, checkpoint=path)


def full_disk(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_leaves_the_old_file_and_nothing_half_written(tmp_path, monkeypatch):
    path = tmp_path / "weights"
    write_whole(path, b"old")
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(InvalidInput, match=r"weights could not be written: No space left on device.*2\.0 MB"):
        write_whole(path, bytes(2_000_000))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_stops_a_run_with_a_message(task, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(InvalidInput, match="No space left on device"):
        train(**task, checkpoint=tmp_path / "run.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(InvalidInput, match="could not be written: No such file or directory"):
        write_whole(tmp_path / "missing" / "file", b"")
