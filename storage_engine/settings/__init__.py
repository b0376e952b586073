"""What topics and groups can be set to, and how queues are assigned."""
