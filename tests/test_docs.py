"""What the pages show is what the product does."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_readme_picture_is_what_the_command_prints():
    drawn = runpy.run_path(str(ROOT / "docs/picture.py"))["picture"]()
    assert drawn == (ROOT / "docs/picture.svg").read_text("utf-8"), "Write: make picture"


def test_the_picture_fetches_nothing():
    assert "url(http" not in (ROOT / "docs/picture.svg").read_text("utf-8")
