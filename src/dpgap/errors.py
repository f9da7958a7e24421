"""Everything dpgap raises on purpose.

    DpgapError
    ├── InvalidInput          an argument, file or option that cannot be right (also a ValueError)
    ├── NoAnswer              a sound question that nothing here can answer, with the reason
    └── IncomparableBounds    two bounds that speak of different things

A message says what was wrong, with its value; why it matters; and what to write instead.
"""


class DpgapError(Exception):
    """Base of every error that dpgap raises on purpose."""


class InvalidInput(DpgapError, ValueError):
    """An argument, file or option that cannot be right."""


class NoAnswer(DpgapError):
    """A sound question that nothing here can answer; the message says why and what to ask instead."""


class IncomparableBounds(DpgapError):
    """Two bounds whose delta, adjacency or threat model differ, so that neither speaks of the other."""
