"""Live tail: the newest messages of a topic, shown as they are stored."""
