"""Audit JAX training, which promises nothing: how much does it betray of a random image?"""

import jax
import jax.numpy as jnp

import dpgap


def loss(weights, x, y):
    logits = x.reshape(len(x), -1) @ weights
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1).mean()


@jax.jit
def step(weights, x, y):
    return weights - 0.5 * jax.grad(loss)(weights, x, y)


def train(x, y, seed):
    weights = jnp.zeros((64, 10))
    for key in jax.random.split(jax.random.key(seed), 100):
        rows = jax.random.choice(key, len(x), (64,))
        weights = step(weights, x[rows], y[rows])

    def score(x, y):
        logits = x.reshape(len(x), -1) @ weights
        return jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1)[:, 0]

    return score


if __name__ == "__main__":
    digits, canary = dpgap.load("digits"), dpgap.RandomBinary(label=3)
    design = dpgap.ShadowPairs(models=100)
    found = dpgap.audit(train, digits, canary, design=design, store="jax.sqlite")
    print(f"certified eps_lb {found.headline.value:.2f}")
