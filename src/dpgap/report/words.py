"""What a report says in words and figures; a bound is never rounded in its own favour."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from dpgap.privacy.lower_bound import LowerBound
from dpgap.report.facts import Facts
from dpgap.store.records import Spread

SAW = {
    "final": "the final model; what was planted are rows of data",
    "full-state": "every model of the run; what was planted are rows of data",
    "final-gradient": "the final model; what was planted are gradients",
    "full-state-gradient": "every model of the run; what was planted are gradients",
}
_ENDS = {
    "finished": "all that were planned",
    "certified": "stopped when the target was certified",
    "futile": "stopped when the target was out of reach",
    "incomplete": "the others are missing",
}


def verdict(facts: Facts) -> str:
    """The audit in one sentence, which claims no more than the headline does."""
    bound, claim = facts.headline, facts.upper_bound
    begun = f"Not finished, {_of_planned(facts)}: an" if facts.status == "incomplete" else "An"
    sure = f"at {_percent(bound.confidence)} confidence and delta {bound.delta:g}"
    if facts.refuted and claim is not None:
        return (
            f"The claim is refuted: an attack shows a privacy loss of at least "
            f"{_beyond(bound.value, claim.value)} where at most {claim.value:g} is {claim.validity}, {sure}."
        )
    shown = f"{begun} attack on {_models(facts.models)} shows "
    if bound.value > 0:
        shown += f"a privacy loss of at least {at_least(bound.value)}"
    else:
        shown += "no privacy loss, which does not show that there is none"
    if claim is not None:
        return f"{shown}, {sure}; at most {at_most(claim.value)} is {claim.validity}."
    known = "no eps_ub was given" if facts.status == "unknown" else "nothing is proved of this training"
    return f"{shown}, {sure}; {known}."


def number(value: float | None, digits: int = 2) -> str:
    """A number in a table.

    >>> number(1.005, 3), number(float("inf")), number(None)
    ('1.005', 'inf', 'none')
    """
    return "none" if value is None else f"{value:.{digits}f}"


def at_least(value: float | None, digits: int = 2) -> str:
    """A lower bound, rounded down.

    >>> at_least(2.9999), at_least(0.0), at_least(None)
    ('2.99', '0.00', 'none')
    """
    return _rounded(value, ROUND_FLOOR, digits)


def at_most(value: float | None) -> str:
    """An upper bound, rounded up.

    >>> at_most(2.001), at_most(10.0), at_most(float("inf"))
    ('2.01', '10.00', 'inf')
    """
    return _rounded(value, ROUND_CEILING, 2)


def rate(value: float, *, limit: bool = False) -> str:
    """An error rate in percent; a ``limit`` is rounded up, and none is shown as 0.

    >>> rate(0.25), rate(1e-6), rate(0.12341, limit=True), rate(1e-6, limit=True)
    ('25.00 %', '0.0001 %', '12.35 %', '0.0001 %')
    """
    percent = 100 * value
    digits = 2 if percent >= 0.01 or percent == 0 else 1 - math.floor(math.log10(percent)) - 1
    step = Decimal(1).scaleb(-digits)
    rounding = ROUND_CEILING if limit else None
    return f"{Decimal(f'{percent:.9g}').quantize(step, rounding=rounding)} %"


def spread(accuracy: Spread | None) -> str:
    """An accuracy over models."""
    return "not known" if accuracy is None else f"{accuracy.mean:.2%} (sd {accuracy.sd:.2%})"


def left(facts: Facts) -> str:
    """What became of the canaries under the filter."""
    gone = facts.removals
    if gone is None:
        return {None: "not known", True: "none was planted", False: "there was no filter"}[facts.filtered]
    if gone.median is None:
        return f"removed in {gone.removed} of {gone.planted}"
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


def named(facts: Facts) -> str:
    """Why the first row is the one to quote."""
    if facts.headline.rule in ("fixed", "bonferroni"):
        return "The first row counts if its threshold was fixed before anybody saw the scores."
    if facts.status == "unknown":
        return "The first row is the one that dpgap names without looking at the scores."
    return "The first row was named before the audit."


def assumptions(facts: Facts) -> tuple[str, ...]:
    """What the headline rests on, also that models which failed did so whatever they had seen."""
    stated = facts.headline.assumptions
    if not facts.failures:
        return stated
    return (
        *stated,
        f"{facts.failures} failed models are left out: failing had nothing to do with the canary",
    )


def no_limits(facts: Facts) -> str | None:
    """Why the slider has no limits, if it has none."""
    if facts.certifies:
        return None
    if not facts.independent:
        return "No limits here: scores of one model depend on each other. The headline allows for that."
    return "No limits here: when to stop was decided from the scores. The headline holds all the same."


def status(facts: Facts) -> str:
    """How many models, and why no more."""
    if facts.status == "unknown":
        return str(facts.models)
    ended = _ENDS[facts.status]
    if facts.status == "futile" and facts.models == facts.planned:
        ended = "all that were planned; the target was not certified"
    seconds = "" if facts.seconds_per_model is None else f"; {facts.seconds_per_model:.2g} s each"
    failed = f"; {facts.failures} failed" if facts.failures else ""
    return f"{_of_planned(facts)}, {ended}{seconds}{failed}"


def _of_planned(facts: Facts) -> str:
    return str(facts.models) if facts.models == facts.planned else f"{facts.models} of {facts.planned}"


def _models(count: int) -> str:
    return "1 model" if count == 1 else f"{count} models"


def _beyond(value: float, claimed: float) -> str:
    """``value``, rounded down, with as many digits as show that it exceeds ``claimed``."""
    shown = (at_least(value, digits) for digits in range(2, 9))
    return next((text for text in shown if float(text) > claimed), f"{value!r}")


def _rounded(value: float | None, rounding: str, digits: int) -> str:
    if value is None or not math.isfinite(value):
        return "none" if value is None else str(value)
    # Nine digits, so that the last bits of a float do not decide.
    return str(Decimal(f"{value:.9g}").quantize(Decimal(1).scaleb(-digits), rounding=rounding))


def _percent(share: float) -> str:
    return f"{100 * share:.6g} %"
