"""Control plane POSTs that are repeated with a key get the first response."""
