import json
import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgap._plain import plain
from dpgap.errors import InvalidInput, NoAnswer
from dpgap.privacy.accounting import calibrate, profile, tradeoff, upper_bound
from dpgap.privacy.mechanism import Adjacency, BallsInBins, Mechanism, Poisson, Shuffled
from dpgap.privacy.tradeoff import Gaussian, Sampled, gaussian_epsilon
from tests.reference import accounting_twins

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "vectors.json").read_text())["accounting"]
MNIST = {"sampling": Poisson(rate=1 / 15), "clip_norm": 1.0, "expected_batch": 4000, "steps": 1500}
# A bound lies between the true epsilon and 0.2 % above it, so two bounds may be out of order by that much.
SLACK = 1.002


def run(rate, sigma, steps, adjacency=Adjacency.ADD_REMOVE):
    return Mechanism(
        sampling=Poisson(rate=rate),
        clip_norm=1.0,
        noise_multiplier=sigma,
        expected_batch=1.0,
        steps=steps,
        adjacency=adjacency,
    )


def bound(*arguments, delta=1e-5, accountant="pld"):
    return upper_bound(run(*arguments), delta, accountant).value


def test_published_figures_are_reproduced():
    gaussian, sampled = run(1, 3**0.5, 3), run(0.2, 0.5, 3)
    assert profile(gaussian, [1.0])[0] == pytest.approx(
        VECTORS["gaussian_sigma_sqrt3_x3"]["delta_at_eps1"], abs=1e-6
    )
    assert 1 - tradeoff(gaussian)(0.1) == pytest.approx(0.38914, abs=5e-6)
    assert profile(sampled, [1.0])[0] == pytest.approx(0.15594, abs=6e-6)
    peer = VECTORS["q0.04_sigma1.5_T2250_delta1e-5"]
    assert bound(0.04, 1.5, 2250) == pytest.approx(peer["pld"], rel=5e-4)
    # Finer orders than the peer's: a little lower.
    assert peer["rdp"] * (1 - 2e-4) < bound(0.04, 1.5, 2250, accountant="rdp") <= peer["rdp"]


@pytest.mark.parametrize("sigma", ["1.593", "5.670"])
def test_the_papers_mnist_runs_leak_less_than_it_says(sigma):
    known = VECTORS["paper_mnist"][f"sigma_{sigma}"]
    assert bound(1 / 15, float(sigma), 1500) == pytest.approx(known["pld"], abs=0.0051)
    assert bound(1 / 15, float(sigma), 1500, accountant="rdp") == pytest.approx(
        known["rdp_fine_orders"], abs=0.0051
    )


@pytest.mark.parametrize(("epsilon", "sigma"), [(10, "eps10"), (2, "eps2")])
def test_calibration_by_pld_gives_the_known_noise(epsilon, sigma):
    got = calibrate(epsilon, 1e-5, **MNIST)
    assert got.noise_multiplier == pytest.approx(VECTORS["paper_mnist"]["pld_calibrated"][sigma], abs=6e-4)
    assert got.upper_bound(1e-5).value <= epsilon


@pytest.mark.parametrize(("epsilon", "sigma", "digits"), [(2, 5.670, 3), (4, 3.14, 2), (10, 1.593, 3)])
def test_the_papers_accountant_gives_the_papers_noise(epsilon, sigma, digits):
    assert round(calibrate(epsilon, 1e-5, **MNIST, accountant="paper").noise_multiplier, digits) == sigma


def test_the_papers_accountant_equals_its_formula_at_40_digits():
    expected = min(
        1500 * accounting_twins.renyi_integer(1 / 15, 1.593, order)
        + math.log1p(-1 / order)
        - math.log(1e-5 * (order - 1)) / (order - 1)
        for order in range(2, 65)
    )
    assert bound(1 / 15, 1.593, 1500, accountant="paper") == pytest.approx(expected, rel=1e-9)


def test_replacing_a_record_costs_what_the_papers_noise_was_not_calibrated_for():
    assert bound(1 / 15, 1.593, 1500, Adjacency.REPLACE_ONE) == pytest.approx(18.4, abs=0.05)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("steps", [1, 100, 100_000])
def test_rate_1_equals_the_gaussian_at_60_digits(sigma, steps):
    exact = accounting_twins.gaussian_epsilon_mp(math.sqrt(steps) / sigma, 1e-5)
    assert bound(1, sigma, steps) == pytest.approx(exact, rel=1e-9)
    doubled = accounting_twins.gaussian_epsilon_mp(2 * math.sqrt(steps) / sigma, 1e-5)
    assert bound(1, sigma, steps, Adjacency.REPLACE_ONE) == pytest.approx(doubled, rel=1e-9)


@pytest.mark.parametrize(("rate", "sigma"), [(1e-4, 1.0), (1e-3, 5.0), (0.01, 0.5), (0.5, 1.0), (0.9, 20.0)])
def test_one_step_equals_quadrature(rate, sigma):
    exact = accounting_twins.one_step_epsilon(rate, sigma, 1e-5)
    assert exact * (1 - 1e-4) <= bound(rate, sigma, 1) <= exact * SLACK
    both = accounting_twins.one_step_epsilon(rate, sigma, 1e-5, directions=("replace",))
    assert both * (1 - 1e-4) <= bound(rate, sigma, 1, Adjacency.REPLACE_ONE) <= both * SLACK


@pytest.mark.parametrize(
    ("rate", "sigma", "steps"),
    [(1e-4, 20.0, 100_000), (1e-3, 2.0, 30), (0.01, 1.0, 1000), (0.1, 5.0, 1000), (0.5, 1.0, 30)],
)
def test_many_steps_equal_our_own_convolution(rate, sigma, steps):
    exact = accounting_twins.composed_epsilon(rate, sigma, steps, 1e-5)
    assert exact * (1 - 1e-4) <= bound(rate, sigma, steps) <= exact * SLACK


def test_many_replaced_steps_equal_our_own_convolution():
    exact = accounting_twins.composed_epsilon(0.05, 2.0, 100, 1e-5, directions=("replace",))
    assert exact * (1 - 1e-4) <= bound(0.05, 2.0, 100, Adjacency.REPLACE_ONE) <= exact * SLACK


def test_zero_out_is_accounted_as_add_remove_under_poisson():
    assert bound(0.1, 1.0, 10, Adjacency.ZERO_OUT) == bound(0.1, 1.0, 10)


RATES, SIGMAS, STEPS = st.floats(1e-3, 1), st.floats(0.5, 20), st.integers(1, 2000)
DELTAS, FACTORS = st.floats(1e-9, 0.1), st.floats(1.0, 3.0)
FEW = settings(max_examples=12)


@FEW
@given(RATES, SIGMAS, STEPS, FACTORS)
def test_more_steps_never_lower_eps(rate, sigma, steps, factor):
    assert bound(rate, sigma, steps) <= bound(rate, sigma, math.ceil(steps * factor)) * SLACK


@FEW
@given(RATES, SIGMAS, STEPS, FACTORS)
def test_more_noise_never_raises_eps(rate, sigma, steps, factor):
    assert bound(rate, sigma * factor, steps) <= bound(rate, sigma, steps) * SLACK


@FEW
@given(RATES, SIGMAS, STEPS, FACTORS)
def test_a_higher_rate_never_lowers_eps(rate, sigma, steps, factor):
    assert bound(rate / factor, sigma, steps) <= bound(rate, sigma, steps) * SLACK


@FEW
@given(RATES, SIGMAS, STEPS, DELTAS, FACTORS)
def test_a_larger_delta_never_raises_eps(rate, sigma, steps, delta, factor):
    assert bound(rate, sigma, steps, delta=delta * factor) <= bound(rate, sigma, steps, delta=delta) * SLACK


@FEW
@given(RATES, SIGMAS, STEPS)
def test_replacing_a_record_never_leaks_less_than_adding_one(rate, sigma, steps):
    assert bound(rate, sigma, steps) <= bound(rate, sigma, steps, Adjacency.REPLACE_ONE) * SLACK


@FEW
@given(RATES, SIGMAS, STEPS)
def test_bounds_come_in_the_order_of_their_tightness(rate, sigma, steps):
    values = [bound(rate, sigma, steps, accountant=name) for name in ("pld", "rdp", "rdp-lemma-1")]
    assert values[0] <= values[1] * SLACK
    assert values[1] <= values[2]
    assert values[0] <= gaussian_epsilon(math.sqrt(steps) / sigma, 1e-5) * (1 + 1e-9)


def test_eps_is_exactly_0_where_delta_covers_everything():
    assert bound(1e-4, 20.0, 1) == 0.0
    assert bound(1, 20.0, 1, delta=0.1) == 0.0


def test_no_noise_and_no_delta_have_no_finite_bound():
    for accountant in ("pld", "rdp", "rdp-lemma-1", "paper", "closed-form"):
        assert bound(0.1, 0.0, 1, accountant=accountant) == math.inf
    assert bound(0.1, 1.0, 1, delta=0.0) == math.inf
    assert profile(run(0.1, 0.0, 1), [1.0]).tolist() == [1.0]
    assert tradeoff(run(0.1, 0.0, 1))(0.5) == 0.0


@pytest.mark.parametrize(
    ("rate", "sigma", "steps", "delta"),
    [(0.999999, 0.03, 10**7, 1e-5), (0.3, 1e-6, 10, 1e-5), (0.01, 1.0, 10**9, 1e-5), (0.1, 1.0, 100, 1e-30)],
)
@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
def test_what_no_grid_can_hold_gets_a_stated_bound(rate, sigma, steps, delta, adjacency):
    answer = upper_bound(run(rate, sigma, steps, adjacency), delta)
    doubled = 1 + (adjacency == Adjacency.REPLACE_ONE)
    assert 0 < answer.value <= gaussian_epsilon(doubled * math.sqrt(steps) / sigma, delta)
    assert answer.validity == "proved"


@pytest.mark.parametrize(("rate", "sigma", "steps"), [(1e-300, 1e-30, 10), (1e-12, 1e200, 10**18)])
@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
def test_what_no_float_can_square_gets_a_bound_from_every_accountant(rate, sigma, steps, adjacency):
    mechanism = run(rate, sigma, steps, adjacency)
    assert 0 <= upper_bound(mechanism, 1e-5).value <= gaussian_epsilon(2 * math.sqrt(steps) / sigma, 1e-5)
    assert profile(mechanism, [1.0])[0] <= 1
    assert tradeoff(mechanism)(0.5) <= 0.5
    for accountant in ("rdp", "closed-form"):
        with suppress(NoAnswer):
            assert upper_bound(mechanism, 1e-5, accountant).value >= 0


def test_a_bound_without_a_grid_says_so():
    assert (
        "delta is below 1e-12, where the grid is rounding"
        in upper_bound(run(0.1, 1.0, 10), 1e-30).assumptions[-1]
    )
    assert "no grid can hold the run" in upper_bound(run(0.1, 1e-6, 10), 1e-5).assumptions[-1]


def test_the_closed_form_gives_the_papers_case_and_lies_above_rdp():
    value = bound(1 / 15, 5.67, 1500, accountant="closed-form")
    assert value == pytest.approx(4.79, abs=0.005)
    assert value > bound(1 / 15, 5.67, 1500, accountant="rdp-lemma-1")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((0.21, 5.0, 10), "sampling rate of at most 1/5, got 0.21"),
        ((0.1, 3.99, 10), "noise multiplier of at least 4, got 3.99"),
        ((0.1, 5.0, 10, Adjacency.REPLACE_ONE), "replace-one"),
    ],
)
def test_the_closed_form_names_the_condition_that_fails(arguments, reason):
    with pytest.raises(NoAnswer, match=reason):
        bound(*arguments, accountant="closed-form")


def test_every_order_of_the_closed_form_meets_both_conditions():
    # With few steps the best order is far beyond what the second condition admits.
    q, sigma = 0.01, 4.0
    value = bound(q, sigma, 1, accountant="closed-form")
    alphas = 1 + np.geomspace(1e-3, 1e4, 400_000)
    big = np.log(1 + 1 / (q * (alphas - 1)))
    first = alphas <= sigma**2 * big / 2 - 2 * math.log(sigma)
    second = alphas <= (sigma**2 * big**2 / 2 - math.log(5) - 2 * math.log(sigma)) / (
        big + np.log(q * alphas) + 1 / (2 * sigma**2)
    )
    bounds = 2 * q**2 / sigma**2 * alphas + math.log(1e5) / (alphas - 1)
    assert value == pytest.approx(bounds[first & second].min(), rel=1e-3)
    assert value > 1.01 * bounds[second].min() or value > 1.01 * bounds[first].min()


def test_renyi_accounting_of_replaced_records_is_refused_with_the_reason():
    with pytest.raises(NoAnswer, match=r"both neighbours are sampled\. Ask accountant='pld'"):
        bound(0.1, 1.0, 10, Adjacency.REPLACE_ONE, accountant="rdp")
    assert bound(1, 2.0, 10, Adjacency.REPLACE_ONE, accountant="rdp") == bound(1, 1.0, 10, accountant="rdp")


@pytest.mark.parametrize("sampling", [Shuffled(batch=10, records=100), BallsInBins(batches=10)])
@pytest.mark.parametrize(("adjacency", "factor"), [(Adjacency.ZERO_OUT, 1), (Adjacency.REPLACE_ONE, 2)])
def test_rounds_are_proved_as_gaussians_and_only_that_is_proved(sampling, adjacency, factor):
    mechanism = replace(run(1, 2.0, 35, adjacency), sampling=sampling)
    proved = mechanism.upper_bound(1e-5)
    assert proved.value == gaussian_epsilon(factor * math.sqrt(4) / 2.0, 1e-5)
    assert proved.validity == "proved"
    heuristic = mechanism.upper_bound(1e-5, "as-if-poisson")
    assert heuristic.value == bound(0.1, 2.0, 35, adjacency)
    assert heuristic.validity == "heuristic"
    assert "which they are not" in " ".join(heuristic.assumptions)


def test_poisson_runs_have_no_heuristic():
    with pytest.raises(InvalidInput, match="write accountant='pld'"):
        bound(0.1, 1.0, 1, accountant="as-if-poisson")


def test_a_bound_says_what_it_rests_on_and_goes_into_json():
    record = plain(upper_bound(run(0.1, 0.0, 1), 1e-5))
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert (record["value"], record["covers"], record["adjacency"]) == ("inf", "full-state", "add-remove")
    assert plain(upper_bound(run(0.1, 1.0, 1), 1e-5))["value"] == bound(0.1, 1.0, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: bound(0.1, 1.0, 1, delta=1.0),
        lambda: bound(0.1, 1.0, 1, accountant="prv"),
        lambda: calibrate(0.0, 1e-5, **MNIST),
        lambda: calibrate(1.0, 0.0, **MNIST),
        lambda: profile(run(0.1, 1.0, 1), [-1.0]),
    ],
)
def test_what_cannot_be_right_is_refused(wrong):
    with pytest.raises(InvalidInput):
        wrong()


@settings(max_examples=5)
@given(st.floats(0.05, 30), st.sampled_from(["pld", "rdp", "paper"]), st.floats(1e-3, 1), st.integers(1, 500))
def test_calibrated_noise_never_exceeds_the_wanted_epsilon_and_little_less_does(
    epsilon, accountant, rate, steps
):
    wanted = {"sampling": Poisson(rate=rate), "clip_norm": 1.0, "expected_batch": 1.0, "steps": steps}
    got = calibrate(epsilon, 1e-5, **wanted, accountant=accountant)
    assert got.upper_bound(1e-5, accountant).value <= epsilon
    less = replace(got, noise_multiplier=got.noise_multiplier / 1.005)
    assert less.upper_bound(1e-5, accountant).value > epsilon


@pytest.mark.parametrize("sampling", [Shuffled(batch=4000, records=60_000), BallsInBins(batches=15)])
def test_calibration_of_rounds_uses_their_own_bound(sampling):
    got = calibrate(10.0, 1e-5, **(MNIST | {"sampling": sampling}), adjacency=Adjacency.ZERO_OUT)
    assert got.noise_multiplier == pytest.approx(10 / 2.0, rel=1e-3)


def test_calibration_repeats_the_reason_of_an_accountant_without_an_answer():
    with pytest.raises(NoAnswer, match="sampling rate of at most 1/5"):
        calibrate(1.0, 1e-5, **(MNIST | {"sampling": Poisson(rate=0.5)}), accountant="closed-form")
    got = calibrate(50.0, 1e-5, **MNIST, accountant="closed-form")
    assert got.noise_multiplier == pytest.approx(4.0, abs=1e-3)


ALPHAS = np.concatenate((np.geomspace(1e-6, 0.5, 200), np.linspace(0.5, 1, 50)))


@pytest.mark.parametrize(("rate", "sigma"), [(0.5, 1.0), (0.01, 0.5), (0.2, 5.0)])
def test_the_curve_of_one_step_lies_just_below_the_exact_one(rate, sigma):
    exact = Sampled(Gaussian(1 / sigma), rate)
    curve = tradeoff(run(rate, sigma, 1))
    gap = exact(ALPHAS) - curve(ALPHAS)
    assert gap.min() > -1e-12
    np.testing.assert_array_less(curve.delta([0.0, 0.3]), exact.delta([0.0, 0.3]) * 1.02)


def test_sampled_steps_are_no_gaussian_curve():
    curve = tradeoff(run(0.5, 1.0, 1))
    assert max(np.max(np.abs(curve(ALPHAS) - Gaussian(mu)(ALPHAS))) for mu in np.linspace(0, 2, 201)) > 0.01
    assert min(np.max(np.abs(curve(ALPHAS) - Gaussian(mu)(ALPHAS))) for mu in np.linspace(0, 2, 201)) > 5e-3


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
@pytest.mark.parametrize(
    ("rate", "sigma", "steps"), [(1 / 15, 1.593, 1500), (0.01, 1.0, 100), (0.5, 0.7, 20)]
)
def test_the_curve_errs_on_the_side_of_lower_curves_and_by_little(rate, sigma, steps, adjacency):
    mechanism = run(rate, sigma, steps, adjacency)
    finest = upper_bound(mechanism, 1e-5).value
    assert finest * 0.998 <= tradeoff(mechanism).epsilon(1e-5) <= finest * 1.01
    assert np.all(tradeoff(mechanism)(ALPHAS) >= Gaussian(steps**0.5 * 2 / sigma)(ALPHAS) - 1e-12)


def test_a_delta_lost_in_the_rounding_of_a_long_run_is_answered_without_a_grid():
    long = upper_bound(run(0.001, 1.0, 100_000), 1e-10)
    assert "delta is below 1e-09" in long.assumptions[-1]
    assert long.value >= upper_bound(run(0.001, 1.0, 100_000), 1e-9).value


def test_profile_and_bound_agree():
    mechanism = run(0.05, 1.0, 200)
    epsilon = mechanism.upper_bound(1e-5).value
    assert profile(mechanism, [epsilon])[0] == pytest.approx(1e-5, rel=1e-3)
    assert np.all(np.diff(profile(mechanism, np.linspace(0, 20, 50))) <= 1e-13)
    assert profile(mechanism, [800.0, 0.0])[1] == profile(mechanism, [0.0])[0]
