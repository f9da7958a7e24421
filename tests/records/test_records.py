"""Records and canaries: what they accept, and that nobody's rows change."""

import jaxtyping
import pytest
import torch

from dpgap.data.records import Canaries, Records
from dpgap.errors import InvalidInput

X, Y = torch.arange(6.0).reshape(3, 2), torch.tensor([0, 1, 1])


@pytest.fixture
def _without_shape_checks():
    """As users run it; the shape checks of the tests would speak first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("_without_shape_checks")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((X, torch.tensor([0, 1, 2]), 2), r"Record 2 has the label 2, .* 0\.\.1 \(num_classes is 2\)"),
        ((X, torch.tensor([0, -1, -2]), 2), "Record 1 has the label -1"),
        ((X, Y[:2], 2), r"labels has shape \(2,\) for 3 rows"),
        ((X, Y[:, None], 2), r"labels has shape \(3, 1\)"),
        ((X, Y.int(), 2), "labels must be an int64 tensor, got torch.int32"),
        ((X, [0, 1, 1], 2), "labels must be an int64 tensor, got list"),
        ((X.double(), Y, 2), "float32 tensor, got torch.float64"),
        ((X.numpy(), Y, 2), "float32 tensor, got ndarray"),
        ((X[:, 0], Y, 2), "without a feature dimension"),
        ((X.clone().fill_(torch.nan), Y, 2), "Record 0 holds a value that is not finite"),
        ((torch.cat([X[:2], X[2:] / 0]), Y, 2), "Record 2 holds a value that is not finite"),
        ((X, Y, 0), "num_classes must be a whole number, 1 or more, got 0"),
        ((X, Y, 2.0), "num_classes must be a whole number, 1 or more, got 2.0"),
        ((X, Y, 2, Y[:1]), r"groups has shape \(1,\) for 3 rows"),
    ],
)
def test_what_cannot_be_records_is_refused_with_the_first_offender(arguments, words):
    with pytest.raises(InvalidInput, match=words):
        Records(*arguments)


@pytest.mark.usefixtures("_without_shape_checks")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((X, Y[:1]), r"labels has shape \(1,\) for 3 rows"),
        ((X * torch.inf, Y), "Canary 0 holds a value that is not finite"),
        ((X, Y, torch.zeros(2, 9)), r"gradients has shape \(2, 9\) for 3 canaries"),
        ((X, Y, torch.zeros(3)), r"gradients has shape \(3,\)"),
        ((X, Y, torch.zeros(3, 9).half()), "canaries' gradients must be a float32 tensor"),
    ],
)
def test_what_cannot_be_canaries_is_refused(arguments, words):
    with pytest.raises(InvalidInput, match=words):
        Canaries(*arguments)


def test_a_neighbour_without_the_only_record_of_a_class_is_a_dataset_too():
    for kept in (3, 1, 0):
        assert len(Records(X[:kept], Y[:kept], 2)) == kept


def test_a_given_gradient_may_be_anything_because_it_is_clipped_like_any_other():
    gradients = torch.tensor([[torch.inf, 0.0], [1e30, -1e30], [torch.nan, 0.0]])
    assert Canaries(X, Y, gradients).gradients is gradients


def test_canaries_come_last_and_the_records_stay_as_they_were():
    records = Records(X.clone(), Y.clone(), 10, torch.tensor([4, 5, 6]))
    planted = records.with_canaries(Canaries(-torch.ones(2, 2), torch.tensor([9, 0])))
    assert planted.x.tolist() == [*X.tolist(), [-1.0, -1.0], [-1.0, -1.0]]
    assert (planted.y.tolist(), planted.num_classes) == ([0, 1, 1, 9, 0], 10)
    assert planted.groups.tolist() == [4, 5, 6, -1, -1]
    planted.x.fill_(7.0)
    planted.y.fill_(7)
    assert (records.x.tolist(), records.y.tolist(), len(records)) == (X.tolist(), Y.tolist(), 3)


def test_no_canaries_still_give_new_tensors():
    records = Records(X, Y, 2)
    planted = records.with_canaries(Canaries(X[:0], Y[:0]))
    assert torch.equal(planted.x, X)
    assert planted.x.data_ptr() != X.data_ptr()


@pytest.mark.parametrize(
    ("canaries", "words"),
    [
        (Canaries(torch.zeros(1, 3), torch.tensor([0])), r"A canary has shape \(3,\), a record \(2,\)"),
        (Canaries(torch.zeros(1, 2), torch.tensor([2])), "Canary 0 has the label 2"),
    ],
)
def test_a_canary_that_no_record_could_be_is_refused(canaries, words):
    with pytest.raises(InvalidInput, match=words):
        Records(X, Y, 2).with_canaries(canaries)
