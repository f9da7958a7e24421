"""A release is weights and a statement, made of public constants, and nothing else."""

import json
import resource
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from dpgap.data.records import Records
from dpgap.errors import InvalidInput
from dpgap.privacy.mechanism import Adjacency, Mechanism, Poisson
from dpgap.privacy.upper_bound import UpperBound
from dpgap.signatures.parse import parse_signature
from dpgap.training.dpsgd import ETA
from dpgap.training.evaluate import accuracy
from dpgap.training.filter import Filter, SelectTop
from dpgap.training.options import PlainSGD, TrainingOptions
from dpgap.training.release import save_release
from dpgap.training.trainer import train

SECRET = 987654321987654321
RUN = Mechanism(sampling=Poisson(rate=0.5), clip_norm=1.0, noise_multiplier=1.2, expected_batch=30.0, steps=4)
OPTIONS = TrainingOptions(learning_rate=0.3, delta=1e-6)


def trained(mechanism=RUN, rows=61):
    torch.manual_seed(0)
    records = Records(torch.randn(rows, 3), torch.arange(rows) % 2, 2)
    rule = Filter(signature=parse_signature("linf"), select=SelectTop(k=1), every=2)
    model = nn.Linear(3, 2)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    return train(records, model, mechanism, rule, options=OPTIONS, seed=SECRET), model


def test_saving_writes_the_weights_and_the_statement_only(tmp_path):
    result, model = trained()
    save_release(result.release, tmp_path / "out")
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        "statement.json",
        "weights.safetensors",
    ]
    model.load_state_dict(load_file(tmp_path / "out" / "weights.safetensors"))
    assert torch.equal(model.weight, result.release.weights["weight"])
    assert str(SECRET) not in (tmp_path / "out" / "statement.json").read_text("utf-8")


def test_a_disk_that_fills_up_leaves_no_half_written_weights(tmp_path):
    """A limit on the size of a file stands in for a full disk: the statement fits, the weights do not."""
    release = replace(trained()[0].release, weights={"weight": torch.zeros(10_000)})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, hard))
    try:
        with pytest.raises(InvalidInput, match=r"weights\.safetensors could not be written: File too large"):
            save_release(release, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [file.name for file in tmp_path.iterdir()] == ["statement.json"]
    json.loads((tmp_path / "statement.json").read_text("utf-8"))


def test_the_statement_says_what_is_proved_and_of_what():
    statement = trained()[0].release.statement.to_dict()
    assert set(statement) == {
        "eps_ub",
        "delta",
        "adjacency",
        "threat_model",
        "assumptions",
        "planned_maximum_of_removals",
        "mechanism",
        "filter",
        "precision",
        "eta",
    }
    assert statement["eps_ub"]["pld"] == pytest.approx(RUN.upper_bound(1e-6).value, rel=1e-6)
    assert statement["eps_ub"]["rdp"] == pytest.approx(RUN.upper_bound(1e-6, "rdp").value, rel=1e-6)
    assert statement["planned_maximum_of_removals"] == 1 * 2 * 2
    assert statement["mechanism"]["sampling"] == {"kind": "Poisson", "rate": 0.5}
    assert (statement["precision"], statement["eta"], statement["delta"]) == ("fp32", ETA, 1e-6)
    json.dumps(statement, allow_nan=False)


def test_the_statement_is_the_same_for_neighbours():
    """Neither the number of records nor that of removals enters it."""
    assert trained(rows=61)[0].release.statement.to_dict() == trained(rows=60)[0].release.statement.to_dict()


def test_the_bound_is_that_of_the_noise_less_eta():
    bound = trained()[0].release.statement.upper_bounds["rdp"]
    assert isinstance(bound, UpperBound)
    lessened = replace(RUN, noise_multiplier=RUN.noise_multiplier / (1 + ETA))
    assert bound.value == lessened.upper_bound(1e-6, "rdp").value > RUN.upper_bound(1e-6, "rdp").value


def test_an_accountant_without_an_answer_says_why():
    run = Mechanism(**vars(RUN) | {"adjacency": Adjacency.REPLACE_ONE})
    stated = trained(run)[0].release.statement.to_dict()
    assert stated["eps_ub"]["rdp"].startswith("no answer: Renyi")
    assert stated["eps_ub"]["pld"] > RUN.upper_bound(1e-6).value


def test_plain_sgd_claims_nothing():
    plain = PlainSGD(sampling=RUN.sampling, expected_batch=30.0, steps=4)
    stated = trained(plain)[0].release.statement.to_dict()
    assert stated["eps_ub"] == {}
    assert stated["assumptions"] == ["plain SGD adds no noise: nothing is proved of it"]
    no_noise = Mechanism(**vars(RUN) | {"noise_multiplier": 0.0})
    assert trained(no_noise)[0].release.statement.to_dict()["eps_ub"] == {"pld": "inf", "rdp": "inf"}


def test_accuracy_counts_every_record_once():
    model = nn.Linear(1, 2)
    weights = {"weight": torch.tensor([[0.0], [1.0]]), "bias": torch.zeros(2)}
    x = torch.ones(1201, 1)
    x[:300] = -1
    assert accuracy(model, weights, Records(x, torch.ones(1201, dtype=torch.int64), 2)) == 901 / 1201
