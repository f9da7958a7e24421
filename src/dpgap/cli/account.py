"""``dpgap account``: what a run with Poisson sampling provably leaks, or the noise for a wanted bound."""

from typing import TYPE_CHECKING

from dpgap.cli._print import AdjacencyName, print_json, print_table, shown
from dpgap.errors import InvalidInput, NoAnswer

if TYPE_CHECKING:
    from dpgap.privacy.mechanism import Mechanism
    from dpgap.privacy.upper_bound import Accountant


def account(
    *,
    sample_rate: float,
    steps: int,
    noise_multiplier: float | None = None,
    epsilon: float | None = None,
    delta: float = 1e-5,
    adjacency: AdjacencyName = "add-remove",
    json: bool = False,
) -> None:
    """The upper bound of a DP-SGD run with Poisson sampling, by every accountant.

    Args:
        sample_rate: The probability that a step draws a given record.
        steps: The number of steps.
        noise_multiplier: The standard deviation of the noise over the clip norm; or give --epsilon.
        epsilon: The wanted bound; the least noise for it is found. Or give --noise-multiplier.
        delta: The delta at which the privacy loss is bounded.
        adjacency: Which datasets count as neighbours.
        json: Print JSON.
    """
    from dpgap.privacy.upper_bound import EVERYWHERE

    run = _mechanism(sample_rate, steps, noise_multiplier, epsilon, delta, adjacency)
    proved = run.upper_bound(delta)
    answers = {
        "pld": proved.value,
        "rdp": _answer(run, delta, "rdp"),
        "closed_form": _answer(run, delta, "closed-form"),
    }
    if json:
        print_json(
            {
                **answers,
                "noise_multiplier": run.noise_multiplier,
                "delta": delta,
                "adjacency": adjacency,
                "assumptions": proved.assumptions,
            }
        )
        return
    print_table(
        f"eps_ub at delta {delta:g}: rate {sample_rate:g}, {steps} steps, noise multiplier "
        f"{run.noise_multiplier:g}, {adjacency}",
        ("accountant", "eps_ub"),
        [(name, answer if isinstance(answer, str) else shown(answer, 4)) for name, answer in answers.items()],
    )
    for note in proved.assumptions[len(EVERYWHERE) :]:
        print(f"pld: {note}.")
    print("Each is proved for the release of every model of the run, if the seed stays secret.")


def _mechanism(
    sample_rate: float,
    steps: int,
    noise_multiplier: float | None,
    epsilon: float | None,
    delta: float,
    adjacency: AdjacencyName,
) -> "Mechanism":
    from dpgap import _check
    from dpgap.privacy.accounting import calibrate
    from dpgap.privacy.mechanism import Adjacency, Mechanism, Poisson

    _check.probability(delta=delta, hint="Write 1e-5 or smaller.")
    # The bound depends on neither the clip norm nor the denominator.
    run = {
        "sampling": Poisson(rate=sample_rate),
        "clip_norm": 1.0,
        "expected_batch": 1.0,
        "steps": steps,
        "adjacency": Adjacency(adjacency),
    }
    match noise_multiplier, epsilon:
        case float(), None:
            return Mechanism(noise_multiplier=noise_multiplier, **run)
        case None, float():
            return calibrate(epsilon, delta, **run)
        case _:
            raise InvalidInput(
                f"noise_multiplier={noise_multiplier} and epsilon={epsilon}: exactly one must be given. "
                "Write --noise-multiplier 1.1 for its bound, or --epsilon 8 for the noise."
            )


def _answer(run: "Mechanism", delta: float, accountant: "Accountant") -> float | str:
    try:
        return run.upper_bound(delta, accountant).value
    except NoAnswer as reason:
        return f"no answer: {reason}"
