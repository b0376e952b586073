"""What of the messages of a namespace is hidden from people who look at them in the console."""
