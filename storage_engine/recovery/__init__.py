"""From the files that a stop left behind to a log with a clean end and queues that belong to it."""
