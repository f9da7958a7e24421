"""The command line as a user types it: what it prints, and what it says of bad input."""

import json
import re

import numpy as np
import pytest

from dpgap.cli import main
from dpgap.privacy.counts import AuditScores
from dpgap.privacy.lower_bound import lower_bound

FIELDS = {
    "value",
    "delta",
    "confidence",
    "estimator",
    "rule",
    "validity",
    "adjacency",
    "threat_model",
    "n_inside",
    "n_outside",
    "threshold",
    "fpr",
    "fnr",
    "interval",
    "assumptions",
    "group_size",
}


@pytest.fixture
def files(tmp_path):
    """Two files of scores, and what is in them."""
    draws = np.random.default_rng(4)
    worlds = {"inside": draws.normal(2, 1, 60), "outside": draws.normal(0, 1, 50)}
    for name, scores in worlds.items():
        np.save(tmp_path / f"{name}.npy", scores)
    return [str(tmp_path / f"{name}.npy") for name in worlds], AuditScores(**worlds)


def answer(capsys, *arguments):
    main([*arguments, "--json"])
    return json.loads(capsys.readouterr().out)


def test_bound_gives_full_records_certified_first_and_heuristic_last(capsys, files):
    bounds = answer(capsys, "bound", *files[0])["bounds"]
    assert all(set(bound) == FIELDS for bound in bounds)
    order = ["certified", "model-based", "heuristic"]
    ranks = [order.index(bound["validity"]) for bound in bounds]
    assert ranks == sorted(ranks)
    pairs = {(bound["estimator"], bound["rule"]) for bound in bounds}
    estimators = ("clopper-pearson", "jeffreys", "joint-beta", "gaussian")
    assert pairs == {(e, r) for e in estimators for r in ("band", "held-out", "all-thresholds")}


def test_the_headline_is_the_band_unless_the_user_fixed_thresholds(capsys, files):
    for arguments, rule in (
        ((), "band"),
        (("--threshold", "1"), "fixed"),
        (("--threshold", "0", "1"), "bonferroni"),
    ):
        headline = answer(capsys, "bound", *files[0], *arguments)["bounds"][0]
        assert (headline["estimator"], headline["rule"]) == ("clopper-pearson", rule)


def test_bound_prints_what_the_library_computes(capsys, files):
    headline = answer(capsys, "bound", *files[0], "--delta", "1e-3", "--confidence", "0.9")["bounds"][0]
    library = lower_bound(files[1], delta=1e-3, confidence=0.9)
    assert headline["value"] == library.value
    assert headline["n_inside"] == 60
    assert headline["n_outside"] == 50
    assert headline["interval"]["descriptive"] is True


def test_rate_and_steps_add_the_curve_of_dpsgd(capsys, files):
    bounds = answer(
        capsys, "bound", *files[0], "--sample-rate", "0.1", "--steps", "50", "--adjacency", "replace-one"
    )["bounds"]
    assert {bound["adjacency"] for bound in bounds} == {"replace-one"}
    assert "subsampled-gaussian" in {bound["estimator"] for bound in bounds}


def test_the_papers_columns_take_no_threshold(files):
    with pytest.raises(SystemExit) as end:
        main(["bound", *files[0], "--paper", "--threshold", "1.0"])
    assert end.value.code == 2


def test_paper_prints_the_papers_columns_headline_first(capsys, files):
    bounds = answer(capsys, "bound", *files[0], "--paper")["bounds"]
    assert [bound["estimator"] for bound in bounds] == ["gaussian"] * 4 + ["clopper-pearson"] * 4
    assert {(bound["rule"], bound["validity"]) for bound in bounds} == {("paper", "heuristic")}
    assert [bound["n_inside"] for bound in bounds[:4]] == [60, 15, 30, 45]


def test_infinities_are_strings(capsys, tmp_path):
    for name, score in (("inside", "inf"), ("outside", "-inf")):
        (tmp_path / f"{name}.txt").write_text(f"{score}\n" * 20)
    files = [str(tmp_path / "inside.txt"), str(tmp_path / "outside.txt")]
    bounds = answer(capsys, "bound", *files)["bounds"]
    assert bounds[0]["threshold"] == "inf"
    assert bounds[0]["value"] > 1


def test_one_score_of_each_world_gives_a_number_and_no_split(capsys, tmp_path):
    for name, score in (("inside", "1"), ("outside", "0")):
        (tmp_path / f"{name}.txt").write_text(score)
    bounds = answer(capsys, "bound", str(tmp_path / "inside.txt"), str(tmp_path / "outside.txt"))["bounds"]
    assert {bound["rule"] for bound in bounds} == {"band", "all-thresholds"}
    assert bounds[0]["value"] == 0
    assert bounds[0]["interval"]["high"] == 0
    columns = answer(capsys, "bound", str(tmp_path / "inside.txt"), str(tmp_path / "outside.txt"), "--paper")[
        "bounds"
    ]
    assert [(column["estimator"], column["value"]) for column in columns] == [
        ("gaussian", 0),
        ("clopper-pearson", 0),
    ]


def test_the_table_never_prints_a_heuristic_value_without_the_word(capsys, files):
    main(["bound", *files[0]])
    printed = capsys.readouterr().out
    rows = [line for line in printed.splitlines() if "all-thresholds" in line]
    assert len(rows) == 4
    assert all("heuristic" in row for row in rows)
    assert f"at least {lower_bound(files[1]).value:.2f}" in printed


def test_account_gives_every_accountant_or_why_not(capsys):
    run = ("account", "--sample-rate", "0.04", "--steps", "2250", "--noise-multiplier", "1.5")
    found = answer(capsys, *run)
    assert found["pld"] == pytest.approx(6.7688, rel=2e-3)
    assert found["rdp"] == pytest.approx(7.3291, rel=2e-3)
    assert found["closed_form"].startswith(
        "no answer: the closed form needs a noise multiplier of at least 4"
    )
    assert found["noise_multiplier"] == 1.5
    replace_one = answer(capsys, *run, "--adjacency", "replace-one")
    assert replace_one["pld"] > found["pld"]
    assert "replace-one" in replace_one["rdp"]


def test_account_finds_the_noise_for_a_wanted_bound(capsys):
    found = answer(capsys, "account", "--sample-rate", "0.04", "--steps", "2250", "--epsilon", "8")
    assert 7.99 < found["pld"] <= 8
    assert 1.3 < found["noise_multiplier"] < 1.5


def test_account_of_no_noise_is_infinite(capsys):
    found = answer(capsys, "account", "--sample-rate", "0.5", "--steps", "3", "--noise-multiplier", "0")
    assert (found["pld"], found["rdp"]) == ("inf", "inf")


def test_account_says_where_no_grid_could_hold_the_run(capsys):
    run = ("account", "--sample-rate", "0.99", "--steps", "10000000", "--noise-multiplier", "0.03")
    assert "no grid can hold the run" in answer(capsys, *run)["assumptions"][-1]
    main([*run])
    assert "pld: no grid can hold the run" in capsys.readouterr().out


@pytest.mark.parametrize(("rate", "noise"), [("1", "1e300"), ("0.5", "1e-300"), ("5e-324", "20")])
def test_account_of_the_extremes_is_a_bound(capsys, rate, noise):
    found = answer(capsys, "account", "--sample-rate", rate, "--steps", "10", "--noise-multiplier", noise)
    assert found["pld"] == "inf" if noise == "1e-300" else 0 <= found["pld"] < 1e-3


@pytest.mark.parametrize("confidence", ["1e-300", "0.9999999999999999"])
def test_confidence_may_be_extreme(capsys, files, confidence):
    bounds = answer(capsys, "bound", *files[0], "--confidence", confidence)["bounds"]
    assert all(bound["value"] >= 0 for bound in bounds)


def test_plan_gives_a_row_per_rule(capsys):
    found = answer(capsys, "plan", "--models", "400", "--target-eps", "2", "--true-eps", "10")
    assert [row["rule"] for row in found["plans"]] == ["fixed", "held-out", "band", "all-thresholds"]
    assert found["plans"][0]["ceiling"] == pytest.approx(3.984, abs=1e-3)
    assert all(row["expected"] < row["ceiling"] for row in found["plans"])
    assert all(100 < row["models_needed"] < 1000 for row in found["plans"])
    unreachable = answer(capsys, "plan", "--target-eps", "11", "--true-eps", "10")
    assert {row["models_needed"] for row in unreachable["plans"]} == {"inf"}


@pytest.mark.parametrize("verb", ["account", "plan", "bound"])
def test_tables_name_their_columns(capsys, files, verb):
    arguments = {
        "account": ["--sample-rate", "0.5", "--steps", "3", "--noise-multiplier", "2"],
        "plan": ["--models", "100"],
        "bound": files[0],
    }
    main([verb, *arguments[verb]])
    printed = capsys.readouterr().out
    assert "eps_" in printed
    assert len(printed.splitlines()) > 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bound", "IN", "nowhere.npy"], r"nowhere\.npy: cannot be read"),
        (["bound", "IN", "OUT", "--delta", "0"], "delta must be strictly between 0 and 1, got 0"),
        (["bound", "IN", "OUT", "--delta", "1.5"], "delta must be strictly between 0 and 1, got 1.5"),
        (["bound", "IN", "OUT", "--confidence", "95"], "confidence must be strictly between 0 and 1, got 95"),
        (["bound", "IN", "OUT", "--threshold", "nan"], "threshold must be a number, got nan"),
        (["bound", "IN", "OUT", "--steps", "10"], "must be given together"),
        (
            ["bound", "IN", "OUT", "--sample-rate", "2", "--steps", "1"],
            "rate must be above 0 and at most 1, got 2",
        ),
        (["bound", "IN", "OUT", "--adjacency", "swap"], "(?s)swap.*add-remove"),
        (["bound", "IN", "OUT", "--delta", "small"], "small"),
        (["bound", "IN"], "OUT"),
        (["account", "--sample-rate", "0.1", "--steps", "10"], "exactly one must be given"),
        (
            ["account", "--sample-rate", "0", "--steps", "9", "--noise-multiplier", "1"],
            "rate must be .* got 0",
        ),
        (
            ["account", "--sample-rate", "0.1", "--steps", "0", "--noise-multiplier", "1"],
            "steps must be .* got 0",
        ),
        (
            ["account", "--sample-rate", "0.1", "--steps", "9", "--noise-multiplier", "inf"],
            "noise_multiplier .* got inf",
        ),
        (["account", "--sample-rate", "0.1", "--steps", "9", "--epsilon", "-1"], "epsilon must be .* got -1"),
        (
            ["account", "--sample-rate", "0.1", "--steps", "1" + "0" * 30, "--noise-multiplier", "1"],
            "steps must be at most 1000000000000000000, got 10000",
        ),
        (["plan"], "both missing"),
        (["plan", "--models", "1000000000"], "models must be at most 1000000, got 1000000000"),
        (["plan", "--models", "400", "--delta", "0"], "delta must be strictly between 0 and 1, got 0"),
        (["plan", "--models", "400", "--confidence", "1"], "confidence must be .* got 1.0. Write 0.95"),
        (["plan", "--models", "1"], "models must be a whole number, 4 or more, got 1"),
        (["plan", "--models", "9", "--true-eps", "1", "--separation", "1"], "say the same"),
        (["plan", "--models", "9", "--true-eps", "nan"], "true_epsilon must be .* got nan"),
        (["rebound"], "rebound"),
    ],
)
def test_bad_input_ends_with_one_message_and_code_2(capsys, files, arguments, words):
    places = {"IN": files[0][0], "OUT": files[0][1]}
    with pytest.raises(SystemExit) as ended:
        main([places.get(argument, argument) for argument in arguments])
    captured = capsys.readouterr()
    said = captured.err + captured.out
    assert ended.value.code == 2
    assert re.search(words, re.sub(r"\s*│\s*", " ", said)), said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "inside scores are empty"),
        ("1\nnan\n", "1 NaN"),
        ("1,2\n3,4\n", r"shape \(2, 2\)"),
        ("a,b\n1,2\n", "'a', 'b'"),
    ],
)
def test_files_that_hold_no_scores_are_refused(capsys, files, tmp_path, content, words):
    bad = tmp_path / "bad.csv"
    bad.write_text(content)
    with pytest.raises(SystemExit) as ended:
        main(["bound", str(bad), files[0][1]])
    assert ended.value.code == 2
    assert re.search(words, capsys.readouterr().err)
