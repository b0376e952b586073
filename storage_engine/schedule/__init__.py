"""Messages that are to come: which are due next, and how they get to their topics."""
