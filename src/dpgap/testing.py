"""Contract kits for the extension points: run one on your own variant, in your own tests."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from dpgap.signatures.base import RecordView, Signature

RECORDS, PARAMETERS, CLASSES, DRAWS = 11, 37, 5, 3
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


def _expect(holds: bool, signature: Signature, claim: str) -> None:
    if not holds:
        raise AssertionError(f"{type(signature).__name__} must {claim}.")


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
