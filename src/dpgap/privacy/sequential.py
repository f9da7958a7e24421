"""Shadow audits that may stop at any look: certified, or futile, with the error of all looks controlled.

Models come in pairs, one trained with the canary and one without. For each epsilon of a grid a gambler who
denies (epsilon, delta)-DP starts with 1 and bets on every pair before seeing it, at odds that are fair if
the claim is true. Wealth of ``1/(1 - confidence)`` at any look refutes that epsilon (Ville 1939).
"""

import math
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from dpgap import _check
from dpgap.errors import InvalidInput
from dpgap.privacy.intervals import clopper_pearson_lower, clopper_pearson_upper
from dpgap.privacy.lower_bound import LowerBound, ThreatModel
from dpgap.privacy.mechanism import Adjacency

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Status = Literal["continue", "certified", "futile"]

GRID_STEPS = 100
CUT_SHARES = (0.5, 0.35, 0.25, 0.17, 0.11, 0.07, 0.04, 0.02)
PRIOR_COUNT = 0.25
EAGERNESS = 2.0
REFIT_GROWTH = 1.1
_BISECTIONS = 30
_OPTIMISM_LEVEL = 0.05
_OPTIMISM_DEVIATIONS = 1.0


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Where an audit stands after ``pairs`` pairs: ``bound`` holds now, whatever is decided next.

    ``certified``: the bound reached the target. ``futile``: it will not, certainly or very probably.
    ``saved`` pairs of the planned ones need not be trained if one stops here; 0 while ``continue``.
    """

    status: Status
    bound: float
    pairs: int
    saved: int


@final
class SequentialAudit:
    """Audits pairs of models, in the order they were trained, until ``target`` is certified or out of reach.

    Each look bets on the next pair. Bins of the score line (low, middle, high) and factors g, h >= 0 per
    bin are chosen from past pairs only, for each epsilon so that the wealth, the product of ``g(in) h(out)``,
    would grow fastest if the future were like the past (`log_factors`). Eight ways of cutting the line
    bet side by side, those that did well with more of the wealth.

    **Guarantees**: suppose that, given the past, the two scores of a pair are independent and their laws are
    (eps, delta)-indistinguishable. Then ``bound`` exceeds eps *at any look* with probability at most
    ``1 - confidence``: the bound is the grid's last epsilon up to which every one has been refuted at some
    look; to pass eps it must refute the first grid point above eps, whose null holds, whose wealth is a
    nonnegative supermartingale, and Ville's inequality bounds its maximum. So one may look after every
    pair and stop for any reason. "Futile" is advice: it says that perfect pairs to come could not reach the
    target, or that even pairs better than those seen, within 95 % limits, would not. It never touches the
    guarantee, and going on after it is sound. Deterministic in the order of the data: to resume, replay it.

    **Edge cases**: infinite scores are ordinary values, ties count as equal; NaN is refused. The first pair
    never bets, since nothing was seen before it. A target that ``max_pairs`` perfect pairs cannot reach is
    refused at once.

    Ville 1939; Turner, Ly and Grünwald 2024 for growth-optimal tests of two samples.

    >>> audit = SequentialAudit(target=1.0, max_pairs=100)
    >>> decisions = [audit.update(5.0 + i, -5.0 - i) for i in range(12)]
    >>> [decision.status for decision in decisions[-2:]], decisions[-1].saved
    (['certified', 'certified'], 88)
    """

    def __init__(
        self, *, target: float, max_pairs: int, delta: float = 1e-5, confidence: float = 0.95
    ) -> None:
        _check.positive(target=target, hint="It is the epsilon to certify; write a number such as 1.0.")
        _check.count(max_pairs=max_pairs, hint="It is the number of pairs of models you can train.")
        _check.delta(delta)
        _check.probability(confidence=confidence, hint="Write 0.95 for a claim wrong one time in twenty.")
        self.target, self.max_pairs, self.delta, self.confidence = target, max_pairs, delta, confidence
        self._needed = -math.log(1 - confidence)
        self._most_growth = 2 * math.log1p(math.exp(-target))
        least = math.ceil(self._needed / self._most_growth) + 1 if self._most_growth > 0 else math.inf
        if max_pairs < least:
            raise InvalidInput(
                f"target {target!r} takes {least} pairs even if all are perfect, got max_pairs "
                f"{max_pairs!r}. Such an audit can only fail: plan more pairs, or write a lower target."
            )
        self._epsilons = target * np.arange(1, GRID_STEPS + 1) / GRID_STEPS
        self._epsilons[-1] = target
        self._log_wealth = np.zeros(GRID_STEPS)
        self._peak = np.zeros(GRID_STEPS)
        self._cut_log_wealth = np.zeros((len(CUT_SHARES), GRID_STEPS))
        self._inside: list[float] = []
        self._outside: list[float] = []
        self._refit_at = 1
        self._cuts: Floats | None = None

    @property
    def log_wealth(self) -> Floats:
        """The logarithm of the wealth against each epsilon of the grid, ``target`` last."""
        return self._log_wealth.copy()

    @property
    def epsilons(self) -> Floats:
        """The grid: every epsilon that the bound can take, but 0."""
        return self._epsilons.copy()

    def update(self, inside: float, outside: float) -> Decision:
        """Bet on the next pair, look at it, and say where the audit stands."""
        _refuse_nan(inside=inside, outside=outside)
        if len(self._inside) == self.max_pairs:
            raise InvalidInput(
                f"max_pairs is {self.max_pairs} and so many pairs were given. The forecast of futility "
                "counts on it: replay the pairs in a SequentialAudit with a larger max_pairs, which is sound."
            )
        if self._cuts is not None:
            self._settle(self._cuts, inside, outside)
        self._inside.append(inside)
        self._outside.append(outside)
        if len(self._inside) >= self._refit_at:
            self._refit()
        return self.decision()

    def decision(self) -> Decision:
        """Where the audit stands now."""
        pairs = len(self._inside)
        refuted = int(np.argmin(np.append(self._peak >= self._needed, False)))
        bound = float(self._epsilons[refuted - 1]) if refuted else 0.0
        status: Status = "continue"
        if refuted == GRID_STEPS:
            status = "certified"
        elif pairs == self.max_pairs or (pairs and self._out_of_reach(self.max_pairs - pairs)):
            status = "futile"
        saved = 0 if status == "continue" else self.max_pairs - pairs
        return Decision(status=status, bound=bound, pairs=pairs, saved=saved)

    def record(
        self, *, adjacency: Adjacency = Adjacency.ADD_REMOVE, threat_model: ThreatModel = "final"
    ) -> LowerBound:
        """The bound of this look as a record."""
        decision = self.decision()
        return LowerBound(
            value=decision.bound,
            delta=self.delta,
            confidence=self.confidence,
            estimator="sequential",
            rule="anytime",
            validity="certified",
            adjacency=adjacency,
            threat_model=threat_model,
            n_inside=decision.pairs,
            n_outside=decision.pairs,
            threshold=None,
            fpr=None,
            fnr=None,
            interval=None,
            assumptions=("given the past, the scores of each world are independent draws of its law",),
        )

    def _settle(self, cuts: Floats, inside: float, outside: float) -> None:
        """Pay out the bets: a convex combination of e-variables, with weights from the past, is one."""
        each = np.arange(len(cuts))
        gains = self._log_g[each, :, _bins(cuts, inside)] + self._log_h[each, :, _bins(cuts, outside)]
        weights = softmax(EAGERNESS * self._cut_log_wealth, axis=0)
        self._log_wealth += np.log(np.sum(weights * np.exp(gains), axis=0))
        self._cut_log_wealth += gains
        self._peak = np.maximum(self._peak, self._log_wealth)

    def _refit(self) -> None:
        """Cut the score line anew and choose the factors that the pairs so far suggest."""
        inside, outside = np.sort(np.array(self._inside)), np.sort(np.array(self._outside))
        pairs = inside.size
        self._cuts = _cuts(np.sort(np.concatenate([inside, outside])))
        ins, outs = _bin_counts(inside, self._cuts), _bin_counts(outside, self._cuts)
        total = pairs + 3 * PRIOR_COUNT
        self._log_g, self._log_h = log_factors(
            (ins + PRIOR_COUNT) / total, (outs + PRIOR_COUNT) / total, self._epsilons, self.delta
        )
        self._optimistic_growth = _optimistic_growth(ins, outs, pairs, self.target, self.delta)
        self._refit_at = max(pairs + 1, math.ceil(REFIT_GROWTH * pairs))

    def _out_of_reach(self, remaining: int) -> bool:
        missing = self._needed - float(self._log_wealth[-1])
        if float(self._peak[-1]) >= self._needed:
            return False
        hoped = remaining * self._optimistic_growth
        # A log-likelihood ratio whose mean is small has a variance of about twice its mean.
        luck = _OPTIMISM_DEVIATIONS * math.sqrt(2 * hoped)
        return missing > min(remaining * self._most_growth, hoped + luck)


def log_factors(inside: Floats, outside: Floats, epsilons: Floats, delta: float) -> tuple[Floats, Floats]:
    """Logarithms of factors g, h >= 0 on bins with ``E g(X) E h(Y) <= 1`` for all (eps, delta)-close X and Y.

    ``inside`` and ``outside`` (C cuts x 3 bins) are the positive probabilities p, q that one expects; the
    results are C x epsilons x 3. For alpha + beta = 2 and bins with p/q far from 1 ("far": beyond e^eps
    times alpha/beta, either way) tilt by nu or omega >= 0:
    ``g = alpha + nu - e^eps omega``, ``h = beta - e^eps nu + omega``, over
    ``(1 + delta (max nu + max omega)/2)^2``.

    **Guarantees**: ``E g + E h = 2 + sum nu (P - e^eps Q) + sum omega (Q - e^eps P)``, at most
    ``2 + delta (max nu + max omega)`` under (eps, delta)-DP, and ``E g E h <= ((E g + E h)/2)^2``. This
    holds for every alpha, so its precision is of no matter. For delta = 0 the alpha used makes g = p/P*,
    h = q/Q* with (P*, Q*) the nearest pair of the null in ``KL(p||P) + KL(q||Q)``: the fastest growth
    there is. **Edge cases**: p, q inside the null give g = h = 1: no bet.

    >>> log_g, log_h = log_factors(np.array([[0.1, 0.1, 0.8]]), np.array([[0.8, 0.1, 0.1]]), np.ones(1), 0.0)
    >>> np.exp(log_g[0, 0] + log_h[0, 0, ::-1]).round(3).tolist()
    [0.171, 1.0, 1.478]
    """
    p, q = inside[:, None, :], outside[:, None, :]
    ratio = np.exp(epsilons)[None, :, None]
    share = p / (p + q)
    low = np.zeros((p.shape[0], epsilons.size, 1))
    high = np.full_like(low, 2.0)
    for _ in range(_BISECTIONS):
        alpha = (low + high) / 2
        too_small = np.sum(p / _tilted(p, q, alpha, ratio, share), axis=-1, keepdims=True) > 1
        low, high = np.where(too_small, alpha, low), np.where(too_small, high, alpha)
    alpha = (low + high) / 2
    g = _tilted(p, q, alpha, ratio, share)
    h = _tilted(q, p, 2 - alpha, ratio, 1 - share)
    nu = np.max(np.where(p * (2 - alpha) > ratio * q * alpha, g - alpha, 0.0), axis=-1, keepdims=True)
    omega = np.max(np.where(q * alpha > ratio * p * (2 - alpha), h - 2 + alpha, 0.0), axis=-1, keepdims=True)
    paid = np.log1p(delta * (nu + omega) / 2)
    return np.log(g) - paid, np.log(h) - paid


def _tilted(p: Floats, q: Floats, alpha: Floats, ratio: Floats, share: Floats) -> Floats:
    """The factor of one world: alpha where p/q is near 1, tilted where it is far."""
    beta = 2 - alpha
    above, below = p * beta > ratio * q * alpha, q * alpha > ratio * p * beta
    return np.where(
        above, share * (alpha + beta / ratio), np.where(below, share * (alpha + beta * ratio), alpha)
    )


def _cuts(pooled: Floats) -> Floats:
    """For each share, where the lowest and the highest share of all scores so far end (halves: one cut)."""
    n = pooled.size
    ranks = np.clip(np.round(n * np.array(CUT_SHARES)).astype(np.int64), 1, n - 1)
    return np.stack(
        [_between(pooled, np.minimum(ranks, n - ranks)), _between(pooled, np.maximum(ranks, n - ranks))], -1
    )


def _between(pooled: Floats, rank: Ints) -> Floats:
    below, above = pooled[rank - 1], pooled[rank]
    finite = np.isfinite(below) & np.isfinite(above)
    return np.where(finite, np.where(finite, below, 0.0) / 2 + np.where(finite, above, 0.0) / 2, above)


def _bins(cuts: Floats, score: float) -> Ints:
    """For each pair of cuts, 0 if the score is below both, 2 if it reaches both."""
    return np.sum(score >= cuts, axis=-1)


def _bin_counts(scores: Floats, cuts: Floats) -> Floats:
    below = np.searchsorted(scores, cuts, side="left")
    return np.stack([below[:, 0], below[:, 1] - below[:, 0], scores.size - below[:, 1]], axis=-1).astype(
        np.float64
    )


def _optimistic_growth(ins: Floats, outs: Floats, pairs: int, target: float, delta: float) -> float:
    """The growth per pair of the best cut if both tails were as good as 95 % limits allow."""

    def rates(good: Floats, bad: Floats) -> tuple[Floats, Floats]:
        most = clopper_pearson_upper(good, pairs, _OPTIMISM_LEVEL)
        return most, np.minimum(clopper_pearson_lower(bad, pairs, _OPTIMISM_LEVEL), 1 - most)

    tiny = 1e-9
    in_high, in_low = rates(ins[:, 2], ins[:, 0])
    out_low, out_high = rates(outs[:, 0], outs[:, 2])
    p = np.stack([in_low, 1 - in_low - in_high, in_high], axis=-1) + tiny
    q = np.stack([out_low, 1 - out_low - out_high, out_high], axis=-1) + tiny
    p, q = p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True)
    log_g, log_h = log_factors(p, q, np.array([target]), delta)
    return max(0.0, float(np.max(np.sum(p * log_g[:, 0] + q * log_h[:, 0], axis=-1))))


def _refuse_nan(**scores: float) -> None:
    for name, score in scores.items():
        if math.isnan(score):
            raise InvalidInput(
                f"{name} must be a number, got nan. A missing score is not a low score: train that model "
                "again, or leave out the pair for a reason that is not its score."
            )
