"""A bug: clipping without noise. Nothing is private, and accuracy is better than ever."""

from dpsgd import EXPECTED_BATCH, clipped, report


def private_mean(gradients, rng):
    return clipped(gradients).sum(axis=0) / EXPECTED_BATCH


if __name__ == "__main__":
    report(private_mean)
