"""A stranger's first minutes: an empty home, an empty environment, and the commands of the README."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.e2e


def _run(command: list[str | Path], folder: Path, home: Path) -> str:
    """Standard output of ``command``, run in ``folder`` with an empty home and no Python settings."""
    home.mkdir(exist_ok=True)
    foreign = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "DPGAP_DATA", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    environment = {name: value for name, value in os.environ.items() if name not in foreign}
    environment["HOME"] = str(home)
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment that holds dpgap's wheel and its base dependencies only."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = ["-m", "pip", "--disable-pip-version-check", "--quiet"]
    _run([sys.executable, *pip, "wheel", "--no-deps", "-w", folder, ROOT], folder, folder / "home")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv/bin/python"
    (wheel,) = folder.glob("dpgap-*.whl")
    _run([python, *pip, "install", "-c", ROOT / "constraints.txt", wheel], folder, folder / "home")
    return python


def test_the_wheel_installs_no_torch(python: Path, tmp_path: Path):
    question = "from importlib.util import find_spec; print(find_spec('torch'))"
    assert _run([python, "-c", question], tmp_path, tmp_path / "home") == "None\n"


def test_the_wheel_tells_type_checkers_that_it_is_typed(python: Path, tmp_path: Path):
    question = "from importlib.resources import files; print((files('dpgap') / 'py.typed').is_file())"
    assert _run([python, "-c", question], tmp_path, tmp_path / "home") == "True\n"


def test_the_installed_command_names_its_verbs(python: Path, tmp_path: Path):
    shown = _run([python.with_name("dpgap"), "--help"], tmp_path, tmp_path / "home")
    assert all(verb in shown for verb in ("bound", "account", "plan"))


def test_the_installed_command_bounds_the_example_scores(python: Path, tmp_path: Path):
    files = [ROOT / "examples/inside.csv", ROOT / "examples/outside.csv"]
    shown = _run([python.with_name("dpgap"), "bound", *files], tmp_path, tmp_path / "home")
    assert "clopper-pearson" in shown
    assert "certified" in shown


def test_quickstart_alone_installs_and_shows_the_bounds(tmp_path: Path):
    clone = tmp_path / "clone"
    shutil.copytree(
        ROOT, clone, ignore=shutil.ignore_patterns(".git", ".venv", ".cache", "__pycache__", "site")
    )
    shown = _run(["make", "quickstart"], clone, tmp_path / "home")
    assert "certified" in shown
