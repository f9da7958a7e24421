"""What is measured: speed on this machine, as ratios taken in one run."""
