"""The key index: hash files beside the log, derived from it, that find records by key."""
