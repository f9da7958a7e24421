"""What a verb says when the auditor's install, without PyTorch, is not enough for it."""

from importlib.util import find_spec

from dpgap.errors import InvalidInput


def need_torch(verb: str) -> None:
    """Refuse to begin ``verb`` without PyTorch."""
    if find_spec("torch") is None:
        raise InvalidInput(
            f"{verb} needs PyTorch, which the auditor's install leaves out. Write: pip install 'dpgap[train]'"
        )
