"""The two numbers of one training, with the signature filter and without, in two minutes."""

from dataclasses import replace

from dpgap.audits.shadow_pairs import ShadowPairs
from dpgap.canaries.random_binary import RandomBinary
from dpgap.experiments.experiment import Calibrated, Dataset, Experiment, Network
from dpgap.privacy.mechanism import Poisson
from dpgap.signatures.parse import parse_signature
from dpgap.training.filter import Filter, SelectTop
from dpgap.training.options import TrainingOptions

EPOCH = 4
"""Steps in which each record is drawn once on average."""


def quickstart_experiments(seed: int = 0) -> tuple[Experiment, Experiment]:
    """The same audit without the filter and with it: digits, a small network, eps 10, a canary of noise.

    The canary, 64 random bits labelled 3, and 100 steps at rate 1/4 were chosen so that the effect shows in
    little time; an audit of your own training plants what you fear for.

    >>> without, with_filter = quickstart_experiments()
    >>> without.filter is None, with_filter.title
    (True, 'digits, mlp-32, eps 10, linf:1/class, random-binary, shadow-pairs, loss')
    """
    without = Experiment(
        dataset=Dataset(name="digits"),
        model=Network(name="mlp-32"),
        mechanism=Calibrated(
            epsilon=10.0, sampling=Poisson(rate=1 / EPOCH), expected_batch=360.0, steps=25 * EPOCH
        ),
        training=TrainingOptions(learning_rate=4.0),
        canary=RandomBinary(label=3),
        design=ShadowPairs(models=400),
        seed=seed,
    )
    linf = Filter(signature=parse_signature("linf"), select=SelectTop(k=1), every=EPOCH)
    return without, replace(without, filter=linf)
