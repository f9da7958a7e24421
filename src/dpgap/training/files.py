"""Files that are there whole or not at all."""

import contextlib
import os
from pathlib import Path

from dpgap.errors import InvalidInput

PRIVATE, SHARED = 0o600, 0o666


def write_whole(path: Path, content: bytes, mode: int = SHARED) -> None:
    """Write ``content`` beside ``path``, force it to the disk, then give it the name ``path``.

    **Guarantees**: whoever looks finds the old content or the new, never a part, whatever interrupts.

    **Edge cases**: when the disk is full or the folder cannot be written, nothing new is left behind. The
    process's umask narrows ``mode``.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as problem:
        raise InvalidInput(
            f"{path} could not be written: {problem.strerror}. Nothing was left half-written; free "
            f"{len(content) / 1e6:.1f} MB there, or choose another folder."
        ) from problem
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
