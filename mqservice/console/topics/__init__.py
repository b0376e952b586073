"""Topics: the list, one topic, its forms, its purge."""
