"""`dpgap.audit` takes any training function, tells its outputs apart by type, and mixes no two settings."""

from contextlib import closing
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import dpgap
from dpgap.experiments.identity import identity
from dpgap.experiments.outputs import told_apart
from tests.experiments.jobs import CANARY, RECORDS, noisy_sum

FEW = dpgap.ShadowPairs(models=8)
BASE = {"dataset": RECORDS, "canary": CANARY, "design": FEW, "store": ":memory:"}
X, Y = np.array([[1.0], [2.0]], np.float32), np.array([0, 1])


def audit(train, **changes):
    return dpgap.audit(train, **(BASE | changes))


class Probabilities:
    def predict_proba(self, x):
        return np.stack([1 / (1 + x[:, 0]), x[:, 0] / (1 + x[:, 0])], axis=1)


class Logits:
    def logits(self, x):
        return np.log(Probabilities().predict_proba(x))


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(torch.cat([-torch.log1p(x), torch.log(x / (1 + x))], dim=1))


def score(x, y):
    return np.log(Probabilities().predict_proba(x)[np.arange(len(x)), y])


@pytest.mark.parametrize("trained", [Probabilities(), Logits(), Module(), score])
def test_every_type_of_result_gives_the_same_scores(trained):
    asked = told_apart(trained)
    np.testing.assert_allclose(asked.statistic(None, X, Y), score(X, Y), rtol=1e-6)
    assert asked.share_right(X, Y) == (None if trained is score else 1.0)


class Both(Probabilities, Logits):
    pass


class ModuleWithLogits(Module, Logits):
    pass


@pytest.mark.parametrize(
    ("trained", "said"),
    [
        (Both(), "has predict_proba and logits"),
        (ModuleWithLogits(), "a torch.nn.Module and logits"),
        (3, "of which nothing can be asked"),
        (None, "of which nothing can be asked"),
    ],
)
def test_what_could_be_two_things_or_is_none_is_refused(trained, said):
    with pytest.raises(dpgap.InvalidInput, match=said):
        told_apart(trained)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (lambda x, y: np.zeros(7), r"score\(x, y\) gave an array of shape \(7,\) for 1 rows"),
        (lambda x, y: np.full(len(x), np.nan), "holds NaN"),
        ("text", "of which nothing can be asked"),
    ],
)
def test_a_result_of_the_wrong_shape_stops_at_the_first_model(returned, said):
    with pytest.raises(dpgap.InvalidInput, match=said):
        audit(lambda x, y, seed: returned)


def test_train_gets_rows_of_its_own_and_the_canary_last():
    seen = []

    def train(x, y, seed):
        seen.append((x.copy(), y.copy(), seed))
        x[:], y[:] = 5.0, 1
        return noisy_sum(np.zeros(1), y, seed)

    audit(train)
    lengths = [len(x) for x, _, _ in seen]
    assert lengths == [5, 4] * 4
    assert all(x.dtype == np.float32 and y.dtype == np.int64 for x, y, _ in seen)
    assert all((x[:4] == 0).all() and (x[4:] == 1).all() for x, _, _ in seen)
    assert all(y.tolist() in ([0, 0, 0, 0, 1], [0, 0, 0, 0]) for _, y, _ in seen)
    assert len({seed for _, _, seed in seen}) == 8
    assert max(seed for _, _, seed in seen) < 2**32


def test_accuracies_are_of_the_rows_trained_on_and_of_the_test_rows():
    train, test = dpgap.load("digits")

    class Constant:
        def __init__(self, seed):
            self.logit = np.random.default_rng(seed).random()

        def logits(self, x):
            return np.tile(np.eye(10)[3] * (1 + self.logit), (len(x), 1))

    found = audit(
        lambda x, y, seed: Constant(seed), dataset=dpgap.load("digits"), canary=dpgap.Blank(label=3)
    )
    expected = (train.y == 3).double().mean().item()
    assert found.train_accuracy.mean == pytest.approx(expected, abs=1e-3)
    assert found.test_accuracy.mean == pytest.approx((test.y == 3).double().mean().item())
    assert found.test_accuracy.sd == pytest.approx(0)


def test_a_dataset_by_name_is_loaded():
    found = audit(
        lambda x, y, seed: noisy_sum(np.ones(1), y, seed), dataset="digits", canary=dpgap.Blank(label=3)
    )
    assert found.models == 8


def test_the_claim_stands_beside_the_bound_and_gives_the_delta():
    found = audit(
        lambda x, y, seed: noisy_sum(100 * x, y, seed),
        design=dpgap.ShadowPairs(models=100),
        upper_bound=dpgap.UpperBound.claimed(0.5, delta=1e-6),
    )
    assert found.headline.delta == 1e-6
    assert found.headline.value > 2
    assert found.refuted


def test_an_attack_on_scores_is_refused():
    with pytest.raises(dpgap.InvalidInput, match="attack must be left out, got 'loss'"):
        audit(noisy_sum, attack=dpgap.LossAttack())


@pytest.mark.parametrize("adjacency", [dpgap.Adjacency.REPLACE_ONE, dpgap.Adjacency.ZERO_OUT])
def test_other_neighbours_are_refused(adjacency):
    with pytest.raises(dpgap.IncomparableBounds, match="adjacency must be add-remove where a function"):
        audit(noisy_sum, question=dpgap.Question(adjacency=adjacency))


def test_a_claim_at_another_delta_is_refused():
    with pytest.raises(dpgap.IncomparableBounds, match="delta is 1e-05, the upper bound's 1e-06"):
        audit(
            noisy_sum,
            upper_bound=dpgap.UpperBound.claimed(1.0, delta=1e-6),
            question=dpgap.Question(delta=1e-5),
        )


def test_a_claim_for_other_neighbours_is_refused():
    claim = dpgap.UpperBound.claimed(1.0, delta=1e-5, adjacency=dpgap.Adjacency.REPLACE_ONE)
    with pytest.raises(dpgap.IncomparableBounds, match="'add-remove', the upper bound's 'replace-one'"):
        audit(noisy_sum, upper_bound=claim)


def test_a_wrong_number_of_canaries_is_refused():
    with pytest.raises(dpgap.InvalidInput, match="canary must have 20 rows for the design 'one-run', got 1"):
        audit(noisy_sum, design=dpgap.OneRun(canaries=20))


def test_the_same_call_goes_on_from_the_store(tmp_path):
    calls = []

    def train(x, y, seed):
        if not calls:
            calls.append(seed)
            return noisy_sum(x, y, seed)
        raise KeyboardInterrupt

    path = tmp_path / "store.sqlite"
    with pytest.raises(KeyboardInterrupt):
        audit(train, store=path)
    with closing(dpgap_store(path)) as store:
        (summary,) = store.experiments()
        assert summary.models == 1


def dpgap_store(path):
    from dpgap.store.store import Store

    return Store(path)


def scaled(by):
    def train(x, y, seed):
        return noisy_sum(by * x, y, seed)

    return train


@dataclass
class Settings:
    by: float

    def __call__(self, x, y, seed):
        return noisy_sum(self.by * x, y, seed)


STRENGTH = 1.0


def by_constant(x, y, seed):
    return noisy_sum(STRENGTH * x, y, seed)


def test_settings_that_differ_are_different_runs(tmp_path):
    path = tmp_path / "store.sqlite"
    trainings = [
        scaled(1.0),
        scaled(2.0),
        Settings(1.0),
        Settings(2.0),
        noisy_sum,
        partial(noisy_sum, scale=2.0),
        partial(noisy_sum, scale=3.0),
    ]
    keys = [audit(train, store=path).key for train in trainings]
    assert len(set(keys)) == len(trainings)
    assert [audit(train, store=path).key for train in trainings] == keys


def test_a_constant_of_the_module_is_a_setting(monkeypatch):
    before = identity(by_constant)
    monkeypatch.setitem(by_constant.__globals__, "STRENGTH", 2.0)
    assert identity(by_constant) != before


def test_something_whose_settings_cannot_be_seen_is_refused():
    class Opaque:
        def __call__(self, x, y, seed):
            return noisy_sum(x, y, seed)

    with pytest.raises(dpgap.InvalidInput, match=r"train must be a function, a functools\.partial"):
        audit(Opaque())


def test_seed_design_and_canary_are_settings(tmp_path):
    path = tmp_path / "store.sqlite"
    first = audit(noisy_sum, store=path)
    changes = [
        {"seed": 1},
        {"design": dpgap.ShadowPairs(models=10)},
        {"question": dpgap.Question(confidence=0.9)},
        {"upper_bound": dpgap.UpperBound.claimed(1.0, delta=1e-5)},
    ]
    keys = {audit(noisy_sum, store=path, **change).key for change in changes}
    assert len(keys | {first.key}) == 5


def test_other_rows_under_the_same_settings_are_refused(tmp_path):
    path = tmp_path / "store.sqlite"
    audit(noisy_sum, store=path)
    other = dpgap.Canaries(torch.full((1, 1), 2.0), torch.tensor([1]))
    with pytest.raises(dpgap.InvalidInput, match="other"):
        audit(noisy_sum, store=path, canary=other)


SEEDED = []


def global_state(x, y, seed):
    """Seeded only when its process is fresh."""
    if not SEEDED:
        SEEDED.append(seed)
        np.random.seed(seed)  # noqa: NPY002
    value = np.random.standard_normal()  # noqa: NPY002
    return lambda rows, labels: np.full(len(rows), value)


def test_processes_keep_global_random_state_apart():
    found = audit(global_state, design=dpgap.ShadowPairs(models=2), backend=dpgap.Local(processes=2))
    alone = [np.random.RandomState(found_seed).standard_normal() for found_seed in _seeds_of(2)]
    assert {found.headline.threshold} <= set(alone)


def _seeds_of(models):
    design = dpgap.ShadowPairs(models=models)
    return [design.assign(model, len(RECORDS), 0).seed % 2**32 for model in range(models)]
