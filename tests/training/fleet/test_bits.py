"""No bit of a model depends on the others beside it, and no bit of a score on the other records."""

import math

import pytest
import torch
from torch import nn

from dpgap.data.augmentation import CropFlip
from dpgap.models.build import build_model
from dpgap.privacy.mechanism import Poisson
from dpgap.training.filter import Filter
from dpgap.training.fleet import fleet as fleet_module
from dpgap.training.fleet.fleet import train_fleet
from dpgap.training.fleet.size import Size
from dpgap.training.fleet.step import begin, learn
from dpgap.training.options import TrainingOptions
from dpgap.training.trainer import make_task
from tests.training.fleet import cases

SHAPES = {"mlp-32": (64,), "mlp-7-5": (6,), "logistic": (9,), "mnist-cnn": (1, 28, 28)}
SHAPES |= {"small cnn": (3, 9, 9), "tokens": (16,), "general": (6,), "odd cnn": (1, 8, 8)}


@pytest.fixture
def threads():
    """Changes the number of threads, and puts it back."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def odd_cnn():
    """Gradients of 7 by 9 over 36 places: no record's begins at a whole multiple of 64 bytes."""
    return nn.Sequential(nn.Conv2d(1, 7, 3), nn.Tanh(), nn.Flatten(), nn.Linear(252, 10))


def model_of(name):
    own = {
        "small cnn": lambda: cases.small_cnn(3, 9, 10),
        "odd cnn": lambda: cases.seeded(odd_cnn),
        "tokens": lambda: cases.seeded(cases.Tokens),
        "general": lambda: cases.seeded(lambda: nn.Sequential(cases.Scaled(), nn.Linear(6, 10))),
    }
    return own[name]() if name in own else build_model(name, SHAPES[name], 10, seed=0)


def trained(name, seeds, n=100, steps=4, rate=0.4):
    run = cases.mechanism(sampling=Poisson(rate=rate), expected_batch=rate * n, steps=steps)
    data, chosen = cases.records(SHAPES[name], n=n, classes=10), cases.filtered("linf", every=2)
    return train_fleet(data, model_of(name), run, chosen, options=cases.OPTIONS, seeds=seeds)


def assert_same_bits(fleet, m, other, n):
    assert all(torch.equal(fleet.weights[name][m], other.weights[name][n]) for name in fleet.weights)
    for field in ("removed_at", "scores", "tallies"):
        assert torch.equal(getattr(fleet, field)[m], getattr(other, field)[n])


pytestmark = pytest.mark.filterwarnings("ignore:The filter is planned to remove")


@pytest.mark.parametrize("name", ["mlp-32", "mlp-7-5", "logistic"])
def test_a_model_is_the_same_whatever_others_are_trained_with_it(name, threads):
    threads(1)
    alone = trained(name, [5])
    for seeds in ([5, 6], range(7), range(40), [5] * 70):
        assert_same_bits(trained(name, seeds), list(seeds).index(5), alone, 0)


@pytest.mark.parametrize("name", ["mlp-32", "logistic", "mnist-cnn"])
def test_a_model_is_the_same_with_one_thread_and_with_two(name, threads):
    size = {"n": 60, "steps": 2} if name == "mnist-cnn" else {}
    threads(1)
    with_one = trained(name, range(3), **size)
    threads(2)
    with_two = trained(name, range(3), **size)
    assert torch.get_num_threads() == 2
    for m in range(3):
        assert_same_bits(with_two, m, with_one, m)


@pytest.mark.parametrize("name", ["mnist-cnn", "small cnn", "odd cnn"])
def test_a_convolutional_network_is_the_same_whatever_others_are_trained_with_it(name, threads):
    threads(1)
    alone, three = (trained(name, seeds, n=60, steps=2, rate=0.5) for seeds in ([5], [3, 4, 5]))
    assert_same_bits(three, 2, alone, 0)


def scores(name, x, y, drawn, signature="linf", models=1, rows=64, room=1, place=0, copies=1):
    """Scores after one step that draws ``drawn``, by hand: as training does, without its coins."""
    augmentation = CropFlip(padding=0) if copies > 1 else None
    task = make_task(
        cases.Records(x, y, 3 if name == "tokens" else 10),
        model_of(name),
        cases.mechanism(),
        Filter(signature=cases.filtered(signature).signature, select=cases.filtered().select, every=1),
        TrainingOptions(learning_rate=0.5, augmentation=augmentation, copies=copies),
        None,
    )
    network = fleet_module._network(task, torch.device("cpu"))
    fleet = fleet_module._fleet(task, Size(models=models, rows=rows, width=rows, bytes=0), network)
    state = begin(fleet, torch.ones(models, len(x), dtype=torch.bool))
    coins = torch.zeros(models, len(x), dtype=torch.bool)
    coins[place, drawn] = True
    noise, keys = torch.zeros_like(state.weights), torch.zeros(models, dtype=torch.int64)
    width = rows * (math.ceil(len(drawn) / rows) + room - 1)
    learn(fleet, state, coins, noise, keys, width)
    assert int(state.drawn) == len(drawn) <= width
    return state.scores[place, :-1]


def planted(name, where, neighbours):
    """One and the same record at ``where`` among ``neighbours``."""
    x, y = neighbours.clone(), torch.arange(len(neighbours)) % 10
    x[where], y[where] = cases.normal(*SHAPES[name], seed=99), 3
    return x, y


COMPANY = {
    "ordinary": None,
    "not a number": math.nan,
    "infinite": math.inf,
    "huge": 1e30,
    "denormal": 1e-40,
    "zero": 0.0,
}


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        (name, "linf")
        for name in ("mlp-32", "mlp-7-5", "logistic", "mnist-cnn", "small cnn", "odd cnn", "general")
    ]
    + [("mlp-7-5", name) for name in ("l2", "l1-clipped", "kurtosis", "uniqueness", "projection", "loss")]
    + [("odd cnn", name) for name in ("l2", "kurtosis")],
)
def test_a_score_is_the_same_in_any_company_place_and_number_of_passes(name, signature, monkeypatch):
    monkeypatch.setattr("dpgap.data.records._check_rows", lambda *_: None)
    n, rows = (40, 16) if name == "mnist-cnn" else (150, 64)
    others = cases.normal(n, *SHAPES[name], seed=1)
    x, y = planted(name, 0, others)
    alone = scores(name, x, y, [0], signature, rows=rows)[0]
    assert alone != 0 or signature == "uniqueness"
    for kind, value in COMPANY.items():
        for where in (0, 1, rows - 1, rows, n - 1):
            x, y = planted(name, where, others if value is None else torch.full_like(others, value))
            found = scores(name, x, y, list(range(n)), signature, rows=rows)
            assert torch.equal(found[where], alone), (kind, where)
    x, y = planted(name, 17, others)
    roomy = scores(name, x, y, [3, 17, 20], signature, rows=rows, room=3, models=2, place=1)
    assert torch.equal(roomy[17], alone)


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("name", ["tokens", "odd cnn"])
def test_scores_of_sequences_and_of_copies_are_the_same_in_any_place(name, copies):
    if name == "tokens" and copies > 1:
        pytest.skip("only images have copies")
    x = (
        cases.normal(64, *SHAPES[name])
        if name != "tokens"
        else torch.arange(64 * 16).view(64, 16) % 7 % 5 * 1.0
    )
    y = torch.arange(64) % 3
    ordered = scores(name, x, y, list(range(64)), "l2", copies=copies)
    for size in (1, 2, 3, 5, 8, 13, 21, 34, 55):
        last = list(range(64 - size, 64))
        found = scores(name, x, y, last, "l2", copies=copies)
        assert torch.equal(found[last], ordered[last]), size
