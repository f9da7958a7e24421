"""Commands as somebody types them who has just come: an empty home, no settings of Python's."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "DPGAP_DATA", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")


def typed(command: list[str | Path], folder: Path, home: Path, **settings: str) -> str:
    """Standard output of ``command``, run in ``folder`` with an empty home; it must succeed."""
    home.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    environment |= {"HOME": str(home)} | settings
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout
