"""Programs that work on a store's files: verify, dump, repair, backup, transfer."""
