"""The commit log: how it is appended to, made durable and scanned, and which damage is known."""
