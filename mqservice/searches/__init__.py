"""Searches that a namespace keeps under a name, for all who may read its messages."""
