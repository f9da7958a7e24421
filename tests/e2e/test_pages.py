"""The pages that a newcomer follows, command by command, from a copy of the repository and nothing else."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.e2e.strangers import ROOT, typed

pytestmark = pytest.mark.e2e
BLOCK = re.compile(r'^```(sh|python)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
LEFT_BEHIND = (".git", ".venv", ".cache", "__pycache__", "site", "*.sqlite*")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository, in which `make quickstart` was the first command."""
    clone = tmp_path_factory.mktemp("newcomer") / "clone"
    shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns(*LEFT_BEHIND))
    (clone.parent / "said").write_text(run("make quickstart", clone))
    return clone


def run(block: str, clone: Path) -> str:
    path = f"{clone}/.venv/bin:{os.environ['PATH']}"
    constraints = str(clone / "constraints.txt")
    shell = ["bash", "-euo", "pipefail", "-c", block]
    return typed(shell, clone, clone.parent / "home", PATH=path, PIP_CONSTRAINT=constraints)


def follow(page: str, clone: Path) -> str:
    """Write the page's files and run its commands, in their order; everything that was printed."""
    said = ""
    for kind, title, content in BLOCK.findall((clone / "docs" / page).read_text("utf-8")):
        if kind == "sh":
            said += run(content, clone)
        elif title:
            (clone / title).write_text(content, "utf-8")
    return said


def test_quickstart_alone_installs_measures_the_gap_and_closes_it(clone):
    said = (clone.parent / "said").read_text()
    assert "The report is dpgap-quickstart.html" in said
    found = json.loads(run("dpgap quickstart --json", clone))
    without, filtered = found["without_filter"], found["with_filter"]
    assert without["models"] == filtered["models"] == 400
    assert without["eps_lb"] > 0.5
    assert filtered["eps_lb"] < 0.1
    assert filtered["eps_lb_paper"] < without["eps_lb_paper"] / 3
    assert without["accuracy"] - filtered["accuracy"] < 0.02
    assert without["eps_ub"] == filtered["eps_ub"] == pytest.approx(10.0, abs=0.01)
    assert (clone / found["report"]).stat().st_size < 5_000_000


def test_the_quickstart_s_commands_run(clone):
    said = follow("quickstart.md", clone)
    assert "is at least 2.22" in said
    assert "Claimed: at most 10." in said
    assert (clone / "scores.html").exists()


def test_a_model_of_one_s_own_is_audited_from_nothing(clone):
    said = follow("own-model.md", clone)
    assert "The claim is refuted: True" in said
    names = {path.name for path in clone.glob("mine*")}
    assert {"mine.py", "mine.sqlite", "mine.html", "mine-tradeoff.png", "mine-scores.png"} <= names


def test_reports_are_written_compared_and_exported(clone):
    follow("report.md", clone)
    assert "2 audits side by side" in (clone / "both.html").read_text("utf-8")
    assert len(list(clone.glob("*-removed.svg"))) == 1
    assert len(list(clone.glob("*-tradeoff.svg"))) == 2
