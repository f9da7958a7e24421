"""What made a chunk: versions, machine, revision."""

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_PACKAGES = ("dpgap", "numpy", "scipy", "torch", "scikit-learn", "dp-accounting", "opacus", "jax")


def cpu_kind() -> str:
    """The kind of device that this machine's processor is."""
    return f"cpu {platform.machine()}"


def device_kind(device: "torch.device") -> str:
    """The kind of ``device``: models of one audit are trained on one kind, as rounding differs."""
    if device.type == "cpu":
        return cpu_kind()
    import torch

    return f"{device.type} {torch.cuda.get_device_name(device)}"


@cache
def provenance() -> dict[str, Any]:
    """Versions of what is installed, the kind of machine, and the revision of the folder worked in."""
    return {
        "versions": {"python": platform.python_version()} | _versions(),
        "machine": f"{platform.system()} {platform.machine()}",
        "revision": _revision(),
    }


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _revision() -> str | None:
    """The commit that is checked out here, with a "+" if files differ from it; None outside of git."""
    try:
        told = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stdout.strip() or None
