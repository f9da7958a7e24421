"""A bug: the noise for a mean is divided by the batch once more, as if it were the noise for a sum."""

from dpsgd import CLIP_NORM, EXPECTED_BATCH, SIGMA, clipped, report


def private_mean(gradients, rng):
    mean = clipped(gradients).sum(axis=0) / EXPECTED_BATCH
    noise = SIGMA * CLIP_NORM / EXPECTED_BATCH * rng.standard_normal(mean.shape)
    return mean + noise / EXPECTED_BATCH


if __name__ == "__main__":
    report(private_mean)
