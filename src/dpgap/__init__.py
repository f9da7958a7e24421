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
    from dpgap.privacy.every_record import RecordBounds, bound_every_record, strongest_record
    from dpgap.privacy.guesses import BestGuesses, FixedGuesses, GuessGrid, HeldOutCanaries
    from dpgap.privacy.lower_bound import LowerBound, lower_bound, one_record_bound
    from dpgap.privacy.mechanism import Adjacency, BallsInBins, Mechanism, Poisson, Shuffled
    from dpgap.privacy.one_run import one_run_bound
    from dpgap.privacy.paper import Paper, paper_bound
    from dpgap.privacy.planner import Plan, plan
    from dpgap.privacy.rules import AllThresholds, Band, Bonferroni, Fixed, HeldOut
    from dpgap.privacy.sequential import SequentialAudit
    from dpgap.privacy.study import finite_sample_study

__all__ = [
    "Adjacency",
    "AllThresholds",
    "AuditScores",
    "BallsInBins",
    "Band",
    "BestGuesses",
    "Bonferroni",
    "ClopperPearson",
    "DpgapError",
    "Fixed",
    "FixedGuesses",
    "Gaussian",
    "GuessGrid",
    "HeldOut",
    "HeldOutCanaries",
    "IncomparableBounds",
    "InvalidInput",
    "Jeffreys",
    "JointBeta",
    "LowerBound",
    "Mechanism",
    "NoAnswer",
    "Paper",
    "Plan",
    "Poisson",
    "RecordBounds",
    "SequentialAudit",
    "Shuffled",
    "SubsampledGaussian",
    "UpperBound",
    "__version__",
    "bound_every_record",
    "calibrate",
    "finite_sample_study",
    "lower_bound",
    "one_record_bound",
    "one_run_bound",
    "paper_bound",
    "plan",
    "read_scores",
    "strongest_record",
]

__version__ = version("dpgap")

_NAMES_IN = {
    "dpgap.errors": ("DpgapError", "IncomparableBounds", "InvalidInput", "NoAnswer"),
    "dpgap.privacy.accounting": ("UpperBound", "calibrate"),
    "dpgap.privacy.counts": ("AuditScores", "read_scores"),
    "dpgap.privacy.estimators": ("ClopperPearson", "Gaussian", "Jeffreys", "JointBeta", "SubsampledGaussian"),
    "dpgap.privacy.every_record": ("RecordBounds", "bound_every_record", "strongest_record"),
    "dpgap.privacy.guesses": ("BestGuesses", "FixedGuesses", "GuessGrid", "HeldOutCanaries"),
    "dpgap.privacy.lower_bound": ("LowerBound", "lower_bound", "one_record_bound"),
    "dpgap.privacy.mechanism": ("Adjacency", "BallsInBins", "Mechanism", "Poisson", "Shuffled"),
    "dpgap.privacy.one_run": ("one_run_bound",),
    "dpgap.privacy.paper": ("Paper", "paper_bound"),
    "dpgap.privacy.planner": ("Plan", "plan"),
    "dpgap.privacy.rules": ("AllThresholds", "Band", "Bonferroni", "Fixed", "HeldOut"),
    "dpgap.privacy.sequential": ("SequentialAudit",),
    "dpgap.privacy.study": ("finite_sample_study",),
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
