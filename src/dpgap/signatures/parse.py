"""Signatures by the short names of the command line."""

import difflib
import math
from collections.abc import Callable

from dpgap.errors import InvalidInput
from dpgap.signatures.base import Signature
from dpgap.signatures.gradient import CosineToUpdate, GradientNorm, Kurtosis, ProjectionVariability
from dpgap.signatures.history import DirectionalUniqueness
from dpgap.signatures.output import Entropy, InverseConfidence, Loss, Margin

SHORT_NAMES: dict[str, Callable[[], Signature]] = {
    "linf": GradientNorm,
    "l2": lambda: GradientNorm(p=2),
    "l1": lambda: GradientNorm(p=1),
    "linf-clipped": lambda: GradientNorm(p=math.inf, clipped=True),
    "l2-clipped": lambda: GradientNorm(p=2, clipped=True),
    "l1-clipped": lambda: GradientNorm(p=1, clipped=True),
    "cosine": CosineToUpdate,
    "kurtosis": Kurtosis,
    "uniqueness": DirectionalUniqueness,
    "projection": ProjectionVariability,
    "entropy": Entropy,
    "margin": Margin,
    "loss": Loss,
    "inverse-confidence": InverseConfidence,
}
"""Every built-in signature, as the command line calls it."""


def parse_signature(name: str) -> Signature:
    """The signature called ``name``, with its usual options.

    >>> parse_signature("l2")
    GradientNorm(p=2, clipped=False)
    >>> parse_signature("entropi")
    Traceback (most recent call last):
    dpgap.errors.InvalidInput: signature must be one of linf, l2, ..., got 'entropi'. Did you mean entropy?
    """
    if name in SHORT_NAMES:
        return SHORT_NAMES[name]()
    near = difflib.get_close_matches(name, SHORT_NAMES, n=2)
    hint = f" Did you mean {' or '.join(near)}?" if near else " The paper uses linf."
    raise InvalidInput(f"signature must be one of {', '.join(SHORT_NAMES)}, got {name!r}.{hint}")
