"""Several runs in a table, a row each."""

from dataclasses import dataclass

from dpgap.errors import IncomparableBounds
from dpgap.privacy.lower_bound import LowerBound
from dpgap.report.facts import Facts


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run: what is allowed, what was shown, and what it costs.

    ``eps_lb`` is the headline, which was named before the audit; ``eps_lb_paper`` the paper's, heuristic.
    """

    key: str
    title: str
    eps_ub: float | None
    eps_lb: float
    confidence: float
    eps_lb_paper: float | None
    accuracy: float | None
    models: int
    status: str


def side_by_side(runs: list[Facts]) -> list[Row]:
    """A row for each run, in the order given.

    Runs that were asked at different deltas, or of different neighbours, are refused.
    """
    for facts in runs[1:]:
        check_same_question(runs[0].headline, facts.headline)
    return [
        Row(
            key=facts.key,
            title=facts.title,
            eps_ub=facts.upper_bound.value if facts.upper_bound else None,
            eps_lb=facts.headline.value,
            confidence=facts.headline.confidence,
            eps_lb_paper=facts.paper.value if facts.paper else None,
            accuracy=facts.test_accuracy.mean if facts.test_accuracy else None,
            models=facts.models,
            status=facts.status,
        )
        for facts in runs
    ]


def check_same_question(one: LowerBound, other: LowerBound) -> None:
    """Refuse two bounds whose values mean different things."""
    for name, ours, theirs in (
        ("delta", one.delta, other.delta),
        ("adjacency", one.adjacency.value, other.adjacency.value),
    ):
        if ours != theirs:
            raise IncomparableBounds(
                f"The {name} of one run is {ours!r} and of another {theirs!r}: their epsilons answer "
                f"different questions. Compare runs of the same {name}; dpgap report shows each by itself."
            )
