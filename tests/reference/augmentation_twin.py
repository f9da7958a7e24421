"""Augmentation one view at a time, in Python's own whole numbers."""

import numpy as np

from dpgap._seeds import stream

_MASK = 2**64 - 1


def splitmix64(state: int, counter: int) -> int:
    """The ``counter``-th output of the generator that starts at ``state``."""
    z = (state + (counter + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def view(image: np.ndarray, padding: int, *, record: int, step: int, copy: int, seed: int) -> np.ndarray:
    """One cropped and perhaps mirrored image of shape (channels, height, width)."""
    key = int(stream(seed, "augmentation", step).integers(2**63))
    of_copy = splitmix64(splitmix64(key, record), copy)
    down, right, mirror = (splitmix64(of_copy, draw) % 2**63 for draw in range(3))
    _, height, width = image.shape
    padded = np.pad(image, ((0, 0), (padding, padding), (padding, padding)))
    top, left = down % (2 * padding + 1), right % (2 * padding + 1)
    crop = padded[:, top : top + height, left : left + width]
    return crop[:, :, ::-1] if mirror % 2 else crop
