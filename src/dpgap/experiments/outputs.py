"""What a training function may return, told apart by its type and never guessed."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from dpgap.attacks.base import Attack
from dpgap.attacks.loss import LossAttack
from dpgap.errors import InvalidInput

Floats = NDArray[np.float64]
Rows = NDArray[np.float32]
Labels = NDArray[np.int64]
ScoreFunction = Callable[[Rows, Labels], Any]
TrainFunction = Callable[[Rows, Labels, int], Any]


@runtime_checkable
class PredictsProbabilities(Protocol):
    """A classifier in the manner of scikit-learn: ``predict_proba(x)`` gives a row of probabilities each."""

    def predict_proba(self, x: Rows, /) -> Any:
        """Probabilities ``[rows, classes]``."""
        ...


@runtime_checkable
class GivesLogits(Protocol):
    """Anything with ``logits(x)``: a row of unnormalised log-probabilities each."""

    def logits(self, x: Rows, /) -> Any:
        """Logits ``[rows, classes]``."""
        ...


@dataclass(frozen=True, kw_only=True)
class AsModel:
    """What was trained, as a classifier."""

    name: str
    answer: Callable[[Rows], Floats]

    def statistic(self, attack: Attack | None, x: Rows, y: Labels) -> Floats:
        """What ``attack`` (the loss, unless given) makes of the logits."""
        return (attack or LossAttack()).statistic(self.outputs(x, y), y)

    def outputs(self, x: Rows, y: Labels) -> Float[np.ndarray, "N C"]:
        """The logits of each row."""
        logits = self.answer(x)
        if logits.ndim != 2 or len(logits) != len(x):
            raise InvalidInput(
                f"{self.name} gave outputs of shape {logits.shape} for {len(x)} rows. There must be one row "
                "each, with a number a class."
            )
        return logits

    def share_right(self, x: Rows, y: Labels) -> float | None:
        """Accuracy."""
        return float((self.outputs(x, y).argmax(axis=1) == y).mean())


@dataclass(frozen=True, kw_only=True)
class AsScores:
    """What was trained, as a function that is itself the attack."""

    score: ScoreFunction

    def statistic(self, attack: Attack | None, x: Rows, y: Labels) -> Floats:
        """The scores; there is nothing for another attack to look at."""
        if attack is not None:
            raise InvalidInput(
                f"attack must be left out, got {attack.id!r}: train returned a function of scores, which is "
                "the attack. Return a model to have it attacked."
            )
        return self.outputs(x, y)

    def outputs(self, x: Rows, y: Labels) -> Float[np.ndarray, " N"]:
        """The score of each row."""
        scores = np.asarray(self.score(x, y), np.float64)
        if scores.shape != (len(x),):
            raise InvalidInput(
                f"score(x, y) gave an array of shape {scores.shape} for {len(x)} rows. It must give one "
                "number a row, higher for rows that were trained on."
            )
        return scores

    def share_right(self, x: Rows, y: Labels) -> float | None:
        """Scores are neither right nor wrong."""
        return None


def told_apart(trained: Any) -> AsModel | AsScores:
    """How to ask what ``train`` returned: a module, ``predict_proba``, ``logits`` or a function of scores.

    **Edge cases**: what is two of the first three is refused. A module is asked in evaluation mode, by its
    forward; a probability of 0 has a logit of -inf.

    >>> told_apart(lambda x, y: y).share_right([0], [0])
    >>> told_apart(3)
    Traceback (most recent call last):
    dpgap.errors.InvalidInput: train returned int, of which nothing can be asked. Return a function ...
    """
    name = type(trained).__name__
    kinds: dict[str, tuple[bool, Callable[[Rows], Floats]]] = {
        "a torch.nn.Module": (_is_module(trained), lambda x: _module_logits(trained, x)),
        "predict_proba": (
            isinstance(trained, PredictsProbabilities),
            lambda x: _log(trained.predict_proba(x)),
        ),
        "logits": (isinstance(trained, GivesLogits), lambda x: np.asarray(trained.logits(x), np.float64)),
    }
    found = {kind: answer for kind, (is_kind, answer) in kinds.items() if is_kind}
    if len(found) > 1:
        raise InvalidInput(
            f"train returned {name}, which is or has {' and '.join(found)}: to choose one would be a guess. "
            "Return a function score(x, y), or an object with one of them."
        )
    for answer in found.values():
        return AsModel(name=name, answer=answer)
    if not callable(trained):
        raise InvalidInput(
            f"train returned {name}, of which nothing can be asked. Return a function score(x, y), a "
            "torch.nn.Module, or an object with predict_proba(x) or logits(x)."
        )
    return AsScores(score=trained)


def _is_module(trained: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(trained, torch.nn.Module)


def _module_logits(module: Any, x: Rows) -> Floats:
    import torch

    module.eval()
    device = next((value.device for value in module.parameters()), torch.device("cpu"))
    with torch.no_grad():
        return module(torch.from_numpy(x).to(device)).double().cpu().numpy()


def _log(probabilities: Any) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(probabilities, np.float64))
