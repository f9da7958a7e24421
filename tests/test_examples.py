"""The example files are what their script and their description say."""

import runpy
from pathlib import Path

import numpy as np

from dpgap.privacy.counts import read_scores

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_example_files_are_what_the_script_writes():
    scores = runpy.run_path(str(EXAMPLES / "make_scores.py"))["example_scores"]()
    for world in ("inside", "outside"):
        assert read_scores(EXAMPLES / f"{world}.csv").tolist() == scores[world]


def test_the_example_worlds_differ_by_the_stated_separation():
    inside, outside = (read_scores(EXAMPLES / f"{world}.csv") for world in ("inside", "outside"))
    assert inside.size == outside.size == 200
    assert abs(np.mean(inside) - np.mean(outside) - 2.0) < 4 * np.sqrt(2 / 200)
