"""Failures by their cause: one issue for all dead letters of a group that failed for one reason."""
