"""``dpgap plan``: what an audit can certify before its models are trained."""

from typing import TYPE_CHECKING

from dpgap.cli._print import print_json, print_table, shown
from dpgap.errors import InvalidInput

if TYPE_CHECKING:
    from dpgap.privacy.planner import Plan


def plan(
    *,
    models: int | None = None,
    target_eps: float | None = None,
    true_eps: float | None = None,
    separation: float | None = None,
    delta: float = 1e-5,
    confidence: float = 0.95,
    json: bool = False,
) -> None:
    """What n models can certify at best and on average, or how many models a wanted bound needs.

    Args:
        models: The number of models, both worlds together.
        target_eps: The bound to be certified.
        true_eps: The privacy loss at delta that the attack really achieves, with Gaussian scores.
        separation: The same, as the distance of the worlds' mean scores in standard deviations.
        delta: The delta at which the privacy loss is bounded.
        confidence: How sure the certified bound is to be.
        json: Print JSON.
    """
    from dpgap import _check
    from dpgap.privacy import planner

    _check.probability(delta=delta, hint="Write 1e-5 or smaller.")
    if true_eps is not None and separation is not None:
        raise InvalidInput(f"true_eps={true_eps} and separation={separation} say the same: give one of them.")
    if true_eps is not None:
        separation = planner.separation_of(true_eps, delta)
    plans = planner.plan(
        models=models,
        target_epsilon=target_eps,
        separation=separation,
        delta=delta,
        confidence=confidence,
    )
    if json:
        print_json({"plans": plans, "separation": separation, "delta": delta, "confidence": confidence})
    else:
        _print(plans, separation, f"certified eps_lb at delta {delta:g}, confidence {100 * confidence:.6g} %")


def _print(plans: "list[Plan]", separation: float | None, title: str) -> None:
    print_table(
        title,
        ("rule", "ceiling", "expected", "models needed"),
        [
            (
                row.rule + (" (heuristic)" if row.heuristic else ""),
                shown(row.ceiling),
                shown(row.expected),
                shown(row.models_needed, 0),
            )
            for row in plans
        ],
    )
    print("The ceiling is reached by a perfect attack; rule fixed knows the best threshold in advance.")
    if separation is None:
        print("Without --true-eps or --separation, models needed are those of a perfect attack: a minimum.")
    else:
        print(f"Expected for Gaussian scores {separation:.3g} standard deviations apart.")
