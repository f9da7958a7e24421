"""What must agree before a lower bound may stand beside an upper bound."""

from dpgap.attacks.base import Attack
from dpgap.audits.base import Design
from dpgap.errors import IncomparableBounds, InvalidInput
from dpgap.privacy.lower_bound import ThreatModel
from dpgap.privacy.table import Question
from dpgap.privacy.upper_bound import UpperBound

COVERED: dict[str, tuple[ThreatModel, ...]] = {
    "full-state": ("final", "full-state", "final-gradient", "full-state-gradient"),
    "final": ("final",),
}
"""What an attacker may see, and make, under each kind of upper bound."""


def check_comparable(design: Design, attack: Attack, question: Question, bound: UpperBound | None) -> None:
    """Refuse an audit whose lower bound would not speak of what the upper bound speaks of.

    >>> from dpgap.attacks.loss import LossAttack
    >>> from dpgap.audits.shadow_pairs import ShadowPairs
    >>> from dpgap.privacy.mechanism import Adjacency
    >>> check_comparable(ShadowPairs(), LossAttack(), Question(adjacency=Adjacency.REPLACE_ONE), None)
    Traceback (most recent call last):
    dpgap.errors.IncomparableBounds: The design 'shadow-pairs' compares add-remove or zero-out ...
    """
    if question.adjacency not in design.adjacencies:
        speaks = " or ".join(sorted(design.adjacencies))
        raise IncomparableBounds(
            f"The design {design.id!r} compares {speaks} neighbours, as its in-world has rows more, but the "
            f"mechanism's adjacency is {question.adjacency.value!r}. Account the mechanism for one of those."
        )
    if design.sequential and attack.learns:
        raise InvalidInput(
            f"attack must learn nothing where an audit may stop early, got {attack.id!r}: its scores change "
            "with every model that it learns from, and a bet must be settled by a score that stays. Use the "
            "loss attack, or leave out the design's target."
        )
    if bound is None:
        return
    for name, ours, theirs in (
        ("delta", question.delta, bound.delta),
        ("adjacency", question.adjacency.value, bound.adjacency.value),
    ):
        if ours != theirs:
            raise IncomparableBounds(
                f"The audit's {name} is {ours!r}, the upper bound's {theirs!r}: neither says anything of the "
                f"other. Ask both for the same {name}."
            )
    for seen in (attack.threat_model, question.threat_model):
        if seen not in COVERED[bound.covers]:
            raise IncomparableBounds(
                f"The attack {attack.id!r} works with {seen!r} access, and the upper bound covers the "
                f"release of {bound.covers!r} only. Success would refute nothing; choose an attack on what "
                "is released."
            )
