"""Messages into the store: one or a batch, as JSON or raw, once or at a later time."""
