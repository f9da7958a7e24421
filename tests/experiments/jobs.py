"""Small audits that run in a blink, for tests of how audits are run."""

from functools import partial
from pathlib import Path

import numpy as np
import torch

from dpgap.audits.shadow_pairs import ShadowPairs
from dpgap.data.records import Canaries, Records
from dpgap.experiments.converter import from_plain
from dpgap.experiments.experiment import Experiment
from dpgap.experiments.from_function import FunctionTraining, function_job
from dpgap.experiments.job import Job
from dpgap.privacy.table import Question

RECORDS = Records(torch.zeros(4, 1), torch.zeros(4).long(), 2)
CANARY = Canaries(torch.ones(1, 1), torch.tensor([1]))
ROWS = {
    "records": (RECORDS.x.numpy(), RECORDS.y.numpy()),
    "canaries": (CANARY.rows.numpy(), CANARY.labels.numpy()),
    "test": None,
}


def noisy_sum(x, y, seed, scale=1.0):
    """The Gaussian mechanism on a sum: mu-GDP with mu = 1 / scale for rows of 0 and 1."""
    value = float(x.sum()) + scale * np.random.default_rng(seed).standard_normal()
    return lambda rows, labels: np.full(len(rows), value)


def noted(x, y, seed, log: Path):
    """`noisy_sum`, after a note in ``log`` that survives whatever happens next."""
    with log.open("a") as file:
        file.write(f"{seed}\n")
    return noisy_sum(x, y, seed)


def job(train=noisy_sum, design=None, **changes) -> Job:
    design = design or ShadowPairs(models=20)
    worker = FunctionTraining(train=train, attack=None, design=design, **ROWS)
    options = {"question": Question(), "upper_bound": None, "seed": 0} | changes
    return function_job(worker, CANARY, **options)


def noting(log: Path):
    return partial(noted, log=log)


SPEC = {
    "dataset": "digits",
    "model": "logistic",
    "canary": "random-binary",
    "training": {"learning_rate": 4.0},
    "mechanism": {
        "kind": "dp-sgd",
        "sampling": {"kind": "poisson", "rate": 0.1},
        "clip_norm": 1.0,
        "noise_multiplier": 1.0,
        "expected_batch": 143.0,
        "steps": 3,
    },
    "filter": "linf:1/class",
    "design": {"kind": "shadow-pairs", "models": 8},
}


def experiment(**changes) -> Experiment:
    return from_plain(SPEC | changes)
