"""``dpgap train`` as a user types it: what it writes, what it says, and what it refuses."""

import json
import resource

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from dpgap.cli import _install, main
from dpgap.cli import train as train_module
from dpgap.data.load import load
from dpgap.errors import InvalidInput
from dpgap.models.build import build_model
from dpgap.training.evaluate import accuracy
from dpgap.training.release import WEIGHTS

SHORT = "--epochs 2 --batch 360 --learning-rate 1 --epsilon 8"


def run(out, *more, dataset="digits", model="logistic", settings=SHORT):
    main(["train", "--dataset", dataset, "--model", model, "--out", str(out), *settings.split(), *more])


@pytest.fixture
def refused(capsys):
    """What a run that is refused says; it ends with exit code 2."""

    def message(*arguments, **options):
        with pytest.raises(SystemExit) as end:
            run(*arguments, **options)
        assert end.value.code == 2
        return " ".join(capsys.readouterr().err.split())

    return message


def test_a_run_writes_weights_and_statement_and_says_what_may_leave(tmp_path, capsys):
    run(tmp_path / "out", "--filter", "linf:2/class")
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        "statement.json",
        "weights.safetensors",
    ]
    statement = json.loads((tmp_path / "out" / "statement.json").read_text("utf-8"))
    assert statement["eps_ub"]["pld"] <= 8
    assert statement["planned_maximum_of_removals"] == 2 * 10 * 2
    assert statement["mechanism"]["sampling"]["rate"] == 360 / 1437
    assert statement["mechanism"]["steps"] == 2 * 4
    printed = capsys.readouterr().out
    may, may_not = printed.split("May not leave it:")
    assert "weights.safetensors" in may
    assert "statement.json" in may
    assert "the seed" in may_not
    assert "The seed was given" not in printed
    weights = {name: torch.from_numpy(value) for name, value in load_file(tmp_path / "out" / WEIGHTS).items()}
    right = accuracy(build_model("logistic", (1, 8, 8), 10, seed=0), weights, load("digits").test)
    assert f"Test accuracy {right:.2%};" in printed


def test_a_given_seed_gives_the_same_weights_and_is_warned_of(tmp_path, capsys):
    for name in ("one", "two"):
        run(tmp_path / name, "--seed", "5")
    assert "eps_ub holds only while it stays secret" in capsys.readouterr().out
    one, two = (load_file(tmp_path / name / "weights.safetensors") for name in ("one", "two"))
    assert all(np.array_equal(one[key], two[key]) for key in one)


def test_interrupted_the_same_command_goes_on(tmp_path, capsys, monkeypatch):
    from rich.progress import Progress

    real, out = Progress.update, tmp_path / "out"

    def interrupt(bar, task, *, completed):
        if completed == 6:
            raise KeyboardInterrupt
        return real(bar, task, completed=completed)

    monkeypatch.setattr(Progress, "update", interrupt)
    with pytest.raises(SystemExit) as end:
        run(out, "--seed", "5")
    assert end.value.code == 130
    assert "The same command goes on" in capsys.readouterr().err
    assert [file.name for file in out.iterdir()] == [train_module.CHECKPOINT]
    monkeypatch.setattr(Progress, "update", real)
    run(out, "--seed", "5")
    run(tmp_path / "whole", "--seed", "5")
    resumed, whole = (load_file(folder / "weights.safetensors") for folder in (out, tmp_path / "whole"))
    assert all(np.array_equal(resumed[key], whole[key]) for key in whole)
    assert not (out / train_module.CHECKPOINT).exists()


def test_a_release_that_could_not_be_written_is_not_trained_again(tmp_path, monkeypatch):
    def full(*_):
        raise InvalidInput("the disk is full")

    out = tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr("dpgap.training.release.save_release", full)
        with pytest.raises(SystemExit):
            run(out, "--seed", "5")
    monkeypatch.setattr("dpgap.training.trainer.advance", full)
    run(out, "--seed", "5")
    assert sorted(file.name for file in out.iterdir()) == ["statement.json", "weights.safetensors"]


def test_a_filter_that_removes_many_is_warned_of_in_plain_words(tmp_path, capsys):
    run(tmp_path / "out", "--filter", "linf:20/class")
    said = capsys.readouterr().err
    assert "Note: The filter is planned to remove up to 400 of 1437 records, more than 10%." in said
    assert "UserWarning" not in said


def test_a_disk_that_fills_up_while_saving_leaves_nothing_half_written(tmp_path, refused):
    """A limit on the size of a file stands in for a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
    try:
        said = refused(tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "could not be written: File too large. Nothing was left half-written; free" in said
    assert list((tmp_path / "out").iterdir()) == []


def test_a_release_is_never_overwritten(tmp_path, refused):
    (tmp_path / "statement.json").write_text("{}")
    assert "already holds statement.json" in refused(tmp_path)


def test_own_data_needs_a_public_size(tmp_path, refused):
    draws = np.random.default_rng(0)
    y = np.arange(60) % 2
    x = draws.normal(y[:, None], 1.0, (60, 3)).astype(np.float32)
    np.savez(tmp_path / "own.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    settings = "--epochs 1 --batch 20 --learning-rate 0.5 --epsilon 8 --num-classes 2"
    said = refused(tmp_path / "out", dataset=str(tmp_path / "own.npz"), settings=settings)
    assert "records is missing: your own data's size is private" in said
    run(tmp_path / "out", "--records", "64", dataset=str(tmp_path / "own.npz"), settings=settings)
    statement = json.loads((tmp_path / "out" / "statement.json").read_text("utf-8"))
    assert statement["mechanism"]["sampling"]["rate"] == 20 / 64


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"dataset": "mnits"}, "Did you mean mnist"),
        ({"model": "resnet"}, "model must be one of"),
        ({"settings": SHORT.replace("--batch 360", "--batch 3600")}, "rate must be above 0 and at most 1"),
        ({"settings": SHORT.replace("--batch 360", "--batch 0")}, "batch must be a whole number"),
        ({"settings": SHORT + " --filter linf:0"}, "k must be a whole number, 1 or more, got 0"),
        ({"settings": SHORT + " --filter lniff:5"}, "Did you mean linf"),
        ({"settings": SHORT.replace("--epsilon 8", "--epsilon 0")}, "epsilon"),
    ],
)
def test_bad_input_ends_with_one_message(tmp_path, refused, changed, said):
    message = refused(tmp_path / "out", **changed)
    assert said in message
    assert "training" not in message.split("dpgap:")[0]
    assert not (tmp_path / "out" / "weights.safetensors").exists()


def test_without_torch_it_says_what_to_install(tmp_path, refused, monkeypatch):
    monkeypatch.setattr(_install, "find_spec", lambda _: None)
    assert "pip install 'dpgap[train]'" in refused(tmp_path / "out")
