"""``dpgap audit``, ``runs`` and ``export`` as a user types them."""

import csv
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from dpgap.cli import _install
from dpgap.experiments.experiment import Experiment
from dpgap.experiments.spec import to_toml
from dpgap.store.store import Store
from tests.experiments.jobs import experiment


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.toml").write_text(to_toml(experiment(design={"kind": "shadow-pairs", "models": 4})))
    return "spec.toml"


def test_an_audit_prints_both_numbers_and_what_they_cost(spec, printed):
    shown = printed("audit", spec)
    assert "eps_ub" in shown
    assert "certified by the band rule, confidence 95 %" in shown
    assert "heuristic" in shown
    assert "Models: 4 of 4, finished" in shown
    assert "Accuracy: train " in shown
    assert "Canary: filtered in " in shown
    assert "Bounds computed from these scores so far: 16." in shown
    assert "A page to hand over: dpgap report " in shown


def test_the_same_command_again_trains_nothing_and_counts_nothing_twice(spec, printed):
    first, second = (json.loads(printed("audit", spec, "--json"))["audits"][0] for _ in range(2))
    assert first == second
    assert first["bounds"][0]["validity"] == "certified"
    assert first["upper_bound"]["accountant"] == "pld"


def test_a_run_is_resumed_by_the_beginning_of_its_key(spec, printed):
    key = json.loads(printed("audit", spec, "--json"))["audits"][0]["key"]
    again = json.loads(printed("audit", key[:8], "--json"))["audits"][0]
    assert (again["key"], again["models"]) == (key, 4)


def test_flags_and_set_change_the_file(spec, printed):
    arguments = ("--models", "2", "--seed", "3", "--filter", "l2:2/global", "--attack", "loss")
    changes = ("--canary", "blank", "--set", "mechanism.steps=2", "--set", "confidence=0.9")
    (audit,) = json.loads(printed("audit", spec, *arguments, *changes, "--json"))["audits"]
    with closing(Store("dpgap.sqlite", read_only=True)) as store:
        kept = store.description(audit["key"]).specification["experiment"]
    assert audit["planned"] == 2
    assert audit["bounds"][0]["confidence"] == 0.9
    assert (kept["seed"], kept["mechanism"]["steps"], kept["canary"]) == (3, 2, {"kind": "blank"})
    assert kept["filter"]["select"] == {"k": 2, "scope": "global"}


def test_a_sweep_prints_an_audit_for_each_value(spec, printed, tmp_path):
    with (tmp_path / spec).open("a") as file:
        file.write('\n[sweep]\n"mechanism.noise_multiplier" = [1.0, 3.0]\n')
    audits = json.loads(printed("audit", spec, "--models", "2", "--json"))["audits"]
    assert len({audit["key"] for audit in audits}) == 2
    assert audits[0]["upper_bound"]["value"] > audits[1]["upper_bound"]["value"]


def test_runs_lists_what_a_store_holds(spec, printed):
    key = json.loads(printed("audit", spec, "--json"))["audits"][0]["key"]
    (run,) = json.loads(printed("runs", "--json"))["runs"]
    assert (run["key"], run["models"], run["failures"], run["bounds"]) == (key, 4, 0, 16)
    shown = printed("runs")
    assert key[:12] in shown
    assert "dpgap.sqlite: 1 runs" in shown


def test_export_writes_every_score_and_says_that_it_is_private(spec, printed, tmp_path):
    key = json.loads(printed("audit", spec, "--json"))["audits"][0]["key"]
    assert "private state" in printed("export", key[:6], "run.csv")
    assert "private state" in printed("export", key[:6], "run.json")
    with (tmp_path / "run.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    whole = json.loads((tmp_path / "run.json").read_text())
    assert [row["inside"] for row in rows] == ["True", "False", "True", "False"]
    assert [float(row["statistic"]) for row in rows] == [row["statistic"] for row in whole["rows"]]
    assert whole["run"]["key"] == key
    assert len(whole["bounds"]) == 16
    assert "dpgap" in whole["provenance"][0]["versions"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("audit", "spec.toml", "--set", "mechanism.stps=3"), "Did you mean steps?"),
        (("audit", "spec.toml", "--models", "3"), "models must be even, got 3"),
        (("audit", "spec.toml", "--attack", "lyra"), "Did you mean lira?"),
        (("audit", "spec.toml", "--processes", "-1"), "processes must be a whole number, 0 or more"),
        (("audit", "spec.toml", "--store", "nowhere/dpgap.sqlite"), "nowhere is no folder"),
        (("audit", "missing.toml"), "missing.toml cannot be read"),
        (("audit", "abcdef"), "'abcdef' begins no run"),
        (("runs", "--store", "missing.sqlite"), "There is no store missing.sqlite"),
        (("export", "abc", "run.csv", "--store", "missing.sqlite"), "There is no store missing.sqlite"),
        (("runs", "--store", "spec.toml"), "It is no store of dpgap"),
    ],
)
def test_bad_input_ends_with_one_message(spec, refused, arguments, said):
    assert said in refused(*arguments)


def test_neighbours_that_do_not_agree_are_refused(spec, refused):
    assert "adjacency is 'replace-one'" in refused("audit", spec, "--set", "mechanism.adjacency=replace-one")


def test_a_store_that_another_program_holds_is_named(spec, refused, monkeypatch, printed):
    printed("audit", spec, "--models", "2")
    monkeypatch.setattr("dpgap.store.database._PATIENCE_S", 0.1)
    with closing(sqlite3.connect("dpgap.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert "database is locked" in refused("audit", spec, "--models", "2")


def test_export_to_a_place_that_cannot_be_written_is_refused(spec, refused, printed):
    key = json.loads(printed("audit", spec, "--json"))["audits"][0]["key"]
    assert "could not be written" in refused("export", key, "nowhere/run.csv")
    assert "must end in .csv or .json" in refused("export", key, "run.xlsx")


def test_without_torch_it_says_what_to_install(spec, refused, monkeypatch):
    monkeypatch.setattr(_install, "find_spec", lambda _: None)
    assert "pip install 'dpgap[train]'" in refused("audit", spec)


# Where the tests run in the background of a shell, Ctrl-C is ignored, and so by all that they start.
HEARS_CTRL_C = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from dpgap.cli import main
main()
"""


def test_interrupted_it_keeps_its_models_and_says_how_to_go_on(spec, tmp_path):
    command = [sys.executable, "-c", HEARS_CTRL_C, "audit", spec, "--models=400", "--models-at-once=1"]
    audit = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while audit.poll() is None and _kept(tmp_path) < 2:
        time.sleep(0.05)
    os.kill(audit.pid, signal.SIGINT)
    _, said = audit.communicate()
    assert audit.returncode == 130, said
    assert "of 400 models kept in dpgap.sqlite. Run the same again to go on." in said
    assert "Traceback" not in said


def _kept(folder) -> int:
    if not (folder / "dpgap.sqlite").exists():
        return 0
    with closing(Store(folder / "dpgap.sqlite")) as store:
        return sum(run.models for run in store.experiments())


def test_the_specification_of_a_run_is_an_experiment_again(spec, printed):
    key = json.loads(printed("audit", spec, "--json"))["audits"][0]["key"]
    from dpgap.experiments.converter import from_plain

    with closing(Store("dpgap.sqlite", read_only=True)) as store:
        again = from_plain(store.description(key).specification["experiment"])
    assert isinstance(again, Experiment)
    assert again.key == key
