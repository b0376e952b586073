"""The commit log: appended to, made durable, scanned, and what is known to be damaged in it."""
