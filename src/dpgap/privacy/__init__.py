"""The two numbers: what a run provably leaks, and what an attack was shown to cause."""
