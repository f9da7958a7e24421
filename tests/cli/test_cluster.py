"""``dpgap audit --backend ray`` as a user types it, with the commands of the page "Run on a cluster"."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from dpgap.errors import InvalidInput
from dpgap.experiments.backends import ray
from dpgap.experiments.backends.ray import RayCluster
from dpgap.experiments.spec import to_toml
from dpgap.store.store import Store
from tests.experiments.jobs import experiment
from tests.experiments.light import Light

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/cluster.md").read_text("utf-8")
INSTALL, START, AUDIT = re.findall(r"```sh\n(.*)\n```", PAGE)
PORT = "6379"

# Where the tests run in the background of a shell, Ctrl-C is ignored, and so by all that they start.
HEARS_CTRL_C = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from dpgap.cli import main
main()
"""


@pytest.fixture(scope="module")
def port():
    """Where the command of the page, with a free port in place of the usual one, has started Ray."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        chosen = str(free.getsockname()[1])
    command = shlex.split(START.replace(PORT, chosen))
    command[0] = str(Path(sys.executable).with_name("ray"))
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as started:
        assert started.stdout is not None
        said = ""
        while "Ray runtime started" not in said:
            line = started.stdout.readline()
            assert line, said
            said += line
        yield chosen
        started.terminate()


def dpgap(*arguments: str, **options) -> subprocess.Popen:
    command = [sys.executable, "-c", HEARS_CTRL_C, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.fixture
def spec(tmp_path) -> str:
    (tmp_path / "spec.toml").write_text(to_toml(experiment(design={"kind": "shadow-pairs", "models": 4})))
    return str(tmp_path / "spec.toml")


def test_the_page_names_the_extra_that_installs_ray():
    assert INSTALL == "pip install 'dpgap[ray]'"


def test_the_command_of_the_page_prints_its_audits_and_nothing_of_rays(port, tmp_path):
    _, *arguments = shlex.split(AUDIT.replace(PORT, port))
    with dpgap(*arguments, "--json", "--store", str(tmp_path / "store.sqlite"), cwd=ROOT) as audit:
        printed, said = audit.communicate()
    assert (audit.returncode, said) == (0, "")
    assert [each["models"] for each in json.loads(printed)["audits"]] == [2, 2]


def test_a_worker_killed_costs_one_line_and_ctrl_c_cancels_what_is_under_way(port, spec, tmp_path):
    chunks = ("--models=400", "--models-at-once=1", "--set=mechanism.steps=200", "--json")
    audit = dpgap("audit", spec, *chunks, "--backend=ray", f"--address=127.0.0.1:{port}", cwd=tmp_path)
    victim, *_ = _until(lambda: _kept(tmp_path) >= 1 and _training(port), audit)
    os.kill(victim, signal.SIGKILL)
    kept = _kept(tmp_path)
    _until(lambda: _kept(tmp_path) > kept and _training(port), audit)
    os.kill(audit.pid, signal.SIGINT)
    printed, said = audit.communicate()
    assert (audit.returncode, printed) == (130, ""), said
    lost, interrupted = said.splitlines()
    assert "was lost (WorkerCrashedError), and with it models " in lost
    assert "of 400 models kept in dpgap.sqlite. Run the same again to go on." in interrupted
    _until(lambda: not _training(port))


def _until(found: Callable[[], Any], audit: subprocess.Popen | None = None) -> Any:
    limit = time.monotonic() + 60
    while not (value := found()):
        assert audit is None or audit.poll() is None, audit.communicate()
        assert time.monotonic() < limit
        time.sleep(0.05)
    return value


def _kept(folder: Path) -> int:
    if not (folder / "dpgap.sqlite").exists():
        return 0
    with closing(Store(folder / "dpgap.sqlite")) as store:
        return sum(run.models for run in store.experiments())


def _training(port: str) -> list[int]:
    """The processes that train for the cluster of ``port``: Ray names them after what they run."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit() and "_trained_there" in (folder / "cmdline").read_text():
                parent = re.search(r"PPid:\s+(\d+)", (folder / "status").read_text())
                if parent and f":{port}" in Path("/proc", parent[1], "cmdline").read_text():
                    found.append(int(folder.name))
    return found


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--backend", "ray", "--processes", "2"), "processes must be left out with --backend ray, got 2"),
        (("--address", "head:6379"), "address must be left out with --backend local, got 'head:6379'"),
        (("--backend", "ray", "--address", "ray://head:10001"), "address must be 'auto' or host:port"),
        (("--backend", "ray", "--address", "127.0.0.1:1"), "Connection refused"),
        (("--backend", "ray"), "got '127.0.0.1:2', where none can be joined"),
    ],
)
def test_a_flag_or_address_that_cannot_be_right_ends_with_one_message_in_seconds(spec, tmp_path, flags, said):
    began = time.monotonic()
    environment = os.environ | {"RAY_ADDRESS": "127.0.0.1:2"}
    with dpgap("audit", spec, *flags, cwd=tmp_path, env=environment) as audit:
        _, shown = audit.communicate()
    assert audit.returncode == 2
    assert shown.startswith("dpgap: ")
    assert "Traceback" not in shown
    assert said in shown
    assert time.monotonic() - began < 15


def test_a_port_that_is_not_rays_is_refused_in_seconds(monkeypatch):
    monkeypatch.setattr(ray, "_REACHED_WITHIN_S", 3.0)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        cluster = RayCluster(address=f"127.0.0.1:{deaf.getsockname()[1]}")
        with pytest.raises(InvalidInput, match="no answer"), cluster.opened(Light()):
            pass
