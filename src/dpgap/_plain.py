"""Records as plain values, for JSON and for hashing."""

import math
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any


def plain(content: Any) -> Any:
    """``content`` with records as objects, tuples as lists and infinities as "inf" and "-inf".

    >>> plain({"value": float("inf"), "rates": (0.5, 1)})
    {'value': 'inf', 'rates': [0.5, 1]}
    """
    if is_dataclass(content):
        return {field.name: plain(getattr(content, field.name)) for field in fields(content)}
    if isinstance(content, dict):
        return {key: plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [plain(value) for value in content]
    if isinstance(content, Enum):
        return content.value
    if isinstance(content, float) and math.isinf(content):
        return "inf" if content > 0 else "-inf"
    return content
