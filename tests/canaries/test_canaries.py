"""Every canary keeps its contract and is the row that the paper or its scripts plant."""

import pytest
import torch

from dpgap.canaries.base import Canary
from dpgap.canaries.blank import Blank
from dpgap.canaries.interpolated import Interpolated
from dpgap.canaries.mislabelled import Mislabelled
from dpgap.canaries.random_binary import RandomBinary
from dpgap.data.records import Canaries, Records
from dpgap.errors import InvalidInput
from dpgap.testing import check_canary

BUILT_IN = [
    Blank(),
    Interpolated(alpha=0.5),
    Interpolated(alpha=1.0, image=2, label=3),
    Mislabelled(),
    RandomBinary(),
    RandomBinary(label=3, public_seed=1),
]
RECORDS = Records(torch.arange(24.0).reshape(8, 3), torch.arange(8) % 4, 4)


@pytest.mark.parametrize("canary", BUILT_IN, ids=repr)
def test_a_built_in_canary_keeps_its_contract(canary):
    check_canary(canary)


def test_every_built_in_canary_is_checked():
    built_in = {kind for kind in Canary.__subclasses__() if kind.__module__.startswith("dpgap.")}
    assert built_in == {type(canary) for canary in BUILT_IN}


class Moody:
    def plant(self, records, model, count):
        return Canaries(torch.rand(count, *records.x.shape[1:]), torch.zeros(count).long())


class Greedy:
    def plant(self, records, model, count):
        return Canaries(records.x[:count], records.y[:count])


class Short:
    def plant(self, records, model, count):
        return Blank(label=0).plant(records, model, 1)


@pytest.mark.parametrize(
    ("canary", "said"),
    [
        (Moody(), "Moody must leave the global generator alone"),
        (Greedy(), "Greedy must leave records and model as they are"),
        (Short(), "Short must plant the 3 rows asked for, got 1"),
    ],
)
def test_the_kit_finds_a_canary_that_breaks_the_contract(canary, said):
    with pytest.raises(AssertionError, match=said):
        check_canary(canary)


def test_interpolated_runs_from_blank_to_the_record_itself():
    rows = [Interpolated(alpha=alpha, image=1, label=0).plant(RECORDS, None, 1).rows for alpha in (0.0, 1.0)]
    assert torch.equal(rows[0], torch.zeros(1, 3))
    assert torch.equal(rows[1], RECORDS.x[1:2])


def test_mislabelled_is_the_first_record_of_its_class_with_another_label():
    planted = Mislabelled(image=2, label=0).plant(RECORDS, None, 2)
    assert torch.equal(planted.rows, RECORDS.x[[2, 6]])
    assert planted.labels.tolist() == [0, 0]


def test_random_binary_takes_the_label_that_the_model_thinks_least_likely():
    model = torch.nn.Linear(3, 4)
    planted = RandomBinary().plant(RECORDS, model, 3)
    assert set(planted.rows.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(planted.labels, model(planted.rows).argmin(dim=1))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Blank(label=-1), "label must be a whole number, 0 or more, got -1"),
        (lambda: Interpolated(alpha=1.5), "alpha must be at most 1, got 1.5"),
        (lambda: Mislabelled(image=3, label=3), "label must differ from image=3"),
        (
            lambda: Mislabelled(image=1, label=0).plant(RECORDS, None, 3),
            "image=1 has 2 training records and 3",
        ),
        (lambda: RandomBinary().plant(RECORDS, None, 1), "label is missing"),
    ],
)
def test_a_canary_that_cannot_be_planted_is_refused(make, said):
    with pytest.raises(InvalidInput, match=said):
        make()
