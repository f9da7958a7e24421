"""Several runs in a table, a row each."""

from dataclasses import dataclass

from dpgap.privacy.table import check_same
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
    """A row for each run, in the order given; runs that answer different questions are refused."""
    check_side_by_side(runs)
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


def check_side_by_side(runs: list[Facts]) -> None:
    """Refuse runs that were asked at different deltas, or of different neighbours."""
    for facts in runs[1:]:
        check_same(runs[0].headline, facts.headline, ("One run", "another run"))
