"""``dpgap bound``: from two files of scores to every lower bound that the flags allow."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from dpgap.cli._print import CHOOSE_ONE, AdjacencyName, ThreatModelName, print_bounds, print_json
from dpgap.errors import InvalidInput

if TYPE_CHECKING:
    from dpgap.privacy.counts import AuditScores
    from dpgap.privacy.lower_bound import LowerBound
    from dpgap.privacy.table import Question
    from dpgap.privacy.upper_bound import UpperBound


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `bound` can be told.

    Args:
        delta: The delta at which the privacy loss is bounded.
        confidence: How sure a certified bound is, over both worlds together.
        adjacency: How the two worlds differ.
        threat_model: What the attacker saw (the final model, or all) and made (an input, or a gradient).
        sample_rate: DP-SGD's sample rate; with --steps it adds the subsampled-gaussian estimator.
        steps: DP-SGD's steps; with --sample-rate.
        threshold: A threshold, or several, fixed before the scores were seen: rule fixed, or bonferroni.
        seed: Which random split the held-out rule makes.
        paper: Print the columns of the paper's tables instead.
        claim: The epsilon that is claimed at this delta, to set beside the bound.
        report: Write a page to hand over, with charts and every assumption, to this HTML file.
        json: Print JSON.
    """

    delta: float = 1e-5
    confidence: float = 0.95
    adjacency: AdjacencyName = "add-remove"
    threat_model: ThreatModelName = "final"
    sample_rate: float | None = None
    steps: int | None = None
    threshold: tuple[float, ...] = ()
    seed: int = 0
    paper: bool = False
    claim: float | None = None
    report: Path | None = None
    json: bool = False


def bound(
    inside: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="IN")],
    outside: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")],
    options: Annotated[Options, tyro.conf.arg(name="")],
) -> None:
    """Lower bounds on the privacy loss, from the scores of models with and without the canary.

    Args:
        inside: Scores of the models trained with the canary: .npy, .npz, .csv, .txt or .json.
        outside: Scores of the models trained without it. Higher means "with".
        options: What else is asked.
    """
    from dpgap.privacy.counts import AuditScores, read_scores
    from dpgap.privacy.table import every_bound, paper_columns
    from dpgap.report.facts import facts_of_scores

    if not 0 < options.delta < 1:
        raise InvalidInput(
            f"delta must be strictly between 0 and 1, got {options.delta!r}. Write 1e-5 or smaller."
        )
    _check_paper(options)
    scores = AuditScores(read_scores(inside), read_scores(outside))
    question = _question(options)
    claim = _claim(options, question)
    if options.paper:
        bounds = paper_columns(scores, question)
    else:
        bounds = every_bound(scores, question, thresholds=options.threshold, seed=options.seed)
    if options.json:
        print_json({"bounds": bounds, "claim": claim})
    else:
        _print(bounds, scores, claim)
    if options.report:
        from dpgap.report.page import page, write

        facts = facts_of_scores(scores, bounds, claim, (inside.name, outside.name))
        write(options.report, page([facts]), beside=[inside, outside])
        if not options.json:
            print(f"Wrote {options.report}, with private state: for the auditor.")


def _check_paper(options: Options) -> None:
    """The paper's tables choose thresholds from the scores, and certify nothing that a report could quote."""
    if options.paper and options.threshold:
        raise InvalidInput(
            f"threshold must be left out with --paper, got {options.threshold}: the paper's tables choose "
            "theirs from the scores. Leave out one of the two."
        )
    if options.paper and options.report:
        raise InvalidInput(
            f"report must be left out with --paper, got {str(options.report)!r}: all of the paper's columns "
            "are heuristic, and a report begins with a certified bound. Leave out one of the two."
        )


def _claim(options: Options, question: "Question") -> "UpperBound | None":
    """The claim, where it speaks of what was attacked: it covers the final model alone."""
    from dpgap.privacy.table import check_answers
    from dpgap.privacy.upper_bound import UpperBound

    if options.claim is None:
        return None
    claim = UpperBound.claimed(options.claim, delta=options.delta, adjacency=question.adjacency)
    check_answers(question, claim)
    return claim


def _question(options: Options) -> "Question":
    from dpgap.privacy.mechanism import Adjacency
    from dpgap.privacy.table import Question

    rate, steps = options.sample_rate, options.steps
    if (rate is None) != (steps is None):
        raise InvalidInput(
            f"sample_rate={rate} and steps={steps} must be given together: they make the curve of DP-SGD. "
            "Write --sample-rate 0.01 --steps 1000, or neither."
        )
    return Question(
        delta=options.delta,
        confidence=options.confidence,
        adjacency=Adjacency(options.adjacency),
        threat_model=options.threat_model,
        curve=None if rate is None or steps is None else (rate, steps),
    )


def _print(bounds: "list[LowerBound]", scores: "AuditScores", claim: "UpperBound | None") -> None:
    from dpgap.privacy.table import refutes

    headline, sizes = bounds[0], (scores.inside.size, scores.outside.size)
    print_bounds(f"eps_lb at delta {headline.delta:g}: {sizes[0]} scores inside, {sizes[1]} outside", bounds)
    if headline.validity == "certified":
        print(
            f"Certified by the {headline.rule} rule, with confidence {100 * headline.confidence:.6g} %: "
            f"the privacy loss at delta\n{headline.delta:g} is at least {headline.value:.2f} "
            f"({headline.adjacency.value}, {headline.threat_model})."
        )
    if claim is not None:
        print(f"Claimed: at most {claim.value:g}{', which is refuted' if refutes(headline, claim) else ''}.")
    print(CHOOSE_ONE)
