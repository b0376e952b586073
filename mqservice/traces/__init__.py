"""Where a message has been: its road through topics, retries and dead letters."""
