"""What an auditor plants: rows made to be remembered, one kind a file."""
