"""Triton kernels of the fleet's step, each beside the torch code that it must equal."""
