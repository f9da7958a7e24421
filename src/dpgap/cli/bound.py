"""``dpgap bound``: from two files of scores to every lower bound that the flags allow."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from dpgap.cli._print import AdjacencyName, ThreatModelName, print_json, print_table, shown
from dpgap.errors import InvalidInput

if TYPE_CHECKING:
    from dpgap.privacy.counts import AuditScores
    from dpgap.privacy.estimators import Estimator
    from dpgap.privacy.lower_bound import Interval, LowerBound
    from dpgap.privacy.rules import Rule


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

    if not 0 < options.delta < 1:
        raise InvalidInput(
            f"delta must be strictly between 0 and 1, got {options.delta!r}. Write 1e-5 or smaller."
        )
    scores = AuditScores(read_scores(inside), read_scores(outside))
    bounds = _paper_columns(scores, options) if options.paper else _every_bound(scores, options)
    if options.json:
        print_json({"bounds": bounds})
    else:
        _print(bounds, scores)


def _every_bound(scores: "AuditScores", options: Options) -> "list[LowerBound]":
    """Every estimator with every rule that the options allow: certified ones first, never by their value.

    The first is the headline. It is named in advance, as the largest of several is certified by none: the
    user's own thresholds if there are any, else the band.
    """
    from dpgap.privacy.lower_bound import lower_bound
    from dpgap.privacy.mechanism import Adjacency
    from dpgap.privacy.rules import VALIDITIES

    bounds = [
        lower_bound(
            scores,
            delta=options.delta,
            confidence=options.confidence,
            estimator=estimator,
            rule=rule,
            adjacency=Adjacency(options.adjacency),
            threat_model=options.threat_model,
        )
        for estimator in _estimators(options)
        for rule in _rules(scores, options)
    ]
    return sorted(bounds, key=lambda found: VALIDITIES.index(found.validity))


def _estimators(options: Options) -> "list[Estimator]":
    from dpgap.privacy.estimators import ClopperPearson, Gaussian, Jeffreys, JointBeta, SubsampledGaussian
    from dpgap.privacy.mechanism import Adjacency

    estimators: list[Estimator] = [ClopperPearson(), Jeffreys(), JointBeta(), Gaussian()]
    rate, steps = options.sample_rate, options.steps
    if rate is not None and steps is not None:
        adjacency = Adjacency(options.adjacency)
        estimators.append(SubsampledGaussian(sample_rate=rate, steps=steps, adjacency=adjacency))
    elif rate is not None or steps is not None:
        raise InvalidInput(
            f"sample_rate={rate} and steps={steps} must be given together: they make the curve of DP-SGD. "
            "Write --sample-rate 0.01 --steps 1000, or neither."
        )
    return estimators


def _rules(scores: "AuditScores", options: Options) -> "list[Rule]":
    """The user's own thresholds first; a world of one score cannot be split, so it has no held-out rule."""
    from dpgap.privacy.rules import AllThresholds, Band, Bonferroni, Fixed, HeldOut

    rules: list[Rule] = [Band(), AllThresholds()]
    if min(scores.inside.size, scores.outside.size) > 1:
        rules.insert(1, HeldOut(seed=options.seed))
    match options.threshold:
        case ():
            return rules
        case (threshold,):
            return [Fixed(threshold), *rules]
        case several:
            return [Bonferroni(several), *rules]


def _paper_columns(scores: "AuditScores", options: Options) -> "list[LowerBound]":
    """GDP without holdout (the headline), then the columns of the paper's Appendix I, in its order."""
    from dpgap.privacy.estimators import ClopperPearson, Gaussian
    from dpgap.privacy.mechanism import Adjacency
    from dpgap.privacy.paper import paper_bound

    columns = [(Gaussian(), share) for share in (1.0, 0.25, 0.5, 0.75)]
    columns += [(ClopperPearson(), share) for share in (1.0, 0.25, 0.5, 0.75)]
    return [
        paper_bound(
            scores,
            estimator,
            evaluating=share,
            delta=options.delta,
            adjacency=Adjacency(options.adjacency),
            threat_model=options.threat_model,
        )
        for estimator, share in columns
    ]


def _print(bounds: "list[LowerBound]", scores: "AuditScores") -> None:
    headline, sizes = bounds[0], (scores.inside.size, scores.outside.size)
    print_table(
        f"eps_lb at delta {headline.delta:g}: {sizes[0]} scores inside, {sizes[1]} outside",
        ("eps_lb", "validity", "estimator", "rule", "interval", "at score", "FPR, FNR"),
        [
            (
                shown(found.value),
                found.validity,
                found.estimator,
                found.rule,
                _shown_interval(found.interval),
                shown(found.threshold),
                f"{shown(found.fpr)} {shown(found.fnr)}",
            )
            for found in bounds
        ],
    )
    if headline.validity == "certified":
        print(
            f"Certified by the {headline.rule} rule, with confidence {100 * headline.confidence:.6g} %: "
            f"the privacy loss at delta\n{headline.delta:g} is at least {headline.value:.2f} "
            f"({headline.adjacency.value}, {headline.threat_model})."
        )
    print(
        "Choose one row before looking: the largest of several proves nothing, and neither do\n"
        "heuristic and model-based rows. Intervals marked * only describe how a bound varies."
    )


def _shown_interval(interval: "Interval | None") -> str:
    if interval is None:
        return "-"
    return f"{interval.low:.1f}-{interval.high:.1f}{'*' if interval.descriptive else ''}"
