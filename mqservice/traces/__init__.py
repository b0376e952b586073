"""What happened to a message: its trace through topics, retries and dead letters."""
