"""What must agree before a lower bound may stand beside an upper bound."""

from dataclasses import replace

from dpgap.attacks.base import Attack
from dpgap.audits.base import Design
from dpgap.errors import IncomparableBounds, InvalidInput
from dpgap.privacy.table import Question, check_answers
from dpgap.privacy.upper_bound import UpperBound


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
    if bound is not None:
        check_answers(question, bound)
        check_answers(replace(question, threat_model=attack.threat_model), bound)
