"""Scheduled messages: which are due next, and how they get to their topics."""
