"""One run: many canaries in one model, each in or out by its own recorded coin."""

from dataclasses import dataclass
from typing import ClassVar, final

from dpgap import _check
from dpgap._seeds import stream
from dpgap.audits.base import Assignment, Design, Evidence, model_seed
from dpgap.privacy.guesses import BestGuesses, Guesses, GuessGrid
from dpgap.privacy.lower_bound import LowerBound
from dpgap.privacy.one_run import Version, one_run_bound
from dpgap.privacy.table import Question

_SHARES = (0.02, 0.05, 0.1, 0.2, 0.4)
"""How large a share of the canaries is guessed in, and as many out: fixed here, before any score is seen."""


@final
@dataclass(frozen=True, kw_only=True)
class OneRun(Design):
    """``canaries`` rows, each in or out of a model by a fair coin; several models pool their guesses.

    ``guesses`` says how many are guessed; unless given, the best of five fixed shares, which is paid for.

    Steinke, Nasr and Jagielski 2023. A canary's coin touches its own model only, so that what holds of one
    run's canaries holds of all runs' together.

    >>> OneRun(canaries=3).assign(0, records=0, seed=2).canaries.tolist()
    [False, True, False]
    """

    id: ClassVar[str] = "one-run"

    canaries: int = 1000
    models: int = 1
    guesses: Guesses | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.count(canaries=self.canaries, hint="It is how many rows are planted; write 1000.")

    @property
    def planted(self) -> int:
        """All canaries, whether in or out."""
        return self.canaries

    def assign(self, model: int, records: int, seed: int) -> Assignment:
        """The coins of this model."""
        coins = stream(seed, "coins", model).random(self.canaries) < 0.5
        return Assignment(model=model, seed=model_seed(seed, model), canaries=coins)

    def headline(self, evidence: Evidence, question: Question) -> LowerBound:
        """What the guesses refute of (eps, delta)-DP."""
        guesses = self.guesses or _fixed_shares(evidence.scores.size)
        return self._bound(evidence, question, guesses, "eps-delta")

    def others(self, evidence: Evidence, question: Question) -> list[LowerBound]:
        """The same guesses if the trade-off were Gaussian, and the search that is not paid for."""
        guesses = self.guesses or _fixed_shares(evidence.scores.size)
        return [
            self._bound(evidence, question, guesses, "gaussian"),
            self._bound(evidence, question, BestGuesses(), "eps-delta"),
        ]

    def _bound(
        self, evidence: Evidence, question: Question, guesses: Guesses, version: Version
    ) -> LowerBound:
        return one_run_bound(
            evidence.scores.ravel(),
            evidence.included.ravel(),
            delta=question.delta,
            confidence=question.confidence,
            guesses=guesses,
            version=version,
            adjacency=question.adjacency,
            threat_model=question.threat_model,
        )


def _fixed_shares(canaries: int) -> GuessGrid:
    counts = dict.fromkeys(max(1, round(share * canaries)) for share in _SHARES)
    return GuessGrid(tuple((count, count) for count in counts if 2 * count <= canaries) or ((1, 0),))
