"""Per-record scores by which the filter chooses: of a record's output, gradient and own history."""
