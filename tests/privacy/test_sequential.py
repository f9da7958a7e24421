import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from dpgap.errors import InvalidInput
from dpgap.privacy.sequential import SequentialAudit, log_factors
from tests.reference import sequential as slow


def _replay(inside, outside, **options):
    audit = SequentialAudit(max_pairs=len(inside), **options)
    return audit, [audit.update(float(x), float(y)) for x, y in zip(inside, outside, strict=True)]


def _gaussian(pairs, mu, seed):
    generator = np.random.default_rng(seed)
    return generator.normal(mu, 1.0, pairs), generator.normal(0.0, 1.0, pairs)


laws = st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3).map(lambda w: np.array(w) / sum(w))


def _close(p, q, epsilon, delta):
    """The law nearest to p on the way from q to p that is (epsilon, delta)-close to q, both ways."""
    for step in np.linspace(1.0, 0.0, 201):
        law = step * p + (1 - step) * q
        excess = (
            np.maximum(law - math.exp(epsilon) * q, 0).sum(),
            np.maximum(q - math.exp(epsilon) * law, 0).sum(),
        )
        if max(excess) <= delta:
            return law
    raise AssertionError("q itself is close to q")


@given(laws, laws, laws, laws, st.floats(0.05, 4.0), st.sampled_from([0.0, 1e-3, 0.05, 0.3]))
def test_no_close_pair_of_laws_makes_the_bet_favourable(expected_in, expected_out, p, q, epsilon, delta):
    """E g(X) h(Y) <= 1 exactly, for any bet and any (eps, delta)-close laws: what the guarantee rests on."""
    log_g, log_h = log_factors(expected_in[None], expected_out[None], np.array([epsilon]), delta)
    truth = _close(p, q, epsilon, delta)
    assert np.exp(log_g[0, 0]) @ truth * (np.exp(log_h[0, 0]) @ q) <= 1 + 1e-9
    assert np.exp(log_g[0, 0]) @ q * (np.exp(log_h[0, 0]) @ truth) <= 1 + 1e-9


@pytest.mark.parametrize("epsilon", [0.5, 1.5])
def test_bets_grow_as_fast_as_any_test_of_the_pair_can(epsilon):
    """The growth is the least KL distance to a pair of the null, found here by a general minimiser."""
    p, q = np.array([0.02, 0.28, 0.7]), np.array([0.6, 0.3, 0.1])
    log_g, log_h = log_factors(p[None], q[None], np.array([epsilon]), 0.0)
    growth = p @ log_g[0, 0] + q @ log_h[0, 0]

    def distance(point):
        return p @ np.log(p / point[:3]) + q @ np.log(q / point[3:])

    ratio = math.exp(epsilon)
    constraints = [
        {"type": "eq", "fun": lambda x: x[:3].sum() - 1},
        {"type": "eq", "fun": lambda x: x[3:].sum() - 1},
        {"type": "ineq", "fun": lambda x: ratio * x[3:] - x[:3]},
        {"type": "ineq", "fun": lambda x: ratio * x[:3] - x[3:]},
    ]
    nearest = minimize(
        distance, np.full(6, 1 / 3), bounds=[(1e-6, 1)] * 6, constraints=constraints, tol=1e-12
    )
    assert nearest.success
    assert growth == pytest.approx(nearest.fun, rel=1e-5)


def test_laws_inside_the_null_are_not_bet_on():
    log_g, log_h = log_factors(
        np.array([[0.3, 0.3, 0.4]]), np.array([[0.4, 0.3, 0.3]]), np.array([1.0]), 1e-5
    )
    assert np.abs(log_g).max() < 1e-8
    assert np.abs(log_h).max() < 1e-8


@pytest.mark.parametrize("delta", [0.0, 0.02])
@pytest.mark.parametrize("which", [0, 39, 99])
def test_wealth_equals_its_slow_twin_at_every_look(delta, which):
    inside, outside = _gaussian(60, 2.0, 0)
    inside[5], outside[7], inside[9] = np.inf, -np.inf, outside[3]
    audit = SequentialAudit(target=1.5, max_pairs=60, delta=delta)
    looks = []
    for x, y in zip(inside.tolist(), outside.tolist(), strict=True):
        audit.update(x, y)
        looks.append(audit.log_wealth[which])
    expected = slow.log_wealths(inside.tolist(), outside.tolist(), float(audit.epsilons[which]), delta)
    assert max(np.abs(expected)) > 0.1
    np.testing.assert_allclose(looks, expected, atol=1e-6)


def test_perfect_separation_certifies_3_within_70_pairs():
    """Clopper-Pearson limits at 0.025 each need 76 perfect pairs, fixed in advance."""
    _, decisions = _replay(np.arange(100) + 1e3, -np.arange(100.0), target=3.0)
    first = next(decision for decision in decisions if decision.status == "certified")
    assert first.pairs <= 70
    assert first.saved == 100 - first.pairs
    assert first.bound == 3.0


def test_bound_never_falls_and_certified_never_changes():
    _, decisions = _replay(*_gaussian(120, 3.0, 1), target=1.0)
    bounds = [decision.bound for decision in decisions]
    assert bounds == sorted(bounds)
    certified = [decision.status == "certified" for decision in decisions]
    assert any(certified)
    assert certified == sorted(certified)


def test_replay_of_the_pairs_resumes_the_audit():
    inside, outside = _gaussian(80, 2.0, 2)
    whole, decisions = _replay(inside, outside, target=2.0)
    again = SequentialAudit(target=2.0, max_pairs=80)
    for x, y in zip(inside[:50], outside[:50], strict=True):
        again.update(float(x), float(y))
    assert again.decision() == decisions[49]
    for x, y in zip(inside[50:], outside[50:], strict=True):
        again.update(float(x), float(y))
    np.testing.assert_array_equal(again.log_wealth, whole.log_wealth)


def test_first_pair_never_wins():
    """The first pair cannot win, whatever it is, since nothing was seen before it."""
    audit = SequentialAudit(target=1.0, max_pairs=50)
    audit.update(1e9, -1e9)
    assert not audit.log_wealth.any()


def test_unit_of_the_scores_changes_nothing():
    inside, outside = _gaussian(60, 2.0, 3)
    one, _ = _replay(inside, outside, target=1.0)
    two, _ = _replay(8 * inside + 3, 8 * outside + 3, target=1.0)
    np.testing.assert_allclose(one.log_wealth, two.log_wealth, atol=1e-9)


def test_equal_scores_never_win():
    audit, decisions = _replay(np.zeros(50), np.zeros(50), target=1.0)
    assert audit.log_wealth.max() <= 1e-9
    assert decisions[-1].bound == 0.0


def test_one_score_alone_is_a_correct_answer():
    audit = SequentialAudit(target=1.0, max_pairs=20)
    assert audit.decision().bound == 0.0
    decision = audit.update(math.inf, -math.inf)
    assert (decision.status, decision.bound, decision.pairs) == ("continue", 0.0, 1)


def test_pure_chance_is_called_futile_well_before_the_budget_is_spent():
    _, decisions = _replay(*_gaussian(300, 0.0, 4), target=2.0)
    first = next(decision for decision in decisions if decision.status == "futile")
    assert first.pairs < 250
    assert first.saved == 300 - first.pairs


def test_futile_for_sure_when_perfect_pairs_could_not_reach_the_target():
    """36 perfect pairs are the least for 3: after ten losses, ten fewer than 46 cannot do."""
    audit = SequentialAudit(target=3.0, max_pairs=40)
    decisions = [
        audit.update(-1.0 - i, 1.0 + i) if i % 2 else audit.update(1.0 + i, -1.0 - i) for i in range(20)
    ]
    assert decisions[-1].status == "futile"


def test_spent_budget_is_futile_and_saves_nothing():
    audit, decisions = _replay(*_gaussian(60, 2.0, 5), target=3.0)
    assert (decisions[-1].status, decisions[-1].saved) == ("futile", 0)
    with pytest.raises(InvalidInput, match="max_pairs is 60"):
        audit.update(1.0, 0.0)


def test_record_says_what_was_certified():
    audit, decisions = _replay(*_gaussian(60, 3.0, 6), target=1.0)
    record = audit.record()
    assert (record.value, record.validity, record.n_inside) == (decisions[-1].bound, "certified", 60)
    assert (record.estimator, record.rule) == ("sequential", "anytime")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": 0.0, "max_pairs": 10}, "target must be a finite number above 0, got 0.0"),
        ({"target": 5.0, "max_pairs": 100}, "target 5.0 takes 225 pairs even if all are perfect"),
        ({"target": 1000.0, "max_pairs": 100}, "target 1000.0 takes inf pairs"),
        ({"target": 1.0, "max_pairs": 0}, "max_pairs must be a whole number"),
        ({"target": 1.0, "max_pairs": 50, "confidence": 1.0}, "confidence must be"),
        ({"target": 1.0, "max_pairs": 50, "delta": -0.1}, "delta must be"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(InvalidInput, match=message):
        SequentialAudit(**options)


def test_nan_is_refused_by_name():
    with pytest.raises(InvalidInput, match="outside must be a number, got nan"):
        SequentialAudit(target=1.0, max_pairs=50).update(1.0, math.nan)
