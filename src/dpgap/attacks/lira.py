"""LiRA: a likelihood ratio between the worlds, learnt from models whose bits are known."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from jaxtyping import Bool, Float, Int

from dpgap import _check
from dpgap.attacks.base import Attack, Scored
from dpgap.errors import NoAnswer
from dpgap.privacy.lower_bound import ThreatModel

LEAST = 2
"""Models of each world that a standard deviation needs."""

CERTAIN = 745.0
"""The logit of a probability of 1: an infinite one has no mean, and no float64 probability a larger one."""


@final
@dataclass(frozen=True, kw_only=True)
class LiRA(Attack):
    """``log N(s; mu_in, sd_in) - log N(s; mu_out, sd_out)`` of the logit ``s = log p / (1 - p)``.

    The four moments of each canary are learnt from the first ``learning`` share of the models, which are
    then not attacked (Carlini et al. 2022, "Membership inference attacks from first principles", Algorithm
    1, online attack).

    **Edge cases**: too few models of a world to learn a spread from are refused; statistics without any
    spread get a small one, so that scores stay finite.

    >>> statistics = np.array([[2.0], [0.0], [3.0], [1.0], [9.0], [-9.0]])
    >>> included = np.array([[True], [False]] * 3)
    >>> scored = LiRA(learning=0.67).scores(statistics, included)
    >>> scored.models.tolist(), (scored.scores > 0).tolist()
    ([4, 5], [[True], [False]])
    """

    id: ClassVar[str] = "lira"
    threat_model: ClassVar[ThreatModel] = "final"
    learns: ClassVar[bool] = True

    learning: float = 0.5

    def __post_init__(self) -> None:
        _check.probability(learning=self.learning, hint="It is the share of models to learn from; write 0.5.")

    def statistic(
        self, logits: Float[np.ndarray, "K C"], labels: Int[np.ndarray, " K"]
    ) -> Float[np.ndarray, " K"]:
        """The logit of each label's probability, from the logits so that near certainty is not rounded."""
        others = np.array(logits, dtype=np.float64)
        np.put_along_axis(others, labels[:, None], -np.inf, axis=1)
        own = np.take_along_axis(np.asarray(logits, np.float64), labels[:, None], axis=1)[:, 0]
        return np.clip(own - np.logaddexp.reduce(others, axis=1), -CERTAIN, CERTAIN)

    def scores(self, statistics: Float[np.ndarray, "M K"], included: Bool[np.ndarray, "M K"]) -> Scored:
        """The log-likelihood ratio in every model that nothing was learnt from."""
        learning = round(self.learning * len(statistics))
        inside = _moments(statistics[:learning], included[:learning])
        outside = _moments(statistics[:learning], ~included[:learning])
        attacked = np.arange(learning, len(statistics))
        ratio = _log_density(statistics[attacked], inside) - _log_density(statistics[attacked], outside)
        return Scored(models=attacked, scores=ratio)


def _moments(
    statistics: Float[np.ndarray, "L K"], mine: Bool[np.ndarray, "L K"]
) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, " K"]]:
    """Mean and standard deviation of each column over the models that are ``mine``."""
    count = mine.sum(axis=0)
    if count.min(initial=LEAST) < LEAST:
        raise NoAnswer(
            f"LiRA has {count.min()} models of one world to learn from, and a spread takes {LEAST}. Train "
            "more models, or use the loss attack, which learns nothing."
        )
    mean = np.where(mine, statistics, 0.0).sum(axis=0) / count
    variance = np.where(mine, (statistics - mean) ** 2, 0.0).sum(axis=0) / (count - 1)
    return mean, np.sqrt(np.maximum(variance, 1e-12))


def _log_density(
    values: Float[np.ndarray, "A K"], moments: tuple[Float[np.ndarray, " K"], Float[np.ndarray, " K"]]
) -> Float[np.ndarray, "A K"]:
    mean, spread = moments
    return -0.5 * ((values - mean) / spread) ** 2 - np.log(spread)
