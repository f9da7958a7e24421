"""Colored-MNIST: two classes, two colours, four groups."""

from dataclasses import replace
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
import torch

from dpgap.data.catalogue import DATASETS
from dpgap.data.load import load
from tests.records.writers import write_idx

N = 20_000
DIGITS = np.arange(N) % 10


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setitem(DATASETS, "mnist", replace(DATASETS["mnist"], checksums={}))
    write_idx(
        tmp_path / "mnist", np.random.default_rng(0).integers(256, size=(N, 2, 2)), DIGITS, zipped=False
    )
    return tmp_path


def _groups(folder: Path, majority: float) -> torch.Tensor:
    groups = load("colored-mnist", folder, majority=majority).train.groups
    assert groups is not None
    return groups


def test_parity_is_the_class_and_one_channel_holds_the_normalised_digit(folder):
    grey, (train, _) = load("mnist", folder).train, load("colored-mnist", folder, majority=0.75)
    assert train.num_classes == 2
    assert train.y.tolist() == (DIGITS % 2).tolist()
    red = (train.groups == 0) | (train.groups == 2)
    assert torch.equal(train.x[red], torch.cat([grey.x[red], torch.zeros(int(red.sum()), 2, 2, 2)], dim=1))
    assert torch.equal(
        train.x[~red], torch.cat([torch.zeros(int((~red).sum()), 2, 2, 2), grey.x[~red]], dim=1)
    )


@pytest.mark.parametrize("majority", [0.5, 0.75, 0.995])
def test_most_of_the_evens_are_red_and_most_of_the_odds_blue(folder, majority):
    """Counts within 4 standard deviations; four of them fail by chance with probability below 0.0003."""
    for records in load("colored-mnist", folder, majority=majority):
        red_even, blue_even, red_odd, blue_odd = records.groups.bincount(minlength=4).tolist()
        assert red_even + blue_even == blue_odd + red_odd == N // 2
        slack = 4 * sqrt(N / 2 * majority * (1 - majority))
        assert abs(red_even - majority * N / 2) < slack
        assert abs(blue_odd - majority * N / 2) < slack


def test_groups_tell_class_and_colour(folder):
    train = load("colored-mnist", folder, majority=0.75).train
    assert torch.equal(train.groups // 2, train.y)


def test_colours_are_the_same_in_every_run_but_not_in_both_splits(folder):
    first, second = (load("colored-mnist", folder, majority=0.75) for _ in range(2))
    assert torch.equal(first.train.groups, second.train.groups)
    assert not torch.equal(first.train.groups, first.test.groups)


def test_a_smaller_share_keeps_the_minority_of_a_larger_one(folder):
    small, large = (_groups(folder, share) for share in (0.75, 0.95))
    was_minority = (large == 1) | (large == 2)
    assert torch.equal(small[was_minority], large[was_minority])
