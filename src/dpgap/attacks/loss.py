"""The loss attack: a model knows what it was trained on better."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from jaxtyping import Float, Int

from dpgap.attacks.base import Attack, log_likelihood
from dpgap.privacy.lower_bound import ThreatModel


@final
@dataclass(frozen=True, kw_only=True)
class LossAttack(Attack):
    """Minus the final model's cross-entropy on the canary: the paper's score.

    >>> LossAttack().statistic(np.array([[0.0, 0.0]]), np.array([0])).round(3).tolist()
    [-0.693]
    """

    id: ClassVar[str] = "loss"
    threat_model: ClassVar[ThreatModel] = "final"

    def statistic(
        self, logits: Float[np.ndarray, "K C"], labels: Int[np.ndarray, " K"]
    ) -> Float[np.ndarray, " K"]:
        """The log-likelihood of each label."""
        return log_likelihood(logits, labels)
