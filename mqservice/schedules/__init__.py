"""Messages that are sent again and again at times of a cron expression."""
