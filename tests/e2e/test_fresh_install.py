"""A stranger's first minutes: an empty home, an empty environment, and the commands of the README."""

import sys
import venv
from pathlib import Path

import pytest

from tests.e2e.strangers import ROOT, typed

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment that holds dpgap's wheel and its base dependencies only."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = ["-m", "pip", "--disable-pip-version-check", "--quiet"]
    typed([sys.executable, *pip, "wheel", "--no-deps", "-w", folder, ROOT], folder, folder / "home")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv/bin/python"
    (wheel,) = folder.glob("dpgap-*.whl")
    typed([python, *pip, "install", "-c", ROOT / "constraints.txt", wheel], folder, folder / "home")
    return python


def test_the_wheel_installs_no_torch(python: Path, tmp_path: Path):
    question = "from importlib.util import find_spec; print(find_spec('torch'))"
    assert typed([python, "-c", question], tmp_path, tmp_path / "home") == "None\n"


def test_the_wheel_tells_type_checkers_that_it_is_typed(python: Path, tmp_path: Path):
    question = "from importlib.resources import files; print((files('dpgap') / 'py.typed').is_file())"
    assert typed([python, "-c", question], tmp_path, tmp_path / "home") == "True\n"


def test_the_installed_command_names_its_verbs(python: Path, tmp_path: Path):
    shown = typed([python.with_name("dpgap"), "--help"], tmp_path, tmp_path / "home")
    assert all(verb in shown for verb in ("bound", "account", "plan"))


def test_the_installed_command_bounds_the_example_scores(python: Path, tmp_path: Path):
    files = [ROOT / "examples/inside.csv", ROOT / "examples/outside.csv"]
    shown = typed([python.with_name("dpgap"), "bound", *files], tmp_path, tmp_path / "home")
    assert "clopper-pearson" in shown
    assert "certified" in shown


def test_the_auditors_install_writes_a_report_of_scores(python: Path, tmp_path: Path):
    files = [ROOT / "examples/inside.csv", ROOT / "examples/outside.csv"]
    command = [python.with_name("dpgap"), "bound", *files, "--claim", "2", "--report", "scores.html"]
    assert "Claimed: at most 2, which is refuted." in typed(command, tmp_path, tmp_path / "home")
    assert "<svg" in (tmp_path / "scores.html").read_text("utf-8")
