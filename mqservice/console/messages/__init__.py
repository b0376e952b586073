"""Messages of a topic: search, one message with its trace, sending one."""
