"""Scores, their errors at every threshold, and the files they come from."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgap.errors import InvalidInput
from dpgap.privacy.counts import AuditScores, read_scores

SCORES = st.lists(st.floats(allow_nan=False), min_size=1, max_size=30)


@given(SCORES, SCORES)
def test_errors_are_those_of_the_test_inside_if_score_reaches_the_threshold(inside, outside):
    counts = AuditScores(inside, outside).errors()
    for threshold, positives, negatives in zip(
        counts.thresholds, counts.false_positives, counts.false_negatives, strict=True
    ):
        assert positives == sum(score >= threshold for score in outside)
        assert negatives == sum(score < threshold for score in inside)


@given(SCORES, SCORES)
def test_a_threshold_is_left_out_only_for_one_that_is_better(inside, outside):
    scores = AuditScores(inside, outside)
    kept, every = scores.errors(), scores.errors_at(sorted({*inside, *outside}))
    for positives, negatives in zip(every.false_positives, every.false_negatives, strict=True):
        assert np.any((kept.false_positives <= positives) & (kept.false_negatives <= negatives))


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ([], "inside scores are empty"),
        ([1.0, float("nan")], "inside scores hold 1 NaN, the first at position 1"),
        ([[1.0, 2.0]], r"shape \(1, 2\)"),
        (["a"], "inside scores must be numbers"),
    ],
)
def test_scores_that_are_no_scores_are_refused_by_name(scores, words):
    with pytest.raises(InvalidInput, match=words):
        AuditScores(scores, [1.0])


def test_a_split_is_a_partition_whatever_the_share():
    scores = AuditScores(range(10), range(100, 121))
    for share in (0.1, 0.5, 0.9):
        first, second = scores.split(share, np.random.default_rng(0))
        assert sorted([*first.inside, *second.inside]) == list(range(10))
        assert sorted([*first.outside, *second.outside]) == list(range(100, 121))
        assert second.outside.size == round(21 * share)


def test_too_few_scores_cannot_be_split():
    with pytest.raises(InvalidInput, match=r"inside has 1 scores, too few .* band"):
        AuditScores([1.0], [1.0, 2.0]).split(0.5, np.random.default_rng(0))


@pytest.fixture
def values():
    return [1.5, -2.0, float("inf")]


def test_every_kind_of_file_gives_the_same_scores(tmp_path, values):
    np.save(tmp_path / "a.npy", values)
    np.savez(tmp_path / "one.npz", anything=values)
    np.savez(tmp_path / "named.npz", score=values, other=[1])
    (tmp_path / "bare.csv").write_text("1.5\n-2\ninf\n")
    (tmp_path / "named.csv").write_text('model,score\n"a, first",1.5\nb,-2\nc,inf\n')
    (tmp_path / "one.csv").write_text("loss\n1.5\n-2\ninf\n")
    (tmp_path / "mark.csv").write_text("\ufeffscore\n1.5\n-2\ninf\n", encoding="utf-8")
    (tmp_path / "a.TXT").write_text("1.5\n-2\ninf\n")
    (tmp_path / "line.txt").write_text("1.5 -2 inf\n")
    (tmp_path / "list.json").write_text(json.dumps(values))
    (tmp_path / "named.json").write_text(json.dumps({"score": values, "seed": 1}))
    files = sorted(tmp_path.iterdir())
    assert len(files) == 11
    for file in files:
        assert read_scores(file).tolist() == values, file.name


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", "model,loss\n1,2\n", "holds 'model', 'loss'. Which one is the score"),
        ("a.csv", "1,2\n3,4\n", r"shape \(2, 2\)"),
        ("a.csv", "score\nabc\n", "not a file of numbers"),
        ("a.json", '{"a": [1], "b": [2]}', "holds 'a', 'b'"),
        ("a.json", "[1, 2", "not a file of numbers"),
        ("a.json", '["x"]', "not a file of numbers"),
        ("a.json", "[[1, 2]]", r"shape \(1, 2\)"),
        ("a.npz", "no archive", "not a file of numbers"),
        ("a.npy", "", "not a file of numbers"),
        ("a.txt", "1 two 3", "not a file of numbers"),
        ("a.txt", "1 2\n3 4\n", r"shape \(2, 2\)"),
        ("a.txt", "1\n#2\n", "not a file of numbers .*'#2'"),
        ("a.csv", "score\n1\n#2\n", "not a file of numbers .*'#2'"),
        ("a.csv", "score,score\n1,2\n", "holds 'score', 'score'"),
        ("a.csv", "score\n1,2\n", "header names 1 columns and its first row has 2"),
        ("a.csv", '"' + "a" * 200_000 + '"\n1\n', "not a file of numbers"),
        ("a.json", "[" * 100_000, "not a file of numbers"),
        ("a.json", "[1" + "0" * 400 + "]", "not a file of numbers"),
        ("a.parquet", "", "unknown kind of file '.parquet'"),
    ],
)
def test_a_file_of_another_shape_is_named_with_what_is_wrong(tmp_path, name, content, words):
    file = tmp_path / name
    file.write_text(content)
    with pytest.raises(InvalidInput, match=words) as refusal:
        read_scores(file)
    assert str(file) in str(refusal.value)


@pytest.mark.parametrize("kind", ["complex128", "datetime64[s]", "timedelta64[s]"])
def test_what_is_no_real_number_is_refused_and_not_cast(tmp_path, kind):
    wrong = np.ones(2).astype(kind)
    np.save(tmp_path / "a.npy", wrong)
    with pytest.raises(InvalidInput, match="of type " + kind.split("[")[0]):
        read_scores(tmp_path / "a.npy")
    with pytest.raises(InvalidInput, match="inside scores must be numbers"):
        AuditScores(wrong, [1.0])


@pytest.mark.parametrize("shape", [10**15, 10**30])
def test_a_header_that_promises_more_than_memory_is_refused(tmp_path, shape):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({shape},), }}".ljust(117) + "\n"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00\x76\x00" + header.encode())
    with pytest.raises(InvalidInput, match="not a file of numbers"):
        read_scores(tmp_path / "a.npy")


def test_a_broken_header_is_refused(tmp_path):
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00\x76\x00" + b"{(\n".ljust(118))
    with pytest.raises(InvalidInput, match="not a file of numbers"):
        read_scores(tmp_path / "a.npy")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"nowhere\.npy: cannot be read \(No such file"):
        read_scores(tmp_path / "nowhere.npy")


def test_nothing_is_unpickled(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidInput, match="not a file of numbers"):
        read_scores(tmp_path / "objects.npy")


@pytest.mark.parametrize("content", ["", "score\n", "\n\n"])
def test_a_file_without_scores_gives_none_and_the_audit_says_so(tmp_path, content):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(InvalidInput, match="inside scores are empty"):
        AuditScores(read_scores(tmp_path / "a.csv"), [1.0])
