"""How much a tenant may use: limits, metering, and what is left."""
