"""Which records have a key: hash files beside the log, followed, looked up in; derived from it."""
