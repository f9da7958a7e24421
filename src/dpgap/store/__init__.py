"""One SQLite file of experiments, and who trains which of their models."""
