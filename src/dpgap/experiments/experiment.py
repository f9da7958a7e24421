"""An audit as one value: everything that decides its result, and nothing else."""

import hashlib
import json
from dataclasses import dataclass, field, replace
from functools import cached_property

from dpgap import _check
from dpgap._plain import plain
from dpgap.attacks.base import Attack
from dpgap.attacks.loss import LossAttack
from dpgap.audits.base import Design
from dpgap.audits.comparable import check_comparable
from dpgap.audits.shadow_pairs import ShadowPairs
from dpgap.canaries.base import Canary
from dpgap.errors import InvalidInput, NoAnswer
from dpgap.privacy.accounting import calibrate
from dpgap.privacy.mechanism import Adjacency, Mechanism, Sampling
from dpgap.privacy.table import Question, curve_of
from dpgap.privacy.upper_bound import Accountant, UpperBound
from dpgap.training.filter import Filter
from dpgap.training.fleet.step import ETA
from dpgap.training.options import PlainSGD, TrainingOptions
from dpgap.training.statement import accounted

KEY_VERSION = 2
"""Part of every key; raised when an equal specification would train other models than before."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """What `load` is told; the folder of the files is no part of it, as it decides nothing."""

    name: str
    majority: float | None = None
    num_classes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Network:
    """What `build_model` is told: every model of an audit starts from the weights that ``seed`` gives."""

    name: str
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """DP-SGD with the least noise for which ``accountant`` proves ``epsilon``; else as `Mechanism`."""

    epsilon: float
    sampling: Sampling
    expected_batch: float
    steps: int
    clip_norm: float = 1.0
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    accountant: Accountant = "pld"

    def __post_init__(self) -> None:
        _check.positive(epsilon=self.epsilon, hint="It is the wanted eps_ub, such as 10.0.")
        # What a mechanism refuses is refused now, before its noise is searched for.
        Mechanism(
            sampling=self.sampling,
            clip_norm=self.clip_norm,
            noise_multiplier=0.0,
            expected_batch=self.expected_batch,
            steps=self.steps,
            adjacency=self.adjacency,
        )

    def mechanism(self, delta: float) -> Mechanism:
        """The mechanism itself, with noise for contributions of up to ``clip_norm (1 + ETA)``."""
        least = calibrate(
            self.epsilon,
            delta,
            sampling=self.sampling,
            clip_norm=self.clip_norm,
            expected_batch=self.expected_batch,
            steps=self.steps,
            adjacency=self.adjacency,
            accountant=self.accountant,
        )
        return replace(least, noise_multiplier=least.noise_multiplier * (1 + ETA))


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An audit of dpgap's own training: what is trained, planted, attacked and asked, and the seed.

    ``canary`` is what the design plants; a design that plants nothing takes none. ``delta`` is that of
    ``training``. `Execution`, the store and the folder of the data are no part of it: they change no score.

    **Guarantees**: `key` depends on the fields alone, and differs for any two that differ.

    **Edge cases**: a design whose neighbours are not the mechanism's, and an attack that learns where the
    design may stop early, are refused here; one that sees more than eps_ub covers before anything is trained.

    >>> from dpgap.canaries.blank import Blank
    >>> from dpgap.privacy.mechanism import Poisson
    >>> audit = Experiment(
    ...     dataset=Dataset(name="digits"), model=Network(name="mlp-32"), canary=Blank(label=3), seed=0,
    ...     training=TrainingOptions(learning_rate=4.0),
    ...     mechanism=Calibrated(epsilon=10, sampling=Poisson(rate=0.25), expected_batch=360, steps=100))
    >>> audit.title
    'digits, mlp-32, eps 10, no filter, blank, shadow-pairs, loss'
    """

    dataset: Dataset
    model: Network
    mechanism: Mechanism | Calibrated | PlainSGD
    training: TrainingOptions
    filter: Filter | None = None
    canary: Canary | None = None
    design: Design = field(default_factory=ShadowPairs)
    attack: Attack = field(default_factory=LossAttack)
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        _check.probability(
            confidence=self.confidence, hint="Write 0.95 for a claim wrong one time in twenty."
        )
        _check.count(seed=self.seed, at_least=0)
        if (self.canary is None) == (self.design.planted > 0):
            got = "none" if self.canary is None else f"{self.canary.id!r}"
            raise InvalidInput(
                f"canary must be given if and only if the design plants one: {self.design.id!r} plants "
                f"{self.design.planted}, got {got}. Name a canary such as 'blank', or leave it out."
            )
        check_comparable(self.design, self.attack, self.question, None)

    @property
    def key(self) -> str:
        """The name of this audit in every store."""
        from dpgap.experiments.converter import to_plain

        content = plain({"version": KEY_VERSION, "experiment": to_plain(self)})
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def title(self) -> str:
        """The audit in a line."""
        parts = (self.dataset.name, self.model.name, self._privacy, self._filter)
        canary = (self.canary.id,) if self.canary else ()
        return ", ".join((*parts, *canary, self.design.id, self.attack.id))

    @cached_property
    def resolved(self) -> Mechanism | PlainSGD:
        """The mechanism with its noise."""
        if isinstance(self.mechanism, Calibrated):
            return self.mechanism.mechanism(self.training.delta)
        return self.mechanism

    @property
    def question(self) -> Question:
        """What the scores are asked; the curve of DP-SGD is that of the mechanism."""
        adjacency = Adjacency.ADD_REMOVE if isinstance(self.mechanism, PlainSGD) else self.mechanism.adjacency
        private = not isinstance(self.mechanism, PlainSGD)
        return Question(
            delta=self.training.delta,
            confidence=self.confidence,
            adjacency=adjacency,
            threat_model=self.attack.threat_model,
            curve=curve_of(self.mechanism.sampling, self.mechanism.steps) if private else None,
        )

    @property
    def upper_bound(self) -> UpperBound | None:
        """eps_ub of the noise that is added; None where nothing is proved."""
        if isinstance(self.resolved, PlainSGD):
            return None
        try:
            return accounted(self.resolved, ETA).upper_bound(self.training.delta)
        except NoAnswer:
            return None

    @property
    def steps_per_epoch(self) -> float:
        """How many steps draw each record once on average."""
        return 1 / self.mechanism.sampling.rate

    @property
    def _privacy(self) -> str:
        match self.mechanism:
            case Calibrated(epsilon=epsilon):
                return f"eps {epsilon:g}"
            case Mechanism(noise_multiplier=noise):
                return f"noise {noise:g}"
            case PlainSGD():
                return "no noise"

    @property
    def _filter(self) -> str:
        if self.filter is None:
            return "no filter"
        return f"{self.filter.signature.name}:{self.filter.select.k}/{self.filter.select.scope}"
