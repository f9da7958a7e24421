"""An experiment is its fields: they make its key, travel through files, and are refused by name."""

import json
import math
from dataclasses import fields, replace

import pytest

from dpgap.attacks.lira import LiRA
from dpgap.audits.every_record import CanaryThroughOthers, EveryRecord
from dpgap.audits.group import Group
from dpgap.audits.one_run import OneRun
from dpgap.audits.shadow_pairs import ShadowPairs
from dpgap.canaries.blank import Blank
from dpgap.canaries.interpolated import Interpolated
from dpgap.canaries.mislabelled import Mislabelled
from dpgap.canaries.random_binary import RandomBinary
from dpgap.data.augmentation import CropFlip
from dpgap.errors import IncomparableBounds, InvalidInput
from dpgap.experiments.converter import from_plain, to_plain
from dpgap.experiments.experiment import Calibrated, Dataset, Experiment, Network
from dpgap.experiments.spec import changed, expanded, read_experiments, to_json, to_toml
from dpgap.privacy.guesses import FixedGuesses, GuessGrid, HeldOutCanaries
from dpgap.privacy.mechanism import Adjacency, BallsInBins, Mechanism, Poisson, Shuffled
from dpgap.signatures.gradient import GradientNorm
from dpgap.signatures.history import DirectionalUniqueness
from dpgap.training.filter import Filter, SelectTop
from dpgap.training.options import PlainSGD, TrainingOptions
from tests.experiments.jobs import SPEC

SHUFFLED = Calibrated(
    epsilon=2.0,
    sampling=Shuffled(batch=100, records=1438),
    expected_batch=100.0,
    steps=30,
    adjacency=Adjacency.ZERO_OUT,
    accountant="rdp",
)
NOISY = Mechanism(
    sampling=BallsInBins(batches=15), clip_norm=2.0, noise_multiplier=1.5, expected_batch=96.0, steps=30
)
PLAIN = PlainSGD(sampling=Poisson(rate=0.1), expected_batch=144.0, steps=20)
FILTER = Filter(
    signature=GradientNorm(p=1, clipped=True),
    select=SelectTop(k=2, scope="global"),
    every=15,
    offset=3,
    stale="reset",
)
START = Experiment(
    dataset=Dataset(name="digits"),
    model=Network(name="logistic"),
    canary=Blank(label=3),
    mechanism=NOISY,
    training=TrainingOptions(learning_rate=0.5),
)
OTHERS = {
    "dataset": [Dataset(name="colored-mnist", majority=0.75), Dataset(name="own.npz", num_classes=3)],
    "model": [Network(name="logistic", seed=1), Network(name="mlp-32")],
    "mechanism": [SHUFFLED, PLAIN, replace(NOISY, noise_multiplier=1.25)],
    "training": [
        TrainingOptions(learning_rate=0.25),
        TrainingOptions(learning_rate=0.5, augmentation=CropFlip(padding=2), copies=3, delta=1e-6),
    ],
    "filter": [FILTER, replace(FILTER, signature=DirectionalUniqueness(public_seed=3))],
    "canary": [
        Blank(label=4),
        Interpolated(alpha=0.5),
        Mislabelled(image=2, label=5),
        RandomBinary(),
        RandomBinary(label=2),
    ],
    "design": [
        ShadowPairs(models=20),
        ShadowPairs(target=2.0),
        Group(size=3, models=8, score="lowest"),
        OneRun(canaries=50, guesses=GuessGrid(((1, 2), (3, 4)))),
        OneRun(canaries=50, guesses=FixedGuesses(k_in=3, k_out=0)),
        OneRun(canaries=50, guesses=HeldOutCanaries(share=0.25, seed=1)),
        CanaryThroughOthers(models=6),
    ],
    "attack": [LiRA(learning=0.25)],
    "confidence": [0.9],
    "seed": [7],
}
VARIED = [replace(START, **{name: value}) for name, values in OTHERS.items() for value in values]
VARIED.append(replace(START, canary=None, design=EveryRecord(models=12)))


def test_every_field_is_varied():
    assert set(OTHERS) == {field.name for field in fields(Experiment)}


@pytest.mark.parametrize("experiment", [START, *VARIED], ids=lambda experiment: experiment.title)
def test_files_give_back_what_was_written(experiment, tmp_path):
    for name, text in (("spec.toml", to_toml(experiment)), ("spec.json", to_json(experiment))):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert read_experiments(tmp_path / name) == [experiment]
    assert from_plain(to_plain(experiment)).key == experiment.key


def test_experiments_that_differ_have_different_keys():
    assert len({experiment.key for experiment in [START, *VARIED]}) == 1 + len(VARIED)


def test_equal_numbers_make_equal_keys():
    assert replace(START, training=TrainingOptions(learning_rate=1)).key == (
        replace(START, training=TrainingOptions(learning_rate=1.0)).key
    )


def test_the_key_is_pinned():
    """A change here means that no older run can be resumed: raise KEY_VERSION, on purpose only."""
    assert START.key == "382c98f8e3e29cf4e25a4d0ed0ef1a2d690905b3108893a0b2ba01857c75c376"
    assert (
        replace(START, filter=FILTER, design=OneRun(canaries=50), mechanism=SHUFFLED).key
        == "93f0ab6307445be2a7d1d3015bc835132f52032b825be816a5e4494b8e6d0ab7"
    )


def test_the_usual_values_that_keys_leave_out_are_pinned():
    usual = from_plain(SPEC)
    assert (usual.confidence, usual.seed, usual.model.seed, usual.attack.id) == (0.95, 0, 0, "loss")
    assert usual.training == TrainingOptions(
        learning_rate=4.0, augmentation=None, copies=1, precision="fp32", delta=1e-5
    )
    assert usual.filter == Filter(
        signature=GradientNorm(p=math.inf, clipped=False),
        select=SelectTop(k=1, scope="class"),
        every=10,
        offset=0,
        stale="keep",
    )
    assert ShadowPairs() == ShadowPairs(models=400, target=None)
    assert OneRun() == OneRun(canaries=1000, models=1, guesses=None)
    assert Group(size=2) == Group(size=2, models=400, score="highest")
    assert EveryRecord() == EveryRecord(models=256)
    assert RandomBinary() == RandomBinary(label=None, public_seed=42)
    assert Blank() == Blank(label=9)
    assert LiRA() == LiRA(learning=0.5)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("mechanism.stps=3", "mechanism: unknown key 'stps'. Did you mean steps?"),
        ("datset=digits", "unknown key 'datset'. Did you mean dataset?"),
        ("canary.kind=blnak", "canary: kind must be one of blank, interpolated,"),
        ("attack=los", "attack: kind must be one of lira, loss, got 'los'. Did you mean loss?"),
        ("mechanism.steps='30'", "mechanism.steps: must be a whole number, got '30'"),
        ("mechanism.steps=30.0", "mechanism.steps: must be a whole number, got 30.0"),
        ("mechanism.steps=true", "mechanism.steps: must be a whole number, got True"),
        ("mechanism.clip_norm=false", "mechanism.clip_norm: must be a number, got False"),
        ("mechanism.sampling=poisson", "mechanism.sampling.rate: is missing"),
        ("mechanism.sampling.rate=1.5", "mechanism.sampling: rate must be above 0 and at most 1, got 1.5"),
        ("training=3", "training: must be a table, got 3"),
        ("filter=linf:0", "filter: k must be a whole number, 1 or more, got 0"),
        ("filter=linff:3", "filter: signature must be one of linf,"),
        ("dataset=3", "dataset: must be a table, got 3"),
        ("design.models=3", "design: models must be even, got 3"),
        ("model.seed=1", "model.seed cannot be set: model is the short form 'logistic'"),
        ("no equals", "A change must look like mechanism.steps=30, got 'no equals'"),
        ("mechanism.adjacency=add", "mechanism.adjacency: must be one of add-remove, replace-one, zero-out"),
        ("design={kind = 'group', size = 2, score = 'best'}", "design.score: must be one of"),
        ("seed=-1", "seed must be a whole number, 0 or more, got -1"),
    ],
)
def test_a_mistake_is_refused_by_its_place(change, said):
    content = SPEC | {"canary": {"kind": "blank"}}
    with pytest.raises(InvalidInput) as refusal:
        expanded(changed(content, [change]))
    assert said in str(refusal.value)


def test_a_missing_field_is_named():
    with pytest.raises(InvalidInput, match="mechanism: is missing"):
        from_plain({name: value for name, value in SPEC.items() if name != "mechanism"})


def test_no_filter_is_a_short_form_too():
    """So that a sweep can compare with and without, and a flag can take a file's filter away."""
    swept = expanded(SPEC | {"sweep": {"filter": ["none", "linf:1/class"]}})
    assert [each.filter for each in swept] == [None, from_plain(SPEC).filter]


def test_a_sweep_is_every_combination():
    sweep = {"mechanism.noise_multiplier": [1.0, 2.0], "filter": ["linf:1/class", "l2:2/global"]}
    swept = expanded(SPEC | {"sweep": sweep})
    found = [(to_plain(each)["mechanism"]["noise_multiplier"], each.filter.select.k) for each in swept]
    assert found == [(1.0, 1), (1.0, 2), (2.0, 1), (2.0, 2)]


@pytest.mark.parametrize("sweep", [3, {"seed": 3}, {"seed": []}])
def test_a_sweep_without_lists_is_refused(sweep):
    with pytest.raises(InvalidInput, match="sweep must give a list of values for each path"):
        expanded(SPEC | {"sweep": sweep})


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("spec.toml", "dataset = ", "is no TOML"),
        ("spec.json", "{", "is no JSON"),
        ("spec.json", "[1]", "must hold an object, got list"),
        ("spec.yaml", "a: 1", "must be a .toml or .json file"),
        ("spec.toml", None, "cannot be read"),
    ],
)
def test_a_file_that_is_no_specification_is_refused(tmp_path, name, text, said):
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match=said):
        read_experiments(tmp_path / name)


def test_a_canary_is_given_exactly_where_one_is_planted():
    with pytest.raises(InvalidInput, match="'every-record' plants 0, got 'blank'"):
        replace(START, design=EveryRecord(models=12))
    with pytest.raises(InvalidInput, match="'shadow-pairs' plants 1, got none"):
        replace(START, canary=None)


def test_neighbours_that_the_design_does_not_compare_are_refused():
    with pytest.raises(IncomparableBounds, match="adjacency is 'replace-one'"):
        replace(START, mechanism=replace(NOISY, adjacency=Adjacency.REPLACE_ONE))
    with pytest.raises(IncomparableBounds, match="adjacency is 'zero-out'"):
        replace(START, mechanism=SHUFFLED, design=Group(size=2))


def test_the_noise_of_a_wanted_epsilon_is_the_least_that_proves_it():
    wanted = replace(START, mechanism=replace(SHUFFLED, adjacency=Adjacency.ZERO_OUT, accountant="pld"))
    assert wanted.upper_bound.value == pytest.approx(2.0, rel=1e-3)
    assert wanted.upper_bound.value <= 2.0
    assert replace(START, mechanism=PLAIN).upper_bound is None


def test_what_a_mechanism_refuses_is_refused_before_its_noise_is_searched():
    with pytest.raises(InvalidInput, match="steps must be a whole number"):
        replace(SHUFFLED, steps=0)


def test_json_has_no_infinity():
    unbounded = replace(START, filter=replace(FILTER, signature=GradientNorm(p=2)))
    assert "Infinity" not in to_json(unbounded)
    assert json.loads(to_json(unbounded))["filter"]["signature"] == {"kind": "gradient-norm", "p": 2.0}
