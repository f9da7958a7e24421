"""Audits from end to end: what is trained, by whom, how it is resumed, and what follows from the scores."""
