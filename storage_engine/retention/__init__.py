"""What leaves the store: old segments, deleted topics and groups, purged messages."""
