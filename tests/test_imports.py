"""What stays unloaded: a command answers at once, and the auditor's install has no torch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SLOW = {"torch", "scipy.stats", "dp_accounting"}

# Records what is asked for, so that an import of a package that is not installed counts too.
PROBE = """
import json, sys

class Recorder:
    asked = set()

    def find_spec(self, name, path=None, target=None):
        self.asked.add(name)

sys.meta_path.insert(0, Recorder())
try:
    {statement}
except SystemExit as end:
    assert not end.code, end.code
finally:
    print(json.dumps(sorted(Recorder.asked)), file=sys.stderr)
"""


def _asked_for(statement: str) -> set[str]:
    """Every module that a fresh interpreter looks for while it runs ``statement``."""
    probe = PROBE.format(statement=statement)
    ended = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return set(json.loads(ended.stderr.splitlines()[-1]))


def _dpgap(*arguments: str) -> str:
    """The statement that runs the command line with ``arguments``."""
    return f"sys.argv = {['dpgap', *arguments]!r}; from dpgap.cli import main; main()"


def test_importing_dpgap_loads_no_slow_package():
    asked = _asked_for("import dpgap")
    assert "dpgap" in asked
    assert asked & SLOW == set()


def test_loading_every_name_of_the_numbers_loads_no_slow_package():
    numbers = "[name for name, module in dpgap._MODULE_OF.items() if module.startswith('dpgap.privacy')]"
    asked = _asked_for(f"import dpgap; [getattr(dpgap, name) for name in {numbers}]")
    assert "dpgap.privacy.lower_bound" in asked
    assert asked & SLOW == set()


@pytest.mark.parametrize("arguments", [("--help",), ("bound", "--help")])
def test_help_loads_no_slow_package(arguments: tuple[str, ...]):
    asked = _asked_for(_dpgap(*arguments))
    assert "dpgap.cli" in asked
    assert asked & SLOW == set()


def test_bound_never_loads_torch():
    asked = _asked_for(_dpgap("bound", str(EXAMPLES / "inside.csv"), str(EXAMPLES / "outside.csv")))
    assert "dpgap.privacy.lower_bound" in asked
    assert "torch" not in asked


def test_bound_with_a_mechanism_never_loads_torch():
    files = (str(EXAMPLES / "inside.csv"), str(EXAMPLES / "outside.csv"))
    asked = _asked_for(_dpgap("bound", *files, "--sample-rate", "0.1", "--steps", "10"))
    assert "dp_accounting" in asked
    assert "torch" not in asked
