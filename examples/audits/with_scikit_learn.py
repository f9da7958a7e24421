"""Audit a random forest, which promises nothing: how much does it betray of one mislabelled digit?"""

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dpgap


def train(x, y, seed):
    flat = FunctionTransformer(np.reshape, kw_args={"shape": (-1, 64)})
    return make_pipeline(flat, RandomForestClassifier(n_estimators=5, random_state=seed)).fit(x, y)


if __name__ == "__main__":
    found = dpgap.audit(
        train,
        dpgap.load("digits"),
        dpgap.Mislabelled(image=0, label=1),
        design=dpgap.ShadowPairs(models=100),
        store="forest.sqlite",
    )
    print(f"certified eps_lb {found.headline.value:.2f}, test accuracy {found.test_accuracy.mean:.1%}")
