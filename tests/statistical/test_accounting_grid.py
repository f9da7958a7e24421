"""The whole grid of the accountant against its twins; the quick tests take a few of its points."""

import pytest

from dpgap.privacy.accounting import upper_bound
from dpgap.privacy.mechanism import Mechanism, Poisson
from tests.reference import accounting_twins

RATES = (1e-4, 1e-3, 1e-2, 0.1, 0.3, 0.9, 1.0)
SIGMAS = (0.5, 1.0, 2.0, 5.0, 20.0)
STEPS = (1, 10, 100, 1000, 10_000, 100_000)


@pytest.mark.slow
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("steps", STEPS)
def test_pld_equals_its_twin_to_half_a_percent_and_never_lies_below(rate, sigma, steps):
    run = Mechanism(
        sampling=Poisson(rate=rate), clip_norm=1.0, noise_multiplier=sigma, expected_batch=1.0, steps=steps
    )
    value = upper_bound(run, 1e-5).value
    if rate == 1:
        exact = accounting_twins.gaussian_epsilon_mp(steps**0.5 / sigma, 1e-5)
    elif value > 100.5:
        # Too large for a twin to be asked to half a percent; it still gains from sampling.
        assert value < accounting_twins.gaussian_epsilon_mp(steps**0.5 / sigma, 1e-5)
        return
    elif steps == 1:
        exact = accounting_twins.one_step_epsilon(rate, sigma, 1e-5)
    else:
        exact = accounting_twins.composed_epsilon(rate, sigma, steps, 1e-5)
    # The twins themselves are good to a few parts in 100,000.
    assert exact * (1 - 1e-4) <= value <= exact * 1.005
