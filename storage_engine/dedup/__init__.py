"""Messages that are stored once, however often they are sent."""
