"""``dpgap report``, ``compare`` and ``quickstart`` as a user types them."""

import json
from dataclasses import replace

import pytest

from dpgap.cli import _install
from dpgap.experiments import quickstart
from dpgap.store.records import Description
from dpgap.store.store import Store
from tests.report import cases

FIRST, SECOND = "aa" * 32, "ab" * 32


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for key, title in ((FIRST, "the first"), (SECOND, "the second")):
        cases.put(tmp_path / "dpgap.sqlite", key=key, title=title)
    return tmp_path / "dpgap.sqlite"


def test_a_report_is_written_beside_the_reader_and_says_the_verdict(printed, tmp_path):
    shown = printed("report", "aa")
    written = tmp_path / "dpgap-aaaaaaaaaaaa.html"
    assert "An attack on 200 models shows a privacy loss of at least" in shown
    assert "Wrote dpgap-aaaaaaaaaaaa.html, with private state: for the auditor." in shown
    assert "<title>the first</title>" in written.read_text("utf-8")


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_charts_are_exported_beside_the_page(printed, tmp_path, kind):
    printed("report", "aa", "--out", "mine.html", "--export", kind)
    names = {path.name for path in tmp_path.glob("mine*")}
    assert names == {"mine.html", f"mine-tradeoff.{kind}", f"mine-scores.{kind}", f"mine-removed.{kind}"}


def test_compared_runs_stand_in_a_table_and_on_one_page(printed, tmp_path):
    shown = printed("compare", "aa", "ab", "--out", "both.html")
    assert "the first" in shown
    assert "the second" in shown
    assert "the paper's is heuristic" in shown
    assert "2 audits side by side" in (tmp_path / "both.html").read_text("utf-8")


def test_compared_runs_as_json_have_every_figure(printed):
    rows = json.loads(printed("compare", "ab", "aa", "--json"))["runs"]
    assert [row["key"] for row in rows] == [SECOND, FIRST]
    assert all(row["eps_ub"] > row["eps_lb"] > 0 for row in rows)
    assert all({"eps_lb_paper", "accuracy", "models"} <= set(row) for row in rows)


def test_runs_that_cannot_be_reported_are_explained(refused, store):
    assert "'a' begins several runs" in refused("report", "a")
    assert "'zz' begins no run" in refused("compare", "aa", "zz")
    assert "There is no store nowhere.sqlite" in refused("report", "aa", "--store", "nowhere.sqlite")
    assert "its folder is missing" in refused("report", "aa", "--out", "no/such/folder.html")
    assert "is what is read, and would be lost" in refused("report", "aa", "--out", "dpgap.sqlite")
    assert "RUN must be given twice or more, got 1" in refused("compare", "aa")
    opened = Store(store)
    opened.add(Description(key="cd" * 32, title="t", specification={}, inputs="", upper_bound=None))
    assert "Nothing has been concluded from run cdcdcdcdcdcd" in refused("report", "cd")


def test_a_quickstart_measures_both_ways_and_names_the_report(printed, tmp_path, monkeypatch):
    fewer = [
        replace(each, design=replace(each.design, models=8)) for each in quickstart.quickstart_experiments(1)
    ]
    monkeypatch.setattr(quickstart, "quickstart_experiments", lambda seed: fewer)
    found = json.loads(printed("quickstart", "--json"))
    assert set(found) == {"without_filter", "with_filter", "seconds", "report"}
    for way in ("without_filter", "with_filter"):
        assert found[way]["models"] == 8
        assert found[way]["eps_ub"] == pytest.approx(10.0, abs=0.01)
        assert 0.7 < found[way]["accuracy"] < 1
        assert {"eps_lb", "eps_lb_paper"} <= set(found[way])
    page = (tmp_path / found["report"]).read_text("utf-8")
    assert page.count("<article ") == 2
    assert page.count("How much of each class the filter had removed") == 1
    again = printed("quickstart")
    assert "The report is dpgap-quickstart.html: open it in a browser." in again


def test_runs_of_different_deltas_are_not_compared(refused, store):
    bounds = tuple(replace(bound, delta=0.01) for bound in cases.audit_of(cases.scores(), claim=None).bounds)
    cases.put(store, key="ee" * 32, bounds=bounds)
    assert "One run's delta is 1e-05, another run's 0.01" in refused("compare", "aa", "ee")


def test_a_report_of_score_files_claims_only_what_files_tell(printed, refused, tmp_path):
    worlds = cases.scores()
    for name, world in (("in.csv", worlds.inside), ("out.csv", worlds.outside)):
        (tmp_path / name).write_text("\n".join(map(repr, world.tolist())))
    said = printed("bound", "in.csv", "out.csv", "--claim", "0.5", "--report", "r.html")
    assert "Claimed: at most 0.5, which is refuted." in said
    shown = (tmp_path / "r.html").read_text("utf-8")
    assert "The claim is refuted" in shown
    assert "names without looking at the scores" in shown
    assert "all that were planned" not in shown
    assert "nobody has counted" in shown
    printed("bound", "in.csv", "out.csv", "--report", "r.html", "--threshold", "0.777")
    shown = (tmp_path / "r.html").read_text("utf-8")
    assert 'data-show="at">0.777<' in shown
    assert "heuristic but at 0.777" in shown
    assert "No eps_ub was given." in shown
    assert json.loads(printed("bound", "in.csv", "out.csv", "--claim", "3", "--json"))["claim"]["value"] == 3
    assert "value must be" in refused("bound", "in.csv", "out.csv", "--claim", "-1")
    beyond = refused("bound", "in.csv", "out.csv", "--claim", "1", "--threat-model", "full-state")
    assert "Success would refute nothing" in beyond
    assert "would be lost" in refused("bound", "in.csv", "out.csv", "--report", "in.csv")


def test_a_quickstart_without_torch_says_what_to_install(refused, monkeypatch):
    monkeypatch.setattr(_install, "find_spec", lambda name: None)
    assert "pip install 'dpgap[train]'" in refused("quickstart")
