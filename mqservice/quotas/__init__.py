"""How much of everything a tenant may use: limits, the counting of them, and what is left."""
