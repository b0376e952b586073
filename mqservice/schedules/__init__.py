"""Messages that are sent repeatedly, at times of a cron expression."""
