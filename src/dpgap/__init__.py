"""How private a training run is, as two numbers: eps_ub, which is proved, and eps_lb, which is measured.

Names are loaded when they are first used (PEP 562), so that `import dpgap` costs nothing.
"""

import importlib
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpgap.errors import DpgapError, IncomparableBounds, InvalidInput, NoAnswer
    from dpgap.privacy.accounting import UpperBound, calibrate
    from dpgap.privacy.counts import AuditScores, read_scores
    from dpgap.privacy.estimators import ClopperPearson, Gaussian, Jeffreys, JointBeta, SubsampledGaussian
    from dpgap.privacy.lower_bound import LowerBound, lower_bound
    from dpgap.privacy.mechanism import Adjacency, BallsInBins, Mechanism, Poisson, Shuffled
    from dpgap.privacy.rules import AllThresholds, Band, Bonferroni, Fixed, HeldOut

__all__ = [
    "Adjacency",
    "AllThresholds",
    "AuditScores",
    "BallsInBins",
    "Band",
    "Bonferroni",
    "ClopperPearson",
    "DpgapError",
    "Fixed",
    "Gaussian",
    "HeldOut",
    "IncomparableBounds",
    "InvalidInput",
    "Jeffreys",
    "JointBeta",
    "LowerBound",
    "Mechanism",
    "NoAnswer",
    "Poisson",
    "Shuffled",
    "SubsampledGaussian",
    "UpperBound",
    "__version__",
    "calibrate",
    "lower_bound",
    "read_scores",
]

__version__ = version("dpgap")

_NAMES_IN = {
    "dpgap.errors": ("DpgapError", "IncomparableBounds", "InvalidInput", "NoAnswer"),
    "dpgap.privacy.accounting": ("UpperBound", "calibrate"),
    "dpgap.privacy.counts": ("AuditScores", "read_scores"),
    "dpgap.privacy.estimators": ("ClopperPearson", "Gaussian", "Jeffreys", "JointBeta", "SubsampledGaussian"),
    "dpgap.privacy.lower_bound": ("LowerBound", "lower_bound"),
    "dpgap.privacy.mechanism": ("Adjacency", "BallsInBins", "Mechanism", "Poisson", "Shuffled"),
    "dpgap.privacy.rules": ("AllThresholds", "Band", "Bonferroni", "Fixed", "HeldOut"),
}
_MODULE_OF = {name: module for module, names in _NAMES_IN.items() for name in names}


def __getattr__(name: str) -> object:
    """Load a public name when it is first asked for."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'dpgap' has no attribute {name!r}. Its names are in dpgap.__all__.")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return __all__
