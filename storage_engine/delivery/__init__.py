"""Who has leased which message, what is settled, and consumer offsets with their journal."""
