"""The paper's first experiment at toy length: five epochs of real MNIST at eps 10, with a blank canary."""

import os
from pathlib import Path

import pytest
import torch

from dpgap.data.load import load
from dpgap.data.records import Canaries
from dpgap.models.build import build_model
from dpgap.privacy.accounting import calibrate
from dpgap.privacy.mechanism import Poisson
from dpgap.training.evaluate import accuracy
from dpgap.training.filter import parse_filter
from dpgap.training.options import TrainingOptions
from dpgap.training.release import Trained
from dpgap.training.trainer import train

DATA = Path(os.environ.get("DPGAP_DATA", "no-data-folder"))
BATCH, EPOCHS = 4000, 5
STEPS = 60_000 // BATCH


@pytest.fixture
def _one_thread():
    """Threads that share a busy core wait for each other ten times longer than they save."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def trained(rule: str | None) -> tuple[Trained, float]:
    train_set, test_set = load("mnist", DATA)
    run = calibrate(
        10.0,
        1e-5,
        sampling=Poisson(rate=BATCH / len(train_set)),
        clip_norm=1.0,
        expected_batch=float(BATCH),
        steps=EPOCHS * STEPS,
    )
    model = build_model("mnist-cnn", (1, 28, 28), 10, seed=0)
    result = train(
        train_set,
        model,
        run,
        parse_filter(rule, STEPS) if rule else None,
        options=TrainingOptions(learning_rate=3.0),
        canaries=Canaries(torch.zeros(1, 1, 28, 28), torch.tensor([9])),
        seed=1,
    )
    return result, accuracy(model, result.release.weights, test_set)


@pytest.mark.slow
@pytest.mark.usefixtures("_one_thread")
@pytest.mark.skipif(not (DATA / "mnist").exists(), reason="DPGAP_DATA names no folder with the real mnist")
def test_five_epochs_of_mnist_learn_and_the_blank_canary_leaves_in_the_first():
    (plain, without), (filtered, with_filter) = trained(None), trained("linf:5/class")
    left = int(filtered.private.removed_at[-1])
    print(
        f"\nMNIST, {EPOCHS} epochs at eps 10: accuracy {without:.2%} without the filter, {with_filter:.2%} "
        f"with linf:5/class; the blank canary left after epoch {left / STEPS:g}."
    )
    assert not plain.private.removed_at.any()
    assert len(filtered.private.removed) == 5 * 10 * EPOCHS
    assert 0 < left <= 3 * STEPS
    assert min(without, with_filter) > 0.85
    assert without - with_filter < 0.05
