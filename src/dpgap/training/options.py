"""What a run is told beside its mechanism: options, and SGD without privacy for comparison."""

from dataclasses import dataclass
from typing import Literal, get_args

from dpgap import _check
from dpgap.data.augmentation import CropFlip
from dpgap.errors import InvalidInput
from dpgap.privacy.mechanism import Sampling

Precision = Literal["fp32", "tf32", "bf16"]


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """How the model learns; every field is public and fixed before the data is seen.

    ``copies`` augmented copies of each drawn record are averaged into one gradient before anything else
    (De et al. 2022, section 3.4, "augmentation multiplicity"). ``precision`` is that of the models and their
    gradients; norms, sums and noise are float64. ``delta`` is that of the privacy statement.

    >>> TrainingOptions(learning_rate=3.0, copies=4)
    Traceback (most recent call last):
    dpgap.errors.InvalidInput: copies=4 without augmentation would average 4 equal gradients. ...
    """

    learning_rate: float
    augmentation: CropFlip | None = None
    copies: int = 1
    precision: Precision = "fp32"
    delta: float = 1e-5

    def __post_init__(self) -> None:
        _check.positive(learning_rate=self.learning_rate)
        _check.count(copies=self.copies)
        _check.one_of(get_args(Precision), precision=self.precision)
        _check.delta(self.delta)
        if self.copies > 1 and self.augmentation is None:
            raise InvalidInput(
                f"copies={self.copies} without augmentation would average {self.copies} equal gradients. "
                "Write augmentation=CropFlip(), or copies=1."
            )


@dataclass(frozen=True, kw_only=True)
class PlainSGD:
    """SGD without clipping and without noise: nothing is proved of it, and no eps_ub is claimed.

    It samples, averages and filters as DP-SGD does, so that the two differ in privacy only.
    """

    sampling: Sampling
    expected_batch: float
    steps: int

    def __post_init__(self) -> None:
        _check.positive(expected_batch=self.expected_batch)
        _check.count(steps=self.steps)
