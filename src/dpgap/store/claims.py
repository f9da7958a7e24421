"""Which process trains which model: locks that end with the process that holds them."""

import fcntl
from pathlib import Path
from typing import IO

from dpgap.errors import InvalidInput

_MODELS = 2**24


class Claims:
    """One byte of an empty file beside the store for each model; a claim is a lock on that byte.

    **Guarantees**: the operating system grants a byte to one process, and takes it back when the process
    ends, killed or not: no claim outlives its owner, so none needs to expire.

    **Edge cases**: a store in memory belongs to one process, which is granted everything. Two `Store`
    objects of one process share its claims.
    """

    def __init__(self, store: Path) -> None:
        self._path = store.with_name(store.name + ".claims")
        self._in_memory = str(store) == ":memory:"
        self._file: IO[str] | None = None

    def take(self, experiment: int, model: int) -> bool:
        """Whether the model is now this process's own."""
        if self._in_memory:
            return True
        try:
            # Closing any handle of the file would end all locks of the process, so it is opened once.
            self._file = self._file or self._path.open("a")
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte(experiment, model))
        except BlockingIOError:
            return False
        except OSError as problem:
            raise InvalidInput(
                f"{self._path} cannot be locked: {problem.strerror}. Without locks two processes could train "
                "one model; put the store in a folder of your own, on a file system that has them."
            ) from problem
        return True

    def give_back(self, experiment: int, model: int) -> None:
        """Let another process take the model."""
        if self._file:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _byte(experiment, model))

    def close(self) -> None:
        """Give everything back."""
        if self._file:
            self._file.close()


def _byte(experiment: int, model: int) -> int:
    return experiment * _MODELS + model
