import dataclasses

import pytest

from dpgap.errors import InvalidInput
from dpgap.privacy.mechanism import Adjacency, BallsInBins, Mechanism, Poisson, Shuffled

RUN = {"clip_norm": 1.0, "noise_multiplier": 1.0, "expected_batch": 10.0, "steps": 31}
SHUFFLED = Shuffled(batch=4, records=10)


@pytest.mark.parametrize(
    ("sampling", "rate"),
    [(Poisson(rate=0.3), 0.3), (SHUFFLED, 0.4), (BallsInBins(batches=4), 0.25)],
)
def test_every_sampling_states_its_rate(sampling, rate):
    assert sampling.rate == rate


@pytest.mark.parametrize(
    ("sampling", "rounds"),
    [
        (Poisson(rate=0.3), 31),
        (BallsInBins(batches=31), 1),
        (BallsInBins(batches=30), 2),
        (SHUFFLED, 11),
        (Shuffled(batch=10, records=10), 31),
    ],
)
def test_a_round_counts_as_soon_as_it_is_begun(sampling, rounds):
    assert Mechanism(sampling=sampling, adjacency=Adjacency.ZERO_OUT, **RUN).rounds == rounds


def test_rounds_are_counted_exactly():
    long = RUN | {"steps": 2**53 + 1}
    assert Mechanism(sampling=BallsInBins(batches=1), **long).rounds == 2**53 + 1
    with pytest.raises(InvalidInput, match="steps must be at most 1000000000000000000, got 1000"):
        Mechanism(sampling=Poisson(rate=0.5), **(RUN | {"steps": 10**400}))


def test_shuffled_is_refused_under_add_remove_and_the_message_says_what_to_write():
    with pytest.raises(InvalidInput, match=r"moves every later record .* adjacency=Adjacency\.ZERO_OUT"):
        Mechanism(sampling=SHUFFLED, **RUN)
    for adjacency in (Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE):
        assert Mechanism(sampling=SHUFFLED, adjacency=adjacency, **RUN).adjacency == adjacency


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("clip_norm", 0.0),
        ("clip_norm", float("inf")),
        ("noise_multiplier", -1.0),
        ("noise_multiplier", float("inf")),
        ("noise_multiplier", float("nan")),
        ("expected_batch", 0.0),
        ("steps", 0),
        ("steps", 1.5),
        ("adjacency", "neighbours"),
    ],
)
def test_a_field_that_cannot_be_right_is_named_with_its_value(field, value):
    with pytest.raises(InvalidInput, match=rf"{field} .*got {value!r}"):
        Mechanism(**({"sampling": Poisson(rate=0.5)} | RUN | {field: value}))


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.0001, float("nan"), float("inf")])
def test_a_rate_outside_0_to_1_is_refused(rate):
    with pytest.raises(InvalidInput, match="rate must be"):
        Poisson(rate=rate)


def test_batches_that_cannot_be_are_refused():
    with pytest.raises(InvalidInput, match="batch must be at most records=3, got 4"):
        Shuffled(batch=4, records=3)
    with pytest.raises(InvalidInput, match="batches must be"):
        BallsInBins(batches=0)


def test_a_mechanism_cannot_be_changed():
    run = Mechanism(sampling=Poisson(rate=1), **RUN)
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.steps = 5  # pyright: ignore[reportAttributeAccessIssue]
