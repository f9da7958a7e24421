import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgap.errors import InvalidInput
from dpgap.privacy.guesses import BestGuesses, FixedGuesses, GuessGrid, HeldOutCanaries, Ranking
from dpgap.privacy.mechanism import Adjacency
from dpgap.privacy.one_run import epsilon_lower_bound, mu_lower_bound, one_run_bound, p_value, refutes_curve
from dpgap.privacy.tradeoff import EpsilonDelta, Gaussian, gaussian_epsilon
from tests.reference import one_run as slow

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "vectors.json").read_text("utf-8"))
# The vectors were solved to a few units of their last digit.
LAST_DIGITS = 3e-7
RULES = (
    FixedGuesses(k_in=30, k_out=30),
    GuessGrid(((30, 30), (60, 60))),
    HeldOutCanaries(),
    BestGuesses(),
)
counts = st.integers(1, 40).flatmap(
    lambda m: st.integers(0, m).flatmap(lambda g: st.tuples(st.just(m), st.just(g), st.integers(0, g)))
)


@pytest.mark.parametrize("row", VECTORS["one_run_steinke"]["rows"], ids=str)
def test_eps_delta_version_reproduces_the_vectors(row):
    m, guesses, correct, delta, level, expected = row
    found = epsilon_lower_bound(m, guesses, correct, delta, 1 - level)
    assert found == pytest.approx(expected, abs=LAST_DIGITS)


@pytest.mark.parametrize("row", VECTORS["one_run_steinke"]["p_value"], ids=str)
def test_p_value_reproduces_the_vectors(row):
    found = p_value(row["m"], row["guesses"], row["correct"], row["eps"], row["delta"])
    assert found == pytest.approx(row["p"], abs=1e-12)


@pytest.mark.parametrize("row", VECTORS["one_run_fdp_gaussian"]["rows"], ids=str)
def test_gaussian_version_reproduces_the_vectors(row):
    m, guesses, correct, delta, level, expected = row
    mu = mu_lower_bound(m, guesses, correct, 1 - level)
    assert float(gaussian_epsilon(mu, delta)) == pytest.approx(expected, abs=LAST_DIGITS)


@given(counts, st.floats(0, 6), st.sampled_from([0.0, 1e-5, 0.01, 0.4]))
def test_p_value_equals_its_slow_twin(count, epsilon, delta):
    assert p_value(*count, epsilon, delta) == pytest.approx(slow.p_value(*count, epsilon, delta), rel=1e-9)


@pytest.mark.parametrize(("epsilon", "correct"), [(0.0, 300), (0.0, 520), (2.0, 620), (0.1, 700), (5.0, 690)])
def test_p_value_equals_its_slow_twin_beyond_one_window(epsilon, correct):
    expected = slow.p_value(700, 700, correct, epsilon, 1e-5)
    assert p_value(700, 700, correct, epsilon, 1e-5) == pytest.approx(expected, rel=1e-9)


def test_pure_p_value_is_the_exact_tail_of_randomised_response():
    exact = slow.exact_tail_of_randomised_response(60, 50, 3)
    assert p_value(60, 60, 50, math.log(3), 0.0) == pytest.approx(float(exact), rel=1e-12)


@given(counts, st.floats(0, 4), st.sampled_from([1e-3, 0.05, 0.5]))
def test_refuted_gaussian_curve_equals_its_slow_twin(count, mu, level):
    curve = Gaussian(mu)
    expected = slow.refutes_curve(lambda alpha: float(curve(alpha)), *count, level)
    assert refutes_curve(curve, *count, 1 - level) == expected


def test_curve_version_refutes_no_more_than_randomised_response_allows():
    """Under (eps, 0) the exact binomial tail is the most that is sound."""
    for epsilon in (0.5, 1.0, 2.0):
        refuted = [refutes_curve(EpsilonDelta(epsilon, 0.0), 50, 50, correct, 0.95) for correct in range(51)]
        exact = [slow.p_value(50, 50, correct, epsilon, 0.0) <= 0.05 for correct in range(51)]
        assert any(refuted)
        assert all(truth for truth, claim in zip(exact, refuted, strict=True) if claim)


@given(counts, st.floats(0, 5), st.floats(0, 5), st.sampled_from([0.0, 1e-4, 0.02]))
def test_p_value_grows_with_epsilon_and_falls_with_correct(count, one, two, delta):
    m, guesses, correct = count
    low, high = sorted((one, two))
    assert p_value(*count, low, delta) <= p_value(*count, high, delta) * (1 + 1e-9)
    if correct < guesses:
        assert p_value(m, guesses, correct + 1, low, delta) <= p_value(*count, low, delta) * (1 + 1e-9)


def test_bound_sits_where_the_p_value_meets_the_level():
    bound = epsilon_lower_bound(5000, 500, 450, 1e-5, 0.95)
    assert p_value(5000, 500, 450, bound, 1e-5) <= 0.05 < p_value(5000, 500, 450, bound + 1e-6, 1e-5)


def test_perfect_guesses_give_the_closed_form():
    """All r of r right at delta 0: (e^eps/(1 + e^eps))^r = level."""
    rate = 0.05 ** (1 / 30)
    expected = math.log(rate / (1 - rate))
    assert epsilon_lower_bound(100, 30, 30, 0.0, 0.95) == pytest.approx(expected, abs=1e-9)


def test_no_guess_and_chance_give_zero():
    assert epsilon_lower_bound(100, 0, 0, 1e-5, 0.95) == 0.0
    assert mu_lower_bound(100, 0, 0, 0.95) == 0.0
    assert mu_lower_bound(1000, 1000, 500, 0.95) == 0.0


def _run(m, separation, seed):
    generator = np.random.default_rng(seed)
    bits = generator.random(m) < 0.5
    return generator.normal(separation * bits, 1.0), bits


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
@pytest.mark.parametrize("version", ["eps-delta", "gaussian"])
def test_record_carries_the_request_and_a_leak(rule, version):
    scores, bits = _run(400, 3.0, 0)
    bound = one_run_bound(
        scores, bits, delta=1e-4, confidence=0.9, guesses=rule, version=version, adjacency=Adjacency.ZERO_OUT
    )
    assert bound.value > 0.5
    assert (bound.delta, bound.confidence, bound.adjacency, bound.rule) == (1e-4, 0.9, "zero-out", rule.id)
    assert bound.n_inside + bound.n_outside == (200 if rule.id == "held-out-canaries" else 400)


def test_validity_is_the_weaker_of_rule_and_version():
    scores, bits = _run(400, 3.0, 0)
    found = {
        (rule.id, version): one_run_bound(scores, bits, guesses=rule, version=version).validity
        for rule in RULES
        for version in ("eps-delta", "gaussian")
    }
    assert found == {
        ("fixed-guesses", "eps-delta"): "certified",
        ("guess-grid", "eps-delta"): "certified",
        ("held-out-canaries", "eps-delta"): "certified",
        ("best-guesses", "eps-delta"): "heuristic",
        ("fixed-guesses", "gaussian"): "model-based",
        ("guess-grid", "gaussian"): "model-based",
        ("held-out-canaries", "gaussian"): "heuristic",
        ("best-guesses", "gaussian"): "heuristic",
    }


def test_fixed_guesses_are_the_bound_of_their_count():
    scores, bits = _run(200, 2.0, 1)
    right = slow.correct_guesses(bits[np.argsort(-scores)].tolist(), 40, 20)
    bound = one_run_bound(scores, bits, guesses=FixedGuesses(k_in=40, k_out=20))
    assert bound.value == epsilon_lower_bound(200, 60, right, 1e-5, 0.95)


def test_grid_pays_for_every_pair():
    scores, bits = _run(200, 2.0, 1)
    alone = [
        one_run_bound(scores, bits, confidence=0.975, guesses=FixedGuesses(k_in=k, k_out=k)) for k in (20, 50)
    ]
    grid = one_run_bound(scores, bits, guesses=GuessGrid(((20, 20), (50, 50))))
    assert grid.value == pytest.approx(max(bound.value for bound in alone), abs=1e-9)


def test_unpaid_search_is_the_maximum_over_its_grid():
    scores, bits = _run(100, 2.0, 2)
    alone = [
        one_run_bound(scores, bits, guesses=FixedGuesses(k_in=i, k_out=j)).value
        for i in range(0, 101, 10)
        for j in range(0, 101 - i, 10)
    ]
    assert one_run_bound(scores, bits, guesses=BestGuesses()).value == pytest.approx(max(alone), abs=1e-9)


def test_held_out_bound_never_exceeds_the_plain_test_of_its_guesses():
    """Choosing the number of guesses by the same run is paid for."""
    scores, bits = _run(1000, 2.0, 3)
    bound = one_run_bound(scores, bits, delta=1e-4, guesses=HeldOutCanaries())
    k_in, k_out, canaries, right = (int(word) for word in bound.assumptions[-1].split() if word.isdigit())
    assert 0 < bound.value < epsilon_lower_bound(canaries, k_in + k_out, right, 1e-4, 0.95)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_equal_scores_listed_by_bit_betray_nothing(rule):
    bits = np.arange(400) < 200
    assert one_run_bound(np.zeros(400), bits, guesses=rule).value < 0.5
    assert one_run_bound(np.zeros(400), ~bits, guesses=rule).value < 0.5


def test_ranking_is_by_score_and_counts_right_guesses():
    generator = np.random.default_rng(4)
    scores, bits = generator.permutation(50).astype(float), generator.random(50) < 0.5
    ranked = bits[np.argsort(-scores)].tolist()
    for k_in, k_out in ((0, 0), (50, 0), (0, 50), (13, 21)):
        assert Ranking(scores, bits).correct(k_in, k_out) == slow.correct_guesses(ranked, k_in, k_out)


def test_infinite_scores_are_ordinary_values():
    scores, bits = _run(100, 1.0, 5)
    order = np.argsort(scores)
    stretched = scores.copy()
    stretched[order[0]], stretched[order[-1]] = -np.inf, np.inf
    rule = FixedGuesses(k_in=20, k_out=20)
    assert one_run_bound(stretched, bits, guesses=rule) == one_run_bound(scores, bits, guesses=rule)


def test_few_equal_bits_are_possible_and_give_the_closed_form():
    rate = 0.05 ** (1 / 10)
    bound = one_run_bound(np.arange(10), np.ones(10), delta=0.0, guesses=FixedGuesses(k_in=10, k_out=0))
    assert bound.value == pytest.approx(math.log(rate / (1 - rate)), abs=1e-9)


@pytest.mark.parametrize(
    ("scores", "included", "rule", "message"),
    [
        (
            [1.0, math.nan],
            [1, 0],
            FixedGuesses(k_in=1, k_out=0),
            "scores hold 1 NaN, the first at position 1",
        ),
        ([], [], FixedGuesses(k_in=1, k_out=0), "scores must be one list"),
        ([1.0, 2.0], [1], FixedGuesses(k_in=1, k_out=0), "included has 1 bits and scores has 2"),
        ([1.0, 2.0], [1, 2], FixedGuesses(k_in=1, k_out=0), "included must be one list of True and False"),
        ([1.0, 2.0], [1, 0], FixedGuesses(k_in=2, k_out=1), "at most the number of canaries 2, got 2 \\+ 1"),
        (range(100), [1] * 100, FixedGuesses(k_in=9, k_out=0), "100 of 100 canaries are in"),
        (range(1000), [1] * 100 + [0] * 900, BestGuesses(), "100 of 1000 canaries are in"),
        ([1.0], [1], HeldOutCanaries(), "1 canaries, too few to hold out"),
    ],
)
def test_bad_input_is_named(scores, included, rule, message):
    with pytest.raises(InvalidInput, match=message):
        one_run_bound(scores, included, guesses=rule)


def test_impossible_counts_are_named():
    with pytest.raises(InvalidInput, match="correct <= guesses <= m"):
        p_value(10, 5, 6, 1.0, 0.0)
    with pytest.raises(InvalidInput, match="pairs must hold at least one"):
        GuessGrid(())
