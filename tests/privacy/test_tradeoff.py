import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate
from scipy.special import ndtr, ndtri

from dpgap.errors import InvalidInput
from dpgap.privacy.tradeoff import (
    EpsilonDelta,
    Gaussian,
    Sampled,
    convex_envelope,
    from_profile,
    gaussian_delta,
    gaussian_epsilon,
    mixture,
)
from tests.reference import accounting_twins, tradeoff_twins

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "vectors.json").read_text())
ALPHAS = np.linspace(0, 1, 1001)
CURVES = [
    EpsilonDelta(1.0, 0.05),
    EpsilonDelta(0.0, 0.2),
    Gaussian(0.3),
    Gaussian(2.0),
    Sampled(Gaussian(1.0), 0.5),
    Sampled(Gaussian(3.0), 0.01),
    Sampled(EpsilonDelta(2.0, 0.1), 0.3),
    from_profile([0.0, 0.5, 2.0], [0.3, 0.1, 0.01]),
    convex_envelope([0.1, 0.3], [0.5, 0.2]),
]


@pytest.mark.parametrize(("mu", "delta", "epsilon"), VECTORS["gdp_to_eps"])
def test_published_conversions_are_reproduced(mu, delta, epsilon):
    assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, abs=6e-8)


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 5.0, 30.0, 150.0, 1000.0])
@pytest.mark.parametrize("delta", [0.9, 0.1, 1e-5, 1e-20, 1e-300])
def test_epsilon_equals_that_at_60_digits(mu, delta):
    exact = accounting_twins.gaussian_epsilon_mp(mu, delta)
    assert gaussian_epsilon(mu, delta) == pytest.approx(exact, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("mu", [1e-3, 0.3, 2.0, 20.0, 140.0])
def test_delta_equals_that_at_60_digits(mu):
    for epsilon in (-1.0, 0.0, 1e-3, 0.5, mu * mu / 2, mu * mu / 2 + 6 * mu, mu * mu / 2 + 30 * mu):
        exact = float(accounting_twins.gaussian_delta_mp(mu, epsilon, digits=60))
        assert gaussian_delta(mu, epsilon) == pytest.approx(exact, rel=1e-9, abs=1e-300)


def test_epsilon_is_rounded_to_the_private_side():
    mu = np.geomspace(1e-2, 100, 500)
    for delta in (0.3, 1e-5, 1e-12):
        epsilon = gaussian_epsilon(mu, delta)
        assert np.all(gaussian_delta(mu, epsilon) <= delta * (1 + 1e-9))


def test_many_mu_at_once_equal_one_at_a_time():
    mu = np.array([[-1.0, 0.0, 1e-9], [0.5, 7.0, math.inf]])
    together = gaussian_epsilon(mu, 1e-5)
    assert together.shape == mu.shape
    assert together.ravel().tolist() == [float(gaussian_epsilon(m, 1e-5)) for m in mu.ravel()]


def test_limits_of_mu_and_delta():
    assert gaussian_epsilon([-2.0, 0.0, math.inf], 1e-5).tolist() == [0.0, 0.0, math.inf]
    assert gaussian_epsilon([0.0, 1.0], 0.0).tolist() == [0.0, math.inf]
    assert gaussian_delta([0.0, math.inf, 1.0, 1.0], [0.0, 1.0, math.inf, -math.inf]).tolist() == [0, 1, 0, 1]
    assert gaussian_delta(0.0, -1.0) == pytest.approx(1 - math.exp(-1))
    assert gaussian_delta(150.0, np.linspace(0, 5000, 2000)).max() <= 1


@pytest.mark.parametrize("curve", CURVES, ids=range(len(CURVES)))
def test_curve_is_convex_falling_and_below_chance(curve):
    beta = curve(ALPHAS)
    assert np.all(np.diff(beta) <= 1e-15)
    assert np.all(np.diff(beta, 2) >= -1e-12)
    assert np.all((beta >= 0) & (beta <= 1 - ALPHAS + 1e-15))


@pytest.mark.parametrize("curve", CURVES, ids=range(len(CURVES)))
@pytest.mark.parametrize("epsilon", [-1.5, -0.2, 0.0, 0.1, 0.7, 1.5, 4.0])
def test_profile_is_the_conjugate_of_the_curve(curve, epsilon):
    # The twin's grid may miss a corner by 5e-6.
    resolution = 5e-6 * (1 + math.exp(epsilon)) + 1e-9
    expected = tradeoff_twins.profile_of(curve, epsilon)
    assert expected - 1e-12 <= float(curve.delta(epsilon)) <= expected + resolution


@pytest.mark.parametrize("curve", CURVES, ids=range(len(CURVES)))
@pytest.mark.parametrize("epsilon", [0.1, 0.7, 1.5])
def test_epsilon_inverts_the_profile(curve, epsilon):
    delta = float(curve.delta(epsilon))
    assert curve.epsilon(delta + 1e-12) <= epsilon + 1e-9
    assert float(curve.delta(curve.epsilon(delta))) <= delta + 1e-12


@pytest.mark.parametrize("curve", CURVES, ids=range(len(CURVES)))
def test_epsilon_is_zero_when_delta_covers_the_total_variation(curve):
    assert curve.epsilon(float(curve.delta(0.0)) + 1e-9) == 0.0


def test_gaussian_curve_to_profile_and_back():
    epsilons = np.linspace(0, 12, 4000)
    back = from_profile(epsilons, gaussian_delta(2.0, epsilons))
    gap = Gaussian(2.0)(ALPHAS) - back(ALPHAS)
    assert gap.min() > -1e-12
    assert gap.max() < 1e-6
    assert back.epsilon(1e-5) == pytest.approx(gaussian_epsilon(2.0, 1e-5), rel=1e-5)


@given(st.lists(st.tuples(st.floats(0, 6), st.floats(0, 1)), min_size=1, max_size=8))
def test_profile_curve_equals_the_lines_one_by_one(guarantees):
    epsilons, deltas = zip(*guarantees, strict=True)
    curve = from_profile(epsilons, deltas)
    np.testing.assert_allclose(curve(ALPHAS), tradeoff_twins.curve_of(epsilons, deltas, ALPHAS), atol=1e-9)


def test_profile_far_beyond_the_range_of_exp_stays_below_the_curve():
    curve = from_profile([0.0, 1e4], [0.5, 1e-5])
    np.testing.assert_allclose(curve(ALPHAS), EpsilonDelta(0.0, 0.5)(ALPHAS), atol=1e-12)


@pytest.mark.parametrize("epsilon", [1e4, math.inf])
def test_one_guarantee_with_a_huge_epsilon(epsilon):
    curve = EpsilonDelta(epsilon, 1e-5)
    assert curve([0.0, 0.5]).tolist() == [1 - 1e-5, 0.0]
    assert curve.epsilon(1e-5) == epsilon
    assert curve.epsilon(1e-6) == math.inf


def test_disclosed_mixture_equals_the_best_pair_of_tests():
    first, second, weight = Gaussian(0.5), Gaussian(2.5), 0.3
    curve = mixture([weight, 1 - weight], [first, second], np.linspace(0, 12, 3000))
    for alpha in (0.01, 0.2, 0.6):
        best = tradeoff_twins.disclosed_mixture_of(first, second, weight, alpha)
        assert float(curve(alpha)) == pytest.approx(best, abs=1e-5)


def points(draw_size=12):
    rate = st.floats(0.001, 1.0)
    return st.lists(
        st.tuples(rate, st.floats(0, 1)), min_size=1, max_size=draw_size, unique_by=lambda p: p[0]
    )


@given(points())
def test_envelope_is_the_least_chord(pairs):
    alpha, beta = np.array([(0.0, 1.0), *sorted(p for p in pairs if p[0] < 1), (1.0, 0.0)]).T
    envelope = convex_envelope(alpha, beta)
    expected = tradeoff_twins.envelope_of(alpha, beta, ALPHAS)
    np.testing.assert_allclose(envelope(ALPHAS), expected, atol=1e-9)


@given(points(), st.floats(1e-6, 0.5))
def test_lemma_6_the_convex_envelope_changes_no_epsilon(pairs, delta):
    alpha, beta = np.array([*pairs, (1.0, 0.0)]).T
    gained = 1 - beta - delta
    raw = max(np.log(gained[gained > 0] / alpha[gained > 0]), default=-math.inf)
    envelope = convex_envelope(alpha, beta)
    assert envelope.epsilon(delta) == pytest.approx(max(raw, 0.0), abs=1e-9)
    x = np.linspace(1e-6, 1, 5001)
    inside = 1 - envelope(x) - delta
    if (inside > 0).any():
        assert np.max(np.log(inside[inside > 0] / x[inside > 0])) <= raw + 1e-9


def implied_mu(curve, alpha):
    """The mu whose G_mu passes through the curve at alpha; one number if the curve is Gaussian."""
    return -ndtri(alpha) - ndtri(curve(alpha))


def test_lemma_7_the_half_mixture_is_no_gaussian_curve():
    curve, t = Sampled(Gaussian(1.0), 0.5), np.linspace(-6, 6, 401)
    np.testing.assert_allclose(curve(ndtr(-t)), (ndtr(t) + ndtr(t - 1)) / 2, atol=1e-14)
    distance = [np.max(np.abs(curve(ALPHAS) - Gaussian(mu)(ALPHAS))) for mu in np.linspace(0, 2, 401)]
    assert min(distance) > 0.01
    # The proof: at the sure end the slope tends to -1/2, where that of every Gaussian curve tends to 0.
    ends = np.array([1 - 1e-9, 1 - 2e-9])
    assert np.diff(curve(ends))[0] / np.diff(ends)[0] == pytest.approx(-0.5, abs=0.01)
    assert np.abs(np.diff(Gaussian(0.5)(ends))[0] / np.diff(ends)[0]) < 0.1


def test_corollary_2_sampling_leaves_the_gaussian_family():
    alpha = np.array([1e-4, 0.01, 0.1, 0.5])
    assert np.ptp(implied_mu(Gaussian(0.5), alpha)) < 1e-9
    assert np.ptp(implied_mu(Sampled(Gaussian(1.0), 0.5), alpha)) > 0.1


def test_corollary_3_hiding_the_first_of_two_gaussians_leaves_the_family():
    t = np.linspace(-5, 5, 41)
    # The record is added to the second release only where the first, hidden one came out positive.
    hidden = [
        integrate.quad(lambda x, t=t: ndtr(t - (x >= 0)) * math.exp(-x * x / 2), -9, 9, points=[0])[0]
        / math.sqrt(2 * math.pi)
        for t in t
    ]
    curve = Sampled(Gaussian(1.0), 0.5)
    np.testing.assert_allclose(curve(ndtr(-t)), hidden, atol=1e-9)
    inner = slice(10, 31)
    assert np.ptp(-ndtri(ndtr(-t[inner])) - ndtri(np.array(hidden)[inner])) > 0.1


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: EpsilonDelta(-1.0, 0.1),
        lambda: EpsilonDelta(1.0, 1.5),
        lambda: Gaussian(math.nan),
        lambda: Sampled(Gaussian(1.0), 1.5),
        lambda: from_profile([-1.0], [0.1]),
        lambda: from_profile([1.0, 2.0], [0.1]),
        lambda: convex_envelope([0.5], [1.5]),
        lambda: mixture([0.5], [Gaussian(1.0), Gaussian(2.0)], [0.0]),
        lambda: gaussian_epsilon(math.nan, 1e-5),
        lambda: gaussian_epsilon(1.0, 1.0),
    ],
)
def test_what_is_no_curve_is_refused(wrong):
    with pytest.raises(InvalidInput):
        wrong()
