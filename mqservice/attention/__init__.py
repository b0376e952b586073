"""What needs attention in a namespace: one ranked list for the console's home and for REST."""
