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
from dpgap.training.fleet.kernels import launch
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
        self._draw(step, coins, noise)
        if self._task.options.augmentation:
            keys.copy_(torch.tensor([augmentation_key(seed, step) for seed in self._seeds]))

    @abstractmethod
    def _draw(self, step: int, coins: Bool[Tensor, "M N"], noise: Float[Tensor, "M P"]) -> None:
        """Coins and noise."""


@final
class HostRandomness(Randomness):
    """The very coins and noise of the single trainer, whatever the device."""

    def _draw(self, step: int, coins: Bool[Tensor, "M N"], noise: Float[Tensor, "M P"]) -> None:
        for m, seed in enumerate(self._seeds):
            coins[m] = draw(self._task.mechanism.sampling, coins.shape[1], step, seed)
            noise[m] = gaussian_noise(noise.shape[1], self._task.noise_scale, step, seed)


@final
class DeviceRandomness(Randomness):
    """The same laws from a GPU's own numbers, so that nothing is copied there.

    Poisson coins and noise come from counters, all models at once; permutations and bins, drawn once a round,
    from PyTorch's generator, and so does everything where Triton is missing.
    """

    def __init__(self, task: Task, seeds: Sequence[int], device: torch.device) -> None:
        super().__init__(task, seeds)
        words = [int(stream(seed, "device").integers(-(2**63), 2**63)) for seed in seeds]
        self._models = torch.tensor(words, device=device)
        self._generator = torch.Generator(device)

    def _draw(self, step: int, coins: Bool[Tensor, "M N"], noise: Float[Tensor, "M P"]) -> None:
        sampling = self._task.mechanism.sampling
        at_once = launch.usable(noise)
        if at_once:
            launch.fill_noise(noise, self._models, step, self._task.noise_scale)
        if at_once and isinstance(sampling, Poisson):
            launch.fill_coins(coins, self._models, step, sampling.rate)
        for m, seed in enumerate(self._seeds):
            if not at_once:
                noise[m].normal_(generator=self._keyed(seed, "noise", step)).mul_(self._task.noise_scale)
            if not (at_once and isinstance(sampling, Poisson)):
                self._draw_coins(sampling, step, seed, coins[m])

    def _draw_coins(self, sampling: Sampling, step: int, seed: int, coins: Bool[Tensor, " N"]) -> None:
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
