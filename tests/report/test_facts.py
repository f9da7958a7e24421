"""A report's facts are what the store holds, and records again."""

import math
import re
from dataclasses import replace

import pytest

from dpgap.errors import NoAnswer
from dpgap.privacy.mechanism import BallsInBins, Poisson, Shuffled
from dpgap.privacy.upper_bound import UpperBound
from dpgap.report import facts as facts_module
from dpgap.report.facts import facts_of
from dpgap.report.side_by_side import side_by_side
from dpgap.report.words import verdict
from dpgap.store.records import Description
from dpgap.store.store import Store
from tests.report import cases


def test_bounds_mechanism_and_scores_come_back_as_they_were(tmp_path):
    worlds = cases.scores()
    found = cases.facts(tmp_path / "s.sqlite", worlds)
    audit = cases.audit_of(worlds, claim=found.upper_bound)
    assert found.bounds == audit.bounds
    assert found.mechanism == cases.mechanism()
    assert found.upper_bound == cases.mechanism().upper_bound(1e-5)
    assert sorted(found.scores.inside) == sorted(worlds.inside)
    assert found.looks == len(audit.bounds)
    assert found.device == "cpu test"


@pytest.mark.parametrize(
    "sampling",
    [Poisson(rate=0.5), Shuffled(batch=10, records=100), BallsInBins(batches=4)],
    ids=lambda sampling: type(sampling).__name__,
)
def test_every_sampling_is_known_by_its_fields(sampling):
    content = {name: getattr(sampling, name) for name in sampling.__dataclass_fields__}
    assert facts_module._sampling(content) == sampling


def test_an_infinite_claim_stays_infinite(tmp_path):
    claim = replace(UpperBound.claimed(1.0, delta=1e-5), value=math.inf)
    found = cases.facts(tmp_path / "s.sqlite", claim=claim, trained=False)
    assert found.upper_bound == claim
    assert not found.refuted


def test_a_run_without_a_conclusion_says_how_to_get_one(tmp_path):
    store = Store(tmp_path / "s.sqlite")
    store.add(Description(key="cd" * 32, title="t", specification={}, inputs="", upper_bound=None))
    with pytest.raises(
        NoAnswer, match=r"Nothing has been concluded from run cdcdcdcdcdcd .* dpgap audit cdcd"
    ):
        facts_of(store, "cd" * 32)


def test_the_verdict_claims_no_more_than_the_headline(tmp_path):
    clear = cases.facts(tmp_path / "a.sqlite")
    assert f"at least {clear.headline.value:.2f}, at 95 % confidence and delta 1e-05" in verdict(clear)
    assert "at most 10.00 is proved" in verdict(clear)
    nothing = cases.facts(tmp_path / "b.sqlite", cases.scores(0.0))
    assert "shows no privacy loss, which does not show that there is none" in verdict(nothing)
    alone = cases.facts(tmp_path / "c.sqlite", trained=False)
    assert "nothing is proved of this training" in verdict(alone)
    claim = UpperBound.claimed(0.1, delta=1e-5)
    broken = cases.facts(tmp_path / "d.sqlite", claim=claim, trained=False)
    close = UpperBound.claimed(clear.headline.value - 1e-5, delta=1e-5)
    barely = verdict(cases.facts(tmp_path / "e.sqlite", claim=close, trained=False))
    assert float(re.findall(r"at least ([\d.]+) where", barely)[0]) > close.value
    assert broken.refuted
    assert verdict(broken).startswith("The claim is refuted: an attack shows a privacy loss of at least")


def test_rows_side_by_side_have_the_headline_and_the_paper_s_figure(tmp_path):
    found = cases.facts(tmp_path / "s.sqlite")
    (row,) = side_by_side([found])
    assert row.eps_lb == found.bounds[0].value
    assert row.eps_lb_paper == next(bound.value for bound in found.bounds if bound.rule == "paper")
    assert (row.accuracy, row.models) == (0.8, 200)
