"""Which canaries of a one-run audit are guessed in and out: their ranking, and the rules that cut it."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr

from dpgap import _check
from dpgap._seeds import stream
from dpgap.errors import InvalidInput
from dpgap.privacy.rules import Validity

Floats = NDArray[np.float64]
Bits = NDArray[np.bool_]
Pair = tuple[int, int]

_UNFAIR_COINS = 1e-9
_BISECTIONS = 50

Refuted = Callable[[int, int, float], bool]
"""(guesses, correct, parameter) -> is this parameter, and every smaller one, refuted?"""


def largest_refuted(refuted: Callable[[float], bool], low: float = 0.0) -> float:
    """The largest refuted parameter above ``low``, rounded down; ``low`` if it is not itself refuted."""
    if not refuted(low):
        return low
    step = 1.0
    while refuted(low + step):
        low, step = low + step, 2 * step
    high = low + step
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def read_canaries(scores: ArrayLike, included: ArrayLike) -> tuple[Floats, Bits]:
    """A score that is not NaN and a bit for each canary; anything else is refused by name."""
    values, bits = _read_scores(scores), _read_bits(included)
    if values.size != bits.size:
        raise InvalidInput(
            f"included has {bits.size} bits and scores has {values.size} scores. "
            "Each canary has one of each: write them in the same order."
        )
    return values, bits


def _read_scores(scores: ArrayLike) -> Floats:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise InvalidInput(
            f"scores must be one list of numbers, one per canary, got an array of shape {values.shape}. "
            "Pass the scores of one run."
        )
    missing = np.flatnonzero(np.isnan(values))
    if missing.size:
        raise InvalidInput(
            f"scores hold {missing.size} NaN, the first at position {missing[0]}. "
            "A missing score is not a low score: write -inf to rank a canary last whatever its bit."
        )
    return values


def _read_bits(included: ArrayLike) -> Bits:
    """One bit per canary; refused if fair coins give such bits less often than once in 1e9 audits."""
    bits = np.asarray(included)
    if bits.ndim != 1 or not np.isin(bits, (0, 1)).all():
        raise InvalidInput(
            f"included must be one list of True and False, one per canary, got {bits!r}. "
            "It says which canaries the run was trained on."
        )
    ins = int(bits.sum())
    if 2 * bdtr(min(ins, bits.size - ins), bits.size, 0.5) < _UNFAIR_COINS:
        raise InvalidInput(
            f"included says that {ins} of {bits.size} canaries are in, which fair coins do less than once in "
            "1e9 audits. The bound holds only if each canary is in with probability 1/2: draw the bits so."
        )
    return bits.astype(np.bool_)


@final
class Ranking:
    """The canaries from the highest score to the lowest, with their bits.

    Ties are ordered by a shuffle fixed by the number of canaries alone: blind to the bits, also where
    the caller lists the canaries that are in first. Infinite scores are ordinary values.

    >>> Ranking(np.array([5.0, 1.0, 3.0, 2.0]), np.array([True, False, False, True])).correct(2, 1)
    2
    """

    def __init__(self, scores: Floats, bits: Bits) -> None:
        shuffle = stream(0, "one-run ties", bits.size).permutation(bits.size)
        self.bits = bits[shuffle[np.argsort(-scores[shuffle], kind="stable")]]
        self._ins = np.concatenate([[0], np.cumsum(self.bits)])

    def correct(self, k_in: int, k_out: int) -> int:
        """How many guesses are right if the ``k_in`` highest are said to be in, the ``k_out`` lowest out."""
        m = self.bits.size
        return int(self._ins[k_in] + k_out - (self._ins[m] - self._ins[m - k_out]))


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The largest parameter refuted, and the pair of guesses that did it on ``ranking``."""

    parameter: float
    pair: Pair
    ranking: Ranking

    @property
    def summary(self) -> str:
        """What was guessed and how well, in words."""
        k_in, k_out = self.pair
        right = self.ranking.correct(k_in, k_out)
        return f"guessed {k_in} in and {k_out} out of {self.ranking.bits.size} canaries, {right} right"


Test = Callable[[int, float, bool], Refuted]
"""(m, level, the run chose the number of guesses) -> the test."""


class Guesses(ABC):
    """How (k_in, k_out) is found: guess the ``k_in`` highest in, the ``k_out`` lowest out, and abstain."""

    id: ClassVar[str]
    validity: ClassVar[Validity]
    assumption: ClassVar[str]

    @abstractmethod
    def verdict(self, scores: Floats, bits: Bits, test: Test, level: float) -> Verdict:
        """The best parameter refuted, wrongly with probability at most ``level`` if the rule is certified."""


@final
@dataclass(frozen=True, kw_only=True)
class FixedGuesses(Guesses):
    """One pair, fixed before the scores were seen. **Guarantees**: certified."""

    k_in: int
    k_out: int

    id: ClassVar[str] = "fixed-guesses"
    validity: ClassVar[Validity] = "certified"
    assumption: ClassVar[str] = "the numbers of guesses were fixed before the scores were seen"

    def __post_init__(self) -> None:
        _check.count(k_in=self.k_in, k_out=self.k_out, at_least=0)

    def verdict(self, scores: Floats, bits: Bits, test: Test, level: float) -> Verdict:
        """What the one pair refutes."""
        return _best([(self.k_in, self.k_out)], Ranking(scores, bits), test(bits.size, level, False))


@final
@dataclass(frozen=True)
class GuessGrid(Guesses):
    """Several pairs (k_in, k_out), fixed before the scores were seen, which share the level equally.

    **Guarantees**: certified (Bonferroni).
    """

    pairs: tuple[Pair, ...]

    id: ClassVar[str] = "guess-grid"
    validity: ClassVar[Validity] = "certified"
    assumption: ClassVar[str] = "the grid of guesses was fixed before the scores were seen"

    def __post_init__(self) -> None:
        if not self.pairs:
            raise InvalidInput(
                "pairs must hold at least one pair, got (). Write GuessGrid(((50, 50), (100, 0)))."
            )
        for k_in, k_out in self.pairs:
            _check.count(k_in=k_in, k_out=k_out, at_least=0)

    def verdict(self, scores: Floats, bits: Bits, test: Test, level: float) -> Verdict:
        """The best that any pair refutes at its share of the level."""
        return _best(self.pairs, Ranking(scores, bits), test(bits.size, level / len(self.pairs), False))


@final
@dataclass(frozen=True, kw_only=True)
class HeldOutCanaries(Guesses):
    """The pair that is best on some canaries, evaluated on the others, a ``share`` of all.

    **Guarantees**: certified for (eps, delta): given the selecting canaries' bits, the run is still private
    in the others. That the same run chose the number of guesses is paid for, when delta > 0, by splitting
    the level. For the Gaussian version no proof covers this choice, and the bound is heuristic.
    """

    share: float = 0.5
    seed: int = 0

    id: ClassVar[str] = "held-out-canaries"
    validity: ClassVar[Validity] = "certified"
    assumption: ClassVar[str] = "the split of the canaries was not chosen by its result"

    def __post_init__(self) -> None:
        _check.probability(share=self.share, hint="It is the share of canaries that evaluates; write 0.5.")

    def verdict(self, scores: Floats, bits: Bits, test: Test, level: float) -> Verdict:
        """What the pair chosen on the selecting canaries refutes on the others."""
        evaluating = round(bits.size * self.share)
        selecting = bits.size - evaluating
        if not evaluating or not selecting:
            raise InvalidInput(
                f"scores has {bits.size} canaries, too few to hold out a share of {self.share}: each part "
                "needs one. Use FixedGuesses, which needs no split."
            )
        order = stream(self.seed, "held-out canaries", bits.size).permutation(bits.size)
        seen, rest = order[evaluating:], order[:evaluating]
        choice = _best(
            _square_root_grid(selecting), Ranking(scores[seen], bits[seen]), test(selecting, level, True)
        )
        k_in, k_out = (k * evaluating // selecting for k in choice.pair)
        return _best([(k_in, k_out)], Ranking(scores[rest], bits[rest]), test(evaluating, level, True))


@final
@dataclass(frozen=True, kw_only=True)
class BestGuesses(Guesses):
    """The largest bound over pairs in steps of sqrt(m), the search not paid for, as often published.

    **Guarantees**: none; at m = 1000 some 46 % of audits of a run that leaks nothing claim a leak at 95 %.
    """

    id: ClassVar[str] = "best-guesses"
    validity: ClassVar[Validity] = "heuristic"
    assumption: ClassVar[str] = (
        "the search over the numbers of guesses, which is not paid for, gained nothing"
    )

    def verdict(self, scores: Floats, bits: Bits, test: Test, level: float) -> Verdict:
        """The best that any pair of the grid refutes at the whole level."""
        return _best(_square_root_grid(bits.size), Ranking(scores, bits), test(bits.size, level, False))


def _square_root_grid(m: int) -> list[Pair]:
    step = math.isqrt(m)
    return [(i, j) for i in range(0, m + 1, step) for j in range(0, m - i + 1, step) if i + j]


def _best(pairs: Iterable[Pair], ranking: Ranking, refuted: Refuted) -> Verdict:
    """The pair that refutes most; if none refutes anything, the one furthest above chance."""
    m = ranking.bits.size
    most: dict[int, tuple[int, Pair]] = {}
    for pair in pairs:
        if sum(pair) > m:
            raise InvalidInput(
                f"k_in + k_out must be at most the number of canaries {m}, got {pair[0]} + {pair[1]}. "
                "Each canary is guessed at most once; guess fewer."
            )
        right = ranking.correct(*pair)
        most[sum(pair)] = max(most.get(sum(pair), (-1, pair)), (right, pair))
    # The most striking first: then most others fail to refute what was reached, at the price of one look.
    order = sorted(
        most, key=lambda total: (2 * most[total][0] - total) / math.sqrt(max(total, 1)), reverse=True
    )
    best, parameter = most[order[0]][1], 0.0
    for total in order:
        correct, pair = most[total]
        reached = largest_refuted(
            lambda x, total=total, correct=correct: refuted(total, correct, x), parameter
        )
        if reached > parameter:
            best, parameter = pair, reached
    return Verdict(parameter=parameter, pair=best, ranking=ranking)
