"""Every signature scores one record as the paper defines it, and is blind to all others."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from dpgap._seeds import stream
from dpgap.errors import InvalidInput
from dpgap.signatures.base import Needs, Record, RecordView, Signature
from dpgap.signatures.gradient import CosineToUpdate, GradientNorm, Kurtosis, ProjectionVariability
from dpgap.signatures.history import DirectionalUniqueness
from dpgap.signatures.output import Entropy, InverseConfidence, Loss, Margin
from dpgap.signatures.parse import SHORT_NAMES, parse_signature
from dpgap.testing import check_signature

pytestmark = pytest.mark.filterwarnings("ignore:The clipped L2 norm:UserWarning")
NOTHING = torch.zeros(())
P = 70_001


def _record(gradient: Tensor | None = None, **changes: object) -> Record:
    generator = torch.Generator().manual_seed(4)
    gradient = torch.randn(P, generator=generator) ** 3 if gradient is None else gradient
    record = Record(
        logits=torch.tensor([0.5, -1.0, 2.0, 0.1]),
        label=torch.tensor(1),
        loss=torch.tensor(3.5),
        gradient=gradient,
        clip_norm=0.7,
        displacement=torch.randn(len(gradient), generator=generator),
    )
    return replace(record, **changes)


def _score(signature: Signature, record: Record) -> float:
    return signature.score(record, NOTHING)[0].item()


def _wide(record: Record) -> np.ndarray:
    return record.gradient.numpy().astype(np.longdouble)


def _probabilities(record: Record) -> np.ndarray:
    exponentials = np.exp(record.logits.numpy().astype(np.longdouble))
    return exponentials / exponentials.sum()


def _kurtosis(record: Record) -> float:
    g = _wide(record)
    z = (g - g.mean()) / np.sqrt(((g - g.mean()) ** 2).mean())
    return float((np.clip(z, -100, 100) ** 4).mean())


def _cosine(record: Record) -> float:
    g, path = _wide(record), record.displacement.numpy().astype(np.longdouble)
    return float(abs(g @ path) / np.sqrt((g @ g) * (path @ path)))


def _clip(record: Record) -> float:
    return min(1.0, 0.7 / np.sqrt((_wide(record) ** 2).sum()))


TWINS: dict[str, Callable[[Record], float]] = {
    "linf": lambda r: abs(_wide(r)).max(),
    "l2": lambda r: np.sqrt((_wide(r) ** 2).sum()),
    "l1": lambda r: abs(_wide(r)).sum(),
    "linf-clipped": lambda r: abs(_wide(r)).max() * _clip(r),
    "l2-clipped": lambda r: np.sqrt((_wide(r) ** 2).sum()) * _clip(r),
    "l1-clipped": lambda r: abs(_wide(r)).sum() * _clip(r),
    "cosine": _cosine,
    "kurtosis": _kurtosis,
    "entropy": lambda r: -(_probabilities(r) * np.log(_probabilities(r))).sum(),
    "margin": lambda r: np.delete(_probabilities(r), r.label).max() - _probabilities(r)[r.label],
    "loss": lambda r: r.loss.item(),
    "inverse-confidence": lambda r: 1 / _probabilities(r).max(),
}


@pytest.mark.parametrize("name", SHORT_NAMES)
def test_every_built_in_keeps_the_contract(name: str):
    check_signature(parse_signature(name))


@pytest.mark.parametrize("name", TWINS)
def test_a_score_is_what_the_definition_says(name: str):
    record = _record()
    assert _score(parse_signature(name), record) == pytest.approx(float(TWINS[name](record)), rel=1e-6)


def test_only_the_projecting_signatures_have_no_twin_above():
    assert set(SHORT_NAMES) - set(TWINS) == {"uniqueness", "projection"}


@dataclass(frozen=True, kw_only=True)
class _BatchCentred(Signature):
    """The loss less the batch's mean loss: what rule 1 forbids."""

    id: ClassVar[str] = "batch-centred"
    needs: ClassVar[Needs] = "output"

    def score(self, record: Record, memory: Tensor) -> tuple[Tensor, Tensor]:
        return record.loss, memory

    def scores(self, view: RecordView, memory: Tensor) -> tuple[Tensor, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return view.losses - view.losses.mean(), memory


@dataclass(frozen=True, kw_only=True)
class _CountsCalls(Signature):
    """A score with state of its own."""

    id: ClassVar[str] = "counts-calls"
    needs: ClassVar[Needs] = "output"
    calls: ClassVar[list[int]] = []

    def score(self, record: Record, memory: Tensor) -> tuple[Tensor, Tensor]:
        self.calls.append(1)
        return record.loss + len(self.calls), memory


@dataclass(frozen=True, kw_only=True)
class _NeverFinite(Signature):
    id: ClassVar[str] = "never-finite"
    needs: ClassVar[Needs] = "output"

    def score(self, record: Record, memory: Tensor) -> tuple[Tensor, Tensor]:
        return record.loss / 0.0, memory


@dataclass(frozen=True, kw_only=True)
class _SharedMemory(Signature):
    """It remembers what the last row of the batch was."""

    id: ClassVar[str] = "shared-memory"
    needs: ClassVar[Needs] = "history"

    @property
    def memory_shape(self) -> tuple[int, ...]:
        return (1,)

    def score(self, record: Record, memory: Tensor) -> tuple[Tensor, Tensor]:
        return record.loss, memory

    def scores(self, view: RecordView, memory: Tensor) -> tuple[Tensor, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return view.losses, view.losses[-1:].expand(len(memory))[:, None].clone()


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (_BatchCentred(), "same scores, to the last bit, in part"),
        (_CountsCalls(), "same scores, to the last bit, when computed again"),
        (_NeverFinite(), "finite"),
        (_SharedMemory(), "same memories, to the last bit, in another order"),
    ],
)
def test_the_contract_kit_catches_what_breaks_it(broken: Signature, complaint: str):
    with pytest.raises(AssertionError, match=complaint):
        check_signature(broken)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", SHORT_NAMES)
def test_long_gradients_score_the_same_alone_and_together(name: str, threads: int):
    signature, generator = parse_signature(name), torch.Generator().manual_seed(2)
    view = RecordView(
        logits=torch.randn(6, 10, generator=generator),
        labels=torch.arange(6),
        losses=torch.rand(6, generator=generator),
        gradients=torch.randn(6, P, generator=generator),
        clip_norm=1.0,
        displacement=torch.randn(P, generator=generator),
    )
    memory = torch.randn(6, *signature.memory_shape, generator=generator)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        together = signature.scores(view, memory)
        last = replace(
            view, **{name: getattr(view, name)[5:] for name in ("logits", "labels", "losses", "gradients")}
        )
        alone = signature.scores(last, memory[5:])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(together[0][5:], alone[0])
    assert torch.equal(together[1][5:], alone[1])


GRADIENT_NAMES = [
    name for name in SHORT_NAMES if name not in ("entropy", "margin", "loss", "inverse-confidence")
]


@pytest.mark.parametrize("name", GRADIENT_NAMES)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_has_no_finite_score(name: str, value: float):
    signature = parse_signature(name)
    gradient = torch.ones(9)
    gradient[4] = value
    memory = torch.randn(signature.memory_shape, generator=torch.Generator().manual_seed(1))
    score, after = signature.score(_record(gradient), memory)
    assert not score.isfinite()
    assert torch.equal(after, memory)


@pytest.mark.parametrize("name", ["entropy", "margin", "inverse-confidence"])
def test_a_prediction_that_is_not_finite_has_no_finite_score(name: str):
    assert not math.isfinite(_score(parse_signature(name), _record(logits=torch.full((4,), math.nan))))


@pytest.mark.parametrize("scale", [1e30, 1e-38])
def test_no_finite_gradient_overflows(scale: float):
    record = _record(torch.tensor([1.0, -2.0, 0.5, 4.0]) * scale)
    unit = replace(record, gradient=torch.tensor([1.0, -2.0, 0.5, 4.0]))
    for signature in (Kurtosis(), CosineToUpdate()):
        assert _score(signature, record) == pytest.approx(_score(signature, unit), rel=1e-4)
    assert _score(GradientNorm(p=2), record) == pytest.approx(
        scale * _score(GradientNorm(p=2), unit), rel=1e-4
    )


def test_a_constant_gradient_has_no_tails():
    assert _score(Kurtosis(), _record(torch.full((7,), 0.1))) == 0.0


def test_the_kurtosis_clamps_a_lonely_coordinate():
    gradient = torch.zeros(1_000_000)
    gradient[3] = 1.0
    assert _score(Kurtosis(), _record(gradient)) == pytest.approx(100**4 / 1e6, rel=1e-3)


def test_a_model_that_has_not_moved_pulls_nobody():
    record = _record()
    assert _score(CosineToUpdate(), replace(record, displacement=torch.zeros(P))) == 0.0
    assert _score(CosineToUpdate(), replace(record, gradient=torch.zeros(P))) == 0.0


def test_the_clipped_l2_norm_warns_that_it_ties():
    with pytest.warns(UserWarning, match="removes those by index"):
        signature = GradientNorm(p=2, clipped=True)
    scores = {_score(signature, _record(torch.randn(5) * size)) for size in (10.0, 20.0)}
    assert {np.float32(score) for score in scores} == {np.float32(0.7)}


def test_nothing_is_clipped_in_plain_sgd():
    with pytest.raises(InvalidInput, match="clipped must be False"):
        _score(GradientNorm(clipped=True), _record(clip_norm=None))


def test_an_unknown_norm_is_refused():
    with pytest.raises(InvalidInput, match=r"p must be 1, 2 or math\.inf, got 3"):
        GradientNorm(p=3)


def _directions(purpose: str, dimensions: int, parameters: int) -> np.ndarray:
    draws = stream(0, purpose, dimensions, parameters).standard_normal((dimensions, parameters))
    return draws / np.sqrt((draws**2).sum(axis=1, keepdims=True))


def test_projection_variability_is_mean_times_spread_of_ten_projections():
    record = _record(torch.randn(50, generator=torch.Generator().manual_seed(0)))
    lengths = _directions("projection-variability", 10, 50) @ record.gradient.double().numpy()
    expected = abs(lengths).mean() * lengths.std(ddof=1)
    assert _score(ProjectionVariability(), record) == pytest.approx(expected, rel=1e-5)
    assert _score(ProjectionVariability(public_seed=1), record) != pytest.approx(expected, rel=1e-3)


def test_directional_uniqueness_compares_with_the_records_own_last_five():
    signature, directions = DirectionalUniqueness(), _directions("directional-uniqueness", 64, 50)
    memory, past = signature.fresh_memory(1)[0], []
    for draw in range(9):
        gradient = torch.randn(50, generator=torch.Generator().manual_seed(draw))
        point = directions @ gradient.double().numpy()
        cosines = [point @ old / np.sqrt((point @ point) * (old @ old)) for old in past[-5:]]
        expected = gradient.abs().max().item() * np.std(cosines, ddof=1) if len(cosines) >= 2 else 0.0
        score, memory = signature.score(_record(gradient), memory)
        assert score.item() == pytest.approx(expected, rel=1e-4)
        past.append(point)


def test_a_zero_gradient_is_not_remembered():
    signature = DirectionalUniqueness()
    memory = signature.fresh_memory(1)[0]
    score, after = signature.score(_record(torch.zeros(8)), memory)
    assert score.item() == 0.0
    assert not after.any()


def test_a_single_logit_far_ahead_is_certain():
    record = _record(logits=torch.tensor([500.0, 0.0, 0.0, 0.0]), label=torch.tensor(0))
    scores = [_score(signature, record) for signature in (Entropy(), InverseConfidence(), Margin())]
    assert scores == pytest.approx([0, 1, -1], abs=1e-100)
    assert _score(Loss(), record) == 3.5


def test_short_names_are_refused_with_the_nearest():
    with pytest.raises(InvalidInput, match=r"got 'curtosis'\. Did you mean kurtosis\?"):
        parse_signature("curtosis")
    with pytest.raises(InvalidInput, match=r"got 'zzz'\. The paper uses linf\."):
        parse_signature("zzz")
