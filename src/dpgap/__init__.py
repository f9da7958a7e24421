"""How private a training run is, as two numbers: eps_ub, which is proved, and eps_lb, which is measured.

Names are loaded when they are first used (PEP 562), so that `import dpgap` costs nothing.
"""

import importlib
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpgap.attacks.lira import LiRA
    from dpgap.attacks.loss import LossAttack
    from dpgap.audits.every_record import CanaryThroughOthers, EveryRecord
    from dpgap.audits.group import Group
    from dpgap.audits.one_run import OneRun
    from dpgap.audits.result import Audit
    from dpgap.audits.shadow_pairs import ShadowPairs
    from dpgap.canaries.blank import Blank
    from dpgap.canaries.interpolated import Interpolated
    from dpgap.canaries.mislabelled import Mislabelled
    from dpgap.canaries.random_binary import RandomBinary
    from dpgap.data.augmentation import CropFlip
    from dpgap.data.load import load
    from dpgap.data.records import Canaries, Records
    from dpgap.errors import DpgapError, IncomparableBounds, InvalidInput, NoAnswer
    from dpgap.experiments.audit import audit
    from dpgap.experiments.backends.base import Backend
    from dpgap.experiments.backends.local import Local
    from dpgap.experiments.backends.ray import RayCluster
    from dpgap.experiments.experiment import Calibrated, Dataset, Experiment, Network
    from dpgap.experiments.from_experiment import run_experiment
    from dpgap.experiments.spec import read_experiments
    from dpgap.models.build import build_model
    from dpgap.privacy.accounting import calibrate
    from dpgap.privacy.counts import AuditScores, read_scores
    from dpgap.privacy.estimators import ClopperPearson, Gaussian, Jeffreys, JointBeta, SubsampledGaussian
    from dpgap.privacy.every_record import RecordBounds, bound_every_record, strongest_record
    from dpgap.privacy.guesses import BestGuesses, FixedGuesses, GuessGrid, HeldOutCanaries
    from dpgap.privacy.low_fpr import true_positive_rate
    from dpgap.privacy.lower_bound import LowerBound, lower_bound, one_record_bound
    from dpgap.privacy.mechanism import Adjacency, BallsInBins, Mechanism, Poisson, Shuffled
    from dpgap.privacy.one_run import one_run_bound
    from dpgap.privacy.paper import Paper, paper_bound
    from dpgap.privacy.planner import Plan, plan
    from dpgap.privacy.rules import AllThresholds, Band, Bonferroni, Fixed, HeldOut
    from dpgap.privacy.sequential import SequentialAudit
    from dpgap.privacy.study import finite_sample_study
    from dpgap.privacy.table import Question
    from dpgap.privacy.upper_bound import UpperBound
    from dpgap.report.page import write_report
    from dpgap.signatures.base import Signature
    from dpgap.signatures.gradient import CosineToUpdate, GradientNorm, Kurtosis, ProjectionVariability
    from dpgap.signatures.history import DirectionalUniqueness
    from dpgap.signatures.output import Entropy, InverseConfidence, Loss, Margin
    from dpgap.training.execution import Execution
    from dpgap.training.filter import Filter, SelectTop
    from dpgap.training.fleet.fleet import FleetResult, train_fleet
    from dpgap.training.options import PlainSGD, TrainingOptions
    from dpgap.training.release import Trained, save_release
    from dpgap.training.trainer import train

__all__ = [
    "Adjacency",
    "AllThresholds",
    "Audit",
    "AuditScores",
    "Backend",
    "BallsInBins",
    "Band",
    "BestGuesses",
    "Blank",
    "Bonferroni",
    "Calibrated",
    "Canaries",
    "CanaryThroughOthers",
    "ClopperPearson",
    "CosineToUpdate",
    "CropFlip",
    "Dataset",
    "DirectionalUniqueness",
    "DpgapError",
    "Entropy",
    "EveryRecord",
    "Execution",
    "Experiment",
    "Filter",
    "Fixed",
    "FixedGuesses",
    "FleetResult",
    "Gaussian",
    "GradientNorm",
    "Group",
    "GuessGrid",
    "HeldOut",
    "HeldOutCanaries",
    "IncomparableBounds",
    "Interpolated",
    "InvalidInput",
    "InverseConfidence",
    "Jeffreys",
    "JointBeta",
    "Kurtosis",
    "LiRA",
    "Local",
    "Loss",
    "LossAttack",
    "LowerBound",
    "Margin",
    "Mechanism",
    "Mislabelled",
    "Network",
    "NoAnswer",
    "OneRun",
    "Paper",
    "PlainSGD",
    "Plan",
    "Poisson",
    "ProjectionVariability",
    "Question",
    "RandomBinary",
    "RayCluster",
    "RecordBounds",
    "Records",
    "SelectTop",
    "SequentialAudit",
    "ShadowPairs",
    "Shuffled",
    "Signature",
    "SubsampledGaussian",
    "Trained",
    "TrainingOptions",
    "UpperBound",
    "__version__",
    "audit",
    "bound_every_record",
    "build_model",
    "calibrate",
    "finite_sample_study",
    "load",
    "lower_bound",
    "one_record_bound",
    "one_run_bound",
    "paper_bound",
    "plan",
    "read_experiments",
    "read_scores",
    "run_experiment",
    "save_release",
    "strongest_record",
    "train",
    "train_fleet",
    "true_positive_rate",
    "write_report",
]

__version__ = version("dpgap")

_NAMES_IN = {
    "dpgap.attacks.lira": ("LiRA",),
    "dpgap.attacks.loss": ("LossAttack",),
    "dpgap.audits.every_record": (
        "CanaryThroughOthers",
        "EveryRecord",
    ),
    "dpgap.audits.group": ("Group",),
    "dpgap.audits.one_run": ("OneRun",),
    "dpgap.audits.result": ("Audit",),
    "dpgap.audits.shadow_pairs": ("ShadowPairs",),
    "dpgap.canaries.blank": ("Blank",),
    "dpgap.canaries.interpolated": ("Interpolated",),
    "dpgap.canaries.mislabelled": ("Mislabelled",),
    "dpgap.canaries.random_binary": ("RandomBinary",),
    "dpgap.data.augmentation": ("CropFlip",),
    "dpgap.data.load": ("load",),
    "dpgap.data.records": (
        "Canaries",
        "Records",
    ),
    "dpgap.errors": (
        "DpgapError",
        "IncomparableBounds",
        "InvalidInput",
        "NoAnswer",
    ),
    "dpgap.experiments.audit": ("audit",),
    "dpgap.experiments.backends.base": ("Backend",),
    "dpgap.experiments.backends.local": ("Local",),
    "dpgap.experiments.backends.ray": ("RayCluster",),
    "dpgap.experiments.experiment": (
        "Calibrated",
        "Dataset",
        "Experiment",
        "Network",
    ),
    "dpgap.experiments.from_experiment": ("run_experiment",),
    "dpgap.experiments.spec": ("read_experiments",),
    "dpgap.models.build": ("build_model",),
    "dpgap.privacy.accounting": ("calibrate",),
    "dpgap.privacy.counts": (
        "AuditScores",
        "read_scores",
    ),
    "dpgap.privacy.estimators": (
        "ClopperPearson",
        "Gaussian",
        "Jeffreys",
        "JointBeta",
        "SubsampledGaussian",
    ),
    "dpgap.privacy.every_record": (
        "RecordBounds",
        "bound_every_record",
        "strongest_record",
    ),
    "dpgap.privacy.guesses": (
        "BestGuesses",
        "FixedGuesses",
        "GuessGrid",
        "HeldOutCanaries",
    ),
    "dpgap.privacy.low_fpr": ("true_positive_rate",),
    "dpgap.privacy.lower_bound": (
        "LowerBound",
        "lower_bound",
        "one_record_bound",
    ),
    "dpgap.privacy.mechanism": (
        "Adjacency",
        "BallsInBins",
        "Mechanism",
        "Poisson",
        "Shuffled",
    ),
    "dpgap.privacy.one_run": ("one_run_bound",),
    "dpgap.privacy.paper": (
        "Paper",
        "paper_bound",
    ),
    "dpgap.privacy.planner": (
        "Plan",
        "plan",
    ),
    "dpgap.privacy.rules": (
        "AllThresholds",
        "Band",
        "Bonferroni",
        "Fixed",
        "HeldOut",
    ),
    "dpgap.privacy.sequential": ("SequentialAudit",),
    "dpgap.privacy.study": ("finite_sample_study",),
    "dpgap.privacy.table": ("Question",),
    "dpgap.privacy.upper_bound": ("UpperBound",),
    "dpgap.report.page": ("write_report",),
    "dpgap.signatures.base": ("Signature",),
    "dpgap.signatures.gradient": (
        "CosineToUpdate",
        "GradientNorm",
        "Kurtosis",
        "ProjectionVariability",
    ),
    "dpgap.signatures.history": ("DirectionalUniqueness",),
    "dpgap.signatures.output": (
        "Entropy",
        "InverseConfidence",
        "Loss",
        "Margin",
    ),
    "dpgap.training.execution": ("Execution",),
    "dpgap.training.filter": (
        "Filter",
        "SelectTop",
    ),
    "dpgap.training.fleet.fleet": (
        "FleetResult",
        "train_fleet",
    ),
    "dpgap.training.options": (
        "PlainSGD",
        "TrainingOptions",
    ),
    "dpgap.training.release": (
        "Trained",
        "save_release",
    ),
    "dpgap.training.trainer": ("train",),
}
_MODULE_OF = {name: module for module, names in _NAMES_IN.items() for name in names}


def __getattr__(name: str) -> object:
    """Load a public name when it is first asked for."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'dpgap' has no attribute {name!r}. Its names are in dpgap.__all__.")
    try:
        module = importlib.import_module(_MODULE_OF[name])
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        message = (
            f"dpgap.{name} needs PyTorch, which the auditor's install leaves out: pip install 'dpgap[train]'"
        )
        raise ModuleNotFoundError(message, name="torch") from missing
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return __all__
