"""Consumer groups as tenants configure them; leases and offsets are the engine's."""
