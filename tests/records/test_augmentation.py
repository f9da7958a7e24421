"""Augmented views: the same as one at a time, and nobody else's business."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from dpgap.data.augmentation import CropFlip
from dpgap.errors import InvalidInput
from tests.reference.augmentation_twin import splitmix64, view

INDICES = st.lists(st.integers(0, 2**40), min_size=1, max_size=5, unique=True)


def _images(n: int) -> torch.Tensor:
    return torch.arange(1.0, 1 + n * 2 * 4 * 3).reshape(n, 2, 4, 3)


def test_the_twins_generator_is_splitmix64():
    """The first outputs from state 1234567, as published with the algorithm's C code."""
    outputs = [splitmix64(1234567, counter) for counter in range(3)]
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(INDICES, st.integers(0, 10**6), st.integers(1, 3), st.integers(0, 2**70), st.integers(0, 3))
def test_every_view_equals_its_twin(indices, step, copies, seed, padding):
    images = _images(len(indices))
    views = CropFlip(padding=padding).augmented(
        images, torch.tensor(indices), step=step, copies=copies, seed=seed
    )
    for b, record in enumerate(indices):
        for copy in range(copies):
            twin = view(images[b].numpy(), padding, record=record, step=step, copy=copy, seed=seed)
            assert np.array_equal(views[b, copy].numpy(), twin)


@given(st.permutations(range(6)), st.integers(0, 6))
def test_a_view_does_not_depend_on_who_else_is_in_the_batch(order, kept):
    images, records = _images(6), torch.tensor([3, 1, 4, 15, 9, 2])
    everybody = CropFlip().augmented(images, records, step=7, copies=3, seed=5)
    some = order[:kept]
    alone = CropFlip().augmented(images[some], records[some], step=7, copies=3, seed=5)
    assert torch.equal(alone, everybody[some])


def test_fewer_copies_are_the_first_ones():
    images, records = _images(4), torch.arange(4)
    four = CropFlip().augmented(images, records, step=0, copies=4, seed=0)
    assert torch.equal(CropFlip().augmented(images, records, step=0, copies=2, seed=0), four[:, :2])


@pytest.mark.parametrize("other", [{"step": 1}, {"seed": 1}])
def test_another_step_or_seed_draws_anew(other):
    images, records = _images(50), torch.arange(50)
    key = {"step": 0, "copies": 1, "seed": 0}
    first = CropFlip().augmented(images, records, **key)
    second = CropFlip().augmented(images, records, **{**key, **other})
    assert not torch.equal(first, second)


@pytest.mark.parametrize("axis", ["records", "steps", "copies"])
def test_views_are_uniform_and_independent(axis):
    """Chi-square of all pairs of the 18 views; a sound generator fails each with probability 0.001."""
    n, image = 30_000, torch.arange(1.0, 10.0).reshape(1, 1, 3, 3)
    records = torch.arange(2 * n if axis == "records" else n)
    steps = (0, 1) if axis == "steps" else (0,)
    copies = 2 if axis == "copies" else 1
    images = image.expand(len(records), 1, 3, 3)
    views = [
        CropFlip(padding=1).augmented(images, records, step=s, copies=copies, seed=3).flatten(2)
        for s in steps
    ]
    kinds, cell = torch.cat(views).reshape(-1, 9).unique(dim=0, return_inverse=True)
    assert len(kinds) == 18
    pairs = cell.reshape(2, n) if axis == "steps" else cell.reshape(n, 2).T
    counts = torch.bincount(18 * pairs[0] + pairs[1], minlength=18**2).double()
    expected = n / 18**2
    assert ((counts - expected) ** 2 / expected).sum() < chi2.ppf(0.999, 18**2 - 1)


def test_an_empty_batch_gives_an_empty_result():
    none = CropFlip().augmented(_images(0), torch.zeros(0, dtype=torch.int64), step=0, copies=2, seed=0)
    assert none.shape == (0, 2, 2, 4, 3)


def test_a_negative_padding_is_refused():
    with pytest.raises(InvalidInput, match="padding must be a whole number, 0 or more, got -1"):
        CropFlip(padding=-1)
