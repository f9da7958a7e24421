"""All that a report says of one run, from its store or from two files of scores."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgap.privacy.counts import AuditScores
from dpgap.privacy.lower_bound import Interval, LowerBound
from dpgap.privacy.mechanism import Adjacency, BallsInBins, Mechanism, Poisson, Sampling, Shuffled
from dpgap.privacy.table import refutes
from dpgap.privacy.upper_bound import UpperBound
from dpgap.store.records import REMOVED_BY_CLASS, Removals, Spread
from dpgap.store.store import Store

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Facts:
    """One run. ``bounds`` begins with the headline; ``removed`` has an array for each model, if any was kept.

    ``status`` is "unknown" where nobody said how many models were planned. The worlds of ``scores`` differ by
    ``compared`` records, and with ``independent`` each score is of a model of its own.

    The rows of such an array are the moments at which records left: the step, then how many of each class;
    the first row has step 0 and the sizes of the classes. ``mechanism`` is None where the run added no noise
    or is somebody else's; ``looks`` where nobody counted. All but the bounds is private state.
    """

    title: str
    models: int
    upper_bound: UpperBound | None
    bounds: tuple[LowerBound, ...]
    scores: AuditScores
    independent: bool
    compared: int
    specification: dict[str, Any]
    key: str = ""
    created: str = ""
    device: str = ""
    status: str = "unknown"
    planned: int = 0
    failures: int = 0
    looks: int | None = None
    seconds_per_model: float | None = None
    train_accuracy: Spread | None = None
    test_accuracy: Spread | None = None
    removals: Removals | None = None
    steps_per_epoch: float | None = None
    mechanism: Mechanism | None = None
    removed: list[Ints] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    provenance: list[dict[str, Any]] = field(default_factory=list)

    @property
    def headline(self) -> LowerBound:
        """The certified bound that the audit was for."""
        return self.bounds[0]

    @property
    def certifies(self) -> bool:
        """Whether limits for all thresholds follow from the scores: no rule stopped at what they were."""
        return self.independent and self.headline.rule != "anytime"

    @property
    def filtered(self) -> bool | None:
        """Whether the training had a filter; None where that is not known."""
        trained = self.specification.get("experiment")
        return None if trained is None else trained.get("filter") is not None

    @property
    def refuted(self) -> bool:
        """Whether the headline exceeds eps_ub."""
        return refutes(self.headline, self.upper_bound)

    @property
    def paper(self) -> LowerBound | None:
        """The paper's own statistic, which is heuristic, where it was computed."""
        return next((bound for bound in self.bounds if bound.rule == "paper"), None)


def facts_of(store: Store, key: str) -> Facts:
    """The facts of run ``key``, as it was last concluded."""
    conclusion, description = store.conclusion(key), store.description(key)
    summary = next(each for each in store.experiments() if each.key == key)
    audit, mechanism = _numbers(conclusion.audit), _numbers(description.specification).get("mechanism")
    return Facts(
        key=key,
        title=description.title,
        created=summary.created,
        device=summary.device_kind or "unknown",
        status=audit["status"],
        models=audit["models"],
        planned=audit["planned"],
        failures=summary.failures,
        looks=summary.bounds,
        seconds_per_model=audit["seconds_per_model"],
        upper_bound=_upper_bound(audit["upper_bound"]),
        bounds=tuple(_lower_bound(bound) for bound in audit["bounds"]),
        train_accuracy=_record(Spread, audit["train_accuracy"]),
        test_accuracy=_record(Spread, audit["test_accuracy"]),
        removals=_record(Removals, audit["removals"]),
        scores=AuditScores(conclusion.inside, conclusion.outside),
        independent=conclusion.independent,
        compared=conclusion.compared,
        mechanism=_mechanism(mechanism),
        steps_per_epoch=None if mechanism is None else 1 / _sampling(mechanism["sampling"]).rate,
        removed=store.arrays(key, REMOVED_BY_CLASS),
        notes=tuple(audit["notes"]),
        specification=description.specification,
        provenance=store.provenance(key),
    )


def read_facts(path: Path, runs: Sequence[str]) -> list[Facts]:
    """The facts of ``runs``, keys or how they begin, of the store at ``path``."""
    with closing(Store(path, read_only=True)) as store:
        return [facts_of(store, store.find(run)) for run in runs]


def facts_of_scores(
    scores: AuditScores, bounds: Sequence[LowerBound], upper_bound: UpperBound | None, names: tuple[str, str]
) -> Facts:
    """The facts of two files of scores, one a model, of which nothing else is known."""
    return Facts(
        title=f"{names[0]} against {names[1]}",
        models=scores.inside.size + scores.outside.size,
        upper_bound=upper_bound,
        bounds=tuple(bounds),
        scores=scores,
        independent=True,
        compared=1,
        specification={"inside": names[0], "outside": names[1]},
    )


def _numbers(content: Any) -> Any:
    """Plain values with "inf" and "-inf" as numbers again."""
    if isinstance(content, Mapping):
        return {key: _numbers(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_numbers(value) for value in content]
    return float(content) if content in ("inf", "-inf") else content


def _record(kind: type[Any], content: Mapping[str, Any] | None) -> Any:
    """``kind`` from its own fields; what a newer version added is left out."""
    if content is None:
        return None
    return kind(**{field.name: content[field.name] for field in fields(kind) if field.name in content})


def _lower_bound(content: Mapping[str, Any]) -> LowerBound:
    return _record(
        LowerBound,
        {
            **content,
            "adjacency": Adjacency(content["adjacency"]),
            "assumptions": tuple(content["assumptions"]),
            "interval": _record(Interval, content["interval"]),
        },
    )


def _upper_bound(content: Mapping[str, Any] | None) -> UpperBound | None:
    if content is None:
        return None
    changed = {"adjacency": Adjacency(content["adjacency"]), "assumptions": tuple(content["assumptions"])}
    return _record(UpperBound, {**content, **changed})


def _mechanism(content: Mapping[str, Any] | None) -> Mechanism | None:
    """The mechanism of dpgap's own training; None for what has no noise multiplier."""
    if content is None or "noise_multiplier" not in content:
        return None
    adjacency = Adjacency(content["adjacency"])
    return _record(Mechanism, {**content, "adjacency": adjacency, "sampling": _sampling(content["sampling"])})


def _sampling(content: Mapping[str, Any]) -> Sampling:
    """Told by its fields, which no two kinds share."""
    kinds = (Poisson, Shuffled, BallsInBins)
    kind = next(kind for kind in kinds if {field.name for field in fields(kind)} == set(content))
    return _record(kind, content)
