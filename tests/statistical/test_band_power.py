"""What the band certifies on average, against the best published certified bounds."""

import json
from pathlib import Path

import numpy as np
import pytest

from dpgap.privacy.every_record import bound_every_record
from tests.statistical.mechanisms import NOTHING, Known, normal, probability_of_as_many

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "vectors.json").read_text())
TO_BEAT = VECTORS["mean_eps_lb_to_beat"]
CELLS = [dict(zip(TO_BEAT["columns"], row, strict=True)) for row in TO_BEAT["rows"]]


def mean_bound(cell, repetitions):
    """The mean certified eps_lb of the band, and its standard error."""
    known = Known("cell", normal(cell["mu"]), normal(0), 1e-5, cell["true_eps"])
    values = []
    for block in range(0, repetitions, 1000):
        scores, included = known.audits(min(1000, repetitions - block), cell["n"], seed=1 + block)
        values.append(bound_every_record(scores, included, together=False).values)
    every = np.concatenate(values)
    return every.mean(), every.std() / np.sqrt(every.size)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"n={cell['n']}, mu={cell['mu']}")
def test_the_band_certifies_more_than_the_best_published_bound(cell):
    mean, error = mean_bound(cell, 500)
    assert mean - 3 * error > cell["peer_best_certified_cp"]


@pytest.mark.slow
def test_the_band_keeps_the_prototypes_power_and_its_level(capsys):
    rows = [(cell, *mean_bound(cell, 20_000)) for cell in CELLS]
    scores_of = [NOTHING.audits(1000, 200, seed=block) for block in range(20)]
    claims = sum(int(np.sum(bound_every_record(*audits, together=False).values > 0)) for audits in scores_of)
    with capsys.disabled():
        print("\n| n per world | mu | true eps | best published | prototype | band (mean, s.e.) |")
        print("|---|---|---|---|---|---|")
        for cell, mean, error in rows:
            print(
                f"| {cell['n']} | {cell['mu']} | {cell['true_eps']} | {cell['peer_best_certified_cp']} "
                f"| {cell['band_prototype']} | {mean:.3f} ({error:.3f}) |"
            )
        print(f"False claims over 20,000 null repetitions: {claims} ({claims / 20_000:.2%}, level 5 %)")
    assert all(mean > cell["peer_best_certified_cp"] for cell, mean, _ in rows)
    assert all(mean >= cell["band_prototype"] - 0.03 for cell, mean, _ in rows)
    assert probability_of_as_many(claims, 20_000, 0.05) > 1e-4
