"""Stores with a concluded run, made without training anything."""

from functools import cache
from pathlib import Path

import numpy as np

from dpgap._plain import plain
from dpgap.audits.result import Audit
from dpgap.privacy.accounting import calibrate
from dpgap.privacy.counts import AuditScores
from dpgap.privacy.estimators import Gaussian
from dpgap.privacy.mechanism import Mechanism, Poisson
from dpgap.privacy.paper import paper_bound
from dpgap.privacy.table import Question, every_bound
from dpgap.privacy.upper_bound import UpperBound
from dpgap.report.facts import Facts, facts_of
from dpgap.store.records import Conclusion, Description, ModelResult, Removals, Spread
from dpgap.store.store import Store

KEY = "ab" * 32
REMOVED = np.array([[0, 10, 20], [4, 1, 1], [8, 0, 1]])


def scores(separation: float = 2.0, models: int = 100, seed: int = 0) -> AuditScores:
    generator = np.random.default_rng(seed)
    return AuditScores(generator.normal(separation, 1, models), generator.normal(0, 1, models))


@cache
def mechanism() -> Mechanism:
    return calibrate(10.0, 1e-5, sampling=Poisson(rate=0.25), clip_norm=1.0, expected_batch=5, steps=12)


def audit_of(worlds: AuditScores, *, key: str = KEY, claim: UpperBound | None, **changed: object) -> Audit:
    bounds = [*every_bound(worlds, Question()), paper_bound(worlds, Gaussian(), delta=1e-5)]
    fields = {
        "title": "digits, eps 10",
        "design": "shadow-pairs",
        "status": "finished",
        "models": worlds.inside.size + worlds.outside.size,
        "planned": worlds.inside.size + worlds.outside.size,
        "upper_bound": claim,
        "bounds": tuple(bounds),
        "train_accuracy": Spread(mean=0.9, sd=0.01),
        "test_accuracy": Spread(mean=0.8, sd=0.02),
        "removals": Removals(planted=100, removed=90, median=8.0, steps_per_epoch=4.0),
        "seconds_per_model": 0.5,
        "looks": 16,
        "notes": (),
    }
    return Audit(key=key, **fields | changed)


def put(
    path: Path,
    worlds: AuditScores | None = None,
    *,
    key: str = KEY,
    independent: bool = True,
    claim: UpperBound | None = None,
    trained: bool = True,
    **changed: object,
) -> str:
    """Enter a concluded run into the store at ``path``; its key."""
    worlds = worlds or scores()
    claim = claim or (mechanism().upper_bound(1e-5) if trained else None)
    audit = audit_of(worlds, key=key, claim=claim, **changed)
    specification = {"experiment": {"dataset": "digits"}, "mechanism": plain(mechanism())} if trained else {}
    store = Store(path)
    store.add(
        Description(
            key=key,
            title=audit.title,
            specification=specification,
            inputs="",
            upper_bound=plain(claim),
        )
    )
    arrays = {"removed_by_class": REMOVED} if trained else {}
    results = [
        ModelResult(model=model, seconds=0.5, train_accuracy=0.9, test_accuracy=0.8, arrays=arrays)
        for model in range(2)
    ]
    store.commit(key, results, provenance={"versions": {"dpgap": "0"}}, device_kind="cpu test")
    store.look(key, audit.models, plain(audit.bounds))
    kept = Conclusion(
        audit=plain(audit), inside=worlds.inside, outside=worlds.outside, independent=independent
    )
    store.conclude(key, kept)
    store.close()
    return key


def facts(path: Path, *arguments: object, **changed: object) -> Facts:
    key = put(path, *arguments, **changed)
    return facts_of(Store(path, read_only=True), key)
