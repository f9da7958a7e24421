"""Contract kits for the extension points: run one on your own variant, in your own tests."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from dpgap._digest import digest
from dpgap.attacks.base import Attack
from dpgap.audits.base import Assignment, Design, Evidence
from dpgap.audits.shadow_pairs import ShadowPairs
from dpgap.canaries.base import Canary
from dpgap.canaries.blank import Blank
from dpgap.data.records import Records
from dpgap.experiments.backends.base import Backend, Chunk
from dpgap.experiments.converter import from_plain, to_plain
from dpgap.experiments.experiment import Dataset, Experiment, Network
from dpgap.experiments.job import Failure, Outcome, Worker
from dpgap.experiments.provenance import cpu_kind
from dpgap.privacy.lower_bound import ThreatModel
from dpgap.privacy.mechanism import Poisson
from dpgap.privacy.table import Question
from dpgap.signatures.base import RecordView, Signature
from dpgap.store.records import ModelResult
from dpgap.training.execution import Execution
from dpgap.training.options import PlainSGD, TrainingOptions

RECORDS, PARAMETERS, CLASSES, DRAWS, DESIGNED = 11, 37, 5, 3, 5
SPOILERS = (float("nan"), float("inf"), 1e38, 1e-42)


def check_signature(signature: Signature) -> None:
    """Raise an AssertionError unless ``signature`` keeps rule 1 of the privacy contract on hard numbers.

    Checked bit for bit, after none, one and more earlier draws of the same records: a score is the same
    when it is computed again, alone, in any other order, in part of a batch, from another buffer, and
    beside records that are NaN, infinite, huge or denormal; so is what the signature remembers. Ordinary
    records, zero gradients and certain predictions have finite scores, so that they can be ordered.

    **Edge cases**: passing proves nothing about inputs that were not tried; a signature that implements
    `Signature.score` as a function of its arguments alone keeps the rule by construction.

    >>> from dpgap.signatures.output import Margin
    >>> check_signature(Margin())
    """
    memory = signature.fresh_memory(RECORDS)
    for draw in range(DRAWS):
        view = _view(draw)
        scores, after = signature.scores(view, memory.clone())
        _expect(
            scores.shape == (RECORDS,), signature, f"return one score a record, got {tuple(scores.shape)}"
        )
        _expect(after.shape == memory.shape, signature, f"keep its memory's shape, got {tuple(after.shape)}")
        _expect(bool(scores.isfinite().all()), signature, "order ordinary records by finite scores")
        _check_blindness(signature, view, memory, (scores, after))
        memory = after


def _check_blindness(
    signature: Signature, view: RecordView, memory: Tensor, expected: tuple[Tensor, Tensor]
) -> None:
    """Every way of computing the same records gives the same bits."""
    order = torch.randperm(RECORDS, generator=torch.Generator().manual_seed(RECORDS))
    everyone = torch.arange(RECORDS)
    ways = {"when computed again": everyone, "in another order": order, "in part of a batch": order[:4]}
    ways |= {"alone": everyone[:1], "alone, from elsewhere": everyone[7:8], "in nobody's company": order[:0]}
    for way, rows in ways.items():
        got = signature.scores(_rows(view, rows), memory[rows])
        _expect_same(signature, got, expected, rows, way)
    got = signature.scores(_elsewhere(view), memory)
    _expect_same(signature, got, expected, everyone, "from another buffer")
    for spoiler in SPOILERS:
        others = everyone[1::2]
        got = signature.scores(_spoilt(view, others, spoiler), memory)
        kept = (got[0][::2], got[1][::2])
        _expect_same(signature, kept, expected, everyone[::2], f"beside records that are {spoiler:g}")


def _view(draw: int) -> RecordView:
    """Ordinary, large, small, constant and zero gradients; one prediction is certain."""
    generator = torch.Generator().manual_seed(draw)
    sizes = torch.tensor([1.0, 1e-3, 1e3, 1e10, 1e-30, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    gradients = torch.randn(RECORDS, PARAMETERS, generator=generator) * sizes[:, None]
    gradients[5] = 0.25
    logits = 3 * torch.randn(RECORDS, CLASSES, generator=generator)
    logits[8, 0] = 1e4
    labels = torch.randint(CLASSES, (RECORDS,), generator=generator)
    return RecordView(
        logits=logits,
        labels=labels,
        losses=torch.nn.functional.cross_entropy(logits, labels, reduction="none"),
        gradients=gradients,
        clip_norm=1.0,
        displacement=torch.randn(PARAMETERS, generator=generator) * draw,
    )


ROWS = ("logits", "labels", "losses", "gradients")


def _rows(view: RecordView, rows: Tensor) -> RecordView:
    return replace(view, **{name: getattr(view, name)[rows] for name in ROWS})


def _spoilt(view: RecordView, rows: Tensor, value: float) -> RecordView:
    """The same view with every number of ``rows`` replaced."""
    spoilt = {name: getattr(view, name).clone() for name in ("logits", "losses", "gradients")}
    for values in spoilt.values():
        values[rows] = value
    return replace(view, **spoilt)


def _elsewhere(view: RecordView) -> RecordView:
    """The same numbers in rows that are apart, at another alignment."""
    return replace(view, **{name: _shifted(getattr(view, name)) for name in ROWS})


def _shifted(values: Tensor) -> Tensor:
    wide = torch.stack([values, values, values], dim=-1).reshape(-1)
    wide = torch.cat([wide[:1], wide])
    return wide[1::3].view(values.shape) if values.ndim == 1 else wide[1:].view(*values.shape, 3)[..., 0]


def _expect(holds: bool, variant: object, claim: str) -> None:
    if not holds:
        raise AssertionError(f"{type(variant).__name__} must {claim}.")


def _expect_same(
    signature: Signature,
    got: tuple[Float[Tensor, " B"], Float[Tensor, "B ..."]],
    expected: tuple[Float[Tensor, " N"], Float[Tensor, "N ..."]],
    rows: Tensor,
    way: str,
) -> None:
    for kind, ours, theirs in zip(("scores", "memories"), got, expected, strict=True):
        same = torch.equal(ours.view(torch.int32), theirs[rows].view(torch.int32))
        _expect(same, signature, f"give a record the same {kind}, to the last bit, {way}")


def check_canary(canary: Canary) -> None:
    """Raise an AssertionError unless ``canary`` plants the same usable rows whenever it is asked.

    Checked for one row and for several: their number and shape, labels among the classes, the same bits
    when asked again and whatever the state of PyTorch's global generator, that state, the records and the
    model untouched, rows that share no memory with the records, and that a file can name the canary.

    **Edge cases**: the records are 40 rows of 10 classes, so that a label or an image of class 9 is there.

    >>> from dpgap.canaries.blank import Blank
    >>> check_canary(Blank())
    """
    records, model = _digits()
    before = digest(*_numbers(records, model))
    for count in (1, 3):
        planted = canary.plant(records, model, count)
        _expect(len(planted) == count, canary, f"plant the {count} rows asked for, got {len(planted)}")
        records.with_canaries(planted)
        state = torch.manual_seed(count).get_state()
        again = canary.plant(records, model, count)
        untouched = torch.equal(torch.get_rng_state(), state)
        _expect(untouched, canary, "leave the global generator alone")
        same = torch.equal(planted.rows, again.rows) and torch.equal(planted.labels, again.labels)
        _expect(same, canary, "plant the same rows when asked again")
        planted.rows.fill_(7.0)
        _expect(digest(*_numbers(records, model)) == before, canary, "leave records and model as they are")
    _check_named_in_files(canary=canary)


def check_attack(attack: Attack) -> None:
    """Raise an AssertionError unless ``attack`` gives scores that a certified bound may be made of.

    Checked: a statistic a row that is a function of that row alone, never NaN where probabilities are 0
    or 1; and of the scores that they leave out every model that they learn from: those of an attacked
    model do not change with its own bits, nor with another attacked model's bits or statistics. An attack
    that sees what no eps_ub covers, or that a file cannot name, fails.

    **Edge cases**: 24 models of 3 canaries; an attack that must learn from more cannot be checked.

    >>> from dpgap.attacks.loss import LossAttack
    >>> check_attack(LossAttack())
    """
    _expect(attack.threat_model in get_args(ThreatModel), attack, f"see one of {get_args(ThreatModel)}")
    _check_statistic(attack)
    _check_independence(attack)
    _check_named_in_files(attack=attack)


def check_design(design: Design) -> None:
    """Raise an AssertionError unless ``design`` assigns and bounds as its guarantee says.

    Checked with 5 training records: assignments that depend on their arguments alone, a seed of its own
    for each model, both worlds filled; a headline that is certified, speaks of the question asked, is
    positive for a perfect attack and 0 for one that sees nothing; a `decision` exactly where the design
    may stop early; and that a file can name the design.

    **Edge cases**: a design of too few models for any bound fails. Whether a certified bound keeps its
    level is a question for statistics: audit mechanisms whose epsilon is known.

    >>> from dpgap.audits.shadow_pairs import ShadowPairs
    >>> check_design(ShadowPairs(models=20))
    """
    _check_assignments(design)
    _check_bounds(design)
    canary = Blank() if design.planted else None
    _check_named_in_files(design=design, canary=canary)


def check_backend(backend: Backend) -> None:
    """Raise an AssertionError unless ``backend`` gives back each chunk once, as its worker made it.

    Checked with four chunks of two models: every model comes back once, its arrays to the last bit and
    writable; a chunk whose worker raises comes back as failures that say why, and costs no other; no chunk is
    asked for before there is room; the kind of device is the worker's; and a run that is broken off after one
    chunk, then begun again, gives the same.

    **Edge cases**: that a worker or a machine may die is not checked, as only the backend knows how to kill.

    >>> from dpgap.experiments.backends.local import Local
    >>> check_backend(Local())
    """
    worker = _Rounds(execution=Execution(device="cpu"))
    chunks = [[_assigned(2 * chunk), _assigned(2 * chunk + 1)] for chunk in range(4)]
    asked: list[Chunk] = []
    with backend.opened(worker) as crew:
        _expect(crew.device_kind == worker.device_kind(), backend, "train on the worker's kind of device")
        _expect(crew.at_once >= 1 and "versions" in crew.provenance, backend, "say what trains")
        with closing(crew.train(_noted(chunks, asked))) as broken_off:
            next(broken_off)
        # One chunk may wait beside those that are trained, and one may have been begun in place of the first.
        _expect(len(asked) <= crew.at_once + 2, backend, f"ask for chunks one by one, took {len(asked)}")
        outcomes = [outcome for chunk in crew.train(iter(chunks)) for outcome in chunk]
    outcomes.sort(key=lambda outcome: outcome.model)
    expected = [_round(model) for model in range(8)]
    models = [outcome.model for outcome in outcomes]
    _expect(models == list(range(8)), backend, f"give every model back once, got {models}")
    for outcome, arrays in zip(outcomes, expected, strict=True):
        if isinstance(outcome, Failure):
            _expect("out of luck" in outcome.message, backend, f"say why, got {outcome.message!r}")
            _expect(outcome.model in _UNLUCKY, backend, f"train model {outcome.model}")
        else:
            _expect(outcome.model not in _UNLUCKY, backend, "report the chunk that fails")
            same = digest(*outcome.arrays.values()) == digest(*arrays.values())
            _expect(same, backend, "give back what the worker made, to the last bit")
            _expect(outcome.arrays["noise"].flags.writeable, backend, "give back arrays that can be written")


_UNLUCKY = (4, 5)


def _assigned(model: int) -> Assignment:
    return Assignment(model=model, seed=model, canaries=np.array([model % 2 == 0]))


def _round(model: int) -> dict[str, np.ndarray]:
    noise = np.random.default_rng(model).standard_normal(RECORDS)
    return {"noise": noise, "hash": np.arange(model, model + 3, dtype=np.uint8)}


def _noted(chunks: Sequence[Chunk], asked: list[Chunk]) -> Iterator[Chunk]:
    for chunk in chunks:
        asked.append(chunk)
        yield chunk


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rounds(Worker):
    """Makes of a model what its seed says, and fails for one chunk."""

    def __call__(self, assignments: Sequence[Assignment]) -> list[Outcome]:
        if assignments[0].model in _UNLUCKY:
            raise RuntimeError("out of luck")
        accuracy = {"train_accuracy": None, "test_accuracy": 1.0}
        return [
            ModelResult(model=each.model, seconds=1.0, arrays=_round(each.seed), **accuracy)
            for each in assignments
        ]

    def device_kind(self) -> str:
        return cpu_kind()

    def data(self) -> str:
        return "none"


def _digits() -> tuple[Records, nn.Module]:
    """Forty random images of ten classes, and an untrained network."""
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(40, 1, 4, 4, generator=generator)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 10))
    for weights in model.parameters():
        nn.init.normal_(weights, generator=generator)
    return Records(images, torch.arange(40) % 10, 10), model


def _numbers(records: Records, model: nn.Module) -> list[np.ndarray]:
    return [value.numpy() for value in (records.x, records.y, *model.state_dict().values())]


def _check_named_in_files(**part: Any) -> None:
    """An experiment with this part comes back from plain values as it was."""
    parts = {"canary": Blank(), "design": ShadowPairs(models=20)} | part
    experiment = Experiment(
        dataset=Dataset(name="digits"),
        model=Network(name="logistic"),
        mechanism=PlainSGD(sampling=Poisson(rate=0.1), expected_batch=144.0, steps=20),
        training=TrainingOptions(learning_rate=1.0),
        **parts,
    )
    same = from_plain(to_plain(experiment)) == experiment
    _expect(same, next(iter(part.values())), "be what a file with its kind and fields gives back")


def _check_statistic(attack: Attack) -> None:
    draws = np.random.default_rng(0)
    logits = draws.standard_normal((RECORDS, CLASSES))
    logits[1], logits[2] = [1e4, 0.0, -1e4, 0.0, 0.0], np.log([1.0, 1e-300, 1e-300, 1e-300, 1e-300])
    logits[3], logits[4] = ([0.0] + [-np.inf] * 4, [-np.inf, 0.0, -1.0, -2.0, -3.0])
    labels = np.array([0, 0, 0, 0, 0, *draws.integers(CLASSES, size=RECORDS - 5)])
    kept = logits.copy()
    statistic = attack.statistic(logits, labels)
    _expect(statistic.shape == (RECORDS,), attack, f"keep a number a row, got {statistic.shape}")
    _expect(np.array_equal(logits, kept), attack, "leave the logits as they are")
    _expect(not np.isnan(statistic).any(), attack, "keep a number, not NaN, of certain predictions too")
    alone = [attack.statistic(logits[row : row + 1], labels[row : row + 1])[0] for row in range(RECORDS)]
    _expect(np.allclose(statistic, alone, rtol=1e-12, atol=0), attack, "keep of a row what it says alone")


def _check_independence(attack: Attack) -> None:
    draws = np.random.default_rng(1)
    statistics, included = draws.standard_normal((24, 3)), np.tile(np.arange(24) % 2 == 0, (3, 1)).T
    scored = attack.scores(statistics, included)
    attacked = scored.models
    _expect(len(attacked) > 0 and bool((np.diff(attacked) > 0).all()), attack, "attack models in order")
    _expect(scored.scores.shape == (len(attacked), 3), attack, "give a score for each model and canary")
    flipped = included.copy()
    flipped[attacked] ^= True
    blind = np.array_equal(attack.scores(statistics, flipped).scores, scored.scores)
    _expect(blind, attack, "never learn from the bits of a model that it attacks")
    changed = statistics.copy()
    changed[attacked[-1]] += 5.0
    others = attack.scores(changed, included).scores[:-1]
    _expect(np.array_equal(others, scored.scores[:-1]), attack, "score a model by its own statistic")


def _check_assignments(design: Design) -> None:
    assigned = [design.assign(model, DESIGNED, 3) for model in range(design.models)]
    seeds = {each.seed for each in assigned}
    _expect(len(seeds) == design.models, design, "give each model a seed of its own")
    other = {design.assign(model, DESIGNED, 4).seed for model in range(design.models)}
    _expect(not seeds & other, design, "derive every seed from the audit's")
    for model, each in reversed(list(enumerate(assigned))):
        again = design.assign(model, DESIGNED, 3)
        same = (again.model, again.seed, again.world) == (model, each.seed, each.world)
        _expect(same, design, "assign a model alike whenever it is asked")
        _expect(each.canaries.shape == (design.planted,), design, "give each canary it plants a bit")
        _expect(each.records is None or each.records.shape == (DESIGNED,), design, "give each record a bit")
        width = design.planted if design.scored == "canaries" else DESIGNED
        _expect(design.told(each).shape == (width,), design, f"tell the bits of all {design.scored}")


def _check_bounds(design: Design) -> None:
    question = Question(delta=1e-6, confidence=0.9, threat_model="full-state")
    models = range(design.models)
    included = np.stack([design.told(design.assign(model, DESIGNED, 3)) for model in models])
    _expect(bool(included.any()) and not included.all(), design, "fill both worlds")
    perfect = Evidence(models=np.array(models), scores=included.astype(np.float64), included=included)
    bound = design.headline(perfect, question)
    _expect(bound.validity == "certified", design, f"have a certified headline, got {bound.validity!r}")
    _expect(bound.value > 0, design, "find what a perfect attack finds; plan more models if this fails")
    for each in (bound, *design.others(perfect, question)):
        spoken = (each.delta, each.adjacency, each.threat_model)
        asked = (question.delta, question.adjacency, question.threat_model)
        _expect(spoken == asked, design, f"bound what was asked, got {each}")
    _expect(bound.confidence == question.confidence, design, "keep the confidence asked for")
    blind = replace(perfect, scores=np.zeros(included.shape))
    _expect(design.headline(blind, question).value == 0, design, "find nothing where all scores are equal")
    stops = design.decision(perfect, question) is not None
    _expect(stops == design.sequential, design, "decide to stop exactly if it is sequential")
