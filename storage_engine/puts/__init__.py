"""The way of a message into the log and from there into its queue."""
