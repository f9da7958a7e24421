"""The examples do what they and their descriptions say, each run as its reader would run it."""

import re
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from dpgap.cli import main
from dpgap.experiments.spec import read_experiments
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


def _printed(script: Path, folder: Path) -> str:
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def _certified(printed: str) -> float:
    found = re.search(r"certified eps_lb (\d+\.\d+)", printed)
    assert found, printed
    return float(found[1])


@pytest.mark.parametrize("bug", ["noise_omitted", "noise_divided_twice", "whole_batch_clipped"])
def test_a_planted_bug_is_refuted_by_a_certified_bound(bug, tmp_path):
    printed = _printed(EXAMPLES / "bugs" / f"{bug}.py", tmp_path)
    assert "claimed eps_ub 1.00" in printed
    assert "the claim is refuted" in printed
    assert _certified(printed) > 2


def test_dpsgd_done_right_is_not_refuted(tmp_path):
    assert "the claim is not refuted" in _printed(EXAMPLES / "bugs" / "dpsgd.py", tmp_path)


@pytest.mark.parametrize(
    ("framework", "least"), [("scikit_learn", 1.5), ("pytorch", 1.5), ("opacus", 0.0), ("jax", 1.5)]
)
def test_an_audit_runs_in_every_framework(framework, least, tmp_path):
    if framework == "jax" and find_spec("jax") is None:
        pytest.skip("JAX is no dependency of dpgap; its example runs where it is installed")
    script = EXAMPLES / "audits" / f"with_{framework}.py"
    assert len(script.read_text("utf-8").splitlines()) <= 40
    assert least <= _certified(_printed(script, tmp_path)) < 8
    assert list(tmp_path.glob("*.sqlite"))


def test_the_specification_audits_with_and_without_the_filter(tmp_path, capsys):
    spec = EXAMPLES / "digits.toml"
    without, filtered = read_experiments(spec)
    assert (without.filter, filtered.filter.select.k) == (None, 1)
    assert without.upper_bound.value == pytest.approx(10, rel=1e-3)
    small = ["--models", "4", "--set", "mechanism.steps=8", "--store", str(tmp_path / "store.sqlite")]
    main(["audit", str(spec), *small])
    shown = capsys.readouterr().out
    assert shown.count("Models: 4 of 4, finished") == 2
    assert shown.count("Canary: filtered in ") == 1
