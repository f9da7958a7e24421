"""One file, complete by itself, that shows whatever the store holds as text."""

import re
from dataclasses import replace

import numpy as np
import pytest

from dpgap.errors import InvalidInput
from dpgap.privacy.counts import AuditScores
from dpgap.report import charts
from dpgap.report.page import chart_files, page, write, write_report
from dpgap.report.words import at_least
from tests.report import cases

SCRIPT = "<script>alert(1)</script>"


def test_the_page_fetches_nothing(tmp_path):
    shown = page([cases.facts(tmp_path / "s.sqlite")])
    assert not re.search(r'(?:src|href)="(?!#|data:)', shown)
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest", shown)
    assert "default-src 'none'" in shown


def test_user_strings_are_text(tmp_path):
    found = cases.facts(tmp_path / "s.sqlite", title=SCRIPT, notes=(SCRIPT,))
    found.specification["dataset"] = SCRIPT
    found.provenance.append({"machine": SCRIPT})
    shown = page([found, found])
    assert SCRIPT not in shown
    assert shown.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 6
    assert shown.count("<script>") == 1


def test_the_page_says_that_it_is_private_and_which_rows_are_heuristic(tmp_path):
    found = cases.facts(tmp_path / "s.sqlite")
    shown = page([found])
    assert "It holds private state" in shown
    for bound in found.bounds:
        row = f'<tr class="{bound.validity}"><td class="n">{at_least(bound.value)}</td>'
        assert f"{row}<td>{bound.validity}</td>" in shown
    assert f"Bounds computed from these scores so far: {found.looks}." in shown


def test_the_page_names_assumptions_threat_model_and_what_is_covered(tmp_path):
    found = cases.facts(tmp_path / "s.sqlite")
    shown = page([found])
    assert found.upper_bound is not None
    assumptions = [*found.headline.assumptions, *found.upper_bound.assumptions]
    assert all(f"<li>{assumption}</li>" in shown for assumption in assumptions)
    assert "the final model; what was planted are rows of data" in shown
    assert "the release of every model of the run" in shown


def test_several_runs_stand_in_one_table(tmp_path):
    runs = [
        cases.facts(tmp_path / "s.sqlite", key=key * 32, title=title)
        for key, title in (("aa", "first"), ("bb", "second"))
    ]
    shown = page(runs)
    assert '<a href="#run0">first</a>' in shown
    assert '<a href="#run1">second</a>' in shown
    assert len(re.findall(r"<article ", shown)) == 2


def test_without_claim_filter_and_mechanism_a_page_is_still_written(tmp_path):
    found = cases.facts(
        tmp_path / "s.sqlite",
        trained=False,
        independent=False,
        removals=None,
        train_accuracy=None,
        test_accuracy=None,
    )
    shown = page([found])
    assert "Nothing is proved of this training, and nothing was claimed." in shown
    assert "No limits here: scores of one model depend on each other." in shown
    assert "not known on test records" in shown


def test_a_page_of_a_thousand_models_with_a_hundred_canaries_is_below_5_mb(tmp_path):
    generator = np.random.default_rng(0)
    worlds = AuditScores(generator.normal(1, 1, 50_000), generator.normal(0, 1, 50_000))
    bounds = cases.audit_of(cases.scores(), claim=None).bounds
    found = cases.facts(tmp_path / "s.sqlite", independent=False)
    many = cases.facts(tmp_path / "t.sqlite", worlds, independent=False, bounds=bounds)
    assert len(page([many])) < 1.5 * len(page([found])) < 1_000_000


@pytest.mark.parametrize(("kind", "begins"), [("png", b"\x89PNG"), ("svg", b"<svg"), ("pdf", b"%PDF")])
def test_charts_become_files_of_every_kind(tmp_path, kind, begins):
    written = chart_files(cases.facts(tmp_path / "s.sqlite"), kind)
    assert set(written) == {"tradeoff", "scores", "removed"}
    assert all(content.startswith(begins) for content in written.values())


def test_charts_on_the_page_follow_light_and_dark(tmp_path):
    drawn = charts.on_page(charts.histogram_chart(_histogram(tmp_path)), "a histogram")
    assert "var(--inside)" in drawn
    assert not any(f'"{colour}"' in drawn for colour in charts.VARIABLES)
    assert 'aria-label="a histogram"' in drawn


def _histogram(tmp_path):
    from dpgap.report.curves import histogram_of

    return histogram_of(cases.facts(tmp_path / "h.sqlite"))


def test_what_is_read_is_never_written_over(tmp_path):
    store = tmp_path / "s.sqlite"
    key = cases.put(store)
    before = store.read_bytes()
    (tmp_path / "link").symlink_to(store)
    for out in (store, tmp_path / "link"):
        with pytest.raises(InvalidInput, match="is what is read, and would be lost"):
            write_report(key, out, store=store)
    assert store.read_bytes() == before
    assert "<article " in write_report(key, tmp_path / "r.html", store=store).read_text("utf-8")


def test_a_page_is_written_as_a_whole_also_where_a_name_is_no_unicode(tmp_path):
    target = tmp_path / "r.html"
    write(target, "before")
    write(target, "a name: \udce4")
    assert target.read_text("utf-8") == "a name: \\udce4"
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_without_a_script_the_page_shows_the_headline_s_threshold(tmp_path):
    found = cases.facts(tmp_path / "s.sqlite")
    shown = page([found])
    assert f'data-show="at">{found.headline.threshold:.5g}<' in shown
    assert f'data-show="band_epsilon">{at_least(found.headline.value)}<' in shown


def test_failed_models_are_an_assumption_and_a_run_that_is_not_finished_says_so(tmp_path):
    found = cases.facts(tmp_path / "s.sqlite", status="incomplete", planned=300)
    shown = page([replace(found, failures=3)])
    assert "<li>3 failed models are left out: failing had nothing to do with the canary</li>" in shown
    assert "Not finished, 200 of 300: an attack on 200 models shows" in shown


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"nowhere/x.html cannot be a file: its folder is missing"):
        write(tmp_path / "nowhere/x.html", "")
