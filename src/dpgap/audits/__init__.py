"""Audits: who is in which model, and what the scores of those models certify; one design a file."""
