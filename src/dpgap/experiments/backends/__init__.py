"""Where an audit's models are trained, one backend a file."""
