"""The topics and groups of the store."""
