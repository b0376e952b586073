"""Topics as tenants configure them; the messages themselves are the engine's."""
