"""Training one model, with and without the filter: the readable definition of the method."""
