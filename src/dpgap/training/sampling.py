"""Which records a step draws: the coins of each sampler, keyed by seed and step."""

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from dpgap._seeds import stream
from dpgap.errors import InvalidInput
from dpgap.privacy.mechanism import BallsInBins, Poisson, Sampling, Shuffled


def draw(sampling: Sampling, n: int, step: int, seed: int) -> Bool[Tensor, " n"]:
    """Which of ``n`` rows step ``step`` draws; steps count from 1.

    - ``Poisson``: each row by its own coin, ``P(drawn) = rate``, fresh at every step;
    - ``Shuffled``: the rows at places ``batch (i - 1)`` to ``batch i - 1`` of the epoch's permutation, at
      the epoch's i-th step;
    - ``BallsInBins``: the rows that the round threw into bin i, at its i-th step.

    **Guarantees**: a function of its arguments alone, so a resumed run needs no generator's state; coins of
    different steps (Poisson), epochs or rounds are independent. Rows that do not exist or have left have
    coins too, so that every world reads the same ones: the caller masks them.

    **Edge cases**: a draw may be empty. ``Shuffled`` refuses another number of rows than its public slots.

    Abadi et al. 2016, Algorithm 1 (Poisson); Chua et al. 2025, Algorithm 3 (balls in bins).

    >>> [int(draw(Shuffled(batch=4, records=10), 10, step, seed=0).sum()) for step in (1, 2, 3)]
    [4, 4, 2]
    """
    match sampling:
        case Poisson(rate=rate):
            return torch.from_numpy(stream(seed, "draw", step).random(n) < rate)
        case Shuffled(batch=batch):
            check_slots(sampling, n)
            epoch, place = divmod(step - 1, sampling.steps_per_round)
            order = stream(seed, "shuffle", epoch).permutation(n)
            return _mask(n, order[place * batch : (place + 1) * batch])
        case BallsInBins(batches=batches):
            turn, place = divmod(step - 1, batches)
            return torch.from_numpy(stream(seed, "bins", turn).integers(batches, size=n) == place)


def _mask(n: int, drawn: np.ndarray) -> Tensor:
    mask = np.zeros(n, dtype=bool)
    mask[drawn] = True
    return torch.from_numpy(mask)


def check_slots(sampling: Sampling, n: int) -> None:
    """Refuse ``n`` rows where ``sampling`` shuffles another number of public slots."""
    if isinstance(sampling, Shuffled) and n != sampling.records:
        raise InvalidInput(
            f"Shuffled has {sampling.records} public slots but there are {n} rows, canaries included. Every "
            f"row needs one slot, switched on or off; write Shuffled(records={n}, ...)."
        )
