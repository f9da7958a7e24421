"""The paper's networks, each with its initialisation, and the check that a model treats records apart."""
