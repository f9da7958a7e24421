"""Shapes are types, and the tests check them at run time."""

import jaxtyping
import numpy as np
import pytest

from dpgap.privacy.every_record import RecordBounds


def test_a_shape_that_breaks_its_type_is_caught():
    fields = {"delta": 0.0, "confidence": 0.95, "estimator": "", "rule": "", "together": True}
    three, two = np.zeros(3), np.zeros(2)
    RecordBounds(values=three, thresholds=three, n_inside=np.zeros(3, dtype=np.int64), **fields)
    with pytest.raises(jaxtyping.TypeCheckError, match="n_inside"):
        RecordBounds(values=three, thresholds=three, n_inside=two.astype(np.int64), **fields)
