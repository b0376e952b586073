"""Live tail: the newest messages of a topic as they are stored, for people who look on."""
