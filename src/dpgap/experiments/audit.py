"""Audit any training function of any framework, in one call."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dpgap.attacks.base import Attack
from dpgap.audits.base import Design
from dpgap.audits.result import Audit
from dpgap.audits.shadow_pairs import ShadowPairs
from dpgap.canaries.base import Canary
from dpgap.data.load import Splits, load
from dpgap.data.records import Canaries, Records
from dpgap.errors import IncomparableBounds, InvalidInput
from dpgap.experiments.backends.base import Backend
from dpgap.experiments.from_experiment import planted
from dpgap.experiments.from_function import Arrays, FunctionTraining, function_job
from dpgap.experiments.outputs import TrainFunction
from dpgap.experiments.progress import watched
from dpgap.experiments.run import run
from dpgap.privacy.mechanism import Adjacency
from dpgap.privacy.table import Question
from dpgap.privacy.upper_bound import UpperBound
from dpgap.store.store import DEFAULT_STORE, Store


def audit(
    train: TrainFunction,
    dataset: str | Records | Splits,
    canary: Canary | Canaries | None,
    *,
    design: Design | None = None,
    attack: Attack | None = None,
    upper_bound: UpperBound | None = None,
    question: Question | None = None,
    store: str | Path = DEFAULT_STORE,
    seed: int = 0,
    backend: Backend | None = None,
) -> Audit:
    """How much ``train`` betrays: models with the canary and without, attacked, and the bound that follows.

    ``train(x, y, seed)`` is called once for each model of ``design`` (400 in `ShadowPairs`, unless given),
    with the training rows, then the canary's where it is in: float32 and int64 NumPy arrays of its own, and
    a whole number below 2^32 that all its randomness must come from. It returns the model, in one of these
    types: a ``torch.nn.Module``; an object with ``predict_proba(x)``, as in scikit-learn; an object with
    ``logits(x)``; or a function ``score(x, y)`` whose values are higher for rows that were trained on. The
    first three are asked by ``attack`` (the loss, unless given); a function is itself the attack.

    ``upper_bound`` is the claim to be tested, such as ``UpperBound.claimed(1.0, delta=1e-5)``; ``question``
    gives the delta (the claim's, unless given), the confidence, and who the attacker is. What is trained is
    kept in ``store`` (":memory:" keeps nothing): interrupted, the same call goes on; with a ``Splits``
    the accuracy on test records stands in the result.

    **Guarantees**: those of the design's headline, for scores that are independent: so ``train`` must keep
    nothing from one call to the next. ``backend=Local(processes=2)`` sees to that, with a fresh process for
    each model, and so does a `RayCluster`. No two settings share results: the run is known by the function's
    name, source, defaults and captured values, and by the plain constants of its module that it names,
    together with data, canary, design, attack, question and seed. Code that it calls elsewhere is not looked
    at.

    **Edge cases**: one model is trained first, and the cost of all and the most that they can certify are
    told before they are spent. A ``train`` that ignores its seed is refused after two models of one world;
    one that fails for a model is noted and tried again by the next call, and the other models are kept.

    >>> import numpy as np, torch
    >>> def release_noisy_mean(x, y, seed):
    ...     mean = x[:, 0].mean() + np.random.default_rng(seed).normal()
    ...     return lambda rows, labels: np.full(len(rows), mean)
    >>> rows = Records(torch.zeros(9, 1), torch.zeros(9).long(), 2)
    >>> far = Canaries(torch.full((1, 1), 100.0), torch.tensor([0]))
    >>> found = audit(release_noisy_mean, rows, far, store=":memory:")
    >>> round(found.headline.value, 2), found.headline.validity
    (3.75, 'certified')
    """
    rows = _Rows.of(dataset, canary, design or ShadowPairs())
    worker = FunctionTraining(train=train, attack=attack, **vars(rows))
    job = function_job(worker, canary, _question(question, upper_bound), upper_bound, seed)
    with closing(Store(store)) as opened, watched() as watcher:
        return run(job, opened, backend=backend, watcher=watcher)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rows:
    """What is trained on, planted and tested with, as arrays."""

    design: Design
    records: Arrays
    canaries: Arrays | None
    test: Arrays | None

    @classmethod
    def of(cls, dataset: str | Records | Splits, canary: Canary | Canaries | None, design: Design) -> "_Rows":
        splits = load(dataset) if isinstance(dataset, str) else dataset
        records, test = splits if isinstance(splits, Splits) else (splits, None)
        rows = planted(canary, design.planted, records, None) if isinstance(canary, Canary) else canary
        count = len(rows) if rows else 0
        if count != design.planted:
            raise InvalidInput(
                f"canary must have {design.planted} rows for the design {design.id!r}, got {count}. Give as "
                "many rows, a canary such as Blank(label=9) that makes them, or another design."
            )
        return cls(
            design=design,
            records=_arrays(records),
            canaries=(rows.rows.numpy(), rows.labels.numpy()) if rows else None,
            test=_arrays(test) if test else None,
        )


def _arrays(records: Records) -> Arrays:
    return records.x.numpy(), records.y.numpy()


def _question(question: Question | None, upper_bound: UpperBound | None) -> Question:
    if question is None:
        question = Question() if upper_bound is None else Question(delta=upper_bound.delta)
    if question.adjacency != Adjacency.ADD_REMOVE:
        raise IncomparableBounds(
            f"adjacency must be add-remove where a function trains, got {question.adjacency.value!r}: a row "
            "is handed to train or it is not. State the claim for add-remove neighbours."
        )
    return question
