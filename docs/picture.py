"""Draw docs/picture.svg, the README's picture: what `dpgap bound` really prints for the example scores.

`make picture` runs this; a test holds that the picture is true.
"""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
COMMAND = ("dpgap", "bound", "examples/inside.csv", "examples/outside.csv")
COLUMNS = 84


def terminal_output() -> str:
    """What the command prints on a colour terminal of ``COLUMNS`` columns."""
    program = "import sys; from dpgap.cli import main; sys.argv[0] = 'dpgap'; main()"
    terminal = {"COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    return subprocess.run(
        [sys.executable, "-c", program, *COMMAND[1:]],
        cwd=ROOT,
        env=os.environ | terminal,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


def picture() -> str:
    """The command and its output as an SVG that needs no font from elsewhere."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text("$ " + " ".join(COMMAND), style="bold"))
    console.print(Text.from_ansi(terminal_output().rstrip()))
    drawn = console.export_svg(title="dpgap", unique_id="dpgap")
    return re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.DOTALL)


if __name__ == "__main__":
    (ROOT / "docs/picture.svg").write_text(picture(), encoding="utf-8")
