"""The checkable facts of the paper's Appendix A.2."""

import math

import pytest

from dpgap.privacy.study import PAPER_SIZES, finite_sample_study
from tests.reference.bounds import clopper_pearson


@pytest.fixture(scope="module")
def study():
    return finite_sample_study()


def test_the_largest_raw_value_grows_as_the_logarithm_of_the_models(study):
    for facts in study[1]:
        assert facts.largest_raw == pytest.approx(math.log((1 - 1e-5) * facts.models), rel=1e-12)


def test_the_worst_collapsed_value_stays_near_log_11(study):
    assert [facts.models for facts in study[1]] == list(PAPER_SIZES)
    for facts in study[1][1:]:
        assert facts.worst_collapsed == pytest.approx(math.log(11), abs=0.01)


def test_with_more_models_fewer_values_collapse_and_the_gap_shrinks(study):
    shares, gaps = ([getattr(f, name) for f in study[1]] for name in ("collapsed_share", "mean_gap"))
    assert shares == sorted(shares, reverse=True)
    assert gaps == sorted(gaps, reverse=True)


def test_the_shares_of_a_panel_are_of_all_pairs(study):
    for facts in study[1]:
        totals = {
            panel: sum(row.share for row in study[0] if (row.models, row.panel) == (facts.models, panel))
            for panel in ("raw", "corrected", "gap", "collapsed")
        }
        assert totals == pytest.approx(
            {"raw": 1, "corrected": 1, "gap": 1, "collapsed": facts.collapsed_share}
        )


def test_a_small_study_equals_enumeration():
    models, delta, raws, collapsed = 12, 1e-5, 0, []
    for positives in range(1, models + 1):
        for negatives in range(models):
            raw = math.log((1 - negatives / models - delta) / (positives / models))
            if raw <= 0:
                continue
            raws += 1
            limits = [clopper_pearson(errors, models, 0.025) for errors in (positives, negatives)]
            if 1 - limits[1] - delta <= limits[0]:
                collapsed.append(raw)
    [facts] = finite_sample_study((models,))[1]
    assert facts.worst_collapsed == pytest.approx(max(collapsed))
    assert facts.collapsed_share == pytest.approx(len(collapsed) / raws)
