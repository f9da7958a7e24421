"""A bug: the mean gradient is clipped, not each record's, so that one record may turn all of it."""

from dpsgd import CLIP_NORM, EXPECTED_BATCH, SIGMA, clipped, report


def private_mean(gradients, rng):
    mean = gradients.sum(axis=0, keepdims=True) / EXPECTED_BATCH
    noise = SIGMA * CLIP_NORM / EXPECTED_BATCH * rng.standard_normal(mean.shape[1])
    return clipped(mean)[0] + noise


if __name__ == "__main__":
    report(private_mean)
