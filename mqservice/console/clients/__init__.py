"""Connected clients."""
