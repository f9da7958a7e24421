"""How long bounds take: 60,000 records of 1,000 scores, one million scores, and the band's calibration.

Targets on 2 cores: the records in 20 s by each estimator, the million scores by `dpgap bound` in 30 s.
Write: make bench
"""

import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import scipy

from dpgap.privacy.estimators import ClopperPearson, Gaussian
from dpgap.privacy.every_record import bound_every_record
from dpgap.privacy.intervals import band_levels
from dpgap.privacy.rules import AllThresholds, Band


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print how long the block took."""
    start = time.perf_counter()
    yield
    print(f"{time.perf_counter() - start:8.2f} s  {what}", flush=True)


def every_record() -> None:
    """Bound 60,000 records, each in or out at random in 1,000 models, at every threshold."""
    draws = np.random.default_rng(0)
    scores = draws.standard_normal((60_000, 1000))
    included = draws.random(scores.shape) < 0.5
    for estimator, rule in (
        (ClopperPearson(), AllThresholds()),
        (Gaussian(), AllThresholds()),
        (ClopperPearson(), Band()),
    ):
        band_levels.cache_clear()
        with timed(f"60,000 records x 1,000 scores, {estimator.id}, {rule.id}"):
            bound_every_record(scores, included, estimator=estimator, rule=rule)


def million_scores() -> None:
    """Run the command line on two files of half a million scores."""
    draws = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, mean in (("inside", 1.0), ("outside", 0.0)):
            file = Path(folder) / f"{name}.csv"
            np.savetxt(file, draws.normal(mean, 1, 500_000), header="score", comments="")
            files.append(str(file))
        command = [sys.executable, "-c", "from dpgap.cli import main; main()", "bound", *files, "--json"]
        with timed("1,000,000 scores by `dpgap bound`, every estimator and rule"):
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def calibration() -> None:
    """Calibrate the band for worlds of several sizes."""
    for trials in (200, 1000, 10_000, 500_000):
        with timed(f"calibration of the band for {trials:,} scores"):
            band_levels(trials, 0.025)


if __name__ == "__main__":
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"numpy {np.__version__}, scipy {scipy.__version__}"
    )
    every_record()
    million_scores()
    calibration()
