"""What a report says in words."""

from dpgap.privacy.lower_bound import LowerBound
from dpgap.report.facts import Facts, MeanAndSd

SAW = {
    "final": "the final model; what was planted are rows of data",
    "full-state": "every model of the run; what was planted are rows of data",
    "final-gradient": "the final model; what was planted are gradients",
    "full-state-gradient": "every model of the run; what was planted are gradients",
}


def verdict(facts: Facts) -> str:
    """The audit in one sentence, which claims no more than the headline does."""
    bound, claim = facts.headline, facts.upper_bound
    sure = f"at {_percent(bound.confidence)} confidence and delta {bound.delta:g}"
    if facts.refuted and claim is not None:
        return (
            f"The claim is refuted: an attack shows a privacy loss of at least {number(bound.value)} "
            f"where at most {number(claim.value)} is {claim.validity}, {sure}."
        )
    shown = f"An attack on {facts.models} models shows "
    if bound.value > 0:
        shown += f"a privacy loss of at least {number(bound.value)}"
    else:
        shown += "no privacy loss, which does not show that there is none"
    if claim is None:
        return f"{shown}, {sure}; nothing is proved of this training."
    return f"{shown}, {sure}; at most {number(claim.value)} is {claim.validity}."


def number(value: float | None, digits: int = 2) -> str:
    """A number in a table.

    >>> number(1.005, 3), number(float("inf")), number(None)
    ('1.005', 'inf', 'none')
    """
    return "none" if value is None else f"{value:.{digits}f}"


def spread(accuracy: MeanAndSd | None) -> str:
    """An accuracy over models."""
    return "not known" if accuracy is None else f"{accuracy.mean:.2%} (sd {accuracy.sd:.2%})"


def left(facts: Facts) -> str:
    """What became of the canaries under the filter."""
    gone = facts.canaries
    if gone is None:
        return "there was no filter" if "experiment" in facts.specification else "not known"
    if gone.median is None:
        return f"removed in none of {gone.planted}"
    when = gone.median / gone.steps_per_epoch
    return f"removed in {gone.removed} of {gone.planted}, after epoch {when:.1f} in the median"


def interval(bound: LowerBound) -> str:
    """The bound's interval; one that only describes is marked."""
    if bound.interval is None:
        return "none"
    mark = "*" if bound.interval.descriptive else ""
    return f"{number(bound.interval.low)} to {number(bound.interval.high)}{mark}"


def looked(facts: Facts) -> str:
    """How often bounds were computed, as far as anybody counted."""
    if facts.looks is None:
        return "How often bounds were computed from these scores before, nobody has counted."
    return f"Bounds computed from these scores so far: {facts.looks}."


def status(facts: Facts) -> str:
    """How many models, and why no more."""
    said = {
        "finished": "all that were planned",
        "certified": "stopped when the target was certified",
        "futile": "stopped when the target was out of reach",
        "incomplete": f"of {facts.planned} planned; the others are missing",
    }
    seconds = "" if facts.seconds_per_model is None else f"; {facts.seconds_per_model:.2g} s each"
    failed = f"; {facts.failures} failed" if facts.failures else ""
    return f"{facts.models}, {said[facts.status]}{seconds}{failed}"


def _percent(share: float) -> str:
    return f"{100 * share:.6g} %"
