"""Coins and noise of a fleet: each model's own, keyed by its seed, the purpose and the step."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dpgap._seeds import stream
from dpgap.data.augmentation import augmentation_key
from dpgap.privacy.mechanism import BallsInBins, Poisson, Sampling, Shuffled
from dpgap.training.dpsgd import gaussian_noise
from dpgap.training.sampling import draw
from dpgap.training.step import Task


class Randomness(ABC):
    """What a fleet draws at each step, for M models, N rows and P parameters."""

    def __init__(self, task: Task, seeds: Sequence[int]) -> None:
        self._task, self._seeds = task, seeds

    @final
    def draw(
        self,
        step: int,
        coins: Bool[Tensor, "M N"],
        noise: Float[Tensor, "M P"],
        keys: Int[Tensor, " M"],
    ) -> None:
        """Fill all three with what step ``step`` draws; ``keys`` are those of augmentation."""
        for m, seed in enumerate(self._seeds):
            self._fill(step, seed, coins[m], noise[m])
        if self._task.options.augmentation:
            keys.copy_(torch.tensor([augmentation_key(seed, step) for seed in self._seeds]))

    @abstractmethod
    def _fill(self, step: int, seed: int, coins: Bool[Tensor, " N"], noise: Float[Tensor, " P"]) -> None:
        """Coins and noise of one model."""


@final
class HostRandomness(Randomness):
    """The very coins and noise of the single trainer, whatever the device."""

    def _fill(self, step: int, seed: int, coins: Bool[Tensor, " N"], noise: Float[Tensor, " P"]) -> None:
        coins.copy_(draw(self._task.mechanism.sampling, len(coins), step, seed))
        noise.copy_(gaussian_noise(len(noise), self._task.noise_scale, step, seed))


@final
class DeviceRandomness(Randomness):
    """The same laws from a GPU's own generators, so that nothing is copied there."""

    def __init__(self, task: Task, seeds: Sequence[int], device: torch.device) -> None:
        super().__init__(task, seeds)
        self._generator = torch.Generator(device)

    def _fill(self, step: int, seed: int, coins: Bool[Tensor, " N"], noise: Float[Tensor, " P"]) -> None:
        self._drawn(self._task.mechanism.sampling, step, seed, coins)
        noise.normal_(generator=self._keyed(seed, "noise", step)).mul_(self._task.noise_scale)

    def _drawn(self, sampling: Sampling, step: int, seed: int, coins: Bool[Tensor, " N"]) -> None:
        n, device = len(coins), coins.device
        match sampling:
            case Poisson(rate=rate):
                generator = self._keyed(seed, "draw", step)
                uniform = torch.rand(n, generator=generator, device=device, dtype=torch.float64)
                torch.lt(uniform, rate, out=coins)
            case Shuffled(batch=batch):
                epoch, place = divmod(step - 1, sampling.steps_per_round)
                order = torch.randperm(n, generator=self._keyed(seed, "shuffle", epoch), device=device)
                coins.zero_()[order[place * batch : (place + 1) * batch]] = True
            case BallsInBins(batches=batches):
                turn, place = divmod(step - 1, batches)
                generator = self._keyed(seed, "bins", turn)
                bins = torch.randint(batches, (n,), generator=generator, device=device)
                torch.eq(bins, place, out=coins)

    def _keyed(self, seed: int, purpose: str, step: int) -> torch.Generator:
        return self._generator.manual_seed(int(stream(seed, "device", purpose, step).integers(2**63)))
