"""Many models at once, as one network; equal to `dpgap.training.trainer`, and much faster."""
