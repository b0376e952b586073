"""Open sockets of all web processes, and what is known of them."""
