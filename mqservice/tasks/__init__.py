"""Long work on behalf of a tenant: rows that say what is to be done and how far it has come."""
